//! The scope (`SVC_INDICES`): the service's own indices. Nothing outside it is ever closed, deleted, replaced or backed up.

use std::fmt;
use std::str::FromStr;

use clap::Args;

use crate::index::copies;
use crate::index::resolve::Patterns;

/// The service's own indices.
#[derive(Debug, Clone, Args)]
pub struct ScopeArg {
    #[arg(long, value_name = "PATTERNS", env = "SVC_INDICES", default_value = "*")]
    pub scope: Scope,
}

/// Patterns for names of indices and data streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    text: String,
    patterns: Patterns,
}

impl Scope {
    /// Whether an index or a data stream of that name is the service's. Indices of the search database's security never are,
    /// nor are our own copies.
    pub(crate) fn contains(&self, name: &str) -> bool {
        !is_security(name) && !copies::is_own(name) && self.patterns.ask_for(name)
    }

    /// Whether an index of that name may be the service's, as far as its name says: one behind a data stream of its own too.
    pub(crate) fn may_hold(&self, index: &str) -> bool {
        let is = |name: &str| self.contains(name) && (!name.starts_with('.') || self.means(name));
        match [".ds-", ".fs-"].iter().find_map(|prefix| index.strip_prefix(prefix)) {
            Some(behind) => behind.match_indices('-').filter_map(|(at, _)| behind.get(..at)).any(is),
            None => is(index),
        }
    }

    /// Whether it means that name in particular, be it one that the search database would keep for itself.
    pub(crate) fn means(&self, name: &str) -> bool {
        self.patterns.mean(name)
    }
}

impl Scope {
    /// Whether the search database is the service's alone, as the default scope says. With any other, nothing is changed that
    /// the whole cluster has in common.
    pub(crate) fn is_everything(&self) -> bool {
        self.text == "*"
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.split(',').all(|part| part.trim().is_empty()) {
            return Err("the scope names nothing: write patterns such as svc-*,content".to_owned());
        }
        Ok(Self { text: text.to_owned(), patterns: Patterns::parse(text) })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Whether an index of that name belongs to the search database's own security.
pub(crate) fn is_security(name: &str) -> bool {
    name == ".opendistro_security" || name.starts_with(".security") || name.starts_with(".opensearch-security")
}

/// Whether `name` fits `pattern`, in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    while let Some((middle, after)) = rest.split_once('*') {
        let Some(at) = left.find(middle) else { return false };
        left = left.get(at + middle.len()..).unwrap_or_default();
        rest = after;
    }
    left.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "a", true),
            ("a*", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abcd", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("*x*", "axb", true),
            ("ab*ba", "aba", false),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn security_and_our_own_copies_are_never_the_services() {
        let scope: Scope = "*".parse().unwrap();
        assert!(scope.contains("docs") && scope.contains(".hidden"));
        for name in
            [".security-7", ".opendistro_security", "svc-staged-r-a", "svc-before-r-a", "svc-replaced-r-a", "svc-clone-r-a"]
        {
            assert!(!scope.contains(name), "{name}");
        }
        assert!(!scope.means(".tasks") && scope.may_hold(".ds-logs-000001") && !scope.may_hold(".ds-.logs-000001"));
        let named: Scope = "*,.kibana*,logs,-.kibana_x".parse().unwrap();
        assert!(
            named.means(".kibana_1") && !named.means(".kibana_x") && !named.means("docs") && named.may_hold(".ds-logs-000001")
        );
        let scope: Scope = "svc-*, content,-svc-tmp*".parse().unwrap();
        assert!(scope.contains("svc-a") && scope.contains("content") && !scope.contains("svc-tmp1") && !scope.contains("other"));
        assert!(" ,".parse::<Scope>().is_err());
    }
}
