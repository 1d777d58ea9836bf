//! One command run to its end, and what it took; and the servers and the machine on which it ran.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::Value;
use svc_tests::host::{Host, OwnPostgres, OwnSearch, texts};
use svc_tests::postgres::Postgres;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{BENCHMARK_JVM_OPTIONS, Search, Settings};
use svc_tests::tool::search_path;
use svc_tests::{os, wait};
use tempfile::TempDir;

/// What is measured of one side, as an operator types it in a shell; `%N` is another number each time.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub before: String,
    pub timed: String,
    /// What `jq` finds in what it has printed.
    pub holds: String,
    pub after: String,
}

/// What a call took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From its start to its end.
    pub seconds: f64,
    /// The most memory that it held, without that of what it starts.
    pub memory_bytes: u64,
    /// What it and what it starts computed, in user and system mode.
    pub cpu_seconds: f64,
}

/// A folder of the benchmark's own, in which the output of measured commands goes.
#[derive(Debug)]
pub struct Scratch {
    pub folder: TempDir,
    /// What the lines have in their environment, beside our programs in their `PATH`.
    pub env: Vec<(&'static str, String)>,
    number: AtomicUsize,
}

impl Scratch {
    pub fn new(env: Vec<(&'static str, String)>) -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir_in("/var/tmp")?, env, number: AtomicUsize::new(0) })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// What the last command has printed.
    pub fn output(&self) -> Result<String> {
        Ok(fs::read_to_string(self.file("output"))?)
    }

    /// The same as the document of a call that must have ended well.
    pub fn ok(&self) -> Result<Value> {
        let text = self.output()?;
        let printed: Value = serde_json::from_str(&text).with_context(|| text)?;
        ensure!(printed["ok"] == true, "ours is not ok: {printed}");
        Ok(printed)
    }

    /// A shell that runs that, in the folder.
    fn shell(&self, script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-ec", script]).current_dir(self.folder.path()).env("PATH", search_path([]));
        sh.envs(self.env.iter().map(|(name, value)| (name, value)));
        sh
    }

    /// Runs one program, with its arguments.
    pub fn call(&self, words: &str) -> Result<Cost> {
        self.weigh(&mut self.shell(&format!("exec {words}")))
    }

    /// Measures each of them, in `rounds` rounds; who comes first changes from round to round, as whatever drifts must favour nobody.
    pub fn in_turn<const N: usize>(&self, rounds: usize, each: [&Line; N]) -> Result<[Vec<Cost>; N]> {
        let mut costs = [const { Vec::new() }; N];
        for round in 0..rounds {
            for turn in 0..N {
                let which = (round + turn) % N;
                costs[which].push(self.run(each[which])?);
            }
        }
        Ok(costs)
    }

    pub fn run(&self, Line { before, timed, holds, after }: &Line) -> Result<Cost> {
        let number = self.number.fetch_add(1, Ordering::Relaxed).to_string();
        let fill = |text: &str| text.replace("%N", &number);
        let beside = |script: &str| os::run(&mut self.shell(&fill(script))).map(drop);
        beside(before)?;
        let is_one = !timed.contains(['&', ';', '|', '>']);
        let cost = self.weigh(&mut self.shell(&format!("{}{}", if is_one { "exec " } else { "" }, fill(timed))))?;
        if !holds.is_empty() {
            os::run(Command::new("jq").args(["-e", holds]).arg(self.file("output")))
                .with_context(|| self.output().unwrap_or_default())?;
        }
        beside(after)?;
        Ok(cost)
    }

    /// Keeps what the last command has printed.
    pub fn keep(&self, name: &str) -> Result<()> {
        Ok(fs::copy(self.file("output"), self.file(name)).map(drop)?)
    }

    /// Runs it.
    pub fn weigh(&self, command: &mut Command) -> Result<Cost> {
        let errors = self.file("errors");
        command.stdin(Stdio::null()).stdout(File::create(self.file("output"))?).stderr(File::create(&errors)?);
        let (before, started) = (computed()?, Instant::now());
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let (running, ended) = mpsc::channel::<()>();
        // The kernel keeps the most that there was; it is gone with the process, so its last moment may be missed.
        let watch = thread::spawn(move || {
            let mut most = 0;
            loop {
                most = most.max(peak(&status).unwrap_or_default());
                if ended.recv_timeout((started.elapsed() / 50).min(Duration::from_millis(5)))
                    != Err(mpsc::RecvTimeoutError::Timeout)
                {
                    return most;
                }
            }
        });
        let ended = child.wait()?;
        let seconds = started.elapsed().as_secs_f64();
        drop(running);
        ensure!(ended.success(), "{command:?}: {ended}\n{}", fs::read_to_string(&errors)?);
        Ok(Cost { seconds, memory_bytes: watch.join().unwrap_or_default(), cpu_seconds: computed()? - before })
    }
}

pub fn seconds(costs: &[Cost]) -> Vec<f64> {
    costs.iter().map(|cost| cost.seconds).collect()
}

/// The most memory of them all, in MB.
pub fn megabytes<'a>(costs: impl IntoIterator<Item = &'a Cost>) -> f64 {
    costs.into_iter().map(|cost| cost.memory_bytes).max().unwrap_or_default() as f64 / 1e6
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

/// Writes what the last thing measured left in a server and in the page cache, so that the next one does not pay for it.
pub fn settle(postgres: &Postgres) -> Result<()> {
    postgres.sql("postgres", "CHECKPOINT")?;
    nix::unistd::sync();
    Ok(())
}

/// A search database of the benchmark's own, with the options that a real one has.
pub fn search_server(host: &Host, key: &str, extra: &[(&str, &str)]) -> Result<OwnSearch> {
    let server = host.prepare_search_server(key, &Settings { extra: texts(extra), ..Settings::default() })?;
    fs::write(server.config_dir.join("jvm.options.d/zz-bench.options"), BENCHMARK_JVM_OPTIONS)?;
    server.start(&host.systemd)?;
    Ok(server)
}

/// A PostgreSQL that waits for its disk, as Debian sets it up: nothing of the tests has to survive.
pub fn durable(host: &Host) -> Result<OwnPostgres> {
    let postgres = host.postgres_server()?;
    for name in ["fsync", "synchronous_commit", "full_page_writes", "dynamic_shared_memory_type", "max_connections"] {
        postgres.sql("postgres", &format!("ALTER SYSTEM RESET {name}"))?;
    }
    host.systemd.control(&["restart", &postgres.unit])?;
    wait::until("PostgreSQL", wait::HANG, || postgres.sql("postgres", "SELECT 1").ok())?;
    Ok(postgres)
}

/// Fills an index with so many documents of 100 KB, in one segment a shard: nothing is merged while something is measured.
pub fn fill_index(sandbox: &Sandbox, name: &str, documents: usize) {
    sandbox.fill_noise(name, documents);
    sandbox.ask("POST", &format!("/{name}/_forcemerge?max_num_segments=1"), None);
    sandbox.ask("POST", &format!("/{name}/_flush"), None);
}

/// Rows of each table for one MB of the database, as it was seen to come out.
const ROWS: [(&str, usize); 4] = [("%USERS%", 54), ("%PROJECTS%", 11), ("%DOCUMENTS%", 436), ("%EVENTS%", 2720)];

/// Makes a service's four tables in each of the schemas, again where they are there: with keys, foreign keys and indices, of about
/// that size together on the server's disk.
pub fn fill_tables(postgres: &Postgres, database: &str, schemas: &[String], megabytes: usize) -> Result<()> {
    let each = megabytes / schemas.len();
    let sql = include_str!("rows.sql").to_owned();
    let sql = ROWS.iter().fold(sql, |sql, (name, rows)| sql.replace(name, &(rows * each).to_string()));
    for schema in schemas {
        postgres.sql(database, &sql.replace("%SCHEMA%", schema))?;
    }
    postgres.sql(database, "VACUUM (ANALYZE, FREEZE)").map(drop)
}

/// A server as a report names it.
pub fn search(search: &Search) -> String {
    format!("{} {} with 1 GB of heap", search.product, search.version)
}

/// The same of PostgreSQL.
pub fn postgresql(postgres: &Postgres) -> Result<String> {
    let version = postgres.sql("postgres", "SELECT current_setting('server_version')")?;
    Ok(format!("PostgreSQL {version} as Debian sets it up (128 MB of shared buffers, fsync on)"))
}

/// The machine: its processors, its memory, and the file system at a place.
pub fn machine(place: &Path) -> Result<String> {
    let script = r#"printf '%s cores of %s, %.0f GB of memory, %s on %s' "$(nproc)" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(awk '/^MemTotal:/ { print $2 / 1e6 }' /proc/meminfo)" \
        "$(findmnt --noheadings --output=FSTYPE --target "$0")" "$(uname -r)""#;
    os::run(Command::new("sh").args(["-c", script]).arg(place))
}
