//! `--rate-limit`: the throttles of Elasticsearch and OpenSearch, set for the time of one step and put back on every way out.
//!
//! All six servers throttle snapshots and restores at 40 MB/s unless told otherwise. The value from before is recorded in the changed
//! settings themselves, by the same request (a [`Note`]). Its run holds a lock, which the kernel frees however the run ends: the
//! next call that finds a note whose lock is free puts the throttle back ([`Left`]), and leaves any other note alone.

pub(crate) mod auto_create;

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::action::{Action, Body};
use svc_step::line_secrets::json_without_secrets;
use svc_step::lock::Lock;
use svc_step::{Call, Failure, Status, Stopped};

use crate::index::select::Scope;
use crate::repository;
use crate::server::Server;
use crate::server::client::Effect;
use crate::server::path::path;

/// The throttle of a repository on snapshots; `0` is none.
const SNAPSHOT: &str = "max_snapshot_bytes_per_sec";
/// The throttle of a cluster on restores; `-1` is none.
const RESTORE: &str = "indices.recovery.max_bytes_per_sec";
/// Which indices come into being when a client writes to them.
const AUTO_CREATE: &str = "action.auto_create_index";
/// The note in a repository's settings.
const REPOSITORY_NOTE: &str = "svc_tools_rate";
/// The note in the cluster's settings: any key below `cluster.metadata.` is accepted.
const CLUSTER_NOTE: &str = "cluster.metadata.svc_tools.rate";
/// The note of what clients may create.
const AUTO_CREATE_NOTE: &str = "cluster.metadata.svc_tools.auto_create";
/// The kind of the lock that a run holds as long as its note is there.
const LOCK: &str = "rate";
/// A lower rate blocks every snapshot of the node for hours: the server sleeps in the throttle, and cannot be cancelled.
const LEAST_KB: u64 = 64;
/// How long a busy server is asked again to put back what this call has set, and what a dead run has left.
const PATIENCE: Duration = Duration::from_secs(20);
const LEFT_PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// How fast a snapshot is taken or restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rate {
    /// As the server has it.
    Server,
    /// Without a throttle.
    NoLimit,
    /// Bytes a second, as the server writes sizes: `100mb`.
    Size(String),
}

/// How fast.
#[derive(Debug, Clone, clap::Args)]
pub struct RateArg {
    #[arg(long = "rate-limit", value_name = "none|SIZE|server", env = "SVC_SEARCH_RATE_LIMIT", default_value = "server",
          value_parser = rate, allow_hyphen_values = true)]
    pub(crate) rate: Rate,
}

fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "server" => return Ok(Rate::Server),
        "none" => return Ok(Rate::NoLimit),
        _ => {}
    }
    let no_rate = || format!("`{text}` is no rate limit: write none, server, or a size a second such as 100mb");
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
        return Err(format!("{text} a second would never end: write {LEAST_KB}kb or more, or none for no throttle"));
    }
    Ok(Rate::Size(format!("{number}{unit}")))
}

/// What became of a throttle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateUsed {
    /// What was asked for: `none`, or a size a second.
    pub asked: String,
    /// The setting that throttles: `max_snapshot_bytes_per_sec` of the repository, or `indices.recovery.max_bytes_per_sec` of the
    /// cluster.
    pub setting: String,
    /// Its value before; `null` where it was not set (the server's own default is 40 MB/s) or could not be read.
    pub was: Option<String>,
    /// Its value during the step; `null` where it was left as it was, and a warning says why.
    pub set: Option<String>,
    /// Whether it was put back; `null` where nothing was set, or where the answer was lost and the outcome is unknown (the next
    /// call that finds it changed puts it back).
    pub put_back: Option<bool>,
}

/// Recorded in the changed settings: whose change it is, and what was there before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The run and its host, for people.
    run: String,
    host: String,
    /// This very change; also the name of its lock.
    token: String,
    was: Option<String>,
    set: String,
}

impl Note {
    fn of(call: &Call, was: Option<String>, set: String) -> Self {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let token = format!("{}.{}.{nanos}", call.run_id(), std::process::id());
        Self { run: call.run_id().to_string(), host: Call::host(), token, was, set }
    }

