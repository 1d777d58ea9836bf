//! The one JSON document that every call prints.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::status::Status;

/// The envelope: every key is always there, `null` if there is nothing to say.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct Document<T> {
    /// `<tool>.<step>/<major>`; additive changes keep the major.
    pub schema: String,
    /// The tool and its version.
    pub tool: String,
    /// The step.
    pub step: String,
    /// Whether the step did what it was asked.
    pub ok: bool,
    /// `true` this call changed something, `false` it changed nothing, `null` unknown.
    pub changed: Option<bool>,
    /// Whether the call only said what it would do.
    pub dry_run: bool,
    /// What the documents of one run share.
    pub run_id: String,
    /// The host's name.
    pub host: String,
    /// RFC 3339, UTC.
    pub started_at: Time,
    /// RFC 3339, UTC.
    pub finished_at: Time,
    /// How long the call took.
    pub duration_ms: u64,
    /// What the step found or did; never `null` once something was changed.
    pub result: Option<T>,
    /// What a person should know although the step is done.
    pub warnings: Vec<Warning>,
    /// Why it failed, or `null`.
    pub error: Option<ErrorPart>,
}

/// Something that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A lower_snake name for programs.
    pub code: String,
    /// A full sentence.
    pub message: String,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorPart {
    /// A lower_snake name for programs.
    pub code: String,
    /// A full sentence.
    pub message: String,
    /// The exact command or setting that helps.
    pub hint: Option<String>,
    /// Whether the same call may succeed later by itself.
    pub retryable: bool,
    /// What lay behind it, outermost first.
    pub causes: Vec<String>,
}

impl From<&Failure> for ErrorPart {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code.clone(),
            message: failure.message.clone(),
            hint: failure.hint.clone(),
            retryable: failure.retryable,
            causes: failure.causes.clone(),
        }
    }
}

impl ErrorPart {
    /// The failure again, with the status of its call.
    pub fn into_failure(self, status: Status) -> Failure {
        let Self { code, message, hint, retryable, causes } = self;
        Failure { hint, causes, ..Failure::new(status, &code, message).retryable(retryable) }
    }
}

impl<T> Document<T> {
    /// A document of a step that has begun at that time, ends now, and went well without changing anything, as far as nothing else is set.
    pub fn new(tool: &str, step: &str, run_id: &str, started: Timestamp) -> Self {
        let finished = Timestamp::now();
        Self {
            schema: schema_name(tool, step),
            tool: format!("{tool} {}", env!("CARGO_PKG_VERSION")),
            step: step.to_owned(),
            ok: true,
            changed: Some(false),
            dry_run: false,
            run_id: run_id.to_owned(),
            host: host(),
            started_at: started.into(),
            finished_at: finished.into(),
            duration_ms: u64::try_from(finished.as_millisecond() - started.as_millisecond()).unwrap_or(0),
            result: None,
            warnings: Vec::new(),
            error: None,
        }
    }
}

impl Document<Value> {
    /// What stands at a path of the result, such as `/after/active_state`.
    pub fn at(&self, path: &str) -> Option<&Value> {
        self.result.as_ref()?.pointer(path)
    }

    /// The text there.
    pub fn text(&self, path: &str) -> Option<String> {
        self.at(path)?.as_str().map(ToOwned::to_owned)
    }

    /// The number there.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.at(path)?.as_u64()
    }
}

/// The schema name of a step, major 1.
pub(crate) fn schema_name(tool: &str, step: &str) -> String {
    format!("{tool}.{step}/1")
}

/// An RFC 3339 time in UTC, to the second, with `Z`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Time(String);

impl Time {
    /// The time as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// The name of this host; empty if the kernel does not say it.
pub fn host() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
