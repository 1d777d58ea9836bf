//! `create`: take a snapshot, wait for it, and judge it (procedure, 2.2, 2.4, 3 and 9.2 step 2).

mod take;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::effects::Changed;
use svc_step::settings::ServiceArg;
use svc_step::{Call, Failure, StepResult, Stopped};

use self::take::{Take, Taking, in_use};
use crate::connection::Connection;
use crate::guard;
use crate::index::select::{self, PassedOver, Patterns, ScopeArg, Selected};
use crate::repository::{self, RepositoryArg};
use crate::server::Server;
use crate::snapshot::backup::Backup;
use crate::snapshot::kept::{self, Kept};
use crate::snapshot::mark::{Mark, MarkArgs};
use crate::snapshot::{self, Snapshot, name, noted, verdict};
use crate::throttle::{RateArg, RateUsed, Rates};

/// How often `--unique` picks a name, where others take each one meanwhile.
const RACES: usize = 20;

/// Arguments of `svc-snap create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap create
  svc-snap create --unique --taken-because 'before the upgrade to 2.0.1' > snapshot.json
  svc-snap create nightly_1 --indices 'content,log-*' --kind nightly")]
pub struct CreateArgs {
    /// The snapshot's name; default: snapshot_<service>_<YYYYMMDD>
    #[arg(value_name = "NAME", value_parser = name::snapshot)]
    name: Option<String>,
    /// If the name is in use, take the first free one of NAME_2, NAME_3, …
    #[arg(long)]
    unique: bool,
    /// What to take: names and patterns, comma separated, -PATTERN leaves out; default: all of the scope
    #[arg(long, value_name = "PATTERNS", allow_hyphen_values = true)]
    indices: Option<String>,
    /// Return as soon as the snapshot is begun; svc-snap wait judges it
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
    #[command(flatten)]
    connection: Connection,
}

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Which snapshot, and what was noted beside it.
    #[serde(flatten)]
    pub backup: Backup,
    /// What is live in the cluster and was not asked for, with the reason.
    pub skipped: Vec<PassedOver>,
    /// Whether an earlier call of the same run had begun it, and this one only waited for it and judged it.
    pub resumed: bool,
    /// The throttle of the repository, where `--rate-limit` speaks of it; else `null`.
    pub throttle: Option<RateUsed>,
    /// What is done.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CreateArgs, call: &Call) -> StepResult<Created> {
    let mark = args.mark.mark(call)?;
    let server = Server::connect(&args.connection, call)?;
    let repository = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, repository, &args.dry)?;
    let live = select::live(&server, &args.scope.scope, &Patterns::parse(args.indices.as_deref().unwrap_or("*")))?;
    refuse_blocked(&server, &live)?;
    for _ in 1..RACES {
        match create(args, call, &server, &mark, &live) {
            // Another run has taken the name since it was free, and nothing of ours was begun.
            Err(stopped)
                if args.unique && stopped.failure.code == "snapshot_name_in_use" && call.effects().changed() == Changed::No => {}
            ended => return ended,
        }
    }
    create(args, call, &server, &mark, &live)
}

/// The servers take no snapshot of an index that cannot be read, and nobody can note what another has.
fn refuse_blocked(server: &Server, live: &Selected) -> Result<(), Failure> {
    let is_taken =
        |name: &str| live.indices.iter().any(|index| index == name) || select::stream_of(name, &live.streams).is_some();
    guard::refuse_blocked(server, |index, block| matches!(block, "read" | guard::METADATA) && is_taken(index))
}

fn create(args: &CreateArgs, call: &Call, server: &Server, mark: &Mark, live: &Selected) -> StepResult<Created> {
    let repository = args.repository.repository.as_str();
    let (name, found) = choose(args, call, server, mark)?;
    let take = Take { repository, name: &name, wanted: live.names(), mark };
    let why_not = match (&found, args.no_wait) {
        (Some(_), _) => Some("the snapshot was begun by an earlier call"),
        (None, no_wait) => no_wait.then_some("with --no-wait nobody is there to put it back"),
    };
    let mut rates = Rates::of_repository(call, server, repository, &args.rate.rate, why_not)?;
    let plan = rates.around(if found.is_some() { Vec::new() } else { vec![take.action()] });
    let mut created = planned(server, &take, live, plan);
    created.throttle = rates.used();
    if args.dry.dry_run {
        created.backup.snapshot = found;
        return Ok(created);
    }
    rates.clear(call, server);
    let taking = Taking { call, server, take: &take };
    let ended = match found {
        Some(found) => resume(&taking, created, found, args.no_wait),
        None => take_it(&taking, created, live, &mut rates, !args.no_wait),
    };
    rates.account(call);
    ended
}

