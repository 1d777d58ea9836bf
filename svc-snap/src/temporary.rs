//! A setting that is changed for the time of one step: a throttle, or which indices clients create. The value from before is recorded
//! beside it by the same request. The step's lock says whether it still runs; if it has ended, the next call puts the value back.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::poll::{retry, sleep};
use svc_step::redact::json_without_secrets;
use svc_step::{Action, Call, Failure, Lock, Status};

use crate::client::{self, Effect, Server, path};
use crate::index::copies;
use crate::{guard, repository};

/// `0` is no throttle.
const SNAPSHOT_RATE: &str = "max_snapshot_bytes_per_sec";
/// `-1` is no throttle.
const RECOVERY_RATE: &str = "indices.recovery.max_bytes_per_sec";
const AUTO_CREATE: &str = "action.auto_create_index";
/// How many primary shards a node makes at once: more during a swap if it is at its default, by a number that no other sets.
const RECOVERIES: &str = "cluster.routing.allocation.node_initial_primaries_recoveries";
const MANY: &str = "61";
const REPOSITORY_RECORD: &str = "svc_tools_rate";
/// How long a busy server is asked again to put back what this call has set.
const OWN_TIME: Duration = Duration::from_secs(20);
/// And what a dead run has left.
const LEFT_TIME: Duration = Duration::from_secs(3);

/// Whose change it is, and what was there before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub run: String,
    process: u32,
    pub host: String,
    /// The directory of its run's locks with its inode: hosts may have the same name, and a user may not be able to read it.
    locks: String,
    pub was: Option<String>,
    pub set: String,
    /// The run of the swap that it is for, which another host may finish.
    pub swap: Option<String>,
}

impl Record {
    fn locks(call: &Call) -> String {
        let folder = call.state_dir().join("locks");
        let folder = folder.canonicalize().unwrap_or(folder);
        format!("{}#{}", folder.display(), folder.metadata().map_or(0, |meta| meta.ino()))
    }

    /// Whether the locks of its run are those of this call.
    pub fn is_of_here(&self, call: &Call) -> bool {
        self.host == svc_step::document::host() && self.locks == Self::locks(call)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Repository(&'a str),
    Cluster,
    /// Which indices clients create by writing to them.
    AutoCreate,
}

#[derive(Debug, Clone)]
pub(crate) struct Current<'a> {
    pub target: Target<'a>,
    /// The repository's definition, or all the cluster's settings.
    pub definition: Value,
    /// Those among which the setting and its record are.
    settings: Map<String, Value>,
    pub record: Option<Record>,
}

impl<'a> Target<'a> {
    /// The setting and the record; any key below `cluster.metadata.` is accepted.
    pub(crate) const fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Repository(_) => (SNAPSHOT_RATE, REPOSITORY_RECORD),
            Self::Cluster => (RECOVERY_RATE, "cluster.metadata.svc_tools.rate"),
            Self::AutoCreate => (AUTO_CREATE, "cluster.metadata.svc_tools.auto_create"),
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Repository(name) => format!("the throttle of the repository {name} ({SNAPSHOT_RATE})"),
            Self::Cluster => format!("the throttle of the cluster ({RECOVERY_RATE})"),
            Self::AutoCreate => format!("the setting {AUTO_CREATE} of the cluster"),
        }
    }

    pub(crate) fn get(self, get: impl FnOnce(&str) -> Result<Value, Failure>) -> Result<Current<'a>, Failure> {
        match self {
            Self::Repository(name) => {
                let all = get(&path(&["_snapshot", name]))?;
                Ok(self.read(all.get(name).cloned().ok_or_else(|| repository::not_found(name))?))
            }
            Self::Cluster | Self::AutoCreate => get("/_cluster/settings?flat_settings=true").map(|all| self.read(all)),
        }
    }

    pub(crate) fn read(self, definition: Value) -> Current<'a> {
        let settings = if let Self::Repository(_) = self { "settings" } else { "persistent" };
        let settings = definition.get(settings).and_then(Value::as_object).cloned().unwrap_or_default();
        // One that is not understood is another host's.
        let read = |record: &Value| serde_json::from_str(record.as_str()?).ok().or_else(|| Some(Record::default()));
        let record = settings.get(self.keys().1).and_then(read);
        Current { target: self, definition, settings, record }
    }
}

