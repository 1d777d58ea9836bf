//! Which indices and data streams are meant: the scope (`SVC_INDICES`), and patterns (procedure, 2.3). Only names are sent: the servers
//! disagree about patterns, and answer 404 to the procedure's `*,-.geoip_databases` if the snapshot holds no such index.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::Failure;

use crate::client::{Server, list, text, texts};
use crate::index::{copies, refuse_any};

/// The patterns of the procedure (2.3).
pub(crate) const DEFAULT: &str = "*,-.geoip_databases";

/// The option that leaves these names out too, for hints.
pub(crate) fn without(patterns: &str, names: &[String]) -> String {
    format!("--indices '{patterns},-{}'", names.join(",-"))
}

#[derive(Debug, Clone, Args)]
pub struct ScopeArg {
    #[arg(long, value_name = "PATTERNS", env = "SVC_INDICES", default_value = "*")]
    pub scope: Scope,
}

/// Patterns for the service's indices and data streams. Nothing else is ever closed, deleted, replaced or backed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    text: String,
    patterns: Patterns,
}

impl Scope {
    /// Whether an index or a data stream of that name is the service's. Security indices and our own copies never are.
    pub(crate) fn contains(&self, name: &str) -> bool {
        !is_security(name) && !copies::is_own(name) && self.patterns.ask_for(name)
    }

    /// Whether an index of that name may be the service's, as far as its name says: a backing index of its data streams too.
    pub(crate) fn may_hold(&self, index: &str) -> bool {
        let is = |name: &str| self.contains(name) && (!name.starts_with('.') || self.means(name));
        match [".ds-", ".fs-"].iter().find_map(|prefix| index.strip_prefix(prefix)) {
            Some(backing) => backing.match_indices('-').filter_map(|(at, _)| backing.get(..at)).any(is),
            None => is(index),
        }
    }

    /// Whether it means that name in particular, even one that the server would keep for itself.
    fn means(&self, name: &str) -> bool {
        self.patterns.mean(name)
    }

    /// Whether the cluster is the service's alone, as the default says. With any other scope no cluster-wide setting is changed.
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

/// Patterns, comma separated: names, `*` for any text, and exclusions with a leading `-`, wherever they stand; alone, of everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patterns {
    wanted: Vec<String>,
    excluded: Vec<String>,
}

impl Patterns {
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

    pub(crate) fn ask_for(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        any(&self.wanted) && !any(&self.excluded)
    }

    /// Whether they mean it in particular: a `*` at the beginning matches everything, and so says nothing of it.
    fn mean(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| !wanted.starts_with('*') && matches(wanted, name)) && self.ask_for(name)
    }

    fn plain(&self) -> impl Iterator<Item = &String> {
        self.wanted.iter().filter(|wanted| !wanted.contains('*'))
    }
}

fn is_security(name: &str) -> bool {
    name == ".opendistro_security" || name.starts_with(".security") || name.starts_with(".opensearch-security")
}

/// Whether `name` matches `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    while let Some((middle, after)) = rest.split_once('*') {
        let Some(at) = left.find(middle) else { return false };
        left = left.get(at + middle.len()..).unwrap_or_default();
        rest = after;
    }
    left.ends_with(rest)
}

/// Something that is not taken, or not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    pub name: String,
    pub reason: SkipReason,
}

/// Why something is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The patterns do not ask for it.
    NotAskedFor,
    /// It is outside the scope (`SVC_INDICES`).
    OutsideScope,
    /// It belongs to the server's own security.
    Security,
    /// It is a copy that these tools made.
    OwnCopy,
    /// It belongs to a feature state of the server.
    FeatureState,
    /// It is a backing index of a data stream, which is restored as a whole or not at all.
    BackingIndex,
    /// It is a data stream, which cannot be swapped.
    DataStream,
    /// The server keeps it for itself: its name begins with a dot, or it is a hidden data stream.
    ServersOwn,
    /// The swap that is taken back had not come to it: what was live is live.
    NotSwapped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Index,
    Stream,
    HiddenStream,
    /// Belongs to a feature state, which the server takes and restores by other means only.
    Feature,
    Backing,
}

/// What is meant, and what is not, in the order of the names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selected {
    pub indices: Vec<String>,
    pub streams: Vec<String>,
    pub skipped: Vec<Skipped>,
    /// The backing indices of each data stream of the cluster; empty of a snapshot.
    backing: BTreeMap<String, Vec<String>>,
}

