//! svc-pgdump and svc-pgrestore beside pg_dump, psql and pg_restore, on a server of the benchmark's own.

mod fill;
mod growth;
mod pairs;
mod server;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::server::Server;
use crate::report::{Places, Report};

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many rounds; in each, everything is measured once
    #[arg(long, default_value_t = 10, value_parser = crate::at_least_one)]
    pairs: usize,
    /// How many MB the database has
    #[arg(long, default_value_t = 1500)]
    megabytes: usize,
    /// What to measure; all of it without
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Whether the server's pages have checksums (Debian's default up to PostgreSQL 17: none)
    #[arg(long)]
    checksums: bool,
    /// At how many tables the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "1250,2500,5000")]
    tables: Vec<usize>,
    /// At how many MB of dump the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "2500,5000,10000")]
    dumps: Vec<usize>,
    /// Where the server's files are; they take some times the size of the largest database
    #[arg(long, value_name = "FOLDER", default_value = "/var/tmp")]
    folder: PathBuf,
    #[command(flatten)]
    places: Places,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The dump, beside pg_dump and sync
    Dump,
    /// The restore, beside psql -f and pg_restore -Fd -j2
    Restore,
    /// The same with a database that one large table dominates
    Dominated,
    /// Many tables
    Tables,
    /// Large dumps
    Bytes,
}

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let server = Server::start(&arguments.folder, arguments.checksums)?;
    let mut report = Report::of(server.described()?, &arguments.places);
    let measured = measure(arguments, &server, &mut report);
    report.close(measured, &arguments.places)
}

fn measure(arguments: &Arguments, server: &Server, report: &mut Report) -> Result<()> {
    let wanted = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wanted(Part::Dump) || wanted(Part::Restore) {
        fill::service(server, arguments.megabytes)?;
        eprintln!("the database has {} MB", server.megabytes()?);
        if wanted(Part::Dump) {
            pairs::dump(server, report, arguments.pairs)?;
        }
        if wanted(Part::Restore) {
            pairs::restore(server, report, arguments.pairs, "", 0.85)?;
        }
    }
    if wanted(Part::Dominated) {
        fill::dominated(server, arguments.megabytes / 3)?;
        eprintln!("the database has {} MB", server.megabytes()?);
        pairs::restore(server, report, arguments.pairs, ", one large table", 1.0)?;
    }
    if wanted(Part::Tables) {
        growth::tables(server, report, &arguments.tables)?;
    }
    if wanted(Part::Bytes) {
        growth::bytes(server, report, &arguments.dumps)?;
    }
    Ok(())
}
