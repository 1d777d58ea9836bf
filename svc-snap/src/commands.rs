//! One file a step.

pub(crate) mod cleanup;
pub(crate) mod clone;
pub(crate) mod configure;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod discard;
pub(crate) mod health;
pub(crate) mod list;
pub(crate) mod prune;
pub(crate) mod register;
pub(crate) mod restore;
pub(crate) mod show;
pub(crate) mod stage;
pub(crate) mod swap;
pub(crate) mod verify;
pub(crate) mod wait;
