//! Snapshots of Elasticsearch 7.17, 8 and 9 and OpenSearch 1, 2 and 3 (procedure, 2.1 to 2.4, 4 and 4.1).
//!
//! From the bottom up, each imports only what stands before it here: `client/`, `index/`, `guard` (locks, blocks, the scope), `repository`,
//! `temporary` (a setting that is changed for the time of a step), `throttle`, `snapshot/`, `restore/`, and the steps in `commands/`.

mod client;
mod commands {
    pub(super) mod cleanup;
    pub(super) mod clone;
    pub(super) mod configure;
    pub(super) mod create;
    pub(super) mod delete;
    pub(super) mod discard;
    pub(super) mod health;
    pub(super) mod list;
    pub(super) mod prune;
    pub(super) mod register;
    pub(super) mod restore;
    pub(super) mod show;
    pub(super) mod stage;
    pub(super) mod swap;
    pub(super) mod verify;
    pub(super) mod wait;
}
mod guard;
mod index;
mod repository;
mod restore;
mod snapshot;
mod temporary;
mod throttle;

use clap::{Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

/// The steps by task.
const TASKS: [(&str, &[&str]); 4] = [
    ("Set up", &["configure", "register", "verify", "health"]),
    ("Take snapshots", &["create", "wait", "show", "list"]),
    ("Restore", &["restore", "stage", "swap", "clone", "discard"]),
    ("Delete snapshots", &["prune", "delete", "cleanup"]),
];

fn steps_by_task() -> String {
    let steps = Step::augment_subcommands(clap::Command::new(Cli::NAME));
    let about = |name: &str| steps.find_subcommand(name)?.get_about().map(ToString::to_string);
    let line = |name: &&str| format!("  {name:<11}{}\n", about(name).unwrap_or_default());
    let task = |(task, names): &(&str, &[&str])| format!("{task}:\n{}\n", names.iter().map(line).collect::<String>());
    TASKS.iter().map(task).collect::<String>() + "svc-snap help STEP shows the options of a step."
}

/// Snapshots of Elasticsearch and OpenSearch: take, verify, stage, swap and restore them
#[derive(Debug, Parser)]
#[command(
    name = "svc-snap",
    version,
    before_help = steps_by_task(),
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}",
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
    /// Make the repository's directory and append it to path.repo of the server
    Configure(commands::configure::ConfigureArgs),
    /// Register a repository with the cluster
    Register(commands::register::RegisterArgs),
    /// Verify that every node can write to the repository
    Verify(commands::verify::VerifyArgs),
    /// Take a snapshot, wait for it, and verify it
    Create(commands::create::CreateArgs),
    /// Wait until a snapshot has ended, and verify it
    Wait(commands::wait::WaitArgs),
    /// Show one snapshot, and whether it is valid
    Show(commands::show::ShowArgs),
    /// List the snapshots of a repository
    List(commands::list::ListArgs),
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
    Cleanup(commands::cleanup::CleanupArgs),
    /// Delete a snapshot
    Delete(commands::delete::DeleteArgs),
    /// Delete the snapshots that are not needed
    Prune(commands::prune::PruneArgs),
    /// Show the state of the cluster, and whether it is ready for snapshots
    Health(commands::health::HealthArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-snap";

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        Schemas::of(Self::NAME)
            .step::<commands::configure::Configured>("configure")
            .step::<commands::register::Registered>("register")
            .step::<commands::verify::Verified>("verify")
            .step::<commands::create::Created>("create")
            .step::<snapshot::Backup>("wait")
            .step::<commands::show::Shown>("show")
            .step::<commands::list::Listed>("list")
            .step::<restore::Staged>("stage")
            .step::<restore::Swapped>("swap")
            .step::<commands::discard::Discarded>("discard")
            .step::<restore::Restored>("restore")
            .step::<restore::CopySet>("clone")
            .step::<commands::cleanup::CleanedUp>("cleanup")
            .step::<commands::delete::Deleted>("delete")
            .step::<commands::prune::Pruned>("prune")
            .step::<commands::health::Health>("health")
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Configure(args) => call.step("configure", args.dry.dry_run, |call| commands::configure::run(&args, call)),
            Step::Register(args) => call.step("register", args.dry.dry_run, |call| commands::register::run(&args, call)),
            Step::Verify(args) => call.step("verify", false, |call| commands::verify::run(&args, call)),
            Step::Create(args) => call.step("create", args.dry.dry_run, |call| commands::create::run(&args, call)),
            Step::Wait(args) => call.step("wait", false, |call| commands::wait::run(&args, call)),
            Step::Show(args) => call.step("show", false, |call| commands::show::run(&args, call)),
            Step::List(args) => call.step("list", false, |call| commands::list::run(&args, call)),
            Step::Stage(args) => call.step("stage", args.dry.dry_run, |call| commands::stage::run(&args, call)),
            Step::Swap(args) => call.step("swap", args.dry.dry_run, |call| commands::swap::run(&args, call)),
            Step::Discard(args) => call.step("discard", args.dry.dry_run, |call| commands::discard::run(&args, call)),
            Step::Restore(args) => call.step("restore", args.dry.dry_run, |call| commands::restore::run(&args, call)),
            Step::Clone(args) => call.step("clone", args.dry.dry_run, |call| commands::clone::run(&args, call)),
            Step::Cleanup(args) => call.step("cleanup", args.dry.dry_run, |call| commands::cleanup::run(&args, call)),
            Step::Delete(args) => call.step("delete", args.dry.dry_run, |call| commands::delete::run(&args, call)),
            Step::Prune(args) => call.step("prune", args.dry.dry_run, |call| commands::prune::run(&args, call)),
            Step::Health(args) => call.step("health", false, |call| commands::health::run(&args, call)),
        }
    }
}

/// The definition of the command line, for tests that go through its steps.
#[must_use]
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_step_once_with_summary() {
        let (command, help) = (cli(), cli().render_help().to_string());
        assert_eq!(TASKS.iter().flat_map(|(_, names)| *names).count(), command.get_subcommands().count());
        for step in command.get_subcommands() {
            let line = format!("  {:<11}{}", step.get_name(), step.get_about().unwrap());
            assert_eq!(help.lines().filter(|found| *found == line).count(), 1, "{line}\n{help}");
        }
    }
}
