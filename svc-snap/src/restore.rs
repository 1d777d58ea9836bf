//! How copies become live: where they come from (`source`), the staging and its verification (`stage`, `verify`), the swap (`plan` with
//! its `checks`, `phases`, `swap`), the restore `in_place`, and what runs `record` of it with each `result`.

pub(crate) mod capacity;
mod checks;
pub(crate) mod in_place;
pub(crate) mod phases;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod result;
pub(crate) mod source;
pub(crate) mod stage;
pub(crate) mod swap;
pub(crate) mod verify;

pub(crate) use self::phases::Phase;
pub(crate) use self::plan::HowArgs;
pub(crate) use self::record::Begun;
pub(crate) use self::result::{
    Cloned, CopiedIndex, CopySet, CopyState, DiskSpace, RestoreMethod, RestoreState, Restored, RestoredIndex, Staged, SwapIndex,
    SwapSource, SwapState, Swapped,
};
pub(crate) use self::source::{Chosen, Origin, WhatArgs};
pub(crate) use self::stage::Earlier;
pub(crate) use self::swap::Ended;
