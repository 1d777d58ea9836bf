//! `configure`: the repository's directory, and `path.repo` in the server's configuration (procedure, 4.1 steps 1 and 2).

mod path_repo;

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use nix::unistd::{Gid, geteuid, getgrouplist};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::child::{self, Captured};
use svc_step::file::{Existing, Previous};
use svc_step::reporter::shell_quoted;
use svc_step::{Action, Call, DryRun, Failure, Lock, OsUser, StepResult, Stopped, file};

const LARGEST: u64 = 4 * 1024 * 1024;
/// Where the vendors' packages have it.
const CONFIG_FILES: [&str; 2] = ["/etc/elasticsearch/elasticsearch.yml", "/etc/opensearch/opensearch.yml"];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  svc-snap configure --location /var/backups/search/backup_repo && systemctl restart opensearch"
)]
pub struct ConfigureArgs {
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_REPO")]
    location: PathBuf,
    #[arg(long, value_name = "FILE", env = "SVC_SEARCH_CONFIG")]
    config: Option<PathBuf>,
    #[arg(long, value_name = "USER", env = "SVC_SEARCH_OS_USER")]
    os_user: Option<String>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A directory and a configuration that are ready for a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configured {
    pub location: String,
    pub os_user: String,
    pub config: String,
    /// What its `path.repo` names now, or would name.
    pub path_repo: Vec<String>,
    /// The previous configuration file; `null` if it was right already. Else the server must be restarted to know the new one.
    pub previous: Option<String>,
    /// The changes; empty if there is nothing to change.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &ConfigureArgs, call: &Call) -> StepResult<Configured> {
    let location = location(&args.location)?;
    let config = config(args.config.as_deref())?;
    // The packages name the file after the user.
    let stem = config.file_stem().unwrap_or_default().to_string_lossy();
    let user = OsUser::named(args.os_user.as_deref().unwrap_or(&stem))
        .map_err(|failure| failure.hint("Name the user that the server runs as: --os-user (SVC_SEARCH_OS_USER)."))?;
    let _lock = Lock::unless_dry(call, "search-config", &config.display().to_string(), args.dry.dry_run)?;
    let todo = Todo::find(&location, &user)?;
    let text = file::read_text("read the server's configuration", &config, LARGEST)?;
    let (edited, folders) = path_repo::with_folder(&text, &location.display().to_string()).map_err(|(why, line)| {
        let message = format!("{} is not changed: {why}.", config.display());
        Failure::refused("settings_invalid", message).hint(format!(
            "Write this line into it in place of its path.repo, with all directories that are to stay, and run the same command again:\n  {line}"
        ))
    })?;
    let is_edited = edited != text;
    let name = format!(".before-{}", call.run_id());
    let previous = is_edited.then(|| Previous::plan_named(&config, text.as_bytes(), &name)).transpose()?;
    let mut plan: Vec<Action> = todo.make.iter().map(|folder| Action::file(folder, "create the directory")).collect();
    if !todo.chown.is_empty() {
        plan.push(Action::file(&location, format!("chown to {}, with all that is in it", user.name)));
    }
    if let Some(previous) = &previous {
        plan.push(Action::file(&previous.path, "copy the configuration as it is"));
        plan.push(Action::file(&config, format!("set path.repo to {}", folders.join(", "))));
    }
    let configured = Configured {
        location: location.display().to_string(),
        os_user: user.name.clone(),
        config: config.display().to_string(),
        path_repo: folders,
        previous: previous.as_ref().map(Previous::display),
        plan,
    };
    if args.dry.dry_run || configured.plan.is_empty() {
        return Ok(configured);
    }
    if !geteuid().is_root() && !user.is_current() {
        return Err(Failure::refused("permission_denied", format!("Only root can give a directory to the user {}.", user.name))
            .hint("Run the command with sudo.")
            .into());
    }
    let done = todo.act(call, &location, &user).and_then(|()| match &previous {
        Some(previous) => write(call, &config, previous, &text, &edited),
        None => Ok(()),
    });
    done.map_err(|failure| {
        let previous = configured.previous.clone().filter(|previous| Path::new(previous).exists());
        Stopped::with(failure, Configured { previous, ..configured.clone() })
    })?;
    Ok(configured)
}

fn location(given: &Path) -> Result<PathBuf, Failure> {
    let is_plain = given.is_absolute() && !given.components().any(|part| part == Component::ParentDir);
    // Collecting the components removes a slash at the end and doubled ones.
    let location: PathBuf = given.components().collect();
    if is_plain && location.to_str().is_some_and(|text| !text.contains(',') && !text.chars().any(char::is_control)) {
        return Ok(location);
    }
    Err(Failure::usage("options_invalid", "The repository's directory is not named by a plain absolute path.")
        .hint("Write --location (SVC_BACKUP_REPO) as /DIR/backup_repo, without .. and commas."))
}

fn config(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return file::absolute(given);
    }
    let mut there = CONFIG_FILES.into_iter().map(PathBuf::from).filter(|place| place.exists());
    if let (Some(one), None) = (there.next(), there.next()) {
        return Ok(one);
    }
    let message = format!("The configuration file is not known: not exactly one of {} exists.", CONFIG_FILES.join(" and "));
    Err(Failure::not_found("settings_invalid", message).hint("Name it with --config (SVC_SEARCH_CONFIG)."))
}

