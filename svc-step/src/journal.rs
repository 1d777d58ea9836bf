//! The journal of a run: what its directory `$SVC_STATE_DIR/runs/<run_id>/` says (`docs/upgrade.md`: a run directory is the journal).
//!
//! Only read here; `svc-run` writes it. A document that is empty or cut short counts as none: what it would have said is unknown.

mod attempt;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::attempt::parts;
pub use self::attempt::{Attempt, Kind, with_ending};
use crate::document::{Document, Warning};
use crate::lock;
use crate::reporter::shell_quoted;
use crate::steps;

/// A file of a journal larger than this is none of ours.
const LARGEST: u64 = 256 * 1024 * 1024;

/// A run, by its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    dir: PathBuf,
}

/// How a run was called (`plan.json`; `plan.2.json` and so on of each time that it was resumed).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The script, `svc-upgrade`.
    pub script: String,
    /// How the script is called: an operator's own by its path.
    pub program: String,
    /// The run of the script that called this one.
    pub parent: Option<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The working directory of the call.
    pub directory: String,
    /// Who called it.
    pub user: String,
    /// The tools' version.
    pub tools: String,
    /// The arguments, without secrets and without those of the installer.
    pub arguments: Vec<String>,
    /// The settings of the service, without secrets.
    pub settings: BTreeMap<String, String>,
}

/// What a run itself found out (`notes.json`).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Notes {
    /// What its last document says in its result, by key.
    pub facts: Map<String, Value>,
    /// The run's own warnings.
    pub warnings: Vec<Warning>,
    /// Whether a person must look: exit status 9.
    pub review: bool,
    /// From the point of no return on: how to go back, or nothing if no command does that. None before it.
    pub commit: Option<String>,
    /// What is to be undone if the run did not come to that point, in the order in which it was registered.
    pub undo: Vec<Undo>,
}

impl Plan {
    /// How the script is called; empty if the plan was lost.
    pub fn program(&self) -> &str {
        if self.program.is_empty() { &self.script } else { &self.program }
    }
}

impl Notes {
    /// A warning; `review`: a person must look. What was told before is not told twice.
    pub fn warn(&mut self, code: &str, message: String, review: bool) {
        let warning = Warning { code: code.to_owned(), message };
        self.warnings.retain(|other| *other != warning);
        self.warnings.push(warning);
        self.review |= review;
    }
}

/// An undo of a run: the command that takes back one of its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct Undo {
    /// The name of the step that it is run as
    pub name: String,
    /// Not if this step is ok
    #[arg(long, value_name = "STEP")]
    pub until: Option<String>,
    /// However the run ends, also after the point of no return
    #[arg(long)]
    pub always: bool,
    /// Not if a signal or a kill ended the run: it is not recorded in the journal
    #[arg(long)]
    pub unless_interrupted: bool,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
    /// Its working directory.
    #[arg(skip)]
    pub directory: PathBuf,
}

/// How a run has ended, without the tree of its result.
#[derive(Deserialize)]
struct Ended {
    ok: bool,
}

/// The runs of a host, the newest first.
pub fn runs(state_dir: &Path) -> Vec<Journal> {
    let entries = fs::read_dir(state_dir.join("runs")).into_iter().flatten().flatten();
    let mut found: Vec<Journal> =
        entries.map(|entry| Journal::at(entry.path())).filter(|run| run.dir.is_dir() && run.is_named()).collect();
    found.sort_by(|one, other| other.dir.cmp(&one.dir));
    found
}

/// Where the directory of a run is, or would be.
fn folder(state_dir: &Path, id: &str) -> PathBuf {
    state_dir.join("runs").join(id)
}

/// The run of that ID, or whose directory that is.
pub fn named(state_dir: &Path, run: &str) -> Option<Journal> {
    let dir = if run.contains('/') { PathBuf::from(run).canonicalize().ok()? } else { folder(state_dir, run) };
    Some(Journal::at(dir)).filter(|run| run.dir.is_dir() && run.is_named())
}

/// The newest of these runs (the newest first) that has changed the service; none if a later one was told that it is repaired, and
/// ended well.
pub fn last_change(runs: &[Journal], of: impl Fn(&Journal) -> bool) -> Option<&Journal> {
    let mut since = runs.iter().take_while(|run| !(run.ignores_unfinished() && run.is_ok()));
    since.find(|run| of(run) && run.has_changed_the_service())
}

