//! An aside as its document and its note have it, and what it left blocked when it was cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::{Call, Failure};

use crate::index::act::Act;
use crate::index::resolve::PassedOver;
use crate::index::shape::Shape;
use crate::index::{look, portions};
use crate::server::Server;

/// A standing copy of the live indices.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Aside {
    /// The cluster.
    pub cluster_uuid: String,
    /// The run whose copies these are; their names hold it, and `--run` takes it.
    pub run: String,
    /// The patterns that were asked for.
    pub asked_for: String,
    /// Every index that is set aside.
    pub indices: Vec<AsideIndex>,
    /// What else is live, and why it is not set aside.
    pub skipped: Vec<PassedOver>,
    /// Live indices that take writes again: a call that was killed had left them blocked, and this one found it noted.
    pub released: Vec<String>,
    /// The requests, in their order.
    pub plan: Vec<Action>,
}

/// One index that is set aside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AsideIndex {
    /// The name of the live index.
    pub index: String,
    /// The name of its copy: hidden, without writes, replicas, aliases and lifecycle.
    pub aside: String,
    /// How far it has come.
    pub state: AsideState,
    /// The `uuid` of the live index.
    pub live_uuid: String,
    /// The `uuid` of the copy, or `null` before it is proven.
    pub uuid: Option<String>,
    /// How many documents both hold, counted while the live one took no writes; `null` before it is proven.
    pub docs_count: Option<u64>,
    /// What the live index has beside its documents; it has it again when its copy is swapped in.
    pub shape: Shape,
}

/// How far an index has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsideState {
    /// Nothing was asked of the server yet.
    Planned,
    /// It is being cloned: the live index takes no writes until it is done.
    Blocked,
    /// Its copy is whole and holds as many documents, and the live index is as it was.
    Proven,
    /// Its copy was removed again, since the step did not succeed; the live index is as it was.
    Removed,
}

impl Aside {
    /// Whether all of it is proven.
    pub(crate) fn is_proven(&self) -> bool {
        self.indices.iter().all(|one| one.state == AsideState::Proven)
    }

    /// The names of the copies.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.indices.iter().map(|one| one.aside.as_str()).collect()
    }
}

impl AsideIndex {
    /// Whether the live index takes writes, and none while it is cloned.
    pub(crate) fn takes_writes(&self) -> bool {
        !self.shape.write_block()
    }

    /// Makes the copy.
    pub(crate) fn clone_it(&self) -> Act {
        let lifecycle = self.shape.lifecycle.keys().cloned().collect();
        Act::Keep { from: self.index.clone(), to: self.aside.clone(), lifecycle }
    }
}

/// The live indices that an unfinished aside left without writes.
///
/// # Errors
/// The server refuses or does not answer.
pub(crate) fn blocked(server: &Server, aside: &Aside) -> Result<Vec<String>, Failure> {
    let begun = || aside.indices.iter().filter(|one| one.state == AsideState::Blocked && one.takes_writes());
    let found = look(server, &begun().map(|one| one.index.as_str()).collect::<Vec<_>>())?;
    let is_blocked =
        |one: &&AsideIndex| found.get(&one.index).is_some_and(|live| live.uuid == one.live_uuid && live.shape.write_block());
    Ok(begun().filter(is_blocked).map(|one| one.index.clone()).collect())
}

/// The requests that take the blocks off them.
pub(crate) fn releases<'a>(blocked: impl IntoIterator<Item = &'a String>) -> Vec<Act> {
    let names: Vec<&str> = blocked.into_iter().map(String::as_str).collect();
    portions(&names).into_iter().map(|names| Act::Unblock(names.iter().map(|&name| name.to_owned()).collect())).collect()
}

/// Takes the blocks off them.
///
/// # Errors
/// The server refuses or does not answer.
pub(crate) fn release<'a>(call: &Call, server: &Server, blocked: impl IntoIterator<Item = &'a String>) -> Result<(), Failure> {
    releases(blocked).iter().try_for_each(|act| act.send(call, server))
}
