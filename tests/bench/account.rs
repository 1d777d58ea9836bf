//! Where each second of a run goes, step by step.

use serde::{Deserialize, Serialize};

use crate::report::seconds;
use crate::sample::median;

/// A run's time, step by step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Account {
    /// Which run.
    pub what: String,
    /// Of how many runs these are the medians.
    pub runs: usize,
    /// Its parts, in their order.
    pub entries: Vec<Entry>,
}

/// One part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// When: while the service runs, or is down.
    pub phase: String,
    /// The step, or the command.
    pub step: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether it is the installer's or the unit's own time, which no ratio counts.
    pub is_own: bool,
}

impl Entry {
    /// A part.
    pub fn new(phase: &str, step: &str, seconds: f64, is_own: bool) -> Self {
        Self { phase: phase.to_owned(), step: step.to_owned(), seconds, is_own }
    }
}

impl Account {
    /// The medians of several runs; the parts are those of the first.
    pub fn of(what: &str, runs: &[Vec<Entry>]) -> Self {
        let same = |run: &[Entry], entry: &Entry| {
            run.iter().find(|other| (&other.phase, &other.step) == (&entry.phase, &entry.step)).map(|other| other.seconds)
        };
        let first = runs.first().map(Vec::as_slice).unwrap_or_default();
        let middle = |entry: &Entry| Entry { seconds: median(runs.iter().filter_map(|run| same(run, entry))), ..entry.clone() };
        Self { what: what.to_owned(), runs: runs.len(), entries: first.iter().map(middle).collect() }
    }

    /// As a table, in Markdown.
    pub fn table(&self) -> String {
        let runs = if self.runs == 1 { "one run".to_owned() } else { format!("medians of {} runs", self.runs) };
        let mut text = format!("**{}** ({runs}):\n\n| | step | |\n|---|---|---|\n", self.what);
        let mut phase = "";
        for entry in &self.entries {
            let shown = if entry.phase == phase { "" } else { &entry.phase };
            phase = &entry.phase;
            let own = if entry.is_own { " (not counted)" } else { "" };
            text.push_str(&format!("| {shown} | {}{own} | {} |\n", entry.step, seconds(entry.seconds)));
        }
        text
    }
}
