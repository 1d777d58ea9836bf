//! `svc-run status`: where a run stands, and what to run next. It reads only, also while the run is running.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::Failure;
use svc_step::document::{Document, Time};
use svc_step::journal::{self, Attempt, Journal, Kind, Undo};
use svc_step::people::shell_quoted;

use crate::console::{self, lines_of};
use crate::end::NOTHING_CHANGED;
use crate::run::with_ending;
use crate::{again, external, query, undo};

/// Which run.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    /// Without RUN: the unfinished run of this script, or its last one
    #[arg(long, value_name = "SCRIPT")]
    pub script: Option<String>,
    /// Print the document instead of the table
    #[arg(long)]
    pub json: bool,
    /// The run's ID or its directory; default: the unfinished run, or the last one
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}

/// Where a run stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StatusResult {
    /// The run's ID.
    pub run: String,
    /// Its directory.
    pub run_dir: String,
    /// The script; empty where the record of the call was lost.
    pub script: String,
    /// RFC 3339, UTC; empty where the record of the call was lost.
    pub started_at: String,
    /// How it stands.
    pub state: State,
    /// The same as a sentence.
    pub message: String,
    /// What to run next, each command on a line of its own; null where nothing is left to do.
    pub next: Option<String>,
    /// What the next call of any script, or `svc-run recover`, undoes first: the commands in their order.
    pub undo: Vec<Pending>,
    /// Every attempt of every step, in the order in which the steps were begun.
    pub steps: Vec<StepStatus>,
    /// How long the service was down; null where it was not, or is still.
    pub downtime_ms: Option<u64>,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its supervisor is running.
    Running,
    /// Its supervisor is gone; an installer, uninstaller or hook of it is running.
    ExternalRunning,
    /// It ended well.
    Ended,
    /// It failed, and ended in order.
    Failed,
    /// It was killed.
    Interrupted,
    /// A later run has replaced what it had left to do.
    Superseded,
}

/// A compensation that is left to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// The step that it is.
    pub name: String,
    /// The command, as it is typed.
    pub command: String,
}

/// One attempt of a step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// Its number, which all its attempts share.
    pub number: u32,
    /// Its name.
    pub step: String,
    /// From 1.
    pub attempt: u32,
    /// RFC 3339, UTC.
    pub begun_at: Time,
    /// `ok`, the code of its error, `running`, `ended with N`, or `outcome unknown`.
    pub state: String,
    /// How long it took, or has been running; null where nobody knows.
    pub duration_ms: Option<u64>,
}

/// Where the run stands that was asked for.
///
/// # Errors
/// There is none (4); the state folder cannot be read (3).
pub fn status(state_dir: &Path, arguments: &Arguments) -> Result<StatusResult, Failure> {
    let runs = Runs::of(state_dir);
    let script = arguments.script.as_deref();
    let found = arguments.run.as_deref().map_or_else(|| runs.to_show(script), |run| runs.named(run));
    found.map(|run| runs.status(&run)).ok_or_else(|| not_found(state_dir, arguments))
}

/// Where this user may not look for runs.
pub fn unreadable(state_dir: &Path) -> Option<Failure> {
    let folder = state_dir.join("runs");
    let error = fs::read_dir(&folder).err().filter(|error| error.kind() == std::io::ErrorKind::PermissionDenied)?;
    let failure = Failure::refused("state_dir_unusable", format!("The folder {} cannot be read.", folder.display()));
    Some(failure.hint("Run the command as root.").cause(error.to_string()))
}

fn not_found(state_dir: &Path, arguments: &Arguments) -> Failure {
    if let Some(failure) = unreadable(state_dir) {
        return failure;
    }
    let run = match (&arguments.run, &arguments.script) {
        (Some(run), _) => format!(" {run}"),
        (None, Some(script)) => format!(" of {script}"),
        (None, None) => String::new(),
    };
    query::not_found(state_dir, &run)
}

/// The rollback of an upgrade that has begun to change the service.
pub fn rolled_back_by(state_dir: &Path, upgrade: &Journal) -> Option<Journal> {
    Runs::of(state_dir).rolled_back_by(upgrade)
}

