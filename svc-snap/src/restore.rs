//! What brings copies into use: their `source`, the `plan` of a swap with its `checks`, the `swap` itself, the restore `in_place`, and
//! what runs have begun, as documents and notes `record` it.

mod checks;
pub(crate) mod chosen;
pub(crate) mod earlier;
pub(crate) mod in_place;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod restored;
pub(crate) mod source;
pub(crate) mod stage;
pub(crate) mod streams;
pub(crate) mod swap;
pub(crate) mod undo;
