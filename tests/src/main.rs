//! `svc-testhost`: a command in a throw-away host.

use std::fs::{self, File};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nix::sys::signal::Signal;
use nix::sys::statvfs::{FsFlags, statvfs};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use svc_tests::host::{Host, Running};
use svc_tests::search::{DISTRIBUTIONS, Distribution, Settings, distribution};
use svc_tests::suite::{self, Filter, Lists, Suite};
use svc_tests::{children, download, os, wait};

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

/// Where hosts have their folders, and how those are named. Not in /tmp: a snapshot repository directly below it is refused by the
/// product.
const FOLDERS: &str = "/var/tmp";
const PREFIX: &str = "svc-host-";
/// A file system in memory, on which servers that sync after each request answer two to three times as fast, and what a host takes of it.
const MEMORY: &str = "/dev/shm";
const MEMORY_OF_A_HOST: u64 = 3_000_000_000;
/// In a host's folder, locked for as long as its owner lives, so that what a `kill -9` left is known by it.
const LOCK: &str = "owner.lock";

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
    sweep();
    let lists = Lists::read()?;
    let wanted: Vec<&Distribution> = keys.iter().map(|key| distribution(key)).collect::<Result<_>>()?;
    let had = |one: &&Distribution| {
        one.fetch().inspect_err(|error| eprintln!("svc-testhost: {} cannot be had: {error:#}", one.key)).is_ok()
    };
    let (ready, skipped): (Vec<&'static Distribution>, Vec<_>) = wanted.into_iter().partition(had);
    skipped.iter().for_each(|one| println!("{:16} skipped", one.key));
    ensure!(!ready.is_empty(), "no search database could be had");
    let suite = Suite::of(&ready, lists, filter, everywhere)?;
    let parent = in_memory(hosts).unwrap_or(FOLDERS);
    let outcomes = suite.run(hosts, watchdog, || new_folder(parent));
    outcomes.iter().for_each(|(key, outcome)| println!("{key:16} {outcome}"));
    suite.left_out(&outcomes).iter().for_each(|one| println!("note: {one}"));
    ensure!(!wait::is_cancelled(), "interrupted");
    let passed = outcomes.values().all(|one| one.failed.is_empty());
    let count: usize = outcomes.values().map(|one| one.tests[0]).sum();
    ensure!(!passed || count > 0, "no test was run: none matches the filter");
    Ok(u8::from(!passed))
}

fn run(search: &str, settings: &Settings, command: &[String]) -> Result<u8> {
    forward_signals()?;
    sweep();
    let (dir, _lock) = new_folder(FOLDERS)?;
    let outcome = Running::start(&dir, search, settings).and_then(|running| {
        let done = if wait::is_cancelled() { Err(anyhow::anyhow!("interrupted")) } else { run_command(&running.host, command) };
        running.stop()?;
        Ok(u8::try_from(os::status(done?)).unwrap_or(1))
    });
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    outcome
}

fn run_command(host: &Host, command: &[String]) -> Result<ExitStatus> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(host.command_env()).env_remove("DBUS_SESSION_BUS_ADDRESS");
    Ok(children::wait(&mut command.spawn().with_context(|| format!("cannot run {program}"))?)?)
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

/// [`MEMORY`], if it has space for so many hosts and lets programs run.
fn in_memory(hosts: usize) -> Option<&'static str> {
    let disk = statvfs(MEMORY).ok()?;
    let free_bytes = disk.blocks_available() * disk.fragment_size();
    let is_usable = free_bytes >= MEMORY_OF_A_HOST * hosts as u64 && !disk.flags().contains(FsFlags::ST_NOEXEC);
    is_usable.then_some(MEMORY)
}

/// Removes the folders whose owner is dead; those without a lock are somebody else's.
fn sweep() {
    let entries = [FOLDERS, MEMORY].into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    for folder in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        if File::open(folder.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Its servers may still be leaving; what is left now goes at the next start.
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

/// A host's folder, and the lock on it.
fn new_folder(parent: &str) -> Result<(PathBuf, File)> {
    let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
    ensure!(download::is_passable(&dir), "{} must be passable by every user, since the servers run in it", dir.display());
    let lock = locked(&dir)?;
    Ok((dir, lock))
}

/// The file gets its name when it is locked already, so that nobody finds it free between.
fn locked(dir: &Path) -> Result<File> {
    let unnamed = dir.join("owner.lock.new");
    let lock = File::create(&unnamed).with_context(|| format!("cannot make {}", unnamed.display()))?;
    lock.lock()?;
    fs::rename(&unnamed, dir.join(LOCK))?;
    Ok(lock)
}
