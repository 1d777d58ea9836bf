//! A run's journal, read for its times.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use serde_json::Value;

/// A span of time, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub from: f64,
    pub to: f64,
}

impl Span {
    /// Its length.
    pub fn seconds(self) -> f64 {
        (self.to - self.from).max(0.0) / 1e3
    }

    /// The part of it that lies in another.
    pub fn within(self, other: Self) -> Self {
        Self { from: self.from.clamp(other.from, other.to), to: self.to.clamp(other.from, other.to) }
    }
}

/// How many seconds of a span no other one covers.
pub fn uncovered(whole: Span, spans: &[Span]) -> f64 {
    let mut spans: Vec<Span> = spans.iter().map(|span| span.within(whole)).collect();
    spans.sort_by(|one, other| one.from.total_cmp(&other.from));
    let (mut end, mut gaps) = (whole.from, 0.0);
    for span in spans {
        gaps += (span.from - end).max(0.0);
        end = end.max(span.to);
    }
    (gaps + (whole.to - end).max(0.0)) / 1e3
}

/// One step of a run.
#[derive(Debug)]
pub struct Step {
    pub name: String,
    /// Whether it only reads.
    pub is_check: bool,
    /// From when it was noted that it is started, until the tool wrote its document; of an external command, as long as that took.
    pub span: Span,
    pub document: Value,
}

/// The steps of a run, in the order in which they were started.
pub fn steps(run_dir: &Path) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for entry in fs::read_dir(run_dir).with_context(|| format!("no run directory {}", run_dir.display()))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".started")) else { continue };
        let written = |path: &Path| anyhow::Ok(fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3);
        let begun = written(&path)?;
        let document: Value = serde_json::from_str(&fs::read_to_string(path.with_extension("json"))?)?;
        let ended = path.with_extension(if document["schema"] == "svc-run.command/1" { "rc" } else { "json" });
        steps.push(Step {
            name: name.split_once('-').context("a step without a number")?.1.to_owned(),
            is_check: fs::read_to_string(&path)?.trim() == "check",
            span: Span { from: begun, to: written(&ended)? },
            document,
        });
    }
    steps.sort_by(|one, other| one.span.from.total_cmp(&other.span.from));
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_step_covers_is_counted_once() {
        let span = |from, to| Span { from, to };
        let whole = span(1000.0, 5000.0);
        assert!((uncovered(whole, &[]) - 4.0).abs() < 1e-9);
        let spans = [(2000.0, 4000.0), (0.0, 1500.0), (2500.0, 3000.0), (4500.0, 9000.0), (7000.0, 9000.0), (0.0, 500.0)];
        let spans = spans.map(|(from, to)| span(from, to));
        assert!((uncovered(whole, &spans) - 1.0).abs() < 1e-9);
    }
}
