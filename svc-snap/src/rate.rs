//! `--rate`: the search database's own throttles, taken off or set for the time of one step, and put back on every way out.
//!
//! All six servers throttle snapshots and restores at 40 MB/s unless told otherwise. What was there before is noted in the changed
//! thing itself, by the same request (`note`), so that whatever becomes of this call, the next one that finds the note can put
//! it back (`left`). A throttle that bears the note of another run is left alone. What is to become of one is decided by what the
//! server has of it (`plan`), once for the plan and once more just before it is changed (`during`).

mod arg;
pub(crate) mod auto_create;
mod back;
mod during;
pub(crate) mod left;
mod note;
mod plan;
mod throttle;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::{Call, Failure, Status, Stopped};

pub(crate) use self::arg::Rate;
pub use self::arg::RateArg;
use self::left::Left;
pub(crate) use self::note::{LOCK, Life, Note};
use self::plan::{Change, Decided, decide};
use self::throttle::Seen;
pub(crate) use self::throttle::{Throttle, with_note, without_note};
use crate::index::scope::Scope;
use crate::repository;
use crate::server::Server;
use crate::server::json::text;

/// What became of a throttle of the search database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateUsed {
    /// What was asked for: `unlimited`, or a size a second.
    pub asked: String,
    /// The setting that throttles: `max_snapshot_bytes_per_sec` of the repository, or `indices.recovery.max_bytes_per_sec` of the
    /// cluster.
    pub setting: String,
    /// Its value before; `null` where it was not set (then the server throttles at 40 MB/s by itself) or could not be read.
    pub was: Option<String>,
    /// Its value while the step was at work; `null` where it was left as it was, and a warning says why.
    pub set: Option<String>,
    /// Whether it was put back as it was before; `null` where nothing was set, or where the answer to that request was lost and
    /// nobody knows (the next call that finds it changed puts it back).
    pub put_back: Option<bool>,
}

/// The throttle of one step: what is to become of it, and what dead runs have left to be put back first.
#[derive(Debug)]
pub(crate) struct Rates<'a> {
    left: Left<'a>,
    throttle: Throttle<'a>,
    used: Option<RateUsed>,
    /// Why it must be left as it is.
    why_not: Option<String>,
    planned: Option<Planned>,
}

/// A change that is planned, and what the server had of the throttle then.
#[derive(Debug)]
struct Planned {
    seen: Seen,
    change: Box<Change>,
}

impl<'a> Rates<'a> {
    /// The repository's throttle, for a snapshot. `why_not` says why it must be left as it is.
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
        Self::plan(call, server, left, Throttle::Repository(repository), rate, why_not)
    }

    /// The cluster's throttle, for a restore; left as it is where the search database is not the service's alone. What forbids a
    /// change is a warning (`rate_not_changed`): the step goes on throttled.
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
        if *rate != Rate::Server {
            warn_of_the_repositorys_own(call, server, repository);
        }
        let why_not = (!scope.is_everything())
            .then(|| format!("it is the whole cluster's, and the scope is {scope} (--scope, SVC_INDICES), not *"));
        Self::plan(call, server, left, Throttle::Cluster, rate, why_not.as_deref())
    }

    fn plan(
        call: &Call,
        server: &Server,
        left: Left<'a>,
        throttle: Throttle<'a>,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut rates = Self { left, throttle, used: None, why_not: why_not.map(str::to_owned), planned: None };
        let Some((asked, wanted)) = throttle.wanted(rate) else { return Ok(rates) };
        rates.used = Some(RateUsed { asked, setting: throttle.setting().to_owned(), was: None, set: None, put_back: None });
        match throttle.look(server) {
            Ok(seen) => rates.planned = rates.change(call, seen, &wanted),
            Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => return Err(failure),
            Err(failure) => rates.leave(call, &failure.message),
        }
        Ok(rates)
    }

    /// How it is to be changed; `None` where it is left as it is, with a warning that says why.
    fn change(&mut self, call: &Call, seen: Seen, wanted: &str) -> Option<Planned> {
        self.used.iter_mut().for_each(|used| used.was = seen.was());
        let is_foreign = |note: &Note| note.life(call) != Life::Dead;
        let note = |was, transient| Note::of(call, was, wanted.to_owned(), transient);
        match decide(&seen, wanted, self.why_not.as_deref(), is_foreign, note) {
            Decided::AsAsked => None,
            Decided::Leave(why) => {
                self.leave(call, &why);
                None
            }
            Decided::Change(change) => Some(Planned { seen, change }),
        }
    }

    /// The requests of a plan, between those that take the throttle off and put it back, and behind those that put back what
    /// dead runs have left.
    pub(crate) fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        let change = self.planned.as_ref().map(|planned| &planned.change).filter(|_| !requests.is_empty());
        let off = change.map(|change| change.off.clone());
        let back = change.map(|change| change.back.clone());
        self.left.actions().chain(off).chain(requests).chain(back).collect()
    }

    /// Puts back what dead runs have left.
    pub(crate) fn clear(&self, call: &Call, server: &Server) {
        match self.throttle {
            Throttle::Repository(_) => self.left.put_back(call, server),
            Throttle::Cluster | Throttle::AutoCreate => self.left.put_back_alone(call, server),
        }
    }

    /// What the document says of it.
    pub(crate) fn used(&self) -> Option<RateUsed> {
        self.used.clone()
    }

    /// A step that has taken back all its effects has put back what others left, or left its own throttle changed, all the same.
    pub(crate) fn account(&self, call: &Call) {
        self.left.account(call);
        match self.used.as_ref().filter(|used| used.set.is_some()).map(|used| used.put_back) {
            Some(Some(false)) => call.effects().happened(),
            // Nobody knows.
            Some(None) => drop(call.effects().attempt()),
            Some(Some(true)) | None => {}
        }
    }

    /// The end of a step that has taken back all its effects, and may not have been able to put a rate back.
    pub(crate) fn stopped<T>(&self, call: &Call, failure: Failure, result: T) -> Stopped<T> {
        self.account(call);
        Stopped::with(failure, result)
    }

    fn leave(&self, call: &Call, why: &str) {
        let why = why.trim_end_matches('.');
        call.warn("rate_not_changed", format!("The rate of {} was left as it is: {why}.", self.throttle.name()));
    }
}

/// Whether a size a second is a throttle: `0` of whatever unit is none, but `0.5mb` is one.
fn throttles(size: &str) -> bool {
    let number = size.trim().trim_end_matches(|one: char| one.is_ascii_alphabetic()).trim_end();
    number.parse::<f64>().map_or(true, |number| number > 0.0)
}

/// A repository may have a throttle of its own on restores, which works beside the cluster's and is nobody's default: it is left on.
fn warn_of_the_repositorys_own(call: &Call, server: &Server, repository: &str) {
    const OWN: &str = "max_restore_bytes_per_sec";
    // A step never fails for a throttle.
    let Ok(Some(definition)) = repository::definition(server, repository) else { return };
    if let Some(own) = text(&definition, &format!("/settings/{OWN}")).filter(|own| throttles(own)) {
        call.warn("rate_not_changed", format!(
            "The repository {repository} has a throttle of its own on restores ({OWN}: {own}), which stays on; svc-snap register --replace without it takes it off."
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_nothing_is_no_throttle_and_the_half_of_a_megabyte_is_one() {
        assert!(["0", "0b", "0mb", "0.0mb", "-1"].iter().all(|none| !throttles(none)));
        assert!(["0.5mb", "9mb", "40MB", "1024", "05kb", "?"].iter().all(|throttle| throttles(throttle)));
    }
}
