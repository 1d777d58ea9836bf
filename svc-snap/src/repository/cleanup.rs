//! The server's own cleanup of a repository, which removes stale data.

use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::{Call, Failure};

use crate::server::json::number;
use crate::server::path::path;
use crate::server::{Server, left_at_work};

/// How long a server may say that it is busy, and the pause before it is asked again.
const BUSY: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);

/// What a cleanup removed, as far as the server says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removed {
    pub bytes: Option<u64>,
    pub blobs: Option<u64>,
}

impl Removed {
    fn read(answer: &Value) -> Self {
        Self { bytes: number(answer, "/results/deleted_bytes"), blobs: number(answer, "/results/deleted_blobs") }
    }
}

/// The path of the request.
pub(crate) fn request(repository: &str) -> String {
    path(&["_snapshot", repository, "_cleanup"])
}

/// Cleans up, with some patience: a server may still be at the end of another cleanup or removal just after it has answered
/// that one.
///
/// # Errors
/// As [`Server::change_slowly`].
pub(crate) fn clean(call: &Call, server: &Server, repository: &str) -> Result<Removed, Failure> {
    let until = Instant::now() + BUSY;
    loop {
        let ended = server.change_slowly(call, "POST", &request(repository), |answer| Removed::read(answer).blobs != Some(0));
        match ended {
            Err(failure) if failure.code == "search_busy" && Instant::now() < until => call.pause(PAUSE)?,
            Ok(answer) => return Ok(Removed::read(&answer)),
            Err(failure) => return Err(left_at_work(failure, "the cleanup of the repository")),
        }
    }
}
