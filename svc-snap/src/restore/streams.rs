//! Data streams, which cannot be cloned and so neither staged nor swapped: they are restored in place, by their own names.
//! What is behind them is proven before, as plain copies beside the live stream.

mod conflicting;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::{Call, Failure, Status};

use self::conflicting::{Whose, in_the_way, whose};
use super::stage;
use crate::client::Server;
use crate::client::path::path;
use crate::index;
use crate::index::count::counts;
use crate::index::shape::in_place_ignored;
use crate::index::stream;
use crate::restore::record::origin::Origin;
use crate::snapshot::captured::StreamRecord;

/// A data stream that is restored in place: removed where it is live, and restored by its own name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamBack {
    /// The data stream.
    pub stream: String,
    /// The repository that it comes from.
    pub repository: String,
    /// The snapshot that it comes from.
    pub snapshot: String,
    /// How things stand.
    pub state: StreamState,
    /// Whether a data stream of that name was live; it is removed, and nothing of it is kept.
    pub was_live: bool,
    /// The `uuid`s of the indices that were behind it, by which it is told from one that a client makes meanwhile.
    #[serde(default)]
    pub live_uuids: Vec<String>,
    /// The indices of the snapshot that are behind it.
    pub indices: Vec<String>,
    /// How many documents it holds, or `null` before it is restored.
    pub docs_count: Option<u64>,
    /// How many documents the backup noted, or `null` where it noted none or writes went on meanwhile.
    pub docs_expected: Option<u64>,
    /// Its aliases as the backup noted them, or `null` without the document of `create`.
    pub aliases: Option<BTreeMap<String, Map<String, Value>>>,
    /// The index template that it needs for its next index, or `null` where nobody noted one.
    pub template: Option<String>,
}

/// How a data stream of a restore stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// What was live is live, or nothing is as nothing was.
    Untouched,
    /// What was live is removed, or is just about to be, and the server was not asked for the backup's yet.
    Absent,
    /// The server was asked for the backup's, or is just about to be, and it is not proven.
    UnderWay,
    /// The backup's is live: whole, with as many documents and the aliases that were noted.
    Restored,
}

impl StreamBack {
    /// One that is to come back.
    pub(crate) fn planned(origin: &Origin, stream: &str, indices: Vec<String>, noted: Option<&StreamRecord>) -> Self {
        Self {
            stream: stream.to_owned(),
            repository: origin.repository.clone(),
            snapshot: origin.snapshot.clone(),
            state: StreamState::Untouched,
            was_live: false,
            live_uuids: Vec::new(),
            indices,
            docs_count: None,
            docs_expected: noted.and_then(StreamRecord::docs_expected),
            aliases: noted.map(|noted| noted.aliases.clone()),
            template: noted.and_then(|noted| noted.template.clone()),
        }
    }

    /// Whether a restore of it was cut: what was live may be gone, and the backup's is not proven.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self.state, StreamState::Absent | StreamState::UnderWay)
    }

    fn removal(&self) -> String {
        path(&["_data_stream", &self.stream])
    }

    /// The body of the procedure (2.3), with the stream's name: what is behind it alone would bring indices and no stream. It is
    /// named beside it, since OpenSearch's security plugin looks for rights on what the snapshot's list of indices has, finds no
    /// stream there, and would refuse the restore when the live stream is gone.
    fn restoration(&self) -> (String, Value) {
        let names = std::iter::once(&self.stream).chain(&self.indices).map(String::as_str).collect::<Vec<_>>().join(",");
        let body = json!({"indices": names, "include_global_state": false, "ignore_unavailable": true,
            "ignore_index_settings": in_place_ignored()});
        (path(&["_snapshot", &self.repository, &self.snapshot, "_restore"]), body)
    }
}

/// The requests that restore them.
pub(crate) fn requests(streams: &[StreamBack]) -> Vec<Action> {
    let requests = streams.iter().filter(|one| one.state != StreamState::Restored).flat_map(|one| {
        let removal = one.was_live.then(|| Action::request("DELETE", one.removal(), None));
        let (path, body) = one.restoration();
        removal.into_iter().chain([Action::request("POST", path, Some(body))])
    });
    requests.collect()
}

/// Says of each whether it is live now.
///
/// # Errors
/// One is live and the server does not serve the removal of data streams (3); the server does not answer.
pub(crate) fn look(server: &Server, streams: &mut [StreamBack]) -> Result<(), Failure> {
    let names: Vec<String> = streams.iter().map(|one| one.stream.clone()).collect();
    let found = stream::look(server, &names)?;
    for one in streams.iter_mut() {
        let live = found.get(&one.stream);
        one.was_live = live.is_some();
        let behind: Vec<&str> = live.iter().flat_map(|live| &live.behind).map(String::as_str).collect();
        one.live_uuids = index::look(server, &behind)?.into_values().map(|index| index.uuid).collect();
    }
    let unserved: Vec<&str> =
        found.iter().filter(|(_, stream)| stream.generation.is_none()).map(|(name, _)| name.as_str()).collect();
    if unserved.is_empty() { Ok(()) } else { Err(not_served(&unserved)) }
}

fn not_served(streams: &[&str]) -> Failure {
    Failure::refused(
        "data_streams_not_served",
        format!("This search database does not serve /_data_stream, so what is live cannot be removed: {}.", streams.join(", ")),
    )
    .hint("Leave them out with --indices '*,-NAME'; its distribution lacks the module of data streams.")
}

