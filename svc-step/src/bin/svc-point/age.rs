//! `age`: how old the newest valid restore point is, for monitoring.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use svc_step::call::{Call, Finished};
use svc_step::retention::duration;
use svc_step::{Failure, Stopped};

use crate::choose::older;
use crate::point::{self, BackupDir, Point, State};

/// Arguments of `svc-point age`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: an alarm where no restore point was made last night
  svc-point age --max-age 26h --table

Exit status 7: there is no valid restore point that is so young.")]
pub struct AgeArgs {
    /// How old it may be (26h, 2d)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_age: Duration,
    /// Print one sentence in place of the document
    #[arg(long)]
    table: bool,
    #[command(flatten)]
    dir: BackupDir,
}

/// The newest valid restore point.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Age {
    /// The restore point; `null` if there is none.
    pub point: Option<Point>,
    /// How old it is.
    pub age_ms: Option<u64>,
}

pub(crate) fn print(args: &AgeArgs, call: &Call) -> Finished {
    let mut text = String::new();
    let mut finished = call.step("age", false, |call| {
        let points = point::survey(call, &args.dir.dir(), false)?;
        let newest = points.into_iter().rfind(|point| point.state == State::Valid);
        let age = newest.as_ref().map(|point| older(point.made));
        let sentence = match newest.as_ref().zip(age) {
            None => format!("There is no valid restore point in {}.", args.dir.dir().display()),
            Some((point, age)) => {
                let minutes = age.as_secs() / 60;
                format!("The newest valid restore point, {}, is {} h {} min old.", point.id, minutes / 60, minutes % 60)
            }
        };
        text = format!("{sentence}\n");
        let result = Age { point: newest, age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)) };
        if age.is_some_and(|age| age <= args.max_age) {
            return Ok(result);
        }
        let hint = "To see how the last night went:\n  svc-nightly --status";
        Err(Stopped::with(Failure::invalid("point_too_old", sentence).hint(hint), result))
    });
    finished.text = args.table.then_some(text);
    finished
}
