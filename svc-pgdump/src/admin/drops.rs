//! The statements that drop a database.

use postgres_protocol::escape::escape_identifier;

/// The statement that drops a database with whoever is connected to it.
#[must_use]
pub fn drop_statement(database: &str) -> String {
    format!("DROP DATABASE {} WITH (FORCE)", escape_identifier(database))
}

/// The same where it may not be there.
#[must_use]
pub fn drop_if_there(database: &str) -> String {
    format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", escape_identifier(database))
}
