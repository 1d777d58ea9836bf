//! The relational database's backup (procedure, 4.2): a whole plain dump of one database, or nothing.
//!
//! `svc-pgrestore` builds upon this library: connections and password places, and the reader of dumps.

mod connection;
mod environment;
pub mod lexer;
mod passwords;
mod pgpass;
pub mod refusal;
mod sql;
mod target;
mod terminal;
mod tls;
mod tokens;
pub mod whole;

pub use connection::{ConnectionArgs, DatabaseArg, PasswordSource, Settings};
pub use target::{Place, Server, Target, identify};
pub use whole::{Dump, TableRows};
