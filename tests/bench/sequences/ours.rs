//! A run of `svc-upgrade`, `svc-rollback` or `svc-backup --quiesce`, and where its time went.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use svc_tests::tool::root;

use super::ground::{AFTER, Ground};
use super::journal::{self, Span, Step, uncovered};
use crate::account::Entry;

/// What a run took, without the installer's and the unit's own time.
#[derive(Debug)]
pub struct Took {
    /// How long the service was down.
    pub downtime: f64,
    /// From the start of the script to its end.
    pub whole: f64,
    /// Step by step.
    pub entries: Vec<Entry>,
    /// The commands that remove what it has kept.
    remove_kept: Vec<String>,
}

/// `svc-upgrade`, from a service that runs.
pub fn upgrade(ground: &Ground, clone: bool) -> Result<Took> {
    let installer = ground.product.installer(AFTER).display().to_string();
    let words: Vec<&str> = clone.then_some("--clone").into_iter().chain([installer.as_str()]).collect();
    took(ground, "svc-upgrade", &words)
}

/// `svc-rollback` of that.
pub fn rollback(ground: &Ground) -> Result<Took> {
    let took = took(ground, "svc-rollback", &[])?;
    for command in &took.remove_kept {
        let mut words = command.split(' ');
        let program = words.next().context("an empty command")?;
        ground.tool(program).args(words).run().ok();
    }
    Ok(took)
}

/// `svc-backup --quiesce`, of a service that runs.
pub fn quiesced(ground: &Ground) -> Result<Took> {
    took(ground, "svc-backup", &["--quiesce"])
}

/// Measured as the procedure's commands are: to the moment of its end, and not of some look at it.
fn took(ground: &Ground, script: &str, words: &[&str]) -> Result<Took> {
    ground.settle()?;
    let script = root().join("scripts").join(script).display().to_string();
    let line = ground.line(&[&[script.as_str()], words].concat());
    let from = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
    let whole = Span { from, to: from + line.time(&ground.output())? * 1e3 };
    let document = ground.printed()?;
    ensure!(document["ok"] == true, "the script failed: {document}");
    let result = &document["result"];
    let steps = journal::steps(&PathBuf::from(result["run_dir"].as_str().context("no run directory")?))?;
    let (stop, start) = (own("stop", &steps)?, own("start", &steps)?);
    let down = Span { from: stop.from, to: start.to };
    let said = result["downtime_ms"].as_f64().context("no downtime")?;
    ensure!((said - (down.to - down.from)).abs() < 1.0, "the document says {said} ms, its steps {down:?}");

    let foreign = |step: &&Step| step.document["schema"] == "svc-run.command/1";
    let foreigners = || steps.iter().filter(foreign).map(|step| step.span);
    let own_down: f64 = foreigners().chain([stop, start]).map(|span| span.within(down).seconds()).sum();
    // The start is watched for some seconds, which is the unit's time too.
    let units = steps.iter().filter(|step| ["stop", "start"].contains(&step.name.as_str())).map(|step| step.span);
    let own_whole: f64 = foreigners().chain(units).map(Span::seconds).sum();
    Ok(Took {
        downtime: down.seconds() - own_down,
        whole: whole.seconds() - own_whole,
        entries: entries(&steps, whole, stop, start),
        remove_kept: result["discard_previous"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect(),
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
fn entries(steps: &[Step], whole: Span, stop: Span, start: Span) -> Vec<Entry> {
    let phases = [
        ("while the service runs", Span { from: whole.from, to: stop.from }),
        ("while it is down", Span { from: stop.from, to: start.to }),
        ("after its start", Span { from: start.to, to: whole.to }),
    ];
    let all: Vec<Span> = steps.iter().map(|step| step.span).collect();
    let mut entries = Vec::new();
    for (number, (phase, span)) in phases.into_iter().enumerate() {
        let here: Vec<&Step> = steps.iter().filter(|step| step.span.within(span).seconds() > 0.0).collect();
        let checks: Vec<f64> = here.iter().filter(|step| number == 0 && step.is_check).map(|step| step.span.seconds()).collect();
        if !checks.is_empty() {
            entries.push(Entry::new(phase, &format!("{} checks", checks.len()), checks.iter().sum(), false));
        }
        for step in here.into_iter().filter(|step| number != 0 || !step.is_check) {
            let is_own = ["stop", "start"].contains(&step.name.as_str()) || step.document["schema"] == "svc-run.command/1";
            entries.push(Entry::new(phase, &format!("`{}`", step.name), step.span.within(span).seconds(), is_own));
        }
        entries.push(Entry::new(phase, "between the steps", uncovered(span, &all), false));
    }
    entries
}
