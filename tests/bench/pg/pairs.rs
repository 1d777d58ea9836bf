//! The dump and the restore of a service's database beside the plain commands, in turn.

use std::cell::Cell;

use anyhow::{Result, ensure};

use super::server::{DATABASE, OWNER, Server};
use crate::report::{Ratio, Report};
use crate::sample::Sample;

/// What a call may hold at most, in MB.
const MEMORY: f64 = 64.0;
/// Where the plain commands restore to.
const BESIDE: &str = "svc_db_plain";

/// `svc-pgdump` beside `pg_dump > file` and `sync`; the compressed one beside the same, with no target.
pub fn dump(server: &Server, report: &mut Report, pairs: usize) -> Result<()> {
    let memory = Cell::new(0);
    let ours = |more: &[&str]| {
        server.settle()?;
        let path = server.file("ours.sql").display().to_string();
        let args = [&["--as", "postgres", "--force", "--dbname", DATABASE, "--output", &path], more].concat();
        let (seconds, peak) = server.tool("svc-pgdump", &args).watch(&server.output())?;
        memory.set(memory.get().max(peak));
        ensure!(server.printed()?["ok"] == true, "ours is not ok");
        std::fs::remove_file(path)?;
        Ok(seconds)
    };
    let theirs = || {
        server.settle()?;
        let path = server.file("theirs.sql");
        let script = format!("pg_dump --dbname={DATABASE} > {0}; sync {0}", path.display());
        let seconds = server.plain(&script).time(&server.output())?;
        std::fs::remove_file(path)?;
        Ok(seconds)
    };
    // Nobody's first call is measured.
    ours(&[])?;
    theirs()?;
    let sample = Sample::take(pairs, || ours(&[]), theirs)?;
    report.ratio("`svc-pgdump`", "`pg_dump > file` and `sync`", Some(1.05), &sample);
    let sample = Sample::take(pairs.div_ceil(3), || ours(&["--compress", "zstd"]), theirs)?;
    report.ratio("`svc-pgdump --compress zstd`", "`pg_dump > file` and `sync`", None, &sample);
    report.add(held("`svc-pgdump`, MB of memory", memory.get(), pairs));
    Ok(())
}

/// `svc-pgrestore` (verify, stage, prove, swap) beside `psql -f` and `pg_restore -Fd -j2`, each with the statistics at the end. `of`: what the
/// database is like; `limit`: the ratio to `pg_restore`.
pub fn restore(server: &Server, report: &mut Report, rounds: usize, of: &str, limit: f64) -> Result<()> {
    let (plain, folder) = (server.file("svc_db.backup.sql"), server.file("folder"));
    let output = server.output();
    server
        .tool("svc-pgdump", &["--as", "postgres", "--force", "--dbname", DATABASE, "--output", &plain.display().to_string()])
        .time(&output)?;
    let document = server.file("pgdump.json");
    std::fs::copy(&output, &document)?;
    // The plain commands' administrator reads it too.
    nix::unistd::chown(
        &plain,
        Some(nix::unistd::Uid::from_raw(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&server.postgres.data_dir)?))),
        None,
    )?;
    server.plain(&format!("pg_dump --format=directory --jobs=2 --file={} {DATABASE}", folder.display())).time(&output)?;
    let memory = Cell::new(0);
    let mut number = 0;
    let mut ours = || {
        server.settle()?;
        number += 1;
        let run = format!("20260101t000000z-bench{}-{number}", of.len());
        let from = document.display().to_string();
        let (seconds, peak) =
            server.tool("svc-pgrestore", &["--from", &from, "--owner", OWNER, "--run-id", &run]).watch(&output)?;
        memory.set(memory.get().max(peak));
        let printed = server.printed()?;
        ensure!(printed["ok"] == true, "ours is not as meant: {printed}");
        server.tool("svc-pgrestore", &["discard", "--run", &run]).time(&output)?;
        Ok::<f64, anyhow::Error>(seconds)
    };
    let theirs = |load: &str| {
        server.postgres.drop_database(BESIDE)?;
        server.settle()?;
        let script = format!("createdb --owner={OWNER} --template=template0 {BESIDE}; {load}; psql -Xqd {BESIDE} -c ANALYZE");
        let seconds = server.plain(&script).time(&output)?;
        server.postgres.drop_database(BESIDE)?;
        Ok::<f64, anyhow::Error>(seconds)
    };
    let by_psql = format!("psql -Xqd {BESIDE} -v ON_ERROR_STOP=1 -f {} > /dev/null", plain.display());
    let by_pg_restore = format!("pg_restore --format=directory --jobs=2 --dbname={BESIDE} {}", folder.display());
    ours()?;
    let (mut psql, mut pg_restore) = (Sample::default(), Sample::default());
    for round in 0..rounds {
        // Whatever drifts must favour none of the three.
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => {
                    let seconds = ours()?;
                    psql.ours.push(seconds);
                    pg_restore.ours.push(seconds);
                }
                1 => psql.theirs.push(theirs(&by_psql)?),
                _ => pg_restore.theirs.push(theirs(&by_pg_restore)?),
            }
        }
        eprintln!(
            "round {round}: ours {:?}, psql {:?}, pg_restore {:?}",
            psql.ours.last(),
            psql.theirs.last(),
            pg_restore.theirs.last()
        );
    }
    let what = format!("`svc-pgrestore`: check, stage, verify, swap{of}");
    report.ratio(&what, "`createdb`, `psql -f`, `ANALYZE`", Some(0.60), &psql);
    report.ratio(&what, "`createdb`, `pg_restore -Fd -j2`, `ANALYZE`", Some(limit), &pg_restore);
    report.add(held(&format!("`svc-pgrestore`{of}, MB of memory"), memory.get(), rounds));
    std::fs::remove_file(&plain)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// The most memory that a call held.
pub fn held(what: &str, bytes: u64, pairs: usize) -> Ratio {
    Ratio {
        what: what.to_owned(),
        against: "–".to_owned(),
        ratio: bytes as f64 / 1e6,
        target: Some(MEMORY),
        pairs,
        ours_seconds: 0.0,
        theirs_seconds: 0.0,
    }
}
