//! svc-snap beside `curl`, on a server of the benchmark's own in a throw-away host.

mod big;
mod curator;
mod gap;
mod ground;
mod growth;
mod small;

use anyhow::Result;
use clap::{Args, ValueEnum};
use svc_tests::host::Host;

use self::big::Rate;
use self::ground::Ground;
use crate::OnSearch;
use crate::report::Report;

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many pairs of each
    #[arg(long, default_value_t = 10, value_parser = crate::at_least_one)]
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
    #[command(flatten)]
    on: OnSearch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// create and restore without the servers' throttle, beside curl and a copy
    Unlimited,
    /// create and restore at the server's own rate, beside curl
    Equal,
    /// A call that changes nothing
    List,
    /// Clients that search while a restore swaps
    Searches,
    /// Elasticsearch Curator
    Curator,
    /// Many snapshots listed and pruned
    Snapshots,
    /// Many indices staged and swapped
    Indices,
}

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let host = Host::shared()?;
    let key = arguments.on.search.clone().unwrap_or_else(|| host.search.key.clone());
    let ground = Ground::new(&host, &key)?;
    let mut report = Report::of(ground.described()?, &arguments.on.places);
    let measured = measure(arguments, &host, &key, ground, &mut report);
    report.close(measured, &arguments.on.places)
}

fn measure(arguments: &Arguments, host: &Host, key: &str, ground: Ground, report: &mut Report) -> Result<()> {
    let wanted = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    let pairs = arguments.pairs;
    if wanted(Part::List) {
        small::list(&ground, report, pairs)?;
    }
    if wanted(Part::Searches) {
        gap::searches(&ground, report)?;
    }
    if wanted(Part::Unlimited) || wanted(Part::Equal) {
        let indices = ground.fill(3, arguments.megabytes);
        for (part, rate) in [(Part::Unlimited, Rate::Unlimited), (Part::Equal, Rate::Equal)] {
            if wanted(part) {
                big::create(&ground, report, pairs, rate)?;
                big::restore(&ground, report, pairs, rate, &indices)?;
            }
        }
    }
    drop(ground);
    if wanted(Part::Curator) {
        curator::compare(&Ground::new(host, curator::SERVER)?, report, pairs, arguments.megabytes / 3)?;
    }
    if wanted(Part::Snapshots) {
        growth::snapshots(&Ground::new(host, key)?, report, &arguments.snapshots)?;
    }
    if wanted(Part::Indices) {
        growth::indices(&Ground::new(host, key)?, report, &arguments.indices)?;
    }
    Ok(())
}