impl<'a> Current<'a> {
    /// The value without our change: what the record says was there, unless another client has set another one since.
    pub fn was(&self) -> Option<String> {
        let value = self.settings.get(self.target.keys().0).and_then(Value::as_str);
        match &self.record {
            Some(record) if value == Some(record.set.as_str()) => record.was.clone(),
            _ => value.map(str::to_owned),
        }
    }

    /// Whether its record is of a run of this state directory that has ended: such a run held a lock.
    pub fn is_left(&self, call: &Call, server: &Server) -> bool {
        let (kind, name) = match self.target {
            Target::Repository(name) => repository::lock_name(server, name),
            Target::Cluster | Target::AutoCreate => guard::lock_name(server),
        };
        let holder = || Lock::holder(call, kind, &name);
        let is_running = |record: &Record| holder() == Some(format!("{} (process {})", record.run, record.process));
        self.record.as_ref().is_some_and(|record| record.is_of_here(call) && !is_running(record))
    }

    pub fn why_not_changeable(&self, call: &Call, server: &Server) -> Option<String> {
        if let Some(record) = self.record.as_ref().filter(|_| !self.is_left(call, server)) {
            return Some(format!("the run {} on {} has changed it, and puts it back", record.run, record.host));
        }
        let transient = self.definition.get("transient").and_then(|transient| transient.get(self.target.keys().0));
        transient.map(|_| "a transient setting of the cluster takes precedence".to_owned()).or_else(|| self.why_not_rewritable())
    }

    /// Why it cannot be written again without harm. No secret is ever written again, so plans and warnings may show the requests.
    fn why_not_rewritable(&self) -> Option<String> {
        let Target::Repository(_) = self.target else { return None };
        let kind = self.definition.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut settings = self.settings.clone();
        settings.shift_remove(REPOSITORY_RECORD);
        if !repository::SHOWN_COMPLETELY.contains(&kind) {
            return Some(format!(
                "a repository of the type {kind} may have settings that the server does not show, and would lose them"
            ));
        }
        let has_secrets = json_without_secrets(&settings) != settings;
        has_secrets.then(|| "the repository has secrets among its settings, and is not written again".to_owned())
    }

    /// The `PUT` that sets the value (`None` unsets it) and the record (or removes it).
    fn request(&self, value: Option<&str>, record: Option<&Record>) -> (String, Value) {
        let (setting, record_key) = self.target.keys();
        let (value, record) = (json!(value), json!(record.map(|record| json!(record).to_string())));
        let Target::Repository(name) = self.target else {
            let mut changed = serde_json::Map::from_iter([(setting.to_owned(), value), (record_key.to_owned(), record.clone())]);
            let (now, is_set) = (client::setting(&self.definition, RECOVERIES), self.settings.contains_key(RECOVERIES));
            if self.target == Target::AutoCreate && (now == Some(MANY) || now == Some("4") && !is_set) {
                changed.insert(RECOVERIES.to_owned(), if record.is_null() { Value::Null } else { json!(MANY) });
            }
            return ("/_cluster/settings".to_owned(), json!({ "persistent": changed }));
        };
        let mut settings = self.settings.clone();
        settings.extend([(setting.to_owned(), value), (record_key.to_owned(), record)]);
        settings.retain(|_, value| !value.is_null());
        // Its directory does not change, and its nodes have verified it.
        let path = format!("{}?verify=false", path(&["_snapshot", name]));
        (path, json!({"type": self.definition.get("type"), "settings": settings}))
    }

    pub fn restored(&self) -> (String, Value) {
        self.request(self.was().as_deref(), None)
    }

    /// The request by which an operator puts it back; without its body if that would harm the repository or show its secrets.
    fn by_hand(&self) -> String {
        let (path, body) = self.restored();
        if self.why_not_rewritable().is_none() {
            return format!("PUT {path} {body}");
        }
        let was = self.was().unwrap_or_else(|| "unset".to_owned());
        format!("PUT {path} with its settings, secrets too, with {SNAPSHOT_RATE} {was} and without {REPOSITORY_RECORD}")
    }