    /// One that is not understood belongs to an unknown run.
    fn read(text: &str) -> Self {
        let (run, host) = ("?".to_owned(), "?".to_owned());
        serde_json::from_str(text).unwrap_or(Self { run, host, token: String::new(), was: None, set: String::new() })
    }

    /// Whether its run is running; `None` where its lock is not under this state folder, so that nothing can be told.
    pub(crate) fn is_alive(&self, call: &Call) -> Option<bool> {
        if self.token.is_empty() { None } else { Lock::is_held(call, LOCK, &self.token) }
    }

    /// Removes the lock of a change that is no more.
    pub(crate) fn forget(&self, call: &Call) {
        Lock::forget(call, LOCK, &self.token);
    }
}

/// A throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target<'a> {
    Repository(&'a str),
    Cluster,
    /// No throttle, and changed and put back as one: which indices clients create by writing to them.
    AutoCreate,
}

impl<'a> Target<'a> {
    const fn setting(self) -> &'static str {
        match self {
            Self::Repository(_) => SNAPSHOT,
            Self::Cluster => RESTORE,
            Self::AutoCreate => AUTO_CREATE,
        }
    }

    const fn note(self) -> &'static str {
        match self {
            Self::Repository(_) => REPOSITORY_NOTE,
            Self::Cluster => CLUSTER_NOTE,
            Self::AutoCreate => AUTO_CREATE_NOTE,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Repository(name) => format!("the repository {name} ({SNAPSHOT})"),
            Self::Cluster => format!("the cluster ({RESTORE})"),
            Self::AutoCreate => format!("the cluster ({AUTO_CREATE})"),
        }
    }

    /// What is changed, for people.
    fn what(self) -> String {
        match self {
            Self::AutoCreate => format!("the setting {AUTO_CREATE} of the cluster"),
            target => format!("the rate of {}", target.name()),
        }
    }

    /// What the server has of it.
    fn get(self, get: impl FnOnce(&str) -> Result<Value, Failure>) -> Result<Found<'a>, Failure> {
        let (definition, settings) = match self {
            Self::Repository(name) => {
                let all = get(&path(&["_snapshot", name]))?;
                (all.get(name).cloned().ok_or_else(|| repository::not_found(name))?, "settings")
            }
            Self::Cluster | Self::AutoCreate => (get("/_cluster/settings?flat_settings=true")?, "persistent"),
        };
        let settings = definition.get(settings).and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Found { target: self, definition, settings })
    }

    /// Puts it back to what the server had without the change of `token`. A throttle that does not bear it needs nothing: somebody
    /// has put it back or registered the repository again.
    fn put_back(self, call: &Call, server: &Server, token: &str, patience: Duration) -> Result<Back, Failure> {
        let patience = if call.check().is_err() { patience / 4 } else { patience };
        let until = Instant::now() + server.at_most(patience);
        loop {
            let time = until.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
            match self.put_back_once(server, token, time) {
                Err(failure) if failure.status == Status::Unavailable && Instant::now() < until => thread::sleep(PAUSE),
                ended => return ended,
            }
        }
    }

    fn put_back_once(self, server: &Server, token: &str, time: Duration) -> Result<Back, Failure> {
        let found = match self.get(|path| server.within(time, "GET", path, None)) {
            Err(failure) if failure.status == Status::NotFound => return Ok(Back::NotThere),
            found => found?,
        };
        if found.note().is_none_or(|note| note.token != token) {
            return Ok(Back::NotThere);
        }
        if let Some(why) = found.harm() {
            return Ok(Back::Not(format!("{why}. {}", found.by_hand(server))));
        }
        match sent(&found.back(), |method, path, body| server.within(time, method, path, body)) {
            Err(failure) if failure.status != Status::Unavailable => {
                Ok(Back::Not(format!("{failure}; by hand: {}", found.by_hand(server))))
            }
            ended => ended.map(|_| Back::Done),
        }
    }
}