fn planned(server: &Server, take: &Take<'_>, live: &Selected, plan: Vec<Action>) -> Created {
    Created {
        backup: Backup {
            cluster_uuid: server.cluster_uuid.clone(),
            repository: take.repository.to_owned(),
            name: take.name.to_owned(),
            wanted: take.wanted.clone(),
            snapshot: None,
            noted: Vec::new(),
            noted_streams: Vec::new(),
        },
        skipped: live.skipped.clone(),
        resumed: false,
        throttle: None,
        plan,
    }
}

/// The name, and the snapshot of this name where this run has begun it already.
fn choose(args: &CreateArgs, call: &Call, server: &Server, mark: &Mark) -> Result<(String, Option<Snapshot>), Failure> {
    let repository = &args.repository.repository;
    let first = args.name.clone().unwrap_or_else(|| name::default_snapshot(&args.service.name, call.started_at()));
    let mut taken: Vec<String> = Vec::new();
    loop {
        let candidate = name::free(&first, &taken);
        match snapshot::find(server, repository, &candidate)? {
            None if taken.is_empty() || args.unique => return Ok((candidate, None)),
            None => {
                let hint = format!("Take a free name: svc-snap create {candidate}; --unique picks one by itself.");
                return Err(in_use(repository, &first).hint(hint));
            }
            Some(found) if mark.is_on(&found) => return Ok((candidate, Some(found))),
            Some(_) => taken.push(candidate),
        }
    }
}

/// An earlier call of this run has begun it: it is waited for, and judged by what that call wanted, and never begun again.
fn resume(taking: &Taking<'_>, mut created: Created, found: Snapshot, no_wait: bool) -> StepResult<Created> {
    let Taking { call, server, take } = taking;
    let mut kept = Kept::read(call, server, take.repository, &found);
    // What is live now says nothing of what was asked for then.
    created.backup.wanted = kept.as_ref().map(|kept| kept.wanted.clone()).unwrap_or_default();
    if let Some(kept) = &kept {
        created.backup.note(&kept.notes);
    }
    if kept.is_none() {
        let name = take.name;
        call.warn("not_noted", format!("What an earlier call noted of {name} is not here: neither its counts nor that it holds all that was asked for can be proven."));
    }
    created.resumed = true;
    let is_under_way = found.is_under_way();
    created.backup.snapshot = Some(found);
    if no_wait && is_under_way {
        return Ok(created);
    }
    let ended = taking.wait();
    if let (Ok(_), Some(kept)) = (&ended, &mut kept) {
        kept.settle(call, server);
        created.backup.note(&kept.notes);
    }
    finish(taking, created, ended)
}

fn take_it(taking: &Taking<'_>, mut created: Created, live: &Selected, rates: &mut Rates<'_>, wait: bool) -> StepResult<Created> {
    let Taking { call, server, take } = taking;
    let mut kept = Kept {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: take.repository.to_owned(),
        name: take.name.to_owned(),
        mark: take.mark.ours().clone(),
        wanted: take.wanted.clone(),
        notes: noted::before(call, server, live)?,
    };
    kept.write(call)?;
    created.backup.note(&kept.notes);
    let ended = rates.during(call, server, || {
        // A signal may have come while the throttle was changed.
        call.check()?;
        taking.begin()?;
        if wait { taking.wait_or_cancel().map(Some) } else { Ok(taking.last_get().flatten()) }
    });
    created.throttle = rates.used();
    match ended {
        Ok(Some(found)) if !found.is_under_way() => {
            kept.settle(call, server);
            created.backup.note(&kept.notes);
            finish(taking, created, Ok(found))
        }
        Ok(begun) => {
            created.backup.snapshot = begun;
            Ok(created)
        }
        Err(failure) => {
            if call.effects().changed() == Changed::No {
                kept::forget(call, server, take.repository, take.name);
            }
            finish(taking, created, Err(failure))
        }
    }
}

/// The verdict; whatever it is, the document says how things stand.
fn finish(taking: &Taking<'_>, mut created: Created, ended: Result<Snapshot, Failure>) -> StepResult<Created> {
    let failure = match ended {
        Ok(snapshot) => {
            let verdict = verdict::judge(taking.take.repository, &snapshot, &created.backup.wanted);
            created.backup.snapshot = Some(snapshot);
            match verdict {
                Ok(()) => return Ok(created),
                Err(failure) => failure,
            }
        }
        Err(failure) => {
            if let Some(found) = taking.last_get() {
                created.backup.snapshot = found.filter(|found| taking.take.mark.is_on(found));
            }
            failure
        }
    };
    Err(Stopped::with(failure, created))
}
