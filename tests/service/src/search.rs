//! Speaks to the search database: one call, one answer.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;

use crate::settings::Settings;

/// The search database of the service; it is connected to when it is called.
pub struct Search {
    agent: Agent,
    url: String,
}

impl Search {
    pub fn new(settings: &Settings) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        Self { agent: config.into(), url: settings.search_url.trim_end_matches('/').to_owned() }
    }

    /// Makes a call that must succeed.
    pub fn done(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        match self.call(method, path, Some(body.to_string()))? {
            (200..300, answer) => Ok(answer),
            (status, answer) => bail!("the search database answered {status} to {method} {path}: {answer}"),
        }
    }

    /// Gets or deletes something; `None` if it is not there.
    pub fn found(&self, method: &str, path: &str) -> anyhow::Result<Option<Value>> {
        match self.call(method, path, None)? {
            (200..300, answer) => Ok(Some(answer)),
            (404, _) => Ok(None),
            (status, answer) => bail!("the search database answered {status} to {method} {path}: {answer}"),
        }
    }

    /// Sends lines of the bulk interface, each of which must be accepted.
    pub fn bulk(&self, target: &str, lines: String) -> anyhow::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        match self.call("POST", &format!("/{target}/_bulk"), Some(lines))? {
            (200..300, answer) if answer.get("errors") == Some(&Value::Bool(false)) => Ok(()),
            (status, answer) => bail!("the search database refused documents for {target} ({status}): {answer}"),
        }
    }

    fn call(&self, method: &str, path: &str, body: Option<String>) -> anyhow::Result<(u16, Value)> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let kind = if path.ends_with("/_bulk") { "application/x-ndjson" } else { "application/json" };
        let answer = match body {
            Some(body) => self.agent.run(request.header("Content-Type", kind).body(body)?),
            None => self.agent.run(request.body(())?),
        };
        let mut answer = answer.with_context(|| format!("the search database at {} did not answer", self.url))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(64 << 20).read_to_string()?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }
}
