//! Benchmarks on real servers: ratios against the plain commands, and how things grow. `tests/bench/run` builds and starts it.

mod journal;
mod measure;
mod pg;
mod report;
mod sequences;
mod snap;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser};

use self::report::Report;

/// Measures our tools beside the plain commands, on a machine that has nothing else to do
#[derive(Debug, Parser)]
#[command(name = "svc-bench", bin_name = "tests/bench/run")]
enum Bench {
    /// svc-snap beside curl, in a throw-away host
    Snap(snap::Arguments),
    /// svc-pgdump and svc-pgrestore beside pg_dump, psql and pg_restore, in a throw-away host
    Pg(pg::Arguments),
    /// svc-upgrade and svc-rollback beside the procedure's own commands, in a throw-away host
    Sequences(sequences::Arguments),
}

/// The options of every benchmark.
#[derive(Debug, Args)]
struct Frame {
    /// How many pairs of each are measured
    #[arg(long)]
    pairs: Option<NonZeroUsize>,
    /// What to measure; all of it without; a word that is none tells which there are
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Where what was measured is kept, so that a part of it can be measured again
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A page with a place for the table
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl Frame {
    /// Measures those of the parts that are wanted, on what `described` says; gives what missed its target.
    fn measure(
        &self,
        parts: &[&str],
        described: String,
        measure: impl FnOnce(&mut Report, &dyn Fn(&str) -> bool) -> Result<()>,
    ) -> Result<Vec<String>> {
        ensure!(self.only.iter().all(|only| parts.contains(&only.as_str())), "--only takes {}", parts.join(", "));
        let wanted = |part: &str| self.only.is_empty() || self.only.iter().any(|only| only == part);
        let mut report = Report::of(described, self.json.as_deref());
        let measured = measure(&mut report, &wanted);
        // The figures are kept, whatever came then.
        println!("{}", report.table());
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        measured?;
        if let Some(path) = &self.page {
            report.write_page(path)?;
        }
        Ok(report.missed())
    }

    fn pairs(&self, default: usize) -> usize {
        self.pairs.map_or(default, NonZeroUsize::get)
    }
}

fn main() -> ExitCode {
    let measured = match Bench::parse() {
        Bench::Snap(arguments) => snap::run(&arguments),
        Bench::Pg(arguments) => pg::run(&arguments),
        Bench::Sequences(arguments) => sequences::run(&arguments),
    };
    match measured {
        Ok(missed) if missed.is_empty() => return ExitCode::SUCCESS,
        Ok(missed) => eprintln!("svc-bench: missed its target:\n{}", missed.join("\n")),
        Err(error) => eprintln!("svc-bench: {error:#}"),
    }
    ExitCode::FAILURE
}
