//! `svc-testhost suite`: all tests of the workspace, shared out among hosts, and what came of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::host::{Host, Running};
use crate::search::{Distribution, Settings};
use crate::{DEEP, SKIPPED, children, os, wait};

/// What a host takes: its servers, and those that its tests start.
const MEMORY_OF_A_HOST: u64 = 5_000_000_000;

/// What of the tests is wanted: the words after `--` on the command line of `tests/run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of `--test TARGET`; none means all.
    targets: Vec<String>,
    /// Parts of a test's name.
    names: Vec<String>,
    /// What is for the test programs.
    options: Vec<String>,
    /// Also the tests that are `#[ignore]`, and the long series complete.
    deep: bool,
}

impl Filter {
    /// # Errors
    /// An option of `cargo test` other than `--test`: it would pick from the whole workspace, which is divided among the hosts.
    pub fn of(words: &[String], deep: bool) -> Result<Self> {
        let mut this = Self { deep, ..Self::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => this.options.extend(words.by_ref().cloned()),
                "--test" => this.targets.push(words.next().context("--test needs the name of a target")?.clone()),
                option if option.starts_with('-') => bail!(
                    "tests/run does not take {option}: it picks by --test TARGET and by a part of a test's name, and what comes after \
                     a further -- goes to the test programs; for all else run `cargo test {option} …` inside \
                     `svc-testhost run -- bash`"
                ),
                _ => this.names.push(word.clone()),
            }
        }
        if deep {
            this.options.push("--include-ignored".to_owned());
        }
        Ok(this)
    }

    fn wants(&self, name: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|target| target == name)
    }
}

/// The test targets of the workspace, as `[package.metadata.targets]` of `tests/Cargo.toml` lists them: the longest of each list first.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// Those that run with each search database.
    search: Vec<String>,
    /// Those that run with one, and with each where it is `everywhere`.
    any: Vec<String>,
    /// Those to which the search database is all one; those of other packages are among them.
    once: Vec<String>,
}

