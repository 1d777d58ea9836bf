//! `configure`: the repository's folder, and `path.repo` in the server's configuration (procedure, 4.1 steps 1 and 2).

mod folder;
mod path_repo;

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing, Previous};
use svc_step::lock::Lock;
use svc_step::user::OsUser;
use svc_step::{Call, Failure, StepResult, Stopped};

use self::folder::{Folder, check_rights};
use self::path_repo::{Edited, Refused};

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
    /// The configuration file as it was before, kept here; `null` where it was right already.
    pub kept: Option<String>,
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
    let text = file::read_text("read the server's configuration", &config, LARGEST)?;
    let edited = path_repo::add(&text, &location.display().to_string()).map_err(|refused| not_understood(&config, &refused))?;
    let folder = Folder { path: &location, user: &user };
    let todo = folder.look()?;
    let altered = edited.text != text;
    let run = call.run_id();
    let name = |number| if number == 1 { format!(".before-{run}") } else { format!(".before-{run}.{number}") };
    let kept = altered.then(|| Previous::plan(&config, text.as_bytes(), name)).transpose()?;
    let mut plan = folder.plan(&todo);
    if let Some(kept) = &kept {
        plan.push(Action::file(&kept.path, "keep the configuration as it is"));
        plan.push(Action::file(&config, format!("set path.repo to {}", edited.folders.join(", "))));
    }
    let configured = Configured {
        location: location.display().to_string(),
        os_user: user.name.clone(),
        config: config.display().to_string(),
        path_repo: edited.folders.clone(),
        kept: kept.as_ref().map(Previous::display),
        restart_needed: altered,
        plan,
    };
    if args.dry.dry_run || configured.plan.is_empty() {
        return Ok(configured);
    }
    check_rights(&user)?;
    let done = folder.act(call, &todo).and_then(|()| kept.map_or(Ok(()), |kept| write(call, &config, &kept, &text, &edited)));
    match done {
        Ok(()) => Ok(configured),
        Err(failure) => {
            let restart_needed = fs::read_to_string(&config).is_ok_and(|text| text == edited.text);
            let kept = configured.kept.filter(|kept| Path::new(kept).exists());
            Err(Stopped::with(failure, Configured { restart_needed, kept, ..configured }))
        }
    }
}

fn location(given: &Path) -> Result<PathBuf, Failure> {
    let plain = given.is_absolute() && !given.components().any(|part| part == std::path::Component::ParentDir);
    // Collecting the components takes a slash at the end and doubled ones away.
    let location: PathBuf = given.components().collect();
    if plain && location.to_str().is_some_and(|text| !text.contains(',') && !text.chars().any(char::is_control)) {
        Ok(location)
    } else {
        Err(Failure::usage("location_not_absolute", "The repository's folder is not named by a plain absolute path.")
            .hint("Write --location (SVC_BACKUP_REPO) as /DIR/backup_repo, without .. and commas."))
    }
}

fn config(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return file::absolute(given);
    }
    let mut there = PLACES.into_iter().map(PathBuf::from).filter(|place| place.exists());
    if let (Some(one), None) = (there.next(), there.next()) {
        return Ok(one);
    }
    let message = format!("Which configuration file is meant is not clear: of {} there is not just one.", PLACES.join(" and "));
    Err(Failure::not_found("search_config_not_found", message).hint("Name it with --config (SVC_SEARCH_CONFIG)."))
}

fn os_user(args: &ConfigureArgs, config: &Path) -> Result<String, Failure> {
    let by_name =
        config.file_stem().and_then(|stem| stem.to_str()).filter(|stem| matches!(*stem, "elasticsearch" | "opensearch"));
    args.os_user.clone().or_else(|| by_name.map(str::to_owned)).ok_or_else(|| {
        Failure::usage("search_os_user_missing", "Nothing says whom the server runs as.")
            .hint("Pass --os-user (SVC_SEARCH_OS_USER).")
    })
}

fn not_understood(config: &Path, refused: &Refused) -> Failure {
    let message = format!("{} is not changed: {}.", config.display(), refused.why);
    Failure::refused("search_config_not_understood", message).hint(format!(
        "Write this line into it in place of its path.repo, with all folders that are to stay, and run the same command again:\n  {}",
        refused.line
    ))
}

/// The file before is kept first; the new one has its rights.
fn write(call: &Call, config: &Path, kept: &Previous, text: &str, edited: &Edited) -> Result<(), Failure> {
    // A link is followed: the file that it leads to is the configuration.
    let target = fs::canonicalize(config).map_err(|error| Failure::io("write the server's configuration", config, &error))?;
    kept.keep(&target, text.as_bytes())?;
    call.effects().happened();
    file::write_whole(&target, edited.text.as_bytes(), 0o600, Existing::ReplaceInUse)
}
