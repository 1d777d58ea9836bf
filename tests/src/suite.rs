//! Which tests run on which search database; [`crate::turns`] runs them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::filter::Filter;
use crate::search::{Distribution, Product};
use crate::{download, java, os};

/// A test target, and about how many seconds it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Only to share the targets out: nothing depends on it being right.
    pub seconds: u64,
}

/// The targets of the workspace, as `[package.metadata.targets]` of `tests/Cargo.toml` lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those that have to be seen on each database.
    pub search: Vec<Target>,
    /// Those that have to be seen on each product: on one database of each, and on all with `--everywhere`.
    pub product: Vec<Target>,
    /// Those that are seen on one database, and on all with `--everywhere`.
    pub any: Vec<Target>,
    /// Those to which the search database is all one: on any, once. Those of other packages are among them.
    pub once: Vec<Target>,
    /// About how many seconds the targets take with `--deep` that take much longer then.
    pub deep: BTreeMap<String, u64>,
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

    /// As long as they take with `--deep`.
    #[must_use]
    pub fn deep(mut self) -> Self {
        for target in [&mut self.search, &mut self.product, &mut self.any, &mut self.once].into_iter().flatten() {
            target.seconds = self.deep.get(&target.name).copied().unwrap_or(target.seconds);
        }
        self
    }

    fn of(lists: &Value, ours: &[&str], others: &[&str]) -> Result<Self> {
        let list = |name: &str| -> Vec<Target> {
            let all = lists[name].as_object().into_iter().flatten();
            all.map(|(name, seconds)| Target { name: name.clone(), seconds: seconds.as_u64().unwrap_or_default() }).collect()
        };
        let deep = list("deep").into_iter().map(|one| (one.name, one.seconds)).collect();
        let mut this = Self { search: list("search"), product: list("product"), any: list("any"), once: list("once"), deep };
        for test in ours {
            let count = this.all().filter(|one| one.name == *test).count();
            ensure!(
                count == 1,
                "the target {test} of tests/Cargo.toml stands in {count} lists of [package.metadata.targets], not in one"
            );
        }
        // They need no host at all.
        this.once.extend(others.iter().map(|&name| Target { name: name.to_owned(), seconds: 0 }));
        Ok(this)
    }

    fn all(&self) -> impl Iterator<Item = &Target> {
        [&self.search, &self.product, &self.any, &self.once].into_iter().flatten()
    }
}

/// What is run in one host.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its search database.
    pub key: &'static str,
    /// The targets.
    pub targets: Vec<Target>,
    /// Whether the unit tests of all packages go with them.
    pub with_units: bool,
    /// Whether the sample service's own check goes first.
    pub with_check: bool,
    /// Whether it runs what takes long too: the tests that are `#[ignore]`, and all of [`crate::rounds`].
    pub deep: bool,
    words: Vec<String>,
}

impl Part {
    /// The arguments of `cargo test`.
    pub fn arguments(&self) -> Vec<String> {
        let units = self.with_units.then_some(["--lib", "--bins"]).into_iter().flatten();
        let targets = self.targets.iter().flat_map(|one| ["--test", &one.name]);
        let all = ["--workspace", "--no-fail-fast"].into_iter().chain(units).chain(targets);
        all.map(str::to_owned).chain(self.words.iter().cloned()).collect()
    }

    fn runs(&self, target: &Target) -> bool {
        self.targets.contains(target)
    }

    fn seconds(&self) -> u64 {
        self.targets.iter().map(|one| one.seconds).sum()
    }
}

