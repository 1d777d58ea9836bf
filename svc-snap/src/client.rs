//! The client of Elasticsearch or OpenSearch, the paths of its requests, and what is read of its answers by JSON pointers (RFC 6901).

pub(crate) mod auth;
pub(crate) mod errors;
mod server;
mod tls;

pub(crate) use self::auth::Connection;
pub(crate) use self::server::{Product, Server, continues_by_itself};

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use svc_step::deadline::Deadline;
use svc_step::effects::Attempt;
use svc_step::poll::{retry, sleep};
use svc_step::progress::{Progress, Unit::Items};
use svc_step::reporter::Reporter;
use svc_step::watch::Watch;
use svc_step::work::{Lost, Work};
use svc_step::{Call, Failure, Secret, Status};
use ureq::Body;
use ureq::http::{HeaderValue, Request, Response, header};

use self::auth::Settings;

/// Answers are read up to this size, unpacked; what a large cluster says of thousands of snapshots is some tens of MB.
const ANSWER_LIMIT: u64 = 128 << 20;
/// This much of an answer shows whether it is JSON at all.
const BEGINNING: u64 = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Servers give up by themselves after 30 s of waiting for the cluster and 30 s more for its nodes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);
/// What may take hours is given up then: its connection may be dead.
const LONG_REQUEST_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);
/// A step that has changed something finishes or undoes it after its time limit, and waits this much longer in all.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Every request is given this much even then: a server that answers is never interrupted between two of them.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);
/// For how long a server is asked again that is busy only for a moment.
pub(crate) const RETRY_BUSY_FOR: Duration = Duration::from_secs(20);
/// How often signals and the time limit are checked while a request runs.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// An answer that takes longer is shown as awaited.
const PROMPT: Duration = Duration::from_secs(3);

/// What is known of the effect of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It never left, or the server refused it.
    None,
    /// It was sent and its answer never came.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct RequestError {
    pub failure: Failure,
    pub effect: Effect,
}

impl RequestError {
    pub(crate) const fn unknown(failure: Failure) -> Self {
        Self { failure, effect: Effect::Unknown }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        error.failure
    }
}

pub(crate) type RequestResult = Result<Value, RequestError>;

#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
    options: Vec<String>,
    authorization: Option<Secret>,
    deadline: Deadline,
    watch: Watch,
    reporter: Reporter,
    /// Whether a request was sent that changes something: from then on signals and the time limit end no request.
    acting: Arc<AtomicBool>,
}

