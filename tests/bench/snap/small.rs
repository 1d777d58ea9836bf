//! A call that changes nothing: what the tool itself costs.

use anyhow::Result;

use super::ground::Ground;
use crate::report::{Ratio, Report};
use crate::sample::Sample;

/// What a call may hold at most, in bytes.
const MEMORY: u64 = 12_000_000;

/// `list` of a few snapshots beside `curl` asking for the same.
pub fn list(ground: &Ground, report: &mut Report, pairs: usize) -> Result<()> {
    let index = ground.sandbox.simple("listed", 3);
    (0..3).for_each(|n| ground.take_small(&format!("listed{n}"), &index));
    let ours = ground.snap(&["list"]);
    let theirs = ground.curl("GET", &ground.snapshot("_all"), None);
    let output = ground.output();
    // A server that has just started answers slowly.
    Sample::take(pairs * 10, || ours.time(&output), || theirs.time(&output))?;
    // So short a call is measured more often.
    let sample = Sample::take(pairs * 10, || ours.time(&output), || theirs.time(&output))?;
    report.ratio("`list`", "`curl …/_snapshot/<repository>/_all`", Some(1.05), &sample);
    let memory = ours.weigh(&output)?.memory_bytes as f64 / 1e6;
    report.add(Ratio {
        what: "`list`, MB of memory".to_owned(),
        against: "–".to_owned(),
        ratio: memory,
        target: Some(MEMORY as f64 / 1e6),
        pairs: 1,
        ours_seconds: 0.0,
        theirs_seconds: 0.0,
    });
    (0..3).for_each(|n| drop(ground.sandbox.ask("DELETE", &ground.snapshot(&format!("listed{n}")), None)));
    ground.sandbox.ask("DELETE", &format!("/{index}"), None);
    Ok(())
}
