//! Versions of the service: which one is installed, which one an installer installs, and whether the upgrade from one to
//! the other is supported (procedure, sections 8 and 9.1).
//!
//! The rules ([`rule_between`]) and the chain of hops by them ([`chain()`]) are pure functions, and `tests/laws.rs` holds their laws;
//! `marker`, `installer`, `folder` and `releases` read their inputs.

mod chain;
mod check;
mod checksum;
mod clear;
mod current;
mod find;
mod folder;
mod installer;
mod marker;
mod plan;
mod record;
mod refusal;
mod releases;
mod rules;
mod version;

use clap::{Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

pub use chain::{Blocked, Chain, chain};
pub use releases::LastMinors;
pub use rules::{LastMinor, Rule, Unsupported, first_hop, rule_between};
pub use version::Version;

/// The service's versions: the installed one, an installer's, and the upgrade path between them
#[derive(Debug, Parser)]
#[command(
    name = "svc-version",
    version,
    after_long_help = "Example: may the installed service be upgraded by this installer?
  svc-version installer svc-2.0.1.run | svc-version check --from - --last-minor 1.15"
)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Print the installed version, read from the version marker
    Current(current::CurrentArgs),
    /// Print the version, size and checksum of an installer
    Installer(installer::InstallerArgs),
    /// Find the installer of a version
    Find(find::FindArgs),
    /// Check whether an upgrade is supported, and by which rule
    Check(check::CheckArgs),
    /// List the upgrades that lead to a version, through the installers of a directory or those that are named
    Plan(plan::PlanArgs),
    /// Delete the version marker, and keep its content in the document
    Clear(clear::ClearArgs),
    /// Write the version marker
    Record(record::RecordArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-version";

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        Schemas::of(Self::NAME)
            .step::<current::Current>("current")
            .step::<installer::Installer>("installer")
            .step::<installer::Installer>("find")
            .step::<check::Checked>("check")
            .step::<plan::Planned>("plan")
            .step::<clear::Cleared>("clear")
            .step::<record::Recorded>("record")
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Current(args) => call.step("current", false, |call| current::run(&args, call)),
            Step::Installer(args) => call.step("installer", false, |call| installer::run(&args, call)),
            Step::Find(args) => call.step("find", false, |call| find::run(&args, call)),
            Step::Check(args) => call.step("check", false, |call| check::run(&args, call)),
            Step::Plan(args) => call.step("plan", false, |call| plan::run(&args, call)),
            Step::Clear(args) => call.step("clear", args.dry.dry_run, |call| clear::run(&args, call)),
            Step::Record(args) => call.step("record", args.dry.dry_run, |call| record::run(&args, call)),
        }
    }
}

/// The definition of the command line, for tests that go through its steps.
#[must_use]
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}
