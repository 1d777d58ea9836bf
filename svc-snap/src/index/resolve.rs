//! Which names are meant: index patterns resolved against a list of names, within the scope (procedure, 2.3). What is live
//! ([`crate::index::live`]) and what a snapshot holds ([`crate::index::held`]) are such lists.
//!
//! The servers disagree about patterns on a restore, and all of them answer 404 to the procedure's `*,-.geoip_databases`
//! where the snapshot holds no such index. So the names are found here, and only names are sent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::index::copies;
use crate::index::scope::{Scope, is_security, matches};

/// The patterns of the procedure (2.3).
pub(crate) const DEFAULT: &str = "*,-.geoip_databases";

/// What bears a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An index.
    Index,
    /// A data stream.
    Stream,
    /// A hidden data stream.
    HiddenStream,
    /// An index that belongs to a feature state, which the server takes and restores by other means only.
    Feature,
    /// An index behind a data stream, which is taken and restored as a whole or not at all.
    Behind,
}

impl Kind {
    /// That of a data stream, by those that are hidden on the server.
    pub(crate) fn of_stream(name: &String, hidden: &[String]) -> Self {
        if hidden.contains(name) { Self::HiddenStream } else { Self::Stream }
    }
}

/// Something that is not taken, or not restored.
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
    /// The search database keeps it for itself: its name begins with a dot, or it is a hidden data stream.
    ServersOwn,
    /// The swap that is taken back had not come to it: what was live is live.
    NotSwapped,
}

/// What is meant, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resolved {
    /// Indices, in the order of their names.
    pub indices: Vec<String>,
    /// Data streams, in the order of their names.
    pub streams: Vec<String>,
    /// Everything else.
    pub skipped: Vec<PassedOver>,
}

/// Why the patterns lead to nothing that may be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// Plain names that are not there.
    Missing(Vec<String>),
    /// Plain names that are there and must not be touched by name.
    Refused(Vec<String>),
    /// Nothing is both asked for and within the scope.
    Nothing,
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

    /// Whether they mean it in particular: a `*` at the beginning reaches everything, and so says nothing of it.
    pub(crate) fn mean(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| !wanted.starts_with('*') && matches(wanted, name)) && self.ask_for(name)
    }

    pub(crate) fn plain(&self) -> impl Iterator<Item = &String> {
        self.wanted.iter().filter(|wanted| !wanted.contains('*'))
    }
}

/// Resolves `patterns` against `names`.
///
/// # Errors
/// See [`Unresolved`]; each caller has its own words for it.
pub(crate) fn resolve(patterns: &Patterns, scope: &Scope, names: &BTreeMap<String, Kind>) -> Result<Resolved, Unresolved> {
    let missing: Vec<String> = patterns.plain().filter(|name| !names.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        return Err(Unresolved::Missing(missing));
    }
    let resolved = sort(patterns, scope, names);
    let is_refused = |one: &&PassedOver| patterns.name(&one.name) && one.reason != Reason::NotAskedFor;
    let refused: Vec<String> = resolved.skipped.iter().filter(is_refused).map(|one| one.name.clone()).collect();
    if !refused.is_empty() {
        return Err(Unresolved::Refused(refused));
    }
    if resolved.indices.is_empty() && resolved.streams.is_empty() {
        return Err(Unresolved::Nothing);
    }
    Ok(resolved)
}

/// Which of `names` are meant, and why the others are not. What is live, what a snapshot holds and what a swap takes away are
/// all decided here.
pub(crate) fn sort(patterns: &Patterns, scope: &Scope, names: &BTreeMap<String, Kind>) -> Resolved {
    let mut resolved = Resolved::default();
    for (name, kind) in names {
        match (reason(name, *kind, patterns, scope), kind) {
            (Some(reason), _) => resolved.skipped.push(PassedOver { name: name.clone(), reason }),
            (None, Kind::Stream | Kind::HiddenStream) => resolved.streams.push(name.clone()),
            (None, _) => resolved.indices.push(name.clone()),
        }
    }
    resolved
}

fn reason(name: &str, kind: Kind, patterns: &Patterns, scope: &Scope) -> Option<Reason> {
    if is_security(name) {
        Some(Reason::Security)
    } else if copies::is_own(name) {
        Some(Reason::OwnCopy)
    } else if kind == Kind::Feature {
        Some(Reason::FeatureState)
    } else if kind == Kind::Behind {
        Some(Reason::BehindDataStream)
    } else if !patterns.ask_for(name) {
        Some(Reason::NotAskedFor)
    } else if !scope.contains(name) {
        Some(Reason::OutsideScope)
    } else if (name.starts_with('.') || kind == Kind::HiddenStream) && !scope.means(name) && !patterns.mean(name) {
        Some(Reason::ServersOwn)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_apply_wherever_they_stand_and_however_many_they_are() {
        let names = |patterns: &str, indices: &[&str]| {
            let names = indices.iter().map(|name| ((*name).to_owned(), Kind::Index)).collect();
            resolve(&Patterns::parse(patterns), &"*".parse().unwrap(), &names).unwrap().indices
        };
        assert_eq!(names("*,-a,-b*", &["a", "b1", "b2", "c"]), ["c"]);
        assert_eq!(names("-a,*", &["a", "b"]), ["b"]);
        assert_eq!(names("-a,-b", &["a", "b", "c"]), ["c"]);
        assert_eq!(names("a*,-nowhere", &["a1", "b"]), ["a1"]);
    }
}
