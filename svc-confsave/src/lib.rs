//! The service's configuration: saved before its installation is replaced, compared with the new one, put
//! back, or its customisations carried over (procedure, sections 2.5 and 9.3, steps 3 and 6).
//!
//! Each step is a file that reads from top to bottom: `save`, `restore`, `diff`, `carry`. A configuration of either layout is read as
//! a [`text`] (`yaml` and `lines` read and edit one format each), flattened to leaves by key path ([`tree`]), merged as such
//! ([`merge`]), and written onto the new file's own text, so that everything that no change touches keeps its bytes. These are pure
//! functions, and their laws are held by `tests/laws`. `layout` finds the configuration, `saved` the saved copy, `content` reads and
//! replaces files; `redact` keeps secrets out of what is shown.

mod carry;
mod content;
mod diff;
mod layout;
mod lines;
pub mod merge;
mod redact;
mod restore;
mod save;
mod saved;
pub mod text;
pub mod tree;
mod yaml;

use clap::{Parser, Subcommand};
use svc_step::call::{Call, Finished};
use svc_step::common::Common;
use svc_step::schema::Schemas;
use svc_step::tool::Tool;

use carry::{Carried, CarryArgs};
use diff::{Diff, DiffArgs};
pub use layout::Layout;
use restore::{RestoreArgs, Restored};
use save::SaveArgs;
use saved::Saved;

/// The service's configuration: save it, compare a new one with the saved copy, put it back, carry customisations over
#[derive(Debug, Parser)]
#[command(
    name = "svc-confsave",
    version,
    after_long_help = "Example: keep the configuration over a reinstallation of the same version
  svc-confsave save > saved.json
  ./svc-1.15.5.run
  svc-confsave diff --from saved.json
  svc-confsave restore --from saved.json"
)]
pub struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Save the configuration file, private to the caller and never over a copy of other content
    Save(SaveArgs),
    /// Compare the configuration with the saved copy, by key
    Diff(DiffArgs),
    /// Put the saved copy back in the place of the configuration, byte for byte
    Restore(RestoreArgs),
    /// Carry the saved copy's customisations over onto the configuration
    Carry(CarryArgs),
}

impl Tool for Cli {
    const NAME: &'static str = "svc-confsave";

    fn common(&self) -> &Common {
        &self.common
    }

    fn schemas() -> Schemas {
        Schemas::of(Self::NAME).step::<Saved>("save").step::<Diff>("diff").step::<Restored>("restore").step::<Carried>("carry")
    }

    fn run(self, call: &Call) -> Finished {
        match self.step {
            Step::Save(args) => call.step("save", args.dry.dry_run, |call| save::run(&args, call)),
            Step::Diff(args) => call.step("diff", false, |call| diff::run(&args, call)),
            Step::Restore(args) => call.step("restore", args.dry.dry_run, |call| restore::run(&args, call)),
            Step::Carry(args) => call.step("carry", args.dry.dry_run, |call| carry::run(&args, call)),
        }
    }
}

/// The definition of the command line, for tests that go through its steps.
#[must_use]
pub fn cli() -> clap::Command {
    svc_step::tool::command::<Cli>()
}
