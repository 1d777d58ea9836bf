//! The run as the supervisor holds it: what has happened so far, and its journal, which is written here and nowhere else.

mod journal;

pub use journal::{append, write_json};

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use svc_step::Failure;
use svc_step::journal::{Journal, Notes, Undo};
use svc_step::redact::arguments_without_secrets;
use svc_step::reporter::WATCHED;
use svc_step::secret::REDACTED;

use super::command_line;
use super::report::Check;

/// How long a tool may take to end after it was told to. One that does not is killed: what was stopped for it is to be started again.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// A signal to all may reach the run this much later than the tool or the script that it ended.
pub const NOTICED: Duration = Duration::from_secs(1);
/// How much later than its tools the run may notice a signal to the whole process group.
const ECHO: Duration = Duration::from_millis(50);

/// Why a run does not end well, and the step that it is of.
#[derive(Debug, Clone)]
pub struct Failed {
    pub step: Option<String>,
    pub failure: Failure,
}

/// The caller's environment, which commands that are not ours get: without what the settings file and the scripts add.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    pub environment: Vec<(OsString, OsString)>,
}

/// Names the variables that the supervisor has added to the environment of a script.
pub const ADDED: &str = "SVC_ADDED";

impl Caller {
    /// Of the environment as it is, before the settings file is read into it. A script that another script calls finds there what that one's
    /// supervisor has added.
    pub fn now() -> Self {
        let added = std::env::var(ADDED).unwrap_or_default();
        let added: Vec<&str> = added.split(' ').collect();
        let own = [
            "SVC_LOCK_FD",
            "SVC_RUN_ID",
            "SVC_RUN_DIR",
            "SVC_SUPERVISOR",
            "SVC_RESUMED",
            "SVC_VERBOSE",
            "SVC_ATTACHED",
            "SVC_FOLLOWED",
            WATCHED,
            ADDED,
        ];
        let kept = |name: &OsStr| !own.iter().chain(&added).any(|other| name == OsStr::new(other));
        Self { environment: std::env::vars_os().filter(|(name, _)| kept(name)).collect() }
    }

    /// The names of the variables that an environment has besides the caller's.
    fn added(&self, names: impl Iterator<Item = OsString>) -> String {
        let new = names.filter(|name| !self.environment.iter().any(|(known, value)| known == name && !value.is_empty()));
        new.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }
}

/// The run. It is shared by the threads that serve the script.
#[derive(Default)]
pub struct Run {
    pub script: String,
    pub id: String,
    journal: Journal,
    pub state_dir: PathBuf,
    pub dry_run: bool,
    pub verbose: bool,
    pub attached: bool,
    pub resumed: bool,
    pub rerun_installer: bool,
    /// The values of the arguments that are written nowhere.
    pub private: Vec<String>,
    /// The run was called with private arguments, and is resumed without them.
    pub private_lost: bool,
    pub caller: Caller,
    /// The lock of the service, which the tools inherit.
    pub lock_fd: Option<i32>,
    /// What was in its journal before this call.
    pub earlier: BTreeSet<PathBuf>,
    /// How many steps are to be expected.
    pub expected: Option<u32>,
    state: Mutex<State>,
    changed: Condvar,
}

/// What has happened so far.
#[derive(Default)]
pub struct State {
    pub notes: Notes,
    undo: Vec<Undo>,
    /// The tools that are running, by their process.
    running: BTreeMap<i32, Running>,
    /// The steps that were started in parallel; the failure of one that has ended.
    pub started: BTreeMap<String, Option<Result<(), Failure>>>,
    pub failed: Option<Failed>,
    pub deferred: Option<Failed>,
    signal: Option<i32>,
    /// The script has ended: no further step is begun, but those of the end.
    ended: bool,
    /// The plan of a dry run, and the steps in it.
    pub plan: Vec<String>,
    pub planned: BTreeSet<String>,
    /// In a dry run: the documents of its checks, the names that they have in the plan, and the lines that write them.
    pub checked: BTreeMap<PathBuf, (String, String)>,
    pub checks: Vec<Check>,
    /// How many of them were shown.
    pub shown_checks: usize,
    pub failed_checks: Vec<Failed>,
    next_number: u32,
    /// The numbers of steps that were started in parallel: their order is the script's.
    reserved: BTreeMap<String, u32>,
    busy: usize,
    /// This call has come to the point of no return.
    committed_now: bool,
    /// The hint of the point of no return, which the next step with an effect passes, and what is to be undone after it.
    pending_commit: Option<(String, Vec<Undo>)>,
    /// The steps that were told to end.
    ending: BTreeSet<String>,
    /// All were, also one that is on its way: the script was killed.
    pub all_ending: bool,
}

