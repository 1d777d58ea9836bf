//! What a step will do, item by item: `result.plan`, which `--dry-run` prints and a real call follows.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

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
        #[schemars(with = "Option<Value>")]
        body: Option<Body>,
    },
    /// A statement to PostgreSQL.
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

/// The JSON body of a request, as text: the trees of a plan of thousands of requests would be many times its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body(Box<str>);

impl From<&Value> for Body {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into_boxed_str())
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<Value>(&self.0).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map_err(de::Error::custom).map(|value| Self::from(&value))
    }
}

impl Action {
    /// A request.
    pub fn request(method: &str, path: impl Into<String>, body: Option<Value>) -> Self {
        Self::Request { method: method.to_owned(), path: path.into(), body: body.as_ref().map(Body::from) }
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
