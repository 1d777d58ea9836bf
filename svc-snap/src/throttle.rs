//! `--rate-limit`: the throttles of Elasticsearch and OpenSearch, set for the time of one step and put back on every way out.
//!
//! All six servers throttle snapshots and restores at 40 MB/s unless told otherwise. The value from before is recorded in the changed
//! settings themselves, by the same request (a [`Note`]). A step that changes a setting holds the lock of the repository or of the
//! cluster's indices meanwhile, so the lock says whether its process still runs: the next call that finds the note of one that has
//! ended puts the setting back ([`Left`]), and leaves any other note alone.

pub(crate) mod auto_create;

use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::line_secrets::json_without_secrets;
use svc_step::{Call, Failure, Status, Stopped};

use crate::client::Effect;
use crate::client::Server;
use crate::client::path::path;
use crate::index::select::Scope;
use crate::{guard, repository};

/// `0` is no throttle.
const SNAPSHOT: &str = "max_snapshot_bytes_per_sec";
/// `-1` is no throttle.
const RESTORE: &str = "indices.recovery.max_bytes_per_sec";
const AUTO_CREATE: &str = "action.auto_create_index";
const REPOSITORY_NOTE: &str = "svc_tools_rate";
/// A lower rate blocks every snapshot of the node for hours: the server sleeps in the throttle, and cannot be cancelled.
const LEAST_KB: u64 = 64;
/// How long a busy server is asked again to put back what this call has set, and what a dead run has left.
const OWN_TIME: Duration = Duration::from_secs(20);
const LEFT_TIME: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// `none`, or a size a second as the server writes it (`100mb`); `None` leaves the throttle as the server has it.
pub(crate) type Rate = Option<String>;

/// How fast.
#[derive(Debug, Clone, clap::Args)]
pub struct RateArg {
    #[arg(long = "rate-limit", value_name = "none|SIZE|server", env = "SVC_SEARCH_RATE_LIMIT", default_value = "server",
          value_parser = rate, allow_hyphen_values = true)]
    pub(crate) rate: Rate,
}

fn rate(text: &str) -> Result<Rate, String> {
    if ["none", "server"].contains(&text) {
        return Ok(Some(text.to_owned()).filter(|text| text == "none"));
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
    Ok(Some(format!("{number}{unit}")))
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    run: String,
    process: u32,
    host: String,
    /// The folder of its run's locks with its inode: hosts may have the same name, and a user may not be able to read it.
    locks: String,
    was: Option<String>,
    set: String,
}

impl Note {
    fn new(call: &Call, was: Option<String>, set: String) -> Self {
        let (run, process) = (call.run_id().to_string(), std::process::id());
        Self { run, process, host: Call::host(), locks: Self::locks(call), was, set }
    }

    fn locks(call: &Call) -> String {
        let folder = call.state_dir().join("locks");
        let folder = folder.canonicalize().unwrap_or(folder);
        format!("{}#{}", folder.display(), folder.metadata().map_or(0, |meta| meta.ino()))
    }

    /// Whether the locks of its run are those of this call.
    fn is_of_here(&self, call: &Call) -> bool {
        self.host == Call::host() && self.locks == Self::locks(call)
    }
}

/// What is changed for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target<'a> {
    Repository(&'a str),
    Cluster,
    /// Which indices clients create by writing to them.
    AutoCreate,
}

/// What the server has of it.
#[derive(Debug, Clone)]
struct Found<'a> {
    target: Target<'a>,
    /// The repository's definition, or all the cluster's settings.
    definition: Value,
    /// Those among which the setting and its note are.
    settings: Map<String, Value>,
    note: Option<Note>,
}

