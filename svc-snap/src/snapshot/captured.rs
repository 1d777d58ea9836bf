//! What `create` captures of the indices that a snapshot does not hold or show, in documents and in a state file of this host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::file::Existing;
use svc_step::lock::{self, make_private_folder};
use svc_step::poll::{SOON, poll};
use svc_step::{Accept, Call, Failure, FromArg, OtherServer, Received, file, run_id};

use crate::client::{Server, members, number, path, retry_while_busy};
use crate::index::clone::is_under_way;
use crate::index::{Index, IndexMetadata, Selected, Stream, counts, get_indices, get_streams, list_of, policy, portions};
use crate::repository::{RepositoryArg, repository_name};
use crate::snapshot::{self, Snapshot, mark};

const SCHEMAS: [&str; 3] = ["svc-snap.create/1", "svc-snap.wait/1", "svc-snap.show/1"];
const LARGEST: u64 = 256 * 1024 * 1024;
/// These stay as they are in the name of a state file; a dot separates its three parts.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// One snapshot, as documents hand it from step to step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    pub cluster_uuid: String,
    pub repository: String,
    pub name: String,
    /// The indices and data streams that were asked for, by name; empty if it is unknown.
    pub wanted: Vec<String>,
    /// The snapshot, as the server shows it; `null` before it is begun.
    pub snapshot: Option<Snapshot>,
    /// The record of each index: as the state file of this host has it, or else the `--from` document.
    pub captured: Vec<IndexRecord>,
    pub captured_streams: Vec<StreamRecord>,
}

/// What was captured of one index when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexRecord {
    pub name: String,
    pub uuid: String,
    /// How many documents it held just before the snapshot; `null` for one that is closed or lacks shards.
    pub docs_count: Option<u64>,
    /// Whether the snapshot holds exactly `docs_count` documents: no shard was written to between the first count and the end.
    pub docs_exact: bool,
    /// How many primary shards it has, and how many bytes they took just before the snapshot; `null` as in `docs_count`.
    pub shards: u64,
    pub size_bytes: Option<u64>,
    /// What it has beside its documents and its mapping.
    pub metadata: IndexMetadata,
}

/// What was captured of one data stream when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRecord {
    pub name: String,
    /// The index template that it needs for its next index; `null` if it has none, or the server does not say.
    pub template: Option<String>,
    /// Its aliases by their names, as the server states them (`filter`, `is_write_index`); OpenSearch knows none.
    pub aliases: BTreeMap<String, Map<String, Value>>,
    pub indices: Vec<IndexRecord>,
}

impl StreamRecord {
    /// How many documents the snapshot holds of it, if that is certain of every backing index.
    pub(crate) fn docs_expected(&self) -> Option<u64> {
        self.indices.iter().map(|one| one.docs_count.filter(|_| one.docs_exact)).sum()
    }
}

/// The `max_seq_no` of an index's primary shards, by shard. Counts alone may agree and be wrong: one document more, another one less.
type Sequence = BTreeMap<String, i64>;

/// The state file of one snapshot, written before the request that takes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Captured {
    /// The run that takes it: a later snapshot may have the same name.
    run_id: String,
    /// The patterns and the scope.
    pub asked_for: String,
    /// Without the snapshot itself.
    pub backup: Backup,
    /// How far each index, backing indices too, had been written to at the first count.
    sequences: BTreeMap<String, Sequence>,
    /// Whether `docs_exact` was found out since the snapshot was finished.
    compared: bool,
}

impl Captured {
    /// Captures the live indices and data streams before a snapshot, and writes the state file.
    pub(crate) fn of(call: &Call, server: &Server, asked_for: String, backup: Backup, live: &Selected) -> Result<Self, Failure> {
        let run_id = call.run_id().to_string();
        let mut captured = Self { run_id, asked_for, backup, sequences: BTreeMap::new(), compared: false };
        captured.backup.captured = captured.records(call, server, &live.indices)?;
        for (name, Stream { template, backing, aliases }) in get_streams(server, &live.streams)? {
            let mut indices = captured.records(call, server, &backing)?;
            indices.sort_by_key(|record| backing.iter().position(|name| *name == record.name));
            captured.backup.captured_streams.push(StreamRecord { name, template, aliases, indices });
        }
        captured.write(call).map(|()| captured)
    }

