//! PostgreSQL's own regression database: every kind of object that its makers thought of testing. Its scripts come from the source
//! package of Debian's server and are run as `pg_regress` would, except that nobody looks at what they print.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::download::{cached, readable};
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
/// Fetches the scripts, and builds the library of functions in C that they use, in a folder that is given. What is installed may be older
/// than what there is, and was made of the sources of its own release. Few machines list sources, and only Debian's are wanted.
const FETCH: &str = r#"
    folder=$1 version=$2 installed=$3 work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    mkdir -p lists/partial parts
    for list in $(grep -ls debian.org /etc/apt/sources.list /etc/apt/sources.list.d/*); do
        sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" >"parts/${list##*/}"
    done
    release=$(dpkg-query --show --showformat='${Version}' "postgresql-$version")
    sources() {
        apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts" -o Dir::State::Lists="$work/lists" "$@"
    }
    sources update
    sources source --download-only "postgresql-$version=$release"
    tar --wildcards --strip-components=4 -xf *.orig.tar.*[!c] -C "$folder" '*/src/test/regress/*'
    apt-get -q download "postgresql-server-dev-$version=$release"
    dpkg -x postgresql-server-dev-*.deb headers
    mkdir "$folder/lib"
    gcc -shared -fPIC -O1 -w -I "headers/usr/include/postgresql/$version/server" -o "$folder/lib/regress.so" "$folder/regress.c"
    ln -s "$installed/autoinc.so" "$installed/refint.so" "$folder/lib"
"#;

/// The scripts, and the library of functions in C that they use, for Debian's server.
pub fn fetch() -> Result<PathBuf> {
    let debian = Programs::debian()?;
    let version = debian.version.to_string();
    let installed = debian.server_dir.parent().context("the programs are in no folder")?.join("lib");
    cached(&format!("postgresql-{version}-regress"), |folder| {
        os::run(Command::new("bash").args(["-ec", FETCH, "fetch"]).arg(folder).arg(&version).arg(&installed))?;
        readable(folder)
    })
}

/// Makes the database `regression` on a server that lets everybody in, by all scripts in the order of their schedule; returns
/// how many they were.
pub fn build(postgres: &Postgres, fetched: &Path, folder: &Path) -> Result<usize> {
    let user = os::system_user(ADMINISTRATOR)?;
    os::folder(folder, 0o755, Some(&user))?;
    os::folder(&folder.join("results"), 0o755, Some(&user))?;
    postgres.sql("postgres", "CREATE DATABASE regression TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")?;
    postgres.sql("postgres", SETTINGS)?;
    let schedule = fs::read_to_string(fetched.join("parallel_schedule"))?;
    let tests: Vec<&str> =
        schedule.lines().filter_map(|line| line.strip_prefix("test: ")).flat_map(str::split_whitespace).collect();
    for test in &tests {
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
        // Statements that fail are what many of them are for; a lost connection is not.
        os::fed(&mut psql, text).with_context(|| format!("the script {test} did not run to its end"))?;
    }
    Ok(tests.len())
}
