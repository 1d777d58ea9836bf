//! Which tests run with which search database, and in which order hosts take them; [`crate::turns`] runs them.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::filter::Filter;
use crate::search::Distribution;
use crate::{download, java, os};

/// The targets of the workspace, as `[package.metadata.targets]` of `tests/Cargo.toml` lists them: the longest of each first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those that have to be seen on each database.
    pub search: Vec<String>,
    /// Those that have to be seen on each product: on one database of each, and with `--all` on each database.
    pub product: Vec<String>,
    /// Those that are seen on one database, and with `--all` on each.
    pub any: Vec<String>,
    /// Those to which the search database is all one: on any, once. Those of other packages are among them.
    pub once: Vec<String>,
    /// Those that take the longest with `--deep`.
    pub deep: Vec<String>,
}

impl Lists {
    /// As cargo reads them.
    ///
    /// # Errors
    /// A target of `tests/Cargo.toml` is in no list, or in two.
    pub fn read() -> Result<Self> {
        let metadata = os::run(Command::new("cargo").args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let (mut lists, mut ours, mut others) = (&Value::Null, Vec::new(), Vec::new());
        for package in metadata["packages"].as_array().context("no packages")? {
            let targets = package["targets"].as_array().context("no targets")?.iter();
            let tests = targets.filter(|one| one["kind"][0] == "test").filter_map(|one| one["name"].as_str());
            if package["name"] == env!("CARGO_PKG_NAME") {
                lists = &package["metadata"]["targets"];
                ours.extend(tests);
            } else {
                others.extend(tests);
            }
        }
        Self::of(lists, &ours, &others)
    }

    fn of(lists: &Value, ours: &[&str], others: &[&str]) -> Result<Self> {
        let list = |name: &str| -> Vec<String> {
            lists[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut this =
            Self { search: list("search"), product: list("product"), any: list("any"), once: list("once"), deep: list("deep") };
        for test in ours {
            let count = this.all().filter(|one| one == test).count();
            ensure!(
                count == 1,
                "the target {test} of tests/Cargo.toml stands in {count} lists of [package.metadata.targets], not in one"
            );
        }
        // They need no host at all.
        this.once.extend(others.iter().map(|&name| name.to_owned()));
        Ok(this)
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        [&self.search, &self.product, &self.any, &self.once].into_iter().flatten()
    }
}

/// What a host runs before it takes the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A test target.
    Target(String),
    /// The unit tests of all packages.
    Units,
    /// The sample service's own check.
    Check,
}

impl Work {
    /// Its name in what is printed.
    pub fn name(&self) -> &str {
        match self {
            Self::Target(name) => name,
            Self::Units => "unit tests",
            Self::Check => "service/check",
        }
    }

    /// The command that runs it.
    pub fn command(&self, filter: &Filter) -> Vec<String> {
        let picked = match self {
            Self::Check => return vec!["tests/service/check".to_owned()],
            Self::Units => vec!["--lib", "--bins"],
            Self::Target(name) => vec!["--test", name],
        };
        let all = ["cargo", "test", "--workspace", "--no-fail-fast"].into_iter().chain(picked);
        all.map(str::to_owned).chain(filter.arguments()).collect()
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
    /// What the filter wants of all that is run with these: on each database, on each product, or (unless it is `everywhere`) on
    /// one.
    ///
    /// # Errors
    /// The filter names a target that is not there.
    pub fn of(databases: &[&'static Distribution], lists: &Lists, filter: &Filter, everywhere: bool) -> Result<Self> {
        for name in &filter.targets {
            ensure!(lists.all().any(|one| one == name), "there is no test target {name}; tests/Cargo.toml names them");
        }
        let all: Vec<&'static str> = databases.iter().map(|one| one.key).collect();
        let each: Vec<Vec<&'static str>> = all.iter().map(|key| vec![*key]).collect();
        let mut of_products: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        databases.iter().for_each(|one| of_products.entry(one.product.to_string()).or_default().push(one.key));
        let of_products: Vec<_> = of_products.into_values().collect();
        let one = vec![all.clone()];
        let mut left = Vec::new();
        if filter.targets.is_empty() {
            left.push((Work::Units, all.clone()));
        }
        if filter.is_empty() {
            left.push((Work::Check, all.clone()));
        }
        let groups = [
            (&lists.search, &each),
            (&lists.product, if everywhere { &each } else { &of_products }),
            (&lists.any, if everywhere { &each } else { &one }),
            (&lists.once, &one),
        ];
        for (targets, keys) in groups {
            for target in targets.iter().filter(|target| filter.wants(target)) {
                left.extend(keys.iter().map(|keys| (Work::Target(target.clone()), keys.clone())));
            }
        }
        if filter.deep {
            left.sort_by_key(|(work, _)| !lists.deep.iter().any(|one| one == work.name()));
        }
        Ok(Self { left, hosts: all.into_iter().map(|key| (key, 0)).collect() })
    }

    /// The database of the next host: of those that something is left for the one with the fewest hosts.
    pub fn host(&mut self) -> Option<&'static str> {
        let wanted = |key: &str| self.left.iter().any(|(_, keys)| keys.contains(&key));
        let (&key, _) = self.hosts.iter().filter(|(key, _)| wanted(key)).min_by_key(|(_, hosts)| **hosts)?;
        self.hosts.entry(key).and_modify(|hosts| *hosts += 1);
        Some(key)
    }

    /// What that host runs next: first what no other database may. What others may run too waits until each database whose own
    /// work is left has a host.
    pub fn next(&mut self, key: &str) -> Option<Work> {
        let is_own = |keys: &[&str], of: &str| keys == [of];
        let waits = self.hosts.iter().any(|(other, hosts)| *hosts == 0 && self.left.iter().any(|(_, keys)| is_own(keys, other)));
        let own = self.left.iter().position(|(_, keys)| is_own(keys, key));
        let any = || self.left.iter().position(|(_, keys)| keys.contains(&key)).filter(|_| !waits);
        Some(self.left.remove(own.or_else(any)?).0)
    }

    /// Nothing more runs on a database whose host does not start; gives what no other may run.
    pub fn give_up(&mut self, key: &str) -> Vec<Work> {
        self.hosts.remove(key);
        self.left.iter_mut().for_each(|(_, keys)| keys.retain(|other| *other != key));
        self.left.extract_if(.., |(_, keys)| keys.is_empty()).map(|(work, _)| work).collect()
    }
}

/// Puts a search database and its Java into the cache.
///
/// # Errors
/// Either cannot be had.
pub fn fetch(one: &Distribution) -> Result<()> {
    download::maven(&one.artifact())?;
    java::at_least(one.java).map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::search::distribution;

    fn queue(keys: &[&str], filter: &str, everywhere: bool) -> Result<Queue> {
        let lists = json!({"search": ["swap"], "product": ["snap"], "any": ["rate"], "once": ["pg", "page"], "deep": ["page"]});
        let lists = Lists::of(&lists, &["snap", "swap", "rate", "pg", "page"], &["laws"]).unwrap();
        let all: Vec<_> = keys.iter().map(|key| distribution(key).unwrap()).collect();
        let words: Vec<String> = filter.split_whitespace().map(str::to_owned).collect();
        Queue::of(&all, &lists, &Filter::of(&words)?, everywhere)
    }

    /// What so many hosts run that take turns.
    fn told(mut queue: Queue, hosts: usize) -> Vec<String> {
        let mut told = Vec::new();
        let mut keys: Vec<_> = (0..hosts).filter_map(|_| queue.host()).collect();
        while !keys.is_empty() {
            for key in std::mem::take(&mut keys) {
                match queue.next(key) {
                    Some(work) => {
                        told.push(format!("{key} {}", work.name()));
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
        assert_eq!(
            told(queue(&[os2, es8], "", false).unwrap(), 2),
            [
                "elasticsearch-8 swap",
                "opensearch-2 swap",
                "elasticsearch-8 snap",
                "opensearch-2 snap",
                "elasticsearch-8 unit tests",
                "opensearch-2 service/check",
                "elasticsearch-8 rate",
                "opensearch-2 pg",
                "elasticsearch-8 page",
                "opensearch-2 laws",
            ]
        );
        // Another database of the product has to be seen before the rest is shared out.
        let three = told(queue(&[os2, os3, es8], "--test swap --test pg", false).unwrap(), 1);
        assert_eq!(three, ["elasticsearch-8 swap", "opensearch-2 swap", "opensearch-3 swap", "opensearch-3 pg"]);
        let everywhere = told(queue(&[os2, os3], "--test snap --test rate --test pg", true).unwrap(), 2);
        assert_eq!(everywhere.iter().filter(|one| one.ends_with(" snap") || one.ends_with(" rate")).count(), 4, "{everywhere:?}");
        // A second host of a database helps it.
        assert_eq!(told(queue(&[os2], "--test pg --test page", false).unwrap(), 2).len(), 2);
    }

    #[test]
    fn a_filter_leaves_what_it_names() {
        let filter = Filter::of(&["a_node".to_owned(), "--".to_owned(), "--nocapture".to_owned()]).unwrap();
        let command = Work::Target("snap".to_owned()).command(&filter).join(" ");
        assert_eq!(command, "cargo test --workspace --no-fail-fast --test snap a_node -- --nocapture");
        assert_eq!(told(queue(&["opensearch-2"], "--test laws", false).unwrap(), 4), ["opensearch-2 laws"]);
        assert!(told(queue(&["opensearch-2"], "a_node", false).unwrap(), 1).contains(&"opensearch-2 unit tests".to_owned()));
        assert!(queue(&["opensearch-2"], "--test dance", false).is_err());
    }

    #[test]
    fn what_only_a_database_runs_whose_host_does_not_start_is_given_up() {
        let mut queue = queue(&["opensearch-2", "elasticsearch-8"], "--test swap --test pg", false).unwrap();
        assert_eq!(queue.give_up("opensearch-2"), [Work::Target("swap".to_owned())]);
        assert_eq!(told(queue, 2), ["elasticsearch-8 swap", "elasticsearch-8 pg"]);
    }

    #[test]
    fn a_target_stands_in_one_list() {
        let lists = json!({"once": ["a"], "search": ["b", "c"], "product": ["c"]});
        assert!(Lists::of(&lists, &["a", "b"], &[]).is_ok());
        for wrong in ["c", "d"] {
            let error = Lists::of(&lists, &["a", wrong], &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("the target {wrong} ")), "{error}");
        }
    }
}
