//! `wait`: until a snapshot is finished, judged as `create` judges it; or what `stage` or `restore --in-place` brings back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, FromArg, OtherServer, Received};
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::client::auth::Connection;
use crate::client::{Server, left_at_work};
use crate::repository::RepositoryArg;
use crate::restore::record;
use crate::restore::restored::{self, Brought, BroughtIndex};
use crate::restore::streams::{self, StreamBack};
use crate::snapshot::captured::{self, Backup, Source};
use crate::snapshot::follow::Follow;
use crate::snapshot::{self, mark, verdict};
use crate::throttle::Left;

/// Arguments of `svc-snap wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap wait snapshot_svc_20261120
  svc-snap create --no-wait | svc-snap wait --from -
  svc-snap wait --from restored.json                 a restore --in-place that goes on by itself")]
#[group(id = "what", required = true, multiple = false, args = ["name", "from", "of_run"])]
pub struct WaitArgs {
    /// The snapshot
    #[arg(value_name = "NAME", value_parser = mark::name)]
    name: Option<String>,
    #[command(flatten)]
    from: FromArg,
    /// Wait for the staging of that run, or else for its snapshot; its document was lost
    #[arg(id = "of_run", long = "run", value_name = "RUN")]
    run: Option<RunId>,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    connection: Connection,
}

/// A snapshot that is finished and good, or what was brought back from one, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// Which snapshot, and what was captured of its indices.
    #[serde(flatten)]
    pub backup: Backup,
    /// What was brought back from it, where a staging or a restore was waited for; else empty.
    pub brought: Vec<BroughtIndex>,
    /// The data streams of that restore that the server was asked for; else empty.
    pub streams: Vec<StreamBack>,
}

/// What is waited for.
enum What {
    Snapshot(Box<Source>),
    Brought(Brought),
}

impl WaitArgs {
    fn read(&self, call: &Call) -> Result<What, Failure> {
        let source = match (&self.from.from, &self.run, &self.name) {
            (Some(from), _, _) => {
                let schemas = [captured::SCHEMAS.as_slice(), &restored::SCHEMAS].concat();
                let received = Received::read(call, from, &schemas, Accept::Unfinished)?;
                if restored::SCHEMAS.contains(&received.schema()) {
                    return Brought::read(&received).map(What::Brought);
                }
                Source::received(&received)?
            }
            (None, Some(run), _) => match staged_by(call, run)? {
                Some(brought) => return Ok(What::Brought(brought)),
                None => taken_by(call, run)?,
            },
            (None, None, name) => Source::named(&self.repository.repository, name.as_deref().unwrap_or_default()),
        };
        Ok(What::Snapshot(Box::new(source)))
    }
}

/// The staging that a run has noted; a clone or a swap is nothing that the server goes on with.
fn staged_by(call: &Call, run: &RunId) -> Result<Option<Brought>, Failure> {
    let Some(noted) = swaps::find(call, run, &record::SCHEMAS)? else { return Ok(None) };
    if restored::SCHEMAS.contains(&noted.schema()) { Brought::read(&noted).map(Some) } else { Ok(None) }
}

/// The snapshot that a run noted before it asked for it.
fn taken_by(call: &Call, run: &RunId) -> Result<Source, Failure> {
    let mut sources = captured::of_run(call, run);
    match sources.as_slice() {
        [] => Err(Failure::not_found("run_not_found", format!("Neither a staging nor a snapshot of the run {run} is noted here."))
            .hint("svc-snap list shows the snapshots and their runs, and svc-snap wait NAME waits for one; svc-snap swap --run finishes a swap.")),
        [_] => Ok(sources.remove(0)),
        several => {
            let names: Vec<String> =
                several.iter().map(|one| format!("svc-snap wait {} --repository {}", one.name, one.repository)).collect();
            Err(Failure::usage("run_ambiguous", format!("The run {run} has noted {} snapshots.", several.len()))
                .hint(format!("Name the one: {}.", names.join("; "))))
        }
    }
}

pub(crate) fn run(args: &WaitArgs, call: &Call) -> StepResult<Waited> {
    let what = args.read(call)?;
    let server = Server::connect(&args.connection, call)?;
    let (ended, repository) = match &what {
        What::Snapshot(source) => (taken(args, call, &server, source), &source.repository),
        What::Brought(brought) => (back(args, call, &server, brought), &brought.repository),
    };
    // Also after a failure; but where there is no result there must be no effect.
    let is_known = match &ended {
        Ok(_) => true,
        Err(stopped) => stopped.result.is_some(),
    };
    if is_known && call.check().is_ok() {
        rate_back(call, &server, repository);
    }
    ended
}

/// A call that gave up waiting may not have been able to put the rate back while the snapshot was running.
fn rate_back(call: &Call, server: &Server, repository: &str) {
    if let Ok(left) = Left::find(call, server, Some(repository)) {
        left.put_back_alone(call, server, repository);
    }
}

/// Waits for what a staging or a restore brings back.
fn back(args: &WaitArgs, call: &Call, server: &Server, brought: &Brought) -> StepResult<Waited> {
    args.other.check(&brought.cluster_uuid, &server.cluster_uuid, server.url(), "--url (SVC_SEARCH_URL)")?;
    let mut waited = Waited {
        backup: Backup {
            cluster_uuid: server.cluster_uuid.clone(),
            repository: brought.repository.clone(),
            name: brought.snapshot.clone(),
            ..Backup::default()
        },
        brought: brought.indices(),
        streams: brought.streams(),
    };
    let not_asked = brought.streams_not_asked_for();
    if !not_asked.is_empty() {
        call.review(
            "streams_not_asked_for",
            format!(
                "The restore had not come to these data streams, and only the same restore again brings them: {}.",
                not_asked.join(", ")
            ),
        );
    }
    let ended = restored::prove(call, server, &mut waited.brought)
        .and_then(|()| waited.streams.iter_mut().try_for_each(|one| streams::prove_asked_for(call, server, one)));
    match ended {
        Ok(()) => Ok(waited),
        Err(failure) => Err(Stopped::with(left_at_work(failure, "the restore"), waited)),
    }
}

/// Waits for a snapshot that is being taken.
fn taken(args: &WaitArgs, call: &Call, server: &Server, source: &Source) -> StepResult<Waited> {
    source.check_server(server, args.other)?;
    let (repository, name) = (source.repository.as_str(), source.name.as_str());
    let first = snapshot::get(server, repository, name)?;
    source.check_uuid(&first)?;
    let mut waited = Waited { backup: source.backup(call, server, first), brought: Vec::new(), streams: Vec::new() };
    let ended = Follow::new(call, server, repository, name).until_finished();
    let verdict = ended.and_then(|snapshot| {
        waited.backup = source.backup(call, server, snapshot.clone());
        verdict::check(repository, &snapshot, &waited.backup.wanted)
    });
    match verdict {
        Ok(()) => Ok(waited),
        Err(failure) => Err(Stopped::with(failure, waited)),
    }
}
