//! The two throttles: that of a repository on snapshots, and that of the cluster on restores. What the server has of one, and the
//! request that changes it together with its note.

use std::time::Duration;

use serde_json::{Map, Value, json};
use svc_step::Failure;
use svc_step::action::Action;
use svc_step::line_secrets::json_without_secrets;

use crate::rate::Rate;
use crate::rate::note::Note;
use crate::repository;
use crate::server::Server;
use crate::server::json::text;
use crate::server::path::path;

/// The throttle of a repository on snapshots; `0` is none.
const SNAPSHOT: &str = "max_snapshot_bytes_per_sec";
/// The throttle of a cluster on restores; `-1` is none.
const RESTORE: &str = "indices.recovery.max_bytes_per_sec";
/// Our note among a repository's settings.
const REPOSITORY_NOTE: &str = "svc_tools_rate";
/// Our note among the cluster's settings: everything below `cluster.metadata.` is free.
const CLUSTER_NOTE: &str = "cluster.metadata.svc_tools.rate";
/// Which indices come into being by themselves when a client writes to them.
const AUTO_CREATE: &str = "action.auto_create_index";
/// Our note of that.
const AUTO_CREATE_NOTE: &str = "cluster.metadata.svc_tools.auto_create";

/// A throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Throttle<'a> {
    /// That of a repository.
    Repository(&'a str),
    /// That of the cluster.
    Cluster,
    /// No throttle, and changed and put back as one: which indices clients create by writing to them.
    AutoCreate,
}

/// What the server has of a throttle.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    /// A repository's name, and its definition (2.1).
    Repository(String, Value),
    /// The setting that it is about, and its note; the cluster's persistent and transient settings, by their full names.
    Cluster(Names, Map<String, Value>, Map<String, Value>),
}

/// The names of a setting and of our note of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Names {
    setting: &'static str,
    note: &'static str,
}

/// Those of the throttle on restores.
const RESTORES: Names = Names { setting: RESTORE, note: CLUSTER_NOTE };
/// Those of what clients create.
const CREATES: Names = Names { setting: AUTO_CREATE, note: AUTO_CREATE_NOTE };

impl Throttle<'_> {
    /// The setting's name.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Repository(_) => SNAPSHOT,
            Self::Cluster => RESTORE,
            Self::AutoCreate => AUTO_CREATE,
        }
    }

    /// The throttle for people.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Repository(name) => format!("the repository {name} ({SNAPSHOT})"),
            Self::Cluster => format!("the cluster ({RESTORE})"),
            Self::AutoCreate => format!("the cluster ({AUTO_CREATE})"),
        }
    }

    /// What is changed, for people.
    pub(crate) fn what(self) -> String {
        match self {
            Self::AutoCreate => format!("the setting {AUTO_CREATE} of the cluster"),
            throttle => format!("the rate of {}", throttle.name()),
        }
    }

    /// What is asked for, and how the server writes it; `None` where the throttle is to be left alone.
    pub(crate) fn wanted(self, rate: &Rate) -> Option<(String, String)> {
        match (rate, self) {
            (Rate::Server, _) | (_, Self::AutoCreate) => None,
            (Rate::Unlimited, Self::Repository(_)) => Some(("unlimited".to_owned(), "0".to_owned())),
            (Rate::Unlimited, Self::Cluster) => Some(("unlimited".to_owned(), "-1".to_owned())),
            (Rate::Size(size), _) => Some((size.clone(), size.clone())),
        }
    }

    /// What the server has of it.
    ///
    /// # Errors
    /// It is not there (4); the server does not answer, or refuses; a signal, or the end of the time limit.
    pub(crate) fn look(self, server: &Server) -> Result<Seen, Failure> {
        let server = server.for_looks();
        self.look_by(|path| server.get(path))
    }

    /// The same with so much time and no more, whatever signal or time limit has come.
    ///
    /// # Errors
    /// It is not there (4); the server does not answer, or refuses.
    pub(crate) fn look_within(self, server: &Server, time: Duration) -> Result<Seen, Failure> {
        self.look_by(|path| server.within(time, "GET", path, None))
    }

    fn look_by(self, get: impl FnOnce(&str) -> Result<Value, Failure>) -> Result<Seen, Failure> {
        match self {
            Self::Repository(name) => {
                let all = get(&path(&["_snapshot", name]))?;
                let definition = all.get(name).cloned().ok_or_else(|| repository::not_found(name))?;
                Ok(Seen::Repository(name.to_owned(), definition))
            }
            Self::Cluster | Self::AutoCreate => {
                let all = get("/_cluster/settings?flat_settings=true")?;
                let part = |name: &str| all.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
                let names = if self == Self::Cluster { RESTORES } else { CREATES };
                Ok(Seen::Cluster(names, part("persistent"), part("transient")))
            }
        }
    }
}

impl Seen {
    /// The same answer of the cluster read for what clients create.
    pub(crate) fn for_auto_create(&self) -> Option<Self> {
        match self {
            Self::Repository(..) => None,
            Self::Cluster(_, persistent, transient) => Some(Self::Cluster(CREATES, persistent.clone(), transient.clone())),
        }
    }