impl<'a> Target<'a> {
    /// The setting and the note; any key below `cluster.metadata.` is accepted.
    const fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Repository(_) => (SNAPSHOT, REPOSITORY_NOTE),
            Self::Cluster => (RESTORE, "cluster.metadata.svc_tools.rate"),
            Self::AutoCreate => (AUTO_CREATE, "cluster.metadata.svc_tools.auto_create"),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Repository(name) => format!("the rate of the repository {name} ({SNAPSHOT})"),
            Self::Cluster => format!("the rate of the cluster ({RESTORE})"),
            Self::AutoCreate => format!("the setting {AUTO_CREATE} of the cluster"),
        }
    }

    fn get(self, get: impl FnOnce(&str) -> Result<Value, Failure>) -> Result<Found<'a>, Failure> {
        match self {
            Self::Repository(name) => {
                let all = get(&path(&["_snapshot", name]))?;
                Ok(self.read(all.get(name).cloned().ok_or_else(|| repository::not_found(name))?))
            }
            Self::Cluster | Self::AutoCreate => get("/_cluster/settings?flat_settings=true").map(|all| self.read(all)),
        }
    }

    fn read(self, definition: Value) -> Found<'a> {
        let settings = if let Self::Repository(_) = self { "settings" } else { "persistent" };
        let settings = definition.get(settings).and_then(Value::as_object).cloned().unwrap_or_default();
        // One that is not understood is another host's.
        let read = |note: &Value| serde_json::from_str(note.as_str()?).ok().or_else(|| Some(Note::default()));
        let note = settings.get(self.keys().1).and_then(read);
        Found { target: self, definition, settings, note }
    }

    /// Puts it back to what the server had before the change of `note`; whether that change was still there.
    fn put_back(self, call: &Call, server: &Server, note: &Note, time: Duration) -> Result<bool, Failure> {
        let until = Instant::now() + server.at_most(if call.check().is_err() { time / 4 } else { time });
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
            match self.put_back_once(server, note, left) {
                Err(failure) if failure.status == Status::Unavailable && Instant::now() < until => thread::sleep(PAUSE),
                ended => return ended,
            }
        }
    }

    fn put_back_once(self, server: &Server, note: &Note, time: Duration) -> Result<bool, Failure> {
        let found = match self.get(|path| server.within(time, "GET", path, None)) {
            Err(failure) if failure.status == Status::NotFound => return Ok(false),
            found => found?,
        };
        if found.note.as_ref() != Some(note) {
            return Ok(false);
        }
        let (path, body) = found.restored();
        let refused = match found.harm() {
            Some(why) => format!("{why}."),
            None => match server.within(time, "PUT", &path, Some(&body)) {
                Err(failure) if failure.status != Status::Unavailable => failure.message,
                ended => return ended.map(|_| true),
            },
        };
        Err(Failure::new(Status::Refused, "rate_not_put_back", format!("{refused} {}", found.by_hand(server))))
    }
}

