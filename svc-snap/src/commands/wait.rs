//! `wait`: until a snapshot is finished, checked as `create` checks it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::{Accept, FromArg, OtherServer, Received};
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::client::Server;
use crate::client::auth::Connection;
use crate::repository::RepositoryArg;
use crate::snapshot;
use crate::snapshot::captured::{self, Backup, Source};
use crate::snapshot::follow::Follow;
use crate::snapshot::{mark, verdict};
use crate::throttle::Left;

/// Arguments of `svc-snap wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap wait snapshot_svc_20261120
  svc-snap create --no-wait | svc-snap wait --from -")]
#[group(id = "what", required = true, multiple = false, args = ["name", "from", "of_run"])]
pub struct WaitArgs {
    /// The snapshot
    #[arg(value_name = "NAME", value_parser = mark::name)]
    name: Option<String>,
    #[command(flatten)]
    from: FromArg,
    /// Wait for the snapshot of that run; its document was lost
    #[arg(id = "of_run", long = "run", value_name = "RUN")]
    run: Option<RunId>,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    connection: Connection,
}

/// A snapshot that is finished and valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    #[serde(flatten)]
    pub backup: Backup,
}

impl WaitArgs {
    fn read(&self, call: &Call) -> Result<Source, Failure> {
        match (&self.from.from, &self.run, &self.name) {
            (Some(from), _, _) => Source::received(&Received::read(call, from, &captured::SCHEMAS, Accept::Unfinished)?),
            (None, Some(run), _) => taken_by(call, run),
            (None, None, name) => Ok(Source::named(&self.repository.repository, name.as_deref().unwrap_or_default())),
        }
    }
}

/// The snapshot that a run recorded before it asked for it.
fn taken_by(call: &Call, run: &RunId) -> Result<Source, Failure> {
    let mut sources = captured::of_run(call, run);
    match sources.as_slice() {
        [] => Err(Failure::not_found("run_not_found", format!("No snapshot of the run {run} is recorded here.")).hint(
            "svc-snap list shows the snapshots and their runs, and svc-snap wait NAME waits for one. What stage, clone or restore left is resumed by the same command.",
        )),
        [_] => Ok(sources.remove(0)),
        several => {
            let names: Vec<String> =
                several.iter().map(|one| format!("svc-snap wait {} --repository {}", one.name, one.repository)).collect();
            Err(Failure::usage("run_ambiguous", format!("The run {run} has recorded {} snapshots.", several.len()))
                .hint(format!("Name the one: {}.", names.join("; "))))
        }
    }
}

pub(crate) fn run(args: &WaitArgs, call: &Call) -> StepResult<Waited> {
    let source = args.read(call)?;
    let server = Server::connect(&args.connection, call)?;
    let (repository, name) = (source.repository.as_str(), source.name.as_str());
    source.check_server(&server, args.other)?;
    let first = snapshot::get(&server, repository, name)?;
    source.check_uuid(&first)?;
    let mut waited = Waited { backup: source.backup(call, &server, first) };
    let ended = Follow::new(call, &server, repository, name).until_finished();
    let verdict = ended.and_then(|snapshot| {
        waited.backup = source.backup(call, &server, snapshot.clone());
        verdict::check(repository, &snapshot, &waited.backup.wanted)
    });
    // A call that gave up waiting may not have been able to put the throttle back while the snapshot was running.
    if call.check().is_ok()
        && let Ok(left) = Left::find(call, &server, Some(repository))
    {
        left.put_back_alone(call, &server, repository);
    }
    Stopped::ended(verdict, waited)
}
