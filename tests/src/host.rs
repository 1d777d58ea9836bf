//! The host as a whole: its description, which every test reads, and its life, which `svc-testhost` holds.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::os;
use crate::postgres::{ADMINISTRATOR, Postgres};
use crate::programs::Programs;
use crate::search::{self, Search, Settings};
use crate::systemd::{Manager, Systemd};

/// The variable that names the description of the host a test runs in.
pub const VARIABLE: &str = "SVC_TESTHOST";

/// Where everything is and how it is reached; kept as `host.json` in the host's folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Host {
    /// The host's folder; everybody can pass it.
    pub dir: PathBuf,
    /// The init system.
    pub systemd: Systemd,
    /// The relational database.
    pub postgres: Postgres,
    /// The search database.
    pub search: Search,
}

impl Host {
    /// The host that this test runs in.
    pub fn shared() -> Result<Self> {
        let file = env::var_os(VARIABLE)
            .context("no throw-away host: start the tests with tests/run, or inside `target/debug/svc-testhost run -- bash`")?;
        let text =
            fs::read_to_string(&file).with_context(|| format!("{VARIABLE} names {}, which cannot be read", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no description of a host", file.display()))
    }

    /// The file that describes the host.
    pub fn file(&self) -> PathBuf {
        self.dir.join("host.json")
    }

    /// The host in the product's own settings, for a tool or a script that is to work with it. State and backups go to folders
    /// of the host; a test that looks into them sets folders of its own.
    pub fn env(&self) -> Vec<(String, String)> {
        let mut env = self.systemd.env();
        env.push((VARIABLE.to_owned(), self.file().display().to_string()));
        env.extend(search_env(&self.search));
        env.extend(postgres_env(&self.postgres));
        env.push(("SVC_STATE_DIR".to_owned(), self.dir.join("state").display().to_string()));
        env.push(("SVC_BACKUP_DIR".to_owned(), self.dir.join("backups").display().to_string()));
        env
    }

    /// The same for cargo or a shell, which want their own home: `XDG_CONFIG_HOME` and `XDG_RUNTIME_DIR` lead to the manager.
    pub fn command_env(&self) -> impl Iterator<Item = (String, String)> {
        self.env().into_iter().filter(|(name, _)| name != "HOME")
    }

    /// Starts a further search database of the test's own, which it may stop or break; it is gone when the value is dropped.
    pub fn search_server(&self, key: &str, settings: &Settings) -> Result<OwnSearch> {
        let own = self.prepare_search_server(key, settings)?;
        own.search.start(&self.systemd)?;
        Ok(own)
    }

    /// The same, not started yet: for a server that needs users or certificates before its first start.
    pub fn prepare_search_server(&self, key: &str, settings: &Settings) -> Result<OwnSearch> {
        let distribution = search::distribution(key)?;
        let name = own_name(&distribution.product.to_string());
        let dir = self.dir.join("own").join(&name);
        let unit = format!("{name}.service");
        let search = Search::prepare(distribution, &dir, &unit, settings, &self.systemd)?;
        Ok(OwnSearch { search, systemd: self.systemd.clone(), dir })
    }

    /// Starts a further PostgreSQL of the test's own; it is gone when the value is dropped.
    pub fn postgres_server(&self) -> Result<OwnPostgres> {
        self.postgres_of(Programs::debian()?)
    }

    /// The same, of another version.
    pub fn postgres_of(&self, programs: Programs) -> Result<OwnPostgres> {
        let name = own_name("postgresql");
        let dir = self.dir.join("own").join(&name);
        let postgres = Postgres::create(programs, &dir, &format!("{name}.service"), &self.systemd)?;
        Ok(OwnPostgres { postgres, systemd: self.systemd.clone(), dir })
    }
}

/// A search database in the product's own settings; `SVC_BACKUP_REPO` is a folder that is not there yet.
pub fn search_env(search: &Search) -> Vec<(String, String)> {
    vec![
        ("SVC_SEARCH_URL".to_owned(), search.url.clone()),
        ("SVC_SEARCH_UNIT".to_owned(), format!("user:{}", search.unit)),
        ("SVC_SEARCH_CONFIG".to_owned(), search.config_file.display().to_string()),
        ("SVC_SEARCH_OS_USER".to_owned(), search.os_user.clone()),
        ("SVC_BACKUP_REPO".to_owned(), search.repo_root.join("backup_repo").display().to_string()),
    ]
}

/// A PostgreSQL in the product's own settings, reached over its socket.
pub fn postgres_env(postgres: &Postgres) -> Vec<(String, String)> {
    vec![
        ("PGHOST".to_owned(), postgres.socket_dir.display().to_string()),
        ("PGPORT".to_owned(), postgres.port.to_string()),
        ("SVC_PG_UNIT".to_owned(), format!("user:{}", postgres.unit)),
        ("SVC_PG_ADMIN".to_owned(), ADMINISTRATOR.to_owned()),
    ]
}

/// A name that no other test has, in this process or another.
fn own_name(kind: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A search database that one test has for itself.
#[derive(Debug)]
pub struct OwnSearch {
    /// The server.
    pub search: Search,
    systemd: Systemd,
    dir: PathBuf,
}

impl Deref for OwnSearch {
    type Target = Search;

    fn deref(&self) -> &Search {
        &self.search
    }
}

impl Drop for OwnSearch {
    fn drop(&mut self) {
        take_away(&self.systemd, &self.search.unit, &self.dir);
    }
}

/// A PostgreSQL that one test has for itself.
#[derive(Debug)]
pub struct OwnPostgres {
    /// The server.
    pub postgres: Postgres,
    systemd: Systemd,
    dir: PathBuf,
}

impl Deref for OwnPostgres {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        &self.postgres
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        take_away(&self.systemd, &self.postgres.unit, &self.dir);
    }
}

fn take_away(systemd: &Systemd, unit: &str, dir: &Path) {
    // A test that fails must not fail a second time here; what is left goes away with the host.
    if let Err(error) = systemd.remove(unit) {
        eprintln!("svc-testhost: {error:#}");
    }
    let _ = fs::remove_dir_all(dir);
}

/// A host that runs; [`Running::stop`] or a drop takes it away.
#[derive(Debug)]
pub struct Running {
    host: Host,
    manager: Manager,
}

impl Running {
    /// Starts everything in a folder that is there and that everybody can pass.
    pub fn start(dir: &Path, search: &str, settings: &Settings) -> Result<Self> {
        os::require_root()?;
        let distribution = search::distribution(search)?;
        let manager = Manager::start(&dir.join("systemd"))?;
        let systemd = manager.systemd();
        let unit = format!("{}.service", distribution.product);
        let search = Search::prepare(distribution, &dir.join("search"), &unit, settings, systemd)?;
        // The search database takes the longest; PostgreSQL is made meanwhile.
        let (postgres, started) = std::thread::scope(|scope| {
            let started = scope.spawn(|| search.start(systemd));
            let postgres = Programs::debian()
                .and_then(|programs| Postgres::create(programs, &dir.join("postgres"), "postgresql.service", systemd));
            (postgres, started.join())
        });
        started.map_err(|_| anyhow::anyhow!("the start of the search database panicked"))??;
        let host = Host { dir: dir.to_owned(), systemd: systemd.clone(), postgres: postgres?, search };
        for folder in ["own", "state", "backups"] {
            os::folder(&dir.join(folder), 0o755, None)?;
        }
        os::file(&host.file(), &serde_json::to_string_pretty(&host)?, 0o644, None)?;
        Ok(Self { host, manager })
    }

    /// The description.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Stops the servers, then the manager; fails if something had to be killed.
    pub fn stop(self) -> Result<()> {
        self.manager.stop()
    }
}
