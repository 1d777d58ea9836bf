//! The requests by which indices are cloned, blocked, exchanged and settled, each as a plan prints it and as it is sent.

use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::{Call, Failure};

use crate::index::portions;
use crate::server::Server;
use crate::server::path::path;

/// One request that clones indices or swaps them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Opens closed indices for their clones.
    Open(Vec<String>),
    /// Closes them again.
    Close(Vec<String>),
    /// Blocks writes to all of these, and waits for those under way.
    Block(Vec<String>),
    /// Takes the block off all of these again.
    Unblock(Vec<String>),
    /// Clones what is live to a name of ours, without the settings of its lifecycle.
    CloneLive { from: String, to: String, lifecycle: Vec<String> },
    /// Removes copies of ours.
    Delete(Vec<String>),
    /// One call: indices are removed and aliases are moved, all of it or nothing.
    Aliases(Vec<Value>),
    /// Clones a copy of ours to the live name.
    CloneCopy { from: String, to: String, marker: String },
    /// Gives indices these settings.
    Set { indices: Vec<String>, settings: Value },
}

impl Act {
    /// As many requests of one kind as these names need.
    pub(crate) fn each<'a>(names: impl IntoIterator<Item = &'a str>, act: impl Fn(Vec<String>) -> Self) -> Vec<Self> {
        let names: Vec<&str> = names.into_iter().collect();
        portions(&names).into_iter().map(|names| act(names.iter().map(|&name| name.to_owned()).collect())).collect()
    }

    /// The request that does it.
    pub(crate) fn request(&self) -> (&'static str, String, Option<Value>) {
        let of = |names: &[String], rest: &[&str]| path(&[&[names.join(",").as_str()], rest].concat());
        match self {
            // Whether its shards are there is looked up before anything relies on it.
            Self::Open(indices) => ("POST", format!("{}?wait_for_active_shards=0", of(indices, &["_open"])), None),
            Self::Close(indices) => ("POST", of(indices, &["_close"]), None),
            Self::Block(indices) => ("PUT", of(indices, &["_block", "write"]), None),
            Self::Unblock(indices) => ("PUT", of(indices, &["_settings"]), Some(json!({"index.blocks.write": null}))),
            Self::CloneLive { from, to, lifecycle } => {
                let mut settings = copy_settings();
                settings.extend(lifecycle.iter().map(|name| (name.clone(), Value::Null)));
                ("POST", clone(from, to), Some(json!({ "settings": settings })))
            }
            Self::Delete(indices) => ("DELETE", of(indices, &[]), None),
            Self::Aliases(actions) => ("POST", "/_aliases".to_owned(), Some(json!({ "actions": actions }))),
            Self::CloneCopy { from, to, marker } => {
                let body = json!({"settings": copy_settings(), "aliases": {marker: {"is_hidden": true}}});
                ("POST", clone(from, to), Some(body))
            }
            Self::Set { indices, settings } => ("PUT", of(indices, &["_settings"]), Some(settings.clone())),
        }
    }

    /// The same for each of its indices alone.
    pub(crate) fn one_by_one(&self) -> Vec<Self> {
        let each =
            |names: &[String], act: &dyn Fn(Vec<String>) -> Self| names.iter().map(|name| act(vec![name.clone()])).collect();
        match self {
            Self::Close(names) => each(names, &Self::Close),
            Self::Unblock(names) => each(names, &Self::Unblock),
            Self::Delete(names) => each(names, &Self::Delete),
            Self::Set { indices, settings } => each(indices, &|indices| Self::Set { indices, settings: settings.clone() }),
            act => vec![act.clone()],
        }
    }

    /// The request as a plan has it.
    pub(crate) fn action(&self) -> Action {
        let (method, path, body) = self.request();
        Action::request(method, path, body)
    }

    /// Sends it.
    pub(crate) fn send(&self, call: &Call, server: &Server) -> Result<(), Failure> {
        let (method, path, body) = self.request();
        call.people().detail(&format!("{method} {path}"));
        server.change(call, method, &path, body.as_ref()).map(drop)
    }
}

/// The request is answered when the clone is known to the cluster. Whether its shards are there is looked up before anything
/// relies on it, so that the shards of many clones start side by side.
fn clone(from: &str, to: &str) -> String {
    format!("{}?wait_for_active_shards=0", path(&[from, "_clone", to]))
}

/// A clone is hidden, takes no writes and has no replicas until it is settled. (A setting of `null` would stay among its settings.)
fn copy_settings() -> Map<String, Value> {
    let settings = [
        ("index.hidden", json!(true)),
        ("index.number_of_replicas", json!(0)),
        ("index.auto_expand_replicas", json!("false")),
        ("index.blocks.write", json!(true)),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
