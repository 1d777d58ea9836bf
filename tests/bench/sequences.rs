//! `svc-upgrade` and `svc-rollback` beside the procedure's own commands (9.2, 9.3), with the sample service, in a throw-away host.
//!
//! The installer's and the uninstaller's own time, and the unit's, are taken out on both sides: they are nobody's merit.

mod ground;
mod journal;
mod literal;
mod ours;
mod rounds;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::ground::Ground;
use self::rounds::Rounds;
use crate::OnSearch;
use crate::report::Report;

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many rounds; in each, everything is measured once
    #[arg(long, default_value_t = 3, value_parser = crate::at_least_one)]
    pairs: usize,
    /// How many MB of documents the search database has
    #[arg(long, default_value_t = 1000)]
    documents: usize,
    /// How many MB the relational database has
    #[arg(long, default_value_t = 500)]
    rows: usize,
    /// What to measure; all of it without
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    #[command(flatten)]
    on: OnSearch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The upgrade into an empty repository, and the rollback, beside the procedure's commands
    Empty,
    /// The upgrade and the quiesced backup where last night's snapshot is there, beside the longer of dump and snapshot alone
    Changed,
    /// Upgrade and rollback with standing copies, beside the procedure's commands, and at a quarter of the size
    Cloned,
}

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let ground = Ground::new(arguments.on.search.as_deref())?;
    let sizes = format!("{} MB of documents and {} MB of rows", arguments.documents, arguments.rows);
    let mut report = Report::of(format!("{}; {sizes}", ground.described()?), &arguments.on.places);
    let mut rounds = Rounds::new(&ground, arguments.pairs);
    let measured = measure(arguments, &ground, &mut rounds);
    rounds.report(&mut report);
    report.close(measured, &arguments.on.places)
}

fn measure(arguments: &Arguments, ground: &Ground, rounds: &mut Rounds) -> Result<()> {
    let wanted = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    let Arguments { documents, rows, .. } = *arguments;
    ground.fill(documents / 4, rows / 4)?;
    // Nobody's first call is measured: the search database's compiler warms up.
    rounds.warm_up()?;
    if wanted(Part::Cloned) {
        rounds.clone_when_small()?;
    }
    ground.fill(documents, rows)?;
    if wanted(Part::Empty) || wanted(Part::Cloned) {
        rounds.beside_the_procedure(wanted(Part::Empty), wanted(Part::Cloned))?;
    }
    if wanted(Part::Changed) {
        rounds.changed(documents)?;
    }
    Ok(())
}
