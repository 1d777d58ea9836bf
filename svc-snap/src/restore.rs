//! How copies become live.

mod auto_create;
pub(crate) mod capacity;
mod checks;
pub(crate) mod in_place;
pub(crate) mod phases;
pub(crate) mod plan;
pub(crate) mod record;
mod requests;
mod result;
mod source;
pub(crate) mod stage;
pub(crate) mod swap;
pub(crate) mod verify;

pub(crate) use self::plan::{SwapOptions, refuse_flags};
pub(crate) use self::record::{Begun, Given};
pub(crate) use self::result::*;
pub(crate) use self::source::{Chosen, Origin, RestoreMethod, RestoreState, Restored, SelectionArgs};
pub(crate) use self::swap::Ended;
