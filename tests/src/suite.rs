//! Which tests run on which search database, and those of several databases side by side.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, fmt, io, thread};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::search::{Distribution, Product};
use crate::{children, download, java, os, wait};

/// The targets of `tests/Cargo.toml`, as its `[package.metadata.targets]` lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those to which the search database is all one: on the first only.
    pub once: Vec<String>,
    /// Those that have to be seen on each product: on the first database of each, and on all with `--deep`.
    pub product: Vec<String>,
    /// Those that have to be seen on each database.
    pub search: Vec<String>,
}

impl Lists {
    /// As cargo reads them.
    ///
    /// # Errors
    /// A target is in no list, or in two.
    pub fn read() -> Result<Self> {
        let metadata = os::run(Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let package = packages.iter().find(|one| one["name"] == env!("CARGO_PKG_NAME")).context("no package of this name")?;
        let targets = package["targets"].as_array().context("no targets")?.iter();
        let tests = targets.filter(|one| one["kind"][0] == "test").filter_map(|one| one["name"].as_str());
        Self::of(&package["metadata"]["targets"], &tests.collect::<Vec<_>>())
    }

    fn of(lists: &Value, tests: &[&str]) -> Result<Self> {
        let list = |name: &str| -> Vec<String> {
            lists[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let this = Self { once: list("once"), product: list("product"), search: list("search") };
        for test in tests {
            let count = [&this.once, &this.product, &this.search].into_iter().flatten().filter(|one| one == test).count();
            ensure!(
                count == 1,
                "the target {test} of tests/Cargo.toml stands in {count} lists of [package.metadata.targets], not in one"
            );
        }
        Ok(this)
    }
}

/// What is run with one search database.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// The search database.
    pub key: &'static str,
    /// The arguments of `cargo test`.
    pub arguments: Vec<String>,
    /// Whether the sample service's own check goes first.
    pub with_check: bool,
}

/// What is run with each of them: all tests with the first one, with the others what its lists say. A filter (what stands
/// behind `--` on the command line of `tests/run`) that names targets leaves of each what it names, and none may be left.
pub fn parts(all: &[&'static Distribution], lists: &Lists, filter: &[String], deep: bool) -> Vec<Part> {
    let named: Vec<&String> = filter.windows(2).filter(|pair| pair[0] == "--test").map(|pair| &pair[1]).collect();
    let mut seen: Vec<Product> = Vec::new();
    let mut parts = Vec::new();
    for (number, one) in all.iter().enumerate() {
        let is_first = !seen.contains(&one.product);
        seen.push(one.product);
        let mut arguments = vec!["--workspace".to_owned()];
        if number > 0 {
            let also = if is_first || deep { lists.product.as_slice() } else { &[] };
            let targets: Vec<&String> = lists.search.iter().chain(also).collect();
            let wanted: Vec<&String> = targets.into_iter().filter(|one| named.is_empty() || named.contains(one)).collect();
            if wanted.is_empty() {
                continue;
            }
            arguments.extend(wanted.into_iter().flat_map(|one| ["--test".to_owned(), one.clone()]));
            arguments.extend(without_targets(filter));
        } else {
            arguments.extend(filter.iter().cloned());
        }
        parts.push(Part { key: one.key, arguments, with_check: number == 0 && filter.is_empty() });
    }
    parts
}

fn without_targets(filter: &[String]) -> Vec<String> {
    let mut rest = Vec::new();
    let mut words = filter.iter();
    while let Some(word) = words.next() {
        if word == "--test" {
            words.next();
        } else {
            rest.push(word.clone());
        }
    }
    rest
}

/// Puts a search database and its Java into the cache.
///
/// # Errors
/// Either cannot be had.
pub fn fetch(one: &Distribution) -> Result<()> {
    download::maven(&one.artifact())?;
    java::at_least(one.java).map(drop)
}

/// What came of one search database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that ran on it passed, in this time.
    Passed(Duration),
    /// Something did not, or the run was broken off.
    Failed(Duration),
    /// It cannot be had.
    Skipped,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(time) => write!(out, "passed {}s", time.as_secs()),
            Self::Failed(time) => write!(out, "FAILED {}s", time.as_secs()),
            Self::Skipped => out.write_str("skipped"),
        }
    }
}

