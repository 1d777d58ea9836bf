//! The server's own cleanup of a repository, which removes stale data.

use serde_json::Value;
use svc_step::{Call, Failure};

use crate::server::busy::{MOMENT, is_busy, patiently};
use crate::server::json::number;
use crate::server::path::path;
use crate::server::{Server, left_at_work};

/// What a cleanup removed, as far as the server says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removed {
    pub bytes: Option<u64>,
    pub blobs: Option<u64>,
}

/// The path of the request.
pub(crate) fn request(repository: &str) -> String {
    path(&["_snapshot", repository, "_cleanup"])
}

/// Cleans up; a server that is busy is asked again for a moment.
pub(crate) fn clean(call: &Call, server: &Server, repository: &str) -> Result<Removed, Failure> {
    let blobs = |answer: &Value| number(answer, "/results/deleted_blobs");
    let clean = || server.change_slowly(call, "POST", &request(repository), |answer| blobs(answer) != Some(0));
    let answer =
        patiently(call, MOMENT, is_busy, clean).map_err(|failure| left_at_work(failure, "the cleanup of the repository"))?;
    Ok(Removed { bytes: number(&answer, "/results/deleted_bytes"), blobs: blobs(&answer) })
}
