//! The command line: one match from step to function.

use clap::{Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

use crate::{age, choose, create, delete, finalize, list, metrics, prune, rehearsal, remove, space};

/// Make, find and remove restore points
///
/// A restore point is a folder in SVC_BACKUP_DIR that holds both databases, the configuration and the version of one moment. It is
/// finalized by its SHA256SUMS; without them it is incomplete.
#[derive(Debug, Parser)]
#[command(
    name = "svc-point",
    version,
    after_long_help = "Example: the restore points of this host, each with its state; then the one that svc-rollback would take
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
    /// Make the folder of a restore point
    Create(create::CreateArgs),
    /// Complete a restore point with the documents of its run, and write its SHA256SUMS
    Finalize(finalize::FinalizeArgs),
    /// Remove what a run has made of a restore point that it could not finalize
    Remove(remove::RemoveArgs),
    /// Choose and verify the restore point that a rollback takes
    Choose(choose::ChooseArgs),
    /// List the restore points, incomplete and damaged ones too
    List(list::ListArgs),
    /// Say how old the newest valid restore point is, or its copy off the host, for monitoring
    Age(age::AgeArgs),
    /// Write what a monitoring system watches, in Prometheus's text format
    Metrics(metrics::MetricsArgs),
    /// Remove the restore points and run directories that are not needed any more
    Prune(prune::PruneArgs),
    /// Remove the named restore points, of whatever kind
    Delete(delete::DeleteArgs),
    /// Check whether a restore point has enough disk space
    Space(space::SpaceArgs),
    /// Say what a rehearsal has found, and how long a rollback takes
    Rehearsal(rehearsal::RehearsalArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-point";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_step_has_help_with_an_example() {
        let mut cli = svc_step::tool::command::<Cli>();
        cli.build();
        cli.clone().debug_assert();
        for step in cli.get_subcommands_mut().filter(|step| step.get_name() != "help") {
            let help = step.render_long_help().to_string();
            assert!(help.contains("Example"), "svc-point {} --help lacks an example", step.get_name());
        }
    }
}
