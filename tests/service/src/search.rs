//! Speaks to the search database: one call, one answer.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::settings::Settings;

/// The search database of the service.
pub struct Search {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Search {
    /// Knows where it is; connects only when called.
    ///
    /// # Errors
    /// A password file or a certificate file that cannot be read.
    pub fn new(settings: &Settings) -> anyhow::Result<Self> {
        let mut tls = TlsConfig::builder();
        if let Some(file) = &settings.search_ca_file {
            tls = tls.root_certs(certificates(file)?);
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .proxy(None)
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        Ok(Self {
            agent: config.into(),
            url: settings.search_url.trim_end_matches('/').to_owned(),
            authorization: settings.search_authorization()?,
        })
    }

    /// Makes a call that should succeed.
    ///
    /// # Errors
    /// No connection, or any answer that is no success.
    pub fn done(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        match self.call(method, path, Some(body.to_string()))? {
            (200..300, answer) => Ok(answer),
            (status, answer) => bail!("the search database answered {status} to {method} {path}: {answer}"),
        }
    }

    /// Asks for something; `None` if it is not there.
    ///
    /// # Errors
    /// No connection, or any answer that is neither a success nor 404.
    pub fn found(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.call("GET", path, None)? {
            (200..300, answer) => Ok(Some(answer)),
            (404, _) => Ok(None),
            (status, answer) => bail!("the search database answered {status} to GET {path}: {answer}"),
        }
    }

    /// Deletes an index that may be there.
    ///
    /// # Errors
    /// No connection, or any answer that is neither a success nor 404.
    pub fn delete(&self, index: &str) -> anyhow::Result<()> {
        match self.call("DELETE", &format!("/{index}"), None)? {
            (200..300 | 404, _) => Ok(()),
            (status, answer) => bail!("the search database answered {status} to DELETE /{index}: {answer}"),
        }
    }

    /// Sends lines of the bulk interface.
    ///
    /// # Errors
    /// No connection, a refusal of the whole, or of any one document.
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
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
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

/// The certificates of a PEM file, to be trusted instead of the usual ones.
fn certificates(file: &Path) -> anyhow::Result<RootCerts> {
    let pem = fs::read(file).with_context(|| format!("cannot read the certificates in {}", file.display()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item? {
            certificates.push(certificate);
        }
    }
    Ok(RootCerts::from(certificates))
}
