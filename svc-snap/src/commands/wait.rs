//! `wait`: until a snapshot is finished, checked as `create` checks it.

use svc_step::{Accept, Call, StepResult, Stopped};

use crate::snapshot::follow::Follow;
use crate::snapshot::{Backup, Source, SourceArgs, verdict};
use crate::temporary::Left;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap wait snapshot_svc_20261120
  svc-snap create --no-wait | svc-snap wait --from -")]
pub struct WaitArgs {
    #[command(flatten)]
    source: SourceArgs,
}

pub(crate) fn run(args: &WaitArgs, call: &Call) -> StepResult<Backup> {
    let (source, server, first) = args.source.find(call, Accept::Unfinished)?;
    let (repository, name) = (source.repository.as_str(), source.name.as_str());
    let mut backup = source.backup(call, &server, first, true);
    let ended = Follow::new(call, &server, repository, name).until_finished();
    let verdict = ended.and_then(|snapshot| {
        Source::of(backup.clone()).check_uuid(&snapshot)?;
        backup = source.backup(call, &server, snapshot.clone(), true);
        verdict::check(repository, &snapshot, &backup.wanted)
    });
    // A call that gave up waiting may not have been able to put the throttle back while the snapshot was running.
    if call.check().is_ok()
        && let Ok(left) = Left::find(call, &server, Some(repository))
    {
        left.put_back_alone(call, &server, repository);
    }
    Stopped::ended(verdict, backup)
}
