//! The requests by which indices are cloned, blocked, exchanged and given their settings, each as a plan prints it and as it is sent.

use serde_json::{Map, Value, json};
use svc_step::{Action, Call, Failure};

use crate::client::{Server, path};
use crate::index::portions;

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
    /// Clones an index without these settings of its lifecycle, and with a hidden alias as a marker.
    Clone { from: String, to: String, lifecycle: Vec<String>, marker: Option<String> },
    /// Removes copies of ours.
    Delete(Vec<String>),
    /// One call: indices are removed and aliases are moved, all of it or nothing.
    Aliases(Vec<Value>),
    /// Gives indices these settings.
    Set { indices: Vec<String>, settings: Value },
}

impl Act {
    /// As many requests of one kind as these names need.
    pub(crate) fn each<T: AsRef<str>>(names: impl IntoIterator<Item = T>, act: impl Fn(Vec<String>) -> Self) -> Vec<Self> {
        let owned = |names: Vec<T>| names.iter().map(|name| name.as_ref().to_owned()).collect();
        portions(names).into_iter().map(|names| act(owned(names))).collect()
    }

    pub(crate) fn request(&self) -> (&'static str, String, Option<Value>) {
        let of = |names: &[String], rest: &[&str]| path(&[&[names.join(",").as_str()], rest].concat());
        match self {
            // Whether its shards are there is looked up before anything relies on it.
            Self::Open(indices) => ("POST", format!("{}?wait_for_active_shards=0", of(indices, &["_open"])), None),
            Self::Close(indices) => ("POST", of(indices, &["_close"]), None),
            Self::Block(indices) => ("PUT", of(indices, &["_block", "write"]), None),
            Self::Unblock(indices) => ("PUT", of(indices, &["_settings"]), Some(json!({"index.blocks.write": null}))),
            // It is answered when the clone is known to the cluster, so that the shards of many clones start in parallel.
            Self::Clone { from, to, lifecycle, marker } => {
                let mut settings = copy_settings();
                settings.extend(lifecycle.iter().map(|name| (name.clone(), Value::Null)));
                let aliases = marker.iter().map(|marker| (marker.clone(), json!({"is_hidden": true})));
                let body = json!({"settings": settings, "aliases": aliases.collect::<Map<_, _>>()});
                ("POST", format!("{}?wait_for_active_shards=0", path(&[from, "_clone", to])), Some(body))
            }
            Self::Delete(indices) => ("DELETE", of(indices, &[]), None),
            Self::Aliases(actions) => ("POST", "/_aliases".to_owned(), Some(json!({ "actions": actions }))),
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

    pub(crate) fn action(&self) -> Action {
        let (method, path, body) = self.request();
        Action::request(method, path, body)
    }

    pub(crate) fn send(&self, call: &Call, server: &Server) -> Result<(), Failure> {
        let (method, path, body) = self.request();
        call.reporter().detail(&format!("{method} {path}"));
        server.change(call, method, &path, body.as_ref()).map(drop)
    }
}

/// A copy is hidden, takes no writes and has no replicas until it becomes live. (A setting of `null` would stay among its settings.)
pub(crate) fn copy_settings() -> Map<String, Value> {
    let settings = json!({"index.hidden": true, "index.number_of_replicas": 0, "index.auto_expand_replicas": "false",
        "index.blocks.write": true});
    settings.as_object().cloned().unwrap_or_default()
}

/// The action of an `_aliases` call that gives an index an alias with all that it had.
pub(crate) fn give(index: &str, alias: &str, properties: &Map<String, Value>) -> Value {
    let mut add = properties.clone();
    add.extend([("index".to_owned(), json!(index)), ("alias".to_owned(), json!(alias))]);
    json!({ "add": add })
}

pub(crate) fn remove_index(name: &str) -> Value {
    json!({"remove_index": {"index": name}})
}
