//! The command line: one match from step to function.

use clap::{Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

use crate::offsite::{copies, fetch, push};
use crate::{age, choose, create, delete, finalize, list, metrics, prune, rehearsal, remove, space};

/// Make, find and remove restore points
///
/// A restore point is a directory in SVC_BACKUP_DIR that holds both databases, the configuration and the version. It is
/// finalized by its SHA256SUMS; without them it is incomplete.
#[derive(Debug, Parser)]
#[command(
    name = "svc-point",
    version,
    after_long_help = "Example: the restore points of this host with their states; the one that svc-rollback would take
  svc-point list --table
  svc-point choose | jq -r .result.path"
)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Make the directory of a restore point
    Create(create::CreateArgs),
    /// Complete a restore point with the documents of its run, and write its SHA256SUMS
    Finalize(finalize::FinalizeArgs),
    /// Remove what a run has made of a restore point that it could not finalize
    Remove(remove::RemoveArgs),
    /// Choose and verify the restore point that a rollback takes
    Choose(choose::ChooseArgs),
    /// List the restore points, incomplete and damaged ones too
    List(list::ListArgs),
    /// Print the age of the newest valid restore point, or of the one last copied off-site, for monitoring
    Age(age::AgeArgs),
    /// Write what a monitoring system watches, in Prometheus's text format
    Metrics(metrics::MetricsArgs),
    /// Remove the restore points and run directories that are not needed any more
    Prune(prune::PruneArgs),
    /// Remove the named restore points, of whatever kind
    Delete(delete::DeleteArgs),
    /// Check whether a restore point has enough disk space
    Space(space::SpaceArgs),
    /// Report what a rehearsal found, and how long a rollback takes
    Rehearsal(rehearsal::RehearsalArgs),
    /// Copy a restore point and the snapshot repository off-site, with restic
    Push(push::PushArgs),
    /// Restore an off-site copy to this host
    Fetch(fetch::FetchArgs),
    /// List the off-site copies
    Copies(copies::CopiesArgs),
    /// Remove the off-site copies that are not needed any more
    PruneCopies(copies::PruneCopiesArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-point";

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        Schemas::of(Self::NAME)
            .step::<create::Created>("create")
            .step::<finalize::Finalized>("finalize")
            .step::<remove::Removed>("remove")
            .step::<choose::Chosen>("choose")
            .step::<list::Listed>("list")
            .step::<age::Age>("age")
            .step::<metrics::Metrics>("metrics")
            .step::<prune::Pruned>("prune")
            .step::<delete::Deleted>("delete")
            .step::<space::Space>("space")
            .step::<rehearsal::Rehearsal>("rehearsal")
            .step::<push::Pushed>("push")
            .step::<fetch::Fetched>("fetch")
            .step::<copies::Copies>("copies")
            .step::<copies::PrunedCopies>("prune-copies")
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Create(args) => call.step("create", args.dry.dry_run, |call| create::run(&args, call)),
            Step::Finalize(args) => call.step("finalize", args.dry.dry_run, |call| finalize::run(&args, call)),
            Step::Remove(args) => call.step("remove", args.dry.dry_run, |call| remove::run(&args, call)),
            Step::Choose(args) => call.step("choose", false, |call| choose::run(&args, call)),
            Step::List(args) => call.step("list", false, |call| list::run(&args, call)),
            Step::Age(args) => call.step("age", false, |call| age::run(&args, call)),
            Step::Metrics(args) => metrics::print(&args, call),
            Step::Prune(args) => call.step("prune", args.dry.dry_run, |call| prune::run(&args, call)),
            Step::Delete(args) => call.step("delete", args.dry.dry_run, |call| delete::run(&args, call)),
            Step::Space(args) => call.step("space", false, |call| space::run(&args, call)),
            Step::Rehearsal(args) => call.step("rehearsal", false, |call| rehearsal::run(&args, call)),
            Step::Push(args) => call.step("push", args.dry.dry_run, |call| push::run(&args, call)),
            Step::Fetch(args) => call.step("fetch", args.dry.dry_run, |call| fetch::run(&args, call)),
            Step::Copies(args) => call.step("copies", false, |call| copies::run(&args, call)),
            Step::PruneCopies(args) => call.step("prune-copies", args.dry.dry_run, |call| copies::prune(&args, call)),
        }
    }
}
