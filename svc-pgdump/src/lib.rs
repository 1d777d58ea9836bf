//! The relational database's backup (procedure, 4.2): a whole plain dump of one database, or nothing.
//!
//! `svc-pgrestore` builds upon this library: connections and password places ([`Settings`], [`Target`]), the reader of dumps
//! ([`DumpFile`], [`lexer`], [`whole`]) the database's own properties
//! ([`Properties`]) and what an administrator does ([`admin`]).

mod compression;
mod connection;
pub mod discreet;
mod dump;
mod dump_arg;
mod dump_file;
mod encoding;
mod environment;
pub mod lexer;
mod passwords;
mod pgpass;
mod program;
pub mod properties;
pub mod refusal;
mod room;
mod service;
mod silence;
mod sql;
mod target;
mod terminal;
mod tls;
pub mod tokens;
mod verify;
pub mod whole;
mod writer;

use clap::{ArgAction, Parser, Subcommand};
use schemars::Schema;
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::tool::Tool;

pub use postgres_protocol::escape;

pub use compression::{Compression, Packed};
pub use connection::{ConnectionArgs, DatabaseArg, PasswordSource, Settings, database_name, given};
pub use dump::{DumpArgs, Dumped};
pub use dump_arg::DumpArg;
pub use dump_file::{DumpFile, Text};
pub use properties::Properties;
pub use silence::timed;
pub use target::{Listener, MAINTENANCE, Place, SESSION_SETTINGS, Server, Target, identify};
pub use verify::{Verified, VerifyArgs};
pub use whole::{Dump, TableRows};

/// A whole plain dump of one PostgreSQL database, or nothing
#[derive(Debug, Parser)]
#[command(
    name = "svc-pgdump",
    version,
    // -h is the host, as in pg_dump.
    disable_help_flag = true,
    args_conflicts_with_subcommands = true,
    after_long_help = "Example: the database svc_db into a file, and proof that the file is good
  svc-pgdump --output /var/backups/svc/svc_db.backup.sql | svc-pgdump verify --from -"
)]
pub struct Cli {
    #[command(flatten)]
    dump: DumpArgs,
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
    /// Say whether a dump is whole and what it needs
    #[command(disable_help_flag = true)]
    Verify(VerifyArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-pgdump";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn common(&self) -> &Common {
        &self.common
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            None => call.step("dump", self.dump.dry.dry_run, |call| timed(call, dump::run(&self.dump, call))),
            Some(Step::Verify(args)) => call.step("verify", false, |call| verify::run(&args, call)),
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
    vec![svc_step::schema::of::<Dumped>(Cli::NAME, "dump"), svc_step::schema::of::<Verified>(Cli::NAME, "verify")]
}
