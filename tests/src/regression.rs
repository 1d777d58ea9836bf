//! PostgreSQL's own regression database: every kind of object that its makers thought of testing. Its scripts come from the source
//! package of Debian's server and are run as `pg_regress` would, except that nobody looks at what they print.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::download::{cached, only_entry};
use crate::os;
use crate::postgres::{ADMINISTRATOR, Postgres};
use crate::programs::Programs;

/// What `pg_regress` sets for its database.
const SETTINGS: &str = "
    ALTER DATABASE regression SET lc_messages TO 'C';
    ALTER DATABASE regression SET lc_monetary TO 'C';
    ALTER DATABASE regression SET lc_numeric TO 'C';
    ALTER DATABASE regression SET lc_time TO 'C';
    ALTER DATABASE regression SET bytea_output TO 'hex';
    ALTER DATABASE regression SET timezone_abbreviations TO 'Default'";
/// The modules of contrib that the scripts use.
const MODULES: [&str; 2] = ["autoinc.so", "refint.so"];

/// The scripts, and the library of functions in C that they use, for Debian's server.
pub fn fetch() -> Result<PathBuf> {
    let debian = Programs::debian()?;
    cached(&format!("postgresql-{}-regress", debian.version), |folder| {
        // What is installed may be older than what there is, and was made of these very sources.
        let server = format!("postgresql-{}", debian.version);
        let release = os::run(Command::new("dpkg-query").args(["--show", "--showformat=${Version}", &server]))?;
        unpack_sources(&format!("{server}={release}"), folder)?;
        let headers = tempfile::tempdir()?;
        let package = format!("postgresql-server-dev-{}={release}", debian.version);
        os::run(Command::new("apt-get").args(["-q", "download", &package]).current_dir(headers.path()))?;
        let unpacked = tempfile::tempdir()?;
        os::run(Command::new("dpkg").arg("-x").arg(only_entry(headers.path())?).arg(unpacked.path()))?;
        let includes = unpacked.path().join(format!("usr/include/postgresql/{}/server", debian.version));
        let library = folder.join("lib");
        fs::create_dir(&library)?;
        os::run(
            Command::new("gcc")
                .args(["-shared", "-fPIC", "-O1", "-w", "-I"])
                .arg(includes)
                .arg("-o")
                .arg(library.join("regress.so"))
                .arg(folder.join("regress.c")),
        )?;
        let installed = debian.server_dir.parent().context("the programs are in no folder")?.join("lib");
        for module in MODULES {
            symlink(installed.join(module), library.join(module))?;
        }
        os::run(Command::new("chmod").args(["-R", "a+rX"]).arg(folder)).map(drop)
    })
}

/// The part of the source package that is the tests.
fn unpack_sources(package: &str, folder: &Path) -> Result<()> {
    let work = tempfile::tempdir()?;
    let lists = work.path().join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let parts = work.path().join("parts");
    fs::create_dir(&parts)?;
    let known = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    for path in known.chain([PathBuf::from("/etc/apt/sources.list")]) {
        // Few machines list sources, and only Debian's are wanted.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if let Some(name) = path.file_name().filter(|_| text.contains("debian.org")) {
            fs::write(parts.join(name), of_sources(&text))?;
        }
    }
    let sources = work.path().join("sources");
    fs::create_dir(&sources)?;
    let apt = |args: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(["-q", "-o", "Dir::Etc::SourceList=/dev/null", "-o"]).arg(format!("Dir::Etc::SourceParts={}", parts.display()));
        apt.arg("-o").arg(format!("Dir::State::Lists={}", lists.display()));
        os::run(apt.args(args).current_dir(&sources))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", package])?;
    let downloaded = fs::read_dir(&sources)?.flatten().map(|entry| entry.path());
    let archive = downloaded
        .into_iter()
        .find(|path| path.to_string_lossy().contains(".orig.tar.") && !path.to_string_lossy().ends_with(".asc"));
    let archive = archive.context("the source package has no sources")?;
    os::run(
        Command::new("tar")
            .args(["--wildcards", "--strip-components=4", "-xf"])
            .arg(archive)
            .arg("-C")
            .arg(folder)
            .arg("*/src/test/regress/*"),
    )
    .map(drop)
}

/// A list of packages as one of their sources.
fn of_sources(text: &str) -> String {
    let line = |line: &str| match line.split_once(' ') {
        Some(("Types:", _)) => "Types: deb-src\n".to_owned(),
        Some(("deb", rest)) => format!("deb-src {rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Makes the database `regression` on a server that lets everybody in, by all scripts in the order of their schedule; returns
/// how many they were.
pub fn build(postgres: &Postgres, fetched: &Path, folder: &Path) -> Result<usize> {
    let user = os::system_user(ADMINISTRATOR)?;
    os::folder(folder, 0o755, Some(&user))?;
    os::folder(&folder.join("results"), 0o755, Some(&user))?;
    postgres.sql("postgres", "CREATE DATABASE regression TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")?;
    for statement in SETTINGS.split(';') {
        postgres.sql("postgres", statement)?;
    }
    let schedule = fs::read_to_string(fetched.join("parallel_schedule"))?;
    let tests: Vec<&str> =
        schedule.lines().filter_map(|line| line.strip_prefix("test: ")).flat_map(str::split_whitespace).collect();
    for test in &tests {
        script(postgres, fetched, folder, test)?;
    }
    Ok(tests.len())
}

fn script(postgres: &Postgres, fetched: &Path, folder: &Path, test: &str) -> Result<()> {
    let text = fs::read(fetched.join("sql").join(format!("{test}.sql"))).with_context(|| format!("no script {test}"))?;
    let mut psql = postgres.administrator("psql");
    psql.args(["-X", "-q", "-d", "regression", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"])
        .env("PG_ABS_SRCDIR", fetched)
        .env("PG_ABS_BUILDDIR", folder)
        .env("PG_LIBDIR", fetched.join("lib"))
        .env("PG_DLSUFFIX", ".so")
        .env("PGTZ", "PST8PDT")
        .env("PGDATESTYLE", "Postgres, MDY")
        .env("PGOPTIONS", "-c intervalstyle=postgres_verbose");
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // A script may leave the rest of itself unread.
    let _ = child.stdin.take().context("psql has no stdin")?.write_all(&text);
    let status = child.wait()?;
    // Statements that fail are what many of them are for; a lost connection is not.
    ensure!(status.success(), "the script {test} did not run to its end: {status}");
    Ok(())
}
