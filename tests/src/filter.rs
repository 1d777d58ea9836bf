//! What of the suite is asked for: the words behind `--` on the command line of `tests/run`.

use anyhow::{Context, Result, bail};

/// The targets that are named, and what else is handed on to `cargo test`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of `--test TARGET`; none means all.
    pub targets: Vec<String>,
    /// A part of a test's name, and what stands behind a further `--`, for the test programs.
    pub words: Vec<String>,
    /// Also the tests that are `#[ignore]`.
    pub deep: bool,
}

impl Filter {
    /// Reads the words.
    ///
    /// # Errors
    /// An option of `cargo test` other than `--test`: it would pick from the whole workspace, which is divided among the hosts.
    pub fn of(words: &[String]) -> Result<Self> {
        let mut this = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => {
                    this.words.push(word.clone());
                    this.words.extend(words.by_ref().cloned());
                }
                "--test" => this.targets.push(words.next().context("--test needs the name of a target")?.clone()),
                option if option.starts_with('-') => match option.strip_prefix("--test=") {
                    Some(target) => this.targets.push(target.to_owned()),
                    None => bail!(
                        "tests/run does not take {option}: it picks by --test TARGET and by a part of a test's name, and what \
                         stands behind a further -- goes to the test programs; for all else run `cargo test {option} …` inside \
                         `svc-testhost run -- bash`"
                    ),
                },
                _ => this.words.push(word.clone()),
            }
        }
        Ok(this)
    }

    /// Whether that target is asked for.
    pub fn wants(&self, target: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|one| one == target)
    }

    /// The words for `cargo test`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words = self.words.clone();
        if self.deep {
            let dashes = (!words.iter().any(|word| word == "--")).then(|| "--".to_owned());
            words.extend(dashes.into_iter().chain(["--include-ignored".to_owned()]));
        }
        words
    }

    /// Whether everything is.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Filter> {
        Filter::of(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn targets_are_told_from_what_is_for_the_test_programs() {
        for text in ["--test snap a_node -- --test swap", "--test=snap a_node -- --test swap"] {
            let filter = read(text).unwrap();
            assert_eq!((filter.targets.join(" "), filter.words.join(" ")), ("snap".into(), "a_node -- --test swap".into()));
            assert_eq!((filter.wants("snap"), filter.wants("swap"), filter.is_empty()), (true, false, false));
        }
        let none = read("").unwrap();
        assert_eq!(none.arguments(), Vec::<String>::new());
        assert!(none.wants("snap") && none.is_empty());
        assert!(!read("a_node").unwrap().is_empty());
    }

    #[test]
    fn a_deep_run_includes_the_ignored_ones() {
        for (words, expected) in [
            ("", "-- --include-ignored"),
            ("a_node", "a_node -- --include-ignored"),
            ("a_node -- --nocapture", "a_node -- --nocapture --include-ignored"),
        ] {
            assert_eq!(Filter { deep: true, ..read(words).unwrap() }.arguments().join(" "), expected);
        }
    }

    #[test]
    fn an_option_that_cannot_be_divided_is_refused() {
        for wrong in ["-p svc-snap", "--package=svc-snap", "--lib", "--test"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
