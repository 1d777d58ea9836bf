//! `svc-testhost`: a command in a throw-away host.

use std::io::IsTerminal;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use svc_tests::host::{self, FOLDERS};
use svc_tests::search::{DISTRIBUTIONS, Distribution, Settings, distribution};
use svc_tests::{children, os, wait};

/// A search database, a PostgreSQL and a systemd user manager in one folder, for as long as a command runs.
#[derive(Parser)]
#[command(version)]
enum Arguments {
    /// Start a host, run a command in it, take the host away, and end with the command's status.
    Run {
        /// Which search database; `svc-testhost list` has the names.
        #[arg(long, value_name = "KEY", default_value = DISTRIBUTIONS[0].key)]
        search: String,
        /// Leave `path.repo` out of the search database's configuration: its one-time configuration has still to be done.
        #[arg(long)]
        no_path_repo: bool,
        /// How many hosts there are at a time: if memory has space for the folders of all, they are there.
        #[arg(long, value_name = "COUNT")]
        hosts: Option<usize>,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Put a search database and its Java into the cache.
    Fetch {
        #[arg(value_name = "KEY")]
        search: String,
    },
    /// Print the names of the search databases.
    List,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse() {
        Arguments::Run { search, no_path_repo, hosts, command } => {
            let parent = hosts.and_then(host::in_memory).unwrap_or(FOLDERS);
            run(parent, &search, &Settings { no_path_repo, ..Settings::default() }, &command)
        }
        Arguments::Fetch { search } => distribution(&search).and_then(Distribution::fetch).map(|()| 0),
        Arguments::List => {
            DISTRIBUTIONS.iter().for_each(|one| println!("{:16} {} {}", one.key, one.product, one.version));
            Ok(0)
        }
    };
    outcome.map_or_else(
        |error| {
            eprintln!("svc-testhost: {error:#}");
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

/// The process id of the command that runs, or 0.
static COMMAND: AtomicI32 = AtomicI32::new(0);

fn run(parent: &str, search: &str, settings: &Settings, command: &[String]) -> Result<u8> {
    forward_signals()?;
    host::sweep();
    let done = host::during(parent, search, settings, |host| {
        ensure!(!wait::is_cancelled(), "interrupted");
        let (program, arguments) = command.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(host.command_env()).env_remove("DBUS_SESSION_BUS_ADDRESS");
        let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        COMMAND.store(children::pid(&child).as_raw(), Ordering::SeqCst);
        let ended = child.wait();
        COMMAND.store(0, Ordering::SeqCst);
        Ok(ended?)
    })?;
    Ok(u8::try_from(os::status(done)).unwrap_or(1))
}

/// Sends INT, TERM and HUP on to what runs; before there is something, they end the start. The host is taken away either way.
fn forward_signals() -> Result<()> {
    let caught = [SIGINT, SIGTERM, SIGHUP];
    // Under nohup the end of the session is meant to change nothing.
    let is_ignored = os::has_signal(Pid::this(), "SigIgn", Signal::SIGHUP);
    let caught = if is_ignored { &caught[..2] } else { &caught };
    let mut signals = Signals::new(caught)?;
    thread::spawn(move || {
        for number in signals.forever() {
            wait::cancel();
            // ^C on a terminal has reached a command of this process group too; a second INT might make it leave without cleaning
            // up.
            let from_terminal = number == SIGINT && std::io::stdin().is_terminal();
            if let Ok(signal) = Signal::try_from(number)
                && !from_terminal
            {
                // One that has just ended needs none.
                let running = Some(COMMAND.load(Ordering::SeqCst)).filter(|pid| *pid > 0);
                let _ = running.map(|pid| kill(Pid::from_raw(pid), signal));
            }
        }
    });
    Ok(())
}