/// An answer that begins as JSON does.
#[derive(Debug)]
struct Answer {
    base: String,
    status: u16,
    /// What the header `X-elastic-product` says.
    product: Option<String>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Pending {
    work: Work<Result<Answer, RequestError>>,
    base: String,
}

impl Client {
    fn new(settings: Settings, call: &Call) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            // An idle connection may have been closed by the other side since, and a request on it would be lost.
            .max_idle_connections(0)
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("svc-snap/", env!("CARGO_PKG_VERSION")));
        let Settings { base, authorization, tls, options, .. } = settings;
        let agent = config.tls_config(tls).build().new_agent();
        let (deadline, watch, reporter) = (*call.deadline(), call.watch(), call.reporter().clone());
        Self { agent, base, options, authorization, deadline, watch, reporter, acting: Arc::default() }
    }

    /// The server's address, without credentials.
    pub(crate) fn url(&self) -> &str {
        &self.base
    }

    fn interruptible(&self) -> Self {
        Self { acting: Arc::default(), ..self.clone() }
    }

    /// From now on neither a signal nor the time limit ends a request.
    pub(crate) fn begin(&self) {
        self.acting.store(true, Ordering::SeqCst);
    }

    /// `wanted`, but no longer than a step may wait whose time is over.
    pub(crate) fn at_most(&self, wanted: Duration) -> Duration {
        at_most(&self.deadline, wanted)
    }

    /// A `GET`. No answer is 5; as long as this call has changed nothing, a signal, or the end of the time limit (6), also ends it.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        Ok(self.send("GET", path, None)?.success()?)
    }

    pub(crate) fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.get(path) {
            Err(failure) if failure.status == Status::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// A `POST` without a lasting effect, such as a refresh or a verification.
    pub(crate) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        Ok(self.send("POST", path, body)?.success()?)
    }

    /// A request that is not accounted for. It is given this time, whatever signal or time limit has come; with `None`, these end it.
    pub(crate) fn attempt(&self, time: Option<Duration>, method: &str, path: &str, body: Option<&Value>) -> RequestResult {
        match time {
            Some(time) => self.fetch(method, path, body, self.at_most(time)),
            None => self.interruptible().send(method, path, body),
        }?
        .success()
    }

    /// A request that changes something, accounted for. A busy server that has surely not begun it is asked again for a moment.
    pub(crate) fn change(&self, call: &Call, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        retry_while_busy(call, RETRY_BUSY_FOR, || {
            let attempt = call.effects().attempt();
            self.begin();
            let sent = self.fetch(method, path, body, self.at_most(RESPONSE_TIMEOUT));
            account(call, attempt, sent.and_then(|answer| answer.success()))
        })
    }

    /// Starts a request that changes something and may take hours. Whoever waits for it accounts for its effect.
    pub(crate) fn start(&self, method: &str, path: &str, body: Option<Value>) -> Pending {
        self.begin();
        self.spawn(method, path, body, self.at_most(LONG_REQUEST_TIMEOUT))
    }

    /// A request that changes nothing, in a thread, so that signals and the time limit are heard.
    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, RequestError> {
        let limit = self.at_most(RESPONSE_TIMEOUT);
        if self.acting.load(Ordering::SeqCst) {
            return self.fetch(method, path, body, limit);
        }
        let pending = self.spawn(method, path, body.cloned(), limit);
        let (begun, mut shown) = (Instant::now(), None);
        loop {
            if let Some(ended) = pending.ended(PAUSE) {
                return ended;
            }
            if begun.elapsed() > PROMPT {
                let start = || Progress::start(&self.reporter, &format!("wait for {}", self.base), Items("s"));
                shown.get_or_insert_with(start).set(begun.elapsed().as_secs(), 0, None);
            }
            // It may have an effect all the same.
            self.watch.check().map_err(RequestError::unknown)?;
        }
    }

    fn spawn(&self, method: &str, path: &str, body: Option<Value>, limit: Duration) -> Pending {
        let (client, method, path) = (self.clone(), method.to_owned(), path.to_owned());
        Pending { work: Work::begin(move || client.fetch(&method, &path, body.as_ref(), limit)), base: self.base.clone() }
    }

    fn fetch(&self, method: &str, path: &str, body: Option<&Value>, limit: Duration) -> Result<Answer, RequestError> {
        let response = self.request(method, path, body, limit).map_err(|error| errors::no_answer(&self.base, &error))?;
        let status = response.status().as_u16();
        if (300..400).contains(&status) {
            let failure = errors::not_a_cluster(&self.base);
            let failure = failure.cause("It redirects to another address: credentials would go along.");
            return Err(RequestError { failure, effect: Effect::None });
        }
        let product = response.headers().get("x-elastic-product").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = self.read(response, status)?;
        Ok(Answer { base: self.base.clone(), status, product, bytes })
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>, limit: Duration) -> Result<Response<Body>, ureq::Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(authorization) = &self.authorization {
            let mut value = HeaderValue::from_str(authorization.expose()).map_err(ureq::http::Error::from)?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        // The only body that is a string is lines of JSON (`_msearch`).
        match body.map(|body| body.as_str().map_or_else(|| body.to_string(), str::to_owned)) {
            Some(text) => {
                let request = request.header(header::CONTENT_TYPE, "application/json").body(text)?;
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(limit)).build())
            }
            None => self.agent.run(self.agent.configure_request(request.body(())?).timeout_global(Some(limit)).build()),
        }
    }

    /// Reads an answer to its end; what does not begin as JSON is not read further.
    fn read(&self, answer: Response<Body>, status: u16) -> Result<Vec<u8>, RequestError> {
        // The limit is put here since ureq's own counts the bytes before they are unpacked.
        let mut reader = answer.into_body().into_reader();
        let mut bytes = Vec::new();
        let incomplete = |error: std::io::Error| errors::incomplete(&self.base, &error);
        reader.by_ref().take(BEGINNING).read_to_end(&mut bytes).map_err(incomplete)?;
        let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if !matches!(begins, None | Some(b'{' | b'[')) {
            return Err(errors::not_json(&self.base, status));
        }
        reader.take(ANSWER_LIMIT).read_to_end(&mut bytes).map_err(incomplete)?;
        if bytes.len() as u64 > ANSWER_LIMIT { Err(errors::too_large(&self.base, ANSWER_LIMIT)) } else { Ok(bytes) }
    }
}

impl Pending {
    /// Waits for its end as long as `time`; `None` while it runs.
    pub(crate) fn wait(&self, time: Duration) -> Option<RequestResult> {
        self.ended(time).map(|ended| ended.and_then(|answer| answer.success()))
    }

    /// Waits for its end, and accounts for it; `changed` says by the answer whether anything was changed.
    pub(crate) fn finish(&self, call: &Call, attempt: Attempt<'_>, changed: fn(&Value) -> bool) -> Result<Value, Failure> {
        loop {
            match self.wait(PAUSE) {
                Some(Ok(answer)) if !changed(&answer) => {
                    attempt.refused();
                    return Ok(answer);
                }
                Some(ended) => return account(call, attempt, ended),
                None => call.check()?,
            }
        }
    }

