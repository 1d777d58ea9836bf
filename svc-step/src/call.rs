//! One call of a tool: what its step needs to know, and the record that becomes its document.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::common::Common;
use crate::deadline::Deadline;
use crate::document::{Document, ErrorPart, Warning};
use crate::effects::Effects;
use crate::failure::{Failure, StepResult, Stopped};
use crate::progress::{Progress, Unit};
use crate::reporter::Reporter;
use crate::run_id::RunId;
use crate::settings;
use crate::signals::Signals;
use crate::status::Status;
use crate::watch::Watch;

/// One call of a tool. It is shared by the threads of a step.
pub struct Call {
    tool: &'static str,
    run_id: RunId,
    state_dir: PathBuf,
    started_at: Timestamp,
    started: Instant,
    deadline: Deadline,
    signals: Signals,
    reporter: Reporter,
    effects: Effects,
    remarks: Mutex<Remarks>,
}

#[derive(Debug, Default)]
struct Remarks {
    warnings: Vec<Warning>,
    review: bool,
}

/// A step that has ended: its document, and how the process is to end.
#[derive(Debug)]
pub struct Finished {
    /// The document as JSON, on one line. It is written directly from the result: a tree of a result of thousands of parts
    /// would be many times its size.
    pub document: String,
    /// What is printed in the place of the document (the metrics).
    pub text: Option<String>,
    /// The exit status.
    pub exit_code: u8,
    /// What people are told.
    pub failure: Option<Failure>,
}

impl Call {
    pub(crate) fn new(tool: &'static str, common: &Common, signals: Signals) -> Self {
        let started_at = Timestamp::now();
        Self {
            tool,
            run_id: common.run_id.clone().unwrap_or_else(|| RunId::by_hand(started_at)),
            state_dir: common.state_dir.clone(),
            started_at,
            started: Instant::now(),
            deadline: Deadline::new(common.timeout),
            signals,
            reporter: Reporter::new(tool, common),
            effects: Effects::default(),
            remarks: Mutex::default(),
        }
    }

    /// The tool's name.
    pub const fn tool(&self) -> &'static str {
        self.tool
    }

    /// The run that this call belongs to.
    pub const fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// `$SVC_STATE_DIR`.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The option that leads another call to the same state directory; none if the settings do.
    pub fn state_dir_option(&self) -> Vec<String> {
        let set = settings::variable("SVC_STATE_DIR").unwrap_or_else(|| settings::default_of("SVC_STATE_DIR", ""));
        if self.state_dir == Path::new(&set) {
            return Vec::new();
        }
        let absolute = std::path::absolute(&self.state_dir).unwrap_or_else(|_| self.state_dir.clone());
        vec!["--state-dir".to_owned(), absolute.display().to_string()]
    }

    /// What hints call the repetition of this call. A script has no `--run-id`.
    pub fn same_command(&self) -> String {
        let run_id = if settings::is_of_script() { String::new() } else { format!(", with --run-id {}", self.run_id) };
        format!("the same command again{run_id}")
    }

    /// When the call started.
    pub const fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// The time limit of the whole step.
    pub const fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// The record of what was changed.
    pub const fn effects(&self) -> &Effects {
        &self.effects
    }

    /// The writer to stderr.
    pub const fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Shows the progress of a piece of work, if it is wanted.
    pub fn progress(&self, what: &str, unit: Unit) -> Progress {
        Progress::start(&self.reporter, what, unit)
    }

    /// Something that a person should know although the step continues. The same warning is given once.
    pub fn warn(&self, code: &str, message: impl Into<String>) {
        let warning = Warning { code: code.to_owned(), message: message.into() };
        let mut remarks = self.remarks();
        if !remarks.warnings.contains(&warning) {
            self.reporter.warning(&warning.message);
            remarks.warnings.push(warning);
        }
    }

    /// The same, and a person must read it: the exit status becomes 9.
    pub fn review(&self, code: &str, message: impl Into<String>) {
        self.warn(code, message);
        self.remarks().review = true;
    }

    /// Whether to continue: a signal or the end of the time limit says no.
    ///
    /// # Errors
    /// `interrupted`, or `timeout` (6).
    pub fn check(&self) -> Result<(), Failure> {
        self.watch().check()
    }

    /// What [`Call::check`] asks, for a thread or for something that outlives a borrow of the call.
    pub fn watch(&self) -> Watch {
        Watch::new(self.signals.clone(), self.deadline)
    }

    /// Waits, and wakes early for a signal.
    ///
    /// # Errors
    /// As [`Call::check`].
    pub fn pause(&self, time: Duration) -> Result<(), Failure> {
        self.signals.wait(self.deadline.at_most(time));
        self.check()
    }

    /// Stops with `failure`, and with `result` if something was changed by then or may have been.
    pub fn stopped<T>(&self, failure: Failure, result: T) -> Stopped<T> {
        if self.effects.changed() == Some(false) { failure.into() } else { Stopped::with(failure, result) }
    }

    /// Runs a step and makes its document. Locks that `body` takes are released when it returns, before anybody can read
    /// the document.
    pub fn step<T>(&self, step: &str, dry_run: bool, body: impl FnOnce(&Self) -> StepResult<T>) -> Finished
    where
        T: Serialize + JsonSchema,
    {
        let ended = body(self);
        let (result, failure) = match (ended, self.signals.came()) {
            (Ok(result), None) => (Some(result), None),
            (Ok(result), Some(signal)) => (Some(result), Some(self.finished_all_the_same(signal))),
            (Err(Stopped { failure, result }), Some(signal)) if failure.signal.is_none() => {
                (result, Some(failed_after(signal, failure)))
            }
            (Err(Stopped { failure, result }), _) => (result, Some(failure)),
        };
        let failure = failure.map(|failure| no_refusal_after_effects(failure, self.effects.changed()));
        let remarks = std::mem::take(&mut *self.remarks());
        let document = Document {
            ok: failure.is_none(),
            changed: self.effects.changed(),
            dry_run,
            // The clock may have been set meanwhile.
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            result,
            warnings: remarks.warnings,
            error: failure.as_ref().map(ErrorPart::from),
            ..Document::new(self.tool, step, self.run_id.as_str(), self.started_at)
        };
        let exit_code = match &failure {
            Some(failure) => failure.exit_code(),
            None if remarks.review => Status::Review.code(),
            None => Status::Ok.code(),
        };
        match serde_json::to_string(&document) {
            Ok(document) => Finished { document, text: None, exit_code, failure },
            Err(error) => self.without_result(step, dry_run, &error),
        }
    }

    /// A signal that came while something ran that must not be cut (a swap), or just before the end.
    fn finished_all_the_same(&self, signal: i32) -> Failure {
        let mut failure = Failure::interrupted(signal);
        failure.message =
            format!("{} came while the step was running, and the step was finished all the same.", crate::signals::name(signal));
        failure.hint = Some("Nothing is incomplete; result has the outcome.".to_owned());
        failure
    }

    /// A result that cannot be written as JSON is a bug of ours; the document has everything else.
    fn without_result(&self, step: &str, dry_run: bool, error: &serde_json::Error) -> Finished {
        self.step::<()>(step, dry_run, |_| {
            Err(Failure::fault("The result cannot be written as JSON.").cause(error.to_string()).into())
        })
    }

    fn remarks(&self) -> std::sync::MutexGuard<'_, Remarks> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step that failed of something else once a signal had come ends by the signal all the same: what failed is its cause.
