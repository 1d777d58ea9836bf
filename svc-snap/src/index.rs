//! What the server shows of indices by their explicit names.

pub(crate) mod act;
pub(crate) mod clone;
pub(crate) mod copies;
pub(crate) mod metadata;
pub(crate) mod policy;
pub(crate) mod select;

pub(crate) use self::act::Act;
pub(crate) use self::metadata::IndexMetadata;
pub(crate) use self::select::{Patterns, Scope, ScopeArg, Selected, SkipReason, Skipped};

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use svc_step::redact::sentence_without_secrets;
use svc_step::{Failure, Status};

use crate::client::{Server, list, members, number, path, text};

/// What the server shows of one index.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Index {
    pub uuid: String,
    /// The `uuid` of its history, which is another one after a restore over the closed index; empty if the server states none.
    pub history: String,
    /// Whether every primary shard is started.
    pub complete: bool,
    pub shards: u64,
    /// When it was created, in milliseconds since 1970; a restored index keeps that date.
    pub created_ms: Option<i64>,
    pub metadata: IndexMetadata,
}

impl Index {
    /// What tells it from every other index, and from itself before a restore.
    pub(crate) fn identity(&self) -> String {
        format!("{}/{}", self.uuid, self.history)
    }

    /// A copy of ours that is not made yet.
    pub(crate) fn of_copy() -> Self {
        Self { complete: true, metadata: IndexMetadata::of_copy(), ..Self::default() }
    }
}

pub(crate) type Found = BTreeMap<String, Index>;
pub(crate) type Counts = BTreeMap<String, u64>;

/// Gets the indices of these names; one that is not there is not in the answer, nor is what an alias of such a name leads to.
pub(crate) fn get_indices<T: AsRef<str>>(server: &Server, names: impl IntoIterator<Item = T>) -> Result<Found, Failure> {
    let mut found = Found::new();
    for names in portions(names) {
        let shown = server.get(&format!("{}?{SHOWN}", path(&[&list_of(&names)])))?;
        let shown: Vec<(&String, &Value, &Map<String, Value>)> = members(&shown)
            .filter(|(shown, _)| names.iter().any(|name| name.as_ref() == *shown))
            .filter_map(|(name, index)| Some((name, index, index.get("settings")?.as_object()?)))
            .collect();
        if shown.is_empty() {
            continue;
        }
        let listed: Vec<&String> = shown.iter().map(|(name, ..)| *name).collect();
        let health = server.get(&format!("{}?{HEALTH}", path(&["_cluster", "health", &list_of(&listed)])))?;
        for (name, shown, settings) in shown {
            let health = health.get("indices").and_then(|indices| indices.get(name));
            found.insert(name.clone(), index(shown, settings, health));
        }
    }
    Ok(found)
}

/// What the server shows of one data stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stream {
    /// The index template that it needs for its next index; `None` if it has none, or the server does not say.
    pub template: Option<String>,
    pub backing: Vec<String>,
    pub aliases: BTreeMap<String, Map<String, Value>>,
}

/// Gets the data streams of these names; one that is not there is not in the answer.
pub(crate) fn get_streams(server: &Server, names: &[String]) -> Result<BTreeMap<String, Stream>, Failure> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let select::Names { backing, .. } = select::names(server)?;
    let mut found = BTreeMap::new();
    for (name, backing) in backing.into_iter().filter(|(name, _)| names.contains(name)) {
        // OpenSearch takes the name for that of an index here, and says that there is none.
        let aliases = server.find(&path(&[&name, "_alias"]))?.unwrap_or_default();
        let aliases = aliases.get(&name).and_then(|stream| stream.get("aliases")).into_iter().flat_map(members);
        let stream = Stream {
            template: template(server, &name)?,
            backing,
            aliases: aliases.filter_map(|(alias, value)| Some((alias.clone(), value.as_object()?.clone()))).collect(),
        };
        found.insert(name, stream);
    }
    Ok(found)
}

/// Of `GET /_data_stream/<name>`; `None` if the server does not serve it.
fn template(server: &Server, name: &str) -> Result<Option<String>, Failure> {
    match server.get(&path(&["_data_stream", name])) {
        Ok(found) => Ok(text(&found, "/data_streams/0/template").map(str::to_owned)),
        Err(failure) if matches!(failure.status, Status::Failed | Status::NotFound | Status::Usage) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Refuses (3) if there are such names, and names all of them.
pub(crate) fn refuse_any<T: AsRef<str>>(code: &str, message: &str, names: &[T], hint: &str) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::refused(code, format!("{message}: {}.", list_of(names).replace(',', ", "))).hint(hint))
}

/// Names as a request's path and the servers' own lists have them: no name of an index has a comma.
pub(crate) fn list_of<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",")
}