    /// The value that is in force, or, where there is a note, the one in the place that it speaks of; `None` where none is set.
    fn value(&self) -> Option<String> {
        let found = match self {
            Self::Repository(_, definition) => definition.get("settings").and_then(|settings| settings.get(SNAPSHOT)),
            Self::Cluster(names, _, transient) if self.is_transient() => transient.get(names.setting),
            Self::Cluster(names, persistent, _) => persistent.get(names.setting),
        };
        found.and_then(Value::as_str).map(str::to_owned)
    }

    /// Our note in it.
    pub(crate) fn note(&self) -> Option<Note> {
        let found = match self {
            Self::Repository(_, definition) => definition.get("settings").and_then(|settings| settings.get(REPOSITORY_NOTE)),
            Self::Cluster(names, persistent, _) => persistent.get(names.note),
        };
        found.and_then(Value::as_str).map(Note::read)
    }

    /// The value without our change: what the note says was there, unless somebody has set another one since.
    pub(crate) fn was(&self) -> Option<String> {
        let value = self.value();
        match self.note() {
            Some(note) if value.as_ref() == Some(&note.set) => note.was,
            _ => value,
        }
    }

    /// Whether what our note speaks of is in force still.
    pub(crate) fn is_changed(&self) -> bool {
        self.note().is_some_and(|note| note.token.is_empty() || self.value().as_ref() == Some(&note.set))
    }

    /// Whether it is a transient setting of the cluster, which wins over a persistent one, that is in force or was changed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Repository(..) => false,
            Self::Cluster(names, _, transient) => {
                self.note().map_or_else(|| transient.contains_key(names.setting), |note| note.transient)
            }
        }
    }

    /// Why it is to be left as it is.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let Self::Repository(_, definition) = self else { return None };
        let readonly = text(definition, "/settings/readonly") == Some("true");
        self.harm().or_else(|| readonly.then(|| "the repository is registered read-only".to_owned()))
    }

    /// Why it cannot be written anew without harm. Since nothing that a document must not show is ever written anew, plans and
    /// warnings may show the requests as they are sent.
    pub(crate) fn harm(&self) -> Option<String> {
        let Self::Repository(_, definition) = self else { return None };
        let kind = text(definition, "/type").unwrap_or_default();
        let known = |key: &String| ["type", "settings", "uuid"].contains(&key.as_str());
        // Our own note is none of them.
        let settings = definition.get("settings").and_then(Value::as_object).map(|all| {
            let mut all = all.clone();
            all.shift_remove(REPOSITORY_NOTE);
            all
        });
        if !repository::SHOWN_WHOLE.contains(&kind) || !definition.as_object().is_some_and(|all| all.keys().all(known)) {
            Some(format!(
                "a repository of the type {kind} may have settings that the search database does not show, and would lose them"
            ))
        } else if settings.is_some_and(|all| json_without_secrets(&all) != all) {
            Some("the repository has secrets among its settings, and is not written anew".to_owned())
        } else {
            None
        }
    }

    /// The request that sets the value (or, with `None`, unsets it) and the note (or takes it away).
    pub(crate) fn with(&self, value: Option<&str>, note: Option<&Note>) -> Action {
        let note_text = note.map(Note::text);
        match self {
            Self::Repository(name, definition) => {
                let mut settings = definition.get("settings").and_then(Value::as_object).cloned().unwrap_or_default();
                for (key, text) in [(SNAPSHOT, value), (REPOSITORY_NOTE, note_text.as_deref())] {
                    match text {
                        Some(text) => settings.insert(key.to_owned(), json!(text)),
                        None => settings.shift_remove(key),
                    };
                }
                let body = json!({"type": definition.get("type"), "settings": settings});
                // Its place does not change, and its nodes have proven it.
                Action::request("PUT", format!("{}?verify=false", path(&["_snapshot", name])), Some(body))
            }
            Self::Cluster(Names { setting, note: key }, _, transient) => {
                // A transient setting that has gone since was lost with the cluster's restart: only the note is left.
                let body = match (self.is_transient(), note.is_some() || transient.contains_key(*setting)) {
                    (false, _) => json!({"persistent": {*setting: value, *key: note_text}}),
                    (true, true) => json!({"transient": {*setting: value}, "persistent": {*key: note_text}}),
                    (true, false) => json!({"persistent": {*key: note_text}}),
                };
                Action::request("PUT", "/_cluster/settings", Some(body))
            }
        }
    }
}

/// A repository's settings without our change, and the note that was among them.
pub(crate) fn without_note(settings: &Map<String, Value>) -> (Map<String, Value>, Option<Note>) {
    let seen = Seen::Repository(String::new(), json!({"settings": settings}));
    let note = seen.note();
    let mut settings = settings.clone();
    if note.is_some() {
        settings.shift_remove(REPOSITORY_NOTE);
        match seen.was() {
            Some(was) => settings.insert(SNAPSHOT.to_owned(), json!(was)),
            None => settings.shift_remove(SNAPSHOT),
        };
    }
    (settings, note)
}

