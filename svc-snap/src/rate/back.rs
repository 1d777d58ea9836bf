//! A changed throttle is put back, by what the server has of it at that moment.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use svc_step::action::{Action, Body};
use svc_step::{Call, Failure, Status};

use super::note::Note;
use super::throttle::{Seen, Throttle};
use crate::server::Server;
use crate::server::path::path;

/// The pause before a busy server is asked again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a request whose answer was lost may still take effect.
const LATE: Duration = Duration::from_secs(20);

/// The code of the refusal to change a repository while a snapshot runs there.
const IN_USE: &str = "repository_in_use";

/// How far a throttle was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Back {
    /// It is as it was.
    Whole,
    /// That change is not there: somebody else has put it back, or its repository has gone.
    NotThere,
    /// The rate is as it was; the note stays until the snapshot that goes on has ended.
    NoteStays,
    /// It must not be written anew by us: why, and what an operator does instead.
    Harm(String),
}

/// A change to be put back.
#[derive(Debug, Clone, Copy)]
pub(super) struct PutBack<'a> {
    pub throttle: Throttle<'a>,
    /// What it says is put back.
    pub note: &'a Note,
    /// How long the server may take, and how long it is asked again while it is busy; after a signal or the end of the time limit
    /// a quarter of it.
    pub patience: Duration,
    /// When the request was sent that sets the note, where nobody has answered it: it may take effect later.
    pub unanswered: Option<Instant>,
}

impl PutBack<'_> {
    /// Puts it back, unless somebody else has changed it since; a throttle without that note needs nothing. Where nobody has answered
    /// the request that sets the note, it is looked for until that request can have no effect any more.
    ///
    /// No server takes a setting of ours off a repository while a snapshot runs there. The rate alone can be put back on all but
    /// OpenSearch 1 and 2 (and on 3 where it was not set before).
    ///
    /// # Errors
    /// The server does not answer, or refuses, or is busy with another snapshot.
    pub(super) fn run(self, call: &Call, server: &Server) -> Result<Back, Failure> {
        let is_over = call.check().is_err();
        let until = Instant::now() + server.at_most(if is_over { self.patience / 4 } else { self.patience });
        let late = self.unanswered.map(|sent| until.min(sent + LATE));
        loop {
            let ended = self.once(server, until.saturating_duration_since(Instant::now()).max(Duration::from_secs(1)));
            let now = Instant::now();
            let again = match &ended {
                Ok(Back::NoteStays) => !is_over && now < until,
                Ok(Back::NotThere) => late.is_some_and(|late| now < late),
                Ok(Back::Whole | Back::Harm(_)) => false,
                Err(failure) => failure.status == Status::Unavailable && now < until,
            };
            if !again {
                return ended;
            }
            thread::sleep(PAUSE);
        }
    }

    fn once(self, server: &Server, time: Duration) -> Result<Back, Failure> {
        let put = |action: &Action| sent(action, |method, path, body| server.within(time, method, path, body)).map(drop);
        let seen = match self.throttle.look_within(server, time) {
            // Its repository has gone, and the throttle with it.
            Err(failure) if failure.status == Status::NotFound => return Ok(Back::NotThere),
            seen => seen?,
        };
        let Some(found) = seen.note().filter(|found| found.token == self.note.token) else { return Ok(Back::NotThere) };
        if let Some(why) = seen.harm() {
            return Ok(Back::Harm(format!("{why}. {}", by_hand(server, &seen))));
        }
        match put(&seen.with(seen.was().as_deref(), None)) {
            Err(failure) if failure.code == IN_USE && seen.is_changed() => {
                let rate_alone = put(&seen.with(found.was.as_deref(), Some(&found)));
                // OpenSearch 3 acknowledges it, and keeps a setting that was to be unset.
                match rate_alone.and_then(|()| self.throttle.look_within(server, time)) {
                    Ok(after) if !after.is_changed() => Ok(Back::NoteStays),
                    _ => Err(failure),
                }
            }
            Err(failure) if failure.code == IN_USE => Ok(Back::NoteStays),
            ended => ended.map(|()| Back::Whole),
        }
    }
}

/// Sends a request of a plan.
pub(super) fn sent<E>(action: &Action, way: impl FnOnce(&str, &str, Option<&Value>) -> Result<Value, E>) -> Result<Value, E> {
    match action {
        Action::Request { method, path, body } => way(method, path, body.as_ref().map(Body::value).as_ref()),
        _ => Ok(Value::Null),
    }
}

/// How an operator puts it back: the request as he would type it, or, where that would harm the repository or show its secrets,
/// what he does instead.
pub(super) fn by_hand(server: &Server, seen: &Seen) -> String {
    let was = seen.was();
    match (seen, seen.with(was.as_deref(), None)) {
        (Seen::Repository(name, _), _) if seen.harm().is_some() => {
            let setting = Throttle::Repository(name).setting();
            let rate = was.map_or_else(|| format!("without {setting}"), |was| format!("with {setting} {was}"));
            let path = path(&["_snapshot", name]);
            format!(
                "GET {path} shows its settings; PUT {path} all of them again, without svc_tools_rate and {rate}, and with what the search database does not show"
            )
        }
        (_, Action::Request { method, path, body }) => {
            let body = body.as_ref().map(|body| body.value().to_string().replace('\'', r"'\''")).unwrap_or_default();
            format!("curl -X {method} '{}{path}' -H 'Content-Type: application/json' -d '{body}'", server.url())
        }
        _ => String::new(),
    }
}
