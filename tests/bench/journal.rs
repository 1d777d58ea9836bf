//! Where the time of a run of `svc-upgrade`, `svc-rollback` or `svc-backup --quiesce` went, by its journal.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::report::Entry;
use crate::sequences::Took;

/// A span of time, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    from: f64,
    to: f64,
}

impl Span {
    fn seconds(self) -> f64 {
        (self.to - self.from).max(0.0) / 1e3
    }

    /// The part of it that lies in another.
    fn within(self, other: Self) -> Self {
        Self { from: self.from.clamp(other.from, other.to), to: self.to.clamp(other.from, other.to) }
    }

    /// How many seconds of it no other one covers.
    fn uncovered(self, spans: &[Self]) -> f64 {
        let mut spans: Vec<Span> = spans.iter().map(|span| span.within(self)).collect();
        spans.sort_by(|one, other| one.from.total_cmp(&other.from));
        let (mut end, mut gaps) = (self.from, 0.0);
        for span in spans {
            gaps += (span.from - end).max(0.0);
            end = end.max(span.to);
        }
        (gaps + (self.to - end).max(0.0)) / 1e3
    }
}

/// One step of a run.
#[derive(Debug)]
struct Step {
    name: String,
    /// Whether it only reads.
    is_check: bool,
    /// An installer or another command of the product's own.
    is_external: bool,
    /// From the record of its start until the tool wrote its document; of an external command, as long as that took.
    span: Span,
    document: Value,
}

impl Step {
    fn is_own(&self) -> bool {
        self.is_external || ["stop", "start"].contains(&self.name.as_str())
    }

    /// The steps of a run, in the order in which they were started.
    fn all(run_dir: &Path) -> Result<Vec<Self>> {
        let mut steps = Vec::new();
        for entry in fs::read_dir(run_dir).with_context(|| format!("no run directory {}", run_dir.display()))? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".started")) else { continue };
            let written =
                |path: &Path| anyhow::Ok(fs::metadata(path)?.modified()?.duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3);
            let document: Value = serde_json::from_str(&fs::read_to_string(path.with_extension("json"))?)?;
            let is_external = document["schema"] == "svc-run.command/1";
            let ended = path.with_extension(if is_external { "rc" } else { "json" });
            steps.push(Self {
                name: name.split_once('-').context("a step without a number")?.1.to_owned(),
                is_check: fs::read_to_string(&path)?.trim() == "check",
                is_external,
                span: Span { from: written(&path)?, to: written(&ended)? },
                document,
            });
        }
        steps.sort_by(|one, other| one.span.from.total_cmp(&other.span.from));
        Ok(steps)
    }
}

/// What the run came to whose document that is, which took so long from that moment on (in milliseconds) to its end.
pub fn took(document: &Value, from: f64, seconds: f64) -> Result<Took> {
    let complete = Span { from, to: from + seconds * 1e3 };
    let result = &document["result"];
    let steps = Step::all(Path::new(result["run_dir"].as_str().context("no run directory")?))?;
    let (stop, start) = (own("stop", &steps)?, own("start", &steps)?);
    let down = Span { from: stop.from, to: start.to };
    let downtime = result["downtime_ms"].as_f64().context("no downtime")?;
    ensure!((downtime - (down.to - down.from)).abs() < 1.0, "the document says {downtime} ms, its steps {down:?}");

    let external = steps.iter().filter(|step| step.is_external).map(|step| step.span);
    let own_down: f64 = external.chain([stop, start]).map(|span| span.within(down).seconds()).sum();
    // The start is watched for some seconds, which is the unit's time too.
    let own_complete: f64 = steps.iter().filter(|step| step.is_own()).map(|step| step.span.seconds()).sum();
    Ok(Took {
        downtime: down.seconds() - own_down,
        complete: complete.seconds() - own_complete,
        entries: entries(&steps, complete, stop, start),
    })
}

/// The unit's own time in a step: from the request to the moment that the unit itself gives. One that is not enabled is forgotten
/// by systemd when it is down: then to the end of the step.
fn own(name: &str, steps: &[Step]) -> Result<Span> {
    let step = steps.iter().find(|step| step.name == name).with_context(|| format!("no step {name}"))?;
    let result = &step.document["result"];
    let from = result["requested_epoch_ms"].as_f64().with_context(|| format!("the step {name} had nothing to do"))?;
    let end = if name == "stop" { "inactive_enter_epoch_ms" } else { "active_enter_epoch_ms" };
    Ok(Span { from, to: result["after"][end].as_f64().unwrap_or(step.span.to) })
}

/// The checks before the stop are one entry; what no step covers is the scripts' own.
fn entries(steps: &[Step], complete: Span, stop: Span, start: Span) -> Vec<Entry> {
    let phases = [
        ("while the service runs", Span { from: complete.from, to: stop.from }),
        ("while it is down", Span { from: stop.from, to: start.to }),
        ("after its start", Span { from: start.to, to: complete.to }),
    ];
    let all: Vec<Span> = steps.iter().map(|step| step.span).collect();
    let mut entries = Vec::new();
    for (number, (phase, span)) in phases.into_iter().enumerate() {
        let mut add = |step: String, seconds, is_own| entries.push(Entry { phase, step, seconds, is_own });
        let here = steps.iter().filter(|step| step.span.within(span).seconds() > 0.0);
        let (checks, others): (Vec<&Step>, Vec<&Step>) = here.partition(|step| number == 0 && step.is_check);
        if !checks.is_empty() {
            add(format!("{} checks", checks.len()), checks.iter().map(|step| step.span.seconds()).sum(), false);
        }
        others.iter().for_each(|step| add(format!("`{}`", step.name), step.span.within(span).seconds(), step.is_own()));
        add("between the steps".to_owned(), span.uncovered(&all), false);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncovered_time_is_counted_once() {
        let span = |from, to| Span { from, to };
        let complete = span(1000.0, 5000.0);
        assert!((complete.uncovered(&[]) - 4.0).abs() < 1e-9);
        let spans = [(2000.0, 4000.0), (0.0, 1500.0), (2500.0, 3000.0), (4500.0, 9000.0), (7000.0, 9000.0), (0.0, 500.0)];
        assert!((complete.uncovered(&spans.map(|(from, to)| span(from, to))) - 1.0).abs() < 1e-9);
    }
}
