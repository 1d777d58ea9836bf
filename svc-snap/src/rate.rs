//! `--rate`: the search database's own brakes, taken off or set for the time of one step, and put back on every way out.
//!
//! All six servers brake snapshots and restores at 40 MB/s unless told otherwise. What was there before is noted in the changed
//! thing itself, by the same request (`note`), so that whatever becomes of this call, the next one that finds the note can put
//! it back (`left`). A brake that bears the note of another run is left alone.

mod brake;
pub(crate) mod left;
mod note;

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status};

pub(crate) use self::brake::{Brake, with_note, without_note};
use self::left::Left;
pub(crate) use self::note::{LOCK, Life, Note};
use crate::index::scope::Scope;
use crate::server::Server;

/// How long the server may take to put a brake back, and how long it is asked again while it is busy.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// The code of the refusal to change a repository while a snapshot runs there.
const IN_USE: &str = "repository_in_use";

/// How fast a snapshot is taken or brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As the search database has it.
    Server,
    /// Without a brake.
    Unlimited,
    /// So many bytes a second, as the server writes sizes: `100mb`.
    Size(String),
}

/// How fast.
#[derive(Debug, Clone, clap::Args)]
pub struct RateArg {
    /// How fast, while this step is at work: unlimited, SIZE a second (100mb), or server: leave the search database's own brake as it is
    #[arg(long, value_name = "unlimited|SIZE|server", env = "SVC_SEARCH_RATE", default_value = "server", value_parser = rate)]
    pub(crate) rate: Rate,
}

/// What became of a brake of the search database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateUsed {
    /// What was asked for: `unlimited`, or a size a second.
    pub asked: String,
    /// The setting that brakes: `max_snapshot_bytes_per_sec` of the repository, or `indices.recovery.max_bytes_per_sec` of the
    /// cluster.
    pub setting: String,
    /// Its value before; `null` where it was not set (then the server brakes at 40 MB/s by itself) or could not be read.
    pub was: Option<String>,
    /// Its value while the step was at work; `null` where it was left as it was, and a warning says why.
    pub set: Option<String>,
    /// Whether it was put back as it was before; `null` where nothing was set.
    pub put_back: Option<bool>,
}

/// The brake of one step: what is to become of it, and what dead runs have left to be put back first.
#[derive(Debug)]
pub(crate) struct Rates<'a> {
    left: Left<'a>,
    brake: Brake<'a>,
    used: Option<RateUsed>,
    change: Option<Change>,
}

/// A change that is taken back.
#[derive(Debug)]
struct Change {
    note: Note,
    off: Action,
    back: Action,
}

impl<'a> Rates<'a> {
    /// The repository's brake, for a snapshot. `why_not` says why it must be left as it is.
    ///
    /// # Errors
    /// As [`Rates::of_cluster`].
    pub(crate) fn of_repository(
        call: &Call,
        server: &Server,
        repository: &'a str,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let left = Left::find(call, server, Some(repository))?;
        Self::plan(call, server, left, Brake::Repository(repository), rate, why_not)
    }

    /// The cluster's brake, for a restore; left as it is where the search database is not the service's alone. What forbids a
    /// change is a warning (`rate_not_changed`): the step goes on braked.
    ///
    /// # Errors
    /// A signal, or the end of the time limit.
    pub(crate) fn of_cluster(
        call: &Call,
        server: &Server,
        repository: &'a str,
        scope: &Scope,
        rate: &Rate,
    ) -> Result<Self, Failure> {
        let left = Left::find(call, server, Some(repository))?;
        let why_not = (!scope.is_everything())
            .then(|| format!("it is the whole cluster's, and the scope is {scope} (--scope, SVC_INDICES), not *"));
        Self::plan(call, server, left, Brake::Cluster, rate, why_not.as_deref())
    }