/// Runs the parts, at most `jobs` at a time, in their order, each in a host of its own. What one says is kept until it ends,
/// and then printed whole.
///
/// # Errors
/// A part cannot be started.
pub fn run(parts: Vec<Part>, jobs: usize) -> Result<BTreeMap<&'static str, Outcome>> {
    let queue = Mutex::new(parts.into_iter());
    let outcomes = Mutex::new(BTreeMap::new());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next()).filter(|_| !wait::is_cancelled());
    let work = || -> Result<()> {
        while let Some(part) = next() {
            let begun = Instant::now();
            eprintln!("\n== {}: begun", part.key);
            let (status, mut said) = one(&part)?;
            let outcome = if status.success() { Outcome::Passed(begun.elapsed()) } else { Outcome::Failed(begun.elapsed()) };
            let mut outcomes = outcomes.lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            eprintln!("\n== {}", part.key);
            said.seek(SeekFrom::Start(0))?;
            io::copy(&mut said, &mut io::stderr().lock())?;
            eprintln!("== {}: {outcome}", part.key);
            outcomes.insert(part.key, outcome);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })?;
    outcomes.into_inner().map_err(|_| anyhow::anyhow!("a thread panicked"))
}

/// One part, and all that it said.
fn one(part: &Part) -> Result<(ExitStatus, std::fs::File)> {
    let said = tempfile::tempfile()?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["run", "--search", part.key, "--"]);
    if part.with_check {
        command.args(["bash", "-c", "tests/service/check >&2 && exec \"$@\"", "with-check"]);
    }
    command.args(["cargo", "test", "--no-fail-fast"]).args(&part.arguments);
    command.stdout(said.try_clone()?).stderr(said.try_clone()?).stdin(Stdio::inherit());
    let mut child = command.spawn().context("cannot start a host")?;
    Ok((children::wait(&mut child)?, said))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::search::distribution;

    fn lists() -> Lists {
        let text = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Lists { once: text(&["unit"]), product: text(&["upgrade"]), search: text(&["snap", "swap"]) }
    }

    fn told(keys: &[&str], filter: &str, deep: bool) -> Vec<String> {
        let all: Vec<_> = keys.iter().map(|key| distribution(key).unwrap()).collect();
        let filter: Vec<String> = filter.split_whitespace().map(str::to_owned).collect();
        parts(&all, &lists(), &filter, deep).iter().map(|part| format!("{}: {}", part.key, part.arguments.join(" "))).collect()
    }

    #[test]
    fn the_first_runs_all_each_product_its_own_and_every_one_what_concerns_it() {
        assert_eq!(
            told(&["opensearch-2", "opensearch-3", "elasticsearch-8", "elasticsearch-9"], "", false),
            [
                "opensearch-2: --workspace",
                "opensearch-3: --workspace --test snap --test swap",
                "elasticsearch-8: --workspace --test snap --test swap --test upgrade",
                "elasticsearch-9: --workspace --test snap --test swap",
            ]
        );
        assert_eq!(
            told(&["opensearch-2", "opensearch-3"], "", true)[1],
            "opensearch-3: --workspace --test snap --test swap --test upgrade"
        );
    }

    #[test]
    fn a_filter_leaves_of_each_what_it_names() {
        assert_eq!(
            told(&["opensearch-2", "elasticsearch-8"], "--test snap a_node -- --nocapture", false),
            [
                "opensearch-2: --workspace --test snap a_node -- --nocapture",
                "elasticsearch-8: --workspace --test snap a_node -- --nocapture"
            ]
        );
        assert_eq!(told(&["opensearch-2", "elasticsearch-8"], "--test unit", false), ["opensearch-2: --workspace --test unit"]);
    }

    #[test]
    fn a_target_stands_in_one_list() {
        let lists = json!({"once": ["a"], "search": ["b", "c"], "product": ["c"]});
        assert!(Lists::of(&lists, &["a", "b"]).is_ok());
        for wrong in ["c", "d"] {
            let error = Lists::of(&lists, &["a", wrong]).unwrap_err().to_string();
            assert!(error.contains(&format!("the target {wrong} ")), "{error}");
        }
    }
}
