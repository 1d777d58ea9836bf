//! What is live in the cluster within the scope, by name: what a snapshot is asked to hold.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use svc_step::Failure;

use crate::client::Server;
use crate::client::json::{list, text, texts};
use crate::index::resolve::{self, Kind, PassedOver, Patterns, Resolved, Unresolved};
use crate::index::scope::Scope;

/// A name of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub name: String,
    pub closed: bool,
    /// Whether the server keeps it for one of its own features, and takes it with the feature's state only.
    pub system: bool,
}

/// All names of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Names {
    /// Indices, those behind data streams left out.
    pub indices: Vec<Name>,
    /// Data streams.
    pub streams: Vec<String>,
    /// The indices behind each data stream, oldest first.
    pub behind: BTreeMap<String, Vec<String>>,
    /// Aliases, of indices and of data streams.
    pub aliases: BTreeSet<String>,
}

/// The names that are in the scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Live {
    /// Indices, in the order of their names.
    pub indices: Vec<Name>,
    /// Data streams, in the order of their names.
    pub streams: Vec<String>,
    /// Everything else.
    pub skipped: Vec<PassedOver>,
    /// The indices behind each data stream of the cluster.
    behind: BTreeMap<String, Vec<String>>,
}

impl Live {
    /// Whether `index` is one of these, or behind one of these data streams.
    pub(crate) fn holds(&self, index: &str) -> bool {
        let is_behind = |stream: &String| self.behind.get(stream).is_some_and(|behind| behind.iter().any(|one| one == index));
        self.indices.iter().any(|one| one.name == index) || self.streams.iter().any(is_behind)
    }

    /// All names, indices first.
    pub(crate) fn names(&self) -> Vec<String> {
        self.indices.iter().map(|index| index.name.clone()).chain(self.streams.iter().cloned()).collect()
    }
}

/// Asks for all names of the cluster, hidden and closed ones too.
///
/// # Errors
/// The server does not answer, or refuses.
pub(crate) fn names(server: &Server) -> Result<Names, Failure> {
    Ok(read(&server.get("/_resolve/index/*?expand_wildcards=all")?))
}

/// What is live within the scope and asked for.
///
/// # Errors
/// As [`names`]; a plain name is not there, or nothing at all is left (4); a plain name must not be taken (3).
pub(crate) fn live(server: &Server, scope: &Scope, patterns: &Patterns) -> Result<Live, Failure> {
    let (names, hidden) = with_hidden(server)?;
    chosen(names, &hidden, scope, patterns)
}

fn chosen(names: Names, hidden: &[String], scope: &Scope, patterns: &Patterns) -> Result<Live, Failure> {
    let resolved = resolve::resolve(patterns, scope, &kinds(&names, hidden)).map_err(|why| unresolved(why, scope))?;
    Ok(within(names, resolved))
}

/// The same, whether anything is left or not.
///
/// # Errors
/// As [`names`].
pub(crate) fn any(server: &Server, scope: &Scope, patterns: &Patterns) -> Result<Live, Failure> {
    let (names, hidden) = with_hidden(server)?;
    let resolved = resolve::sort(patterns, scope, &kinds(&names, &hidden));
    Ok(within(names, resolved))
}

/// All names, and which of the data streams are hidden.
///
/// # Errors
/// As [`names`].
pub(crate) fn with_hidden(server: &Server) -> Result<(Names, Vec<String>), Failure> {
    let names = names(server)?;
    if names.streams.is_empty() {
        return Ok((names, Vec::new()));
    }
    let visible = read(&server.get("/_resolve/index/*")?).streams;
    let hidden = names.streams.iter().filter(|stream| !visible.contains(stream)).cloned().collect();
    Ok((names, hidden))
}

fn read(answer: &Value) -> Names {
    let name = |value: &Value| text(value, "/name").map(str::to_owned);
    let index = |value: &Value| {
        let is = |word: &str| list(value, "/attributes").any(|one| one == word);
        Some(Name { name: name(value)?, closed: is("closed"), system: is("system") })
    };
    let own = |value: &&Value| value.get("data_stream").is_none_or(Value::is_null);
    let mut indices: Vec<Name> = list(answer, "/indices").filter(own).filter_map(index).collect();
    let mut streams: Vec<String> = list(answer, "/data_streams").filter_map(name).collect();
    indices.sort_by(|one, other| one.name.cmp(&other.name));
    streams.sort();
    let behind = list(answer, "/data_streams").filter(|stream| stream.get("backing_indices").is_some_and(Value::is_array));
    let behind = behind.filter_map(|stream| Some((name(stream)?, texts(stream, "/backing_indices"))));
    Names { indices, streams, behind: behind.collect(), aliases: list(answer, "/aliases").filter_map(name).collect() }
}

