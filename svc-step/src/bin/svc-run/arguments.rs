//! How `svc-run supervise` is called.

use std::ffi::OsString;

use clap::Args;

/// The run of a script.
#[derive(Debug, Args)]
pub struct SuperviseArgs {
    /// The kind of the run, which its ID has: upgrade-2.0.1
    #[arg(long)]
    pub kind: String,
    /// The run can be resumed from its point of no return on; otherwise an unfinished run starts over
    #[arg(long)]
    pub resumable: bool,
    /// The values of this option of the script are written nowhere (installer-arg)
    #[arg(long, value_name = "OPTION")]
    pub private: Vec<String>,
    /// Resume that run; without RUN the newest unfinished one
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub resume: Option<String>,
    /// Run an external command again even if it failed or its outcome is unknown
    #[arg(long)]
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
    /// On a terminal, print the document instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Print nothing on stdout: the document is in the run directory only
    #[arg(long)]
    pub silent: bool,
    /// The script and its arguments
    #[arg(last = true, required = true)]
    pub script: Vec<OsString>,
}
