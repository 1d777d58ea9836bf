//! `copies`: the off-site copies. `prune-copies`: those of nightly restore points go that `SVC_OFFSITE_KEEP` does not keep.

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::settings::ServiceArg;
use svc_step::{Call, Failure, StepResult, Stopped};

use super::{Copy, NOT_LISTED, more_time, of_kind, run as restic, snapshots};

/// Arguments of `svc-point copies`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-point copies --table
  svc-point copies --check | jq -r '.result.copies[] | [.point_id, .host] | @tsv'")]
pub struct CopiesArgs {
    /// Only those of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Run restic check too: whether all that the copies need is there
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    service: ServiceArg,
}

/// How the sentence begins of a check that found nothing out.
const NOT_CHECKED: &str = "The restic repository cannot be checked";

/// The verified off-site copies of a service.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Copies {
    /// Each of them, the oldest first.
    pub copies: Vec<Copy>,
}

pub(crate) fn run(args: &CopiesArgs, call: &Call) -> StepResult<Copies> {
    let found = snapshots(call, &args.service.name, args.host.as_deref(), NOT_LISTED)?;
    let copies = Copies { copies: found.iter().filter_map(super::Snapshot::copy).collect() };
    if args.check
        && let Err(failure) = restic(call, &["check"], NOT_CHECKED)
    {
        let is_damage = failure.causes.iter().any(|cause| cause.contains("repository contains errors"));
        let damaged = || {
            let message = failure.message.replace(NOT_CHECKED, "The restic repository is damaged");
            let damaged = Failure::invalid("repository_damaged", message);
            let hint = "What restic says of it, and what helps:\n  svc-offsite restic check\n  svc-offsite restic rebuild-index";
            damaged.hint(hint).cause(failure.causes.join("\n"))
        };
        return Err(Stopped::with(if is_damage { damaged() } else { failure.clone() }, copies));
    }
    Ok(copies)
}

/// Arguments of `svc-point prune-copies`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  svc-point prune-copies --keep '--keep-daily 14 --keep-weekly 8'

Only copies of nightly restore points of this host and of this service are removed. Any other one,
by `restic_snapshot` of svc-point copies:
  svc-offsite restic forget SNAPSHOT")]
pub struct PruneCopiesArgs {
    /// `SVC_OFFSITE_KEEP`
    #[arg(long, value_name = "OPTIONS", env = "SVC_OFFSITE_KEEP", allow_hyphen_values = true)]
    keep: String,
    #[command(flatten)]
    service: ServiceArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// The copies that stay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PrunedCopies {
    /// Those that are left, the oldest first.
    pub copies: Vec<Copy>,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

pub(crate) fn prune(args: &PruneCopiesArgs, call: &Call) -> StepResult<PrunedCopies> {
    let host = svc_step::document::host();
    let nightly = format!("{},{}", args.service.name, of_kind("nightly"));
    let mut forget = vec!["forget", "--quiet", "--tag", &nightly, "--host", &host, "--group-by", "host"];
    forget.extend(args.keep.split_whitespace());
    forget.push("--prune");
    let plan = vec![Action::command(["restic"].into_iter().chain(forget.iter().copied()))];
    if !args.dry.dry_run {
        let attempt = call.effects().attempt();
        restic(call, &forget, "The copies cannot be pruned").map_err(more_time)?;
        attempt.happened();
    }
    let left = snapshots(call, &args.service.name, Some(&host), NOT_LISTED);
    let copies = left.iter().flatten().filter_map(super::Snapshot::copy).collect();
    Stopped::ended(left.map(drop), PrunedCopies { copies, plan })
}