    fn records(&mut self, call: &Call, server: &Server, names: &[String]) -> Result<Vec<IndexRecord>, Failure> {
        let mut found = get_indices(server, names)?;
        policy::fill(call, server, &mut found)?;
        let is_countable = |(_, index): &(&String, &Index)| index.complete && !index.metadata.closed;
        let countable: Vec<&String> = found.iter().filter(is_countable).map(|(name, _)| name).collect();
        // Before the refresh that makes what was written count: a write since then shows later, counted or not.
        let stats = stats(server, &countable)?;
        self.sequences.extend(stats.iter().filter_map(|(name, index)| Some((name.clone(), sequence(index)?))));
        for names in portions(&countable) {
            server.post(&format!("{}?ignore_unavailable=true", path(&[&list_of(&names), "_refresh"])), None)?;
        }
        let counts = counts(server, &countable)?;
        let records = found.iter().map(|(name, Index { uuid, shards, metadata, .. })| IndexRecord {
            name: name.clone(),
            uuid: uuid.clone(),
            docs_count: counts.get(name).copied(),
            docs_exact: false,
            shards: *shards,
            size_bytes: stats.get(name).and_then(|index| number(index, "/primaries/store/size_in_bytes")),
            metadata: metadata.clone(),
        });
        Ok(records.collect())
    }

    fn write(&self, call: &Call) -> Result<(), Failure> {
        let path = state_file(call, &self.backup.cluster_uuid, &self.backup.repository, &self.backup.name);
        make_private_folder(file::folder_of(&path), lock::SETTING)?;
        file::write_complete(&path, json!(self).to_string().as_bytes(), 0o600, Existing::Replace)
    }

    /// The state file of that very snapshot; one that cannot be read is none.
    pub(crate) fn read(call: &Call, server: &Server, repository: &str, snapshot: &Snapshot) -> Option<Self> {
        let path = state_file(call, &server.cluster_uuid, repository, &snapshot.name);
        let captured: Self = serde_json::from_str(&file::read_text("read the state file", &path, LARGEST).ok()?).ok()?;
        Some(captured).filter(|captured| snapshot.run_id.as_ref() == Some(&captured.run_id))
    }

    /// Finds out, once, which counts of a finished snapshot are exact, and if the step `writes`, puts that into the state file. After a
    /// request that fails the next call tries again.
    pub(crate) fn compare(&mut self, call: &Call, server: &Server, writes: bool) {
        if self.compared {
            return;
        }
        let Backup { name, repository, .. } = &self.backup;
        match self.unwritten(server) {
            Ok(exact) => {
                let streams = self.backup.captured_streams.iter_mut().flat_map(|stream| &mut stream.indices);
                let all = self.backup.captured.iter_mut().chain(streams);
                all.for_each(|record| record.docs_exact = exact.contains(&record.name));
                self.compared = true;
                if let Err(Failure { message: why, .. }) = if writes { self.write(call) } else { Ok(()) } {
                    call.warn("not_checked", format!("What was captured of the indices could not be written: {why}"));
                }
            }
            Err(Failure { message: why, .. }) => {
                let wait = server.command(call, &["wait", name, "--repository", repository]);
                call.warn(
                    "not_checked",
                    format!("Whether the counts of {name} are exact is unknown ({why}); {wait} tries again."),
                );
            }
        }
    }

    /// The indices that are the same, and that no write has come to.
    fn unwritten(&self, server: &Server) -> Result<Vec<String>, Failure> {
        let found = get_indices(server, self.sequences.keys())?;
        let streams = self.backup.captured_streams.iter().flat_map(|stream| &stream.indices);
        let is_same = |record: &&IndexRecord| found.get(&record.name).is_some_and(|index| index.uuid == record.uuid);
        let same = self.backup.captured.iter().chain(streams).filter(is_same).map(|record| &record.name);
        let now = stats(server, same)?.into_iter();
        Ok(now.filter(|(name, now)| self.sequences.get(name) == sequence(now).as_ref()).map(|(name, _)| name).collect())
    }
}

/// Removes the state file of a snapshot that is not there any more. One that cannot be removed does no harm: it names its run.
pub(crate) fn remove_state_file(call: &Call, server: &Server, repository: &str, name: &str) {
    let _ = std::fs::remove_file(state_file(call, &server.cluster_uuid, repository, name));
}