    fn plan(
        call: &Call,
        server: &Server,
        left: Left<'a>,
        brake: Brake<'a>,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut rates = Self { left, brake, used: None, change: None };
        let Some((asked, wanted)) = brake.wanted(rate) else { return Ok(rates) };
        rates.used = Some(RateUsed { asked, setting: brake.setting().to_owned(), was: None, set: None, put_back: None });
        let seen = match brake.look(server) {
            Ok(seen) => seen,
            Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => return Err(failure),
            Err(failure) => {
                rates.leave(call, &failure.message);
                return Ok(rates);
            }
        };
        let was = seen.was();
        rates.used.iter_mut().for_each(|used| used.was.clone_from(&was));
        let is_as_asked = was.as_deref() == Some(wanted.as_str());
        let foreign = seen.note().filter(|note| seen.is_changed() && note.life(call) != Life::Dead);
        if is_as_asked {
            return Ok(rates);
        } else if let Some(note) = foreign {
            rates.leave(call, &format!("the run {} on {} has changed it, and puts it back", note.run, note.host));
        } else if let Some(why) = why_not.map(str::to_owned).or_else(|| seen.obstacle()) {
            rates.leave(call, &why);
        } else {
            let note = Note::of(call, was.clone(), wanted.clone(), seen.is_transient());
            let off = seen.with(Some(&wanted), Some(&note));
            rates.change = Some(Change { off, back: seen.with(was.as_deref(), None), note });
        }
        Ok(rates)
    }

    /// The requests of a plan, between those that take the brake off and put it back, and behind those that put back what
    /// dead runs have left.
    pub(crate) fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        let change = self.change.as_ref().filter(|_| !requests.is_empty());
        let off = change.map(|change| change.off.clone());
        let back = change.map(|change| change.back.clone());
        self.left.actions().chain(off).chain(requests).chain(back).collect()
    }

    /// Puts back what dead runs have left.
    pub(crate) fn clear(&self, call: &Call, server: &Server) {
        self.left.put_back(call, server);
    }

    /// What the document says of it.
    pub(crate) fn used(&self) -> Option<RateUsed> {
        self.used.clone()
    }

    /// Does `work` with the brake as it was asked for, and puts it back on every way out.
    pub(crate) fn during<T>(&mut self, call: &Call, server: &Server, work: impl FnOnce() -> T) -> T {
        let Some(change) = self.change.take() else { return work() };
        let Some(lock) = self.take_off(call, server, &change) else { return work() };
        let done = work();
        let ended = put_back(call, server, self.brake, &change.note, PATIENCE);
        self.used.iter_mut().for_each(|used| used.put_back = Some(ended.is_ok()));
        match ended {
            Ok(Back::Whole) => Lock::forget(call, LOCK, &change.note.token),
            Ok(Back::NoteStays) => {}
            Err(failure) => {
                self.account(call);
                let what = self.brake.name();
                let by_hand = by_hand(server, &change.back);
                call.warn(
                    "rate_not_put_back",
                    format!("The rate of {what} could not be put back ({failure}); the next call of svc-snap that works with it puts it back, or by hand: {by_hand}"),
                );
            }
        }
        drop(lock);
        done
    }

    /// Takes it off; `None` where the server refused. After a lost answer it may be off, so that it is put back.
    fn take_off(&mut self, call: &Call, server: &Server, change: &Change) -> Option<Lock> {
        let lock = match Lock::take(call, LOCK, &change.note.token) {
            Ok(lock) => lock,
            Err(failure) => {
                self.leave(call, &failure.message);
                return None;
            }
        };
        let sent = send(&change.off, |method, path, body| server.for_looks().ask(method, path, body));
        if let Err(failure) = &sent {
            let answered = failure.code == IN_USE
                || failure.code == "search_busy"
                || !matches!(failure.status, Status::Timeout | Status::Unavailable);
            if answered && failure.signal.is_none() {
                Lock::forget(call, LOCK, &change.note.token);
                self.leave(call, &failure.message);
                return None;
            }
        }
        self.used.iter_mut().for_each(|used| used.set = Some(change.note.set.clone()));
        Some(lock)
    }

    /// A step that has taken back all its effects has put back what others left, or left its own brake changed, all the same.
    pub(crate) fn account(&self, call: &Call) {
        self.left.account(call);
        if self.used.as_ref().is_some_and(|used| used.put_back == Some(false)) {
            call.effects().happened();
        }
    }

    fn leave(&self, call: &Call, why: &str) {
        let why = why.trim_end_matches('.');
        call.warn("rate_not_changed", format!("The rate of {} was left as it is: {why}.", self.brake.name()));
    }
}

/// How far a brake was put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Back {
    /// It is as it was.
    Whole,
    /// The rate is as it was; the note stays until the snapshot that goes on has ended.
    NoteStays,
}