    fn ended(&self, time: Duration) -> Option<Result<Answer, RequestError>> {
        self.work.ended(time).unwrap_or_else(|Lost| {
            Some(Err(RequestError::unknown(errors::unreachable(&self.base, "was not waited for: the thread has ended"))))
        })
    }
}

/// `wanted`, or what is left of the time limit and the shutdown timeout behind it.
fn at_most(deadline: &Deadline, wanted: Duration) -> Duration {
    deadline.remaining_with(SHUTDOWN_TIMEOUT).map_or(wanted, |left| left.max(MIN_TIMEOUT).min(wanted))
}

impl Answer {
    fn json(&self) -> RequestResult {
        serde_json::from_slice(&self.bytes).map_err(|error| match error.is_eof() && !self.bytes.is_empty() {
            true => errors::incomplete(&self.base, &error),
            false => errors::not_json(&self.base, self.status),
        })
    }

    fn success(&self) -> RequestResult {
        if matches!(self.status, 200..300) { self.json() } else { Err(errors::refusal(self.status, &self.json()?)) }
    }
}

fn account(call: &Call, attempt: Attempt<'_>, ended: RequestResult) -> Result<Value, Failure> {
    let answer = match ended {
        Ok(answer) => answer,
        Err(error) => return Err(failed(call, attempt, error)),
    };
    attempt.happened();
    Ok(answer)
}

/// Accounts for an effect that failed, and says what a lost answer means.
pub(crate) fn failed(call: &Call, attempt: Attempt<'_>, RequestError { failure, effect }: RequestError) -> Failure {
    if effect == Effect::None {
        attempt.refused();
        return failure;
    }
    let lost = Failure::timeout("outcome_unknown", "The answer to a request was lost, and whether it took effect is unknown.")
        .hint(format!("Run {}: it checks the outcome.", call.same_command()))
        .cause(failure.message);
    failure.causes.into_iter().fold(lost, Failure::cause)
}

/// Repeats a request for that time while the server is too busy. A request whose answer was lost has another failure, and is not sent again.
pub(crate) fn retry_while_busy<T>(call: &Call, time: Duration, ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    retry(|failure| is_busy(failure).then_some(time), |time| call.pause(time), ask)
}

/// Whether the server is busy, or cannot answer at the moment: the request was surely not begun.
pub(crate) fn is_busy(failure: &Failure) -> bool {
    failure.code == "server_busy"
}

/// For how long a server that is away is waited for if something is half done.
pub(crate) const RETRY_AWAY_FOR: Duration = Duration::from_secs(120);

pub(crate) fn while_away<T>(server: &Server, mut work: impl FnMut(&Server) -> Result<T, Failure>) -> Result<T, Failure> {
    retry(|failure| passes(failure).then(|| server.at_most(RETRY_AWAY_FOR)), sleep, || work(server))
}

/// Whether it may pass by itself: the server is busy, not reached, or starts and does not know its users yet, or a proxy speaks for it.
pub(crate) fn passes(failure: &Failure) -> bool {
    failure.status == Status::Unavailable || matches!(&*failure.code, "outcome_unknown" | "search_unreachable" | "access_denied")
}

/// Everything but what RFC 3986 calls unreserved, `*` and `,`, which servers read the same either way and which are plainer to read.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'*').remove(b',');

/// `/a/b/c`, each segment percent-encoded: the one place where names are made part of a URL.
pub(crate) fn path(segments: &[&str]) -> String {
    segments.iter().flat_map(|segment| ["/".to_owned(), utf8_percent_encode(segment, SEGMENT).to_string()]).collect()
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

pub(crate) fn texts(value: &Value, pointer: &str) -> Vec<String> {
    list(value, pointer).filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A setting of the cluster (with `flat_settings`), as it counts.
pub(crate) fn setting<'a>(settings: &'a Value, name: &str) -> Option<&'a str> {
    ["transient", "persistent", "defaults"].iter().find_map(|part| settings.get(part)?.get(name)?.as_str())
}

pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ends_within_time_limit_and_shutdown_timeout() {
        assert_eq!(at_most(&Deadline::new(None), LONG_REQUEST_TIMEOUT), LONG_REQUEST_TIMEOUT);
        assert!(at_most(&Deadline::new(Some(RESPONSE_TIMEOUT)), LONG_REQUEST_TIMEOUT) > RESPONSE_TIMEOUT);
        let over = at_most(&Deadline::new(Some(Duration::ZERO)), LONG_REQUEST_TIMEOUT);
        assert!(over <= SHUTDOWN_TIMEOUT && over > MIN_TIMEOUT);
    }

    #[test]
    fn name_is_escaped_to_one_path_segment() {
        assert_eq!(path(&["a/b", "c?d#e", "%2f", "ü"]), "/a%2Fb/c%3Fd%23e/%252f/%C3%BC");
        assert_eq!(path(&["a,b*", "_stats", "my_backup-1.2~"]), "/a,b*/_stats/my_backup-1.2~");
    }
}
