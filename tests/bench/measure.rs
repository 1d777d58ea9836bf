//! One command run to its end, and what it took; and the machine on which it ran.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::Value;
use svc_tests::tool::bin_dir;
use tempfile::TempDir;

/// GNU time: the kernel's account of one process. A child that this program starts itself would be charged with the memory of
/// this program, from which it was split off.
const TIME: &str = "/usr/bin/time";

/// A command line and the variables beside it.
#[derive(Debug, Clone)]
pub struct Line {
    words: Vec<OsString>,
    env: Vec<(String, OsString)>,
}

impl Line {
    pub fn new<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Self {
        Self { words: words.into_iter().map(Into::into).collect(), env: Vec::new() }
    }

    /// One of our programs.
    pub fn tool(name: &str, args: &[&str]) -> Self {
        Self::new([bin_dir().join(name).into_os_string()].into_iter().chain(args.iter().map(Into::into)))
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }
}

/// What a call took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From its start to its end.
    pub seconds: f64,
    /// The most memory that it held.
    pub memory_bytes: u64,
    /// What it computed, in user and system mode.
    pub cpu_seconds: f64,
}

/// A folder of the benchmark's own, in which the output of measured commands goes.
#[derive(Debug)]
pub struct Scratch(pub TempDir);

impl Scratch {
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What the last command has printed, as JSON.
    pub fn printed(&self) -> Result<Value> {
        let text = fs::read_to_string(self.file("output"))?;
        serde_json::from_str(&text).with_context(|| text)
    }

    /// Keeps what the last command has printed, and gives the file.
    pub fn keep(&self, name: &str) -> Result<String> {
        fs::copy(self.file("output"), self.file(name))?;
        Ok(self.file(name).display().to_string())
    }

    /// Runs it, and gives its time in seconds.
    pub fn time(&self, line: &Line) -> Result<f64> {
        let (mut command, errors) = self.prepared(line)?;
        let started = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {:?}", line.words))?;
        let seconds = started.elapsed().as_secs_f64();
        ensure!(status.success(), "{:?}: {status}\n{}", line.words, fs::read_to_string(&errors)?);
        Ok(seconds)
    }

    /// Runs a program that starts no other.
    pub fn weigh(&self, line: &Line) -> Result<Cost> {
        ensure!(Path::new(TIME).exists(), "{TIME} is not there: tests/packages installs it");
        let account = self.file("time");
        let before = [TIME.into(), "--format=%M %U %S".into(), "--output".into(), account.clone().into_os_string()];
        let words = before.into_iter().chain(line.words.iter().cloned()).collect();
        let seconds = self.time(&Line { words, env: line.env.clone() })?;
        let text = fs::read_to_string(&account)?;
        let numbers: Vec<f64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>().with_context(|| text.clone())?;
        ensure!(numbers.len() == 3, "{TIME} says {text:?}");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let memory_bytes = numbers[0] as u64 * 1024;
        Ok(Cost { seconds, memory_bytes, cpu_seconds: numbers[1] + numbers[2] })
    }

    /// Runs a program that starts others: its memory is without theirs, its computing is with it.
    pub fn watch(&self, line: &Line) -> Result<Cost> {
        let (mut command, errors) = self.prepared(line)?;
        let before = computed()?;
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot run {:?}", line.words))?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let mut memory_bytes = 0;
        let ended = loop {
            // The kernel keeps the most that there was; it is gone with the process, so its last moment may be missed.
            memory_bytes = memory_bytes.max(peak(&status).unwrap_or_default());
            match child.try_wait()? {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        ensure!(ended.success(), "{:?}: {ended}\n{}", line.words, fs::read_to_string(&errors)?);
        Ok(Cost { seconds, memory_bytes, cpu_seconds: computed()? - before })
    }

    fn prepared(&self, line: &Line) -> Result<(Command, PathBuf)> {
        let (program, arguments) = line.words.split_first().context("an empty command")?;
        let errors = self.file("errors");
        let mut command = Command::new(program);
        command.args(arguments).envs(line.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(File::create(self.file("output"))?).stderr(File::create(&errors)?);
        Ok((command, errors))
    }
}

/// Measures each of them in seconds, in `rounds` rounds; who comes first changes from round to round, as whatever drifts must
/// favour nobody.
pub fn in_turn<const N: usize>(rounds: usize, each: [&mut dyn FnMut() -> Result<f64>; N]) -> Result<[Vec<f64>; N]> {
    let mut seconds = [const { Vec::new() }; N];
    for round in 0..rounds {
        for turn in 0..N {
            let which = (round + turn) % N;
            seconds[which].push(each[which]()?);
        }
    }
    Ok(seconds)
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

/// Writes what the last thing measured left in the page cache, so that the next one does not pay for it.
pub fn settle_disk() {
    nix::unistd::sync();
}

/// The machine as a report names it: its processors, its memory, and the file system at a place.
pub fn machine(place: &Path) -> Result<String> {
    let (cpu, memory) = (fs::read_to_string("/proc/cpuinfo")?, fs::read_to_string("/proc/meminfo")?);
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        line.map_or("?".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let kilobytes: f64 = field(&memory, "MemTotal").split(' ').next().unwrap_or_default().parse().unwrap_or_default();
    let mount = Command::new("findmnt").args(["--noheadings", "--output=FSTYPE", "--target"]).arg(place).output()?;
    Ok(format!(
        "{} cores of {}, {:.0} GB of memory, {} on {}",
        std::thread::available_parallelism()?,
        field(&cpu, "model name"),
        kilobytes / 1e6,
        String::from_utf8_lossy(&mount.stdout).trim(),
        fs::read_to_string("/proc/sys/kernel/osrelease")?.trim()
    ))
}
