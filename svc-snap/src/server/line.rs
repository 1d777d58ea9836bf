//! The line to the server: requests that end with the step's own signals and time limit, as long as nothing was altered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use svc_step::Failure;
use svc_step::watch::Watch;
use svc_step::work::{Lost, Work};

use crate::server::grace;
use crate::server::refusal;
use crate::server::transport::{Answer, Fate, Patience, Raw, Transport, Trouble};

/// How often signals and the time limit are looked at while a request runs.
const LOOK: Duration = Duration::from_millis(50);

/// A line to one server.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    transport: Transport,
    watch: Watch,
    /// Whether a request was sent that alters something. From then on the step finishes or takes back what it is at, whatever
    /// has come, and its requests are carried to their end.
    acting: Arc<AtomicBool>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Pending {
    answer: Work<Result<Raw, Trouble>>,
    transport: Transport,
}

impl Line {
    pub(crate) fn new(transport: Transport, watch: Watch) -> Self {
        Self { transport, watch, acting: Arc::default() }
    }

    /// The server's address, without credentials.
    pub(crate) fn base(&self) -> &str {
        self.transport.base()
    }

    /// The same line for looks that decide nothing of what is altered: they end with signals and the time limit in any case.
    pub(crate) fn for_looks(&self) -> Self {
        Self { acting: Arc::default(), ..self.clone() }
    }

    /// The same line for whoever takes something back after a signal or the end of the time limit: a server that does not answer
    /// is not waited for as long as usual.
    pub(crate) fn in_haste(&self) -> Self {
        Self { transport: self.transport.in_haste(), ..self.clone() }
    }

    /// So long, and no longer than a step may wait whose time is over.
    pub(crate) fn at_most(&self, wanted: Duration) -> Duration {
        grace::at_most(self.transport.deadline(), wanted)
    }

    /// A request that alters nothing; its answer, whatever its HTTP status.
    ///
    /// # Errors
    /// No answer came; and while nothing was altered yet, a signal, or the end of the time limit (6).
    pub(crate) fn look(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Trouble> {
        self.fetch(method, path, body).and_then(|raw| self.transport.answer(raw))
    }

    /// The same for an answer that is no refusal, and is read as what it is to be: of one that is long, the whole as a tree
    /// would take many times the memory.
    ///
    /// # Errors
    /// As [`Line::look`]; and the server refuses.
    pub(crate) fn look_for<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        let raw = self.fetch("GET", path, None)?;
        match is_good(raw.status) {
            true => self.transport.parse(&raw),
            false => Err(refusal::refusal(raw.status, &self.transport.parse::<Value>(&raw)?)),
        }
    }

    fn fetch(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Raw, Trouble> {
        if self.acting.load(Ordering::SeqCst) {
            return self.transport.fetch(method, path, body, Patience::Short);
        }
        let pending = self.start(method, path, body.cloned(), Patience::Short);
        loop {
            if let Some(ended) = pending.ended(LOOK) {
                return ended;
            }
            // Whatever was asked for may come to pass all the same.
            self.watch.check().map_err(|failure| Trouble { failure, fate: Fate::Unknown })?;
        }
    }

    /// A request that is given so long and no longer, whatever signal or time limit has come: to take something back that must
    /// not be left.
    ///
    /// # Errors
    /// The server refuses, or no answer came in time.
    pub(crate) fn within(&self, time: Duration, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Trouble> {
        let pending = self.start(method, path, body.cloned(), Patience::Short);
        let time = self.at_most(time);
        pending.wait(time).unwrap_or_else(|| {
            let message = format!("The search database did not answer within {} s.", time.as_secs_f64());
            Err(Trouble { failure: Failure::unavailable("search_unreachable", message), fate: Fate::Unknown })
        })
    }

    /// A request that alters something, carried to its end.
    ///
    /// # Errors
    /// The server refuses, or no answer came.
    pub(crate) fn act(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Trouble> {
        self.acting.store(true, Ordering::SeqCst);
        self.transport.exchange(method, path, body, Patience::Short).and_then(good)
    }

    /// Starts a request that alters something and may take hours.
    pub(crate) fn begin(&self, method: &str, path: &str, body: Option<Value>) -> Pending {
        self.acting.store(true, Ordering::SeqCst);
        self.start(method, path, body, Patience::Long)
    }

    fn start(&self, method: &str, path: &str, body: Option<Value>, patience: Patience) -> Pending {
        let (transport, method, path) = (self.transport.clone(), method.to_owned(), path.to_owned());
        let answer = Work::begin(move || transport.fetch(&method, &path, body.as_ref(), patience));
        Pending { answer, transport: self.transport.clone() }
    }
}

impl Pending {
    /// Waits so long for its end; `None` while it runs.
    pub(crate) fn wait(&self, time: Duration) -> Option<Result<Value, Trouble>> {
        self.answered(time).map(|ended| ended.and_then(good))
    }

    fn answered(&self, time: Duration) -> Option<Result<Answer, Trouble>> {
        self.ended(time).map(|ended| ended.and_then(|raw| self.transport.answer(raw)))
    }

    fn ended(&self, time: Duration) -> Option<Result<Raw, Trouble>> {
        match self.answer.ended(time) {
            Ok(ended) => ended,
            Err(Lost) => Some(Err(Trouble {
                failure: Failure::unavailable("search_unreachable", "The thread that waited for the answer has ended."),
                fate: Fate::Unknown,
            })),
        }
    }
}

/// What an answer that is no refusal says.
///
/// # Errors
/// As [`refusal`] maps the server's.
pub(crate) fn good(answer: Answer) -> Result<Value, Trouble> {
    if is_good(answer.status) { Ok(answer.body) } else { Err(refusal::refusal(answer.status, &answer.body)) }
}

const fn is_good(status: u16) -> bool {
    matches!(status, 200..300)
}
