//! The command line, and which part of the program answers to which command.

use std::io::{Write, stdout};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use semver::Version;

use crate::settings::Settings;
use crate::{content, judge, migrate, seed, serve};

/// The sample service, its content and its migrations.
#[derive(Parser)]
#[command(name = "svc-sample", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the service: appends an item every so often until TERM or INT
    Serve(Place),
    /// Writes many items at once, in both databases
    Seed {
        #[command(flatten)]
        place: Place,
        /// How many
        #[arg(long)]
        items: u32,
    },
    /// Says what installing a version would be (fresh, adopt, upgrade, again), or refuses; changes nothing
    Plan(Target),
    /// Brings the content of both databases to a version's shape; reads the settings from the environment
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

/// Runs the command.
///
/// # Errors
/// Whatever the command could not do; a [`crate::refusal::Refusal`] when it did not want to.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(place) => serve::serve(&place.install_dir),
        Command::Seed { place, items } => seed::seed(&place.install_dir, items),
        Command::Plan(target) => {
            let settings = Settings::from_environment()?;
            let plan = judge::judge(&settings, &target.install_dir, &target.to)?;
            Ok(writeln!(stdout(), "{plan}")?)
        }
        Command::Migrate { target, fail_half_way } => {
            let settings = Settings::from_environment()?;
            let plan = judge::judge(&settings, &target.install_dir, &target.to)?;
            migrate::migrate(&settings, &plan, &target.to, fail_half_way)
        }
        Command::Content { place, digest } => {
            let settings = Settings::of_installation(&place.install_dir)?;
            let content = content::read(&settings, digest)?;
            Ok(writeln!(stdout(), "{}", serde_json::to_string(&content)?)?)
        }
    }
}