/// A tool that is running.
struct Running {
    step: String,
    /// When it was told to end.
    told: Option<Instant>,
}

impl State {
    fn take_number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Tells the tools of these steps to end.
    fn tell(&mut self, signal: i32, of: impl Fn(&str) -> bool) {
        let Ok(signal) = Signal::try_from(signal) else { return };
        for (process, tool) in self.running.iter_mut().filter(|(process, tool)| **process > 1 && of(&tool.step)) {
            tool.told.get_or_insert_with(Instant::now);
            let _ = kill(Pid::from_raw(*process), signal);
        }
    }

    /// Whether a step is an undo that no signal ends. (A rollback ends in order.)
    pub fn is_undo(&self, step: &str) -> bool {
        self.ended && !self.undo.iter().any(|undo| undo.unless_interrupted && undo.name == step)
    }
}

impl Run {
    /// A run whose directory is there and empty, or is that of a resumed run.
    pub fn new(script: String, journal: Journal, state_dir: PathBuf, caller: Caller) -> Self {
        let attempts = journal.attempts();
        let state = State {
            notes: journal.notes(),
            next_number: attempts.iter().map(|one| one.number).max().unwrap_or(0) + 1,
            ..State::default()
        };
        Self {
            script,
            id: journal.id().to_owned(),
            journal,
            state_dir,
            caller,
            earlier: attempts.into_iter().map(|one| one.files).collect(),
            state: Mutex::new(state),
            ..Self::default()
        }
    }

    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn dir(&self) -> &Path {
        self.journal.dir()
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something of the state has changed.
    pub fn wait_for_change<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub fn notify(&self) {
        self.changed.notify_all();
    }

    pub fn signal(&self) -> Option<i32> {
        self.state().signal
    }

    /// The signal that came, or comes in this time.
    pub fn signal_within(&self, time: Duration) -> Option<i32> {
        let waited = self.changed.wait_timeout_while(self.state(), time, |state| state.signal.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.signal
    }

    /// A signal came to the supervisor: each running tool gets it, and no further step is begun. External commands and undos are left alone.
    pub fn interrupt(&self, signal: i32) {
        let mut state = self.state();
        state.signal.get_or_insert(signal);
        let undos: BTreeSet<String> =
            state.running.values().map(|one| one.step.clone()).filter(|step| state.is_undo(step)).collect();
        state.tell(signal, |step| !undos.contains(step));
        drop(state);
        self.log(&format!("{} came", svc_step::signals::name(signal)));
        self.notify();
    }

    /// The script has ended: no further step of it is begun. What still runs is told to end if the run has failed.
    pub fn close(&self, failed: bool) {
        if failed {
            self.terminate(None);
        }
        let mut state = self.state();
        state.ended = true;
        while state.busy > 0 {
            state = self.wait_for_change(state);
        }
        // Not before: a step that was on its way passes the point of no return.
        (state.all_ending, state.pending_commit) = (false, None);
    }

    /// What a script finds in its environment besides the settings.
    pub fn own_settings(&self, settings: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let mut own: Vec<(OsString, OsString)> = vec![
            ("SVC_RUN_DIR".into(), self.dir().into()),
            ("SVC_RUN_ID".into(), self.id.clone().into()),
            ("SVC_SUPERVISOR".into(), std::process::id().to_string().into()),
        ];
        let flags = [("SVC_DRY_RUN", self.dry_run), ("SVC_VERBOSE", self.verbose), ("SVC_ATTACHED", self.attached)];
        own.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name.into(), "1".into())));
        if self.resumed {
            own.push(("SVC_RESUMED".into(), if self.private_lost { "arguments-lost" } else { "1" }.into()));
        }
        if let Some(fd) = self.lock_fd {
            own.push(("SVC_LOCK_FD".into(), fd.to_string().into()));
        }
        let all = std::env::vars_os().map(|(name, _)| name).chain(settings.iter().map(|(name, _)| name.clone()));
        own.push((ADDED.into(), self.caller.added(all).into()));
        own
    }

    /// Whether a step of the script may begin.
    pub fn admit(&self) -> Result<Busy<'_>, Failure> {
        let mut state = self.state();
        if state.ended || state.all_ending || state.signal.is_some() {
            return Err(Failure::failed("interrupted", "The run is ending: no further step is begun."));
        }
        state.busy += 1;
        Ok(Busy(self))
    }

    /// Records that a tool runs; one that begins after a signal came, or after its step was told to end, is told at once.
    pub fn register(&self, process: u32, step: &str) {
        let mut state = self.state();
        let process = i32::try_from(process).unwrap_or(0);
        state.running.insert(process, Running { step: step.to_owned(), told: None });
        let is_ending = state.all_ending || state.ending.contains(step);
        let signal = state.signal.filter(|_| !state.ended);
        if let Some(signal) = signal.or(is_ending.then_some(Signal::SIGTERM as i32)) {
            state.tell(signal, |other| other == step);
        }
    }

    /// Whether a tool was told to end so long ago. After the point of no return each is left to finish what it does.
    pub fn is_overdue(&self, process: u32, time: Duration) -> bool {
        let state = self.state();
        let told = state.running.get(&i32::try_from(process).unwrap_or(0)).and_then(|one| one.told);
        state.notes.commit.is_none() && told.is_some_and(|told| told.elapsed() > time)
    }

    pub fn unregister(&self, process: u32) {
        self.state().running.remove(&i32::try_from(process).unwrap_or(0));
    }

    /// Tells the tools of these steps, or all, to end. A signal to the whole process group has reached them already, and another one would
    /// end them without a document.
    pub fn terminate(&self, steps: Option<&[String]>) {
        let mut state = self.state();
        state.all_ending |= steps.is_none();
        state.ending.extend(steps.into_iter().flatten().cloned());
        drop(state);
        if self.signal_within(ECHO).is_none() {
            self.state().tell(Signal::SIGTERM as i32, |step| steps.is_none_or(|steps| steps.iter().any(|other| other == step)));
        }
    }

    pub fn undo_list(&self) -> Vec<Undo> {
        self.state().undo.clone()
    }

    /// Registers an undo; of one name there is one.
    pub fn register_undo(&self, undo: Undo) -> Result<(), Failure> {
        self.note(|state| {
            // A resumed script registers again what it registered before its point of no return; none of that holds any more.
            if state.notes.commit.is_some() && !state.committed_now && !undo.always {
                return;
            }
            let State { undo: list, pending_commit, .. } = state;
            let list = pending_commit.as_mut().map_or(list, |(_, after_commit)| after_commit);
            list.retain(|other| other.name != undo.name);
            list.push(undo);
        })
    }

    /// An undo that was run is not run again.
    pub fn remove_undo(&self, name: &str) {
        let _ = self.note(|state| state.undo.retain(|other| other.name != name));
    }

    /// The script has come to the point of no return. What ends the run before the next step begins has changed nothing, so that step passes
    /// it; a resumed run has passed it.
    pub fn commit(&self, hint: &str) -> Result<(), Failure> {
        self.state().pending_commit = Some((hint.to_owned(), Vec::new()));
        if self.committed().is_some() { self.pass_commit().map(drop) } else { Ok(()) }
    }

    /// Nothing of what was done is undone from here on; gives the undos that are dropped.
    fn pass_commit(&self) -> Result<Vec<Undo>, Failure> {
        let mut state = self.state();
        let Some((hint, after_commit)) = state.pending_commit.clone() else { return Ok(Vec::new()) };
        let notes = Notes { commit: Some(hint), ..state.notes.clone() };
        let undo: Vec<Undo> = state.undo.iter().filter(|undo| undo.always).cloned().chain(after_commit).collect();
        // What nobody could read after a kill has not happened: the undos stay.
        self.keep_notes(&notes, &undo)?;
        (state.notes, state.committed_now, state.pending_commit) = (notes, true, None);
        Ok(std::mem::replace(&mut state.undo, undo))
    }

    /// The step that passed the point of no return was not begun after all.
    pub fn withdraw_commit(&self, undo: Vec<Undo>) {
        let _ = self.note(|state| (state.notes.commit, state.undo, state.committed_now) = (None, undo, false));
    }

    pub fn committed(&self) -> Option<String> {
        self.state().notes.commit.clone()
    }

    /// Takes undos of the journal for this run's own: what a killed run has left.
    pub fn adopt_undos(&self, wanted: impl Fn(&Undo) -> bool) {
        let mut state = self.state();
        state.undo = std::mem::take(&mut state.notes.undo);
        state.undo.retain(wanted);
    }

    /// The arguments of a command as they may be shown: without private arguments, and without the secrets in the others, which may be the
    /// operator's own.
    pub fn shown(&self, command: &[OsString]) -> Vec<String> {
        let arguments = command_line::texts(command);
        let shown = arguments.iter().zip(arguments_without_secrets(&arguments)).map(|(one, shown)| {
            match one.strip_prefix("--installer-arg=") {
                Some(value) if self.private.iter().any(|private| private == value) => format!("--installer-arg={REDACTED}"),
                _ if self.private.contains(one) => REDACTED.to_owned(),
                _ => shown,
            }
        });
        shown.collect()
    }

    /// The failure of a step, for the end of the run.
    pub fn fail(&self, failed: Failed) {
        let mut state = self.state();
        if state.failed.is_none() {
            state.failed = Some(failed);
        }
    }
}

