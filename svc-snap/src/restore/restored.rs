//! What `stage`, or `restore --in-place`, has asked the server for: waited for without them, and judged as they judge it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::Received;
use svc_step::{Call, Failure};

use super::stage;
use crate::client::Server;
use crate::restore::streams::{StreamBack, StreamState};

/// The documents that speak of it.
pub(crate) const SCHEMAS: [&str; 2] = ["svc-snap.stage/1", "svc-snap.restore/1"];

/// What those documents say.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Brought {
    pub cluster_uuid: String,
    pub repository: String,
    pub snapshot: String,
    pub run: String,
    /// Only `restore` says it.
    #[serde(default)]
    in_place: Option<bool>,
    indices: Vec<Item>,
    #[serde(default)]
    streams: Vec<StreamBack>,
}

#[derive(Debug, Clone, Deserialize)]
struct Item {
    index: String,
    /// Only `stage` says it.
    #[serde(default)]
    staged: Option<String>,
    state: String,
    docs_expected: Option<u64>,
}

/// An index that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BroughtIndex {
    /// Its name in the snapshot.
    pub index: String,
    /// The name under which it lies.
    pub name: String,
    /// How many documents it holds, or `null` before it is proven.
    pub docs_count: Option<u64>,
    /// How many documents the backup noted, or `null` where it noted none for sure.
    pub docs_expected: Option<u64>,
}

impl Brought {
    /// Reads it.
    ///
    /// # Errors
    /// Nothing of it is the server's to go on with (2).
    pub(crate) fn read(received: &Received) -> Result<Self, Failure> {
        let brought: Self = received.result()?;
        if brought.in_place == Some(false) {
            return Err(nothing("A restore that is not --in-place ends with its own call.").hint(format!(
                "svc-snap swap --run {0} finishes it, svc-snap swap --run {0} --back takes it back.",
                brought.run
            )));
        }
        if brought.indices().is_empty() && brought.streams().is_empty() {
            return Err(
                nothing("Nothing was asked of the search database, or it was removed again.").hint("Run that step again.")
            );
        }
        Ok(brought)
    }

    /// What the server was asked for.
    pub(crate) fn indices(&self) -> Vec<BroughtIndex> {
        // The note of a staging is written before the first request: what it calls planned may be under way.
        let asked = self.indices.iter().filter(|one| !matches!(one.state.as_str(), "removed" | "untouched"));
        let index = |one: &Item| BroughtIndex {
            index: one.index.clone(),
            name: one.staged.clone().unwrap_or_else(|| one.index.clone()),
            docs_count: None,
            docs_expected: one.docs_expected,
        };
        asked.map(index).collect()
    }

    /// The data streams that the server was asked for, each to be proven; a staging asks for none.
    pub(crate) fn streams(&self) -> Vec<StreamBack> {
        let asked = self.in_place_streams().filter(|one| is_asked_for(one));
        asked.map(|one| StreamBack { state: StreamState::UnderWay, ..one.clone() }).collect()
    }

    /// Data streams that the restore had not come to: nobody but the same restore asks for them.
    pub(crate) fn streams_not_asked_for(&self) -> Vec<&str> {
        self.in_place_streams().filter(|one| !is_asked_for(one)).map(|one| one.stream.as_str()).collect()
    }

    fn in_place_streams(&self) -> impl Iterator<Item = &StreamBack> {
        self.streams.iter().filter(|_| self.in_place == Some(true))
    }
}

fn is_asked_for(stream: &StreamBack) -> bool {
    matches!(stream.state, StreamState::UnderWay | StreamState::Restored)
}

/// Waits until the server has nothing more to restore of them, and counts them.
///
/// # Errors
/// A signal, or the end of the time limit (6); one is not whole or not there, or its count differs (7).
pub(crate) fn prove(call: &Call, server: &Server, indices: &mut [BroughtIndex]) -> Result<(), Failure> {
    let names: Vec<&str> = indices.iter().map(|one| one.name.as_str()).collect();
    stage::follow(call, server, &names)?;
    let brought: Vec<(&str, Option<u64>)> = indices.iter().map(|one| (one.name.as_str(), one.docs_expected)).collect();
    let counts = stage::prove_counts(server, &brought)?;
    indices.iter_mut().zip(counts).for_each(|(one, count)| one.docs_count = Some(count));
    Ok(())
}

fn nothing(message: &str) -> Failure {
    Failure::usage("nothing_to_wait_for", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_removed_or_never_touched_is_not_waited_for() {
        let item = |state: &str| json!({"index": state, "staged": format!("s-{state}"), "state": state, "docs_expected": 3});
        let brought: Brought = serde_json::from_value(json!({"cluster_uuid": "c", "repository": "r", "snapshot": "s",
            "run": "20261120t020003z-a",
            "indices": [item("planned"), item("restoring"), item("proven"), item("removed"), item("untouched")]}))
        .unwrap();
        let names: Vec<String> = brought.indices().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["s-planned", "s-restoring", "s-proven"]);
    }
}
