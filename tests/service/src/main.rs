//! `svc-sample`: a small program that stands in for the real product.
//!
//! It keeps items, each a row in the relational database and a document in the search database, and
//! goes on writing while it runs. Its installers call `plan` and `migrate`; its unit calls `serve`.

mod command;
mod conf;
mod content;
mod documents;
mod hold;
mod item;
mod judge;
mod migrate;
mod pgpass;
mod ready;
mod refusal;
mod releases;
mod rows;
mod search;
mod seed;
mod serve;
mod settings;
mod shapes;

use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::Parser;

/// Exit status: 0 done, 1 failed, 2 a wrong command line, 3 refused with nothing changed.
fn main() -> ExitCode {
    match command::run(command::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when stderr itself is gone.
            let _ = writeln!(stderr(), "svc-sample: {error:#}");
            refusal::status(&error)
        }
    }
}
