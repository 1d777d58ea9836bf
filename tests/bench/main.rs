//! Benchmarks on real servers: ratios against the plain commands, and how things grow. `tests/bench/run` builds and starts it.

mod account;
mod machine;
mod measure;
mod pg;
mod report;
mod rows;
mod sample;
mod sequences;
mod snap;

use std::process::ExitCode;

use clap::{Args, Parser};

use self::report::Places;

/// Measures our tools beside the plain commands, on a machine that has nothing else to do
#[derive(Debug, Parser)]
#[command(name = "svc-bench", bin_name = "tests/bench/run")]
enum Bench {
    /// svc-snap beside curl, in a throw-away host
    Snap(snap::Arguments),
    /// svc-pgdump and svc-pgrestore beside pg_dump, psql and pg_restore
    Pg(pg::Arguments),
    /// svc-upgrade and svc-rollback beside the procedure's own commands, in a throw-away host
    Sequences(sequences::Arguments),
}

/// What every benchmark of a search database is told.
#[derive(Debug, Args)]
struct OnSearch {
    /// The search database; default: that of the host
    #[arg(long)]
    search: Option<String>,
    #[command(flatten)]
    places: Places,
}

fn main() -> ExitCode {
    let measured = match Bench::parse() {
        Bench::Snap(arguments) => snap::run(&arguments),
        Bench::Pg(arguments) => pg::run(&arguments),
        Bench::Sequences(arguments) => sequences::run(&arguments),
    };
    match measured {
        Ok(missed) if missed.is_empty() => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("svc-bench: missed its target:\n{}", missed.join("\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("svc-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|pairs| *pairs > 0).ok_or_else(|| "at least one pair is measured".to_owned())
}
