//! Whose data stream it is that is live under the name of one that is to be restored: a client's write makes a new one at any moment
//! at which there is none. It is neither taken for the restored one nor given up.

use std::collections::BTreeMap;

use serde_json::Value;
use svc_step::Failure;

use super::{StreamBack, StreamState};
use crate::client::Server;
use crate::client::json::{members, text};
use crate::client::path::path;
use crate::index::stream::Stream;
use crate::index::{Index, look, portions};
use crate::snapshot;

/// Whose a live data stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The one that was live when the restore was planned.
    Former,
    /// The backup's.
    Backups,
    /// A client's, made since.
    Clients,
}

/// Whose the live `stream` is.
///
/// # Errors
/// The server does not answer, or refuses; the snapshot is not there any more (4).
pub(crate) fn whose(server: &Server, one: &StreamBack, stream: &Stream) -> Result<Whose, Failure> {
    let names: Vec<&str> = stream.behind.iter().map(String::as_str).collect();
    let behind = look(server, &names)?;
    if is_former(one, &behind) {
        return Ok(Whose::Former);
    }
    if one.state != StreamState::UnderWay || !one.indices.iter().all(|index| behind.contains_key(index)) {
        return Ok(Whose::Clients);
    }
    let taken = snapshot::get(server, &one.repository, &one.snapshot)?.started.map(|moment| moment.as_millisecond());
    Ok(if is_of_snapshot(&one.indices, &created(server, &names)?, taken) { Whose::Backups } else { Whose::Clients })
}

/// Whether the indices behind a live stream are those of the one that was live. It may have rolled over since, and its oldest indices
/// may be gone. Documents of earlier versions do not say what was live.
fn is_former(one: &StreamBack, behind: &BTreeMap<String, Index>) -> bool {
    let unsaid = one.was_live && one.live_uuids.is_empty() && one.state == StreamState::Untouched;
    unsaid || behind.values().any(|index| one.live_uuids.contains(&index.uuid))
}

/// The clock by which a server notes when a snapshot was begun stands still for 200 ms at a time, and that of an index may not: an index
/// of the moment before seems so much younger. A client's is younger by all the time that the snapshot and its restore take.
const CLOCK_MS: i64 = 250;

/// Whether indices of these names came from a snapshot that was begun at `taken`: an index keeps the date of its creation when it is
/// restored, while one that a client made in the place of a removed one is younger, by whatever name.
fn is_of_snapshot(indices: &[String], created: &BTreeMap<String, i64>, taken: Option<i64>) -> bool {
    let is_older = |index: &String| created.get(index).zip(taken).is_some_and(|(created, taken)| *created <= taken + CLOCK_MS);
    !indices.is_empty() && indices.iter().all(is_older)
}

/// When these indices were created, in milliseconds since 1970.
fn created(server: &Server, names: &[&str]) -> Result<BTreeMap<String, i64>, Failure> {
    let mut all = BTreeMap::new();
    for names in portions(names) {
        let shown: Value =
            server.get(&format!("{}?flat_settings=true", path(&[&names.join(","), "_settings", "index.creation_date"])))?;
        let dates = members(&shown).filter_map(|(name, index)| {
            let date = text(index.get("settings")?, "/index.creation_date")?;
            Some((name.clone(), date.parse().ok()?))
        });
        all.extend(dates);
    }
    Ok(all)
}

/// The refusal to give up what a client wrote. It cannot be kept as an index is: the server neither blocks nor clones the index to which
/// a data stream writes.
pub(super) fn in_the_way(name: &str) -> Failure {
    Failure::refused(
        "stray_stream",
        format!("While the data stream {name} was not there, a client's write made a new one of that name; it is not given up."),
    )
    .hint(format!(
        "Stop the service, copy what the stream holds to an index (POST /_reindex) if it is needed, and remove it (DELETE /_data_stream/{name})."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_created_after_the_snapshot_is_not_of_it() {
        let names = ["a".to_owned(), "b".to_owned()];
        let created = |a: i64, b: i64| BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        assert!(is_of_snapshot(&names, &created(10, 20), Some(20)));
        assert!(is_of_snapshot(&names, &created(10, 20 + CLOCK_MS), Some(20)));
        assert!(!is_of_snapshot(&names, &created(10, 21 + CLOCK_MS), Some(20)));
        assert!(!is_of_snapshot(&names, &created(10, 20), None));
        assert!(!is_of_snapshot(&names, &BTreeMap::new(), Some(20)));
        assert!(!is_of_snapshot(&[], &created(10, 20), Some(20)));
    }
}
