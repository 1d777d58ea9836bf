//! The steps that bring copies into use or remove them, one file each.

pub(crate) mod clone;
pub(crate) mod configure;
pub(crate) mod discard;
pub(crate) mod health;
mod path_repo;
pub(crate) mod register;
pub(crate) mod restore;
pub(crate) mod stage;
pub(crate) mod swap;