    pub fn change(self, call: &Call, set: String, swap: Option<&String>) -> Change<'a> {
        let (run, process) = (call.run_id().to_string(), std::process::id());
        let (host, locks, swap) = (svc_step::document::host(), Record::locks(call), swap.cloned());
        let record = Record { run, process, host, locks, was: self.was(), set, swap };
        Change { found: self, record, is_answered: false }
    }
}

/// A change with what the server had before it.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) found: Current<'a>,
    pub(crate) record: Record,
    /// Whether its request was answered.
    pub(crate) is_answered: bool,
}

impl Change<'_> {
    fn request(&self) -> (String, Value) {
        self.found.request(Some(&self.record.set), Some(&self.record))
    }

    pub(crate) fn undo(&self) -> Action {
        action(self.found.restored())
    }

    /// `requests` between those that make the change and put it back.
    pub(crate) fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        [action(self.request())].into_iter().chain(requests).chain([self.undo()]).collect()
    }

    pub(crate) fn make(self, server: &Server) -> Result<Self, Failure> {
        let (path, body) = self.request();
        match server.attempt(None, "PUT", &path, Some(&body)) {
            Err(error) if error.effect == Effect::None => Err(error.failure),
            answer => Ok(Self { is_answered: answer.is_ok(), ..self }),
        }
    }

    /// Puts back what this call has changed; if that fails, the next call does. `None` if it is unknown whether it was changed.
    pub(crate) fn put_back_own(&self, call: &Call, server: &Server) -> Option<bool> {
        let name = self.found.target.name();
        match (self.put_back(call, server, OWN_TIME), self.is_answered) {
            (Ok(true), _) | (Ok(false), true) => Some(true),
            (Err(failure), true) => {
                call.warn("setting_not_changed", format!("After this change, {name} could not be put back: {failure}"));
                lasting(call);
                Some(false)
            }
            (_, false) => {
                call.warn("setting_not_changed", format!(
                    "The request to change {name} was not answered, and its outcome is unknown. The next call of svc-snap that finds it changed puts it back."
                ));
                call.effects().unknown();
                None
            }
        }
    }

    /// Puts it back, and asks a busy server again for so long; whether the change was still there.
    pub(crate) fn put_back(&self, call: &Call, server: &Server, time: Duration) -> Result<bool, Failure> {
        let (begun, time) = (Instant::now(), server.at_most(if call.check().is_err() { time / 4 } else { time }));
        let is_away = |failure: &Failure| (failure.status == Status::Unavailable).then_some(time);
        // Whether the answer to a request was.
        let mut is_lost = false;
        let time = || time.saturating_sub(begun.elapsed()).max(Duration::from_secs(1));
        let ended = retry(is_away, sleep, || self.put_back_once(server, time(), &mut is_lost));
        if is_lost && ended.is_err() {
            call.effects().unknown();
        }
        Ok(ended? || is_lost)
    }

    fn put_back_once(&self, server: &Server, time: Duration, is_lost: &mut bool) -> Result<bool, Failure> {
        let found = match self.found.target.get(|path| Ok(server.attempt(Some(time), "GET", path, None)?)) {
            Err(failure) if failure.status == Status::NotFound => return Ok(false),
            found => found?,
        };
        if found.record.as_ref() != Some(&self.record) {
            return Ok(false);
        }
        let (path, body) = found.restored();
        let refused = match found.why_not_rewritable() {
            Some(why) => format!("{why}."),
            None => match server.attempt(Some(time), "PUT", &path, Some(&body)) {
                Err(error) if error.failure.status != Status::Unavailable => error.failure.message,
                ended => {
                    *is_lost |= ended.is_err();
                    return Ok(ended.map(|_| true)?);
                }
            },
        };
        Err(Failure::new(Status::Refused, "setting_not_changed", format!("{refused} {}", found.by_hand())))
    }
}

fn action((path, body): (String, Value)) -> Action {
    Action::request("PUT", path, Some(body))
}

/// An effect that stays, whatever else the step undoes.
pub(crate) fn lasting(call: &Call) {
    call.effects().happened();
    call.effects().stays();
}

