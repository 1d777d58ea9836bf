//! What an administrator does on a server: connect as such, see what is there, make a database with the properties of another,
//! and drop one. `svc-pgrestore` builds on it.

mod args;
mod catalog;
mod creation;
mod drops;
mod leftovers;
mod names;
mod session;

pub use args::AdminArgs;
pub use catalog::{Named, Server, databases, oid_of, sessions};
pub use creation::{Creation, Statement};
pub use drops::{drop_if_there, drop_statement};
pub use leftovers::run_id_taken;
pub use names::{copy_name, of_the_service};
pub use session::{Admin, MAINTENANCE, OWN_SETTINGS, session_pid};