/// The answer as a document, `svc-run.status/1`.
pub fn document(version: &str, started: Timestamp, result: StatusResult) -> Document<StatusResult> {
    let finished = Timestamp::now();
    Document {
        schema: svc_step::document::schema_name("svc-run", "status"),
        tool: format!("svc-run {version}"),
        step: "status".to_owned(),
        ok: true,
        changed: Some(false),
        dry_run: false,
        run_id: result.run.clone(),
        host: svc_step::call::Call::host(),
        started_at: started.into(),
        finished_at: finished.into(),
        duration_ms: u64::try_from(finished.as_millisecond() - started.as_millisecond()).unwrap_or(0),
        result: Some(result),
        warnings: Vec::new(),
        error: None,
    }
}

/// The answer for people: the steps as a table, how the run stands, what to run next.
pub fn text(status: &StatusResult) -> String {
    let script = if status.script.is_empty() { "a run" } else { &status.script };
    let mut out = format!("{script} {}, begun {}\n", status.run, status.started_at);
    out.push_str(&table(&status.steps));
    out.push_str(&format!("{}\n", status.message));
    if let Some(next) = &status.next {
        out.push_str(&format!("next: {next}\n"));
    }
    if !status.undo.is_empty() {
        let commands: Vec<&str> = status.undo.iter().map(|undo| undo.command.as_str()).collect();
        let commands = lines_of(&commands);
        out.push_str(&format!(
            "The next call of any script first undoes what the run has left:{commands}\nTo only undo it:\n  svc-run recover\n"
        ));
    }
    out
}

/// Number, step, when it was begun, how it ended, how long it took, a bar.
fn table(steps: &[StepStatus]) -> String {
    let longest = steps.iter().filter_map(|step| step.duration_ms).max().unwrap_or(0);
    let name = steps.iter().map(|step| step.step.len()).max().unwrap_or(4) + 4;
    let state = steps.iter().map(|step| step.state.len()).max().unwrap_or(5);
    let mut out = String::new();
    for step in steps {
        let again = if step.attempt > 1 { format!(" ({})", step.attempt) } else { String::new() };
        let at = step.begun_at.as_str().get(11..19).unwrap_or_default();
        let took = step.duration_ms.map(console::duration).unwrap_or_default();
        let bar = step.duration_ms.filter(|_| longest > 0).map_or_else(String::new, |ms| {
            format!("  {}", "#".repeat(usize::try_from(ms.saturating_mul(30) / longest).unwrap_or(30).max(1)))
        });
        let label = format!("{}{again}", step.step);
        out.push_str(&format!("{:02}  {label:name$}  {at}  {:state$}  {took:>9}{bar}\n", step.number, step.state));
    }
    out
}

/// The runs of a state folder, the newest first.
struct Runs<'a> {
    state_dir: &'a Path,
    runs: Vec<Journal>,
}

impl<'a> Runs<'a> {
    fn of(state_dir: &'a Path) -> Self {
        Self { state_dir, runs: journal::runs(state_dir) }
    }

    /// By its ID or its directory; a run is known by its folder, also without a plan.
    fn named(&self, run: &str) -> Option<Journal> {
        let dir = if run.contains('/') { PathBuf::from(run).canonicalize().ok()? } else { self.state_dir.join("runs").join(run) };
        (dir.is_dir() && Journal::at(&dir).id().parse::<svc_step::run_id::RunId>().is_ok()).then(|| Journal::at(dir))
    }

