//! The flags that every step of every tool takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::deadline;
use crate::run_id::RunId;

/// How progress is shown on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum ProgressMode {
    /// A bar on a terminal, nothing elsewhere.
    #[default]
    Auto,
    /// A line now and then.
    Plain,
    /// A JSON object per line.
    Json,
    /// Nothing.
    None,
}

/// Common options.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// `SVC_TIMEOUT`.
    #[arg(long, global = true, value_name = "DURATION", env = "SVC_TIMEOUT", value_parser = deadline::parse)]
    pub timeout: Option<Duration>,
    /// How progress is shown on stderr
    #[arg(long, global = true, value_name = "HOW", value_enum, default_value_t)]
    pub progress: ProgressMode,
    /// Print nothing on stderr, not even the error
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print on stderr what is being done
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Print the document over several lines, as on a terminal
    #[arg(long, global = true)]
    pub pretty: bool,
    /// Print human-readable tables instead of the document
    #[arg(long, global = true, conflicts_with = "pretty")]
    pub table: bool,
    /// The run that this call belongs to
    #[arg(long, global = true, value_name = "ID", env = "SVC_RUN_ID")]
    pub run_id: Option<RunId>,
    /// `SVC_STATE_DIR`.
    #[arg(long, global = true, value_name = "DIR", env = "SVC_STATE_DIR", default_value = "/var/lib/svc-tools")]
    pub state_dir: PathBuf,
}

/// For steps that change something.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct DryRun {
    /// Change nothing; print the plan
    #[arg(long)]
    pub dry_run: bool,
}
