//! The long series: at each point of its own an upgrade is cut off, and at another one the rollback after it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::sys::signal::Signal;

use svc_tests::journey::runs;

use crate::cut::{How, points};
use crate::journey::Journey;

/// The pairs that have passed, a line each, in the file that `SVC_TEST_PASSED` names: they are passed over, so that a series
/// that was cut off is gone on with.
pub struct Passed(Option<PathBuf>);

impl Passed {
    pub fn new() -> Self {
        Self(std::env::var_os("SVC_TEST_PASSED").map(PathBuf::from))
    }

    pub fn holds(&self, line: &str) -> bool {
        let text = self.0.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        text.lines().any(|other| other == line)
    }

    pub fn note(&self, line: &str) {
        let Some(path) = &self.0 else { return };
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// What a run has: its points but the last, after which nothing is left to cut off.
fn points_of(run: &Path) -> Vec<String> {
    let mut points = points(run);
    points.pop();
    points
}

/// Every point of both, in one of these ways each. One pair that fails does not end the series.
fn series(name: &str, hows: &[How], options: &[&str]) {
    let passed = Passed::new();
    let mut journey = Journey::new(name, options);
    journey.there(hows[0], |_| false);
    let there = points_of(runs(&journey.product).last().unwrap());
    journey.back(hows[0], |_| false);
    let back = points_of(runs(&journey.product).last().unwrap());
    let mut failed = BTreeSet::new();
    // The last first, since they alter the most.
    for number in (0..there.len().max(back.len())).rev() {
        let (there, back) = (&there[number % there.len()], &back[number % back.len()]);
        let (how, other) = (hows[number % hows.len()], hows[(number + 1) % hows.len()]);
        let line = format!("{name} {how:?} {there}, {other:?} {back}");
        if passed.holds(&line) {
            continue;
        }
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // One that came too late is tried again.
            while journey.there(how, once(there)) == 0 {
                journey.back(how, |_| false);
            }
            while journey.back(other, once(back)) == 0 {
                journey.there(other, |_| false);
            }
        }));
        let seconds = begun.elapsed().as_secs();
        if outcome.is_ok() {
            eprintln!("passed in {seconds} s: {line}");
            passed.note(&line);
        } else {
            eprintln!("failed in {seconds} s: {line}");
            failed.insert(line);
            drop(journey);
            journey = Journey::new(name, options);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The first time that it comes to a point.
pub fn once(wanted: &str) -> impl FnMut(&str) -> bool + use<'_> {
    let mut done = false;
    move |point| {
        let now = !done && point == wanted;
        done |= now;
        now
    }
}

/// The first time that it comes to each of these, one after the other.
pub fn in_turn<'a>(wanted: &'a [&str]) -> impl FnMut(&str) -> bool + use<'a> {
    let mut left = wanted.iter().peekable();
    move |point| left.next_if(|wanted| **wanted == point).is_some()
}

#[test]
#[ignore = "half an hour: an upgrade and a rollback for each step"]
fn killed_at_any_step_the_upgrade_and_the_rollback_lose_nothing() {
    series("rekill", &[How::Killed, How::Alone], &[]);
}

#[test]
#[ignore = "half an hour: an upgrade and a rollback for each step"]
fn killed_at_any_step_with_standing_copies_they_lose_nothing() {
    series("reaside", &[How::Killed, How::Alone], &["--aside"]);
}

#[test]
#[ignore = "half an hour: an upgrade and a rollback for each step"]
fn told_to_end_at_any_step_the_upgrade_and_the_rollback_lose_nothing() {
    let hows = [How::Asked(Signal::SIGTERM), How::Hung(Signal::SIGINT), How::Hung(Signal::SIGHUP), How::Asked(Signal::SIGHUP)];
    series("retold", &hows, &[]);
}
