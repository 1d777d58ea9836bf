//! Benchmarks on a real server: ratios against the plain commands, and how things grow. `tests/bench/run` builds and starts it.

mod big;
mod curator;
mod ground;
mod growth;
mod measure;
mod report;
mod sample;
mod small;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use svc_tests::host::Host;

use crate::big::Rate;
use crate::ground::Ground;
use crate::report::Report;

/// Measures svc-snap in a throw-away host, beside the plain commands
#[derive(Debug, Parser)]
#[command(name = "svc-bench", bin_name = "tests/bench/run snap")]
struct Arguments {
    /// How many pairs of each
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// How many MB are saved and brought back
    #[arg(long, default_value_t = 300)]
    megabytes: usize,
    /// What to measure; all of it without
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// At how many snapshots the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "500,1000,2000")]
    snapshots: Vec<usize>,
    /// At how many indices the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "250,500,1000")]
    indices: Vec<usize>,
    /// The search database; default: that of the host
    #[arg(long)]
    search: Option<String>,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A page with a place for the table
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// create and restore without the servers' brake, beside curl and a copy
    Unlimited,
    /// create and restore at the server's own rate, beside curl
    Equal,
    /// A call that changes nothing
    List,
    /// Elasticsearch Curator
    Curator,
    /// Many snapshots listed and pruned
    Snapshots,
    /// Many indices staged and swapped
    Indices,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
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

fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let host = Host::shared()?;
    let key = arguments.search.clone().unwrap_or_else(|| host.search.key.clone());
    let wanted = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    let mut report = Report::default();
    let (pairs, report_to) = (arguments.pairs, &mut report);
    {
        let ground = Ground::new(&host, &key)?;
        report_to.measured_on = ground.described()?;
        if wanted(Part::List) {
            small::list(&ground, report_to, pairs)?;
        }
        if wanted(Part::Unlimited) || wanted(Part::Equal) {
            let indices = ground.fill(3, arguments.megabytes);
            for (part, rate) in [(Part::Unlimited, Rate::Unlimited), (Part::Equal, Rate::Equal)] {
                if wanted(part) {
                    big::create(&ground, report_to, pairs, rate)?;
                    big::restore(&ground, report_to, pairs, rate, &indices)?;
                }
            }
        }
    }
    if wanted(Part::Curator) {
        curator::compare(&Ground::new(&host, curator::SERVER)?, report_to, pairs, arguments.megabytes / 3)?;
    }
    if wanted(Part::Snapshots) {
        growth::snapshots(&Ground::new(&host, &key)?, report_to, &arguments.snapshots)?;
    }
    if wanted(Part::Indices) {
        growth::indices(&Ground::new(&host, &key)?, report_to, &arguments.indices)?;
    }
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        report.write_json(path)?;
    }
    if let Some(path) = &arguments.page {
        report.write_page(path)?;
    }
    Ok(report.missed())
}