/// Those of these names that are there and lack a primary shard.
pub(crate) fn incomplete<'a>(server: &Server, names: &[&'a str]) -> Result<Vec<&'a str>, Failure> {
    let found = get_indices(server, names)?;
    Ok(names.iter().copied().filter(|name| found.get(*name).is_some_and(|index| !index.complete)).collect())
}

/// Of so many shards the server is asked which of its rules forbid them: one rule forbids most of them.
const EXPLAINED: usize = 3;

/// Refuses to wait for copies if the server says that no node may take one of their shards (7), with its reasons.
pub(crate) fn refuse_unplaced(server: &Server, copies: &[&str]) -> Result<(), Failure> {
    let left = incomplete(server, copies)?;
    for names in portions(&left) {
        let state = path(&["_cluster", "state", "routing_table", &list_of(&names)]);
        let status = server.get(&(state + "?filter_path=routing_table.indices.*.shards.*.unassigned_info.allocation_status"))?;
        if status.to_string().contains("deciders_no") {
            return Err(no_place(server, Status::Invalid, "indices_red", &left));
        }
    }
    Ok(())
}

pub(crate) fn no_place<T: AsRef<str>>(server: &Server, status: Status, code: &str, names: &[T]) -> Failure {
    let failure = Failure::new(status, code, format!("No node takes the shards of {}.", list_of(names).replace(',', ", ")))
        .hint("The causes say which setting or disk forbids it: change that, and run the same command again.");
    unassigned(server, names).into_iter().fold(failure, Failure::cause)
}

/// Why primary shards of these indices are not started, as far as the server answers.
pub(crate) fn unassigned<T: AsRef<str>>(server: &Server, names: &[T]) -> Vec<String> {
    let mut why = Vec::new();
    for names in portions(names) {
        let shards = path(&["_cat", "shards", &list_of(&names)]);
        let shown = "?format=json&h=index,shard,prirep,state,unassigned.reason,unassigned.details";
        let Ok(Some(Value::Array(shards))) = server.find(&(shards + shown)) else { continue };
        for shard in &shards {
            let says = |pointer: &str| text(shard, pointer).unwrap_or_default();
            if says("/state") != "STARTED" && says("/prirep") == "p" {
                let (index, number) = (says("/index"), says("/shard"));
                let rules = if why.len() < EXPLAINED { explained(server, index, number) } else { String::new() };
                let reason = format!("{} {} {rules}", says("/unassigned.reason"), innermost(says("/unassigned.details")));
                why.push(format!("{index} shard {number}: {}", sentence_without_secrets(&reason)));
            }
        }
    }
    why
}

/// The rules by which nodes do not take a shard, each once.
fn explained(server: &Server, index: &str, shard: &str) -> String {
    let body = json!({"index": index, "shard": shard.parse::<u64>().unwrap_or(0), "primary": true});
    let answer = server.post("/_cluster/allocation/explain", Some(&body)).unwrap_or_default();
    let deciders = list(&answer, "/node_allocation_decisions").flat_map(|node| list(node, "/deciders"));
    let mut rules: Vec<&str> = deciders.filter_map(|rule| text(rule, "/explanation")).collect();
    rules.dedup();
    rules.join("; ").chars().take(800).collect()
}

/// The innermost of the server's nested reasons, without its stack trace.
fn innermost(details: &str) -> String {
    let reasons = details.split("; nested: ").flat_map(|part| part.split("\nCaused by: "));
    let last = reasons.filter(|part| part.contains("Exception")).last().unwrap_or(details);
    last.lines().next().unwrap_or_default().trim().chars().take(400).collect()
}

/// How many documents an index holds; every shard must answer (7).
fn count(server: &Server, index: &str) -> Result<u64, Failure> {
    let answer = server.get(&path(&[index, "_count"]))?;
    counted(&answer).ok_or_else(|| {
        let message = format!("Not every shard of {index} answered when its documents were counted.");
        let hint = format!("GET /_cat/shards/{index} shows its shards.");
        Failure::invalid("indices_red", message).hint(hint).cause(sentence_without_secrets(&answer.to_string()))
    })
}

/// The count, if every shard has its part in it: one that is nowhere is not counted, and not among the failed either.
fn counted(answer: &Value) -> Option<u64> {
    let shards = |pointer: &str| number(answer, pointer);
    let complete = shards("/_shards/failed") == Some(0) && shards("/_shards/successful") == shards("/_shards/total");
    number(answer, "/count").or(number(answer, "/hits/total")).filter(|_| complete)
}

