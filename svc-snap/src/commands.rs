//! The steps that bring copies into use or remove them, one file each.

pub(crate) mod clone;
pub(crate) mod discard;
pub(crate) mod restore;
pub(crate) mod stage;
pub(crate) mod swap;
