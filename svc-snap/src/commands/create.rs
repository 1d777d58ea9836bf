//! `create`: take a snapshot, wait for it, and verify it (procedure, 2.2, 2.4, 3 and 9.2 step 2).
//! What the server shows decides, not the answer, which may be lost.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_step::effects::Attempt;
use svc_step::poll::{SOON, poll, sleep};
use svc_step::settings::ServiceArg;
use svc_step::{Action, Call, DryRun, Failure, Status, StepResult, Stopped};

use crate::client::{
    Effect, PAUSE, Pending, RETRY_BUSY_FOR, RequestError, RequestResult, Server, failed, path, retry_while_busy,
};
use crate::index::{Patterns, ScopeArg, Selected, Skipped, select};
use crate::repository::RepositoryArg;
use crate::restore::phases;
use crate::snapshot::captured::Captured;
use crate::snapshot::follow::Follow;
use crate::snapshot::mark::MarkArgs;
use crate::snapshot::{Backup, Snapshot, captured, follow, mark, verdict};
use crate::temporary::Target;
use crate::throttle::{RateArg, Rates, Throttle};
use crate::{guard, repository, snapshot};

/// How often `--unique` picks a name, if others take each one meanwhile.
const RACES: usize = 20;
/// How long the request may be unanswered while the server shows no such snapshot: a large repository's list may be read before.
const UNANSWERED: Duration = Duration::from_secs(150);
/// How long after a lost answer the snapshot may take to appear.
const APPEARS: Duration = Duration::from_secs(10);
/// How long a cancelled snapshot may take to go, and how long one request of that.
const CANCEL: Duration = Duration::from_secs(60);
const REMOVAL: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap create
  svc-snap create --unique --taken-because 'before the upgrade to 2.0.1' > snapshot.json
  svc-snap create nightly_1 --indices 'content,log-*' --kind nightly")]
pub struct CreateArgs {
    /// The snapshot's name; default: snapshot_<service>_<YYYYMMDD>
    #[arg(value_name = "NAME", value_parser = mark::name)]
    name: Option<String>,
    /// If the name is in use, take the first free one of NAME_2, NAME_3, …
    #[arg(long)]
    unique: bool,
    /// What to take: names and patterns, comma separated, -PATTERN leaves out; default: all of the scope
    #[arg(long, value_name = "PATTERNS", allow_hyphen_values = true)]
    indices: Option<String>,
    /// Return as soon as the snapshot is begun; svc-snap wait verifies it
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    rate: RateArg,
    #[command(flatten)]
    mark: MarkArgs,
    #[command(flatten)]
    service: ServiceArg,
    #[command(flatten)]
    scope: ScopeArg,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Which snapshot, and what was captured of its indices.
    #[serde(flatten)]
    pub backup: Backup,
    /// What is live in the cluster and was not asked for, with the reason.
    pub skipped: Vec<Skipped>,
    /// Whether an earlier call of the same run had begun it, and this one only waited for it and verified it.
    pub resumed: bool,
    /// The throttle of the repository, if `--rate-limit` sets it; else `null`.
    pub throttle: Option<Throttle>,
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CreateArgs, call: &Call) -> StepResult<Created> {
    let server = args.repository.connect(call)?;
    let _lock = repository::lock(call, &server, &args.repository.repository, args.dry.dry_run)?;
    let patterns = Patterns::parse(args.indices.as_deref().unwrap_or("*"));
    refuse_unfinished(args, call, &server, &patterns)?;
    let live = select::live(&server, &args.scope.scope, &patterns)?;
    // The servers take no snapshot of an index that cannot be read, and nothing can be captured of one whose metadata is blocked.
    guard::refuse_blocked(&server, |index, block| matches!(block, "read" | guard::METADATA) && live.holds(index))?;
    for _ in 1..RACES {
        match create(args, call, &server, &patterns, &live) {
            // Another run has taken the name since it was free, and nothing of ours was begun.
            Err(stopped) if args.unique && stopped.failure.code == "name_in_use" => {}
            ended => return ended,
        }
    }
    create(args, call, &server, &patterns, &live)
}

