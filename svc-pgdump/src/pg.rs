//! The PostgreSQL client that both tools use: libpq's settings, passwords, TLS, connections, errors, redaction.

mod args;
mod connection;
mod environment;
mod error;
mod password;
mod redact;
mod tls;
mod watchdog;

pub use self::args::{ConnectionArgs, ConnectionSettings, DatabaseArg, database_name, given};
pub use self::connection::{Listener, Place, SESSION_SETTINGS, Server, Target, identify};
pub use self::error::{MAINTENANCE, chain, of_query, words};
pub use self::password::PasswordSource;
pub use self::redact::{Row, Said, severity};
pub use self::watchdog::timed;
pub use postgres_protocol::escape::{escape_identifier, escape_literal};
