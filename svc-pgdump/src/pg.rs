//! The PostgreSQL client that both tools use: libpq's settings, passwords, TLS, connections, errors, redaction.

mod args;
mod connection;
mod environment;
mod error;
mod password;
mod redact;
mod tls;

pub use self::args::{ConnectionArgs, DatabaseArgs, given};
pub use self::connection::{
    BEFORE_DUMP, BEFORE_RESTORE, CONNECTION_CHECKS, LOAD, Listener, Server, Target, VERIFY, identify, reset,
};
pub use self::error::{ENDED, MAINTENANCE, chain, describe, is_interruption, of_query, timed};
pub use self::redact::{ServerMessage, severity};
pub use postgres_protocol::escape::{escape_identifier, escape_literal};
