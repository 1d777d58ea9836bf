//! `svc-testhost`: a command in a throw-away host.

use std::fs;
use std::io::IsTerminal;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use svc_tests::host::{self, FOLDERS, Running};
use svc_tests::search::{DISTRIBUTIONS, Distribution, Settings, distribution};
use svc_tests::suite::{self, Filter, Lists, Suite};
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
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run the tests of the workspace in hosts, several at a time; print what came of each search database, and what was left
    /// out.
    Suite {
        /// How many hosts at a time; default: as many as the free memory has room for (5 GB each), at most 4.
        #[arg(long, value_name = "COUNT")]
        hosts: Option<usize>,
        /// After how many minutes in which no test and no tool has ended a test target is stopped.
        #[arg(long, value_name = "MINUTES", default_value_t = 30)]
        watchdog: u64,
        /// Run on all of them also what is otherwise run on one.
        #[arg(long)]
        everywhere: bool,
        /// Run what takes long too: the tests that are `#[ignore]`, and the long series complete.
        #[arg(long)]
        deep: bool,
        /// Which search databases.
        #[arg(required = true)]
        keys: Vec<String>,
        /// `--test TARGET`, a part of a test's name, and behind a further `--` what is for the test programs.
        #[arg(last = true)]
        filter: Vec<String>,
    },
    /// Print the names of the search databases.
    List,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse() {
        Arguments::Run { search, no_path_repo, command } => {
            run(&search, &Settings { no_path_repo, ..Settings::default() }, &command)
        }
        Arguments::List => {
            DISTRIBUTIONS.iter().for_each(|one| println!("{:16} {} {}", one.key, one.product, one.version));
            Ok(0)
        }
        Arguments::Suite { hosts, watchdog, everywhere, deep, keys, filter } => Filter::of(&filter, deep).and_then(|filter| {
            run_suite(hosts.unwrap_or_else(suite::hosts), Duration::from_secs(60 * watchdog), filter, everywhere, &keys)
        }),
    };
    outcome.map_or_else(
        |error| {
            eprintln!("svc-testhost: {error:#}");
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

fn run_suite(hosts: usize, watchdog: Duration, filter: Filter, everywhere: bool, keys: &[String]) -> Result<u8> {
    forward_signals()?;
    host::sweep();
    let lists = Lists::read()?;
    let wanted: Vec<&Distribution> = keys.iter().map(|key| distribution(key)).collect::<Result<_>>()?;
    let had = |one: &&Distribution| {
        one.fetch().inspect_err(|error| eprintln!("svc-testhost: {} cannot be had: {error:#}", one.key)).is_ok()
    };
    let (ready, skipped): (Vec<&'static Distribution>, Vec<_>) = wanted.into_iter().partition(had);
    skipped.iter().for_each(|one| println!("{:16} skipped", one.key));
    ensure!(!ready.is_empty(), "no search database could be had");
    let suite = Suite::of(&ready, &lists, filter, everywhere)?;
    let outcomes = suite.run(hosts, watchdog, host::in_memory(hosts).unwrap_or(FOLDERS));
    outcomes.iter().for_each(|(key, outcome)| println!("{key:16} {outcome}"));
    suite::left_out(&outcomes).iter().for_each(|one| println!("note: {one}"));
    ensure!(!wait::is_cancelled(), "interrupted");
    let passed = outcomes.values().all(|one| one.failed.is_empty());
    let count: usize = outcomes.values().map(|one| one.tests[0]).sum();
    ensure!(!passed || count > 0, "no test was run: none matches the filter");
    Ok(u8::from(!passed))
}

fn run(search: &str, settings: &Settings, command: &[String]) -> Result<u8> {
    forward_signals()?;
    host::sweep();
    let done = Running::during(FOLDERS, search, settings, |host| {
        ensure!(!wait::is_cancelled(), "interrupted");
        let (program, arguments) = command.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).envs(host.command_env()).env_remove("DBUS_SESSION_BUS_ADDRESS");
        Ok(children::wait(&mut command.spawn().with_context(|| format!("cannot run {program}"))?)?)
    })?;
    Ok(u8::try_from(os::status(done)).unwrap_or(1))
}

/// Sends INT, TERM and HUP on to what runs; before there is something, they end the start. The host is taken away either way.
fn forward_signals() -> Result<()> {
    let caught = [SIGINT, SIGTERM, SIGHUP];
    // Under nohup the end of the session is meant to change nothing.
    let caught = if is_ignored(SIGHUP)? { &caught[..2] } else { &caught };
    let mut signals = Signals::new(caught)?;
    thread::spawn(move || {
        for number in signals.forever() {
            wait::cancel();
            // ^C on a terminal has reached a command of this process group too; a second INT might make it leave without cleaning
            // up.
            let from_terminal = number == SIGINT && std::io::stdin().is_terminal();
            if let Ok(signal) = Signal::try_from(number) {
                children::signal(signal, from_terminal);
            }
        }
    });
    Ok(())
}

/// Whether this program was started with that signal ignored.
fn is_ignored(number: i32) -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).context("no SigIgn in /proc/self/status")?;
    Ok(u64::from_str_radix(mask.trim(), 16)? & (1 << (number - 1)) != 0)
}
