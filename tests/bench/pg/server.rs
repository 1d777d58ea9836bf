//! PostgreSQL as Debian sets it up, with a disk that is waited for: that of the tests waits for none.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use svc_tests::os;
use svc_tests::postgres::{ADMINISTRATOR, Postgres};
use svc_tests::programs::Programs;
use svc_tests::tool;
use tempfile::TempDir;

use crate::machine;
use crate::measure::{Line, read, settle_disk};

/// The database that is dumped and restored, and its owner.
pub const DATABASE: &str = "svc_db";
pub const OWNER: &str = "svc";

/// A cluster of the benchmark's own, with a folder for files. It goes when this is dropped.
pub struct Server {
    pub postgres: Postgres,
    checksums: bool,
    dir: TempDir,
}

impl Server {
    /// Makes the cluster and starts it.
    pub fn start(folder: &Path, checksums: bool) -> Result<Self> {
        let user = os::system_user(ADMINISTRATOR)?;
        let Programs { version, server_dir, client_dir, .. } = Programs::debian()?;
        let dir = tempfile::Builder::new().prefix("svc-bench-").tempdir_in(folder)?;
        os::folder(dir.path(), 0o755, Some(&user))?;
        let path = |name: &str| dir.path().join(name);
        let postgres = Postgres {
            version,
            server_dir,
            bin_dir: client_dir,
            data_dir: path("data"),
            socket_dir: dir.path().to_owned(),
            port: os::free_ports(1)?[0],
            unit: String::new(),
            os_user: ADMINISTRATOR.to_owned(),
            log_file: path("log"),
        };
        os::folder(&path("files"), 0o755, Some(&user))?;
        let server = Self { postgres, checksums, dir };
        let mut initdb = vec!["--encoding=UTF8", "--locale=C.UTF-8", "--auth=peer"];
        initdb.extend(checksums.then_some("--data-checksums"));
        server.control("initdb", &initdb)?;
        let (socket, port) = (server.postgres.socket_dir.display(), server.postgres.port);
        let settings =
            format!("listen_addresses = ''\nport = {port}\nunix_socket_directories = '{socket}'\nlogging_collector = off\n");
        os::file(&server.postgres.data_dir.join("postgresql.auto.conf"), &settings, 0o600, Some(&user))?;
        let log = server.postgres.log_file.display().to_string();
        server.control("pg_ctl", &["--wait", "--log", &log, "start"])?;
        server.postgres.create_role(OWNER, "secret")?;
        Ok(server)
    }

    fn control(&self, program: &str, args: &[&str]) -> Result<()> {
        let mut command = os::command_as(ADMINISTRATOR, self.postgres.server_dir.join(program));
        command.arg("--pgdata").arg(&self.postgres.data_dir).args(args).current_dir("/").stdout(std::process::Stdio::null());
        let status = command.status()?;
        ensure!(status.success(), "{program}: {status}\n{}", os::tail(&self.postgres.log_file, 30));
        Ok(())
    }

    /// A file that the administrator may write.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("files").join(name)
    }

    /// Where a measured command's output goes.
    pub fn output(&self) -> PathBuf {
        self.file("output")
    }

    /// What it printed, as JSON.
    pub fn printed(&self) -> Result<serde_json::Value> {
        read(&self.output())
    }

    /// One of our tools, as root types it.
    pub fn tool(&self, name: &str, args: &[&str]) -> Line {
        let program = tool::bin_dir().join(name);
        Line::new([program.into_os_string()].into_iter().chain(args.iter().map(Into::into)))
            .env("PGHOST", &self.postgres.socket_dir)
            .env("PGPORT", self.postgres.port.to_string())
            .env("SVC_STATE_DIR", self.dir.path().join("state"))
    }

    /// Plain commands, as the administrator types them.
    pub fn plain(&self, script: &str) -> Line {
        let bin = self.postgres.bin_dir.display();
        let script = format!("set -e; PATH={bin}:$PATH; {script}");
        Line::new(["runuser", "-u", ADMINISTRATOR, "--", "sh", "-c", &script])
            .env("PGHOST", &self.postgres.socket_dir)
            .env("PGPORT", self.postgres.port.to_string())
    }

    /// Makes an empty database, in place of one that is there.
    pub fn fresh(&self, name: &str) -> Result<()> {
        self.postgres.drop_database(name)?;
        self.postgres.create_database(name, OWNER)
    }

    /// Runs SQL in the database that is dumped.
    pub fn sql(&self, sql: &str) -> Result<String> {
        self.postgres.sql(DATABASE, sql)
    }

    /// The size of that database.
    pub fn megabytes(&self) -> Result<u64> {
        Ok(self.sql("SELECT pg_database_size(current_database()) / 1000000")?.parse()?)
    }

    /// Writes all that the server and the system have not written yet, so that what is measured next does not pay for it.
    pub fn settle(&self) -> Result<()> {
        self.postgres.sql("postgres", "CHECKPOINT")?;
        settle_disk();
        Ok(())
    }

    /// The machine and the server, as a report names them.
    pub fn described(&self) -> Result<String> {
        let version = self.postgres.sql("postgres", "SELECT current_setting('server_version')")?;
        let with = if self.checksums { "with" } else { "without" };
        Ok(format!(
            "{}; PostgreSQL {version} as Debian sets it up (128 MB of shared buffers, fsync on), {with} page checksums",
            machine::described(self.dir.path())?
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.control("pg_ctl", &["--wait", "--mode", "fast", "stop"]);
    }
}