fn kinds(names: &Names, hidden: &[String]) -> BTreeMap<String, Kind> {
    let kind = |index: &Name| if index.system { Kind::Feature } else { Kind::Index };
    let mut kinds: BTreeMap<String, Kind> = names.indices.iter().map(|index| (index.name.clone(), kind(index))).collect();
    kinds.extend(names.streams.iter().map(|stream| (stream.clone(), Kind::of_stream(stream, hidden))));
    kinds
}

fn within(names: Names, resolved: Resolved) -> Live {
    Live {
        indices: names.indices.into_iter().filter(|index| resolved.indices.binary_search(&index.name).is_ok()).collect(),
        streams: resolved.streams,
        skipped: resolved.skipped,
        behind: names.behind,
    }
}

fn unresolved(why: Unresolved, scope: &Scope) -> Failure {
    match why {
        Unresolved::Missing(missing) => {
            Failure::not_found("index_not_found", format!("The search database has no index or data stream {}.", missing.join(", ")))
                .hint("GET /_cat/indices?expand_wildcards=all shows which there are; aliases are not names of indices.")
        }
        Unresolved::Refused(refused) => {
            Failure::refused("index_not_in_scope", format!("{} may not be taken by name.", refused.join(", ")))
                .hint("Widen the scope (--scope, SVC_INDICES) if it is the service's; security indices, those of the server's own features and our own copies never are.")
        }
        Unresolved::Nothing => Failure::not_found(
            "nothing_to_take",
            format!("No index or data stream is both asked for and within the scope {scope}."),
        )
        .hint("GET /_cat/indices shows what there is; see --indices and SVC_INDICES."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::index::resolve::Reason;

    #[test]
    fn the_scope_takes_indices_and_streams_and_says_why_it_leaves_others() {
        let answer = json!({"indices": [
                {"name": "b", "attributes": ["closed"]}, {"name": "a", "aliases": ["x"], "attributes": ["hidden", "open"]},
                {"name": ".ds-logs-2026.11.20-000001", "attributes": ["hidden", "open"], "data_stream": "logs"},
                {"name": ".security-7", "attributes": ["open"]}, {"name": ".tasks", "attributes": ["open", "system"]}, {"name": ".own", "attributes": ["open"]},
                {"name": "svc-before-r-a", "attributes": ["open"]}],
            "aliases": [{"name": "x", "indices": ["a"]}],
            "data_streams": [{"name": "logs", "backing_indices": [".ds-logs-2026.11.20-000001"]}, {"name": "other"}, {"name": "history"}]});
        let scope = "*,-other".parse().unwrap();
        let within = |patterns: &str| chosen(read(&answer), &["history".to_owned()], &scope, &Patterns::parse(patterns));
        let live = within("*").unwrap();
        assert_eq!(live.names(), ["a", "b", "logs"]);
        assert!(live.indices[1].closed && !live.indices[0].closed);
        let reasons: Vec<_> = live.skipped.iter().map(|one| (one.name.as_str(), one.reason)).collect();
        assert_eq!(
            reasons,
            [
                (".own", Reason::ServersOwn),
                (".security-7", Reason::Security),
                (".tasks", Reason::FeatureState),
                ("history", Reason::ServersOwn),
                ("other", Reason::OutsideScope),
                ("svc-before-r-a", Reason::OwnCopy)
            ]
        );
        assert_eq!(
            (within("a").unwrap().names(), within(".own,a").unwrap().names()),
            (vec!["a".to_owned()], vec![".own".to_owned(), "a".to_owned()])
        );
        assert!(live.holds(".ds-logs-2026.11.20-000001") && live.holds("a") && !live.holds(".own"));
        for (patterns, code) in [
            ("a,x", "index_not_found"),
            ("other", "index_not_in_scope"),
            (".tasks", "index_not_in_scope"),
            ("x*", "nothing_to_take"),
        ] {
            assert_eq!(within(patterns).unwrap_err().code, code, "{patterns}");
        }
    }
}