/// How far a throttle was put back.
enum Back {
    Done,
    NotThere,
    /// Why not, and what an operator does instead.
    Not(String),
}

/// Sends a request of a plan.
fn sent<E>(action: &Action, send: impl FnOnce(&str, &str, Option<&Value>) -> Result<Value, E>) -> Result<Value, E> {
    match action {
        Action::Request { method, path, body } => send(method, path, body.as_ref().map(Body::value).as_ref()),
        _ => Ok(Value::Null),
    }
}

/// What the server has of a throttle.
#[derive(Debug, Clone)]
struct Found<'a> {
    target: Target<'a>,
    /// The repository's definition, or all the cluster's settings.
    definition: Value,
    /// The settings that hold the throttle and its note.
    settings: Map<String, Value>,
}

impl Found<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.settings.get(key).and_then(Value::as_str)
    }

    fn note(&self) -> Option<Note> {
        self.text(self.target.note()).map(Note::read)
    }

    /// The value without our change: what the note says was there, unless somebody has set another one since.
    fn was(&self) -> Option<String> {
        let value = self.text(self.target.setting());
        match self.note() {
            Some(note) if value == Some(note.set.as_str()) => note.was,
            _ => value.map(str::to_owned),
        }
    }

    /// Why it is left as it is.
    fn obstacle(&self) -> Option<String> {
        let says = |pointer: &str| self.definition.pointer(pointer).is_some_and(|value| value == "true");
        match self.target {
            Target::Repository(_) if says("/settings/readonly") => Some("the repository is registered read-only".to_owned()),
            Target::Repository(_) => self.harm(),
            Target::Cluster | Target::AutoCreate => {
                let transient = self.definition.get("transient").and_then(|transient| transient.get(self.target.setting()));
                transient.map(|_| "a transient setting of the cluster takes precedence".to_owned())
            }
        }
    }

    /// Why it cannot be written again without harm. Since no secret is ever written again, plans and warnings may show the requests
    /// as they are sent.
    fn harm(&self) -> Option<String> {
        let Target::Repository(_) = self.target else { return None };
        let kind = self.definition.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut settings = self.settings.clone();
        settings.shift_remove(REPOSITORY_NOTE);
        let known = |key: &String| ["type", "settings", "uuid"].contains(&key.as_str());
        if !repository::SHOWN_WHOLE.contains(&kind) || !self.definition.as_object().is_some_and(|all| all.keys().all(known)) {
            Some(format!("a repository of the type {kind} may have settings that the server does not show, and would lose them"))
        } else if json_without_secrets(&settings) != settings {
            Some("the repository has secrets among its settings, and is not written again".to_owned())
        } else {
            None
        }
    }

    /// The request that sets the value (`None` unsets it) and the note (or removes it).
    fn request(&self, value: Option<&str>, note: Option<&Note>) -> Action {
        let pairs =
            [(self.target.setting(), json!(value)), (self.target.note(), json!(note.map(|note| json!(note).to_string())))];
        match self.target {
            Target::Repository(name) => {
                let mut settings = self.settings.clone();
                for (key, value) in pairs {
                    match value {
                        Value::Null => settings.shift_remove(key),
                        value => settings.insert(key.to_owned(), value),
                    };
                }
                let body = json!({"type": self.definition.get("type"), "settings": settings});
                // Its folder does not change, and its nodes have verified it.
                Action::request("PUT", format!("{}?verify=false", path(&["_snapshot", name])), Some(body))
            }
            Target::Cluster | Target::AutoCreate => {
                let settings: Map<String, Value> = pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                Action::request("PUT", "/_cluster/settings", Some(json!({"persistent": settings})))
            }
        }
    }

    fn back(&self) -> Action {
        self.request(self.was().as_deref(), None)
    }

    /// How an operator puts it back: the request to type, or, where that would harm the repository or show its secrets, what to do
    /// instead.
    fn by_hand(&self, server: &Server) -> String {
        match (self.target, self.back()) {
            (Target::Repository(name), _) if self.harm().is_some() => {
                let rate = self.was().map_or_else(|| format!("without {SNAPSHOT}"), |was| format!("with {SNAPSHOT} {was}"));
                let path = path(&["_snapshot", name]);
                format!(
                    "GET {path} shows its settings; PUT {path} all of them again, without {REPOSITORY_NOTE} and {rate}, and with those that the server does not show"
                )
            }
            (_, Action::Request { method, path, body }) => {
                let body = body.as_ref().map(|body| body.value().to_string().replace('\'', r"'\''")).unwrap_or_default();
                format!("curl -X {method} '{}{path}' -H 'Content-Type: application/json' -d '{body}'", server.url())
            }
            _ => String::new(),
        }
    }
}

