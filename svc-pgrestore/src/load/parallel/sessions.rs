//! The connections of a load. All of them have the same settings, those at the head of the dump included.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::error::Severity;
use svc_pgdump::pg::Said;
use svc_pgdump::pg::{self, Listener, Target};
use svc_step::{Call, Failure};

use super::super::choice::fewer_connections;
use super::super::{ARRAY_NULLS, Load, WARNINGS};
use crate::admin::{Admin, session_pid, up_to};

/// A load does not wait for the disk at each statement. What was loaded is on
/// the disk all the same when it is verified: `ANALYZE` and the database's own properties follow on other connections, which do wait.
/// Everything else is as the server and the database have it, as where psql reads the dump.
const SETTINGS: &str = "SET synchronous_commit = off";
/// How long sessions may take to go, and how often they are polled.
const GOING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);
/// From this `server_version_num` on a server can look whether the client is still there.
const CONNECTION_CHECKS: u32 = 140_000;

pub(super) struct Sessions {
    /// The one that statements run on which run alone.
    pub(super) first: Client,
    pub(super) others: Vec<Client>,
    warnings: Warnings,
}

impl Sessions {
    /// Connects. Where the server has no room for as many, fewer are enough, and a warning says so.
    pub(super) fn open(call: &Call, target: &Target, load: &Load<'_>, jobs: usize) -> Result<Self, Failure> {
        let warnings = Warnings::default();
        let connect = || prepared(target.connect_heard(call, load.database, &warnings.listener())?, load.server);
        let (first, others) = up_to(jobs, connect)?;
        let got = others.len() + 1;
        if got < jobs {
            fewer_connections(call, got, jobs);
        }
        Ok(Self { first, others, warnings })
    }

    pub(super) fn pids(&mut self) -> Result<Vec<i32>, Failure> {
        self.all().map(session_pid).collect()
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Client> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    pub(super) fn warnings(&self) -> Warnings {
        self.warnings.clone()
    }
}

fn prepared(mut client: Client, server: u32) -> Result<Client, Failure> {
    for settings in [SETTINGS, ARRAY_NULLS] {
        client.batch_execute(settings).map_err(|error| pg::of_query(&error, "prepare the session"))?;
    }
    if server >= CONNECTION_CHECKS {
        // So that a statement of hours ends with us, also where we are killed; not every system can.
        let _ = client.batch_execute("SET client_connection_check_interval = '2s'");
    }
    Ok(client)
}

/// Waits until the server has let go of sessions that were ended: what comes next connects too, and may need their places.
pub(super) fn gone(call: &Call, admin: &mut Admin, pids: &[i32]) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let count = admin.client.query_one("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)", &[&pids]);
        let count: i64 = count.and_then(|row| row.try_get(0)).map_err(|error| pg::of_query(&error, "look at the sessions"))?;
        // A session that will not go is in nobody's way but for its place.
        if count == 0 || started.elapsed() > GOING {
            return Ok(());
        }
        call.pause(POLL)?;
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn listener(&self) -> Listener {
        let heard = Arc::clone(&self.0);
        Arc::new(move |notice| {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            if notice.parsed_severity() == Some(Severity::Warning) && heard.len() < WARNINGS {
                heard.push(Said::from(notice).message());
            }
        })
    }

    pub(super) fn tell(&self, call: &Call) {
        for warning in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            call.warn("load_warning", format!("The server warned during the load: {warning}."));
        }
    }
}
