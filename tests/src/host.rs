//! The host as a whole: its description, which every test reads, and its life, which `svc-testhost` holds.

use std::env;
use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::Uid;
use serde::{Deserialize, Serialize};

use crate::postgres::{ADMINISTRATOR, Postgres};
use crate::programs::Programs;
use crate::search::{self, Search, Settings};
use crate::systemd::{Manager, Systemd};
use crate::{download, os};

const VARIABLE: &str = "SVC_TESTHOST";

/// Where hosts have their folders, and how those are named. Not in /tmp: a snapshot repository directly below it is refused by the
/// product.
pub const FOLDERS: &str = "/var/tmp";
const PREFIX: &str = "svc-host-";
/// A file system in memory, on which servers that sync after each request answer two to three times as fast, and what a host takes of it.
const MEMORY: &str = "/dev/shm";
const MEMORY_OF_A_HOST: u64 = 3_000_000_000;
/// In a host's folder, locked for as long as its owner lives, so that what a `kill -9` left is known by it.
const LOCK: &str = "owner.lock";

/// Where everything is and how it is reached; `host.json` in the host's folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Host {
    /// Everybody can pass it.
    pub dir: PathBuf,
    pub systemd: Systemd,
    pub postgres: Postgres,
    pub search: Search,
}

impl Host {
    pub fn shared() -> Result<Self> {
        let file = env::var_os(VARIABLE)
            .context("no throw-away host: start the tests with tests/run, or inside `target/debug/svc-testhost run -- bash`")?;
        let text =
            fs::read_to_string(&file).with_context(|| format!("{VARIABLE} names {}, which cannot be read", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no description of a host", file.display()))
    }

    fn file(&self) -> PathBuf {
        self.dir.join("host.json")
    }

    /// The host in the product's own settings, for a tool or a script that is to work with it. State and backups go to folders
    /// of the host; a test that looks into them sets folders of its own.
    pub fn env(&self) -> Vec<(String, String)> {
        let mut env = self.systemd.env();
        env.push((VARIABLE.to_owned(), self.file().display().to_string()));
        env.extend(search_env(&self.search));
        env.extend(texts(&[
            // PostgreSQL is reached over its socket.
            ("PGHOST", self.postgres.socket_dir.display().to_string()),
            ("PGPORT", self.postgres.port.to_string()),
            ("SVC_PG_UNIT", format!("user:{}", self.postgres.unit)),
            ("SVC_PG_ADMIN", ADMINISTRATOR.to_owned()),
            // Neither the settings nor the hooks of the machine that the tests or the demo run on.
            ("SVC_ENVIRONMENT_FILE", "/dev/null".to_owned()),
            ("SVC_HOOKS_DIR", self.dir.join("hooks").display().to_string()),
            ("SVC_STATE_DIR", self.dir.join("state").display().to_string()),
            ("SVC_BACKUP_DIR", self.dir.join("backups").display().to_string()),
        ]));
        env
    }

    /// The same for cargo or a shell, which want their own home: `XDG_CONFIG_HOME` and `XDG_RUNTIME_DIR` lead to the manager.
    pub fn command_env(&self) -> impl Iterator<Item = (String, String)> {
        self.env().into_iter().filter(|(name, _)| name != "HOME")
    }

    /// Starts a further search database of the test's own, which it may stop or break; it is gone when the value is dropped.
    pub fn search_server(&self, key: &str, settings: &Settings) -> Result<OwnSearch> {
        let own = self.prepare_search_server(key, settings)?;
        own.start(&self.systemd)?;
        Ok(own)
    }

    /// The same, not started yet: for a server that needs users or certificates before its first start.
    pub fn prepare_search_server(&self, key: &str, settings: &Settings) -> Result<OwnSearch> {
        let distribution = search::distribution(key)?;
        let own = self.own(&distribution.product.to_string());
        let server = Search::prepare(distribution, &own.dir, &own.unit, settings, &self.systemd)?;
        Ok(Own { server, _place: own })
    }

    /// Starts a further PostgreSQL of the test's own; it is gone when the value is dropped.
    pub fn postgres_server(&self) -> Result<OwnPostgres> {
        self.postgres_of(Programs::debian()?)
    }

    /// The same, of another version.
    pub fn postgres_of(&self, programs: Programs) -> Result<OwnPostgres> {
        let own = self.own("postgresql");
        Ok(Own { server: Postgres::create(programs, &own.dir, &own.unit, &self.systemd)?, _place: own })
    }

    /// A unit that no other test has, in this process or another, and its folder.
    fn own(&self, kind: &str) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Place { systemd: self.systemd.clone(), unit: format!("{name}.service"), dir: self.dir.join("own").join(&name) }
    }
}

/// A search database in the product's own settings; `SVC_BACKUP_REPO` is a folder that is not there yet.
pub fn search_env(search: &Search) -> Vec<(String, String)> {
    texts(&[
        ("SVC_SEARCH_URL", search.url.clone()),
        ("SVC_SEARCH_UNIT", format!("user:{}", search.unit)),
        ("SVC_SEARCH_CONFIG", search.config_file.display().to_string()),
        ("SVC_SEARCH_OS_USER", search.os_user.clone()),
        ("SVC_BACKUP_REPO", search.repo_root.join("backup_repo").display().to_string()),
    ])
}

pub fn texts(all: &[(&str, impl ToString)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect()
}

struct Place {
    systemd: Systemd,
    unit: String,
    dir: PathBuf,
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test that fails must not fail a second time here; what is left goes away with the host.
        if let Err(error) = self.systemd.remove(&self.unit) {
            eprintln!("svc-testhost: {error:#}");
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub struct Own<T> {
    pub server: T,
    _place: Place,
}

pub type OwnSearch = Own<Search>;
pub type OwnPostgres = Own<Postgres>;

impl<T> Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.server
    }
}

/// [`MEMORY`], if it has space for so many hosts and lets programs run.
pub fn in_memory(hosts: usize) -> Option<&'static str> {
    let disk = statvfs(MEMORY).ok()?;
    let free_bytes = disk.blocks_available() * disk.fragment_size();
    let is_usable = free_bytes >= MEMORY_OF_A_HOST * hosts as u64 && !disk.flags().contains(FsFlags::ST_NOEXEC);
    is_usable.then_some(MEMORY)
}

/// Removes the folders whose owner is dead; those without a lock are somebody else's.
pub fn sweep() {
    let entries = [FOLDERS, MEMORY].into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    for folder in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        if File::open(folder.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Its servers may still be leaving; what is left now goes at the next start.
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

fn new_folder(parent: &str) -> Result<(PathBuf, File)> {
    let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
    os::chmod(&dir, 0o755);
    ensure!(download::is_passable(&dir), "{} must be passable by every user, since the servers run in it", dir.display());
    // The file gets its name when it is locked already, so that nobody finds it free between.
    let unnamed = dir.join("owner.lock.new");
    let lock = File::create(&unnamed).with_context(|| format!("cannot make {}", unnamed.display()))?;
    lock.lock()?;
    fs::rename(&unnamed, dir.join(LOCK))?;
    Ok((dir, lock))
}

/// Does something in a host of its own, whose folder is made in that one, and takes the host away.
pub fn during<T>(parent: &str, search: &str, settings: &Settings, work: impl FnOnce(&Host) -> Result<T>) -> Result<T> {
    let (dir, _lock) = new_folder(parent)?;
    let outcome = start(&dir, search, settings).and_then(|(host, mut manager)| {
        let done = work(&host);
        manager.stop()?;
        done
    });
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    outcome
}

/// Starts everything in a folder that is there and that everybody can pass. A drop of the manager ends it.
fn start(dir: &Path, search: &str, settings: &Settings) -> Result<(Host, Manager)> {
    // The servers refuse root, and only root can start them as somebody else.
    ensure!(Uid::effective().is_root(), "the throw-away host starts servers as other users: run this as root");
    let distribution = search::distribution(search)?;
    let manager = Manager::start(&dir.join("systemd"))?;
    let systemd = &manager.systemd;
    let unit = format!("{}.service", distribution.product);
    let search = Search::prepare(distribution, &dir.join("search"), &unit, settings, systemd)?;
    // The search database takes the longest; PostgreSQL is made meanwhile.
    systemd.control(&["start", "--no-block", &unit])?;
    let postgres = Postgres::create(Programs::debian()?, &dir.join("postgres"), "postgresql.service", systemd)?;
    search.start(systemd)?;
    let host = Host { dir: dir.to_owned(), systemd: systemd.clone(), postgres, search };
    for folder in ["own", "state", "backups", "hooks"] {
        os::folder(&dir.join(folder), 0o755, None)?;
    }
    os::file(&host.file(), &serde_json::to_string_pretty(&host)?, 0o644, None)?;
    Ok((host, manager))
}