/// Deletes a snapshot, and the state file that this host has of it; a busy server is asked again. What the server shows decides, not the
/// answer: it may be lost, a proxy may give up before a long deletion has ended, and one that is acknowledged may not have happened.
pub(crate) fn delete(call: &Call, server: &Server, repository: &str, name: &str, uuid: &str) -> Result<(), Failure> {
    let time = call.deadline().remaining().unwrap_or(LONGEST_DELETION);
    let send = || {
        let attempt = call.effects().attempt();
        let pending = server.start("DELETE", &path(&["_snapshot", repository, name]), None);
        pending.finish(call, attempt, |_| true).map(drop)
    };
    let mut sent = retry_while_busy(call, time, send);
    let is_lost = sent.as_ref().is_err_and(|failure| failure.code == "outcome_unknown");
    if sent.is_ok() || is_lost {
        // The server may not answer any more, and nothing is left to be finished: a signal ends these requests.
        let server = server.interruptible();
        let has_ended = || Ok((!is_lost || !is_under_way(&server, "cluster:admin/snapshot/delete")).then_some(()));
        poll(SOON, time, |time| call.pause(time), has_ended)?;
        match snapshot::find(&server, repository, name) {
            Ok(Some(left)) if left.uuid == uuid || uuid.is_empty() => {
                let message = format!("The server has acknowledged the removal of the snapshot {name}, and it is still there.");
                sent = sent.and(Err(Failure::failed("not_removed", message).hint("Run the same command again.")));
            }
            Ok(_) => {
                call.effects().happened();
                sent = Ok(());
            }
            Err(why) => sent = sent.and(Err(why)),
        }
    }
    if sent.as_ref().map_or_else(|failure| failure.code == "snapshot_not_found", |()| true) {
        remove_state_file(call, server, repository, name);
    }
    sent
}

/// `$SVC_STATE_DIR/snapshots/<cluster>.<repository>.<name>.json`.
fn state_file(call: &Call, cluster_uuid: &str, repository: &str, name: &str) -> PathBuf {
    let parts = [cluster_uuid, repository, name].map(|part| utf8_percent_encode(part, PLAIN).to_string());
    call.state_dir().join("snapshots").join(format!("{}.json", run_id::fit(&parts.join("."), 200)))
}

/// How long a deletion is waited for without `--timeout`, if the server is busy or its answer was lost.
const LONGEST_DELETION: Duration = Duration::from_secs(600);

/// The parts of the statistics that say how far a shard was written to, and how large an index is.
const STATS: &str = "level=shards&ignore_unavailable=true&expand_wildcards=all&filter_path=\
    indices.*.primaries.store.size_in_bytes,indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no.max_seq_no";

/// The statistics of indices; one that has gone or was closed meanwhile is not in them.
fn stats<T: AsRef<str>>(server: &Server, names: impl IntoIterator<Item = T>) -> Result<BTreeMap<String, Value>, Failure> {
    let mut all = BTreeMap::new();
    for names in portions(names) {
        let mut stats = server.get(&format!("{}?{STATS}", path(&[&list_of(&names), "_stats", "docs,store"])))?;
        let names = names.iter().map(AsRef::as_ref);
        all.extend(names.filter_map(|name| Some((name.to_owned(), stats.get_mut("indices")?.get_mut(name)?.take()))));
    }
    Ok(all)
}

fn sequence(index: &Value) -> Option<Sequence> {
    let shards = index.get("shards")?;
    let is_primary = |copy: &&Value| copy.pointer("/routing/primary") == Some(&Value::Bool(true));
    let sequence = members(shards).filter_map(|(number, copies)| {
        let primary = copies.as_array()?.iter().find(is_primary)?;
        Some((number.clone(), primary.pointer("/seq_no/max_seq_no")?.as_i64()?))
    });
    Some(sequence.collect())
}

#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// The snapshot
    #[arg(value_name = "NAME", value_parser = mark::name, required_unless_present = "from", conflicts_with = "from")]
    pub name: Option<String>,
    #[command(flatten)]
    pub(crate) repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) from: FromArg,
    #[command(flatten)]
    pub(crate) other: OtherServer,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    pub repository: String,
    pub name: String,
    /// The document that came in; `None` for a snapshot that was named.
    pub document: Option<Backup>,
}