    /// The newest run of a script, or, of any script, the newest that no other run has called; where that one ended well, the one that
    /// is not finished.
    fn to_show(&self, script: Option<&str>) -> Option<Journal> {
        let chosen = |run: &&Journal| match script {
            Some(script) => run.script() == script,
            None => run.plan().parent.is_none(),
        };
        // One that was refused because another is unfinished says nothing that this one would not say.
        let is_refused = |run: &&Journal| {
            run.last_document().and_then(|document| document.error).is_some_and(|error| error.code == "run_unfinished")
        };
        let newest = self.runs.iter().filter(chosen).find(|run| !is_refused(run)).or_else(|| self.runs.iter().find(chosen))?;
        // One that was killed and has left nothing tells nothing that an older one, which is not finished, would not tell better.
        let is_nothing =
            newest.last_document().is_none() && !is_committed(newest) && pending(newest).is_empty() && !newest.is_running();
        if !newest.is_ok() && !is_nothing {
            return Some(newest.clone());
        }
        // A hop that ended well is only a part of a run, and hooks that were run alone finish no other run.
        let unfinished = self.unfinished_outer(newest).or_else(|| {
            let before = self.runs.iter().filter(chosen).find(|run| is_committed(run))?;
            (!is_committed(newest) && !before.is_ok()).then(|| before.clone())
        });
        unfinished.or_else(|| Some(newest.clone()))
    }

    /// The run of the same script that has made this one as a hop, where it has not ended well.
    fn unfinished_outer(&self, run: &Journal) -> Option<Journal> {
        let outer = self.named(&run.plan().parent?)?;
        (outer.script() == run.script() && !outer.is_ok()).then_some(outer)
    }

    fn status(&self, run: &Journal) -> StatusResult {
        let plan = run.plan();
        let last = run.last_document();
        let is_running = last.is_none() && run.is_running();
        let external = if is_running { None } else { self.external(run) };
        let superseded = if is_running || external.is_some() { None } else { self.superseded(run) };
        let follow =
            |file: &Path| Some(format!("To follow it:\n  {}", shell_quoted(&["tail", "-f", &file.display().to_string()])));
        let (state, message, next) = match (&external, &last, superseded) {
            _ if is_running => (State::Running, "It is running.".to_owned(), follow(&run.dir().join("log"))),
            (Some(files), ..) => {
                let message = "Its supervisor is gone; a command that it has started is still running.";
                (State::ExternalRunning, message.to_owned(), follow(&with_ending(files, "out")))
            }
            (None, _, Some(next)) => (State::Superseded, how_it_ended(last.as_ref()), Some(next)),
            (None, Some(document), None) if document.ok => (State::Ended, how_it_ended(last.as_ref()), None),
            (None, Some(_), None) if has_outlived(run) => {
                let message = "It was interrupted, and a command that it had started has ended since.";
                (State::Interrupted, message.to_owned(), Some(self.after_kill(run)))
            }
            (None, Some(document), None) => {
                let hint = document.error.as_ref().and_then(|error| error.hint.clone());
                (State::Failed, how_it_ended(last.as_ref()), Some(hint.unwrap_or_else(|| again::hint(&run.plan()))))
            }
            (None, None, None) => (State::Interrupted, how_it_ended(None), Some(self.after_kill(run))),
        };
        let rests = !matches!(state, State::Running | State::ExternalRunning);
        StatusResult {
            run: run.id().to_owned(),
            run_dir: run.dir().display().to_string(),
            undo: if rests { pending(run) } else { Vec::new() },
            steps: steps(&run.attempts(), is_running, external.as_deref()),
            downtime_ms: last.as_ref().and_then(downtime),
            script: plan.script,
            started_at: plan.started_at,
            state,
            message,
            next,
        }
    }

    /// The files of the external command that is running, where it is this run's, or one of a run that this one called.
    fn external(&self, run: &Journal) -> Option<PathBuf> {
        let files = external::running(self.state_dir)?;
        let Some(folder) = files.parent().filter(|folder| folder.is_dir()) else { return Some(files) };
        Journal::at(folder).is_within(run.id()).then_some(files)
    }