/// The runs of a script, the newest first.
pub fn runs_of<'a>(state_dir: &Path, script: &'a str) -> impl Iterator<Item = Journal> + use<'a> {
    runs(state_dir).into_iter().filter(move |run| run.script() == script)
}

/// The one document of a file; none if it is absent, empty, cut short, or not alone.
pub fn document_in(path: &Path) -> Option<Document<Value>> {
    read_json(path)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    fs::File::open(path).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl Journal {
    /// The run whose directory that is; nothing is looked at.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The run of that ID; nothing is looked at.
    pub fn of(state_dir: &Path, id: &str) -> Self {
        Self::at(folder(state_dir, id))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its ID, the directory's name.
    pub fn id(&self) -> &str {
        self.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn is_named(&self) -> bool {
        self.id().parse::<crate::run_id::RunId>().is_ok()
    }

    /// How it was called first; empty if that cannot be read (a run is known by its directory, also then).
    pub fn plan(&self) -> Plan {
        read_json(&self.dir.join("plan.json")).unwrap_or_default()
    }

    /// The script that made it, by its plan; an upgrade or a rollback whose plan cannot be read is known by its ID.
    pub fn script(&self) -> String {
        let script = self.plan().script;
        if !script.is_empty() {
            return script;
        }
        let name = self.id().split_once('-').map_or("", |(_, name)| name);
        let known = ["setup-snapshots", "backup", "nightly", "upgrade", "rollback", "rehearse"];
        known.iter().find(|known| name.starts_with(**known)).map(|known| format!("svc-{known}")).unwrap_or_default()
    }

    /// Whether a process holds the lock of the service for this run, or for a run that has called it.
    pub fn is_running(&self) -> bool {
        let Some(state_dir) = self.dir.parent().and_then(Path::parent) else { return false };
        let holder = lock::holder(&state_dir.join("lock"));
        holder.is_some_and(|holder| self.is_within(&holder)) && self.last_document().is_none()
    }

    /// Whether this is the run of that ID, or was called by it.
    pub fn is_within(&self, id: &str) -> bool {
        let mut run = Some(self.clone());
        // A caller is older than what it has called: there is no circle.
        while let Some(one) = run {
            if one.id() == id {
                return true;
            }
            let parent = one.plan().parent.filter(|parent| parent.as_str() < one.id());
            run = parent.map(|parent| Self::at(one.dir.with_file_name(parent)));
        }
        false
    }

    /// How it was called each time, oldest first.
    pub fn plans(&self) -> Vec<Plan> {
        (1..=self.times()).filter_map(|time| read_json(&self.dir.join(numbered("plan", time)))).collect()
    }

    /// How often it was called: once, and once more for each time that it was resumed.
    pub fn times(&self) -> u32 {
        (2..).take_while(|time| self.dir.join(numbered("plan", *time)).exists()).last().unwrap_or(1)
    }

    /// Where the last document of its newest time is, or will be.
    pub fn document_path(&self) -> PathBuf {
        self.dir.join(numbered("document", self.times()))
    }

    /// The last document of its newest time; none if it has not ended, or was killed.
    pub fn last_document(&self) -> Option<Document<Value>> {
        document_in(&self.document_path())
    }

    /// Whether its newest time has ended well.
    pub fn is_ok(&self) -> bool {
        read_json(&self.document_path()).is_some_and(|Ended { ok }| ok)
    }

    /// Whether what it has recorded of itself can be read.
    pub fn is_readable(&self) -> bool {
        let notes = self.dir.join("notes.json");
        !self.plan().script.is_empty() && (!notes.exists() || read_json::<Notes>(&notes).is_some())
    }

    /// What it has found out. If that cannot be read, a run that has started an installer or an uninstaller has passed its point of
    /// no return, and a rollback that was to stop the service.
    pub fn notes(&self) -> Notes {
        read_json(&self.dir.join("notes.json")).unwrap_or_else(|| {
            let stops_committed = self.script() == "svc-rollback" && self.has_begun(steps::STOP);
            let committed = stops_committed || self.has_begun(steps::INSTALLER) || self.has_begun(steps::UNINSTALL);
            Notes { commit: committed.then(String::new), ..Notes::default() }
        })
    }

    /// The ID of the restore point that it has made or restored, in whatever directory that was then.
    pub fn restore_point(&self) -> Option<String> {
        let path = PathBuf::from(self.notes().facts.get("restore_point")?.as_str()?);
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// The run whose ID is in the names of the data that it replaced and left in place.
    pub fn previous_run(&self) -> Option<String> {
        Some(self.notes().facts.get("previous")?.get("run")?.as_str()?.to_owned())
    }

    /// What helps if it has passed its point of no return: to resume it, or to go back.
    pub fn committed_hint(&self) -> Option<String> {
        let back = self.notes().commit?;
        let plan = self.plan();
        let program = if plan.script.is_empty() { self.script() } else { shell_quoted(&[plan.program()]) };
        let resume = format!("To continue:\n  {program} --resume {}", self.id());
        Some(if back.is_empty() { resume } else { format!("{resume}\n{back}") })
    }

    /// Every attempt of every step, in the order of their numbers.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.started(|_| true).iter().filter_map(|path| Attempt::of(path)).collect()
    }

    /// Every attempt of a step, oldest first.
    pub fn attempts_of(&self, step: &str) -> Vec<Attempt> {
        self.started(|name| name == step).iter().filter_map(|path| Attempt::of(path)).collect()
    }

    /// The newest attempt of a step; none if it was never started.
    pub fn attempt(&self, step: &str) -> Option<Attempt> {
        self.started(|name| name == step).last().and_then(|path| Attempt::of(path))
    }

    /// Whether a step was ever started.
    pub fn has_begun(&self, step: &str) -> bool {
        !self.started(|name| name == step).is_empty()
    }

    /// The `.started` of each attempt of these steps, by number and attempt.
    fn started(&self, of: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let paths = fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = paths.filter(|path| parts(path).is_some_and(|(_, step, _)| of(&step))).collect();
        found.sort_by_key(|path| parts(path).map(|(number, _, attempt)| (number, attempt)));
        found
    }

    /// Whether it was told that what an earlier run has left is repaired.
    pub fn ignores_unfinished(&self) -> bool {
        self.plan().arguments.iter().any(|argument| argument == "--ignore-unfinished")
    }

    /// Whether it has passed its point of no return. What a run over several hops has changed, its hops have.
    pub fn has_changed_the_service(&self) -> bool {
        self.notes().commit.is_some() && !self.has_begun(steps::PLAN)
    }

    /// Whether an undo is to be run. `failed`: the run did not end well.
    pub fn needs_undo(&self, undo: &Undo, failed: bool) -> bool {
        (failed || undo.always) && undo.until.as_ref().is_none_or(|step| !self.is_done(step))
    }

    /// What a run that is not running any more has left to be undone, the last first: it was killed, or an undo failed.
    pub fn left_to_undo(&self) -> Vec<Undo> {
        let notes = self.notes();
        let failed = notes.commit.is_none() && !self.is_ok();
        let mut left = notes.undo;
        left.reverse();
        left.retain(|undo| !undo.unless_interrupted && self.needs_undo(undo, failed));
        if left.iter().any(|undo| !undo.always) && self.is_superseded() {
            left.retain(|undo| undo.always);
        }
        left
    }

    /// Whether a later run has changed the service: what this one had stopped is not to be started in the middle of that.
    pub fn is_superseded(&self) -> bool {
        self.later().any(|other| other.has_changed_the_service())
    }

    /// The runs that have begun after it, the newest first.
    fn later(&self) -> impl Iterator<Item = Self> {
        let all = self.dir.parent().and_then(Path::parent).map(runs).unwrap_or_default();
        all.into_iter().take_while(|other| other.id() > self.id())
    }

    /// The run after which this one has nothing to resume: a later one that has changed the service, save those that this one has called,
    /// but for its rollback; or one that was told that what was unfinished is repaired, and ended well.
    pub fn replaced_by(&self) -> Option<Self> {
        let changes = |other: &Self| other.has_changed_the_service() || other.has_begun(steps::INSTALLER);
        let replaces = |other: &Self| changes(other) || other.ignores_unfinished() && other.is_ok();
        let goes_back = |other: &Self| other.script() == "svc-rollback";
        self.later().filter(|other| replaces(other) && (goes_back(other) || !other.is_within(self.id()))).last()
    }

    /// Whether the newest attempt of a step is ok.
    pub fn is_done(&self, step: &str) -> bool {
        self.attempt(step).is_some_and(|one| one.is_ok())
    }
}

/// `plan.json` for the first time, `plan.2.json` for the second.
pub fn numbered(name: &str, time: u32) -> String {
    if time == 1 { format!("{name}.json") } else { format!("{name}.{time}.json") }
}
