//! How copies become live: where they come from (`source`), the staging and its verification (`stage`, `verify`), the swap (`plan` with
//! its `checks`, `phases`, `swap`, `auto_create`), the restore `in_place`, and what runs `record` of it with each `result`.

mod auto_create;
pub(crate) mod capacity;
mod checks;
#[cfg(test)]
mod fixtures;
pub(crate) mod in_place;
pub(crate) mod phases;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod result;
pub(crate) mod source;
pub(crate) mod stage;
pub(crate) mod swap;
pub(crate) mod verify;
