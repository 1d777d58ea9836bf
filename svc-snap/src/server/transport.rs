//! One request and its answer over HTTP, and what is known of its effect when there is no answer.

use std::time::Duration;

use serde_json::Value;
use svc_step::Failure;
use svc_step::deadline::Deadline;
use svc_step::secret::Secret;
use ureq::http::{HeaderValue, Request, Response, header};
use ureq::{Body, Timeout};

use crate::connection::Reach;
use crate::server::refusal;

/// Answers are read up to this size; ureq's own limit of 10 MB is less than a large cluster's.
const ANSWER_LIMIT: u64 = 1 << 30;
/// A step whose time is nearly over, or over, still finishes or takes back what it has begun. Whoever has begun nothing does
/// not wait so long: see [`crate::server::line::Line::look`].
const GRACE: Duration = Duration::from_secs(10);

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
            // Servers give up by themselves after 30 s of waiting for the cluster and 30 s more for its nodes.
            Self::Short => Some(deadline.at_most(Duration::from_secs(90)).max(GRACE)),
            Self::Long => deadline.remaining().map(|left| left.max(GRACE)),
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
            .tls_config(reach.tls)
            .user_agent(concat!("svc-snap/", env!("CARGO_PKG_VERSION")))
            .build();
        Self { agent: config.new_agent(), base: reach.base, authorization: reach.authorization, deadline }
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
        let mut answer = self.send(method, path, body, patience).map_err(|error| self.no_answer(&error))?;
        let status = answer.status().as_u16();
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_LIMIT)
            .read_to_string()
            .map_err(|error| self.lost(&error.to_string()))?;
        let product = answer.headers().get("x-elastic-product").and_then(|value| value.to_str().ok()).map(str::to_owned);
        if (300..400).contains(&status) {
            return Err(refusal::redirected(&self.base));
        }
        match serde_json::from_str(&text) {
            Ok(body) => Ok(Answer { status, product, body }),
            Err(_) => Err(refusal::not_json(&self.base, status)),
        }
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
                let request = request.header(header::CONTENT_TYPE, "application/json").body(body.to_string())?;
                self.agent.run(self.agent.configure_request(request).timeout_global(limit).build())
            }
            None => self.agent.run(self.agent.configure_request(request.body(())?).timeout_global(limit).build()),
        }
    }

    fn no_answer(&self, error: &ureq::Error) -> Trouble {
        use std::io::ErrorKind as Kind;
        let never_left = match error {
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::Tls(_)
            | ureq::Error::Rustls(_)
            | ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => true,
            // TLS speaks of the peer's certificate or of what is no TLS at all before any request is sent.
            ureq::Error::Io(error) => matches!(
                error.kind(),
                Kind::ConnectionRefused
                    | Kind::NetworkUnreachable
                    | Kind::HostUnreachable
                    | Kind::AddrNotAvailable
                    | Kind::InvalidData
                    | Kind::InvalidInput
            ),
            _ => false,
        };
        if !never_left {
            return self.lost(&error.to_string());
        }
        let failure = match error {
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => self.bad_tls(&error.to_string()),
            ureq::Error::Io(fault) if fault.kind() == Kind::InvalidData => self.bad_tls(&error.to_string()),
            _ => unreachable(&self.base).cause(error.to_string()),
        };
        Trouble { failure, fate: Fate::NoEffect }
    }

    fn bad_tls(&self, why: &str) -> Failure {
        Failure::refused("search_not_trusted", format!("No trusted TLS connection to the search database at {} can be made.", self.base))
            .hint("Name the authority of its certificate with --ca-cert (SVC_SEARCH_CA), and check that --url says the name that is in the certificate.")
            .cause(why)
    }

    /// The request was sent, or may have been, and there is no answer.
    fn lost(&self, why: &str) -> Trouble {
        Trouble { failure: unreachable(&self.base).cause(why), fate: Fate::Unknown }
    }
}

fn unreachable(base: &str) -> Failure {
    Failure::unavailable("search_unreachable", format!("The search database at {base} does not answer."))
        .hint("Check that it runs (svc-unit status UNIT) and that --url (SVC_SEARCH_URL) is right; https:// where it speaks TLS.")
}
