//! A snapshot under way: how far it is, and whether it has ended.

use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::poll::{SOON, pause_since, poll};
use svc_step::progress::{Parts, Progress};
use svc_step::settings::is_of_script;
use svc_step::{Call, Failure, Status, Unit};

use crate::client::{Server, number, passes, path};
use crate::snapshot::{self, Snapshot};

/// How long polls may fail while a snapshot is running: a server that is restarted takes minutes.
const UNANSWERED_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Follow<'a> {
    call: &'a Call,
    server: Server,
    repository: &'a str,
    name: &'a str,
    progress: Progress,
    begun: Instant,
    /// Since when polls have failed.
    unanswered: Option<Instant>,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(call: &'a Call, server: &Server, repository: &'a str, name: &'a str) -> Self {
        let progress = call.progress(&format!("snapshot {name}"), Unit::Bytes);
        Self { call, server: server.interruptible(), repository, name, progress, begun: Instant::now(), unanswered: None }
    }

    pub(crate) fn pause(&self) -> Duration {
        pause_since(self.begun, SOON)
    }

    /// Shows how far it is. The progress decides nothing.
    pub(crate) fn show(&self) {
        if !self.progress.is_shown() {
            return;
        }
        let status = path(&["_snapshot", self.repository, self.name, "_status"]);
        let status = self.server.get(&format!("{status}?filter_path=snapshots.stats,snapshots.shards_stats"));
        if let Some((done, total, shards)) = status.ok().as_ref().and_then(far) {
            self.progress.set(done, total, Some(&shards));
        }
    }

    /// Gets the snapshot; `Ok(None)` also while the server, or what is between, does not answer as one, for up to five minutes.
    pub(crate) fn poll(&mut self) -> Result<Option<Snapshot>, Failure> {
        match snapshot::find(&self.server, self.repository, self.name) {
            Err(failure) if passes(&failure) => {
                let since = *self.unanswered.get_or_insert_with(Instant::now);
                if since.elapsed() > UNANSWERED_TIMEOUT { Err(failure) } else { Ok(None) }
            }
            found => {
                self.unanswered = None;
                found
            }
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.unanswered.is_none()
    }

    /// Waits until a snapshot that is there is finished; one that has gone is 4.
    pub(crate) fn until_finished(&mut self) -> Result<Snapshot, Failure> {
        let (call, repository, name, mut absent) = (self.call, self.repository, self.name, 0);
        let pause = |time| call.pause(time);
        let ended = poll(SOON, Duration::MAX, pause, || {
            Ok(match self.poll()? {
                Some(snapshot) if !snapshot.is_under_way() => Some(Ok(snapshot)),
                // One poll may have been lost.
                None if self.is_answered() && absent > 0 => Some(Err(snapshot::not_found(call, &self.server, repository, name))),
                found => {
                    absent = if found.is_none() && self.is_answered() { 1 } else { 0 };
                    found.iter().for_each(|_| self.show());
                    None
                }
            })
        });
        let ended = ended.map_err(|failure| continues(call, &self.server, failure, repository, name))?;
        ended.unwrap_or_else(|| Err(snapshot::not_found(call, &self.server, repository, name)))
    }
}

/// Adds the command that waits for the snapshot, if only the wait has ended.
pub(crate) fn continues(call: &Call, server: &Server, failure: Failure, repository: &str, name: &str) -> Failure {
    // A script whose snapshot does not end removes it.
    let ended = failure.signal.is_some() || matches!(failure.status, Status::Timeout | Status::Unavailable);
    if !ended || is_of_script() {
        return failure;
    }
    let wait = server.command(call, &["wait", name, "--repository", repository]);
    failure.hint(format!("The snapshot continues by itself: {wait} waits for it and verifies it."))
}

/// Bytes done and in all, and shards, from `_status`; nothing as long as the server does not know how many bytes there are.
fn far(status: &Value) -> Option<(u64, u64, Parts)> {
    let snapshot = status.pointer("/snapshots/0")?;
    let number = |pointer: &str| number(snapshot, pointer);
    let total = number("/stats/incremental/size_in_bytes").filter(|total| *total > 0)?;
    let shards = |name: &str| number(&format!("/shards_stats/{name}")).unwrap_or(0);
    let done = number("/stats/processed/size_in_bytes").unwrap_or(0).min(total);
    Some((done, total, Parts { name: "shards", done: shards("done"), total: shards("total") }))
}