impl Lists {
    /// As cargo has them.
    ///
    /// # Errors
    /// A target is in no list, or in two; a list has one that is not there.
    pub fn read() -> Result<Self> {
        let metadata = os::run(Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let (mut lists, mut ours, mut others) = (Value::Null, Vec::new(), BTreeSet::new());
        for package in metadata["packages"].as_array().context("no packages")? {
            for target in package["targets"].as_array().into_iter().flatten().filter(|one| one["kind"][0] == "test") {
                let name = target["name"].as_str().context("a target without a name")?.to_owned();
                if package["name"] == env!("CARGO_PKG_NAME") {
                    ours.push(name);
                    lists = package["metadata"]["targets"].clone();
                } else {
                    others.insert(name);
                }
            }
        }
        let mut this = Self::of(&lists, &ours)?;
        this.once.extend(others);
        Ok(this)
    }

    fn of(lists: &Value, ours: &[String]) -> Result<Self> {
        let list = |name: &str| -> Vec<String> {
            lists[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let this = Self { search: list("search"), any: list("any"), once: list("once") };
        for name in ours {
            let count = this.all().filter(|one| *one == name).count();
            ensure!(count == 1, "{name} is in {count} lists of [package.metadata.targets] of tests/Cargo.toml, not in one");
        }
        let unknown: Vec<&String> = this.all().filter(|name| !ours.contains(name)).collect();
        ensure!(unknown.is_empty(), "[package.metadata.targets] of tests/Cargo.toml lists what is not there: {unknown:?}");
        Ok(this)
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        [&self.search, &self.any, &self.once].into_iter().flatten()
    }
}

/// What a host runs before it takes the next.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Work {
    name: String,
    command: Vec<String>,
}

impl Work {
    /// Tests that `cargo test` picks by these arguments.
    fn tests(name: &str, picked: &[&str], filter: &Filter) -> Self {
        let command = ["cargo", "test", "--workspace", "--no-fail-fast"].iter().chain(picked).map(|word| (*word).to_owned());
        let options = (!filter.options.is_empty()).then(|| "--".to_owned()).into_iter().chain(filter.options.iter().cloned());
        Self { name: name.to_owned(), command: command.chain(filter.names.iter().cloned()).chain(options).collect() }
    }
}

/// What is left to be run, each with the search databases of which one is to run it.
#[derive(Debug, Default)]
pub struct Queue {
    left: Vec<(Work, Vec<&'static str>)>,
    /// How many hosts each database has.
    hosts: BTreeMap<&'static str, usize>,
}

impl Queue {
    /// What the filter wants of all that is run with these.
    ///
    /// # Errors
    /// The filter names a target that is not there.
    pub fn of(databases: &[&'static Distribution], lists: &Lists, filter: &Filter, everywhere: bool) -> Result<Self> {
        for target in &filter.targets {
            ensure!(lists.all().any(|one| one == target), "there is no test target {target}; tests/Cargo.toml names them");
        }
        let all: Vec<&'static str> = databases.iter().map(|one| one.key).collect();
        let each: Vec<_> = all.iter().map(|key| vec![*key]).collect();
        let one = vec![all.clone()];
        let mut left = Vec::new();
        if filter.targets.is_empty() {
            left.push((Work::tests("unit tests", &["--lib", "--bins"], filter), all.clone()));
            if filter.names.is_empty() {
                let check = vec!["tests/service/check".to_owned()];
                left.push((Work { name: "service/check".to_owned(), command: check }, all.clone()));
            }
        }
        // What takes the longest is among those that run once, and begins first.
        for (names, keys) in [(&lists.once, &one), (&lists.any, if everywhere { &each } else { &one }), (&lists.search, &each)] {
            for name in names.iter().filter(|name| filter.wants(name)) {
                left.extend(keys.iter().map(|keys| (Work::tests(name, &["--test", name], filter), keys.clone())));
            }
        }
        Ok(Self { left, hosts: all.into_iter().map(|key| (key, 0)).collect() })
    }

    /// The database of the next host: of those that something is left for the one with the fewest hosts.
    fn host(&mut self) -> Option<&'static str> {
        let wanted = |key: &str| self.left.iter().any(|(_, keys)| keys.contains(&key));
        let (&key, _) = self.hosts.iter().filter(|(key, _)| wanted(key)).min_by_key(|(_, hosts)| **hosts)?;
        self.hosts.entry(key).and_modify(|hosts| *hosts += 1);
        Some(key)
    }

    /// What that host runs next: first what no other database may. What others may run too waits until each database whose own
    /// work is left has a host.
    fn next(&mut self, key: &str) -> Option<Work> {
        let is_own = |keys: &[&str], of: &str| keys == [of];
        let waits = self.hosts.iter().any(|(other, hosts)| *hosts == 0 && self.left.iter().any(|(_, keys)| is_own(keys, other)));
        let own = self.left.iter().position(|(_, keys)| is_own(keys, key));
        let any = || self.left.iter().position(|(_, keys)| keys.contains(&key)).filter(|_| !waits);
        Some(self.left.remove(own.or_else(any)?).0)
    }

    /// Nothing more runs on a database whose host does not start; gives what no other may run.
    fn give_up(&mut self, key: &str) -> Vec<String> {
        self.hosts.remove(key);
        self.left.iter_mut().for_each(|(_, keys)| keys.retain(|other| *other != key));
        self.left.extract_if(.., |(_, keys)| keys.is_empty()).map(|(work, _)| work.name).collect()
    }
}

/// How many hosts at a time: as many as the memory that is free has room for, up to four, which keep two cores busy.
pub fn hosts() -> usize {
    hosts_within(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn hosts_within(meminfo: &str) -> usize {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes: u64 = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_default();
    usize::try_from(kilobytes * 1024 / MEMORY_OF_A_HOST).unwrap_or(4).clamp(1, 4)
}

/// What came of one search database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The work that did not pass, and why where no test says so.
    pub failed: Vec<String>,
    /// How many tests passed, failed and were `#[ignore]`.
    pub tests: [usize; 3],
    /// What was not run: the tests that are `#[ignore]`, and what tests left out, as [`crate::skip`] has it.
    left_out: BTreeSet<String>,
    ran: BTreeSet<String>,
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

/// How a suite is run.
#[derive(Debug)]
pub struct Plan<'a> {
    /// How many hosts at a time.
    pub hosts: usize,
    /// After how long in which no test and no tool has ended the work is stopped.
    pub watchdog: Duration,
    pub filter: &'a Filter,
}

impl Plan<'_> {
    /// Runs all of the queue, and prints the output of each piece of work when it ends. `folder` makes a host's folder, with what
    /// keeps it. After a signal work is left in the queue.
    pub fn run<K>(
        &self,
        queue: &Mutex<Queue>,
        folder: impl Fn() -> Result<(PathBuf, K)> + Sync,
    ) -> BTreeMap<&'static str, Outcome> {
        let outcomes = Mutex::new(BTreeMap::<&'static str, Outcome>::new());
        let next = || locked(queue).host().filter(|_| !wait::is_cancelled());
        let one_host = || {
            while let Some(key) = next() {
                let worked = folder().and_then(|(dir, _keeper)| {
                    let worked = self.in_host(key, &dir, queue, &outcomes);
                    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
                    worked
                });
                if let Err(error) = worked {
                    eprintln!("\n== {key}: {error:#}");
                    let mut outcomes = locked(&outcomes);
                    let failed = &mut outcomes.entry(key).or_default().failed;
                    failed.push("its host".to_owned());
                    failed.extend(locked(queue).give_up(key));
                }
            }
        };
        thread::scope(|scope| (0..self.hosts.max(1)).for_each(|_| drop(scope.spawn(one_host))));
        outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_host(
        &self,
        key: &'static str,
        dir: &Path,
        queue: &Mutex<Queue>,
        outcomes: &Mutex<BTreeMap<&'static str, Outcome>>,
    ) -> Result<()> {
        let running = Running::start(dir, key, &Settings::default())?;
        let next = || locked(queue).next(key).filter(|_| !wait::is_cancelled());
        while let Some(Work { name, command }) = next() {
            let begun = Instant::now();
            let done = self.run_one(running.host(), &command);
            let (why, output, skipped) = done.unwrap_or_else(|error| (Some("not run"), format!("{error:#}\n"), String::new()));
            let (tests, seconds) = (counts(&output), begun.elapsed().as_secs());
            let mut outcomes = locked(outcomes);
            let outcome = outcomes.entry(key).or_default();
            outcome.tests.iter_mut().zip(tests).for_each(|(all, more)| *all += more);
            outcome.left_out.extend(skipped.lines().map(str::to_owned).chain(ignored_tests(&output)));
            outcome.ran.insert(name.clone());
            outcome.failed.extend(why.map(|why| format!("{name} ({why})")));
            let why = why.unwrap_or("passed");
            eprintln!(
                "\n== {key}: {name}\n{output}== {key}: {name}: {why} after {seconds}s: {} tests passed, {} failed",
                tests[0], tests[1]
            );
        }
        running.stop()
    }

    /// Why it did not pass, its output, and what it left out.
    fn run_one(&self, host: &Host, command: &[String]) -> Result<(Option<&'static str>, String, String)> {
        let (output, skipped) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
        let (program, arguments) = command.split_first().context("no command")?;
        let mut command = children::grouped(program);
        command.args(arguments).envs(host.command_env()).env_remove("DBUS_SESSION_BUS_ADDRESS").env(SKIPPED, skipped.path());
        command.envs(self.filter.deep.then_some((DEEP, "1")));
        let file = fs::File::options().append(true).open(output.path())?;
        command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        // Its output grows when a test ends; when a tool ends, the other file is touched.
        let changed = |path: &Path| fs::metadata(path).and_then(|meta| Ok((meta.len(), meta.modified()?))).ok();
        let progress = || (changed(output.path()), changed(skipped.path()));
        let why = match children::while_it_progresses(&mut child, self.watchdog, progress)? {
            None => Some("stopped, since nothing ended any more"),
            Some(status) if status.success() => None,
            Some(_) => Some("FAILED"),
        };
        let output = String::from_utf8_lossy(&fs::read(output.path())?).into_owned();
        Ok((why, output, fs::read_to_string(skipped.path())?))
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was left out, each with the search databases on which it was; and which targets of those that depend on the search database
/// ran on some of them only.
pub fn left_out(outcomes: &BTreeMap<&'static str, Outcome>, lists: &Lists) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, outcome) in outcomes {
        outcome.left_out.iter().for_each(|one| places.entry(one).or_default().push(key));
    }
    let left_out = places.iter().map(|(what, places)| format!("left out on {}: {what}", places.join(", ")));
    let mut narrow: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for name in &lists.any {
        let places: Vec<&str> = outcomes.iter().filter(|(_, one)| one.ran.contains(name)).map(|(key, _)| *key).collect();
        if (1..outcomes.len()).contains(&places.len()) {
            narrow.entry(places).or_default().push(name);
        }
    }
    let told: Vec<String> =
        narrow.iter().map(|(places, names)| format!("{} only on {}", names.join(", "), places.join(", "))).collect();
    left_out.chain((!told.is_empty()).then(|| told.join("; "))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::search::distribution;

    fn filter(text: &str, deep: bool) -> Result<Filter> {
        Filter::of(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), deep)
    }

    fn lists() -> Lists {
        let of = |name: &str| vec![name.to_owned()];
        Lists { search: of("swap"), any: of("rate"), once: vec!["pg".to_owned(), "page".to_owned()] }
    }

    fn queue(keys: &[&str], words: &str, everywhere: bool) -> Result<Queue> {
        let all: Vec<_> = keys.iter().map(|key| distribution(key).unwrap()).collect();
        Queue::of(&all, &lists(), &filter(words, false)?, everywhere)
    }

    /// What so many hosts run that take turns.
    fn told(mut queue: Queue, hosts: usize) -> Vec<String> {
        let mut told = Vec::new();
        let mut keys: Vec<_> = (0..hosts).filter_map(|_| queue.host()).collect();
        while !keys.is_empty() {
            for key in std::mem::take(&mut keys) {
                match queue.next(key) {
                    Some(work) => {
                        told.push(format!("{key} {}", work.name));
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
    fn each_database_runs_its_own_and_whoever_is_free_the_rest() {
        let (os2, os3, es8) = ("opensearch-2", "opensearch-3", "elasticsearch-8");
        let wanted = [
            "elasticsearch-8 swap",
            "opensearch-2 swap",
            "elasticsearch-8 unit tests",
            "opensearch-2 service/check",
            "elasticsearch-8 pg",
            "opensearch-2 page",
            "elasticsearch-8 rate",
        ];
        assert_eq!(told(queue(&[os2, es8], "", false).unwrap(), 2), wanted);
        // Another database has to be seen before the rest is shared out.
        let three = told(queue(&[os2, os3, es8], "--test swap --test pg", false).unwrap(), 1);
        assert_eq!(three, ["elasticsearch-8 swap", "opensearch-2 swap", "opensearch-3 swap", "opensearch-3 pg"]);
        assert_eq!(told(queue(&[os2, os3], "--test swap --test rate --test pg", true).unwrap(), 2).len(), 5, "everywhere");
        assert_eq!(told(queue(&[os2], "--test pg --test page", false).unwrap(), 2).len(), 2, "a second host helps the first");
        let mut given_up = queue(&[os2, es8], "--test swap --test pg", false).unwrap();
        assert_eq!(given_up.give_up(os2), ["swap"]);
        assert_eq!(told(given_up, 2), ["elasticsearch-8 pg", "elasticsearch-8 swap"]);
    }

    #[test]
    fn a_filter_picks_targets_and_names() {
        for (words, deep, command) in [
            ("--test swap a_node -- --nocapture", false, "--test swap a_node -- --nocapture"),
            ("--test pg", true, "--test pg -- --include-ignored"),
            ("a_node", false, "--lib --bins a_node"),
        ] {
            let queue = Queue::of(&[distribution("opensearch-2").unwrap()], &lists(), &filter(words, deep).unwrap(), false);
            let first = queue.unwrap().left.remove(0).0.command.join(" ");
            assert_eq!(first, format!("cargo test --workspace --no-fail-fast {command}"));
        }
        assert!(queue(&["opensearch-2"], "--test dance", false).is_err());
        for wrong in ["-p svc-snap", "--lib", "--test"] {
            assert!(filter(wrong, false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_is_in_one_list() {
        let ours = ["a".to_owned(), "b".to_owned()];
        for (lists, wrong) in [
            (json!({"once": ["a"], "any": ["b"]}), None),
            (json!({"once": ["a"]}), Some("b is in 0 lists")),
            (json!({"once": ["a", "b"], "any": ["a"]}), Some("a is in 2 lists")),
            (json!({"once": ["a", "b", "d"]}), Some("not there: [\"d\"]")),
        ] {
            let error = Lists::of(&lists, &ours).err().map(|error| error.to_string());
            assert!(error.as_deref().unwrap_or_default().contains(wrong.unwrap_or_default()), "{lists}: {error:?}");
            assert_eq!(error.is_some(), wrong.is_some(), "{lists}");
        }
    }

    #[test]
    fn the_tests_are_counted_and_what_is_left_out_is_named_once_with_all_its_places() {
        const OUTPUT: &str = "running 2 tests\ntest a ... ok\ntest b::c ... ignored, takes minutes\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s\n\
            test result: FAILED. 30 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.10s\n";
        assert_eq!((counts(OUTPUT), counts("error: could not compile")), ([42, 2, 1], [0; 3]));
        let outcome = |skipped: &[&str], ran: &[&str], failed: &[&str]| Outcome {
            failed: failed.iter().map(|&one| one.to_owned()).collect(),
            tests: [42, 2, 1],
            left_out: skipped.iter().map(|&one| one.to_owned()).chain(ignored_tests(OUTPUT)).collect(),
            ran: ran.iter().map(|&one| one.to_owned()).collect(),
        };
        let outcomes =
            BTreeMap::from([("a", outcome(&["x: why", "y: so"], &["rate"], &[])), ("b", outcome(&["x: why"], &[], &["pg"]))]);
        let deep = "left out on a, b: b::c: takes minutes, only with --deep";
        let told = [deep, "left out on a, b: x: why", "left out on a: y: so", "rate only on a"];
        assert_eq!(left_out(&outcomes, &lists()), told);
        assert_eq!(outcomes["a"].to_string(), "passed, 42 tests, 1 ignored, 2 left out");
        assert_eq!(outcomes["b"].to_string(), "FAILED in pg: 42 tests passed, 2 failed, 1 ignored, 1 left out");
    }

    #[test]
    fn as_many_hosts_as_fit_in_memory() {
        let gigabytes = |count: u64| hosts_within(&format!("MemTotal: 3 kB\nMemAvailable:    {} kB\n", count * 1_000_000));
        assert_eq!([0, 4, 11, 16, 200].map(gigabytes), [1, 1, 2, 3, 4]);
    }
}
