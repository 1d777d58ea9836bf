//! A snapshot under way: how far it is, and whether it has ended.

use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::progress::{Parts, Progress, Unit};
use svc_step::{Call, Failure, Status};

use crate::client::Server;
use crate::client::json;
use crate::client::path::path;
use crate::snapshot::{self, Snapshot};

/// The first pause between two polls; it grows to the last.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(2);
/// How long polls may fail while a snapshot is running: a server that is restarted takes minutes.
const SILENCE: Duration = Duration::from_secs(300);

/// One snapshot that is polled.
pub(crate) struct Follow<'a> {
    call: &'a Call,
    server: Server,
    repository: &'a str,
    name: &'a str,
    progress: Progress,
    pause: Duration,
    /// Since when polls have failed.
    silent: Option<Instant>,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(call: &'a Call, server: &Server, repository: &'a str, name: &'a str) -> Self {
        let progress = call.progress(&format!("snapshot {name}"), Unit::Bytes);
        Self { call, server: server.for_looks(), repository, name, progress, pause: FIRST, silent: None }
    }

    /// The pause before the next poll: short at first.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 3 / 2).min(LAST);
        pause
    }

    /// Shows how far it is. The progress decides nothing.
    pub(crate) fn show(&self) {
        if !self.progress.is_shown() {
            return;
        }
        let status = format!(
            "{}?filter_path=snapshots.stats,snapshots.shards_stats",
            path(&["_snapshot", self.repository, self.name, "_status"])
        );
        let status = self.server.get(&status);
        if let Some((done, total, shards)) = status.ok().as_ref().and_then(far) {
            self.progress.set_with_parts(done, total, &shards);
        }
    }

    /// Gets the snapshot; `Ok(None)` also while the server, or what is between, does not answer as one, for up to five minutes.
    ///
    /// # Errors
    /// The server refuses, or has not answered for long; a signal, or the end of the time limit.
    pub(crate) fn poll(&mut self) -> Result<Option<Snapshot>, Failure> {
        match snapshot::find(&self.server, self.repository, self.name) {
            Err(failure) if failure.status == Status::Unavailable || failure.code == "not_a_search_database" => {
                let silent = *self.silent.get_or_insert_with(Instant::now);
                if silent.elapsed() > SILENCE { Err(failure) } else { Ok(None) }
            }
            found => {
                self.silent = None;
                found
            }
        }
    }

    /// Whether the server answered the last poll.
    pub(crate) fn is_answered(&self) -> bool {
        self.silent.is_none()
    }

    /// Waits until a snapshot that is there is finished.
    ///
    /// # Errors
    /// It has gone (4); a signal, the end of the time limit, or a server that does not answer any more.
    pub(crate) fn until_finished(&mut self) -> Result<Snapshot, Failure> {
        let mut absent = 0;
        loop {
            match self.poll().map_err(|failure| continues(failure, self.repository, self.name))? {
                Some(snapshot) if !snapshot.is_under_way() => return Ok(snapshot),
                // One poll may have gone astray.
                None if self.is_answered() && absent > 0 => return Err(snapshot::not_found(self.repository, self.name)),
                None if self.is_answered() => absent += 1,
                None => {}
                Some(_) => {
                    absent = 0;
                    self.show();
                }
            }
            let pause = self.pause();
            self.call.pause(pause).map_err(|failure| continues(failure, self.repository, self.name))?;
        }
    }
}

/// The way on for whoever does not wait any longer, for whatever reason.
pub(crate) fn continues(failure: Failure, repository: &str, name: &str) -> Failure {
    failure.hint(format!(
        "The snapshot continues by itself: svc-snap wait {name} --repository {repository} waits for it and verifies it."
    ))
}

/// Bytes done and in all, and shards, from `_status`; nothing as long as the server does not know how many bytes there are.
fn far(status: &Value) -> Option<(u64, u64, Parts)> {
    let snapshot = status.pointer("/snapshots/0")?;
    let number = |pointer: &str| json::number(snapshot, pointer);
    let total = number("/stats/incremental/size_in_bytes").filter(|total| *total > 0)?;
    let shards = |name: &str| number(&format!("/shards_stats/{name}")).unwrap_or(0);
    let done = number("/stats/processed/size_in_bytes").unwrap_or(0).min(total);
    Some((done, total, Parts { name: "shards", done: shards("done"), total: shards("total") }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_what_is_done_of_what_is_new() {
        let status = json!({"snapshots": [{"stats": {"incremental": {"size_in_bytes": 10}, "processed": {"size_in_bytes": 4}},
            "shards_stats": {"done": 1, "started": 2, "total": 3}}]});
        let shards = Parts { name: "shards", done: 1, total: 3 };
        assert_eq!(far(&status), Some((4, 10, shards)));
        assert_eq!(far(&json!({"snapshots": []})), None);
    }
}