impl Selected {
    /// Whether `index` is one of these, or a backing index of one of these data streams.
    pub(crate) fn holds(&self, index: &str) -> bool {
        let is_backing = |stream: &String| self.backing.get(stream).is_some_and(|all| all.iter().any(|one| one == index));
        self.indices.iter().any(|one| one == index) || self.streams.iter().any(is_backing)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.indices.iter().chain(&self.streams).cloned().collect()
    }
}

fn reason(name: &str, kind: Entry, patterns: &Patterns, scope: &Scope) -> Option<SkipReason> {
    if is_security(name) {
        Some(SkipReason::Security)
    } else if copies::is_own(name) {
        Some(SkipReason::OwnCopy)
    } else if kind == Entry::Feature {
        Some(SkipReason::FeatureState)
    } else if kind == Entry::Backing {
        Some(SkipReason::BackingIndex)
    } else if !patterns.ask_for(name) {
        Some(SkipReason::NotAskedFor)
    } else if !scope.contains(name) {
        Some(SkipReason::OutsideScope)
    } else if (name.starts_with('.') || kind == Entry::HiddenStream) && !scope.means(name) && !patterns.mean(name) {
        Some(SkipReason::ServersOwn)
    } else {
        None
    }
}

fn select(patterns: &Patterns, scope: &Scope, names: &BTreeMap<String, Entry>) -> Selected {
    let mut selected = Selected::default();
    for (name, kind) in names {
        match (reason(name, *kind, patterns, scope), kind) {
            (Some(reason), _) => selected.skipped.push(Skipped { name: name.clone(), reason }),
            (None, Entry::Stream | Entry::HiddenStream) => selected.streams.push(name.clone()),
            (None, _) => selected.indices.push(name.clone()),
        }
    }
    selected
}

