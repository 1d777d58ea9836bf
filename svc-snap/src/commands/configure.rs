//! `configure`: the repository's folder, and `path.repo` in the server's configuration (procedure, 4.1 steps 1 and 2).

use std::ffi::CString;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use nix::unistd::{Gid, geteuid, getgrouplist};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing, Previous};
use svc_step::lock::Lock;
use svc_step::user::OsUser;
use svc_step::{Call, Failure, StepResult, Stopped};

use super::path_repo;

/// A configuration file is not larger.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Where the vendors' packages have it.
const PLACES: [&str; 2] = ["/etc/elasticsearch/elasticsearch.yml", "/etc/opensearch/opensearch.yml"];

/// Arguments of `svc-snap configure`.
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

/// A folder and a configuration that are ready for a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configured {
    /// The repository's folder.
    pub location: String,
    /// Whom it belongs to.
    pub os_user: String,
    /// The configuration file.
    pub config: String,
    /// What its `path.repo` names now, or would name.
    pub path_repo: Vec<String>,
    /// The previous configuration file; `null` where it was right already.
    pub previous: Option<String>,
    /// Whether the configuration was changed, so that the server must be restarted to know it.
    pub restart_needed: bool,
    /// What is done; empty where all is so already.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &ConfigureArgs, call: &Call) -> StepResult<Configured> {
    let location = location(&args.location)?;
    let config = config(args.config.as_deref())?;
    let user = OsUser::named(&os_user(args, &config)?)?;
    let _lock = Lock::unless_dry(call, "search-config", &config.display().to_string(), args.dry.dry_run)?;
    let todo = Todo::find(&location, &user)?;
    let text = file::read_text("read the server's configuration", &config, LARGEST)?;
    let edited = path_repo::add(&text, &location.display().to_string()).map_err(|refused| {
        let message = format!("{} is not changed: {}.", config.display(), refused.why);
        Failure::refused("search_config_not_understood", message).hint(format!(
            "Write this line into it in place of its path.repo, with all folders that are to stay, and run the same command again:\n  {}",
            refused.line
        ))
    })?;
    let is_edited = edited.text != text;
    let run = call.run_id();
    let name = |number| if number == 1 { format!(".before-{run}") } else { format!(".before-{run}.{number}") };
    let previous = is_edited.then(|| Previous::plan(&config, text.as_bytes(), name)).transpose()?;
    let mut plan: Vec<Action> = todo.make.iter().map(|folder| Action::file(folder, "create the folder")).collect();
    if !todo.chown.is_empty() {
        plan.push(Action::file(&location, format!("chown to {}, with all that is in it", user.name)));
    }
    if let Some(previous) = &previous {
        plan.push(Action::file(&previous.path, "keep the configuration as it is"));
        plan.push(Action::file(&config, format!("set path.repo to {}", edited.folders.join(", "))));
    }
    let configured = Configured {
        location: location.display().to_string(),
        os_user: user.name.clone(),
        config: config.display().to_string(),
        path_repo: edited.folders,
        previous: previous.as_ref().map(Previous::display),
        restart_needed: is_edited,
        plan,
    };
    if args.dry.dry_run || configured.plan.is_empty() {
        return Ok(configured);
    }
    if !geteuid().is_root() && !user.is_current() {
        return Err(Failure::refused("not_root", format!("Only root can give a folder to the user {}.", user.name))
            .hint("Run the command with sudo.")
            .into());
    }
    let done = todo.act(call, &location, &user).and_then(|()| match &previous {
        Some(previous) => write(call, &config, previous, &text, &edited.text),
        None => Ok(()),
    });
    done.map_err(|failure| {
        let restart_needed = fs::read_to_string(&config).is_ok_and(|text| text == edited.text);
        let previous = configured.previous.clone().filter(|previous| Path::new(previous).exists());
        Stopped::with(failure, Configured { restart_needed, previous, ..configured.clone() })
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
    Err(Failure::usage("location_invalid", "The repository's folder is not named by a plain absolute path.")
        .hint("Write --location (SVC_BACKUP_REPO) as /DIR/backup_repo, without .. and commas."))
}

fn config(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return file::absolute(given);
    }
    let mut there = PLACES.into_iter().map(PathBuf::from).filter(|place| place.exists());
    if let (Some(one), None) = (there.next(), there.next()) {
        return Ok(one);
    }
    let message = format!("The configuration file is not known: not exactly one of {} exists.", PLACES.join(" and "));
    Err(Failure::not_found("search_config_not_found", message).hint("Name it with --config (SVC_SEARCH_CONFIG)."))
}

