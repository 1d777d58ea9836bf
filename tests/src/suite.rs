//! `svc-testhost suite`: all tests of the workspace, shared out among hosts, and what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::Value;

use crate::host::{Host, Running};
use crate::search::{Distribution, Settings};
use crate::{DEEP, SKIPPED, children, os, wait};

/// What a host takes: its servers, and those that its tests start.
const MEMORY_OF_A_HOST: u64 = 5_000_000_000;

/// What is run if no target is asked for, beside all of them.
const UNIT_TESTS: &str = "unit tests";

/// What of the tests is wanted: the words after `--` on the command line of `tests/run`. They are divided among the hosts, so no other
/// option of `cargo test` is taken: for one, run `cargo test` inside `svc-testhost run -- bash`.
#[derive(Debug, Parser)]
#[command(name = "tests/run --", no_binary_name = true)]
pub struct Filter {
    /// A target
    #[arg(long = "test", value_name = "TARGET")]
    targets: Vec<String>,
    /// Parts of the tests' names
    names: Vec<String>,
    /// What is for the test programs
    #[arg(last = true)]
    options: Vec<String>,
    /// Also the tests that are `#[ignore]`, and the long series complete.
    #[arg(skip)]
    deep: bool,
}

impl Filter {
    pub fn of(words: &[String], deep: bool) -> Result<Self> {
        let mut this = Self::try_parse_from(words)?;
        this.deep = deep;
        this.options.extend(deep.then(|| "--include-ignored".to_owned()));
        Ok(this)
    }
}

/// The test targets of the workspace, as `[package.metadata.targets]` of `tests/Cargo.toml` lists them, the longest of each list first,
/// and their list: those in `search` run with each search database, those in `any` with one, and with each if it is `everywhere`; to
/// those in `once` the search database is all one.
#[derive(Debug, Clone)]
pub struct Lists(Vec<(String, &'static str)>);

impl Lists {
    /// As cargo has them; each must be in one list, and nothing else in any.
    pub fn read() -> Result<Self> {
        let metadata = os::run(Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let lists = packages.iter().find(|package| package["name"] == env!("CARGO_PKG_NAME")).context("not this package")?;
        let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
        // Two packages may each have one of a name: cargo runs both.
        let ours: BTreeSet<&str> =
            targets.filter(|one| one["kind"][0] == "test").filter_map(|one| one["name"].as_str()).collect();
        // What takes the longest is among those that run once, and begins first.
        let listed = ["once", "any", "search"].into_iter().flat_map(|list| {
            let names = lists["metadata"]["targets"][list].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(move |name| (name.to_owned(), list))
        });
        let this = Self(listed.collect());
        let mut names: Vec<&str> = this.0.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let wrong = "the lists of [package.metadata.targets] of tests/Cargo.toml are not the test targets, each once";
        ensure!(names.iter().eq(&ours), "{wrong}: {names:?}, {ours:?}");
        Ok(this)
    }
}

/// What is left to be run, each with the search databases that may run it, and what came of each database.
#[derive(Debug, Default)]
struct State {
    left: Vec<(String, Vec<&'static str>)>,
    /// How many hosts each database has.
    hosts: BTreeMap<&'static str, usize>,
    outcomes: BTreeMap<&'static str, Outcome>,
}

impl State {
    /// The database of the next host: of those that something is left for the one with the fewest hosts.
    fn host(&mut self) -> Option<&'static str> {
        let wanted = |key: &str| self.left.iter().any(|(_, keys)| keys.contains(&key));
        let (&key, _) = self.hosts.iter().filter(|(key, _)| wanted(key)).min_by_key(|(_, hosts)| **hosts)?;
        self.hosts.entry(key).and_modify(|hosts| *hosts += 1);
        Some(key)
    }

    /// What that host runs next: first what no other database may. What others may run too waits until each database whose own
    /// work is left has a host.
    fn next(&mut self, key: &str) -> Option<String> {
        let is_own = |keys: &[&str], of: &str| keys == [of];
        let waits = self.hosts.iter().any(|(other, hosts)| *hosts == 0 && self.left.iter().any(|(_, keys)| is_own(keys, other)));
        let own = self.left.iter().position(|(_, keys)| is_own(keys, key));
        let any = || self.left.iter().position(|(_, keys)| keys.contains(&key)).filter(|_| !waits);
        Some(self.left.remove(own.or_else(any)?).0)
    }

    /// Nothing more runs on a database whose host does not start; what no other may run has failed.
    fn give_up(&mut self, key: &'static str) {
        self.hosts.remove(key);
        self.left.iter_mut().for_each(|(_, keys)| keys.retain(|other| *other != key));
        let lost = self.left.extract_if(.., |(_, keys)| keys.is_empty()).map(|(name, _)| name);
        self.outcomes.entry(key).or_default().failed.extend(["its host".to_owned()].into_iter().chain(lost));
    }
}

/// How many hosts at a time: as many as the memory that is free has room for, up to four, which keep two cores busy.
pub fn hosts() -> usize {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes: u64 = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_default();
    usize::try_from(kilobytes * 1024 / MEMORY_OF_A_HOST).unwrap_or(4).clamp(1, 4)
}

/// What came of one search database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The work that did not pass, and why if no test says so.
    pub failed: Vec<String>,
    /// How many tests passed, failed and were `#[ignore]`.
    pub tests: [usize; 3],
    /// What was not run: the tests that are `#[ignore]`, and what tests left out, as [`crate::skip`] has it.
    left_out: BTreeSet<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [passed, failed, ignored] = self.tests;
        match self.failed.as_slice() {
            [] => write!(out, "passed, {passed} tests")?,
            all => write!(out, "FAILED in {}: {passed} tests passed, {failed} failed", all.join(", "))?,
        }
        let others = self.left_out.len().saturating_sub(ignored);
        let counted = [(ignored, "ignored"), (others, "left out")].into_iter().filter(|(count, _)| *count > 0);
        counted.into_iter().try_for_each(|(count, what)| write!(out, ", {count} {what}"))
    }
}

/// How many tests passed, failed and were ignored, by the last lines of the test programs.
fn counts(output: &str) -> [usize; 3] {
    let results: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("test result: ")).collect();
    [" passed", " failed", " ignored"].map(|what| {
        let parts = results.iter().flat_map(|line| line.split(';')).filter_map(|part| part.trim_end().strip_suffix(what));
        parts.filter_map(|text| text.trim().rsplit(' ').next()?.parse::<usize>().ok()).sum()
    })
}

