//! What a snapshot holds, by name, and what of it is to be restored.

use std::collections::BTreeMap;

use svc_step::Failure;

use crate::index::resolve::{self, Kind, Patterns, Resolved, Unresolved};
use crate::index::scope::Scope;

/// What a snapshot holds, by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    /// Its indices, with those behind its data streams.
    pub indices: &'a [String],
    /// Its data streams.
    pub streams: &'a [String],
    /// Data streams that are hidden on the server: no snapshot says so.
    pub hidden: &'a [String],
    /// Those of its indices that belong to feature states, which the server restores by other means only.
    pub features: &'a [String],
    /// Those of its indices that were noted as behind data streams; the names tell the others.
    pub behind: &'a [String],
}

/// Resolves `patterns` against what the snapshot holds.
///
/// # Errors
/// A plain name is not in the snapshot, or nothing at all is asked for (4); a plain name must not be restored (3).
pub(crate) fn resolve(patterns: &Patterns, held: Held<'_>, scope: &Scope) -> Result<Resolved, Failure> {
    let kind = |name: &String| {
        if held.features.contains(name) {
            Kind::Feature
        } else if held.behind.contains(name) || behind(name, held.streams).is_some() {
            Kind::Behind
        } else {
            Kind::Index
        }
    };
    let mut names: BTreeMap<String, Kind> = held.indices.iter().map(|name| (name.clone(), kind(name))).collect();
    names.extend(held.streams.iter().map(|name| (name.clone(), Kind::of_stream(name, held.hidden))));
    resolve::resolve(patterns, scope, &names).map_err(|why| match why {
        Unresolved::Missing(missing) => {
            Failure::not_found("index_not_in_snapshot", format!("The snapshot does not hold {}.", missing.join(", ")))
                .hint("svc-snap show lists what it holds; name one of those with --indices.")
        }
        Unresolved::Refused(refused) => {
            Failure::refused("index_not_restorable", format!("{} may not be restored by name.", refused.join(", ")))
                .hint("Widen the scope (--scope, SVC_INDICES) if it is the service's; security indices, indices of feature states, those behind data streams and our own copies never are.")
        }
        Unresolved::Nothing => Failure::not_found(
            "nothing_to_restore",
            "Nothing that the snapshot holds is both asked for and within the scope.",
        )
        .hint("svc-snap show lists what it holds; see --indices and SVC_INDICES."),
    })
}

/// The data stream that `index` is behind, by its name: `.ds-<stream>-…`, or of its failure store `.fs-<stream>-…`. The
/// stream with the longest name is the right one: `.ds-logs-app-000001` is not behind `logs`.
pub(crate) fn behind<'a>(index: &str, streams: &'a [String]) -> Option<&'a String> {
    let rest = [".ds-", ".fs-"].iter().find_map(|prefix| index.strip_prefix(prefix))?;
    let fits = |stream: &&String| rest.strip_prefix(stream.as_str()).is_some_and(|rest| rest.starts_with('-'));
    streams.iter().filter(fits).max_by_key(|stream| stream.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::resolve::{DEFAULT, Reason};

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn resolved(patterns: &str, indices: &[&str], streams: &[&str], scope: &str) -> Result<Resolved, Failure> {
        let (indices, streams, features) = (strings(indices), strings(streams), strings(&[".feature"]));
        let held = Held { indices: &indices, streams: &streams, hidden: &[], features: &features, behind: &[] };
        resolve(&Patterns::parse(patterns), held, &scope.parse().unwrap())
    }

    fn names(patterns: &str, indices: &[&str]) -> Vec<String> {
        resolved(patterns, indices, &[], "*").unwrap().indices
    }

    #[test]
    fn the_procedures_pattern_works_with_and_without_the_index_that_it_excludes() {
        assert_eq!(names(DEFAULT, &["a", "b"]), ["a", "b"]);
        assert_eq!(names(DEFAULT, &["a", ".geoip_databases"]), ["a"]);
    }

    #[test]
    fn a_plain_name_that_is_not_there_is_missing_and_a_wildcard_that_finds_nothing_is_not() {
        let failure = resolved("a,x,y", &["a"], &[], "*").unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (4, "index_not_in_snapshot"));
        assert!(failure.message.contains("x, y"));
        assert_eq!(names("a,x*", &["a"]), ["a"]);
        assert_eq!(resolved("x*", &["a"], &[], "*").unwrap_err().code, "nothing_to_restore");
    }

    #[test]
    fn what_is_passed_over_has_its_reason() {
        let held = ["a", "other", ".feature", ".security-7", "svc-before-20261120t020003z-x-a", ".ds-logs-000001", "b"];
        let resolved = resolved("*,-b", &held, &["logs"], "a,b,logs").unwrap();
        assert_eq!(resolved.indices, ["a"]);
        assert_eq!(resolved.streams, ["logs"]);
        let reason = |name: &str| resolved.skipped.iter().find(|one| one.name == name).unwrap().reason;
        assert_eq!(reason("b"), Reason::NotAskedFor);
        assert_eq!(reason("other"), Reason::OutsideScope);
        assert_eq!(reason(".feature"), Reason::FeatureState);
        assert_eq!(reason(".security-7"), Reason::Security);
        assert_eq!(reason("svc-before-20261120t020003z-x-a"), Reason::OwnCopy);
        assert_eq!(reason(".ds-logs-000001"), Reason::BehindDataStream);
    }

    #[test]
    fn a_name_that_must_not_be_restored_is_refused_when_it_is_asked_for_by_name() {
        for (name, scope) in [(".security-7", "*"), ("other", "a"), (".feature", "*"), (".ds-logs-000001", "*")] {
            let failure = resolved(name, &[name, "a"], &["logs"], scope).unwrap_err();
            assert_eq!((failure.status.code(), failure.code.as_str()), (3, "index_not_restorable"), "{name}");
        }
    }

    #[test]
    fn an_index_is_behind_the_stream_with_the_longest_name_that_fits() {
        let streams = strings(&["logs", "logs-app"]);
        let held = |name: &str, index: &str| behind(index, &streams).map(String::as_str) == Some(name);
        assert!(held("logs", ".ds-logs-000001") && held("logs", ".ds-logs-2026.11.20-000012"));
        assert!(held("logs-app", ".ds-logs-app-2026.11.20-000001") && held("logs", ".fs-logs-2026.11.20-000001"));
        assert_eq!(behind(".ds-other-000001", &streams), None);
        let (indices, noted) = (strings(&["a", "odd"]), strings(&["odd"]));
        let held = Held { indices: &indices, streams: &streams, hidden: &[], features: &[], behind: &noted };
        let resolved = resolve(&Patterns::parse("*"), held, &"*".parse().unwrap()).unwrap();
        assert_eq!(resolved.indices, ["a"], "what was noted as behind a stream is no index of its own, whatever its name");
    }
}