impl SourceArgs {
    /// Reads the document, before anything is locked or connected; an invalid one is 2.
    pub(crate) fn read(&self, call: &Call, accept: Accept) -> Result<Source, Failure> {
        let Some(from) = &self.from.from else {
            return Ok(Source::named(&self.repository.repository, self.name.as_deref().unwrap_or_default()));
        };
        let mut source = Source::read(call, from, accept)?;
        if self.other.other_server {
            // Another cluster may know the directory by another name.
            source.repository.clone_from(&self.repository.repository);
        } else {
            self.repository.check_given(&source.repository)?;
        }
        Ok(source)
    }

    /// Connects; a document of another cluster is 3.
    pub(crate) fn connect(&self, call: &Call, source: &Source) -> Result<Server, Failure> {
        let server = self.repository.connect(call)?;
        if let Some(taken) = &source.document {
            self.other.check(&taken.cluster_uuid, &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")?;
        }
        Ok(server)
    }

    /// Reads the document, connects, and gets the snapshot (else 4), which is the document's (else 3).
    pub(crate) fn find(&self, call: &Call, accept: Accept) -> Result<(Source, Server, Snapshot), Failure> {
        let source = self.read(call, accept)?;
        let server = self.connect(call, &source)?;
        let found = source.find(&server)?.ok_or_else(|| snapshot::not_found(call, &server, &source.repository, &source.name))?;
        source.check_uuid(&found).map(|()| (source, server, found))
    }
}

impl Source {
    pub(crate) fn named(repository: &str, name: &str) -> Self {
        Self { repository: repository.to_owned(), name: name.to_owned(), document: None }
    }

    pub(crate) fn of(backup: Backup) -> Self {
        Self { document: Some(backup.clone()), ..Self::named(&backup.repository, &backup.name) }
    }

    pub(crate) fn read(call: &Call, document: &Path, accept: Accept) -> Result<Self, Failure> {
        let backup: Backup = Received::read(call, document, &SCHEMAS, accept)?.result()?;
        // A pattern would be that of several snapshots to the server.
        mark::name(&backup.name).and(repository_name(&backup.repository)).map_err(|why| {
            let message = "The document names no snapshot of a repository.";
            Failure::usage("from_invalid", message).hint("Pass the document as the tool printed it.").cause(why)
        })?;
        Ok(Self::of(backup))
    }

    /// Gets the snapshot; of a document, its repository may be registered under another name by now.
    pub(crate) fn find(&self, server: &Server) -> Result<Option<Snapshot>, Failure> {
        snapshot::find(server, &self.repository, &self.name).map_err(|failure| match (failure.code.as_str(), &self.document) {
            ("repository_not_found", Some(_)) => failure.further_hint(
                "If its directory is registered under another name now, pass --other-server --repository NAME with that one.",
            ),
            _ => failure,
        })
    }

    /// The snapshot as it was found, with what the state file of this host says of it ([`Captured::compare`]), or else the document.
    pub(crate) fn backup(&self, call: &Call, server: &Server, found: Snapshot, writes: bool) -> Backup {
        let mut captured = Captured::read(call, server, &self.repository, &found);
        if let Some(captured) = captured.as_mut().filter(|_| !found.is_under_way()) {
            captured.compare(call, server, writes);
        }
        let known = captured.map(|captured| captured.backup).or_else(|| self.document.clone()).unwrap_or_default();
        Backup {
            cluster_uuid: server.cluster_uuid.clone(),
            repository: self.repository.clone(),
            name: self.name.clone(),
            snapshot: Some(found),
            ..known
        }
    }

    /// Refuses another snapshot that has got the same name since (3).
    pub(crate) fn check_uuid(&self, found: &Snapshot) -> Result<(), Failure> {
        match self.document.as_ref().and_then(|taken| taken.snapshot.as_ref()) {
            Some(taken) if taken.uuid != found.uuid => {
                let Self { name, repository, .. } = self;
                let (uuid, other) = (&found.uuid, &taken.uuid);
                let message = format!("The snapshot {name} in {repository} is another one by now (uuid {uuid}, not {other}).");
                Err(Failure::refused("name_in_use", message).hint("Name the snapshot without --from if this one is meant."))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_come_from_primaries() {
        let copy = |primary: bool, sequence: i64| json!({"routing": {"primary": primary}, "seq_no": {"max_seq_no": sequence}});
        let index = json!({"shards": {"0": [copy(false, 8), copy(true, 9)], "1": [copy(true, -1)]}});
        assert_eq!(sequence(&index), Some(Sequence::from([("0".to_owned(), 9), ("1".to_owned(), -1)])));
    }
}