    /// What to run where what the run had to say does not hold any more: an upgrade that was rolled back, or that another one followed.
    fn superseded(&self, run: &Journal) -> Option<String> {
        let of = |script: &'static str| self.runs.iter().filter(move |other| other.script() == script);
        if run.script() != "svc-upgrade" {
            return None;
        }
        let last_hop = || of("svc-upgrade").find(|other| other.plan().parent.as_deref() == Some(run.id())).cloned();
        let run = if run.has_begun("hop-1") { last_hop()? } else { run.clone() };
        if !run.has_begun("installer") {
            return None;
        }
        if let Some(back) = self.rolled_back_by(&run) {
            let id = back.id();
            return Some(if back.is_ok() {
                format!(
                    "It was rolled back by the run {id}: nothing is left to do. To see that run:\n  svc-rollback --status {id}"
                )
            } else {
                format!("Its rollback has begun. To continue it:\n  svc-rollback --resume {id}")
            });
        }
        let later =
            of("svc-upgrade").find(|other| other.has_begun("installer")).filter(|later| later.id() > run.id() && !run.is_ok())?;
        Some(format!("A later upgrade has begun since:\n  svc-upgrade --status {}", later.id()))
    }

    fn rolled_back_by(&self, run: &Journal) -> Option<Journal> {
        if run.script() != "svc-upgrade" {
            return None;
        }
        let point = restore_point(run).unwrap_or_else(|| run.id().to_owned());
        let goes_back = |other: &&Journal| {
            other.script() == "svc-rollback" && is_committed(other) && restore_point(other).as_ref() == Some(&point)
        };
        self.runs.iter().find(goes_back).cloned()
    }

    /// What to run after a run that was killed.
    fn after_kill(&self, run: &Journal) -> String {
        let hops = |run: &Journal| format!("To continue with the hops:\n  {} --resume {}", run.script(), run.id());
        match self.unfinished_outer(run) {
            Some(outer) => hops(&outer),
            None => match run.committed_hint() {
                Some(hint) => hint,
                None if run.has_begun("hop-1") => hops(run),
                // What is complete then is not undone.
                None if run.notes().undo.iter().any(|undo| undo.until.as_ref().is_some_and(|step| run.is_done(step))) => {
                    again::hint(&run.plan())
                }
                None => format!("{NOTHING_CHANGED} {}", again::hint(&run.plan())),
            },
        }
    }
}

/// Whether an external command has ended when its run was not there any more.
fn has_outlived(run: &Journal) -> bool {
    let unseen = |one: &Attempt| one.kind == Kind::External && one.document.is_none() && one.exit_status.is_some();
    run.attempts().last().is_some_and(unseen)
}

/// Whether a run has passed its point of no return; of several hops, the first hop may have.
fn is_committed(run: &Journal) -> bool {
    run.notes().commit.is_some() || run.has_begun("hop-1")
}

