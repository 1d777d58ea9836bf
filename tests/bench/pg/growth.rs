//! How it grows: with many tables, and with the size of the dump.

use anyhow::{Result, ensure};

use super::server::{DATABASE, OWNER, Server};
use super::{fill, pairs};
use crate::measure::{Cost, Line};
use crate::report::{Growth, Point, Report};

/// So many small tables, dumped and restored.
pub fn tables(server: &Server, report: &mut Report, sizes: &[usize]) -> Result<()> {
    series(server, report, ("tables", "n small tables"), sizes, fill::tables)
}

/// Dumps of so many MB, written and restored.
pub fn bytes(server: &Server, report: &mut Report, sizes: &[usize]) -> Result<()> {
    series(server, report, ("bytes", "n MB of dump"), sizes, fill::bytes)
}

fn series(
    server: &Server,
    report: &mut Report,
    (key, what): (&str, &str),
    sizes: &[usize],
    fill: impl Fn(&Server, usize) -> Result<()>,
) -> Result<()> {
    let (mut dumped, mut restored) = (Vec::new(), Vec::new());
    let output = server.output();
    let plain = server.file("grown.sql");
    for &size in sizes {
        fill(server, size)?;
        eprintln!("{size}: the database has {} MB", server.megabytes()?);
        let path = plain.display().to_string();
        let line = server.tool("svc-pgdump", &["--as", "postgres", "--force", "--dbname", DATABASE, "--output", &path]);
        dumped.push(point(server, size, &line)?);
        let document = server.file("grown.json");
        std::fs::copy(&output, &document)?;
        let run = format!("20260101t000000z-{key}-{size}");
        let from = document.display().to_string();
        // What is replaced is dropped at once: the disk has no room for three of the largest.
        let line = server
            .tool("svc-pgrestore", &["--from", &from, "--owner", OWNER, "--run-id", &run, "--drop-old", "--ignore-disk-space"]);
        restored.push(point(server, size, &line)?);
        ensure!(server.printed()?["ok"] == true, "the restore is not ok");
        std::fs::remove_file(&plain)?;
    }
    server.postgres.drop_database(DATABASE)?;
    for (tool, points) in [("svc-pgdump", dumped), ("svc-pgrestore", restored)] {
        let most = points.iter().map(|point| point.memory_bytes).max().unwrap_or_default();
        report.add(pairs::held(&format!("`{tool}` of {what}, MB of memory"), most, points.len()));
        report.growth(Growth::of(format!("`{tool}` of {what}"), points));
    }
    Ok(())
}

fn point(server: &Server, size: usize, line: &Line) -> Result<Point> {
    server.settle()?;
    let output = server.output();
    // Our own memory is the question, not that of pg_dump; our computing includes it.
    let Cost { seconds, memory_bytes, cpu_seconds } = line.watch_all(&output)?;
    eprintln!("{size}: {seconds:.1} s, {cpu_seconds:.1} s of computing, {:.1} MB", memory_bytes as f64 / 1e6);
    Ok(Point { size, seconds, cpu_seconds, memory_bytes, curl_seconds: None })
}