/// An index may be missing now, or be without writes, that is a swap's, a clone's or a restore's.
fn refuse_unfinished(args: &CreateArgs, call: &Call, server: &Server, patterns: &Patterns) -> Result<(), Failure> {
    let wanted = |name: &str| args.scope.scope.contains(name) && patterns.ask_for(name);
    phases::refuse_unfinished_runs(call, server, call.run_id(), wanted)?;
    phases::refuse_unopened(call, server, wanted)
}

fn create(args: &CreateArgs, call: &Call, server: &Server, patterns: &Patterns, live: &Selected) -> StepResult<Created> {
    let repository = args.repository.repository.as_str();
    let (name, found) = choose(args, call, server)?;
    let asked_for = format!("{} of {}", args.indices.as_deref().unwrap_or("*"), args.scope.scope);
    let recorded = found.as_ref().and_then(|found| Captured::read(call, server, repository, found));
    if recorded.as_ref().is_some_and(|recorded| recorded.asked_for != asked_for) {
        let message = format!("This run has begun the snapshot {name} in {repository} with other indices.");
        return Err(Failure::refused("options_invalid", message)
            .hint("For these, pass another name or another --run-id.")
            .into());
    }
    // The body of the procedure (2.2), with names: a snapshot of `*` would hold our own hidden copies too.
    let body = json!({
        "indices": live.names().join(","),
        "ignore_unavailable": true,
        "include_global_state": true,
        "metadata": args.mark.metadata(call),
    });
    let request = format!("{}?wait_for_completion=false", path(&["_snapshot", repository, &name]));
    let why_not = match (&found, args.no_wait) {
        (Some(_), _) => Some("the snapshot was begun by an earlier call"),
        (None, no_wait) => no_wait.then_some("with --no-wait no call would put it back"),
    };
    let mut rates = Rates::plan(call, server, Target::Repository(repository), &args.rate.rate, why_not)?;
    let plan = if found.is_some() { Vec::new() } else { vec![Action::request("PUT", &request, Some(body.clone()))] };
    let mut created = Created {
        backup: Backup {
            cluster_uuid: server.cluster_uuid.clone(),
            repository: repository.to_owned(),
            name: name.clone(),
            wanted: live.names(),
            ..Backup::default()
        },
        skipped: live.skipped.clone(),
        resumed: found.is_some(),
        throttle: rates.used.clone(),
        plan: rates.around(plan),
    };
    if args.dry.dry_run {
        created.backup.snapshot = found;
        return Ok(created);
    }
    // Before the first effect.
    let captured = match &found {
        Some(_) => recorded,
        None => Some(Captured::of(call, server, asked_for, created.backup.clone(), live)?),
    };
    rates.left.put_back(call, server);
    let taking = Taking { call, server, repository, name: &name };
    let ended = match found {
        Some(found) => {
            if captured.is_none() {
                call.warn("not_checked", format!("What an earlier call captured for {name} is not here: neither its counts nor that it holds all that was asked for can be verified."));
            }
            // By what the earlier call wanted: the indices that are live now say nothing of it.
            created.backup.wanted = Vec::new();
            created.backup.snapshot = Some(found);
            if args.no_wait { Ok(created.backup.snapshot.clone()) } else { taking.wait().map(Some) }
        }
        None => {
            let ended = rates.during(call, server, || {
                // A signal may have come while the throttle was changed.
                call.check()?;
                // One may have begun while the indices were captured.
                refuse_unfinished(args, call, server, patterns)?;
                taking.begin(&request, &body)?;
                if args.no_wait {
                    return Ok(taking.last_get().flatten());
                }
                taking.wait().map(Some).map_err(|why| if why.signal.is_some() { taking.cancelled(None, why) } else { why })
            });
            created.throttle = rates.used.clone();
            ended
        }
    };
    conclude(&taking, created, captured, ended)
}

/// The name, and the snapshot of this name if this run has begun it already.
fn choose(args: &CreateArgs, call: &Call, server: &Server) -> Result<(String, Option<Snapshot>), Failure> {
    let repository = &args.repository.repository;
    // The procedure's form (2.4), the date in UTC.
    let default = || format!("snapshot_{}_{}", args.service.name, call.started_at().strftime("%Y%m%d"));
    let first = args.name.clone().unwrap_or_else(default);
    let (mut candidate, mut number) = (first.clone(), 1);
    loop {
        match snapshot::find(server, repository, &candidate)? {
            None => return Ok((candidate, None)),
            Some(found) if found.is_of(call) => return Ok((candidate, Some(found))),
            Some(_) if !args.unique => return Err(in_use(repository, &first)),
            Some(_) => {
                number += 1;
                candidate = format!("{first}_{number}");
            }
        }
    }
}