/// What is run with each of them: what has to be seen on each database with each; what has to be seen on each product with one of
/// its databases, other things with one of all (or with each, where it is to be `everywhere`), and all else once: there where it is done the soonest, with so
/// many at a time. Of all that, what the filter wants.
///
/// # Errors
/// The filter names a target that is not there.
pub fn parts(all: &[&'static Distribution], lists: &Lists, filter: &Filter, everywhere: bool, jobs: usize) -> Result<Vec<Part>> {
    for name in &filter.targets {
        ensure!(lists.all().any(|one| one.name == *name), "there is no test target {name}; tests/Cargo.toml names them");
    }
    // The longest first, or it would come last to a host that has enough to do by then.
    let wanted = |list: &[Target]| -> Vec<Target> {
        let mut wanted: Vec<Target> = list.iter().filter(|one| filter.wants(&one.name)).cloned().collect();
        wanted.sort_by_key(|one| Reverse(one.seconds));
        wanted
    };
    let begun = |one: &&'static Distribution| Part {
        key: one.key,
        targets: wanted(&lists.search),
        deep: filter.deep,
        words: filter.arguments(),
        ..Part::default()
    };
    let mut parts: Vec<Part> = all.iter().map(begun).collect();
    let (everywhere, once): (Vec<Target>, Vec<Target>) = if everywhere {
        (wanted(&[&lists.product[..], &lists.any[..]].concat()), wanted(&lists.once))
    } else {
        (Vec::new(), wanted(&[&lists.any[..], &lists.once[..]].concat()))
    };
    for target in &everywhere {
        parts.iter_mut().for_each(|part| part.targets.push(target.clone()));
    }
    for target in wanted(&lists.product).into_iter().filter(|target| !everywhere.contains(target)) {
        for product in products(all) {
            let of_it = all.iter().map(|one| one.product == product).collect::<Vec<_>>();
            if let Some(idle) = idle(&mut parts, jobs, |at| of_it.get(at) == Some(&true)) {
                idle.targets.push(target.clone());
            }
        }
    }
    for target in once {
        if let Some(idle) = idle(&mut parts, jobs, |_| true) {
            idle.targets.push(target);
        }
    }
    if let Some(idle) = idle(&mut parts, jobs, |_| true) {
        idle.with_units = filter.targets.is_empty();
        idle.with_check = filter.is_empty();
    }
    parts.retain(|part| part.with_units || !part.targets.is_empty());
    Ok(parts)
}