/// The same of several in a few requests, since what is live may be blocked meanwhile. What is not counted so shows why by itself.
pub(crate) fn counts<T: AsRef<str>>(server: &Server, names: impl IntoIterator<Item = T>) -> Result<Counts, Failure> {
    let (names, mut counts): (Vec<T>, _) = (names.into_iter().collect(), BTreeMap::new());
    for names in names.chunks(TOGETHER) {
        let together = together(server, names)?.into_iter().chain(std::iter::repeat(None));
        for (name, count_of) in names.iter().map(AsRef::as_ref).zip(together) {
            counts.insert(name.to_owned(), count_of.map_or_else(|| count(server, name), Ok)?);
        }
    }
    Ok(counts)
}

/// So many indices are counted by one request.
const TOGETHER: usize = 200;

fn together<T: AsRef<str>>(server: &Server, names: &[T]) -> Result<Vec<Option<u64>>, Failure> {
    let all = json!({"size": 0, "track_total_hits": true});
    let lines: String = names.iter().map(|name| format!("{}\n{all}\n", json!({ "index": name.as_ref() }))).collect();
    // Without its status, one that failed would be missing among the others, and those behind it would be another's.
    let shown = "responses.status,responses.hits.total,responses._shards";
    let request = format!("/_msearch?rest_total_hits_as_int=true&filter_path={shown}");
    match server.post(&request, Some(&Value::String(lines))) {
        Ok(answer) => Ok(list(&answer, "/responses").map(counted).collect()),
        // Servers may forbid requests that name their indices in the body.
        Err(failure) if matches!(failure.status, Status::Failed | Status::Refused) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// An index without its mapping, which may be large.
const SHOWN: &str =
    "flat_settings=true&ignore_unavailable=true&expand_wildcards=all&filter_path=*.settings,*.aliases,*.data_stream";
const HEALTH: &str = "level=indices&timeout=1s&filter_path=indices.*.number_of_shards,indices.*.active_primary_shards";

/// As many bytes of names as one request takes: the servers allow 4 KiB for its first line.
const LINE: usize = 3000;

/// Names in portions that each fit into one request's path.
pub(crate) fn portions<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Vec<Vec<T>> {
    let (mut portions, mut bytes) = (Vec::<Vec<T>>::new(), LINE);
    for name in names {
        // A comma between two names is written as three bytes.
        let more = path(&[name.as_ref()]).len() + 3;
        bytes += more;
        match portions.last_mut().filter(|_| bytes <= LINE) {
            Some(portion) => portion.push(name),
            None => {
                portions.push(vec![name]);
                bytes = more;
            }
        }
    }
    portions
}

fn index(shown: &Value, settings: &Map<String, Value>, health: Option<&Value>) -> Index {
    let text = |name: &str| settings.get(name).and_then(Value::as_str).unwrap_or_default();
    let shards = |pointer: &str| number(health?, pointer);
    let aliases = shown.get("aliases").and_then(Value::as_object);
    // A yellow index may have no primary yet: a restore that has not begun is yellow.
    let complete = shards("/number_of_shards").is_some_and(|all| shards("/active_primary_shards") == Some(all));
    Index {
        uuid: text("index.uuid").to_owned(),
        history: text("index.history.uuid").to_owned(),
        complete,
        shards: text("index.number_of_shards").parse().unwrap_or(0),
        created_ms: text("index.creation_date").parse().ok(),
        metadata: IndexMetadata::read(settings, aliases, shown.get("data_stream").is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn count_without_all_shards_is_none() {
        let shards = |successful: u64, failed: u64| json!({"total": 3, "successful": successful, "skipped": 0, "failed": failed});
        let counted = |successful, failed| super::counted(&json!({"count": 7, "_shards": shards(successful, failed)}));
        assert_eq!((counted(3, 0), counted(2, 0), counted(2, 1)), (Some(7), None, None));
        assert_eq!(super::counted(&Value::Null), None);
    }

    #[test]
    fn innermost_cause_is_found_in_both_error_formats() {
        let nested = "failed shard on node [n]: failed recovery, failure RecoveryFailedException[x]; nested: CorruptIndexException[checksum failed]; ";
        assert_eq!(innermost(nested), "CorruptIndexException[checksum failed];");
        let trace = "failed recovery, failure a.RecoveryFailedException: x\n\tat a.B(C.java:1)\nCaused by: org.CorruptIndexException: verification failed\n\tat d.E";
        assert_eq!(innermost(trace), "org.CorruptIndexException: verification failed");
    }

    #[test]
    fn long_index_names_are_split_over_requests() {
        assert!(portions([""; 0]).is_empty());
        let short = ["docs"; 100];
        assert_eq!(portions(short), [&short[..]]);
        let name = "é".repeat(120);
        let long = [name.as_str(); 9];
        let lengths: Vec<usize> = portions(long).iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 4, 1]);
        let endless = "é".repeat(1000);
        assert_eq!(portions([&endless, "docs"]).len(), 2);
    }
}