impl Found<'_> {
    /// The value without our change: what the note says was there, unless somebody has set another one since.
    fn was(&self) -> Option<String> {
        let value = self.settings.get(self.target.keys().0).and_then(Value::as_str);
        match &self.note {
            Some(note) if value == Some(note.set.as_str()) => note.was.clone(),
            _ => value.map(str::to_owned),
        }
    }

    /// The note of a run of this state folder that has ended.
    fn is_left(&self, call: &Call, server: &Server) -> bool {
        let holder = || match self.target {
            Target::Repository(name) => repository::holder(call, server, name),
            Target::Cluster | Target::AutoCreate => guard::holder(call, server),
        };
        let is_held = |note: &Note| holder() == Some(format!("{} (process {})", note.run, note.process));
        self.note.as_ref().is_some_and(|note| note.is_of_here(call) && !is_held(note))
    }

    /// Why it is left as it is.
    fn obstacle(&self, call: &Call, server: &Server) -> Option<String> {
        if let Some(note) = self.note.as_ref().filter(|_| !self.is_left(call, server)) {
            return Some(format!("the run {} on {} has changed it, and puts it back", note.run, note.host));
        }
        let transient = self.definition.get("transient").and_then(|transient| transient.get(self.target.keys().0));
        transient.map(|_| "a transient setting of the cluster takes precedence".to_owned()).or_else(|| self.harm())
    }

    /// Why it cannot be written again without harm. Since no secret is ever written again, plans and warnings may show the requests
    /// as they are sent.
    fn harm(&self) -> Option<String> {
        let Target::Repository(_) = self.target else { return None };
        let kind = self.definition.get("type").and_then(Value::as_str).unwrap_or_default();
        let mut settings = self.settings.clone();
        settings.shift_remove(REPOSITORY_NOTE);
        if !repository::SHOWN_WHOLE.contains(&kind) {
            Some(format!("a repository of the type {kind} may have settings that the server does not show, and would lose them"))
        } else if json_without_secrets(&settings) != settings {
            Some("the repository has secrets among its settings, and is not written again".to_owned())
        } else {
            None
        }
    }

    /// The `PUT` that sets the value (`None` unsets it) and the note (or removes it).
    fn request(&self, value: Option<&str>, note: Option<&Note>) -> (String, Value) {
        let (setting, noted) = self.target.keys();
        let (value, note) = (json!(value), json!(note.map(|note| json!(note).to_string())));
        let Target::Repository(name) = self.target else {
            return ("/_cluster/settings".to_owned(), json!({"persistent": {setting: value, noted: note}}));
        };
        let mut settings = self.settings.clone();
        settings.extend([(setting.to_owned(), value), (noted.to_owned(), note)]);
        settings.retain(|_, value| !value.is_null());
        // Its folder does not change, and its nodes have verified it.
        let path = format!("{}?verify=false", path(&["_snapshot", name]));
        (path, json!({"type": self.definition.get("type"), "settings": settings}))
    }

    fn restored(&self) -> (String, Value) {
        self.request(self.was().as_deref(), None)
    }

    /// How an operator puts it back: the command to type, or, where that would harm the repository or show its secrets, in words.
    fn by_hand(&self, server: &Server) -> String {
        let (path, body) = self.restored();
        if self.harm().is_none() {
            let body = body.to_string().replace('\'', r"'\''");
            return format!("curl -X PUT '{}{path}' -H 'Content-Type: application/json' -d '{body}'", server.url());
        }
        let path = path.trim_end_matches("?verify=false");
        let rate = self.was().map_or_else(|| format!("without {SNAPSHOT}"), |was| format!("with {SNAPSHOT} {was}"));
        format!(
            "GET {path} shows its settings: PUT {path} with all of them and those not shown, without {REPOSITORY_NOTE} and {rate}"
        )
    }
}

fn action((path, body): (String, Value)) -> Action {
    Action::request("PUT", path, Some(body))
}

/// A repository's settings without the change of a run, and whether that was a run of this state folder: whoever holds the
/// repository's lock knows that it has ended.
pub(crate) fn without_note(call: &Call, definition: &Value) -> (Map<String, Value>, bool) {
    let found = Target::Repository("").read(definition.clone());
    let (_, body) = found.restored();
    let settings = body.get("settings").and_then(Value::as_object).cloned().unwrap_or_default();
    (settings, found.note.is_some_and(|note| note.is_of_here(call)))
}

/// A change with what the server had before it.
#[derive(Debug)]
struct Change<'a> {
    found: Found<'a>,
    note: Note,
    /// Its answer may have been lost.
    is_answered: bool,
}

impl<'a> Change<'a> {
    fn of(call: &Call, found: Found<'a>, set: String) -> Self {
        let note = Note::new(call, found.was(), set);
        Self { found, note, is_answered: false }
    }

    fn request(&self) -> (String, Value) {
        self.found.request(Some(&self.note.set), Some(&self.note))
    }

