//! How copies become live: where they come from (`source`), the staging and its verification (`stage`, `verify`), the swap (`plan` with
//! its `checks`, `requests`, `swap`, `undo`), the restore `in_place`, and what runs `record` of it with each `result`.

mod checks;
pub(crate) mod in_place;
pub(crate) mod plan;
pub(crate) mod record;
mod requests;
pub(crate) mod result;
pub(crate) mod source;
pub(crate) mod stage;
pub(crate) mod swap;
pub(crate) mod undo;
pub(crate) mod verify;
