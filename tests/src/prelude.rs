//! What nearly every test of `svc-snap` uses.

pub use std::collections::{BTreeMap, BTreeSet};
pub use std::fs;
pub use std::os::unix::fs::MetadataExt;
pub use std::path::{Path, PathBuf};
pub use std::process::Command;
pub use std::sync::atomic::{AtomicBool, Ordering};
pub use std::thread;
pub use std::time::Duration;

pub use nix::sys::signal::Signal;
pub use serde_json::{Value, json};
pub use tempfile::TempDir;

pub use crate::content::{self, Index};
pub use crate::disk::SmallDisk;
pub use crate::host::{Host, OwnSearch, search_env, texts};
pub use crate::journey::json_of;
pub use crate::proxy::{Act, At, End, Gate, LOOPBACK, Side, http};
pub use crate::sandbox::{CLOSE, DELETE, DENIED, MISHAP, Sandbox, Stopping, limited, run_id, unallocatable};
pub use crate::search::{OS_USER, Product, Search, Settings, own_server};
pub use crate::terminal::on_terminal;
pub use crate::tool::{Ran, Spawned, Tool};
pub use crate::{damage, each_holds, had, os, page, rights, rounds, skip, wait};
