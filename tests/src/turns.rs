//! The parts of a suite, several at a time, each in a host of its own, and what came of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use anyhow::{Context, Result};

use crate::suite::Part;
use crate::{DEEP, SKIPPED, children, wait};

/// What a host takes: its servers, and those that its tests start.
const MEMORY_OF_A_HOST: u64 = 5_000_000_000;

/// How many hosts at a time: as many as the memory that is free has room for, up to four, which keep two cores busy.
pub fn jobs() -> usize {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    jobs_with(available(&memory).unwrap_or_default())
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn jobs_with(memory: u64) -> usize {
    usize::try_from(memory / MEMORY_OF_A_HOST).unwrap_or(4).clamp(1, 4)
}

/// How a search database's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that ran on it passed.
    Passed,
    /// Something did not, or the run was broken off.
    Failed,
    /// Nothing came of it for the longest time.
    Hung,
    /// The run was broken off before its turn.
    NotRun,
    /// It cannot be had.
    Skipped,
}

/// What came of one search database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// After how long.
    pub time: Duration,
    /// How many tests passed.
    pub passed: usize,
    /// How many did not.
    pub failed: usize,
    /// How many are `#[ignore]` and were not run.
    pub ignored: usize,
    /// What was not run: the tests that are `#[ignore]`, and what tests left out, as [`crate::skip`] has it; each once.
    pub left_out: Vec<String>,
    /// How many seconds each target took, in their order; those that took less than one are not there.
    pub seconds: Vec<(String, u64)>,
}

impl Outcome {
    /// Of a search database that had no turn.
    pub fn without_turn(verdict: Verdict) -> Self {
        Self { verdict, time: Duration::ZERO, passed: 0, failed: 0, ignored: 0, left_out: Vec::new(), seconds: Vec::new() }
    }

    fn of(verdict: Verdict, time: Duration, said: &str, noted: &str) -> Self {
        let [passed, failed, ignored] = counts(said);
        let mut left_out: Vec<String> = noted.lines().map(str::to_owned).chain(ignored_tests(said)).collect();
        left_out.sort();
        left_out.dedup();
        Self { verdict, time, passed, failed, ignored, left_out, seconds: seconds(said) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, passed) = (self.time.as_secs(), self.passed);
        match self.verdict {
            Verdict::Passed => write!(out, "passed {seconds}s, {passed} tests")?,
            Verdict::Failed => write!(out, "FAILED {seconds}s, {passed} tests passed, {} failed", self.failed)?,
            Verdict::Hung => write!(out, "FAILED {seconds}s, stopped since nothing ended any more, {passed} tests passed")?,
            Verdict::NotRun => out.write_str("not run")?,
            Verdict::Skipped => out.write_str("skipped")?,
        }
        if self.ignored > 0 {
            write!(out, ", {} ignored", self.ignored)?;
        }
        let others = self.left_out.len().saturating_sub(self.ignored);
        if others == 0 { Ok(()) } else { write!(out, ", {others} left out") }
    }
}

