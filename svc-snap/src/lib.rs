//! Snapshots of the search database (procedure, 2.1 to 2.4, 4 and 4.1): Elasticsearch 7.17, 8 and 9, OpenSearch 1, 2 and 3,
//! told apart by the server's own answer.

mod bring;
mod chosen;
mod connection;
mod create;
mod follow;
mod guard;
mod identity;
mod live;
mod look;
mod mark;
mod name;
mod noted;
mod path;
mod refusal;
mod repository;
mod resolve;
mod restore;
mod scope;
mod server;
mod shape;
mod snapshot;
mod source;
mod stage;
mod staged;
mod swap;
mod take;
mod transport;
mod unstage;
mod url;
mod verdict;

use clap::{Parser, Subcommand};
use schemars::Schema;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::tool::Tool;

pub use create::{CreateArgs, Created};
pub use restore::{RestoreArgs, Restored};
pub use stage::{StageArgs, Staged};
pub use swap::{SwapArgs, Swapped};
pub use unstage::{UnstageArgs, Unstaged};

/// Snapshots of the search database: take, judge, stage, swap and restore them
#[derive(Debug, Parser)]
#[command(
    name = "svc-snap",
    version,
    after_long_help = "Examples: the one-time configuration, then a backup
  svc-snap configure --location /var/backups/search/backup_repo && systemctl restart opensearch
  svc-snap register --location /var/backups/search/backup_repo && svc-snap verify
  svc-snap create --taken-because 'before the upgrade to 2.0.1'"
)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Take a snapshot, wait for it, and judge it
    Create(CreateArgs),
    /// Restore a snapshot beside the live indices, and prove it there
    Stage(StageArgs),
    /// Make live what was staged, or put back what a swap replaced
    Swap(SwapArgs),
    /// Remove what was staged or kept
    Unstage(UnstageArgs),
    /// Restore a snapshot: stage it, prove it, swap it in
    Restore(RestoreArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-snap";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn common(&self) -> &Common {
        &self.common
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Create(args) => call.step("create", args.dry.dry_run, |call| create::run(&args, call)),
            Step::Stage(args) => call.step("stage", args.dry.dry_run, |call| stage::run(&args, call)),
            Step::Swap(args) => call.step("swap", args.dry.dry_run, |call| swap::run(&args, call)),
            Step::Unstage(args) => call.step("unstage", args.dry.dry_run, |call| unstage::run(&args, call)),
            Step::Restore(args) => call.step("restore", args.dry.dry_run, |call| restore::run(&args, call)),
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
        svc_step::schema::of::<Created>(Cli::NAME, "create"),
        svc_step::schema::of::<Staged>(Cli::NAME, "stage"),
        svc_step::schema::of::<Swapped>(Cli::NAME, "swap"),
        svc_step::schema::of::<Unstaged>(Cli::NAME, "unstage"),
        svc_step::schema::of::<Restored>(Cli::NAME, "restore"),
    ]
}