/// The tests that were ignored, with the reason of their attribute.
fn ignored_tests(output: &str) -> impl Iterator<Item = String> {
    let ignored = |line: &str| line.strip_prefix("test ")?.split_once(" ... ignored, ").map(|(a, b)| format!("{a}: {b}"));
    output.lines().filter_map(ignored).map(|one| format!("{one}, only with --deep"))
}

/// All that is run with some search databases.
#[derive(Debug)]
pub struct Suite {
    filter: Filter,
    state: Mutex<State>,
}

impl Suite {
    /// What the filter wants of it; the targets that it names must be there.
    pub fn of(databases: &[&'static Distribution], lists: &Lists, filter: Filter, everywhere: bool) -> Result<Self> {
        for target in &filter.targets {
            ensure!(
                lists.0.iter().any(|(one, _)| one == target),
                "there is no test target {target}; tests/Cargo.toml names them"
            );
        }
        let all: Vec<&'static str> = databases.iter().map(|one| one.key).collect();
        let mut state = State { hosts: all.iter().map(|key| (*key, 0)).collect(), ..State::default() };
        if filter.targets.is_empty() {
            state.left.push((UNIT_TESTS.to_owned(), all.clone()));
        }
        for (name, list) in lists.0.iter().filter(|(name, _)| filter.targets.is_empty() || filter.targets.contains(name)) {
            if *list == "search" || everywhere && *list == "any" {
                state.left.extend(all.iter().map(|key| (name.clone(), vec![*key])));
            } else {
                state.left.push((name.clone(), all.clone()));
            }
        }
        Ok(Self { filter, state: Mutex::new(state) })
    }

    /// Runs it in so many hosts at a time, and prints the output of each target when it ends. One in which nothing has ended for
    /// `watchdog` is stopped. The hosts' folders are made in `parent`. After a signal the rest is not run.
    pub fn run(&self, hosts: usize, watchdog: Duration, parent: &str) -> BTreeMap<&'static str, Outcome> {
        // Not in the loop's head, where the lock would be held as long as the body runs.
        let next = || self.state().host().filter(|_| !wait::is_cancelled());
        let one_host = || {
            while let Some(key) = next() {
                let worked = Running::during(parent, key, &Settings::default(), |host| self.in_host(key, host, watchdog));
                if let Err(error) = worked {
                    eprintln!("\n== {key}: {error:#}");
                    self.state().give_up(key);
                }
            }
        };
        thread::scope(|scope| (0..hosts.max(1)).for_each(|_| drop(scope.spawn(one_host))));
        std::mem::take(&mut self.state().outcomes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_host(&self, key: &'static str, host: &Host, watchdog: Duration) -> Result<()> {
        let next = || self.state().next(key).filter(|_| !wait::is_cancelled());
        while let Some(name) = next() {
            let begun = Instant::now();
            let done = self.run_one(host, &name, watchdog);
            let (why, output, skipped) = done.unwrap_or_else(|error| (Some("not run"), format!("{error:#}\n"), String::new()));
            let (tests, seconds) = (counts(&output), begun.elapsed().as_secs());
            let mut state = self.state();
            let outcome = state.outcomes.entry(key).or_default();
            outcome.tests.iter_mut().zip(tests).for_each(|(all, more)| *all += more);
            outcome.left_out.extend(skipped.lines().map(str::to_owned).chain(ignored_tests(&output)));
            outcome.failed.extend(why.map(|why| format!("{name} ({why})")));
            let why = why.unwrap_or("passed");
            let [passed, failed, _] = tests;
            eprintln!(
                "\n== {key}: {name}\n{output}== {key}: {name}: {why} after {seconds}s: {passed} tests passed, {failed} failed"
            );
        }
        Ok(())
    }

    fn arguments(&self, name: &str) -> Vec<String> {
        let picked = if name == UNIT_TESTS { ["--lib", "--bins"] } else { ["--test", name] };
        let all = ["test", "--workspace", "--no-fail-fast"].into_iter().chain(picked).chain(["--"]).map(str::to_owned);
        // cargo takes one name at most, a test program any number.
        all.chain(self.filter.names.clone()).chain(self.filter.options.clone()).collect()
    }

    /// Why it did not pass, its output, and what it left out.
    fn run_one(&self, host: &Host, name: &str, watchdog: Duration) -> Result<(Option<&'static str>, String, String)> {
        let (output, skipped) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
        let mut cargo = children::grouped("cargo");
        cargo.args(self.arguments(name)).envs(host.command_env()).env_remove("DBUS_SESSION_BUS_ADDRESS");
        cargo.env(SKIPPED, skipped.path()).envs(self.filter.deep.then_some((DEEP, "1")));
        let file = fs::File::options().append(true).open(output.path())?;
        cargo.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null());
        let mut child = cargo.spawn().context("cannot run cargo")?;
        // Its output grows when a test ends; when a tool ends, the other file is touched.
        let changed = |path: &Path| fs::metadata(path).and_then(|meta| Ok((meta.len(), meta.modified()?))).ok();
        let progress = || (changed(output.path()), changed(skipped.path()));
        let why = match children::while_it_progresses(&mut child, watchdog, progress)? {
            None => Some("stopped, since nothing ended any more"),
            Some(status) if status.success() => None,
            Some(_) => Some("FAILED"),
        };
        let output = String::from_utf8_lossy(&fs::read(output.path())?).into_owned();
        Ok((why, output, fs::read_to_string(skipped.path())?))
    }
}

/// What was left out, each with the search databases on which it was.
pub fn left_out(outcomes: &BTreeMap<&'static str, Outcome>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, outcome) in outcomes {
        outcome.left_out.iter().for_each(|one| places.entry(one).or_default().push(key));
    }
    places.iter().map(|(what, places)| format!("left out on {}: {what}", places.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::distribution;

    fn filter(text: &str, deep: bool) -> Result<Filter> {
        Filter::of(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), deep)
    }

    fn suite(keys: &[&str], words: &str, everywhere: bool, deep: bool) -> Result<Suite> {
        let all: Vec<_> = keys.iter().map(|key| distribution(key).unwrap()).collect();
        let lists = [("pg", "once"), ("page", "once"), ("rate", "any"), ("swap", "search")];
        let lists = Lists(lists.map(|(name, list)| (name.to_owned(), list)).into());
        Suite::of(&all, &lists, filter(words, deep)?, everywhere)
    }

    /// What so many hosts run that take turns.
    fn told(suite: Suite, hosts: usize) -> Vec<String> {
        let mut told = Vec::new();
        let mut queue = suite.state.into_inner().unwrap();
        let mut keys: Vec<_> = (0..hosts).filter_map(|_| queue.host()).collect();
        while !keys.is_empty() {
            for key in std::mem::take(&mut keys) {
                match queue.next(key) {
                    Some(name) => {
                        told.push(format!("{key} {name}"));
                        keys.push(key);
                    }
                    None => keys.extend(queue.host()),
                }
            }
        }
        assert_eq!(queue.left, []);
        told
    }

    #[test]
    fn targets_run_on_their_databases_or_any_free_host() {
        let (os2, os3, es8) = ("opensearch-2", "opensearch-3", "elasticsearch-8");
        let wanted = [
            "elasticsearch-8 swap",
            "opensearch-2 swap",
            "elasticsearch-8 unit tests",
            "opensearch-2 pg",
            "elasticsearch-8 page",
            "opensearch-2 rate",
        ];
        assert_eq!(told(suite(&[os2, es8], "", false, false).unwrap(), 2), wanted);
        // Another database has to be seen before the rest is shared out.
        let three = told(suite(&[os2, os3, es8], "--test swap --test pg", false, false).unwrap(), 1);
        assert_eq!(three, ["elasticsearch-8 swap", "opensearch-2 swap", "opensearch-3 swap", "opensearch-3 pg"]);
        assert_eq!(told(suite(&[os2, os3], "--test swap --test rate --test pg", true, false).unwrap(), 2).len(), 5, "everywhere");
        assert_eq!(
            told(suite(&[os2], "--test pg --test page", false, false).unwrap(), 2).len(),
            2,
            "a second host helps the first"
        );
        let given_up = suite(&[os2, es8], "--test swap --test pg", false, false).unwrap();
        given_up.state().give_up(os2);
        assert_eq!(given_up.state().outcomes[os2].failed, ["its host", "swap"]);
        assert_eq!(told(given_up, 2), ["elasticsearch-8 pg", "elasticsearch-8 swap"]);
    }

    #[test]
    fn filter_selects_targets_and_names() {
        for (words, deep, command) in [
            ("--test swap a_node other -- --nocapture", false, "--test swap -- a_node other --nocapture"),
            ("--test pg", true, "--test pg -- --include-ignored"),
            ("a_node", false, "--lib --bins -- a_node"),
        ] {
            let suite = suite(&["opensearch-2"], words, false, deep).unwrap();
            let first = suite.state().left.remove(0).0;
            assert_eq!(suite.arguments(&first).join(" "), format!("test --workspace --no-fail-fast {command}"));
        }
        assert!(suite(&["opensearch-2"], "--test dance", false, false).is_err());
        for wrong in ["-p svc-snap", "--lib", "--test"] {
            assert!(filter(wrong, false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tests_are_counted_with_omissions_named_once() {
        const OUTPUT: &str = "running 2 tests\ntest a ... ok\ntest b::c ... ignored, takes minutes\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s\n\
            test result: FAILED. 30 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.10s\n";
        assert_eq!((counts(OUTPUT), counts("error: could not compile")), ([42, 2, 1], [0; 3]));
        let outcome = |skipped: &[&str], failed: &[&str]| Outcome {
            failed: failed.iter().map(|&one| one.to_owned()).collect(),
            tests: [42, 2, 1],
            left_out: skipped.iter().map(|&one| one.to_owned()).chain(ignored_tests(OUTPUT)).collect(),
        };
        let outcomes = BTreeMap::from([("a", outcome(&["x: why", "y: so"], &[])), ("b", outcome(&["x: why"], &["pg"]))]);
        let deep = "left out on a, b: b::c: takes minutes, only with --deep";
        assert_eq!(left_out(&outcomes), [deep, "left out on a, b: x: why", "left out on a: y: so"]);
        assert_eq!(outcomes["a"].to_string(), "passed, 42 tests, 1 ignored, 2 left out");
        assert_eq!(outcomes["b"].to_string(), "FAILED in pg: 42 tests passed, 2 failed, 1 ignored, 1 left out");
    }
}