/// What dead runs have left changed.
#[derive(Debug)]
pub(crate) struct Left<'a>(Vec<Change<'a>>);

impl<'a> Left<'a> {
    /// Finds the records of dead runs; what cannot be read is passed over. One whose run may be running is a warning with the request.
    pub(crate) fn find(call: &Call, server: &Server, repository: Option<&'a str>) -> Result<Self, Failure> {
        let server = &server.interruptible();
        let get = |target: Target<'a>| target.get(|path| server.get(path)).ok();
        let repository = repository.and_then(|name| get(Target::Repository(name)));
        let cluster = get(Target::Cluster);
        // One answer has both.
        let auto_create = cluster.as_ref().map(|found| Target::AutoCreate.read(found.definition.clone()));
        // It stays until an interrupted swap is finished.
        let is_swapping = || !copies::marked(server).is_ok_and(|marked| marked.is_empty());
        let auto_create = auto_create.filter(|found| found.record.is_none() || !is_swapping());
        call.check()?;
        let mut left = Vec::new();
        for found in [repository, cluster, auto_create].into_iter().flatten() {
            let Some(record) = found.record.clone() else { continue };
            let (is_left, why_not) = (found.is_left(call, server), found.why_not_rewritable());
            if is_left && why_not.is_none() {
                left.push(Change { found, record, is_answered: true });
            } else if is_left || !record.is_of_here(call) {
                let why =
                    why_not.filter(|_| is_left).unwrap_or_else(|| "if it does not run any more, this puts it back".to_owned());
                let (Record { run, host, .. }, name, by_hand) = (record, found.target.name(), found.by_hand());
                call.warn("setting_not_changed", format!("The run {run} on {host} has changed {name}; {why}: {by_hand}"));
            }
        }
        Ok(Self(left))
    }

    pub(crate) fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.0.iter().map(Change::undo)
    }

    /// Puts them back. What the server refuses is a warning, and left to the next call.
    pub(crate) fn put_back(&self, call: &Call, server: &Server) {
        for change in &self.0 {
            let (record, name) = (&change.record, change.found.target.name());
            let of = format!("The run {} had left {name} changed", record.run);
            match change.put_back(call, server, LEFT_TIME) {
                Ok(true) => {
                    lasting(call);
                    call.warn("run_recovered", format!("{of}; it was put back ({}).", record.was.as_deref().unwrap_or("unset")));
                }
                Ok(false) => {}
                Err(why) => call.warn("setting_not_changed", format!("{of}, and it could not be put back: {why}")),
            }
        }
    }

    /// The same for a step that does not hold the repository's lock. If another run holds it, that is a warning.
    pub(crate) fn put_back_alone(&self, call: &Call, server: &Server, repository: &str) {
        match repository::lock(call, server, repository, self.0.is_empty()) {
            Ok(_lock) => self.put_back(call, server),
            Err(_) => self.warn(call),
        }
    }

    /// Only warns that they are there (`setting_not_changed`).
    pub(crate) fn warn(&self, call: &Call) {
        for Change { record, found, .. } in &self.0 {
            let (run, name) = (&record.run, found.target.name());
            let message =
                format!("The run {run} has left {name} changed; the next svc-snap step that changes something puts it back.");
            call.warn("setting_not_changed", message);
        }
    }
}

/// A failure with the server's own words, which name a right that is missing.
pub(crate) fn why(failure: &Failure) -> String {
    failure.causes.last().map_or_else(|| failure.message.clone(), |cause| format!("{} ({cause})", failure.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(settings: Value) -> Current<'static> {
        Target::Repository("r").read(json!({"type": "fs", "uuid": "u", "settings": settings}))
    }

    #[test]
    fn unreadable_throttle_record_is_a_record() {
        assert_eq!(repository(json!({REPOSITORY_RECORD: "what?"})).record, Some(Record::default()));
    }

    #[test]
    fn repository_with_possible_secrets_is_not_rewritten() {
        assert!(Target::Repository("r").read(json!({"type": "s3", "settings": {}})).why_not_rewritable().is_some());
    }
}
