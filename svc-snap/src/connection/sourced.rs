//! Where a setting comes from: what stands on the command line is meant for this call and wins over the environment.

use std::collections::BTreeMap;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// Where a setting stands; the later wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// In the environment, which may come from a file that holds for every call.
    Environment,
    /// On the command line.
    Flag,
}

/// The settings that are made, by the names of their flags (`password_file`), and where each stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources(BTreeMap<String, Source>);

impl Sources {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let source = |id: &str| match matches.value_source(id)? {
            ValueSource::CommandLine => Some(Source::Flag),
            ValueSource::EnvVariable => Some(Source::Environment),
            _ => None,
        };
        Self(matches.ids().filter_map(|id| Some((id.to_string(), source(id.as_str())?))).collect())
    }

    /// Says where a setting stands, for tests, which cannot set a variable for themselves alone.
    #[cfg(test)]
    pub(super) fn set(&mut self, id: &str, source: Source) {
        self.0.insert(id.to_owned(), source);
    }

    /// Where a setting stands; `None` where it is not made.
    pub(super) fn source(&self, id: &str) -> Option<Source> {
        self.0.get(id).copied()
    }
}

/// A setting that only one call of several may be: its name, as people write it at the place where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    /// The flag's name for clap.
    pub id: &'static str,
    /// The flag.
    pub flag: &'static str,
    /// The variable.
    pub variable: &'static str,
}

impl Setting {
    /// How it is called where it stands.
    pub(super) const fn at(self, source: Source) -> &'static str {
        match source {
            Source::Flag => self.flag,
            Source::Environment => self.variable,
        }
    }
}
