//! The relational database's restore (procedure, 4.2): staged beside the live database, proven, and swapped in.

mod analyze;
mod connections;
mod discard;
mod exchange;
mod fill;
mod in_place;
mod input;
mod loader;
mod names;
mod notes;
mod outcome;
mod part;
mod preflight;
mod prepare;
mod proof;
mod rename;
mod restore;
mod server;
mod settings;
mod share;
mod stage;
mod swap;
mod tables;
mod trial;

use clap::{Parser, Subcommand};
use schemars::Schema;
use svc_pgdump::timed;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::tool::Tool;

pub use discard::DiscardArgs;
pub use loader::{Filter, Loader, LoaderArgs};
pub use outcome::{Discarded, Proof, PropertiesFrom, Restored, Source, Staged, Swapped};
pub use restore::WholeArgs;
pub use stage::StageArgs;
pub use swap::SwapArgs;

/// The relational database's restore: staged beside the live database, proven, and swapped in
#[derive(Debug, Parser)]
#[command(
    name = "svc-pgrestore",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "Example: back to what was dumped, the replaced database being kept
  svc-pgdump > dumped.json; svc-pgrestore --from dumped.json > restored.json
  svc-pgrestore discard --from restored.json"
)]
pub struct Cli {
    #[command(flatten)]
    whole: WholeArgs,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Load a dump beside the live database and prove it
    Stage(StageArgs),
    /// Make what was staged the live database, or go back
    Swap(SwapArgs),
    /// Drop what was staged or kept
    Discard(DiscardArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-pgrestore";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn common(&self) -> &Common {
        &self.common
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            None => call.step("restore", self.whole.dry.dry_run, |call| timed(call, restore::run(&self.whole, call))),
            Some(Step::Stage(args)) => call.step("stage", args.dry.dry_run, |call| timed(call, stage::run(&args, call))),
            Some(Step::Swap(args)) => call.step("swap", args.dry.dry_run, |call| timed(call, swap::run(&args, call))),
            Some(Step::Discard(args)) => call.step("discard", args.dry.dry_run, |call| timed(call, discard::run(&args, call))),
        }
    }
}

/// The command line's definition, for man pages and completions.
#[must_use]
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}

/// The JSON Schema of each step's document, by the step's name.
#[must_use]
pub fn schemas() -> Vec<(String, Schema)> {
    vec![
        svc_step::schema::of::<Restored>(Cli::NAME, "restore"),
        svc_step::schema::of::<Staged>(Cli::NAME, "stage"),
        svc_step::schema::of::<Swapped>(Cli::NAME, "swap"),
        svc_step::schema::of::<Discarded>(Cli::NAME, "discard"),
    ]
}
