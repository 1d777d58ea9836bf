//! stub
use std::path::Path;
use std::process::ExitCode;
use svc_step::journal::{self, Journal, Plan};

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[arg(long)]
    script: Option<String>,
    run: Option<String>,
}
pub fn run(_args: &StatusArgs) -> ExitCode {
    ExitCode::SUCCESS
}
pub fn rolled_back_by(state_dir: &Path, upgrade: &Journal) -> Option<Journal> {
    journal::runs(state_dir).into_iter().find(|run| {
        run.plan().script == "svc-rollback"
            && run.notes().commit.is_some()
            && run
                .notes()
                .facts
                .get("restore_point")
                .and_then(|point| point.as_str())
                .is_some_and(|point| point.ends_with(upgrade.id()))
    })
}
pub fn command_line(plan: &Plan) -> String {
    super::run::quoted(&super::resume::words(plan))
}