/// The ID of the restore point that a run has made or restored, in whatever folder that was then.
fn restore_point(run: &Journal) -> Option<String> {
    let notes = run.notes();
    let path = Path::new(notes.facts.get("restore_point")?.as_str()?);
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn downtime(document: &Document<Value>) -> Option<u64> {
    document.result.as_ref()?.get("downtime_ms")?.as_u64()
}

fn how_it_ended(document: Option<&Document<Value>>) -> String {
    let Some(document) = document else { return "It was interrupted.".to_owned() };
    match &document.error {
        Some(error) if !document.ok => error.message.clone(),
        _ => match downtime(document) {
            Some(ms) => format!("It ended well. The service was down for {ms} ms."),
            None => "It ended well.".to_owned(),
        },
    }
}

/// What would be undone first, the last registered first.
pub fn pending(run: &Journal) -> Vec<Pending> {
    let left = undo::left_of(run).into_iter();
    let shown = |word: &String| svc_step::line_secrets::without_secrets(word);
    let words = |undo: &Undo| undo.command.iter().map(shown).collect::<Vec<_>>();
    left.map(|undo| Pending { command: shell_quoted(&words(&undo)), name: undo.name }).collect()
}

fn steps(attempts: &[Attempt], is_running: bool, external: Option<&Path>) -> Vec<StepStatus> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let newest = |one: &Attempt| !attempts.iter().any(|other| other.step == one.step && other.attempt > one.attempt);
    let outlives = |one: &Attempt| external.is_some_and(|files| files == one.files);
    let line = |one: &Attempt| {
        let runs = newest(one) && (is_running || outlives(one));
        let state = match (&one.document, one.exit_status) {
            (Some(document), _) if document.ok => "ok".to_owned(),
            (Some(document), _) => document.error.as_ref().map_or_else(|| "failed".to_owned(), |error| error.code.clone()),
            (None, Some(status)) => format!("ended with {status}"),
            (None, None) if runs => "running".to_owned(),
            (None, None) => "outcome unknown".to_owned(),
        };
        let since = (state == "running").then(|| now.saturating_sub(one.begun_ms));
        StepStatus {
            number: one.number,
            step: one.step.clone(),
            attempt: one.attempt,
            begun_at: i64::try_from(one.begun_ms)
                .ok()
                .and_then(|ms| Timestamp::from_millisecond(ms).ok())
                .unwrap_or_default()
                .into(),
            duration_ms: one.document.as_ref().map(|document| document.duration_ms).or(since),
            state,
        }
    };
    attempts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::Made;

    fn of(made: &Made, script: Option<&str>) -> StatusResult {
        status(made.state(), &Arguments { script: script.map(ToOwned::to_owned), ..Arguments::default() }).unwrap()
    }

    fn failed(hint: &str) -> Value {
        let error = json!({"code": "x", "message": "It failed.", "hint": hint, "retryable": false, "causes": []});
        json!({"ok": false, "error": error})
    }

    #[test]
    fn a_run_stands_where_its_journal_says() {
        type Case = (&'static str, fn(&Made), State, &'static str, Option<&'static str>);
        let cases: [Case; 10] = [
            (
                "well",
                |made| made.ended(&json!({"result": {"downtime_ms": 12}})),
                State::Ended,
                "It ended well. The service was down for 12 ms.",
                None,
            ),
            (
                "failed",
                |made| made.ended(&failed("To continue:\n  a b")),
                State::Failed,
                "It failed.",
                Some("To continue:\n  a b"),
            ),
            (
                "killed early",
                |_| (),
                State::Interrupted,
                "It was interrupted.",
                Some("Nothing was changed. Run the same command again:\n  svc-upgrade /srv/svc-2.0.1.run"),
            ),
            (
                "a document that was cut",
                |made| std::fs::write(made.journal().dir().join("document.json"), "{\"ok\":true").unwrap(),
                State::Interrupted,
                "It was interrupted.",
                Some("Nothing was changed."),
            ),
            (
                "killed after the commit",
                |made| made.notes(&json!({"commit": "To go back:\n  c d"})),
                State::Interrupted,
                "It was interrupted.",
                Some("To continue:\n  svc-upgrade --resume 20261120t020003z-first\nTo go back:\n  c d"),
            ),
            (
                "a rollback that was to stop the service, and whose notes were lost",
                |made| {
                    made.plan(&json!({"script": "svc-rollback"}));
                    made.started("05-stop", "step");
                },
                State::Interrupted,
                "It was interrupted.",
                Some("To continue:\n  svc-rollback --resume 20261120t020003z-first"),
            ),
            (
                "killed in a hop",
                |made| made.started("02-hop-1", "step"),
                State::Interrupted,
                "It was interrupted.",
                Some("To continue with the hops:\n  svc-upgrade --resume 20261120t020003z-first"),
            ),
            (
                "rolled back",
                |made| {
                    made.step("03-installer", "external", &json!({}));
                    made.ended(&failed("to roll back"));
                    let back = made.another("20261120t030003z-rollback", "svc-rollback", None);
                    back.notes(&json!({"commit": "hint", "facts": {"restore_point": "/moved/20261120t020003z-first"}}));
                    back.ended(&json!({}));
                },
                State::Superseded,
                "It failed.",
                Some(
                    "It was rolled back by the run 20261120t030003z-rollback: nothing is left to do. To see that run:\n  svc-rollback --status 20261120t030003z-rollback",
                ),
            ),
            (
                "its rollback is not finished",
                |made| {
                    made.step("03-installer", "external", &json!({}));
                    let back = made.another("20261120t030003z-rollback", "svc-rollback", None);
                    back.notes(&json!({"commit": "hint", "facts": {"restore_point": "/var/20261120t020003z-first"}}));
                },
                State::Superseded,
                "It was interrupted.",
                Some("Its rollback has begun. To continue it:\n  svc-rollback --resume 20261120t030003z-rollback"),
            ),
            (
                "a later upgrade",
                |made| {
                    made.step("03-installer", "external", &json!({}));
                    made.another("20261120t030003z-upgrade", "svc-upgrade", None).started("03-installer", "external");
                },
                State::Superseded,
                "It was interrupted.",
                Some("A later upgrade has begun since:\n  svc-upgrade --status 20261120t030003z-upgrade"),
            ),
        ];
        for (name, make, state, message, next) in cases {
            let made = Made::new("svc-upgrade");
            make(&made);
            let arguments = Arguments { run: Some("20261120t020003z-first".to_owned()), ..Arguments::default() };
            let found = status(made.state(), &arguments).unwrap();
            assert_eq!((found.state, found.message.as_str()), (state, message), "{name}");
            assert!(found.next.as_deref().unwrap_or_default().starts_with(next.unwrap_or_default()), "{name}: {:?}", found.next);
            assert_eq!(found.next.is_none(), next.is_none(), "{name}");
        }
    }

    #[test]
    fn who_holds_the_locks_is_running() {
        let outer = Made::new("svc-upgrade");
        let hop = outer.another("20261120t020004z-hop", "svc-upgrade", Some("20261120t020003z-first"));
        let other = outer.another("20261120t020005z-manual", "svc-backup", None);
        hop.started("01-installer", "external");
        outer.started("01-hop-1", "step");
        let state = |made: &Made| {
            status(made.state(), &Arguments { run: Some(made.journal().id().to_owned()), ..Arguments::default() }).unwrap()
        };
        let lock = |name: &str, text: &str| {
            fs::write(outer.state().join(name), text).unwrap();
            let file = std::fs::File::open(outer.state().join(name)).unwrap();
            file.lock().unwrap();
            file
        };
        let held = lock("lock", "20261120t020003z-first\n");
        assert_eq!(
            [state(&outer).state, state(&hop).state, state(&other).state],
            [State::Running, State::Running, State::Interrupted]
        );
        assert_eq!(state(&hop).steps.iter().map(|step| step.state.as_str()).collect::<Vec<_>>(), ["running"]);
        held.unlock().unwrap();
        let held = lock("external.lock", &format!("{}\n", hop.journal().dir().join("01-installer").display()));
        assert_eq!(
            [state(&outer).state, state(&hop).state, state(&other).state],
            [State::ExternalRunning, State::ExternalRunning, State::Interrupted]
        );
        assert_eq!(state(&outer).steps.iter().map(|step| step.state.as_str()).collect::<Vec<_>>(), ["outcome unknown"]);
        held.unlock().unwrap();
        assert_eq!(state(&hop).state, State::Interrupted);
        // The command lives, and its holder was killed.
        let this = std::process::id().to_string();
        let process = format!("{this} {}\n", external::started_at(&this).unwrap());
        fs::write(hop.journal().dir().join("01-installer.process"), process).unwrap();
        assert_eq!(state(&hop).state, State::ExternalRunning);
    }

    #[test]
    fn without_a_run_the_unfinished_one_is_shown() {
        let first = Made::new("svc-upgrade");
        first.notes(&json!({"commit": "hint"}));
        assert_eq!(of(&first, None).run, "20261120t020003z-first");
        // Neither a backup nor hooks that were run alone finish it.
        first.another("20261120t030000z-manual", "svc-backup", None).ended(&json!({}));
        first.another("20261120t030001z-hooks", "svc-upgrade", None).ended(&json!({}));
        assert_eq!(of(&first, None).run, "20261120t020003z-first");
        assert_eq!(of(&first, Some("svc-upgrade")).run, "20261120t020003z-first");
        assert_eq!(of(&first, Some("svc-backup")).run, "20261120t030000z-manual");
        let rollback = first.another("20261120t040000z-rollback", "svc-rollback", None);
        rollback.notes(&json!({"commit": "hint"}));
        rollback.ended(&json!({}));
        assert_eq!(of(&first, None).run, "20261120t040000z-rollback");
        // A hop that ended well is a part of a run; one that was interrupted is continued with it.
        let hops = first.another("20261120t050000z-upgrade-hops", "svc-upgrade", None);
        hops.started("01-hop-1", "step");
        let hop = first.another("20261120t050001z-upgrade-2.0.1", "svc-upgrade", Some("20261120t050000z-upgrade-hops"));
        assert_eq!(
            of(&first, Some("svc-upgrade")).next.unwrap(),
            "To continue with the hops:\n  svc-upgrade --resume 20261120t050000z-upgrade-hops"
        );
        hop.ended(&json!({}));
        assert_eq!(of(&first, Some("svc-upgrade")).run, "20261120t050000z-upgrade-hops");
        // A run is known by its folder, also where its plan was lost.
        let lost = first.another("20261120t060000z-rollback", "", None);
        assert_eq!(of(&first, Some("svc-rollback")).run, lost.journal().id());
        let error =
            status(first.state(), &Arguments { script: Some("svc-nightly".to_owned()), ..Arguments::default() }).unwrap_err();
        assert_eq!((error.code.as_str(), error.exit_code()), ("run_not_found", 4));
    }

    #[test]
    fn what_would_be_undone_is_shown_in_its_order() {
        let made = Made::new("svc-upgrade");
        let undo = |name: &str, until: Option<&str>, always: bool, unless_interrupted: bool| json!({"name": name, "command": ["svc-unit", name], "directory": "/", "until": until, "always": always, "unless_interrupted": unless_interrupted});
        let list = json!([
            undo("a", None, true, false),
            undo("b", Some("finalize"), false, false),
            undo("c", None, false, true),
            undo("d d", None, false, false)
        ]);
        let names = |made: &Made| of(made, None).undo.into_iter().map(|undo| undo.name).collect::<Vec<_>>();
        made.notes(&json!({"undo": list}));
        assert_eq!(names(&made), ["d d", "b", "a"]);
        assert!(
            text(&of(&made, None)).contains("undoes what the run has left:\n  svc-unit 'd d'\n  svc-unit b\n  svc-unit a\n"),
            "{}",
            text(&of(&made, None))
        );
        made.step("01-finalize", "step", &json!({}));
        assert_eq!(names(&made), ["d d", "a"]);
        made.notes(&json!({"undo": list, "commit": "hint"}));
        assert_eq!(names(&made), ["a"]);
        // One that is still in the list of a run that ended has failed.
        made.ended(&json!({}));
        assert_eq!(names(&made), ["a"]);
        made.notes(&json!({"undo": [undo("d d", None, false, false)]}));
        assert_eq!(names(&made), [""; 0]);
        made.ended(&failed("hint"));
        assert_eq!(names(&made), ["d d"]);
        // What a later run has installed is not started in the middle of that.
        made.another("20261121t020003z-upgrade", "svc-upgrade", None).notes(&json!({"commit": "hint"}));
        assert!(pending(&made.journal()).is_empty());
    }

    #[test]
    fn the_table_has_a_line_for_each_attempt() {
        let made = Made::new("svc-upgrade");
        made.step("01-dump", "step", &json!({"ok": false, "duration_ms": 500, "error": {"code": "disk_full", "message": "", "hint": null, "retryable": false, "causes": []}}));
        made.step("01-dump.2", "step", &json!({"duration_ms": 15_000}));
        made.started("02-installer", "external");
        fs::write(made.journal().dir().join("02-installer.rc"), "3\n").unwrap();
        made.started("03-start", "step");
        let shown = text(&of(&made, None));
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()).collect();
        assert_eq!(lines[0], ["svc-upgrade 20261120t020003z-first, begun 2026-11-20T02:00:03Z"]);
        assert_eq!([&lines[1][..2], &lines[1][3..]], [&["01", "dump"][..], &["disk_full", "500 ms", "#"][..]]);
        assert_eq!([&lines[2][..2], &lines[2][3..]], [&["01", "dump (2)"][..], &["ok", "15 s", &"#".repeat(30)][..]]);
        assert_eq!(lines[3][3..], ["ended with 3"]);
        assert_eq!(lines[4][3..], ["outcome unknown"]);
    }
}