    /// `requests` between those that make the change and put it back.
    fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        [action(self.request())].into_iter().chain(requests).chain([action(self.found.restored())]).collect()
    }

    fn make(self, server: &Server) -> Result<Self, Failure> {
        let (path, body) = self.request();
        match server.attempt("PUT", &path, Some(&body)) {
            Err(error) if error.effect == Effect::None => Err(error.failure),
            answer => Ok(Self { is_answered: answer.is_ok(), ..self }),
        }
    }

    /// Whether it was put back; `None` if it is unknown whether it was made.
    fn put_back(&self, call: &Call, server: &Server) -> Option<bool> {
        let name = self.found.target.name();
        match (self.found.target.put_back(call, server, &self.note, OWN_TIME), self.is_answered) {
            (Ok(true), _) | (Ok(false), true) => Some(true),
            (Err(failure), true) => {
                call.warn("rate_not_put_back", format!("After this change, {name} could not be put back: {failure}"));
                lasting(call);
                Some(false)
            }
            (_, false) => {
                call.warn("rate_unknown", format!(
                    "The request to change {name} was not answered, and its outcome is unknown. The next call of svc-snap that finds it changed puts it back."
                ));
                None
            }
        }
    }
}

/// An effect that stays, whatever else the step undoes.
fn lasting(call: &Call) {
    call.effects().happened();
    call.effects().stays();
}

/// The throttle of one step.
#[derive(Debug)]
pub(crate) struct Rates<'a> {
    left: Left<'a>,
    target: Target<'a>,
    used: Option<RateUsed>,
    planned: Option<Change<'a>>,
}

impl<'a> Rates<'a> {
    /// The repository's throttle, for a snapshot. What forbids a change is a warning (`rate_not_changed`), `why_not` for example.
    pub(crate) fn of_repository(
        call: &Call,
        server: &Server,
        name: &'a str,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let left = Left::find(call, server, Some(name))?;
        Self::plan(call, server, left, Target::Repository(name), rate, why_not)
    }

    /// The cluster's throttle, for a restore; left as it is where the cluster is not the service's alone.
    pub(crate) fn of_cluster(call: &Call, server: &Server, scope: &Scope, rate: &Rate) -> Result<Self, Failure> {
        let left = Left::find(call, server, None)?;
        let why_not = format!("it is the whole cluster's, and the scope is {scope} (--scope, SVC_INDICES), not *");
        Self::plan(call, server, left, Target::Cluster, rate, Some(why_not.as_str()).filter(|_| !scope.is_everything()))
    }

    fn plan(
        call: &Call,
        server: &Server,
        left: Left<'a>,
        target: Target<'a>,
        rate: &Rate,
        why_not: Option<&str>,
    ) -> Result<Self, Failure> {
        let setting = target.keys().0.to_owned();
        let used = rate.clone().map(|asked| RateUsed { asked, setting, was: None, set: None, put_back: None });
        let mut rates = Self { left, target, used, planned: None };
        rates.planned = rates.change(call, server, why_not);
        call.check()?;
        Ok(rates)
    }