fn os_user(args: &ConfigureArgs, config: &Path) -> Result<String, Failure> {
    let stem = config.file_stem().and_then(|stem| stem.to_str());
    let by_name = stem.filter(|stem| matches!(*stem, "elasticsearch" | "opensearch")).map(str::to_owned);
    args.os_user.clone().or(by_name).ok_or_else(|| {
        Failure::usage("search_os_user_missing", "The user that the server runs as is not known.")
            .hint("Pass --os-user (SVC_SEARCH_OS_USER).")
    })
}

/// The previous file is kept first; the new one has its rights.
fn write(call: &Call, config: &Path, previous: &Previous, text: &str, edited: &str) -> Result<(), Failure> {
    // A link is followed: the file that it leads to is the configuration.
    let target = fs::canonicalize(config).map_err(|error| Failure::io("write the server's configuration", config, &error))?;
    previous.keep(&target, text.as_bytes())?;
    call.effects().happened();
    file::write_whole(&target, edited.as_bytes(), 0o600, Existing::ReplaceInUse)
}

/// What has to be done to the folder: it exists, the server's user owns it and all that is in it, and can reach it.
#[derive(Debug, Default)]
struct Todo {
    /// Parents that do not exist yet, outermost first, and then the folder itself.
    make: Vec<PathBuf>,
    /// What in it is another user's.
    chown: Vec<PathBuf>,
}

impl Todo {
    /// # Errors
    /// It is directly under /tmp, no folder, or below one that the user cannot pass (3).
    fn find(location: &Path, user: &OsUser) -> Result<Self, Failure> {
        let unusable = |message: String, hint: String| Failure::refused("location_unusable", message).hint(hint);
        if location.parent().is_none_or(|parent| parent == Path::new("/tmp")) {
            let hint = "The system empties /tmp when it starts, and a unit may have one of its own; name a folder such as /var/backups/search/backup_repo.";
            return Err(unusable(format!("{} is no place for backups.", location.display()), hint.to_owned()));
        }
        let mut todo = Self::default();
        for folder in location.ancestors() {
            let shown = folder.display();
            match fs::metadata(folder) {
                Ok(meta) if !meta.is_dir() => {
                    return Err(unusable(format!("{shown} is no folder."), "Name another place with --location.".to_owned()));
                }
                Ok(meta) if folder != location && !may_pass(user, &meta) => {
                    let message = format!("The user {} cannot pass {shown}, so it would not reach the repository.", user.name);
                    return Err(unusable(
                        message,
                        format!("Open it (chmod o+x {shown}), or name a folder elsewhere with --location."),
                    ));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => todo.make.insert(0, folder.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(Failure::io("inspect the repository's folder", folder, &error)),
            }
        }
        if todo.make.is_empty() {
            todo.find_others(location, user)?;
            let is_others = todo.chown.iter().any(|path| path != location && !path.ends_with("lost+found"));
            if is_others && !is_repository(location) {
                let hint = "Name the repository's own folder, which need not exist: its owner becomes the server's user, with all that is in it.";
                return Err(unusable(format!("{} holds other files than a repository.", location.display()), hint.to_owned()));
            }
        } else {
            todo.chown.push(location.to_owned());
        }
        Ok(todo)
    }

    /// What is another user's, the folder itself and a link as such among it.
    fn find_others(&mut self, path: &Path, user: &OsUser) -> Result<(), Failure> {
        let fault = |error: io::Error| Failure::io("list the repository's folder", path, &error);
        let meta = fs::symlink_metadata(path).map_err(fault)?;
        if meta.uid() != user.uid.as_raw() {
            self.chown.push(path.to_owned());
        }
        if meta.is_dir() {
            for entry in fs::read_dir(path).map_err(fault)? {
                self.find_others(&entry.map_err(fault)?.path(), user)?;
            }
        }
        Ok(())
    }

    fn act(&self, call: &Call, location: &Path, user: &OsUser) -> Result<(), Failure> {
        for folder in &self.make {
            // Parents are for everybody to pass; the repository itself is for its owner.
            let mode = if folder == location { 0o750 } else { 0o755 };
            match fs::DirBuilder::new().mode(mode).create(folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(|error| Failure::io("create the repository's folder", folder, &error))?,
            }
            call.effects().happened();
            // The caller's umask would close a parent to the server (scripts have 077).
            fs::set_permissions(folder, fs::Permissions::from_mode(mode))
                .map_err(|error| Failure::io("open the folder", folder, &error))?;
        }
        for path in &self.chown {
            lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .map_err(|error| Failure::io("give the repository's folder to the server's user", path, &error))?;
            call.effects().happened();
        }
        Ok(())
    }
}

/// Whether a server has written snapshots there.
fn is_repository(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("index-") || name == "index.latest"))
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
