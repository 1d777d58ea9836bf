//! PostgreSQL of the throw-away host: a server in a cluster of its own, never the packaged one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::programs::Programs;
use crate::systemd::Systemd;
use crate::wait;
use crate::{download, os};

/// Whom the server runs as, and who administers it over the socket: in the operating system and in the database.
pub const ADMINISTRATOR: &str = "postgres";

/// A language that Debian's server speaks if `lc_messages` says so.
pub const GERMAN: &str = "de_DE.UTF-8";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Postgres {
    pub version: u32,
    pub server_dir: PathBuf,
    /// Where `psql` and `pg_dump` are, of that version or a newer one.
    pub bin_dir: PathBuf,
    pub data_dir: PathBuf,
    pub socket_dir: PathBuf,
    /// The port, on 127.0.0.1 and of the socket.
    pub port: u16,
    pub unit: String,
    pub log_file: PathBuf,
}

impl Postgres {
    /// Makes a cluster in a new folder and starts it as a unit. Everybody but the administrator needs a password.
    pub fn create(programs: Programs, dir: &Path, unit: &str, systemd: &Systemd) -> Result<Self> {
        let user = os::system_user(ADMINISTRATOR)?;
        os::folder(dir, 0o755, Some(&user))?;
        let this = Self {
            version: programs.version,
            server_dir: programs.server_dir,
            bin_dir: programs.client_dir,
            data_dir: dir.join("data"),
            socket_dir: dir.join("socket"),
            port: os::free_ports(1)?[0],
            unit: unit.to_owned(),
            log_file: dir.join("postgres.log"),
        };
        let socket = this.socket_dir.join(format!(".s.PGSQL.{}", this.port));
        ensure!(socket.as_os_str().len() < 107, "{} is too long for a socket: use a shorter folder", socket.display());
        os::folder(&this.socket_dir, 0o755, Some(&user))?;
        let mut initdb = os::command_as(ADMINISTRATOR, this.server_dir.join("initdb"));
        initdb.args(["--encoding=UTF8", "--locale=C.UTF-8", "--lc-messages=C", "--auth=peer", "--no-sync", "-D"]);
        os::run(initdb.arg(&this.data_dir))?;
        let hba = "local all postgres peer\nlocal all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n";
        os::file(&this.data_dir.join("pg_hba.conf"), hba, 0o600, Some(&user))?;
        os::file(&this.data_dir.join("postgresql.auto.conf"), &this.settings(), 0o600, Some(&user))?;
        systemd.install(unit, &this.unit_file(programs.notifies, &german()?))?;
        systemd
            .start(unit)
            .and_then(|()| wait::until("PostgreSQL", wait::HANG, || this.sql("postgres", "SELECT 1").ok().map(drop)))
            .with_context(|| format!("PostgreSQL did not start:\n{}", os::tail(&this.log_file, 30)))?;
        Ok(this)
    }

    fn settings(&self) -> String {
        let (socket_dir, port) = (self.socket_dir.display(), self.port);
        // Nothing here has to survive a power cut, so nothing waits for the disk; and what a killed server leaves of its shared memory
        // is in its own directory.
        format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{socket_dir}'\n\
             max_prepared_transactions = 5\nmax_connections = 200\ndynamic_shared_memory_type = mmap\n\
             fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n\
             timezone = 'UTC'\nlog_timezone = 'UTC'\n"
        )
    }

    fn unit_file(&self, notifies: bool, locales: &Path) -> String {
        let kind = if notifies { "notify" } else { "exec" };
        let run_as = os::run_as(ADMINISTRATOR).join(" ");
        // Where messages of other languages are, beside the locales that the system has.
        let locales = locales.display();
        let (bin_dir, data_dir, log) = (self.server_dir.display(), self.data_dir.display(), self.log_file.display());
        format!(
            "[Unit]\nDescription=PostgreSQL of the throw-away host\n\n[Service]\nType={kind}\n\
             Environment=LOCPATH={locales}:/usr/lib/locale\n\
             ExecStart=/usr/bin/setpriv {run_as} {bin_dir}/postgres -D {data_dir}\n\
             KillMode=mixed\nKillSignal=SIGINT\nTimeoutStartSec=900\nTimeoutStopSec=60\n\
             StandardOutput=append:{log}\nStandardError=append:{log}\n"
        )
    }

    /// A client program as the administrator over the socket, without the caller's own settings or `.psqlrc`.
    pub fn administrator(&self, program: &str) -> Command {
        let mut command = os::command_as(ADMINISTRATOR, self.bin_dir.join(program));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PG")) {
            command.env_remove(name);
        }
        command.env("PGHOST", &self.socket_dir).env("PGPORT", self.port.to_string()).env("PGUSER", ADMINISTRATOR);
        command.stdin(Stdio::null());
        command
    }

    /// Runs SQL as the administrator; returns the rows, fields separated by `|`, without headings.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let text = os::run(self.administrator("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    pub fn create_role(&self, name: &str, password: &str) -> Result<()> {
        let sql = format!("CREATE ROLE {} LOGIN PASSWORD {}", identifier(name), literal(password));
        self.sql("postgres", &sql).map(drop)
    }

    pub fn create_database(&self, name: &str, owner: &str) -> Result<()> {
        self.sql("postgres", &format!("CREATE DATABASE {} OWNER {}", identifier(name), identifier(owner))).map(drop)
    }

    pub fn databases(&self, begin: &str) -> Result<Vec<String>> {
        let sql = format!("SELECT datname FROM pg_database WHERE starts_with(datname, {}) ORDER BY 1", literal(begin));
        Ok(self.sql("postgres", &sql)?.lines().map(str::to_owned).collect())
    }

    /// Drops a database, if it is there, with everybody who is connected to it.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        self.sql("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", identifier(name))).map(drop)
    }

    /// Writes a password file of libpq, mode 0600, with one role's password for every database of this server.
    pub fn pgpass(&self, path: &Path, role: &str, password: &str) -> Result<()> {
        let password = password.replace('\\', "\\\\").replace(':', "\\:");
        let line = |host: &str| format!("{host}:{}:*:{role}:{password}\n", self.port);
        let text = line("127.0.0.1") + &line("localhost") + &line(&self.socket_dir.display().to_string());
        os::file(path, &text, 0o600, None)
    }
}

/// A folder with the locale [`GERMAN`], which most machines do not have.
fn german() -> Result<PathBuf> {
    download::cached("locale-german", |folder| {
        let locale = folder.join(GERMAN);
        // It warns of what the C library would do otherwise, and ends with 1 then.
        let ran = Command::new("localedef").args(["-c", "-i", "de_DE", "-f", "UTF-8"]).arg(&locale).output()?;
        ensure!(locale.join("LC_MESSAGES").exists(), "localedef made no {GERMAN}: {}", String::from_utf8_lossy(&ran.stderr));
        download::readable(folder)
    })
}

pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