/// The previous file is copied first; the new one has its rights.
fn write(call: &Call, config: &Path, previous: &Previous, text: &str, edited: &str) -> Result<(), Failure> {
    // A link is followed: the file that it leads to is the configuration.
    let target = fs::canonicalize(config).map_err(|error| Failure::io("write the server's configuration", config, &error))?;
    previous.keep(&target, text.as_bytes())?;
    call.effects().happened();
    file::write_complete(&target, edited.as_bytes(), 0o600, Existing::ReplaceInUse)
}

/// What has to be done to the folder: it exists, the server's user owns it and all that is in it, and can reach it.
#[derive(Debug, Default)]
struct Todo {
    /// Parents that do not exist yet, outermost first, and then the directory itself.
    make: Vec<PathBuf>,
    /// What in it is another user's.
    chown: Vec<PathBuf>,
}

impl Todo {
    /// Errors: It is directly under /tmp, not a directory, or below one that the user cannot pass (3).
    fn find(location: &Path, user: &OsUser) -> Result<Self, Failure> {
        let unusable = |message: String, hint: String| Failure::refused("repository_unusable", message).hint(hint);
        if location.parent().is_none_or(|parent| parent == Path::new("/tmp")) {
            let hint = "The system empties /tmp when it starts, and a unit may have one of its own; name a directory such as /var/backups/search/backup_repo.";
            return Err(unusable(format!("{} is not a place for backups.", location.display()), hint.to_owned()));
        }
        let mut todo = Self::default();
        for folder in location.ancestors() {
            let shown = folder.display();
            match fs::metadata(folder) {
                Ok(meta) if !meta.is_dir() => {
                    return Err(unusable(
                        format!("{shown} is not a directory."),
                        "Name another place with --location.".to_owned(),
                    ));
                }
                Ok(meta) if folder != location && !may_pass(user, &meta) => {
                    let message = format!("The user {} cannot enter {shown}, so it would not reach the repository.", user.name);
                    return Err(unusable(
                        message,
                        format!(
                            "Open it (chmod a+x {}), or name a directory elsewhere with --location.",
                            shell_quoted(&[shown.to_string()])
                        ),
                    ));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => todo.make.insert(0, folder.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(Failure::io("inspect the repository's directory", folder, &error)),
            }
        }
        if todo.make.is_empty() {
            let real = real(location)?;
            others(&real, user, &mut todo.chown)?;
            let is_others = todo.chown.iter().any(|path| *path != real && !path.ends_with("lost+found"));
            if is_others && !is_repository(location) {
                let hint = "Name the repository's own directory, which need not exist: its owner becomes the server's user, with all that is in it.";
                return Err(unusable(format!("{} holds files of something else.", location.display()), hint.to_owned()));
            }
        } else {
            todo.chown.push(location.to_owned());
        }
        Ok(todo)
    }

    fn act(&self, call: &Call, location: &Path, user: &OsUser) -> Result<(), Failure> {
        file::create_folder(call.effects(), location, file::REPOSITORY)?;
        if self.chown.is_empty() {
            return Ok(());
        }
        // With these options it follows no link, not even one that the server's user puts there meanwhile.
        let mut chown = Command::new("chown");
        chown.args(["-R", "-P", "-h", &format!("{}:{}", user.uid, user.gid), "--"]).arg(real(location)?);
        let attempt = call.effects().attempt();
        let Captured { status, stderr, .. } = child::capture(call, &mut chown)?;
        attempt.happened();
        if status.success() {
            return Ok(());
        }
        let message = format!("chown could not give {} to the user {}.", location.display(), user.name);
        let failure = Failure::refused("permission_denied", message).hint("Run the command with sudo.");
        Err(stderr.lines().fold(failure, Failure::cause))
    }
}

/// The directory that a link leads to.
fn real(location: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(location).map_err(|error| Failure::io("inspect the repository's directory", location, &error))
}

/// What is another user's: the directory itself, and all that is in it; a link as such.
fn others(folder: &Path, user: &OsUser, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let fault = |error: io::Error| Failure::io("list the repository's directory", folder, &error);
    if fs::symlink_metadata(folder).map_err(fault)?.uid() != user.uid.as_raw() {
        found.push(folder.to_owned());
    }
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let meta = entry.metadata().map_err(fault)?;
        if meta.is_dir() {
            others(&entry.path(), user, found)?;
        } else if meta.uid() != user.uid.as_raw() {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Whether a server has written snapshots there.
fn is_repository(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_number = |name: &str| name.strip_prefix("index-").is_some_and(|number| number.parse::<u64>().is_ok());
    entries.any(|entry| entry.file_name().to_str().is_some_and(|name| is_number(name) || name == "index.latest"))
}

/// The rights that the kernel would find, by the permission bits.
fn may_pass(user: &OsUser, meta: &fs::Metadata) -> bool {
    let groups = || getgrouplist(&CString::new(user.name.as_str()).unwrap_or_default(), user.gid).unwrap_or_default();
    let bit = if user.uid.is_root() {
        return true;
    } else if meta.uid() == user.uid.as_raw() {
        0o100
    } else if meta.gid() == user.gid.as_raw() || groups().contains(&Gid::from_raw(meta.gid())) {
        0o010
    } else {
        0o001
    };
    meta.mode() & bit != 0
}