/// A repository's settings without the change of a run, and its note.
pub(crate) fn without_note(settings: &Map<String, Value>) -> (Map<String, Value>, Option<Note>) {
    let target = Target::Repository("");
    let found = Found { target, definition: Value::Null, settings: settings.clone() };
    let (was, note) = (found.was(), found.note());
    let mut settings = found.settings;
    settings.shift_remove(REPOSITORY_NOTE);
    match was {
        Some(was) => settings.insert(SNAPSHOT.to_owned(), json!(was)),
        None => settings.shift_remove(SNAPSHOT),
    };
    (settings, note)
}

/// A failure with the server's own words, which name a right that is missing.
fn why(failure: &Failure) -> String {
    let message = failure.message.trim_end_matches('.');
    failure.causes.last().map_or_else(|| message.to_owned(), |cause| format!("{message} ({cause})"))
}

/// A failure that ends the step: a signal, or the end of the time limit.
fn is_end(failure: &Failure) -> bool {
    failure.signal.is_some() || failure.status == Status::Timeout
}

/// The throttle of one step.
#[derive(Debug)]
pub(crate) struct Rates<'a> {
    left: Left<'a>,
    target: Target<'a>,
    wanted: Option<String>,
    used: Option<RateUsed>,
    /// Why it must be left as it is.
    why_not: Option<String>,
    planned: Option<Change>,
}

/// A change that is taken back.
#[derive(Debug)]
struct Change {
    note: Note,
    off: Action,
    back: Action,
}

/// A change that was made, or may have been: its answer was lost.
struct Made {
    /// Tells other runs that this one is running.
    _lock: Lock,
    note: Note,
    is_answered: bool,
}

impl<'a> Rates<'a> {
    /// The repository's throttle, for a snapshot. `why_not` says why it must be left as it is.
    ///
    /// # Errors
    /// A signal, or the end of the time limit. What forbids a change is a warning (`rate_not_changed`).
    pub(crate) fn of_repository(
        call: &Call,
        server: &Server,
        name: &'a str,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let left = Left::find(call, server, Some(name))?;
        Self::plan(call, server, left, Target::Repository(name), rate, why_not.map(str::to_owned))
    }

    /// The cluster's throttle, for a restore; left as it is where the cluster is not the service's alone.
    pub(crate) fn of_cluster(call: &Call, server: &Server, scope: &Scope, rate: &Rate) -> Result<Self, Failure> {
        let left = Left::find(call, server, None)?;
        let why_not = (!scope.is_everything())
            .then(|| format!("it is the whole cluster's, and the scope is {scope} (--scope, SVC_INDICES), not *"));
        Self::plan(call, server, left, Target::Cluster, rate, why_not)
    }

    fn plan(
        call: &Call,
        server: &Server,
        left: Left<'a>,
        target: Target<'a>,
        rate: &Rate,
        why_not: Option<String>,
    ) -> Result<Self, Failure> {
        let none = if target == Target::Cluster { "-1" } else { "0" };
        let (asked, wanted) = match rate {
            Rate::Server => (None, None),
            Rate::NoLimit => (Some("none".to_owned()), Some(none.to_owned())),
            Rate::Size(size) => (Some(size.clone()), Some(size.clone())),
        };
        let setting = target.setting().to_owned();
        let used = asked.map(|asked| RateUsed { asked, setting, was: None, set: None, put_back: None });
        let mut rates = Self { left, target, wanted, used, why_not, planned: None };
        rates.planned = rates.change(call, server)?;
        Ok(rates)
    }