/// A repository's settings with the change of a run that is at work; its put-back brings what `settings` say.
pub(crate) fn with_note(settings: &Map<String, Value>, note: Note) -> Map<String, Value> {
    let mut settings = settings.clone();
    let was = settings.get(SNAPSHOT).and_then(Value::as_str).map(str::to_owned);
    settings.insert(SNAPSHOT.to_owned(), json!(note.set));
    settings.insert(REPOSITORY_NOTE.to_owned(), json!(Note { was, ..note }.text()));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(was: Option<&str>, transient: bool) -> Note {
        let text = |text: &str| text.to_owned();
        Note { run: text("r"), host: text("h"), token: text("t"), was: was.map(text), set: text("0"), transient }
    }

    fn repository(settings: Value) -> Seen {
        Seen::Repository("r".to_owned(), json!({"type": "fs", "uuid": "u", "settings": settings}))
    }

    fn body(action: Action) -> Value {
        match action {
            Action::Request { body, .. } => body.map(|body| body.value()).unwrap_or_default(),
            _ => Value::Null,
        }
    }

    fn settings(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_repository_keeps_all_its_other_settings_there_and_back() {
        let seen = repository(json!({"location": "/x", "max_snapshot_bytes_per_sec": "5mb", "a": {"b": "c"}}));
        let off = body(seen.with(Some("0"), Some(&note(Some("5mb"), false))));
        assert_eq!(off["settings"]["location"], "/x");
        assert_eq!((&off["settings"]["max_snapshot_bytes_per_sec"], &off["settings"]["a"]["b"]), (&json!("0"), &json!("c")));
        let after = repository(off["settings"].clone());
        assert_eq!((after.value().as_deref(), after.was().as_deref()), (Some("0"), Some("5mb")));
        let back = body(after.with(after.was().as_deref(), None));
        assert_eq!(
            back,
            json!({"type": "fs", "settings": {"location": "/x", "a": {"b": "c"}, "max_snapshot_bytes_per_sec": "5mb"}})
        );
    }

    #[test]
    fn what_somebody_else_has_set_since_stays() {
        let text = note(Some("5mb"), false).text();
        let seen = repository(json!({"max_snapshot_bytes_per_sec": "80mb", "svc_tools_rate": text}));
        assert_eq!(seen.was().as_deref(), Some("80mb"));
    }

    #[test]
    fn a_cluster_that_had_nothing_set_has_nothing_set_afterwards() {
        let seen = Seen::Cluster(RESTORES, Map::new(), Map::new());
        let off = body(seen.with(Some("-1"), Some(&note(None, false))));
        assert_eq!(off["persistent"][RESTORE], "-1");
        assert_eq!(body(seen.with(None, None)), json!({"persistent": {RESTORE: null, CLUSTER_NOTE: null}}));
    }

    #[test]
    fn a_transient_setting_wins_and_is_the_one_that_is_changed() {
        let seen = Seen::Cluster(RESTORES, settings(json!({RESTORE: "10mb"})), settings(json!({RESTORE: "20mb"})));
        assert_eq!(seen.value().as_deref(), Some("20mb"));
        let back = body(seen.with(Some("20mb"), None));
        assert_eq!(back, json!({"transient": {RESTORE: "20mb"}, "persistent": {CLUSTER_NOTE: null}}));
        let restarted = Seen::Cluster(RESTORES, settings(json!({CLUSTER_NOTE: note(Some("20mb"), true).text()})), Map::new());
        assert_eq!(body(restarted.with(restarted.was().as_deref(), None)), json!({"persistent": {CLUSTER_NOTE: null}}));
    }

    #[test]
    fn a_repository_that_may_hide_settings_is_not_written_anew() {
        let of = |kind: &str, settings: Value| Seen::Repository("r".to_owned(), json!({"type": kind, "settings": settings}));
        assert!(of("fs", json!({"location": "/x"})).obstacle().is_none());
        assert!(of("s3", json!({"bucket": "b"})).obstacle().is_some());
        assert!(of("hdfs", json!({"conf": {"secret_key": "s"}})).obstacle().is_some());
        assert!(of("hdfs", json!({"uri": "hdfs://me:pw@host/"})).obstacle().is_some());
        assert!(of("hdfs", json!({"conf": {"uri": "hdfs://me:pw@host/"}})).harm().is_some());
        let readonly = of("fs", json!({"readonly": "true"}));
        assert!(readonly.obstacle().is_some() && readonly.harm().is_none());
        let crypto = json!({"type": "fs", "settings": {}, "crypto_settings": {}});
        assert!(Seen::Repository("r".to_owned(), crypto).obstacle().is_some());
    }

    #[test]
    fn a_register_meanwhile_says_what_is_put_back() {
        let registered = with_note(&settings(json!({"location": "/x", SNAPSHOT: "9mb"})), note(None, false));
        let (without, found) = without_note(&registered);
        assert_eq!(without, settings(json!({"location": "/x", SNAPSHOT: "9mb"})));
        assert_eq!(found.and_then(|note| note.was).as_deref(), Some("9mb"));
    }
}
