//! What was noted of a snapshot, kept in the state folder before the request that takes it, so that a call that goes on with it
//! (the same one again, `wait`, `show`) can say what the first one would have said.

use std::path::PathBuf;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_step::file::{self, Existing};
use svc_step::lock::make_private_folder;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, run_id};

use crate::server::Server;
use crate::snapshot::Snapshot;
use crate::snapshot::mark;
use crate::snapshot::noted::Notes;

/// A file of notes is not larger.
const LARGEST: u64 = 256 * 1024 * 1024;
/// What stands in a file's name as it is; a dot parts the three names.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// What is kept of one snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Of which snapshot: its cluster's `cluster_uuid`, its repository and its name.
    pub cluster_uuid: String,
    pub repository: String,
    pub name: String,
    /// The mark of the run that takes it: a later snapshot may have the same name.
    pub mark: Value,
    /// What was asked for, by name.
    pub wanted: Vec<String>,
    /// What was noted of its indices.
    pub notes: Notes,
}

impl Kept {
    /// Writes it, durably.
    ///
    /// # Errors
    /// The state folder cannot be used (3), or the disk did not take it (1).
    pub(crate) fn write(&self, call: &Call) -> Result<(), Failure> {
        let path = path(call, &self.cluster_uuid, &self.repository, &self.name);
        make_private_folder(file::folder_of(&path))?;
        file::write_whole(&path, serde_json::json!(self).to_string().as_bytes(), 0o600, Existing::Replace)
    }

    /// What is kept of that very snapshot; one that cannot be read is none.
    pub(crate) fn read(call: &Call, server: &Server, repository: &str, snapshot: &Snapshot) -> Option<Self> {
        let path = path(call, &server.cluster_uuid, repository, &snapshot.name);
        let text = file::read_text("read the notes", &path, LARGEST).ok()?;
        let kept: Self = serde_json::from_str(&text).ok()?;
        let is_its = kept.cluster_uuid == server.cluster_uuid && kept.repository == repository && kept.name == snapshot.name;
        (is_its && mark::is_same(&kept.mark, snapshot)).then_some(kept)
    }

    /// Looks again at the indices of a snapshot that is finished, and keeps what that showed. The snapshot is no worse for a
    /// look that failed: that is a warning, and the next call looks again.
    pub(crate) fn settle(&mut self, call: &Call, server: &Server) {
        match self.notes.settle(server) {
            Ok(false) => {}
            Ok(true) => {
                if let Err(failure) = self.write(call) {
                    let why = failure.message;
                    call.warn("not_noted", format!("What this document says of the indices could not be kept: {why}"));
                }
            }
            Err(failure) => call.warn(
                "counts_not_proven",
                format!(
                    "Whether the counts of {0} are exact could not be looked up ({1}); svc-snap wait {0} --repository {2} looks again.",
                    self.name, failure.message, self.repository
                ),
            ),
        }
    }
}

/// What is kept of the snapshots that a run has asked for, on whatever cluster; one that cannot be read is passed over.
pub(crate) fn of_run(call: &Call, run: &RunId) -> Vec<Kept> {
    let files = std::fs::read_dir(call.state_dir().join("snapshots")).into_iter().flatten().flatten();
    let kept = files.filter_map(|file| {
        let text = file::read_text("read the notes", &file.path(), LARGEST).ok()?;
        serde_json::from_str::<Kept>(&text).ok()
    });
    kept.filter(|kept| kept.mark.get("run_id").and_then(Value::as_str) == Some(run.as_str())).collect()
}

/// Forgets a snapshot that is not there any more. Nobody misses what cannot be removed: it is held against the mark.
pub(crate) fn forget(call: &Call, server: &Server, repository: &str, name: &str) {
    let _ = std::fs::remove_file(path(call, &server.cluster_uuid, repository, name));
}

/// `$SVC_STATE_DIR/snapshots/<cluster>.<repository>.<name>.json`.
fn path(call: &Call, cluster_uuid: &str, repository: &str, name: &str) -> PathBuf {
    let parts = [cluster_uuid, repository, name].map(|part| utf8_percent_encode(part, PLAIN).to_string());
    call.state_dir().join("snapshots").join(format!("{}.json", run_id::fit(&parts.join("."), 200)))
}
