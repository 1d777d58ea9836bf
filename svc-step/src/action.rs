//! What a step will do, item by item: `result.plan`, which `--dry-run` prints and a real call follows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One effect, as an operator would type it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// A request to a server.
    Request {
        /// `PUT`, `POST`, `DELETE`.
        method: String,
        /// The path with its query.
        path: String,
        /// The JSON body, or `null`.
        body: Option<serde_json::Value>,
    },
    /// A statement to the relational database.
    Statement {
        /// Its SQL; secrets are left out.
        sql: String,
    },
    /// A command of this host.
    Command {
        /// The program and its arguments; never a secret.
        argv: Vec<String>,
    },
    /// A file that is written, moved or removed.
    File {
        /// Its absolute path.
        path: String,
        /// What happens to it, as a phrase: `write`, `remove`, `chown to elasticsearch`.
        change: String,
    },
}

impl Action {
    /// A request.
    pub fn request(method: &str, path: impl Into<String>, body: Option<serde_json::Value>) -> Self {
        Self::Request { method: method.to_owned(), path: path.into(), body }
    }

    /// A statement.
    pub fn statement(sql: impl Into<String>) -> Self {
        Self::Statement { sql: sql.into() }
    }

    /// A command.
    pub fn command<I, S>(argv: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self::Command { argv: argv.into_iter().map(Into::into).collect() }
    }

    /// A change of a file.
    pub fn file(path: &std::path::Path, change: impl Into<String>) -> Self {
        Self::File { path: path.display().to_string(), change: change.into() }
    }
}