    /// How it is changed, by what the server has of it now; `None` where it is left as it is.
    fn change(&mut self, call: &Call, server: &Server) -> Result<Option<Change>, Failure> {
        let (Some(used), Some(wanted)) = (&mut self.used, &self.wanted) else { return Ok(None) };
        let looks = server.for_looks();
        let found = match self.target.get(|path| looks.get(path)) {
            Ok(found) => found,
            Err(failure) if is_end(&failure) => return Err(failure),
            Err(failure) => {
                self.leave(call, &why(&failure));
                return Ok(None);
            }
        };
        used.was = found.was();
        if used.was.as_ref() == Some(wanted) {
            return Ok(None);
        }
        let other = found.note().filter(|note| note.is_alive(call) != Some(false));
        let other = other.map(|note| format!("the run {} on {} has changed it, and puts it back", note.run, note.host));
        if let Some(why) = other.or_else(|| self.why_not.clone()).or_else(|| found.obstacle()) {
            self.leave(call, &why);
            return Ok(None);
        }
        let note = Note::of(call, used.was.clone(), wanted.clone());
        Ok(Some(Change { off: found.request(Some(wanted), Some(&note)), back: found.back(), note }))
    }

    fn leave(&self, call: &Call, why: &str) {
        let why = why.trim_end_matches('.');
        call.warn("rate_not_changed", format!("The rate of {} was left as it is: {why}.", self.target.name()));
    }

    /// A plan's requests between those that change the throttle and put it back, and after those that put back what dead runs have
    /// left.
    pub(crate) fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        let change = self.planned.as_ref().filter(|_| !requests.is_empty());
        let (off, back) = change.map(|change| (change.off.clone(), change.back.clone())).unzip();
        self.left.actions().chain(off).chain(requests).chain(back).collect()
    }

    /// Puts back what dead runs have left.
    pub(crate) fn clear(&self, call: &Call, server: &Server) {
        self.left.put_back(call, server);
    }

    /// For the document.
    pub(crate) fn used(&self) -> Option<RateUsed> {
        self.used.clone()
    }

    /// Does `work` at the rate that was asked for, and puts the throttle back on every way out.
    pub(crate) fn during<T>(&mut self, call: &Call, server: &Server, work: impl FnOnce() -> T) -> T {
        let made = if self.planned.is_some() { self.make(call, server) } else { None };
        let done = work();
        if let Some(made) = made {
            self.put_back(call, server, &made);
        }
        done
    }

    /// Changes it, by what the server has of it now: it may have been changed since it was planned. `None` where it was not changed.
    fn make(&mut self, call: &Call, server: &Server) -> Option<Made> {
        // A signal or the end of the time limit ends the work too.
        let Change { note, off, .. } = self.change(call, server).ok().flatten()?;
        let lock = Lock::take(call, LOCK, &note.token).map_err(|failure| self.leave(call, &failure.message)).ok()?;
        let is_answered = match sent(&off, |method, path, body| server.attempt(method, path, body)) {
            Ok(_) => true,
            Err(trouble) if trouble.effect == Effect::Unknown => false,
            Err(trouble) => {
                note.forget(call);
                self.leave(call, &why(&trouble.failure));
                return None;
            }
        };
        self.used.iter_mut().for_each(|used| used.set = Some(note.set.clone()));
        Some(Made { _lock: lock, note, is_answered })
    }

    fn put_back(&mut self, call: &Call, server: &Server, made: &Made) {
        let what = self.target.name();
        let put_back = match self.target.put_back(call, server, &made.note.token, PATIENCE) {
            // Its lock stays, and is free from now on, which tells the next call that this run has ended.
            Ok(Back::NotThere) | Err(_) if !made.is_answered => {
                call.warn("rate_unknown", format!(
                    "Whether the rate of {what} was changed is unknown: the request was not answered. The next call of svc-snap that finds it changed puts it back."
                ));
                None
            }
            Ok(Back::Done | Back::NotThere) => {
                made.note.forget(call);
                Some(true)
            }
            Ok(Back::Not(why)) => {
                call.warn("rate_not_put_back", format!("The rate of {what} could not be put back: {why}."));
                Some(false)
            }
            Err(failure) => {
                call.warn("rate_not_put_back", format!(
                    "The rate of {what} could not be put back ({failure}); the next call of svc-snap that works with it puts it back."
                ));
                Some(false)
            }
        };
        self.used.iter_mut().for_each(|used| used.put_back = put_back);
        self.account(call);
    }

    /// A step that has undone all its effects has put back what others left, or left its own throttle changed, all the same.
    pub(crate) fn account(&self, call: &Call) {
        self.left.account(call);
        match self.used.as_ref().filter(|used| used.set.is_some()).map(|used| used.put_back) {
            Some(Some(false)) => call.effects().happened(),
            Some(None) => drop(call.effects().attempt()),
            Some(Some(true)) | None => {}
        }
    }

    /// The end of a step that has undone all its effects.
    pub(crate) fn stopped<T>(&self, call: &Call, failure: Failure, result: T) -> Stopped<T> {
        self.account(call);
        Stopped::with(failure, result)
    }
}

