//! The note in a changed throttle: whose it is, and what was there before.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use svc_step::Call;
use svc_step::lock::Lock;

/// The kind of the lock that a run holds as long as its note stands: the kernel frees it when the run dies, however it dies.
pub(crate) const LOCK: &str = "rate";

/// A note, kept as text in a setting of the changed thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The run, for people.
    pub run: String,
    /// Its host, for people.
    pub host: String,
    /// What this very change is called; also the name of its lock under the run's state folder.
    pub token: String,
    /// What was set before; `null` where nothing was.
    pub was: Option<String>,
    /// What was set by the change.
    pub set: String,
    /// Whether it is a transient setting of the cluster.
    #[serde(default)]
    pub transient: bool,
}

/// What can be told of the run that left a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is at work.
    Alive,
    /// It has ended, whatever way.
    Dead,
    /// Its lock is not under this state folder: it is of another host, or has another state folder.
    Unknown,
}

impl Note {
    /// The note of a change that this call makes.
    pub(crate) fn of(call: &Call, was: Option<String>, set: String, transient: bool) -> Self {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let token = format!("{}.{}.{nanos}", call.run_id(), std::process::id());
        Self { run: call.run_id().to_string(), host: Call::host(), token, was, set, transient }
    }

    /// Reads it. One that is not understood is somebody's all the same, and of no known run.
    pub(crate) fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self {
            run: "?".to_owned(),
            host: "?".to_owned(),
            token: String::new(),
            was: None,
            set: String::new(),
            transient: false,
        })
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Whether the run that left it is at work.
    pub(crate) fn life(&self, call: &Call) -> Life {
        if self.token.is_empty() {
            return Life::Unknown;
        }
        match Lock::is_held(call, LOCK, &self.token) {
            Some(true) => Life::Alive,
            Some(false) => Life::Dead,
            None => Life::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_one_that_is_not_ours_is_nobodys() {
        let note = Note {
            run: "r".to_owned(),
            host: "h".to_owned(),
            token: "t".to_owned(),
            was: None,
            set: "0".to_owned(),
            transient: false,
        };
        assert_eq!(Note::read(&note.text()), note);
        assert_eq!(Note::read("what?").token, "");
    }
}