    /// How it is changed, by what the server has of it now; `None` where it is left as it is.
    fn change(&mut self, call: &Call, server: &Server, why_not: Option<&str>) -> Option<Change<'a>> {
        let used = self.used.as_mut()?;
        let none = if self.target == Target::Cluster { "-1" } else { "0" };
        let wanted = if used.asked == "none" { none } else { used.asked.as_str() }.to_owned();
        let looks = server.for_looks();
        let found = match self.target.get(|path| looks.get(path)) {
            Ok(found) => found,
            Err(failure) => return self.leave(call, &why(&failure)),
        };
        used.was = found.was();
        if used.was.as_ref() == Some(&wanted) {
            return None;
        }
        match why_not.map(str::to_owned).or_else(|| found.obstacle(call, server)) {
            Some(why) => self.leave(call, &why),
            None => Some(Change::of(call, found, wanted)),
        }
    }

    fn leave<T>(&self, call: &Call, why: &str) -> Option<T> {
        call.warn("rate_not_changed", format!("Left as it is, {}: {}.", self.target.name(), why.trim_end_matches('.')));
        None
    }

    /// A plan's requests between those that change the throttle and put it back, and after those that put back what dead runs have
    /// left.
    pub(crate) fn around(&self, requests: Vec<Action>) -> Vec<Action> {
        let requests = match &self.planned {
            Some(change) if !requests.is_empty() => change.around(requests),
            _ => requests,
        };
        self.left.actions().chain(requests).collect()
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
        let made = self.make(call, server);
        let done = work();
        if let (Some(made), Some(used)) = (made, &mut self.used) {
            used.put_back = made.put_back(call, server);
        }
        self.account(call);
        done
    }

    /// By what the server has of it now, since it may have been changed after it was planned. A signal or the end of the time limit ends
    /// the work too.
    fn make(&mut self, call: &Call, server: &Server) -> Option<Change<'a>> {
        self.planned.take()?;
        let made = match self.change(call, server, None)?.make(server) {
            Ok(made) => made,
            Err(failure) => return self.leave(call, &why(&failure)),
        };
        self.used.iter_mut().for_each(|used| used.set = Some(made.note.set.clone()));
        Some(made)
    }

    /// A step that has undone all its effects may have left its throttle changed all the same.
    pub(crate) fn account(&self, call: &Call) {
        if self.used.as_ref().is_some_and(|used| used.set.is_some() && used.put_back.is_none()) {
            drop(call.effects().attempt());
        }
    }

    /// The end of a step that has undone all its effects.
    pub(crate) fn stopped<T>(&self, call: &Call, failure: Failure, result: T) -> Stopped<T> {
        self.account(call);
        Stopped::with(failure, result)
    }
}

/// A failure with the server's own words, which name a right that is missing.
fn why(failure: &Failure) -> String {
    failure.causes.last().map_or_else(|| failure.message.clone(), |cause| format!("{} ({cause})", failure.message))
}

/// What dead runs have left changed.
#[derive(Debug)]
pub(crate) struct Left<'a>(Vec<(Note, Found<'a>)>);

/// Whether a swap was interrupted after its exchange: clients are kept from creating indices of its names until it is finished.
fn is_swapping(server: &Server) -> bool {
    let marked = server.find("/_alias/svc-swapping-*?expand_wildcards=all");
    marked.is_ok_and(|marked| marked.and_then(|marked| marked.as_object().cloned()).is_some_and(|marked| !marked.is_empty()))
}

impl<'a> Left<'a> {
    /// Finds the notes of dead runs, on the cluster and on a repository; what cannot be read is passed over. A note whose run may be
    /// running is left alone, with a warning (`rate_left_changed`) that has the command which puts the setting back.
    pub(crate) fn find(call: &Call, server: &Server, repository: Option<&'a str>) -> Result<Self, Failure> {
        let looks = server.for_looks();
        let repository = repository.and_then(|name| Target::Repository(name).get(|path| looks.get(path)).ok());
        let cluster = Target::Cluster.get(|path| looks.get(path)).ok();
        // One answer has both.
        let auto_create = cluster.as_ref().map(|found| Target::AutoCreate.read(found.definition.clone()));
        let auto_create = auto_create.filter(|found| found.note.is_none() || !is_swapping(server));
        call.check()?;
        let mut left = Vec::new();
        for found in [repository, cluster, auto_create].into_iter().flatten() {
            let Some(note) = found.note.clone() else { continue };
            let why = match (found.is_left(call, server), found.harm()) {
                (true, None) => {
                    left.push((note, found));
                    continue;
                }
                (true, Some(why)) => why,
                (false, _) if note.is_of_here(call) => continue,
                (false, _) => "if it does not run any more".to_owned(),
            };
            let (Note { run, host, .. }, name, by_hand) = (note, found.target.name(), found.by_hand(server));
            call.warn("rate_left_changed", format!("The run {run} on {host} has changed {name}; {why}: {by_hand}"));
        }
        Ok(Self(left))
    }