/// The same. Errors: A plain name is not there, or nothing at all is left (4); a plain name must not be taken (3).
fn select_some(patterns: &Patterns, scope: &Scope, names: &BTreeMap<String, Entry>, whose: &str) -> Result<Selected, Failure> {
    let not_found = |message: String| {
        Failure::not_found("data_not_found", message)
            .hint("GET /_cat/indices?expand_wildcards=all shows what the cluster holds, svc-snap show what a snapshot does; aliases are not names of indices. See --indices and SVC_INDICES.")
    };
    let missing: Vec<&str> = patterns.plain().filter(|name| !names.contains_key(*name)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(not_found(format!("The {whose} has no index or data stream {}.", missing.join(", "))));
    }
    let selected = select(patterns, scope, names);
    let is_refused = |one: &&Skipped| patterns.plain().any(|name| *name == one.name) && one.reason != SkipReason::NotAskedFor;
    let refused: Vec<&str> = selected.skipped.iter().filter(is_refused).map(|one| one.name.as_str()).collect();
    let hint = "Widen the scope (--scope, SVC_INDICES) if they are the service's; security indices, those of the server's own features, backing indices of data streams and our own copies never are.";
    refuse_any("options_invalid", "These may not be taken or restored by name", &refused, hint)?;
    if selected.indices.is_empty() && selected.streams.is_empty() {
        return Err(not_found(format!("Nothing that the {whose} holds is both asked for and within the scope {scope}.")));
    }
    Ok(selected)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Names {
    /// Without backing indices.
    pub indices: Vec<String>,
    pub streams: Vec<String>,
    /// The backing indices of each data stream, oldest first.
    pub backing: BTreeMap<String, Vec<String>>,
    /// Aliases, each with the indices or backing indices that have it.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Indices that the server keeps for one of its own features.
    features: BTreeSet<String>,
    /// Those of the data streams that are hidden; only of [`with_hidden`].
    pub hidden: Vec<String>,
}

impl Names {
    fn read(answer: &Value) -> Self {
        let name = |value: &Value| text(value, "/name").map(str::to_owned);
        let own = |value: &&Value| value.get("data_stream").is_none_or(Value::is_null);
        let is_system = |value: &&Value| list(value, "/attributes").any(|attribute| attribute == "system");
        let mut indices: Vec<String> = list(answer, "/indices").filter(own).filter_map(name).collect();
        let mut streams: Vec<String> = list(answer, "/data_streams").filter_map(name).collect();
        indices.sort();
        streams.sort();
        let backing = list(answer, "/data_streams").filter(|one| one.get("backing_indices").is_some_and(Value::is_array));
        Self {
            backing: backing.filter_map(|stream| Some((name(stream)?, texts(stream, "/backing_indices")))).collect(),
            aliases: list(answer, "/aliases").filter_map(|one| Some((name(one)?, texts(one, "/indices")))).collect(),
            features: list(answer, "/indices").filter(is_system).filter_map(name).collect(),
            indices,
            streams,
            hidden: Vec::new(),
        }
    }

    fn kinds(&self) -> BTreeMap<String, Entry> {
        let kind = |index: &String| if self.features.contains(index) { Entry::Feature } else { Entry::Index };
        let indices = self.indices.iter().map(|index| (index.clone(), kind(index)));
        indices.chain(stream_kinds(&self.streams, &self.hidden)).collect()
    }
}

fn stream_kinds(streams: &[String], hidden: &[String]) -> impl Iterator<Item = (String, Entry)> {
    let kind = |stream: &String| if hidden.contains(stream) { Entry::HiddenStream } else { Entry::Stream };
    streams.iter().map(move |stream| (stream.clone(), kind(stream)))
}

/// Gets all names of the cluster, hidden and closed ones too.
pub(crate) fn names(server: &Server) -> Result<Names, Failure> {
    Ok(Names::read(&server.get("/_resolve/index/*?expand_wildcards=all")?))
}

/// The same, and which of the data streams are hidden.
pub(crate) fn with_hidden(server: &Server) -> Result<Names, Failure> {
    let mut names = names(server)?;
    if !names.streams.is_empty() {
        let visible = Names::read(&server.get("/_resolve/index/*")?).streams;
        names.hidden = names.streams.iter().filter(|stream| !visible.contains(stream)).cloned().collect();
    }
    Ok(names)
}

/// What is live within the scope and asked for.
pub(crate) fn live(server: &Server, scope: &Scope, patterns: &Patterns) -> Result<Selected, Failure> {
    live_of(with_hidden(server)?, scope, patterns)
}

fn live_of(names: Names, scope: &Scope, patterns: &Patterns) -> Result<Selected, Failure> {
    let selected = select_some(patterns, scope, &names.kinds(), "cluster")?;
    Ok(Selected { backing: names.backing, ..selected })
}

/// The same without the backing indices of data streams, whether anything is left or not.
pub(crate) fn any_live(server: &Server, scope: &Scope, patterns: &Patterns) -> Result<Selected, Failure> {
    Ok(select(patterns, scope, &with_hidden(server)?.kinds()))
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Contents<'a> {
    /// Its indices, with the backing indices of its data streams.
    pub indices: &'a [String],
    pub streams: &'a [String],
    /// Data streams that are hidden on the server: no snapshot says so.
    pub hidden: &'a [String],
    pub features: &'a [String],
    /// Indices that were captured as backing indices; the names tell the others.
    pub backing: &'a [String],
}

/// Resolves `patterns` against what the snapshot holds.
pub(crate) fn of_snapshot(patterns: &Patterns, contents: Contents<'_>, scope: &Scope) -> Result<Selected, Failure> {
    let kind = |name: &String| match name {
        name if contents.features.contains(name) => Entry::Feature,
        name if contents.backing.contains(name) || stream_of(name, contents.streams).is_some() => Entry::Backing,
        _ => Entry::Index,
    };
    let indices = contents.indices.iter().map(|name| (name.clone(), kind(name)));
    let names = indices.chain(stream_kinds(contents.streams, contents.hidden)).collect();
    select_some(patterns, scope, &names, "snapshot")
}

/// The data stream of a backing index (`.ds-<stream>-…`, `.fs-<stream>-…`), the one with the longest name that fits.
pub(crate) fn stream_of<'a>(index: &str, streams: &'a [String]) -> Option<&'a String> {
    let rest = [".ds-", ".fs-"].iter().find_map(|prefix| index.strip_prefix(prefix))?;
    let is_its = |stream: &&String| rest.strip_prefix(stream.as_str()).is_some_and(|rest| rest.starts_with('-'));
    streams.iter().filter(is_its).max_by_key(|stream| stream.len())
}

#[cfg(test)]
mod tests;
