//! The restore of the PostgreSQL database (procedure, 4.2): staged beside the live one, verified, and swapped in.

mod admin;
mod args;
mod clone;
mod create;
mod discard;
mod document;
mod load;
mod names;
mod preflight;
mod prepare;
mod record;
mod restore;
mod stage;
mod swap;
mod verify;

use clap::{Parser, Subcommand};
use svc_pgdump::pg::timed;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

/// The restore of the PostgreSQL database: staged beside the live one, verified, and swapped in
#[derive(Debug, Parser)]
#[command(
    name = "svc-pgrestore",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "Example: back to what was dumped; the replaced database stays
  svc-pgdump > dumped.json; svc-pgrestore --from dumped.json > restored.json
  svc-pgrestore discard --from restored.json"
)]
pub struct Cli {
    #[command(flatten)]
    restore: restore::Args,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Clone the database on the same server
    Clone(clone::CloneArgs),
    /// Load a dump beside the live database and verify it
    Stage(stage::StageArgs),
    /// Make what was staged or cloned the live database, or go back
    Swap(swap::SwapArgs),
    /// Drop what was staged, cloned or replaced
    Discard(discard::DiscardArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-pgrestore";

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        Schemas::of(Self::NAME)
            .step::<document::Restored>("restore")
            .step::<document::Staged>("stage")
            .step::<document::Swapped>("swap")
            .step::<document::Cloned>("clone")
            .step::<document::Discarded>("discard")
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            None => call.step("restore", self.restore.dry.dry_run, |call| timed(call, restore::run(&self.restore, call))),
            Some(Step::Clone(args)) => call.step("clone", args.dry.dry_run, |call| timed(call, clone::run(&args, call))),
            Some(Step::Stage(args)) => call.step("stage", args.dry.dry_run, |call| timed(call, stage::run(&args, call))),
            Some(Step::Swap(args)) => call.step("swap", args.dry.dry_run, |call| timed(call, swap::run(&args, call))),
            Some(Step::Discard(args)) => call.step("discard", args.dry.dry_run, |call| timed(call, discard::run(&args, call))),
        }
    }
}

/// The definition of the command line, for tests that go through its steps.
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}
