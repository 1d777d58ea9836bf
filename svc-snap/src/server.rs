//! The search database that a step works with: which product and version it is, and the requests to it.

pub(crate) mod busy;
pub(crate) mod disk;
pub(crate) mod grace;
mod identity;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod path;
pub(crate) mod refusal;
pub(crate) mod rights;
pub(crate) mod transport;
pub(crate) mod unanswered;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use svc_step::effects::Attempt;
use svc_step::{Call, Failure, Status};

use self::identity::Identity;
pub use self::identity::Product;
pub(crate) use self::identity::product_name;
use self::line::{Line, Pending};
use self::transport::{Fate, Transport, Trouble};
use crate::connection::Connection;
use crate::server::path::path;

/// How often signals and the time limit are looked at while a long request runs.
const LOOK: Duration = Duration::from_millis(100);

/// A search database that has said who it is. It is cheap to clone, and shared by the threads of a step.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    line: Line,
    /// The family.
    pub product: Product,
    /// The version, as the server writes it.
    pub version: String,
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The cluster's name.
    pub cluster_name: String,
}

impl Server {
    /// Connects, and asks who is there.
    ///
    /// # Errors
    /// Nobody answers (5), the credentials are refused (3), or it is no search database (3).
    pub(crate) fn connect(connection: &Connection, call: &Call) -> Result<Self, Failure> {
        let reach = connection.reach()?;
        if reach.unverified {
            let base = &reach.base;
            call.warn("search_not_verified", format!("The certificate of {base} is taken as it comes (--insecure, SVC_SEARCH_INSECURE): anybody in between could read and alter everything."));
        }
        let line = Line::new(Transport::new(reach, *call.deadline()), call.watch());
        let Identity { product, version, cluster_uuid, cluster_name } = identity::ask(&line)?;
        call.people().detail(&format!("{} {version} ({cluster_name})", product_name(product)));
        Ok(Self { line, product, version, cluster_uuid, cluster_name })
    }

    /// The server's address, without credentials.
    pub(crate) fn url(&self) -> &str {
        self.line.base()
    }

    /// The same server for looks beside work that is under way: a signal or the end of the time limit ends them, whatever was
    /// altered before.
    pub(crate) fn for_looks(&self) -> Self {
        Self { line: self.line.for_looks(), ..self.clone() }
    }

    /// The same server for taking something back after a signal or the end of the time limit: one that does not answer within
    /// 10 s is given up.
    pub(crate) fn in_haste(&self) -> Self {
        Self { line: self.line.in_haste(), ..self.clone() }
    }

    /// A `GET`.
    ///
    /// # Errors
    /// As [`refusal`] maps them; no answer is 5. As long as this call has altered nothing, a signal, or the end of the time
    /// limit (6), also ends the request; later on, what is begun is carried to its end.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask("GET", path, None)
    }

    /// The same, read as what it is to be.
    ///
    /// # Errors
    /// As [`Server::get`].
    pub(crate) fn get_as<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.line.look_for(path).map_err(|trouble| trouble.failure)
    }

    /// A `GET` of something that may not be there.
    ///
    /// # Errors
    /// As [`Server::get`], but what is not there is `None`.
    pub(crate) fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.get(path) {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.status == Status::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Makes all that was written to indices (names, comma separated) visible to searches and counts. Not a change: what
    /// there is stays as it is.
    ///
    /// # Errors
    /// As [`Server::get`].
    pub(crate) fn refresh(&self, indices: &str) -> Result<(), Failure> {
        self.ask("POST", &path(&[indices, "_refresh"]), None).map(drop)
    }

    /// A request without a lasting effect, such as a refresh or a verification.
    ///
    /// # Errors
    /// As [`Server::get`].
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.line.look(method, path, body).and_then(line::good).map_err(|trouble| trouble.failure)
    }

    /// A request of which no account is kept, ended by a signal or the end of the time limit, with what is known of its effect
    /// where it failed: nothing, where it was given up.
    ///
    /// # Errors
    /// As [`refusal`] maps them; a signal, or the end of the time limit.
    pub(crate) fn attempt(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Trouble> {
        self.line.for_looks().look(method, path, body).and_then(line::good)
    }

    /// So long, and no longer than a step may wait whose time is over: see [`grace`].
    pub(crate) fn at_most(&self, wanted: Duration) -> Duration {
        self.line.at_most(wanted)
    }

    /// A request that is given so long and no longer, whatever signal or time limit has come, and of which no account is kept:
    /// it takes back what must not be left.
    ///
    /// # Errors
    /// As [`refusal`] maps them; no answer in time is 5.
    pub(crate) fn within(&self, time: Duration, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.line.within(time, method, path, body).map_err(|trouble| trouble.failure)
    }

    /// A request that alters something: the call's account of effects is kept. Where the answer never comes, `changed`
    /// becomes unknown.
    ///
    /// # Errors
    /// As [`refusal`] maps them; nobody is there is 5, and an answer that never comes is 6.
    pub(crate) fn change(&self, call: &Call, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let attempt = call.effects().attempt();
        settle(attempt, self.line.act(method, path, body))
    }

    /// Starts a request that may take hours, in a thread of its own. Its effect is accounted for when its end is looked at.
    pub(crate) fn begin(&self, method: &str, path: &str, body: Option<Value>) -> Pending {
        self.line.begin(method, path, body)
    }

    /// Sends a request that may take hours, and waits for its end with an eye on signals and the time limit. `altered` says
    /// by the answer whether anything was altered.
    ///
    /// # Errors
    /// As [`Server::change`]; a signal or the end of the time limit, in which case the server goes on by itself.
    pub(crate) fn change_slowly(
        &self,
        call: &Call,
        method: &str,
        path: &str,
        altered: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let attempt = call.effects().attempt();
        let pending = self.begin(method, path, None);
        loop {
            match pending.wait(LOOK) {
                Some(Ok(answer)) if !altered(&answer) => {
                    attempt.refused();
                    return Ok(answer);
                }
                Some(ended) => return settle(attempt, ended),
                None => call.check()?,
            }
        }
    }
}

/// Keeps the account of one effect.
fn settle(attempt: Attempt<'_>, ended: Result<Value, Trouble>) -> Result<Value, Failure> {
    match ended {
        Ok(value) => {
            attempt.happened();
            Ok(value)
        }
        Err(trouble) => Err(failed(attempt, trouble)),
    }
}

/// Keeps the account of an effect that failed, and says what a lost answer means.
pub(crate) fn failed(attempt: Attempt<'_>, trouble: Trouble) -> Failure {
    let Trouble { failure, fate } = trouble;
    if fate == Fate::NoEffect {
        attempt.refused();
        return failure;
    }
    answer_lost(failure)
}

/// Nobody knows whether the request took effect; `why` is what came instead of an answer.
fn answer_lost(why: Failure) -> Failure {
    let mut failure = Failure::timeout(
        "answer_lost",
        "The search database's answer to a request was lost, and whether it took effect is not known.",
    )
    .hint("Run the same command again: it finds out how things stand.")
    .cause(why.message);
    failure.causes.extend(why.causes);
    failure
}

/// A server goes on by itself with work that nobody waits for any more: `what`, such as `the cleanup of the repository my_backup`.
pub(crate) fn left_at_work(failure: Failure, what: &str) -> Failure {
    match failure.code.as_str() {
        "interrupted" | "timeout" | "answer_lost" => failure.hint(format!(
            "The search database goes on by itself with {what}; run the same command again, which finds out how things stand."
        )),
        _ => failure,
    }
}
