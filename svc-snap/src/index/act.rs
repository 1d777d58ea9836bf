//! The requests by which an index is cloned, blocked, exchanged and settled, each as a plan prints it and as it is sent.

use serde_json::{Map, Value, json};
use svc_step::action::Action;
use svc_step::{Call, Failure};

use crate::server::Server;
use crate::server::path::path;

/// One request that sets an index aside or swaps it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Opens a closed index for its clone.
    Open(String),
    /// Closes it again.
    Close(String),
    /// Blocks writes to all of these, and waits for those under way.
    Block(Vec<String>),
    /// Takes the block off all of these again.
    Unblock(Vec<String>),
    /// Clones what is live to a name of ours.
    Keep { from: String, to: String, lifecycle: Vec<String> },
    /// Removes an incomplete or outdated copy of ours.
    Discard(String),
    /// One call: what is live goes, its aliases come to the staged copies.
    Exchange(Vec<Value>),
    /// Clones the staged copy to the live name.
    Clone { from: String, to: String, hidden: bool, marker: String },
    /// Gives the clones their replicas and their lifecycle, and lets them take writes.
    Settle { indices: Vec<String>, settings: Value },
    /// Gives it the blocks that forbid to change it any more: the last request of all.
    SetBlocks { index: String, settings: Value },
    /// One call: the aliases come to the new indices, the staged copies go, and the markers.
    Finish(Vec<Value>),
}

impl Act {
    /// The request that does it.
    pub(crate) fn request(&self) -> (&'static str, String, Option<Value>) {
        let aliases = |actions: &[Value]| Some(json!({ "actions": actions }));
        match self {
            Self::Open(index) => ("POST", path(&[index, "_open"]), None),
            Self::Close(index) => ("POST", path(&[index, "_close"]), None),
            Self::Block(indices) => ("PUT", path(&[&indices.join(","), "_block", "write"]), None),
            Self::Unblock(indices) => {
                ("PUT", path(&[&indices.join(","), "_settings"]), Some(json!({"index.blocks.write": null})))
            }
            Self::Keep { from, to, lifecycle } => {
                let mut settings = copy_settings(json!(true));
                settings.extend(lifecycle.iter().map(|name| (name.clone(), Value::Null)));
                ("POST", clone(from, to), Some(json!({ "settings": settings })))
            }
            Self::Discard(index) => ("DELETE", path(&[index]), None),
            Self::Exchange(actions) | Self::Finish(actions) => ("POST", "/_aliases".to_owned(), aliases(actions)),
            Self::Clone { from, to, hidden, marker } => {
                let settings = copy_settings(if *hidden { json!(true) } else { Value::Null });
                let mut aliases = Map::new();
                aliases.insert(marker.clone(), json!({"is_hidden": true}));
                ("POST", clone(from, to), Some(json!({"settings": settings, "aliases": aliases})))
            }
            Self::SetBlocks { index, settings } => ("PUT", path(&[index, "_settings"]), Some(settings.clone())),
            Self::Settle { indices, settings } => ("PUT", path(&[&indices.join(","), "_settings"]), Some(settings.clone())),
        }
    }

    /// The request as a plan has it.
    pub(crate) fn action(&self) -> Action {
        let (method, path, body) = self.request();
        Action::request(method, path, body)
    }

    /// Sends it.
    ///
    /// # Errors
    /// As [`Server::change`].
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

/// A clone takes no writes and has no replicas until it is proven.
fn copy_settings(hidden: Value) -> Map<String, Value> {
    let mut settings = Map::new();
    settings.insert("index.hidden".to_owned(), hidden);
    settings.insert("index.number_of_replicas".to_owned(), json!(0));
    settings.insert("index.auto_expand_replicas".to_owned(), json!("false"));
    settings.insert("index.blocks.write".to_owned(), json!(true));
    settings
}
