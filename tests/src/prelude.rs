//! What nearly every test of `svc-snap` uses.

pub use nix::sys::signal::Signal;
pub use serde_json::{Value, json};

pub use crate::content::{self, Index};
pub use crate::host::Host;
pub use crate::proxy::{Act, At, End, Gate, Side, http};
pub use crate::sandbox::{CLOSE, DELETE, DENIED, MISHAP, Sandbox, Stopping, run_id};
pub use crate::search::{OS_USER, Product, Search, Settings, own_server};
pub use crate::tool::{Ran, Spawned, Tool};
pub use crate::{os, wait};