/// Tells people what they give up.
pub(crate) fn warn(call: &Call, streams: &[StreamBack]) {
    let given_up: Vec<&str> =
        streams.iter().filter(|one| one.was_live && one.state == StreamState::Untouched).map(|one| one.stream.as_str()).collect();
    if !given_up.is_empty() {
        call.warn(
            "nothing_kept",
            format!("Data streams are restored in place, and nothing is kept of what was live: {}.", given_up.join(", ")),
        );
    }
}

/// Restores those that are not restored yet, one after the other. `note` is called before every request that `streams` must
/// account for when the call is killed.
///
/// # Errors
/// Whatever stopped it; the states say how things stand.
pub(crate) fn restore(
    call: &Call,
    server: &Server,
    streams: &mut [StreamBack],
    note: &mut dyn FnMut(&[StreamBack]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for at in 0..streams.len() {
        ask(call, server, streams, at, note)?;
        if let Some(one) = streams.get_mut(at) {
            prove(call, server, one)?;
        }
        note(streams)?;
    }
    Ok(())
}

fn ask(
    call: &Call,
    server: &Server,
    streams: &mut [StreamBack],
    at: usize,
    note: &mut dyn FnMut(&[StreamBack]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(one) = streams.get(at).filter(|one| one.state != StreamState::Restored) else { return Ok(()) };
    call.check()?;
    if let Some(live) = stream::look(server, std::slice::from_ref(&one.stream))?.remove(&one.stream) {
        let (was, removal) = (one.state, one.removal());
        match whose(server, one, &live)? {
            // Asked for by an earlier call that was cut.
            Whose::Backups => return Ok(()),
            Whose::Clients => return Err(in_the_way(&one.stream)),
            Whose::Former => {}
        }
        set(streams, at, StreamState::Absent);
        note(streams)?;
        if let Err(failure) = server.change(call, "DELETE", &removal, None) {
            put_back(streams, at, was, &failure, note);
            return Err(failure);
        }
    }
    let was = streams.get(at).map_or(StreamState::Untouched, |one| one.state);
    set(streams, at, StreamState::UnderWay);
    note(streams)?;
    let Some((path, body)) = streams.get(at).map(StreamBack::restoration) else { return Ok(()) };
    if let Err(failure) = server.change(call, "POST", &path, Some(&body)) {
        // A client's write may have made a new stream of that name just now; then the same command says so.
        put_back(streams, at, was, &failure, note);
        return Err(failure);
    }
    Ok(())
}

/// A request that the server refused has altered nothing; of one whose answer was lost nobody knows.
fn put_back(
    streams: &mut [StreamBack],
    at: usize,
    was: StreamState,
    failure: &Failure,
    note: &mut dyn FnMut(&[StreamBack]) -> Result<(), Failure>,
) {
    if failure.status != Status::Timeout {
        set(streams, at, was);
        let _ = note(streams);
    }
}

fn set(streams: &mut [StreamBack], at: usize, state: StreamState) {
    if let Some(one) = streams.get_mut(at) {
        one.state = state;
    }
}

/// As [`prove`], of one that an earlier call has asked for: what is live may be a client's.
///
/// # Errors
/// As [`prove`]; a client made a new one of that name meanwhile (3).
pub(crate) fn prove_asked_for(call: &Call, server: &Server, one: &mut StreamBack) -> Result<(), Failure> {
    let live = stream::look(server, std::slice::from_ref(&one.stream))?;
    if let Some(live) = live.get(&one.stream).filter(|_| one.state == StreamState::UnderWay)
        && whose(server, one, live)? == Whose::Clients
    {
        return Err(in_the_way(&one.stream));
    }
    prove(call, server, one)
}

/// The stream itself is there, with what is behind it whole, the documents and the aliases that were noted.
///
/// # Errors
/// A signal, or the end of the time limit (6); it is not there or not whole, or holds something else (7).
fn prove(call: &Call, server: &Server, one: &mut StreamBack) -> Result<(), Failure> {
    if one.state == StreamState::Restored {
        return Ok(());
    }
    let names: Vec<&str> = one.indices.iter().map(String::as_str).collect();
    stage::follow(call, server, &names)?;
    let found = stream::look(server, std::slice::from_ref(&one.stream))?;
    let Some(stream) = found.get(&one.stream) else {
        return Err(Failure::invalid(
            "stream_not_there",
            format!("The data stream {} is not there after its restore.", one.stream),
        )
        .hint("GET /_data_stream shows which there are; restore it by its own name, never by those of the indices behind it."));
    };
    let sum = counts(server, &stream.behind.iter().map(String::as_str).collect::<Vec<_>>())?.into_values().sum();
    stage::same_as_noted(&one.stream, sum, one.docs_expected)?;
    if let Some(aliases) = one.aliases.as_ref().filter(|aliases| **aliases != stream.aliases) {
        let differing =
            aliases.keys().chain(stream.aliases.keys()).filter(|name| aliases.get(*name) != stream.aliases.get(*name));
        let differing: std::collections::BTreeSet<&str> = differing.map(String::as_str).collect();
        call.review(
            "stream_aliases_differ",
            format!(
                "The data stream {} has other aliases than the backup noted: {}.",
                one.stream,
                differing.into_iter().collect::<Vec<_>>().join(", ")
            ),
        );
    }
    if one.template.is_some() && stream.template.is_none() {
        call.review(
            "stream_template_missing",
            format!(
                "The data stream {} needs an index template for its next index ({}), and the search database has none that fits.",
                one.stream,
                one.template.as_deref().unwrap_or_default()
            ),
        );
    }
    one.docs_count = Some(sum);
    one.state = StreamState::Restored;
    Ok(())
}
