//! What to restore: index patterns resolved against a snapshot's own list, within the scope (procedure, 2.3).
//!
//! The servers disagree about patterns on a restore, and all of them answer 404 to the procedure's `*,-.geoip_databases`
//! where the snapshot holds no such index. So the names are found here, and only names are sent.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::Failure;

use crate::index::copies;
use crate::index::scope::{Scope, is_security, matches};

/// The patterns of the procedure (2.3).
pub(crate) const DEFAULT: &str = "*,-.geoip_databases";

/// What a snapshot holds, by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held<'a> {
    /// Its indices, with those behind its data streams.
    pub indices: &'a [String],
    /// Its data streams.
    pub streams: &'a [String],
    /// Those of its indices that belong to feature states, which the server restores by other means only.
    pub features: &'a [String],
}

/// Something of the snapshot that is not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedOver {
    /// The index or data stream.
    pub name: String,
    /// Why.
    pub reason: Reason,
}

/// Why something is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The patterns do not ask for it.
    NotAskedFor,
    /// It is outside the scope (`SVC_INDICES`).
    OutsideScope,
    /// It belongs to the search database's own security.
    Security,
    /// It is a copy that these tools made.
    OwnCopy,
    /// It belongs to a feature state of the search database.
    FeatureState,
    /// It is behind a data stream, which is restored as a whole or not at all.
    BehindDataStream,
    /// It is a data stream, which cannot be swapped.
    DataStream,
    /// Its name begins with a dot: by convention it is the search database's own, and is not taken away.
    ServersOwn,
    /// The swap that is taken back had not come to it: what was live is live.
    NotSwapped,
}

/// What is restored, and what is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Indices, in the order of their names.
    pub indices: Vec<String>,
    /// Data streams, in the order of their names.
    pub streams: Vec<String>,
    /// Everything else that the snapshot holds.
    pub skipped: Vec<PassedOver>,
}

/// Patterns, comma separated: names, `*` for any text, and exclusions with a leading `-`. Exclusions apply wherever they
/// stand; with exclusions alone, everything else is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patterns {
    wanted: Vec<String>,
    excluded: Vec<String>,
}

impl Patterns {
    /// Reads them.
    pub(crate) fn parse(text: &str) -> Self {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let (excluded, wanted): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with('-'));
        let mut wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
        if wanted.is_empty() {
            wanted.push("*".to_owned());
        }
        let excluded = excluded.into_iter().map(|part| part.trim_start_matches('-').to_owned()).collect();
        Self { wanted, excluded }
    }

    /// Whether they ask for `name`.
    pub(crate) fn ask_for(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        any(&self.wanted) && !any(&self.excluded)
    }

    /// Whether they name it without a wildcard.
    pub(crate) fn name(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == name)
    }

    pub(crate) fn plain(&self) -> impl Iterator<Item = &String> {
        self.wanted.iter().filter(|wanted| !wanted.contains('*'))
    }
}

/// Resolves `patterns` against what the snapshot holds.
///
/// # Errors
/// A plain name is not in the snapshot, or nothing at all is asked for (4); a plain name must not be restored (3).
pub(crate) fn resolve(patterns: &Patterns, held: Held<'_>, scope: &Scope) -> Result<Resolved, Failure> {
    let names: BTreeSet<&String> = held.indices.iter().chain(held.streams).collect();
    let missing: Vec<&str> = patterns.plain().filter(|name| !names.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(Failure::not_found("index_not_in_snapshot", format!("The snapshot does not hold {}.", missing.join(", ")))
            .hint("svc-snap show lists what it holds; name one of those with --indices."));
    }
    let mut resolved = Resolved { indices: Vec::new(), streams: Vec::new(), skipped: Vec::new() };
    let mut refused = Vec::new();
    for name in names {
        match reason(name, patterns, held, scope) {
            Some(reason) => {
                if patterns.name(name) && reason != Reason::NotAskedFor {
                    refused.push(name.clone());
                }
                resolved.skipped.push(PassedOver { name: name.clone(), reason });
            }
            None if held.streams.contains(name) => resolved.streams.push(name.clone()),
            None => resolved.indices.push(name.clone()),
        }
    }
    if !refused.is_empty() {
        return Err(Failure::refused(
            "index_not_restorable",
            format!("{} may not be restored by name.", refused.join(", ")),
        )
        .hint("Widen the scope (--scope, SVC_INDICES) if it is the service's; security indices, indices of feature states, those behind data streams and our own copies never are."));
    }
    if resolved.indices.is_empty() && resolved.streams.is_empty() {
        return Err(Failure::not_found(
            "nothing_to_restore",
            "Nothing that the snapshot holds is both asked for and within the scope.",
        )
        .hint("svc-snap show lists what it holds; see --indices and SVC_INDICES."));
    }
    Ok(resolved)
}

fn reason(name: &str, patterns: &Patterns, held: Held<'_>, scope: &Scope) -> Option<Reason> {
    if is_security(name) {
        Some(Reason::Security)
    } else if copies::is_own(name) {
        Some(Reason::OwnCopy)
    } else if held.features.iter().any(|feature| feature == name) {
        Some(Reason::FeatureState)
    } else if held.streams.iter().any(|stream| is_behind(name, stream)) {
        Some(Reason::BehindDataStream)
    } else if !patterns.ask_for(name) {
        Some(Reason::NotAskedFor)
    } else if !scope.contains(name) {
        Some(Reason::OutsideScope)
    } else {
        None
    }
}

/// Whether `index` is one of those behind the data stream: `.ds-<stream>-…`, or of its failure store `.fs-<stream>-…`.
fn is_behind(index: &str, stream: &str) -> bool {
    [".ds-", ".fs-"].iter().any(|prefix| {
        index.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(stream)).is_some_and(|rest| rest.starts_with('-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn resolved(patterns: &str, indices: &[&str], streams: &[&str], scope: &str) -> Result<Resolved, Failure> {
        let (indices, streams, features) = (strings(indices), strings(streams), strings(&[".feature"]));
        let held = Held { indices: &indices, streams: &streams, features: &features };
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
    fn exclusions_apply_wherever_they_stand_and_however_many_they_are() {
        assert_eq!(names("*,-a,-b*", &["a", "b1", "b2", "c"]), ["c"]);
        assert_eq!(names("-a,*", &["a", "b"]), ["b"]);
        assert_eq!(names("-a,-b", &["a", "b", "c"]), ["c"]);
        assert_eq!(names("a*,-nowhere", &["a1", "b"]), ["a1"]);
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
}
