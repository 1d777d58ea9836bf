//! `svc-sample`: a small program that stands in for the real product.
//!
//! It keeps items, each a row in PostgreSQL and a document in the search database, and writes more while it
//! runs. Its installers call `plan` and `migrate`; its unit calls `serve`.

mod content;
mod documents;
mod migrate;
mod plan;
mod releases;
mod rows;
mod serve;
mod settings;
mod shapes;

use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use semver::Version;

use self::releases::Refusal;
use self::settings::Settings;

/// The sample service, its content and its migrations.
#[derive(Parser)]
#[command(name = "svc-sample", version)]
enum Command {
    /// Runs the service: appends an item every so often until TERM or INT
    Serve(Place),
    /// Writes many items at once, in both databases
    Seed {
        #[command(flatten)]
        place: Place,
        /// How many
        #[arg(long)]
        items: i64,
    },
    /// Prints what installing a version would be (fresh, adopt, upgrade, again), or refuses; changes nothing
    Plan(Target),
    /// Migrates the content of both databases to a version's shape; reads the settings from the environment
    Migrate {
        #[command(flatten)]
        target: Target,
        /// Fails after the relational half and a part of the search half, as a broken release does
        #[arg(long)]
        fail_half_way: bool,
    },
    /// Prints as JSON what both databases hold
    Content {
        #[command(flatten)]
        place: Place,
        /// Adds a checksum of each table and index
        #[arg(long)]
        digest: bool,
    },
}

#[derive(Args)]
struct Place {
    /// The installation directory; its configuration names the databases
    #[arg(long, env = "SVC_INSTALL_DIR")]
    install_dir: PathBuf,
}

#[derive(Args)]
struct Target {
    /// The installation directory, for the version marker
    #[arg(long, env = "SVC_INSTALL_DIR")]
    install_dir: PathBuf,
    /// The version to install
    #[arg(long)]
    to: Version,
}

/// Exit status: 0 done, 1 failed, 2 a wrong command line, 3 refused with nothing changed.
fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr itself is gone.
            let _ = writeln!(stderr(), "svc-sample: {error:#}");
            ExitCode::from(if error.is::<Refusal>() { 3 } else { 1 })
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(place) => serve::serve(&place.install_dir),
        Command::Seed { place, items } => serve::seed(&place.install_dir, items),
        Command::Plan(target) => {
            let plan = plan::plan(&Settings::from_environment()?, &target.install_dir, &target.to)?;
            Ok(writeln!(stdout(), "{plan}")?)
        }
        Command::Migrate { target, fail_half_way } => {
            let settings = Settings::from_environment()?;
            let plan = plan::plan(&settings, &target.install_dir, &target.to)?;
            migrate::migrate(&settings, &plan, &target.to, fail_half_way)
        }
        Command::Content { place, digest } => {
            let content = content::read(&Settings::of_installation(&place.install_dir)?, digest)?;
            Ok(writeln!(stdout(), "{content}")?)
        }
    }
}