fn products(all: &[&'static Distribution]) -> Vec<Product> {
    let mut products: Vec<Product> = Vec::new();
    for one in all {
        if !products.contains(&one.product) {
            products.push(one.product);
        }
    }
    products
}

/// The one, of those that may, whose turns are over the soonest: with four at a time the first and the fifth take turns.
fn idle(parts: &mut [Part], jobs: usize, may: impl Fn(usize) -> bool) -> Option<&mut Part> {
    let jobs = jobs.max(1);
    let turns = |at: usize| parts.iter().skip(at % jobs).step_by(jobs).map(Part::seconds).sum::<u64>();
    let at = (0..parts.len()).filter(|&at| may(at)).min_by_key(|&at| (turns(at), parts.get(at).map(Part::seconds)))?;
    parts.get_mut(at)
}

/// Of those, the targets that depend on the search database and do not run on each, and where they do.
pub fn narrowed(all: &[&'static Distribution], lists: &Lists, parts: &[Part]) -> Option<String> {
    let mut narrow: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for target in lists.product.iter().chain(&lists.any) {
        let places: Vec<&str> = parts.iter().filter(|part| part.runs(target)).map(|part| part.key).collect();
        if (1..all.len()).contains(&places.len()) {
            narrow.entry(places).or_default().push(&target.name);
        }
    }
    let told: Vec<String> =
        narrow.iter().map(|(places, targets)| format!("{} only on {}", targets.join(", "), places.join(", "))).collect();
    (!told.is_empty()).then(|| told.join("; "))
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

    fn lists() -> Lists {
        let lists = json!({"search": {"snap": 5, "swap": 5}, "product": {"upgrade": 20}, "any": {"pg": 9}, "once": {"unit": 1, "page": 6}});
        Lists::of(&lists, &["snap", "swap", "upgrade", "unit", "page", "pg"], &["laws"]).unwrap()
    }

    fn planned(keys: &[&str], filter: &str, everywhere: bool) -> Result<Vec<Part>> {
        let all: Vec<_> = keys.iter().map(|key| distribution(key).unwrap()).collect();
        let filter: Vec<String> = filter.split_whitespace().map(str::to_owned).collect();
        parts(&all, &lists(), &Filter::of(&filter)?, everywhere, 4)
    }

    fn told(keys: &[&str], filter: &str, everywhere: bool) -> Vec<String> {
        let short = |part: Part| {
            let arguments = part.arguments().join(" ").replace("--test ", "").replace("--workspace --no-fail-fast ", "");
            format!("{}: {arguments}", part.key)
        };
        planned(keys, filter, everywhere).unwrap().into_iter().map(short).collect()
    }

    #[test]
    fn each_runs_what_concerns_it_and_who_has_the_least_to_do_what_concerns_none() {
        let four = ["opensearch-2", "opensearch-3", "elasticsearch-8", "elasticsearch-9"];
        assert_eq!(
            told(&four, "", false),
            [
                "opensearch-2: snap swap upgrade",
                "opensearch-3: snap swap pg",
                "elasticsearch-8: snap swap upgrade",
                "elasticsearch-9: --lib --bins snap swap page unit laws",
            ]
        );
        assert_eq!(told(&four[..2], "", true)[1], "opensearch-3: --lib --bins snap swap upgrade pg unit laws");
        assert_eq!(told(&four[..1], "", false), ["opensearch-2: --lib --bins snap swap upgrade pg page unit laws"]);
        let checks = |filter| planned(&four, filter, false).unwrap().iter().filter(|part| part.with_check).count();
        assert_eq!((checks(""), checks("a_node"), checks("--test snap")), (1, 0, 0));
    }

    #[test]
    fn those_that_take_turns_have_together_as_much_to_do_as_one_that_does_not() {
        let all = ["opensearch-2", "opensearch-3", "opensearch-1"].map(|key| distribution(key).unwrap());
        let filter = Filter::of(&[]).unwrap();
        let seconds = |jobs| parts(&all, &lists(), &filter, false, jobs).unwrap().iter().map(Part::seconds).collect::<Vec<_>>();
        assert_eq!(seconds(3), [30, 19, 17]);
        // The first and the third take turns.
        assert_eq!(seconds(2), [19, 31, 16]);
    }

    #[test]
    fn a_filter_leaves_of_each_what_it_names() {
        let two = ["opensearch-2", "elasticsearch-8"];
        assert_eq!(
            told(&two, "--test snap a_node -- --nocapture", false),
            ["opensearch-2: snap a_node -- --nocapture", "elasticsearch-8: snap a_node -- --nocapture"]
        );
        for one in ["unit", "laws"] {
            assert_eq!(told(&two, &format!("--test {one}"), false), [format!("opensearch-2: {one}")]);
        }
        assert!(told(&two, "a_node", false).iter().all(|part| part.ends_with(" a_node")));
        assert!(planned(&two, "--test dance", false).is_err());
    }

    #[test]
    fn what_ran_on_one_of_each_product_only_is_said() {
        let keys = ["opensearch-2", "opensearch-3", "elasticsearch-8"];
        let all = keys.map(|key| distribution(key).unwrap());
        let said = |filter, everywhere| narrowed(&all, &lists(), &planned(&keys, filter, everywhere).unwrap());
        assert_eq!(said("", false).unwrap(), "upgrade only on opensearch-2, elasticsearch-8; pg only on opensearch-3");
        assert_eq!((said("", true), said("--test snap", false)), (None, None));
    }

    #[test]
    fn a_deep_run_shares_out_by_its_own_times() {
        let lists = json!({"once": {"a": 1, "b": 2}, "deep": {"a": 900}});
        let seconds = |lists: Lists| lists.once.iter().map(|one| one.seconds).collect::<Vec<_>>();
        let lists = Lists::of(&lists, &["a", "b"], &[]).unwrap();
        assert_eq!((seconds(lists.clone()), seconds(lists.deep())), (vec![1, 2], vec![900, 2]));
    }

    #[test]
    fn a_target_stands_in_one_list() {
        let lists = json!({"once": {"a": 1}, "search": {"b": 1, "c": 1}, "product": {"c": 1}});
        assert!(Lists::of(&lists, &["a", "b"], &[]).is_ok());
        for wrong in ["c", "d"] {
            let error = Lists::of(&lists, &["a", wrong], &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("the target {wrong} ")), "{error}");
        }
    }
}
