//! The relational database's backup (procedure, 4.2): a whole plain dump of one database, or nothing.
//!
//! `svc-pgrestore` builds upon this library: connections and password places, and the reader of dumps.

mod connection;
mod environment;
mod passwords;
mod pgpass;
pub mod refusal;
mod target;
mod terminal;
mod tls;

pub use connection::{ConnectionArgs, DatabaseArg, PasswordSource, Settings};
pub use target::{Place, Server, Target, identify};
