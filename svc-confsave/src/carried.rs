//! What a carry says: every customised key with its outcome, and what a person must look at.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Call;
use svc_step::action::Action;

use crate::config::ConfigFile;
use crate::key::{KeyReport, Outcome};
use crate::merge::Reason;

/// What became of every customised key.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Carried {
    /// The saved copy.
    pub saved: ConfigFile,
    /// The new configuration, as it was before.
    pub new: ConfigFile,
    /// What told the operator's changes from the vendor's.
    pub base: BaseUsed,
    /// Every customised key, each with one outcome.
    pub keys: Vec<KeyReport>,
    /// How many are carried.
    pub carried_count: u64,
    /// How many were the same already.
    pub same_count: u64,
    /// How many the vendor had changed too.
    pub conflict_count: u64,
    /// How many are not carried.
    pub not_carried_count: u64,
    /// The SHA-256 of the configuration with the customisations in it.
    pub sha256: String,
    /// Where the file before is kept; `null` where nothing had to be changed.
    pub kept_as: Option<String>,
    /// What changes in the new configuration's text, for people; empty where nothing does.
    pub text_diff: String,
    /// Whether secrets are shown.
    pub secrets_shown: bool,
    /// What is done; empty where nothing had to be changed.
    pub plan: Vec<Action>,
}

/// The base of a three-way merge.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BaseUsed {
    /// There was none.
    None,
    /// A file.
    File {
        /// It.
        file: ConfigFile,
    },
}

impl Carried {
    /// Warns of what a person must look at.
    pub(crate) fn say(&self, call: &Call) {
        let of = |outcome| self.keys.iter().filter(move |key| key.outcome == outcome);
        let conflicts = list(of(Outcome::Conflict));
        if let Some(keys) = conflicts {
            call.review("conflict", format!("Changed by the operator and by the vendor, the operator's value wins: {keys}."));
        }
        let chosen = |key: &&KeyReport| key.reason == Some(Reason::NotNamed);
        if let Some(keys) = list(of(Outcome::NotCarried).filter(|key| !chosen(key))) {
            call.review("not_carried", format!("Customised and not carried, the reason of each is in result.keys: {keys}."));
        }
        if let Some(keys) = list(of(Outcome::NotCarried).filter(chosen)) {
            call.warn("not_named", format!("These differ too and were not named: {keys}."));
        }
        if let (Some(kept), true) = (&self.kept_as, self.keys.iter().any(|key| key.key.is_empty())) {
            call.review(
                "carried_as_a_whole",
                format!(
                    "Not every line is understood, so the saved file is in place as a whole and the shipped one is beside it: {kept}."
                ),
            );
        }
    }
}

/// The first few keys, for a sentence.
fn list<'a>(keys: impl Iterator<Item = &'a KeyReport>) -> Option<String> {
    const SHOWN: usize = 10;
    let paths: Vec<&str> = keys.map(|key| key.path.as_str()).collect();
    let mut text = paths.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        text.push_str(&format!(" and {} more", paths.len() - SHOWN));
    }
    (!paths.is_empty()).then_some(text)
}