/// Throttles that dead runs have left changed.
#[derive(Debug, Default)]
pub(crate) struct Left<'a> {
    found: Vec<(Note, Found<'a>)>,
    /// Whether this call has put one back.
    done: Cell<bool>,
}

impl<'a> Left<'a> {
    /// Finds the notes of dead runs, on the cluster and on a repository. A note whose run may be running is left alone, with a warning
    /// (`rate_left_changed`) that has the command which puts the throttle back.
    ///
    /// # Errors
    /// A signal, or the end of the time limit. A throttle that cannot be read is passed over.
    pub(crate) fn find(call: &Call, server: &Server, repository: Option<&'a str>) -> Result<Self, Failure> {
        let (mut left, looks) = (Self::default(), server.for_looks());
        for target in repository.map(Target::Repository).into_iter().chain([Target::Cluster]) {
            let found = match target.get(|path| looks.get(path)) {
                Ok(found) => found,
                Err(failure) if is_end(&failure) => return Err(failure),
                Err(_) => continue,
            };
            // One answer of the cluster has both of its settings.
            let further = (target == Target::Cluster).then(|| Found { target: Target::AutoCreate, ..found.clone() });
            for found in [found].into_iter().chain(further) {
                left.take(call, server, found);
            }
        }
        Ok(left)
    }

    fn take(&mut self, call: &Call, server: &Server, found: Found<'a>) {
        let Some(note) = found.note() else { return };
        let why = match note.is_alive(call) {
            Some(true) => return,
            Some(false) => found.harm().map(|why| format!("it cannot be put back: {why}")),
            None => Some("whether it is still running cannot be told here; if it is not".to_owned()),
        };
        match why {
            None => self.found.push((note, found)),
            Some(why) => {
                let (what, by_hand) = (found.target.what(), found.by_hand(server));
                let message = format!("The run {} on {} has changed {what}, and {why}: {by_hand}", note.run, note.host);
                call.warn("rate_left_changed", message);
            }
        }
    }

