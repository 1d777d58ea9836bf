//! A snapshot under way: how far it is, and whether it has ended.

use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::progress::{Parts, Progress, Unit};
use svc_step::{Call, Failure, Status};

use crate::server::Server;
use crate::server::json;
use crate::server::path::path;
use crate::snapshot::{self, Snapshot};

/// The first pause between two looks; it grows to the last.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(2);
/// How long a server that does not answer is borne while a snapshot is known to be under way.
const ABSENCE: Duration = Duration::from_secs(60);

/// One snapshot that is followed.
pub(crate) struct Follow<'a> {
    call: &'a Call,
    server: Server,
    repository: &'a str,
    name: &'a str,
    progress: Progress,
    pace: Pace,
}

/// When to look, and when to give up looking.
struct Pace {
    pause: Duration,
    /// Whether any answer but that of the server about a snapshot is borne, be it a gateway's; and how long.
    bears_all: bool,
    bears: Duration,
    /// Since when nobody has answered.
    silent: Option<Instant>,
}

impl Pace {
    /// Signals and the end of the time limit are never borne.
    fn bears(&self, failure: &Failure) -> bool {
        let is_an_end = failure.signal.is_some() || failure.status == Status::Timeout;
        failure.status == Status::Unavailable || (self.bears_all && !is_an_end)
    }
}

impl<'a> Follow<'a> {
    pub(crate) fn new(call: &'a Call, server: &Server, repository: &'a str, name: &'a str) -> Self {
        let progress = call.progress(&format!("snapshot {name}"), Unit::Bytes);
        Self {
            call,
            server: server.for_looks(),
            repository,
            name,
            progress,
            pace: Pace { pause: FIRST, bears_all: false, bears: ABSENCE, silent: None },
        }
    }

    /// The same for a snapshot that this call has begun: looks that fail, for whatever reason, are borne so long.
    pub(crate) fn bearing(mut self, time: Duration) -> Self {
        self.pace.bears_all = true;
        self.pace.bears = time;
        self
    }

    /// The pause before the next look: short at first.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.pace.pause;
        self.pace.pause = (pause * 3 / 2).min(LAST);
        pause
    }

    /// Shows how far it is. A look that fails is none: the progress decides nothing.
    pub(crate) fn show(&self) {
        if !self.progress.is_shown() {
            return;
        }
        let status = format!(
            "{}?filter_path=snapshots.stats,snapshots.shards_stats",
            path(&["_snapshot", self.repository, self.name, "_status"])
        );
        let status = self.server.get(&status);
        if let Some(Far { done, total, shards }) = status.ok().as_ref().and_then(far) {
            self.progress.set_with_parts(done, total, &shards);
        }
    }

    /// Looks the snapshot up; `Ok(None)` also while the server does not answer, which is borne for a minute, or as long as [`Follow::bearing`] says.
    ///
    /// # Errors
    /// The server refuses, or has not answered for long; a signal, or the end of the time limit.
    pub(crate) fn poll(&mut self) -> Result<Option<Snapshot>, Failure> {
        match snapshot::find(&self.server, self.repository, self.name) {
            Err(failure) if self.pace.bears(&failure) => {
                let silent = *self.pace.silent.get_or_insert_with(Instant::now);
                if silent.elapsed() > self.pace.bears { Err(failure) } else { Ok(None) }
            }
            found => {
                self.pace.silent = None;
                found
            }
        }
    }

    /// Whether the server answered the last look.
    pub(crate) fn is_answered(&self) -> bool {
        self.pace.silent.is_none()
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
                // One look may have gone astray.
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
        "The snapshot continues by itself: svc-snap wait {name} --repository {repository} waits for it and judges it."
    ))
}

/// How far a snapshot is.
#[derive(Debug, PartialEq, Eq)]
struct Far {
    /// Bytes done, and bytes in all.
    done: u64,
    total: u64,
    shards: Parts,
}

/// How far it is, from `_status`; nothing as long as the server does not know how many bytes there are.
fn far(status: &Value) -> Option<Far> {
    let snapshot = status.pointer("/snapshots/0")?;
    let number = |pointer: &str| json::number(snapshot, pointer);
    let total = number("/stats/incremental/size_in_bytes").filter(|total| *total > 0)?;
    let shards = |name: &str| number(&format!("/shards_stats/{name}")).unwrap_or(0);
    Some(Far {
        done: number("/stats/processed/size_in_bytes").unwrap_or(0).min(total),
        total,
        shards: Parts { name: "shards", done: shards("done"), total: shards("total") },
    })
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
        assert_eq!(far(&status), Some(Far { done: 4, total: 10, shards }));
        assert_eq!(far(&json!({"snapshots": []})), None);
    }
}