/// Verifies what has ended; after a failure too, the document says what the server shows.
fn conclude(
    taking: &Taking<'_>,
    mut created: Created,
    mut captured: Option<Captured>,
    ended: Result<Option<Snapshot>, Failure>,
) -> StepResult<Created> {
    let Taking { call, server, repository, name } = *taking;
    let is_finished = matches!(&ended, Ok(Some(found)) if !found.is_under_way());
    if let Some(captured) = captured.as_mut().filter(|_| is_finished) {
        captured.compare(call, server, true);
    }
    if let Some(captured) = captured {
        created.backup = Backup { snapshot: created.backup.snapshot, ..captured.backup };
    }
    let verdict = match ended {
        Ok(found) => {
            created.backup.snapshot = found;
            let finished = created.backup.snapshot.as_ref().filter(|_| is_finished);
            finished.map_or(Ok(()), |found| verdict::check(repository, found, &created.backup.wanted))
        }
        Err(failure) => {
            if !created.resumed && call.effects().changed() == Some(false) {
                captured::remove_state_file(call, server, repository, name);
            }
            if let Some(found) = taking.last_get() {
                created.backup.snapshot = found.filter(|found| found.is_of(call));
            }
            Err(failure)
        }
    };
    Stopped::ended(verdict, created)
}

struct Taking<'a> {
    call: &'a Call,
    server: &'a Server,
    repository: &'a str,
    name: &'a str,
}

