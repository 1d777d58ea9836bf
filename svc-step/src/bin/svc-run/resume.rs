//! `--resume`: which run, and how it was called. Its steps that are ok are passed over.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use svc_step::Failure;
use svc_step::journal::{self, Journal, Plan};

use svc_step::reporter::shell_quoted;
use svc_step::secret::REDACTED;

use super::arguments::SuperviseArgs;
use super::{command_line, query, status};

/// A run that is to be resumed.
pub struct Resumed {
    pub journal: Journal,
    /// What the script was called with each time, and what is added now.
    pub arguments: Vec<OsString>,
    /// Where it was called.
    pub directory: PathBuf,
    /// The private values that are passed now.
    pub private: Vec<String>,
    /// The run had private arguments, and none are passed now.
    pub private_lost: bool,
    /// It stayed on its terminal.
    pub attached: bool,
    /// The settings as the run had them, if nothing sets them now.
    pub settings: Vec<(String, String)>,
}

/// Finds the run, and whether it can be resumed: after its point of no return, and not if a rollback has undone it.
/// Errors: there is no such run (4), it is another script's (2), it ended well or has changed nothing (3), was rolled back or
/// replaced (3).
pub fn open(args: &SuperviseArgs, script: &str, asked: &str, state_dir: &Path) -> Result<Resumed, Failure> {
    if !args.resumable {
        let again = shell_quoted(&[command_line::program(&args.script)]);
        return Err(
            Failure::usage("not_resumable", format!("{script} has nothing to resume.")).hint(format!("Run it again:\n  {again}"))
        );
    }
    let journal = find(script, asked, state_dir)?;
    let id = journal.id();
    let plan = journal.plan();
    if journal.script() != script {
        return Err(Failure::usage("not_resumable", format!("The run {id} is not a run of {script}."))
            .hint(format!("What to run next:\n  svc-run status {id}")));
    }
    if journal.is_ok() {
        return Err(Failure::refused("not_resumable", format!("The run {id} ended well: nothing is left to do."))
            .hint(format!("svc-run status {id}")));
    }
    if let Some(rollback) = status::rolled_back_by(state_dir, &journal) {
        return Err(Failure::refused("not_resumable", format!("The run {id} was rolled back by the run {}.", rollback.id()))
            .hint(format!("svc-rollback --status {}", rollback.id())));
    }
    if let Some(later) = journal.replaced_by() {
        let message = format!("A later run, {}, changed the service since, or was called with --ignore-unfinished.", later.id());
        return Err(Failure::refused("not_resumable", message).hint(format!("svc-run status {}", later.id())));
    }
    if journal.notes().commit.is_none() {
        return Err(Failure::refused(
            "not_resumable",
            format!("The run {id} ended before its point of no return: nothing is left to resume."),
        )
        .hint(command_line::hint(&plan)));
    }
    let plans = journal.plans();
    let had_private = plans.iter().any(|plan| !command_line::private_values(&plan.arguments, &args.private).is_empty());
    let now = args.script.get(1..).unwrap_or_default();
    let mut arguments: Vec<OsString> = plans.iter().flat_map(command_line::without_redacted).map(OsString::from).collect();
    let private = command_line::private_values(&command_line::texts(&args.script), &args.private);
    // A file that is named now is named from where the caller stands now; the script runs where it was called first.
    let named = command_line::absolute(&command_line::texts(now), &command_line::here().display().to_string());
    arguments.extend(now.iter().zip(named).map(|(word, named)| word.to_str().map_or_else(|| word.clone(), |_| named.into())));
    let last = |is_it: fn(&str) -> bool| arguments.iter().rposition(|one| one.to_str().is_some_and(is_it));
    if last(|one| one == "--uninstall" || one.starts_with("--uninstall=")) > last(|one| one == "--no-uninstall") {
        arguments.retain(|one| one != "--no-uninstall");
    }
    Ok(Resumed {
        directory: Some(PathBuf::from(&plan.directory))
            .filter(|directory| directory.is_dir())
            .unwrap_or_else(|| PathBuf::from("/")),
        arguments,
        private_lost: had_private && private.is_empty(),
        private,
        attached: is_attached(&plan),
        settings: settings(&plan),
        journal,
    })
}

/// The named run, or the newest of the script that passed its point of no return and did not end well. A run that another one of the same
/// script has made (a hop) is resumed by that one.
fn find(script: &str, asked: &str, state_dir: &Path) -> Result<Journal, Failure> {
    if !asked.is_empty() {
        // Another state directory may be that of another service.
        let is_of_here =
            |run: &Journal| Journal::of(state_dir, run.id()).dir().canonicalize().ok() == run.dir().canonicalize().ok();
        let found = journal::named(state_dir, asked).filter(is_of_here);
        return found.ok_or_else(|| query::not_found(state_dir, &format!(" {asked}")));
    }
    let of_script: Vec<Journal> = journal::runs_of(state_dir, script).collect();
    let newest = of_script
        .iter()
        .find(|run| run.notes().commit.is_some())
        .filter(|run| !run.is_ok())
        .or_else(|| of_script.first())
        .ok_or_else(|| query::not_found(state_dir, &format!(" of {script}")))?;
    let outer = newest.plan().parent.and_then(|parent| of_script.iter().find(|run| run.id() == parent));
    Ok(outer.filter(|outer| !outer.is_ok()).unwrap_or(newest).clone())
}

/// Whether the run that is to be resumed stayed on its terminal: its installer may ask again.
pub fn stays_attached(args: &SuperviseArgs, script: &str) -> bool {
    let asked = args.resume.as_ref();
    let run = asked.and_then(|asked| find(script, asked, &super::query::state_dir()).ok());
    run.is_some_and(|run| is_attached(&run.plan()))
}

fn is_attached(plan: &Plan) -> bool {
    plan.arguments.iter().any(|word| word == "--attached")
}

/// What neither the environment nor the settings file says is as the run had it, and so is the place of its restore point.
fn settings(plan: &Plan) -> Vec<(String, String)> {
    let is_kept = |name: &str| name == "SVC_BACKUP_DIR" || svc_step::settings::variable(name).is_none();
    recorded(plan).into_iter().filter(|(name, _)| is_kept(name)).collect()
}

/// The settings of a run, except the place of its own journal. What held a secret is not recorded: it is as it is now, if the rest is the same;
/// else, of an address, the rest is used.
pub fn recorded(plan: &Plan) -> Vec<(String, String)> {
    let is_now = |name: &str, value: &str| {
        svc_step::settings::variable(name).is_some_and(|now| svc_step::redact::without_secrets(&now) == value)
    };
    let settings = plan.settings.iter().filter(|(name, value)| *name != "SVC_STATE_DIR" && !is_now(name, value));
    let values = settings.map(|(name, value)| (name.clone(), value.replace(&format!("{REDACTED}@"), "")));
    values.filter(|(_, value)| !value.contains(REDACTED)).collect()
}
