//! `age`: how old the newest valid restore point is, or that of the last off-site copy, for monitoring.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::retention::duration;
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::last::{self, OffsiteCopy};
use crate::point::{self, BackupDir, Point, State};

/// Arguments of `svc-point age`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: an alarm if no restore point was made last night, or none was copied off-site
  svc-point age --max-age 26h --table
  svc-point age --offsite --max-age 26h --table

Exit status 7: there is no valid restore point, or no copy, that is young enough.")]
pub struct AgeArgs {
    /// How old it may be (26h, 2d)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_age: Duration,
    /// The restore point of the last off-site copy (svc-offsite push) in place of the newest one
    #[arg(long)]
    offsite: bool,
    #[command(flatten)]
    dir: BackupDir,
}

/// The newest valid restore point, or the last off-site copy.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Age {
    /// The restore point; `null` if there is none, and with --offsite.
    pub point: Option<Point>,
    /// The last off-site copy; `null` if there is none, and without --offsite.
    pub offsite: Option<OffsiteCopy>,
    /// How old the restore point is; `null` if it is dated in the future.
    pub age_ms: Option<u64>,
    /// The same as a sentence.
    pub summary: String,
}

pub(crate) fn run(args: &AgeArgs, call: &Call) -> StepResult<Age> {
    if args.offsite { of_offsite_copy(args, call) } else { of_point(args, call) }
}

fn of_point(args: &AgeArgs, call: &Call) -> StepResult<Age> {
    let points = point::survey(call, &args.dir, false)?;
    let newest = points.into_iter().rfind(|point| point.state == State::Valid);
    let age = newest.as_ref().and_then(|point| point::age(point.made));
    let summary = match &newest {
        None => format!("There is no valid restore point in {}.", args.dir.dir().display()),
        Some(point) => format!("The newest valid restore point, {}, is {}.", point.id, hours(age)),
    };
    let hint = "To see how the last night went:\n  svc-nightly --status";
    checked(args, age, hint, Age { point: newest, summary, ..Age::default() })
}

fn of_offsite_copy(args: &AgeArgs, call: &Call) -> StepResult<Age> {
    let copy = last::offsite_copy(call.state_dir())?;
    let age = copy.as_ref().and_then(|copy| point::age(copy.made_at));
    let summary = match &copy {
        None => format!("No off-site copy is recorded in {}.", call.state_dir().display()),
        Some(copy) => format!("The restore point of the last off-site copy, {}, is {}.", copy.point_id, hours(age)),
    };
    checked(args, age, "To make one:\n  svc-offsite push", Age { offsite: copy, summary, ..Age::default() })
}

fn checked(args: &AgeArgs, age: Option<Duration>, hint: &str, mut result: Age) -> StepResult<Age> {
    result.age_ms = age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    if age.is_some_and(|age| age <= args.max_age) {
        return Ok(result);
    }
    Err(Stopped::with(Failure::invalid("point_too_old", result.summary.clone()).hint(hint), result))
}

fn hours(age: Option<Duration>) -> String {
    let Some(age) = age else { return "dated in the future: the clock of this host is wrong, or was".to_owned() };
    let minutes = age.as_secs() / 60;
    format!("{} h {} min old", minutes / 60, minutes % 60)
}
