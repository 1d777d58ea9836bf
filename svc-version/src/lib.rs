//! Versions of the service: which one is installed, which one an installer brings, and whether the way from one to the
//! other is supported (procedure, sections 8 and 9.1).
//!
//! The rules ([`judge`]) and the chain of hops by them ([`chain()`]) are pure functions, and `tests/laws.rs` holds their laws;
//! `marker`, `installer`, `folder` and `releases` read what they judge.

mod chain;
mod check;
mod checksum;
mod current;
mod find;
mod folder;
mod forget;
mod installer;
mod marker;
mod plan;
mod record;
mod refusal;
mod releases;
mod rules;
mod version;

use clap::{Parser, Subcommand};
use schemars::Schema;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::tool::Tool;

pub use chain::{Blocked, Chain, chain};
pub use check::{CheckArgs, Checked};
pub use current::{Current, CurrentArgs};
pub use find::FindArgs;
pub use forget::{ForgetArgs, Forgotten};
pub use installer::{Installer, InstallerArgs};
pub use plan::{Hop, PlanArgs, Planned};
pub use record::{RecordArgs, Recorded};
pub use releases::{LastMinors, ReleaseArgs};
pub use rules::{LastMinor, Rule, Stop, Unsupported, first_hop, judge, next_stop};
pub use version::Version;

/// The service's versions: the installed one, an installer's, and the supported way between them
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
    Current(CurrentArgs),
    /// Print the version, size and checksum of an installer
    Installer(InstallerArgs),
    /// Find the installer of a version
    Find(FindArgs),
    /// Say whether an upgrade is supported, and by which rule
    Check(CheckArgs),
    /// List the upgrades that lead to a version, through the installers of a folder or those that are named
    Plan(PlanArgs),
    /// Delete the version marker, and keep its content in the document
    Forget(ForgetArgs),
    /// Write the version marker
    Record(RecordArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-version";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn common(&self) -> &Common {
        &self.common
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Current(args) => call.step("current", false, |call| current::run(&args, call)),
            Step::Installer(args) => call.step("installer", false, |call| installer::run(&args, call)),
            Step::Find(args) => call.step("find", false, |call| find::run(&args, call)),
            Step::Check(args) => call.step("check", false, |call| check::run(&args, call)),
            Step::Plan(args) => call.step("plan", false, |call| plan::run(&args, call)),
            Step::Forget(args) => call.step("forget", args.dry.dry_run, |call| forget::run(&args, call)),
            Step::Record(args) => call.step("record", args.dry.dry_run, |call| record::run(&args, call)),
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
        svc_step::schema::of::<Current>(Cli::NAME, "current"),
        svc_step::schema::of::<Installer>(Cli::NAME, "installer"),
        svc_step::schema::of::<Installer>(Cli::NAME, "find"),
        svc_step::schema::of::<Checked>(Cli::NAME, "check"),
        svc_step::schema::of::<Planned>(Cli::NAME, "plan"),
        svc_step::schema::of::<Forgotten>(Cli::NAME, "forget"),
        svc_step::schema::of::<Recorded>(Cli::NAME, "record"),
    ]
}
