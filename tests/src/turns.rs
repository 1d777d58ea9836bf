//! A suite's work, shared out among hosts, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use anyhow::{Context, Result};

use crate::filter::Filter;
use crate::host::{Host, Running};
use crate::owner::Owner;
use crate::search::Settings;
use crate::suite::{Queue, Work};
use crate::{DEEP, SKIPPED, children, wait};

/// What a host takes: its servers, and those that its tests start.
const MEMORY_OF_A_HOST: u64 = 5_000_000_000;

/// How many hosts at a time: as many as the memory that is free has room for, up to four, which keep two cores busy.
pub fn hosts() -> usize {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    hosts_with(available(&memory).unwrap_or_default())
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn hosts_with(memory: u64) -> usize {
    usize::try_from(memory / MEMORY_OF_A_HOST).unwrap_or(4).clamp(1, 4)
}

/// What came of one search database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The work that did not pass, and why where no test says so.
    pub failed: Vec<String>,
    /// How many tests passed, failed and were `#[ignore]`.
    pub tests: [usize; 3],
    /// What was not run: the tests that are `#[ignore]`, and what tests left out, as [`crate::skip`] has it.
    pub left_out: BTreeSet<String>,
    /// What ran on it.
    pub ran: BTreeSet<String>,
}

impl Outcome {
    fn add(&mut self, said: &str, noted: &str) -> [usize; 3] {
        let tests = counts(said);
        self.tests.iter_mut().zip(tests).for_each(|(all, more)| *all += more);
        self.left_out.extend(noted.lines().map(str::to_owned).chain(ignored_tests(said)));
        tests
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [passed, failed, ignored] = self.tests;
        match self.failed.as_slice() {
            [] => write!(out, "passed, {passed} tests")?,
            all => write!(out, "FAILED in {}: {passed} tests passed, {failed} failed", all.join(", "))?,
        }
        if ignored > 0 {
            write!(out, ", {ignored} ignored")?;
        }
        let others = self.left_out.len().saturating_sub(ignored);
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

/// How a suite is run.
#[derive(Debug)]
pub struct Plan<'a> {
    /// How many hosts at a time.
    pub hosts: usize,
    /// After how long in which no test and no tool has ended the work is stopped.
    pub silence: Duration,
    /// What of the tests is wanted.
    pub filter: &'a Filter,
}

/// Runs all of the queue, in so many hosts at a time, and prints what each piece of work said when it ends. `folder` gives a host
/// its folder. Where it is broken off, work is left in the queue.
pub fn run(
    plan: &Plan<'_>,
    queue: &Mutex<Queue>,
    folder: impl Fn() -> Result<(PathBuf, Owner)> + Sync,
) -> BTreeMap<&'static str, Outcome> {
    let outcomes = Mutex::new(BTreeMap::<&'static str, Outcome>::new());
    let next = || locked(queue).host().filter(|_| !wait::is_cancelled());
    let one_host = || {
        while let Some(key) = next() {
            let worked = folder().and_then(|(dir, _owner)| {
                let worked = in_host(plan, key, &dir, queue, &outcomes);
                fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
                worked
            });
            if let Err(error) = worked {
                eprintln!("\n== {key}: {error:#}");
                let mut outcomes = locked(&outcomes);
                let failed = &mut outcomes.entry(key).or_default().failed;
                failed.push("its host".to_owned());
                failed.extend(locked(queue).give_up(key).iter().map(|work| work.name().to_owned()));
            }
        }
    };
    thread::scope(|scope| (0..plan.hosts.max(1)).for_each(|_| drop(scope.spawn(one_host))));
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_host(
    plan: &Plan<'_>,
    key: &'static str,
    dir: &std::path::Path,
    queue: &Mutex<Queue>,
    outcomes: &Mutex<BTreeMap<&'static str, Outcome>>,
) -> Result<()> {
    let running = Running::start(dir, key, &Settings::default())?;
    let next = || locked(queue).next(key).filter(|_| !wait::is_cancelled());
    while let Some(work) = next() {
        let begun = Instant::now();
        let done = run_one(plan, running.host(), &work);
        let mut outcomes = locked(outcomes);
        let outcome = outcomes.entry(key).or_default();
        let (verdict, said, noted) = done.unwrap_or_else(|error| (Some("not run"), format!("{error:#}\n"), String::new()));
        let [passed, failed, _] = outcome.add(&said, &noted);
        outcome.ran.insert(work.name().to_owned());
        outcome.failed.extend(verdict.map(|why| format!("{} ({why})", work.name())));
        let (verdict, seconds) = (verdict.unwrap_or("passed"), begun.elapsed().as_secs());
        eprintln!(
            "\n== {key}: {}\n{said}== {key}: {}: {verdict} after {seconds}s: {passed} tests passed, {failed} failed",
            work.name(),
            work.name()
        );
    }
    running.stop()
}

/// Runs one piece of work: why it did not pass, what it said, and what it left out.
fn run_one(plan: &Plan<'_>, host: &Host, work: &Work) -> Result<(Option<&'static str>, String, String)> {
    let mut said = tempfile::tempfile()?;
    let noted = tempfile::NamedTempFile::new()?;
    let command = work.command(plan.filter);
    let (program, arguments) = command.split_first().context("no command")?;
    let mut command = children::grouped(program);
    command.args(arguments).envs(host.command_env()).env_remove("DBUS_SESSION_BUS_ADDRESS").env(SKIPPED, noted.path());
    if plan.filter.deep {
        command.env(DEEP, "1");
    }
    command.stdout(said.try_clone()?).stderr(said.try_clone()?).stdin(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    // Its output grows when a test ends; when a tool ends, the other file is touched.
    let progress =
        || (said.metadata().map(|meta| meta.len()).ok(), fs::metadata(noted.path()).and_then(|meta| meta.modified()).ok());
    let verdict = match children::while_it_goes_on(&mut child, plan.silence, progress)? {
        None => Some("stopped, since nothing ended any more"),
        Some(status) if status.success() => None,
        Some(_) => Some("FAILED"),
    };
    Ok((verdict, whole(&mut said)?, fs::read_to_string(noted.path())?))
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

/// Of those targets, the ones that did not run on each database, and where they did.
pub fn narrowed<'a>(outcomes: &BTreeMap<&'static str, Outcome>, targets: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut narrow: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for target in targets {
        let places: Vec<&str> = outcomes.iter().filter(|(_, one)| one.ran.contains(target)).map(|(key, _)| *key).collect();
        if (1..outcomes.len()).contains(&places.len()) {
            narrow.entry(places).or_default().push(target);
        }
    }
    let told: Vec<String> =
        narrow.iter().map(|(places, targets)| format!("{} only on {}", targets.join(", "), places.join(", "))).collect();
    (!told.is_empty()).then(|| told.join("; "))
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
    }

    fn outcome(noted: &str, ran: &[&str]) -> Outcome {
        let mut outcome = Outcome { ran: ran.iter().map(|&one| one.to_owned()).collect(), ..Outcome::default() };
        outcome.add(SAID, noted);
        outcome
    }

    #[test]
    fn what_is_left_out_is_said_once_with_all_its_places() {
        let outcomes = BTreeMap::from([("a", outcome("x: why\nx: why\ny: so\n", &[])), ("b", outcome("x: why\n", &[]))]);
        let deep = "left out on a, b: b::c: takes minutes, only with --deep";
        assert_eq!(left_out(&outcomes), [deep, "left out on a, b: x: why", "left out on a: y: so"]);
        assert_eq!(outcomes["a"].to_string(), "passed, 42 tests, 1 ignored, 2 left out");
        let failed = Outcome { failed: vec!["snap (FAILED)".to_owned()], ..outcomes["b"].clone() };
        assert_eq!(failed.to_string(), "FAILED in snap (FAILED): 42 tests passed, 2 failed, 1 ignored, 1 left out");
    }

    #[test]
    fn what_ran_on_some_only_is_said() {
        let outcomes = BTreeMap::from([("a", outcome("", &["swap", "snap"])), ("b", outcome("", &["swap"]))]);
        let targets = ["swap", "snap", "pg"].map(str::to_owned);
        assert_eq!(narrowed(&outcomes, targets.iter()), Some("snap only on a".to_owned()));
        assert_eq!(narrowed(&outcomes, targets[..1].iter()), None);
    }

    #[test]
    fn as_many_hosts_as_the_memory_has_room_for() {
        assert_eq!(available("MemTotal: 3 kB\nMemAvailable:    1000 kB\n"), Some(1_024_000));
        let gigabytes = [0, 4, 11, 16, 200].map(|one| hosts_with(one * 1_000_000_000));
        assert_eq!(gigabytes, [1, 1, 2, 3, 4]);
    }
}
