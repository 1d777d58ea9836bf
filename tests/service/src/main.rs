//! `svc-sample`: a small program that stands in for the real product.
//!
//! It keeps items, each a row in PostgreSQL and a document in the search database, and writes more while it
//! runs. Its installers call `check` and `migrate`; its unit calls `serve`.

mod content;
mod documents;
mod migrate;
mod releases;
mod rows;
mod serve;
mod settings;
mod shapes;

use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use semver::Version;

use self::releases::Refusal;
use self::settings::Settings;

/// The sample service, its content and its migrations.
#[derive(Parser)]
#[command(name = "svc-sample", version)]
struct Arguments {
    /// The installation directory; its configuration names the databases
    #[arg(long, env = "SVC_INSTALL_DIR", global = true, default_value = "/opt/svc")]
    install_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the service: appends an item every so often until TERM or INT
    Serve,
    /// Writes many items at once, in both databases
    Seed {
        #[arg(long)]
        items: i64,
    },
    /// Refuses a version for which the content of the databases is too new; changes nothing
    Check {
        #[arg(long)]
        to: Version,
    },
    /// Migrates the content of both databases to a version's shape; reads the settings from the environment
    Migrate {
        #[arg(long)]
        to: Version,
        /// Fails after the relational half and a part of the search half, as a broken release does
        #[arg(long)]
        fail_half_way: bool,
    },
    /// Prints as JSON what both databases hold, with a checksum of each table and index
    Content,
}

/// Exit status: 0 done, 1 failed, 2 a wrong command line, 3 refused with nothing changed.
fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr itself is gone.
            let _ = writeln!(stderr(), "svc-sample: {error:#}");
            ExitCode::from(if error.is::<Refusal>() { 3 } else { 1 })
        }
    }
}

fn run(Arguments { install_dir, command }: &Arguments) -> anyhow::Result<()> {
    match command {
        Command::Serve => serve::serve(install_dir),
        Command::Seed { items } => serve::seed(install_dir, *items),
        Command::Check { to } => migrate::check(&Settings::from_environment()?, to).map(drop),
        Command::Migrate { to, fail_half_way } => migrate::migrate(&Settings::from_environment()?, to, *fail_half_way),
        Command::Content => Ok(writeln!(stdout(), "{}", content::read(&Settings::of_installation(install_dir)?)?)?),
    }
}