/// A step of the script under way; dropped when it has ended.
pub struct Busy<'a>(&'a Run);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state().busy -= 1;
        self.0.notify();
    }
}

/// What helps if the disk of the journals, which are below this directory, is full.
pub fn disk_space_hint(folder: &Path) -> String {
    format!("Free disk space for {}, then run the same command again.", folder.display())
}

impl From<&Failure> for Failed {
    fn from(failure: &Failure) -> Self {
        Self { step: None, failure: failure.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use svc_step::journal::{Kind, with_ending};

    use super::*;
    use crate::fixture::Made;

    #[test]
    fn step_registered_after_termination_gets_sigterm() {
        let made = Made::new("svc-upgrade");
        let run = Run::new("svc-upgrade".to_owned(), made.journal(), made.state().to_owned(), Caller::default());
        for (step, told) in [("snapshot", Some(["snapshot".to_owned()])), ("stop", None)] {
            run.terminate(told.as_ref().map(<[String; 1]>::as_slice));
            let mut tool = Command::new("sleep").arg("9").spawn().unwrap();
            run.register(tool.id(), step);
            assert_eq!(tool.wait().unwrap().signal(), Some(15), "{step}");
        }
        assert!(run.admit().is_err());
        run.close(false);
        let mut undo = Command::new("true").spawn().unwrap();
        run.register(undo.id(), "start-again");
        assert!(undo.wait().unwrap().success());
    }

    #[test]
    fn step_on_its_way_when_script_ends_passes_the_point_of_no_return() {
        let made = Made::new("svc-upgrade");
        let run = Run::new("svc-upgrade".to_owned(), made.journal(), made.state().to_owned(), Caller::default());
        let busy = run.admit().unwrap();
        run.commit("").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| run.close(true));
            while !run.state().ended {
                std::thread::yield_now();
            }
            run.note_started(&run.name_files("installer"), Kind::External).unwrap();
            drop(busy);
        });
        assert!(run.committed().is_some());
    }

    #[test]
    fn step_that_cannot_be_recorded_does_not_pass_the_point_of_no_return() {
        let made = Made::new("svc-upgrade");
        let run = Run::new("svc-upgrade".to_owned(), made.journal(), made.state().to_owned(), Caller::default());
        let files = run.name_files("installer");
        run.register_undo(undo("start-again")).unwrap();
        run.commit("").unwrap();
        std::fs::create_dir(with_ending(&files, "started")).unwrap();
        assert_eq!(run.note_started(&files, Kind::External).unwrap_err().code, "journal_full");
        assert!(run.committed().is_none() && made.journal().notes().commit.is_none());
        assert_eq!(made.journal().notes().undo, run.undo_list());
        assert_eq!(run.undo_list().len(), 1);
    }

    fn undo(name: &str) -> Undo {
        Undo {
            name: name.to_owned(),
            until: None,
            always: false,
            unless_interrupted: false,
            command: vec!["true".to_owned()],
            directory: PathBuf::new(),
        }
    }
}
