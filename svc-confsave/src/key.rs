//! What a document says of one key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::merge::{Decision, Fate, Reason};
use crate::redact::Redactor;
use crate::tree::{Flat, Path, Tree, render};

/// What became of a customised key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The new configuration has the operator's value.
    Carried,
    /// It had it already.
    Same,
    /// The vendor had changed it too; the new configuration has the operator's value.
    Conflict,
    /// The new configuration stays as it is there.
    NotCarried,
}

/// A customised key, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KeyReport {
    /// The keys that lead to it; empty for the whole file.
    pub key: Vec<String>,
    /// The same for people, `a.b.c`.
    pub path: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was not carried; `null` where it was.
    pub reason: Option<Reason>,
    /// The operator's value, as it is written; `null` where the operator took the key out.
    pub saved: Option<Value>,
    /// The value of the base; `null` where there is no base, or no such key in it.
    pub base: Option<Value>,
    /// The value that the new configuration had before; `null` where it had none.
    pub new: Option<Value>,
    /// Whether a secret was left out of a value here.
    pub redacted: bool,
    /// The key of the other layout that may be the same one; `null` without one, and within a layout.
    pub suggestion: Option<String>,
}

/// The files that a key may stand in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides<'a> {
    pub saved: &'a Flat,
    pub base: Option<&'a Flat>,
    pub new: &'a Flat,
}

impl KeyReport {
    /// What is said of a decision.
    pub(crate) fn of(decision: &Decision, sides: Sides<'_>, redactor: &Redactor) -> Self {
        let (outcome, reason) = match decision.fate {
            Fate::Carried => (Outcome::Carried, None),
            Fate::Same => (Outcome::Same, None),
            Fate::Conflict => (Outcome::Conflict, None),
            Fate::NotCarried(reason) => (Outcome::NotCarried, Some(reason)),
        };
        let path = &decision.path;
        let mut redacted = false;
        let mut value = |flat: Option<&Flat>| {
            let (shown, left_out) = shown(redactor, path, flat?.get(path)?);
            redacted |= left_out;
            Some(shown)
        };
        let (saved, base, new) = (value(Some(sides.saved)), value(sides.base), value(Some(sides.new)));
        let key = redactor.path(path);
        redacted |= key != *path;
        Self { path: render(&key), key, outcome, reason, saved, base, new, redacted, suggestion: None }
    }

    /// What is said of a file that is not read by key.
    pub(crate) fn of_whole_file(outcome: Outcome, reason: Option<Reason>) -> Self {
        let path = "(the whole file)".to_owned();
        Self { key: Path::new(), path, outcome, reason, saved: None, base: None, new: None, redacted: false, suggestion: None }
    }
}

/// A value as it may be shown, and whether something was left out of it.
pub(crate) fn shown(redactor: &Redactor, path: &[String], leaf: &Tree) -> (Value, bool) {
    let shown = redactor.value(path, leaf);
    let left_out = shown != leaf.to_json();
    (shown, left_out)
}
