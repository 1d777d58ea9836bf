//! One command run to its end, and what it took.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// GNU time: the kernel's account of one process. A child that this program starts itself would be charged with the memory of
/// this program, from which it was split off.
const TIME: &str = "/usr/bin/time";

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A command line and the variables beside it.
#[derive(Debug, Clone)]
pub struct Line {
    words: Vec<OsString>,
    env: Vec<(String, OsString)>,
}

/// What a call took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From its start to its end.
    pub seconds: f64,
    /// The most memory that it held.
    pub memory_bytes: u64,
    /// What it computed itself, in user and system mode.
    pub cpu_seconds: f64,
}

impl Line {
    /// A program and its arguments.
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect(), env: Vec::new() }
    }

    /// Adds a variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Runs it, and gives its time in seconds. What it prints goes to `output`.
    pub fn time(&self, output: &Path) -> Result<f64> {
        let (program, arguments) = self.words.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        self.run(command, output)
    }

    /// Runs it, and gives its time, memory and computing time.
    pub fn weigh(&self, output: &Path) -> Result<Cost> {
        ensure!(Path::new(TIME).exists(), "{TIME} is not there: tests/packages installs it");
        let account = beside(output, "time");
        let mut command = Command::new(TIME);
        command.args(["--format=%M %U %S", "--output"]).arg(&account).args(&self.words);
        let seconds = self.run(command, output)?;
        let text = fs::read_to_string(&account)?;
        let numbers: Vec<f64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>().with_context(|| text.clone())?;
        ensure!(numbers.len() == 3, "{TIME} says {text:?}");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let memory_bytes = numbers[0] as u64 * 1024;
        Ok(Cost { seconds, memory_bytes, cpu_seconds: numbers[1] + numbers[2] })
    }

    /// Runs it, and gives its time and the most memory that it held itself, without the programs that it ran.
    pub fn watch(&self, output: &Path) -> Result<(f64, u64)> {
        self.watch_all(output).map(|cost| (cost.seconds, cost.memory_bytes))
    }

    /// The same with its computing time, in which that of the programs that it ran is included.
    pub fn watch_all(&self, output: &Path) -> Result<Cost> {
        let (program, arguments) = self.words.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        let errors = beside(output, "errors");
        command.args(arguments).stdin(Stdio::null()).stdout(File::create(output)?).stderr(File::create(&errors)?);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let before = computed()?;
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot run {:?}", self.words))?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut memory_bytes = 0;
        let ended = loop {
            // The kernel keeps the most that there was; it is gone with the process, so the last look may miss its last moment.
            memory_bytes = memory_bytes.max(peak(&status).unwrap_or_default());
            match child.try_wait()? {
                Some(ended) => break ended,
                None => std::thread::sleep(LOOK),
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        ensure!(ended.success(), "{:?}: {ended}\n{}", self.words, fs::read_to_string(&errors)?);
        Ok(Cost { seconds, memory_bytes, cpu_seconds: computed()? - before })
    }

    fn run(&self, mut command: Command, output: &Path) -> Result<f64> {
        let errors = beside(output, "errors");
        command.stdin(Stdio::null()).stdout(File::create(output)?).stderr(File::create(&errors)?);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let started = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {:?}", self.words))?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(status.success(), "{:?}: {status}\n{}", self.words, fs::read_to_string(&errors)?);
        Ok(seconds)
    }
}

/// Writes what the last thing measured left in the page cache, so that the next one does not pay for it.
pub fn settle_disk() {
    nix::unistd::sync();
}

/// What all programs that have ended have computed, in seconds.
fn computed() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

/// The most memory that a process has held.
fn peak(status: &Path) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().split(' ').next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

fn beside(output: &Path, what: &str) -> PathBuf {
    output.with_extension(what)
}

/// What a measured command has printed into a file, as JSON.
pub fn read(output: &Path) -> Result<serde_json::Value> {
    let text = fs::read_to_string(output)?;
    serde_json::from_str(&text).with_context(|| text)
}