/// Puts back what a note says, unless somebody else has changed it since; a brake without that note needs nothing.
///
/// No server takes a setting of ours off a repository while a snapshot runs there. The rate alone can be put back on all but
/// OpenSearch 1 and 2 (and on 3 where it was not set before).
///
/// # Errors
/// The server does not answer, or refuses, or is busy with another snapshot.
fn put_back(call: &Call, server: &Server, brake: Brake<'_>, note: &Note, patience: Duration) -> Result<Back, Failure> {
    let over = call.check().is_err();
    let until = Instant::now() + if over { patience / 4 } else { patience };
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let send = |action: &Action| send(action, |method, path, body| server.within(left, method, path, body));
        let seen = match brake.look_within(server, left) {
            // Its repository has gone, and the brake with it.
            Err(failure) if failure.status == Status::NotFound => return Ok(Back::Whole),
            seen => seen,
        };
        let ended = seen.and_then(|seen| match seen.note().filter(|found| found.token == note.token) {
            None => Ok(Back::Whole),
            Some(found) => match send(&seen.with(seen.was().as_deref(), None)) {
                Err(failure) if failure.code == IN_USE && seen.is_changed() => {
                    let sent = send(&seen.with(found.was.as_deref(), Some(&found)));
                    // OpenSearch 3 acknowledges it, and keeps a setting that was to be unset.
                    match sent.and_then(|()| brake.look_within(server, left)) {
                        Ok(after) if !after.is_changed() => Ok(Back::NoteStays),
                        _ => Err(failure),
                    }
                }
                Err(failure) if failure.code == IN_USE => Ok(Back::NoteStays),
                ended => ended.map(|()| Back::Whole),
            },
        });
        match ended {
            Ok(Back::NoteStays) if !over && Instant::now() < until => std::thread::sleep(PAUSE),
            Err(failure) if failure.status == Status::Unavailable && Instant::now() < until => std::thread::sleep(PAUSE),
            ended => return ended,
        }
    }
}

/// Sends a request of a plan.
fn send<T>(
    action: &Action,
    way: impl FnOnce(&str, &str, Option<&serde_json::Value>) -> Result<T, Failure>,
) -> Result<(), Failure> {
    match action {
        Action::Request { method, path, body } => way(method, path, body.as_ref()).map(drop),
        _ => Ok(()),
    }
}

/// A request as an operator would type it.
pub(crate) fn by_hand(server: &Server, action: &Action) -> String {
    match action {
        Action::Request { method, path, body } => {
            let body = body.as_ref().map(|body| body.to_string().replace('\'', r"'\''")).unwrap_or_default();
            format!("curl -X {method} '{}{path}' -H 'Content-Type: application/json' -d '{body}'", server.url())
        }
        _ => String::new(),
    }
}

/// A rate below this one blocks every snapshot of the node for hours: the server sleeps in the brake, and cannot be cancelled.
const LEAST_KB: u64 = 64;

fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "server" => return Ok(Rate::Server),
        "unlimited" => return Ok(Rate::Unlimited),
        _ => {}
    }
    let no_rate = || format!("`{text}` is no rate: write unlimited, server, or a size a second such as 100mb");
    let lower = text.to_ascii_lowercase();
    let (number, unit) = lower.split_at(lower.find(|one: char| !one.is_ascii_digit()).unwrap_or(lower.len()));
    let number: u64 = number.parse::<u32>().map_err(|_| no_rate())?.into();
    let (unit, kilobytes) = match unit {
        "k" | "kb" => ("kb", number),
        "m" | "mb" => ("mb", number << 10),
        "g" | "gb" => ("gb", number << 20),
        _ => return Err(no_rate()),
    };
    if kilobytes < LEAST_KB {
        return Err(format!("{text} a second would never end: say {LEAST_KB}kb or more, or unlimited to take the brake off"));
    }
    Ok(Rate::Size(format!("{number}{unit}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_word_or_a_size_a_second() {
        for (text, expected) in [("100mb", "100mb"), ("100MB", "100mb"), ("2g", "2gb"), ("64k", "64kb"), ("0070k", "70kb")] {
            assert_eq!(rate(text), Ok(Rate::Size(expected.to_owned())), "{text}");
        }
        assert_eq!((rate("unlimited"), rate("server")), (Ok(Rate::Unlimited), Ok(Rate::Server)));
        for bad in ["", "fast", "0", "0mb", "5", "100b", "63kb", "-1", "1.5mb", "mb", "10mb/s", "99999999999g"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
