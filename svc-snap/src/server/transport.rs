//! One request and its answer over HTTP, and what is known of its effect when there is no answer.

use std::io::Read;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use svc_step::Failure;
use svc_step::deadline::Deadline;
use svc_step::secret::Secret;
use ureq::Body;
use ureq::http::{HeaderValue, Request, Response, header};

use crate::connection::Reach;
use crate::server::grace;
use crate::server::refusal;
use crate::server::unanswered;

/// Answers are read up to this size, however they were packed; what a large cluster says of thousands of snapshots is some
/// tens of MB.
const ANSWER_LIMIT: u64 = 128 << 20;
/// So much of an answer shows whether it is JSON at all.
const BEGINNING: u64 = 512;
/// Servers give up by themselves after 30 s of waiting for the cluster and 30 s more for its nodes.
const ANSWER: Duration = Duration::from_secs(90);

/// How long a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A request that answers at once or waits for the cluster at most.
    Short,
    /// A request that waits for work of hours: only the step's own time limit counts.
    Long,
}

impl Patience {
    fn limit(self, deadline: &Deadline) -> Option<Duration> {
        match self {
            Self::Short => Some(grace::at_most(deadline, ANSWER)),
            Self::Long => grace::left(deadline),
        }
    }
}

/// What became of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It never left, or the server refused it: it had no effect.
    NoEffect,
    /// It was sent and its answer never came.
    Unknown,
}

/// A request that failed.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub failure: Failure,
    pub fate: Fate,
}

/// The way to one server.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    agent: ureq::Agent,
    base: String,
    authorization: Option<Secret>,
    deadline: Deadline,
}

/// An answer as it came: what begins as JSON does.
#[derive(Debug)]
pub(crate) struct Raw {
    pub status: u16,
    /// What the header `X-elastic-product` says.
    product: Option<String>,
    bytes: Vec<u8>,
}

/// An answer that is JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    /// What the header `X-elastic-product` says.
    pub product: Option<String>,
    pub body: Value,
}

impl Transport {
    pub(crate) fn new(reach: Reach, deadline: Deadline) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            // A kept connection may have been closed by the other side since, and a request on it would be lost.
            .max_idle_connections(0)
            .timeout_resolve(Some(reach.connect_timeout))
            .timeout_connect(Some(reach.connect_timeout))
            .user_agent(concat!("svc-snap/", env!("CARGO_PKG_VERSION")));
        let agent = config.tls_config(reach.tls).build().new_agent();
        Self { agent, base: reach.base, authorization: reach.authorization, deadline }
    }

    /// The same way as if the time limit were over, where it is not: for requests that may take no longer than it takes to end
    /// well.
    pub(crate) fn in_haste(&self) -> Self {
        if self.deadline.passed() { self.clone() } else { Self { deadline: Deadline::new(Some(Duration::ZERO)), ..self.clone() } }
    }

    /// The step's time limit.
    pub(crate) fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// The server's address, without credentials.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends one request and reads its answer, whatever its HTTP status.
    ///
    /// # Errors
    /// No answer came, or one that no search database gives.
    pub(crate) fn exchange(&self, method: &str, path: &str, body: Option<&Value>, patience: Patience) -> Result<Answer, Trouble> {
        self.fetch(method, path, body, patience).and_then(|raw| self.answer(raw))
    }

    /// The same, not yet taken apart.
    ///
    /// # Errors
    /// As [`Transport::exchange`].
    pub(crate) fn fetch(&self, method: &str, path: &str, body: Option<&Value>, patience: Patience) -> Result<Raw, Trouble> {
        let answer = self.send(method, path, body, patience).map_err(|error| unanswered::no_answer(&self.base, &error))?;
        let status = answer.status().as_u16();
        if (300..400).contains(&status) {
            return Err(refusal::redirected(&self.base));
        }
        let product = answer.headers().get("x-elastic-product").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = self.read(answer, status)?;
        Ok(Raw { status, product, bytes })
    }

    /// Takes an answer apart.
    ///
    /// # Errors
    /// It is no JSON, or not the whole of it.
    pub(crate) fn answer(&self, raw: Raw) -> Result<Answer, Trouble> {
        let body = self.parse(&raw)?;
        Ok(Answer { status: raw.status, product: raw.product, body })
    }

    /// Reads an answer as what it is to be.
    ///
    /// # Errors
    /// It is not, or not the whole of it.
    pub(crate) fn parse<T: DeserializeOwned>(&self, raw: &Raw) -> Result<T, Trouble> {
        serde_json::from_slice(&raw.bytes).map_err(|error| match error.is_eof() && !raw.bytes.is_empty() {
            true => unanswered::cut(&self.base, &error),
            false => refusal::not_json(&self.base, raw.status),
        })
    }

    /// Reads an answer to its end; what does not begin as JSON is not read further.
    fn read(&self, answer: Response<Body>, status: u16) -> Result<Vec<u8>, Trouble> {
        // The limit is put here since ureq's own counts the bytes before they are unpacked.
        let mut reader = answer.into_body().into_reader();
        let mut bytes = Vec::new();
        let cut = |error: std::io::Error| unanswered::cut(&self.base, &error);
        reader.by_ref().take(BEGINNING).read_to_end(&mut bytes).map_err(cut)?;
        let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if !matches!(begins, None | Some(b'{' | b'[')) {
            return Err(refusal::not_json(&self.base, status));
        }
        reader.take(ANSWER_LIMIT).read_to_end(&mut bytes).map_err(cut)?;
        if bytes.len() as u64 > ANSWER_LIMIT { Err(unanswered::endless(&self.base, ANSWER_LIMIT)) } else { Ok(bytes) }
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>, patience: Patience) -> Result<Response<Body>, ureq::Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(authorization) = &self.authorization {
            let mut value = HeaderValue::from_str(authorization.expose()).map_err(ureq::http::Error::from)?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let limit = patience.limit(&self.deadline);
        match body {
            Some(body) => {
                let request = request.header(header::CONTENT_TYPE, "application/json").body(text(body))?;
                self.agent.run(self.agent.configure_request(request).timeout_global(limit).build())
            }
            None => self.agent.run(self.agent.configure_request(request.body(())?).timeout_global(limit).build()),
        }
    }
}

/// A body as it is sent. The only one that is a string are lines of JSON, such as `_msearch` takes.
fn text(body: &Value) -> String {
    match body {
        Value::String(lines) => lines.clone(),
        other => other.to_string(),
    }
}