fn failed_after(signal: i32, failure: Failure) -> Failure {
    let mut interrupted = Failure::interrupted(signal);
    interrupted.message = format!("{} came, and then the step failed: {}", crate::signals::name(signal), failure.message);
    interrupted.hint = failure.hint.or(interrupted.hint);
    interrupted.causes.push(format!("{}: {}", failure.code, failure.message));
    interrupted.causes.extend(failure.causes);
    interrupted
}

/// Exit 3 promises that nothing was changed. A refusal that came after the first effect, or after one whose outcome is unknown, is a
/// failure (1) of the same code.
fn no_refusal_after_effects(mut failure: Failure, changed: Option<bool>) -> Failure {
    if failure.status == Status::Refused && changed != Some(false) {
        failure.status = Status::Failed;
    }
    failure
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A call of that tool, without limits.
    pub fn call(tool: &'static str, state_dir: &Path) -> Call {
        let common = Common {
            timeout: None,
            progress: crate::common::ProgressMode::None,
            quiet: true,
            verbose: false,
            pretty: false,
            table: false,
            run_id: None,
            state_dir: state_dir.to_owned(),
        };
        Call::new(tool, &common, Signals::default())
    }

    #[test]
    fn refusal_after_effect_becomes_failure_of_same_code() {
        for (changed, status) in [(Some(false), 3), (Some(true), 1), (None, 1)] {
            let failure = no_refusal_after_effects(Failure::refused("access_denied", "You may not."), changed);
            assert_eq!((failure.exit_code(), failure.code.as_str()), (status, "access_denied"), "{changed:?}");
            let other = no_refusal_after_effects(Failure::invalid("invalid", "It is invalid."), changed);
            assert_eq!(other.exit_code(), 7, "{changed:?}");
        }
    }

    #[test]
    fn failure_after_signal_is_reported_as_interrupted() {
        let failure = Failure::failed("out_of_space", "The disk is full.").hint("Free disk space.").cause("ENOSPC");
        let ended = failed_after(15, failure);
        assert_eq!((ended.code.as_str(), ended.exit_code(), ended.signal), ("interrupted", 143, Some(15)));
        assert_eq!(ended.causes, ["out_of_space: The disk is full.", "ENOSPC"]);
        assert_eq!(ended.hint.as_deref(), Some("Free disk space."));
    }
}
