//! How `svc-run supervise` is called.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

/// When a run can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Resumable {
    /// What it did not finish is run again from the start
    #[default]
    Never,
    /// From its point of no return on
    Committed,
}

/// The run of a script.
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// What the run's ID says of it: upgrade-2.0.1
    #[arg(long)]
    pub kind: String,
    /// Whether the run can be resumed
    #[arg(long, value_enum, default_value_t)]
    pub resumable: Resumable,
    /// The values of this option of the script are written nowhere (installer-arg)
    #[arg(long, value_name = "OPTION")]
    pub private: Vec<String>,
    /// Resume that run, or the one that is to be resumed
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub resume: Option<String>,
    /// Run an external command again although it failed or its outcome is unknown
    #[arg(long, requires = "resume")]
    pub rerun_installer: bool,
    /// Stay on the terminal, which the installer may read from
    #[arg(long)]
    pub attached: bool,
    /// Make the checks, print the commands, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print each step
    #[arg(short, long)]
    pub verbose: bool,
    /// Print the document on a terminal too, where a summary is printed else
    #[arg(long)]
    pub json: bool,
    /// Print nothing on stdout: the document is in the run directory only
    #[arg(long)]
    pub silent: bool,
    /// The script and its arguments
    #[arg(last = true, required = true)]
    pub script: Vec<OsString>,
}
