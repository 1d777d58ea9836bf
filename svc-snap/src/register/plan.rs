//! What `register` is to do, from what is asked for and what the server has.

use serde_json::{Value, json};
use svc_step::Failure;
use svc_step::action::Action;
use svc_step::line_secrets::json_without_secrets;

use super::definition::Definition;
use super::refused::{differs, elsewhere};
use super::{Before, Registered};
use crate::rate::{Note, with_note};
use crate::server::path::path;

/// What the server has of that name.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Its definition, as it was registered.
    pub before: Option<Definition>,
    /// The note of a run that has changed its rate.
    pub note: Option<Note>,
    /// Whether that run is dead.
    pub is_left: bool,
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    /// Whether it is registered just so.
    pub same: bool,
    /// The request's path.
    pub request: String,
    /// Its body, with secrets.
    pub body: Value,
    /// The result, should it be done.
    pub registered: Registered,
}

impl Plan {
    /// # Errors
    /// Another repository has that name, or has settings that would be lost or changed, and it is not to be replaced (3).
    pub(super) fn of(cluster_uuid: &str, name: &str, wanted: &Definition, found: &Found, replace: bool) -> Result<Self, Failure> {
        let before = found.before.as_ref();
        if let Some(before) = before.filter(|_| !replace) {
            if before.is_elsewhere(wanted) {
                return Err(elsewhere(name, before));
            }
            let lost = before.lost_with(wanted);
            if !lost.is_empty() {
                return Err(differs(name, &lost));
            }
        }
        // The rate that a dead run has left is put back; that of a run at work stays, and what it will put back is what is wanted.
        let same = before == Some(wanted) && !found.is_left;
        let sent = match found.note.clone().filter(|_| !found.is_left) {
            Some(note) => with_note(&wanted.settings, note),
            None => wanted.settings.clone(),
        };
        let request = path(&["_snapshot", name]);
        let shown = json!({"type": wanted.kind, "settings": json_without_secrets(&sent)});
        let registered = Registered {
            cluster_uuid: cluster_uuid.to_owned(),
            repository: name.to_owned(),
            kind: wanted.kind.clone(),
            settings: json_without_secrets(&wanted.settings),
            before: before.map(|before| Before { kind: before.kind.clone(), settings: json_without_secrets(&before.settings) }),
            plan: if same { Vec::new() } else { vec![Action::request("PUT", request.as_str(), Some(shown))] },
        };
        Ok(Self { same, request, body: json!({"type": wanted.kind, "settings": sent}), registered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(settings: Value) -> Definition {
        Definition::read(&json!({"type": "fs", "settings": settings}))
    }

    #[test]
    fn a_repository_is_sent_where_it_is_not_just_so_and_another_one_is_left_alone() {
        let wanted = definition(json!({"location": "/a", "compress": "true"}));
        let plan = |before: Option<Value>, is_left: bool, replace: bool| {
            let found = Found { before: before.map(definition), note: None, is_left };
            Plan::of("u", "r", &wanted, &found, replace)
        };
        let same = || Some(json!({"location": "/a", "compress": "true"}));
        assert!(!plan(None, false, false).unwrap().same);
        let just_so = plan(same(), false, false).unwrap();
        assert!(just_so.same && just_so.registered.plan.is_empty());
        // What a dead run has left is put back.
        assert!(!plan(same(), true, false).unwrap().same);
        assert_eq!(plan(Some(json!({"location": "/b"})), false, false).unwrap_err().code, "repository_elsewhere");
        // What it has beside what is asked for is not dropped in silence; what it lacks is added.
        let more = json!({"location": "/a", "compress": "false", "readonly": "true", "sas_token": "hunter2"});
        let failure = plan(Some(more.clone()), false, false).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "repository_differs"));
        for named in ["compress (false, and not true)", "readonly (true)", "sas_token (<redacted>)"] {
            assert!(failure.message.contains(named), "{failure}");
        }
        assert!(plan(Some(more), false, true).is_ok() && plan(Some(json!({"location": "/a"})), false, false).is_ok());
        let replaced = plan(Some(json!({"location": "/b"})), false, true).unwrap();
        assert_eq!(replaced.registered.before.unwrap().settings["location"], "/b");
        assert_eq!((replaced.request.as_str(), &replaced.body["settings"]["location"]), ("/_snapshot/r", &json!("/a")));
    }
}
