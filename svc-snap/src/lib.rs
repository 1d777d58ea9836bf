//! Snapshots of Elasticsearch 7.17, 8 and 9 and OpenSearch 1, 2 and 3 (procedure, 2.1 to 2.4, 4 and 4.1), told apart by the
//! server's own answer.
//!
//! What lies where, from the ground up; each imports only what stands above it in this list:
//! - `connection/`: how the search database is reached: address, credentials, TLS.
//! - `server/`: requests and what a refusal means, what is read of an answer (`json`), the
//!   nodes' disks.
//! - `index/`: what an index is on the server, its `shape` beside its documents, which indices and data streams are meant (`select`),
//!   the names of our own `copies`, and the requests that clone, block and exchange indices (`act`, `clone`).
//! - `repository/`: what is known of it, whether every node can use it (`verdict`), its `cleanup`.
//! - `snapshot/`: reads one, judges it (`verdict`), waits for it (`follow`), knows whose it is (`mark`), says which one a step
//!   goes on with (`source`), what its documents say (`backup`), what it does not hold (`noted`) and how this host remembers
//!   that (`kept`).
//! - `throttle`: the throttles on snapshots and restores, and what clients may create, changed for a time and put back.
//! - `capacity`: whether there is room for a restore, clones or a swap.
//! - `restore/`: the snapshot and what of it is restored (`source`), the `stage` beside what is live and how it is verified (`verify`),
//!   the `plan` of a swap with its `checks`, the `swap` in five phases with its `requests` and its `undo`, the restore `in_place`, and
//!   what a run has begun (`record`, `result`). `guard`: the lock that keeps two runs apart, and names outside the scope or in use.
//! - One file for each step, in `commands/` those that bring copies into use or remove them, with a folder where it has parts:
//!   `configure/`, `create/`, `health/`, `prune/`, `register/`. No step imports another.

mod capacity;
mod cleanup;
#[cfg(test)]
mod codes;
mod commands;
mod configure;
mod connection;
mod create;
mod delete;
mod guard;
mod health;
mod index;
mod list;
mod prune;
mod register;
mod repository;
mod restore;
mod server;
mod show;
mod snapshot;
mod throttle;
mod verify;
mod wait;

use clap::{Parser, Subcommand};
use schemars::Schema;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::tool::Tool;

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
    /// Make the repository's folder and put it into the server's configuration
    Configure(configure::ConfigureArgs),
    /// Make a repository known to the server
    Register(register::RegisterArgs),
    /// Let every node prove that it can use the repository
    Verify(verify::VerifyArgs),
    /// Take a snapshot, wait for it, and judge it
    Create(create::CreateArgs),
    /// Wait until a snapshot is finished, and check it
    Wait(wait::WaitArgs),
    /// Show one snapshot, and whether it is good
    Show(show::ShowArgs),
    /// List the snapshots of a repository
    List(list::ListArgs),
    /// Restore a snapshot beside the live indices, and verify it there
    Stage(commands::stage::StageArgs),
    /// Make live what was staged or cloned, or put back what a swap replaced
    Swap(commands::swap::SwapArgs),
    /// Remove what was staged, cloned or replaced
    Discard(commands::discard::DiscardArgs),
    /// Restore a snapshot: stage it, verify it, swap it in
    Restore(commands::restore::RestoreArgs),
    /// Clone the live indices, to be swapped back
    Clone(commands::clone::CloneArgs),
    /// Remove stale data from a repository
    Cleanup(cleanup::CleanupArgs),
    /// Remove a snapshot
    Delete(delete::DeleteArgs),
    /// Remove the snapshots that are not needed any more
    Prune(prune::PruneArgs),
    /// Say how the server is, and whether it is ready for snapshots
    Health(health::HealthArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-snap";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn common(&self) -> &Common {
        &self.common
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Configure(args) => call.step("configure", args.dry.dry_run, |call| configure::run(&args, call)),
            Step::Register(args) => call.step("register", args.dry.dry_run, |call| register::run(&args, call)),
            Step::Verify(args) => call.step("verify", false, |call| verify::run(&args, call)),
            Step::Create(args) => call.step("create", args.dry.dry_run, |call| create::run(&args, call)),
            Step::Wait(args) => call.step("wait", false, |call| wait::run(&args, call)),
            Step::Show(args) => call.step("show", false, |call| show::run(&args, call)),
            Step::List(args) => call.step("list", false, |call| list::run(&args, call)),
            Step::Stage(args) => call.step("stage", args.dry.dry_run, |call| commands::stage::run(&args, call)),
            Step::Swap(args) => call.step("swap", args.dry.dry_run, |call| commands::swap::run(&args, call)),
            Step::Discard(args) => call.step("discard", args.dry.dry_run, |call| commands::discard::run(&args, call)),
            Step::Restore(args) => call.step("restore", args.dry.dry_run, |call| commands::restore::run(&args, call)),
            Step::Clone(args) => call.step("clone", args.dry.dry_run, |call| commands::clone::run(&args, call)),
            Step::Cleanup(args) => call.step("cleanup", args.dry.dry_run, |call| cleanup::run(&args, call)),
            Step::Delete(args) => call.step("delete", args.dry.dry_run, |call| delete::run(&args, call)),
            Step::Prune(args) => call.step("prune", args.dry.dry_run, |call| prune::run(&args, call)),
            Step::Health(args) => call.step("health", false, |call| health::run(&args, call)),
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
        svc_step::schema::of::<configure::Configured>(Cli::NAME, "configure"),
        svc_step::schema::of::<register::Registered>(Cli::NAME, "register"),
        svc_step::schema::of::<verify::Verified>(Cli::NAME, "verify"),
        svc_step::schema::of::<create::Created>(Cli::NAME, "create"),
        svc_step::schema::of::<wait::Waited>(Cli::NAME, "wait"),
        svc_step::schema::of::<show::Shown>(Cli::NAME, "show"),
        svc_step::schema::of::<list::Listed>(Cli::NAME, "list"),
        svc_step::schema::of::<restore::result::Staged>(Cli::NAME, "stage"),
        svc_step::schema::of::<restore::result::Swapped>(Cli::NAME, "swap"),
        svc_step::schema::of::<commands::discard::Discarded>(Cli::NAME, "discard"),
        svc_step::schema::of::<restore::result::Restored>(Cli::NAME, "restore"),
        svc_step::schema::of::<restore::result::Cloned>(Cli::NAME, "clone"),
        svc_step::schema::of::<cleanup::CleanedUp>(Cli::NAME, "cleanup"),
        svc_step::schema::of::<delete::Deleted>(Cli::NAME, "delete"),
        svc_step::schema::of::<prune::Pruned>(Cli::NAME, "prune"),
        svc_step::schema::of::<health::Health>(Cli::NAME, "health"),
    ]
}