impl Taking<'_> {
    /// Begins it, and returns as soon as the server has accepted it or shows it: a signal cancels it, the time limit does not.
    fn begin(&self, request: &str, body: &Value) -> Result<(), Failure> {
        retry_while_busy(self.call, RETRY_BUSY_FOR, || self.send(request, body))
    }

    fn send(&self, request: &str, body: &Value) -> Result<(), Failure> {
        let attempt = self.call.effects().attempt();
        let pending = self.server.start("PUT", request, Some(body.clone()));
        let mut follow = self.follow();
        // What came in place of an acceptance.
        let mut error: Option<RequestError> = None;
        let mut until = Instant::now() + UNANSWERED;
        loop {
            match self.listen(error.is_none().then_some(&pending), follow.pause()) {
                Err(why) => return Err(self.stopped(attempt, &pending, why)),
                Ok(Some(Ok(answer))) if answer.get("accepted") == Some(&Value::Bool(true)) => {
                    attempt.happened();
                    return Ok(());
                }
                Ok(Some(ended)) => {
                    error = Some(ended.err().unwrap_or_else(not_accepted));
                    until = Instant::now() + APPEARS;
                }
                Ok(None) => {}
            }
            let has_no_effect = error.as_ref().is_some_and(|error| error.effect == Effect::None);
            match follow.poll() {
                Ok(Some(found)) if found.is_of(self.call) => {
                    attempt.happened();
                    return Ok(());
                }
                // Another run's: this one's is refused as long as that one is there.
                Ok(Some(_)) if error.is_some() || Instant::now() > until => {
                    attempt.refused();
                    let refused = error.filter(|_| has_no_effect).map(|error| error.failure);
                    return Err(refused.unwrap_or_else(|| in_use(self.repository, self.name)));
                }
                // A refusal is believed only of a server that shows that there is no such snapshot.
                Ok(None) if follow.is_answered() && (has_no_effect || Instant::now() > until) => {
                    return Err(failed(self.call, attempt, error.unwrap_or_else(not_accepted)));
                }
                Ok(_) => {}
                Err(why) => {
                    return Err(match self.call.check() {
                        Err(end) => self.stopped(attempt, &pending, end),
                        Ok(()) => failed(self.call, attempt, RequestError::unknown(error.map_or(why, |error| error.failure))),
                    });
                }
            }
        }
    }

    /// Waits so long, or until the answer is there.
    fn listen(&self, pending: Option<&Pending>, time: Duration) -> Result<Option<RequestResult>, Failure> {
        let Some(pending) = pending else { return self.call.pause(time).map(|()| None) };
        poll(SOON, time, |_| self.call.check(), || Ok(pending.wait(PAUSE)))
    }

    /// Polls one that was begun until it has ended; a signal or the time limit leaves it running.
    fn wait(&self) -> Result<Snapshot, Failure> {
        let (repository, name) = (self.repository, self.name);
        let why = match self.follow().until_finished() {
            Ok(found) if found.is_of(self.call) => return Ok(found),
            Ok(_) => in_use(repository, name),
            Err(why) if why.signal.is_some() || why.status == Status::Timeout || why.code == "repository_shared" => {
                return Err(why);
            }
            Err(why) => why,
        };
        let failure = if ["snapshot_not_found", "name_in_use"].contains(&why.code.as_str()) {
            let message = format!("The snapshot {name} in {repository} was begun, and is not there any more.");
            Failure::not_found("snapshot_not_found", message)
                .hint("It was deleted, or the server was restarted meanwhile; run the same command again, which takes it again.")
        } else {
            let message = format!("The snapshot {name} in {repository} was begun, and how it ended is unknown.");
            follow::continues(self.call, self.server, Failure::timeout("outcome_unknown", message), repository, name)
        };
        Err(why.causes.into_iter().fold(failure.cause(why.message), Failure::cause))
    }

    fn follow(&self) -> Follow<'_> {
        Follow::new(self.call, self.server, self.repository, self.name)
    }

    /// The snapshot of that name, whatever signal or time limit has come; `None` if the server does not answer.
    fn last_get(&self) -> Option<Option<Snapshot>> {
        snapshot::find(&self.server.with_shutdown_timeout(), self.repository, self.name).ok()
    }

    /// A signal, which cancels the snapshot, or the end of the time limit, which does not, while the answer is awaited.
    fn stopped(&self, attempt: Attempt<'_>, pending: &Pending, why: Failure) -> Failure {
        let is_begun = self.last_get().flatten().is_some_and(|found| found.is_of(self.call));
        is_begun.then(|| attempt.happened());
        if why.signal.is_some() {
            self.cancelled(Some(pending), why)
        } else if is_begun {
            follow::continues(self.call, self.server, why, self.repository, self.name)
        } else {
            why.hint(format!("Run {}: it finds out whether the snapshot was begun.", self.call.same_command()))
        }
    }

    /// Takes back what was begun. Only a snapshot that has this run's mark is deleted.
    fn cancelled(&self, pending: Option<&Pending>, why: Failure) -> Failure {
        let request = path(&["_snapshot", self.repository, self.name]);
        // Whether the server has shown it, or has refused it: else it may still come.
        let mut is_known = pending.is_none();
        let poll_once = || {
            if let Some(Some(Err(error))) = pending.map(|pending| pending.wait(Duration::ZERO)) {
                is_known |= error.effect == Effect::None;
            }
            let found = self.last_get();
            if found.iter().flatten().any(|found| found.is_of(self.call)) {
                is_known = true;
                let _ = self.server.attempt(Some(REMOVAL), "DELETE", &request, None);
                return Ok(None);
            }
            Ok(found.filter(|_| is_known))
        };
        if matches!(poll(SOON, self.server.at_most(CANCEL), sleep, poll_once), Ok(Some(_))) {
            self.call.effects().undone();
            return why.hint("Nothing is left of the snapshot; running the same command again is safe.");
        }
        let command = |step: &[&str]| self.server.command(self.call, &[step, &["--repository", self.repository]].concat());
        let (show, delete) = (command(&["show", self.name]), command(&["delete", self.name, "--cancel"]));
        why.hint(format!("The snapshot could not be cancelled: {show} shows it, and {delete} removes it."))
    }
}

fn in_use(repository: &str, name: &str) -> Failure {
    Failure::refused("name_in_use", format!("The repository {repository} has a snapshot {name} already."))
        .hint("Name another one, or pass --unique to have a free name picked.")
}

/// The request was sent, and neither an acceptance nor the snapshot came.
fn not_accepted() -> RequestError {
    RequestError::unknown(Failure::timeout("outcome_unknown", "The server shows no such snapshot, and no answer accepted it."))
}