    /// The requests that put them back.
    pub(crate) fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.found.iter().map(|(_, found)| found.back())
    }

    /// Puts them back. What the server refuses is a warning, and left to the next call. The caller holds the repository's lock.
    pub(crate) fn put_back(&self, call: &Call, server: &Server) {
        for (note, Found { target, .. }) in &self.found {
            let of = format!("The run {} had left {} changed", note.run, target.what());
            match target.put_back(call, server, &note.token, LEFT_PATIENCE) {
                Ok(Back::NotThere) => note.forget(call),
                Ok(Back::Done) => {
                    note.forget(call);
                    self.done.set(true);
                    self.account(call);
                    call.warn("rate_put_back", format!("{of}; it was put back ({}).", note.was.as_deref().unwrap_or("unset")));
                }
                Ok(Back::Not(why)) => call.warn("rate_not_put_back", format!("{of}, and it could not be put back: {why}.")),
                Err(why) => call.warn("rate_not_put_back", format!("{of}, and it could not be put back: {why}")),
            }
        }
    }

    /// The same for a step that does not hold the repository's lock: a repository is written again as a whole. Where another run
    /// holds it, that is a warning (`rate_left_changed`).
    pub(crate) fn put_back_alone(&self, call: &Call, server: &Server, repository: &str) {
        if self.found.is_empty() {
            return;
        }
        match repository::hold(call, server, repository) {
            Ok(_lock) => self.put_back(call, server),
            Err(failure) => self.warn(call, &format!("it could not be put back now: {}", failure.message)),
        }
    }

    /// A step that has undone all its effects has put these back all the same.
    pub(crate) fn account(&self, call: &Call) {
        if self.done.get() {
            call.effects().happened();
        }
    }

    /// Only says that they are there (`rate_left_changed`).
    pub(crate) fn remark(&self, call: &Call) {
        self.warn(call, "the next svc-snap step that changes something puts it back.");
    }

    fn warn(&self, call: &Call, more: &str) {
        for (note, found) in &self.found {
            let what = found.target.what();
            call.warn("rate_left_changed", format!("The run {} has left {what} changed; {more}", note.run));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(settings: Value) -> Found<'static> {
        let settings = settings.as_object().cloned().unwrap_or_default();
        let definition = json!({"type": "fs", "uuid": "u", "settings": settings});
        Found { target: Target::Repository("r"), definition, settings }
    }

    fn note(was: Option<&str>) -> Note {
        let text = |text: &str| text.to_owned();
        Note { run: text("r"), host: text("h"), token: text("t"), was: was.map(text), set: text("0") }
    }

    fn settings(action: &Action) -> Value {
        let Action::Request { body: Some(body), .. } = action else { return Value::Null };
        body.value().get("settings").cloned().unwrap_or_default()
    }

    #[test]
    fn a_rate_is_a_word_or_a_size_a_second() {
        for (text, expected) in [("100mb", "100mb"), ("100MB", "100mb"), ("2g", "2gb"), ("64k", "64kb"), ("0070k", "70kb")] {
            assert_eq!(rate(text), Ok(Rate::Size(expected.to_owned())), "{text}");
        }
        assert_eq!((rate("none"), rate("server")), (Ok(Rate::NoLimit), Ok(Rate::Server)));
        for bad in ["", "fast", "0", "0mb", "5", "100b", "63kb", "-1", "1.5mb", "mb", "10mb/s", "99999999999g"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_repository_keeps_all_its_other_settings_there_and_back() {
        for was in [None, Some("5mb")] {
            let mut before = json!({"location": "/x", "a": {"b": "c"}});
            if let Some(was) = was {
                before[SNAPSHOT] = json!(was);
            }
            let off = settings(&repository(before.clone()).request(Some("0"), Some(&note(was))));
            assert_eq!((&off[SNAPSHOT], &off["location"]), (&json!("0"), &json!("/x")));
            let changed = repository(off.clone());
            assert_eq!((changed.note(), settings(&changed.back())), (Some(note(was)), before.clone()));
            let (without, found) = without_note(&changed.settings);
            assert_eq!((json!(without), found), (before, Some(note(was))));
            // Another value that somebody has set since stays.
            let mut other = off;
            other[SNAPSHOT] = json!("9mb");
            assert_eq!(settings(&repository(other).back())[SNAPSHOT], "9mb");
        }
        assert_eq!(Note::read("what?").token, "");
    }

    #[test]
    fn what_could_be_lost_or_shown_is_never_written_again() {
        assert_eq!(repository(json!({"location": "/x", REPOSITORY_NOTE: json!(note(None)).to_string()})).obstacle(), None);
        for settings in [json!({"readonly": "true"}), json!({"client.secret_key": "x"}), json!({"url": "http://me:s3cret@far/"})]
        {
            let why = repository(settings.clone()).obstacle();
            assert!(why.is_some_and(|why| !why.contains("s3cret")), "{settings}");
        }
        let s3 = Found { definition: json!({"type": "s3", "settings": {}}), ..repository(json!({})) };
        assert!(s3.harm().is_some());
    }
}