    /// The requests that put them back.
    pub(crate) fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.0.iter().map(|(_, found)| action(found.restored()))
    }

    /// Puts them back. What the server refuses is a warning, and left to the next call. The caller holds the repository's lock.
    pub(crate) fn put_back(&self, call: &Call, server: &Server) {
        for (note, Found { target, .. }) in &self.0 {
            let of = format!("The run {} had left {} changed", note.run, target.name());
            match target.put_back(call, server, note, LEFT_TIME) {
                Ok(true) => {
                    lasting(call);
                    call.warn("rate_put_back", format!("{of}; it was put back ({}).", note.was.as_deref().unwrap_or("unset")));
                }
                Ok(false) => {}
                Err(why) => call.warn("rate_not_put_back", format!("{of}, and it could not be put back: {why}")),
            }
        }
    }

    /// The same for a step that does not hold the repository's lock: a repository is written again as a whole. Where another run
    /// holds it, that is a warning (`rate_left_changed`).
    pub(crate) fn put_back_alone(&self, call: &Call, server: &Server, repository: &str) {
        if self.0.is_empty() {
            return;
        }
        match repository::hold(call, server, repository) {
            Ok(_lock) => self.put_back(call, server),
            Err(_) => self.remark(call),
        }
    }

    /// Only says that they are there (`rate_left_changed`).
    pub(crate) fn remark(&self, call: &Call) {
        for (note, found) in &self.0 {
            let (run, name) = (&note.run, found.target.name());
            let message =
                format!("The run {run} has left {name} changed; the next svc-snap step that changes something puts it back.");
            call.warn("rate_left_changed", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(settings: Value) -> Found<'static> {
        Target::Repository("r").read(json!({"type": "fs", "uuid": "u", "settings": settings}))
    }

    fn note(was: Option<&str>) -> Note {
        Note { run: "r".to_owned(), was: was.map(str::to_owned), set: "0".to_owned(), ..Note::default() }
    }

    #[test]
    fn a_rate_is_a_word_or_a_size_a_second() {
        for (text, expected) in [("100mb", "100mb"), ("100MB", "100mb"), ("2g", "2gb"), ("64k", "64kb"), ("0070k", "70kb")] {
            assert_eq!(rate(text), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!((rate("none"), rate("server")), (Ok(Some("none".to_owned())), Ok(None)));
        for bad in ["", "fast", "0", "0mb", "5", "100b", "63kb", "-1", "1.5mb", "mb", "10mb/s", "99999999999g"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_repository_keeps_all_its_other_settings_there_and_back() {
        let settings = |(_, body): (String, Value)| body["settings"].clone();
        for was in [None, Some("5mb")] {
            let mut before = json!({"location": "/x", "a": {"b": "c"}});
            if let Some(was) = was {
                before[SNAPSHOT] = json!(was);
            }
            let mut off = settings(repository(before.clone()).request(Some("0"), Some(&note(was))));
            assert_eq!((&off[SNAPSHOT], &off["location"]), (&json!("0"), &json!("/x")));
            let changed = repository(off.clone());
            assert_eq!((settings(changed.restored()), changed.note), (before, Some(note(was))));
            // Another value that somebody has set since stays.
            off[SNAPSHOT] = json!("9mb");
            assert_eq!(settings(repository(off).restored())[SNAPSHOT], "9mb");
        }
        assert_eq!(repository(json!({REPOSITORY_NOTE: "what?"})).note, Some(Note::default()));
    }

    #[test]
    fn what_could_be_lost_or_shown_is_never_written_again() {
        assert_eq!(repository(json!({"location": "/x", REPOSITORY_NOTE: json!(note(None)).to_string()})).harm(), None);
        for settings in [json!({"client.secret_key": "x"}), json!({"url": "http://me:s3cret@far/"})] {
            let why = repository(settings.clone()).harm();
            assert!(why.is_some_and(|why| !why.contains("s3cret")), "{settings}");
        }
        assert!(Target::Repository("r").read(json!({"type": "s3", "settings": {}})).harm().is_some());
    }
}
