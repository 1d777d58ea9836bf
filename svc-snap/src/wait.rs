//! `wait`: until a snapshot is finished; judged as `create` judges it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::from::Accept;
use svc_step::{Call, StepResult, Stopped};

use crate::connection::Connection;
use crate::follow::Follow;
use crate::kept::Kept;
use crate::noted::Noted;
use crate::server::Server;
use crate::snapshot::{self, Snapshot};
use crate::source::SourceArgs;
use crate::verdict;

/// Arguments of `svc-snap wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap wait snapshot_svc_20261120
  svc-snap create --no-wait | svc-snap wait --from -")]
pub struct WaitArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    connection: Connection,
}

/// A snapshot that is finished and good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The snapshot's name.
    pub name: String,
    /// What was asked for, by name, where this host or the `--from` document knows it.
    pub wanted: Vec<String>,
    /// The snapshot, as the server shows it.
    pub snapshot: Option<Snapshot>,
    /// What was noted of its indices: on this host when it was begun, or else in the `--from` document.
    pub noted: Vec<Noted>,
}

pub(crate) fn run(args: &WaitArgs, call: &Call) -> StepResult<Waited> {
    let source = args.source.read(call, Accept::Unfinished)?;
    let server = Server::connect(&args.connection, call)?;
    source.check_server(&server, args.source.other)?;
    let (repository, name) = (source.repository.as_str(), source.name.as_str());
    let first = snapshot::get(&server, repository, name)?;
    source.check_uuid(&first)?;
    let mut kept = Kept::read(call, &server, repository, &first);
    let mut waited = Waited {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.to_owned(),
        name: name.to_owned(),
        wanted: kept.as_ref().map_or(source.wanted(), |kept| &kept.wanted).to_vec(),
        snapshot: Some(first),
        noted: kept.as_ref().map_or_else(|| source.noted().to_vec(), |kept| kept.notes.noted()),
    };
    let ended = Follow::new(call, &server, repository, name).until_finished();
    let verdict = ended.and_then(|snapshot| {
        if let Some(kept) = &mut kept {
            waited.noted = kept.settle(call, &server);
        }
        let verdict = verdict::judge(repository, &snapshot, &waited.wanted);
        waited.snapshot = Some(snapshot);
        verdict
    });
    match verdict {
        Ok(()) => Ok(waited),
        Err(failure) => Err(Stopped::with(failure, waited)),
    }
}
