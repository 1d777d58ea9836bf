//! The backup of the PostgreSQL database (procedure, 4.2): a complete plain dump, or nothing. `svc-pgrestore` uses the client ([`pg`]) and
//! the reader of dumps too.

#![allow(missing_docs, reason = "for the two tools only")]

pub mod check;
mod compression;
mod document;
mod dump;
mod dump_file;
pub mod pg;
mod pg_dump;
pub mod properties;
mod space;
mod verify;

use clap::{ArgAction, Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

pub use check::{Dump, TableRows};
pub use document::{DumpArg, DumpFacts, Dumped};
pub use dump_file::DumpFile;
pub use pg_dump::PgDump;
pub use properties::Properties;

/// A complete plain dump of one PostgreSQL database, or nothing
#[derive(Debug, Parser)]
#[command(
    name = "svc-pgdump",
    version,
    // -h is the host, as in pg_dump.
    disable_help_flag = true,
    args_conflicts_with_subcommands = true,
    after_long_help = "Example: the database svc_db into a file, and its verification
  svc-pgdump --output /var/backups/svc/svc_db.backup.sql | svc-pgdump verify --from -"
)]
pub struct Cli {
    #[command(flatten)]
    dump: dump::DumpArgs,
    #[command(flatten)]
    common: Common,
    /// Print help
    #[arg(long, short = '?', action = ArgAction::Help, global = true, help_heading = "Common options")]
    help: Option<bool>,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Check that a dump is complete, and what it needs
    #[command(disable_help_flag = true)]
    Verify(verify::VerifyArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-pgdump";

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        Schemas::of(Self::NAME).step::<Dumped>("dump").step::<document::Verified>("verify")
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            None => call.step("dump", self.dump.dry.dry_run, |call| pg::timed(call, dump::run(&self.dump, call))),
            Some(Step::Verify(args)) => call.step("verify", false, |call| verify::run(&args, call)),
        }
    }
}

/// The definition of the command line, for tests that go through its steps.
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}