/// How many tests passed, failed and were ignored, by the last lines of the test programs.
fn counts(said: &str) -> [usize; 3] {
    let results = said.lines().filter_map(|line| line.strip_prefix("test result: "));
    let count = |line: &str, what: &str| -> usize {
        let before = line.split(';').find_map(|part| part.trim_end().strip_suffix(what));
        before.and_then(|text| text.trim().rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    };
    results.fold([0; 3], |[passed, failed, ignored], line| {
        [passed + count(line, " passed"), failed + count(line, " failed"), ignored + count(line, " ignored")]
    })
}

/// The tests that were ignored, with the reason that stands in their attribute.
fn ignored_tests(said: &str) -> impl Iterator<Item = String> {
    let ignored = |line: &str| line.strip_prefix("test ")?.split_once(" ... ignored, ").map(|(a, b)| format!("{a}: {b}"));
    said.lines().filter_map(ignored).map(|one| format!("{one}, only with --deep"))
}

/// How long the test programs took, by what cargo and they say of it.
fn seconds(said: &str) -> Vec<(String, u64)> {
    let (mut name, mut all) = (None, Vec::new());
    for line in said.lines() {
        if let Some((_, program)) = line.trim_start().strip_prefix("Running ").and_then(|rest| rest.rsplit_once("/deps/")) {
            name = program.rsplit_once('-').map(|(name, _)| name);
        } else if let Some((_, time)) = line.strip_prefix("test result: ").and_then(|rest| rest.rsplit_once("finished in ")) {
            let whole = time.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or_default();
            all.extend(name.take().filter(|_| whole > 0).map(|name| (name.to_owned(), whole)));
        }
    }
    all
}

/// Runs the parts, at most `jobs` at a time, in their order; one that is silent for so long is stopped. What one says is kept until it ends, and
/// then printed whole. A part that is not in the answer had no turn.
///
/// # Errors
/// This program does not know where it is, to start itself again for each of them.
pub fn run(parts: Vec<Part>, jobs: usize, silence: Duration) -> Result<BTreeMap<&'static str, Outcome>> {
    // Asked for now: when cargo has built it anew, the old one has no place any more.
    let program = env::current_exe()?;
    let queue = Mutex::new(parts.into_iter());
    let outcomes = Mutex::new(BTreeMap::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next().filter(|_| !wait::is_cancelled());
    let work = || {
        while let Some(part) = next() {
            let begun = Instant::now();
            eprintln!("\n== {}: begun", part.key);
            let outcome = one(&program, &part, silence);
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            let (outcome, said) = outcome.unwrap_or_else(|error| {
                (
                    Outcome { time: begun.elapsed(), ..Outcome::without_turn(Verdict::Failed) },
                    format!("svc-testhost: {error:#}\n"),
                )
            });
            eprintln!("\n== {}\n{said}== {}: {outcome}", part.key, part.key);
            let seconds: Vec<String> = outcome.seconds.iter().map(|(name, seconds)| format!("{name} {seconds}")).collect();
            if !seconds.is_empty() {
                eprintln!("   seconds: {}", seconds.join(", "));
            }
            outcome.left_out.iter().for_each(|one| eprintln!("   left out: {one}"));
            outcomes.insert(part.key, outcome);
        }
    };
    thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    Ok(outcomes.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One part, and all that it said.
fn one(program: &Path, part: &Part, silence: Duration) -> Result<(Outcome, String)> {
    let begun = Instant::now();
    let mut said = tempfile::tempfile()?;
    let noted = tempfile::NamedTempFile::new()?;
    let mut command = children::grouped(program);
    command.args(["run", "--search", part.key, "--"]);
    if part.with_check {
        command.args(["bash", "-c", "tests/service/check >&2 && exec \"$@\"", "with-check"]);
    }
    command.args(["cargo", "test"]).args(part.arguments()).env(SKIPPED, noted.path());
    if part.deep {
        command.env(DEEP, "1");
    }
    command.stdout(said.try_clone()?).stderr(said.try_clone()?).stdin(Stdio::null());
    let mut child = command.spawn().context("cannot start a host")?;
    // Its output grows when a test ends; when a tool ends, the other file is touched.
    let progress =
        || (said.metadata().map(|meta| meta.len()).ok(), fs::metadata(noted.path()).and_then(|meta| meta.modified()).ok());
    let verdict = match children::while_it_goes_on(&mut child, silence, progress)? {
        None => Verdict::Hung,
        Some(status) if status.success() => Verdict::Passed,
        Some(_) => Verdict::Failed,
    };
    let text = whole(&mut said)?;
    Ok((Outcome::of(verdict, begun.elapsed(), &text, &fs::read_to_string(noted.path())?), text))
}

fn whole(file: &mut File) -> Result<String> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What was left out, each with the search databases on which it was.
pub fn left_out(outcomes: &BTreeMap<&'static str, Outcome>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, outcome) in outcomes {
        outcome.left_out.iter().for_each(|one| places.entry(one).or_default().push(key));
    }
    places.into_iter().map(|(one, keys)| format!("left out on {}: {one}", keys.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "     Running unittests src/lib.rs (target/debug/deps/svc_snap-8b1a14ff6cd84164)\n\
        running 2 tests\ntest a ... ok\ntest b::c ... ignored, takes minutes\n\
        test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s\n\
        \x20    Running snap.rs (target/debug/deps/snap-336fc02a344339ff)\n\
        test result: FAILED. 30 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.10s\n";

    #[test]
    fn the_tests_of_all_programs_are_counted() {
        assert_eq!(counts(SAID), [42, 2, 1]);
        assert_eq!(counts("error: could not compile"), [0; 3]);
        assert_eq!(seconds(SAID), [("snap".to_owned(), 9)]);
    }

    #[test]
    fn what_is_left_out_is_said_once_with_all_its_places() {
        let outcome = |noted| Outcome::of(Verdict::Passed, Duration::from_secs(7), SAID, noted);
        let outcomes = BTreeMap::from([("a", outcome("x: why\nx: why\ny: so\n")), ("b", outcome("x: why\n"))]);
        let deep = "left out on a, b: b::c: takes minutes, only with --deep";
        assert_eq!(left_out(&outcomes), [deep, "left out on a, b: x: why", "left out on a: y: so"]);
        assert_eq!(outcomes["a"].to_string(), "passed 7s, 42 tests, 1 ignored, 2 left out");
    }

    #[test]
    fn as_many_hosts_as_the_memory_has_room_for() {
        assert_eq!(available("MemTotal: 3 kB\nMemAvailable:    1000 kB\n"), Some(1_024_000));
        let gigabytes = [0, 4, 11, 16, 200].map(|one| jobs_with(one * 1_000_000_000));
        assert_eq!(gigabytes, [1, 1, 2, 3, 4]);
    }
}
