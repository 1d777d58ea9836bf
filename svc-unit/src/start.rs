//! `start`: the unit is at work, stable and ready (procedure, 9.3 step 7).

use svc_step::common::DryRun;
use svc_step::from::{Accept, FromArg, Received};
use svc_step::{Call, Failure, StepResult};

use crate::bring_up::{finish, startable};
use crate::dependents;
use crate::manager;
use crate::moment::Moment;
use crate::name::{Unit, UnitArgs};
use crate::ready::ReadyArgs;
use crate::report::{Report, Skipped};
use crate::request;
use crate::settle::SettleArgs;

/// Arguments of `svc-unit start`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-unit start svc.service --settle 10s --ready-url http://127.0.0.1:8080/ready")]
pub struct StartArgs {
    #[command(flatten)]
    unit: UnitArgs,
    #[command(flatten)]
    from: FromArg,
    /// Start only what ran along with the unit when the --from document was made, and is down now
    #[arg(long, requires = "from")]
    dependents: bool,
    #[command(flatten)]
    settle: SettleArgs,
    #[command(flatten)]
    ready: ReadyArgs,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

pub(crate) fn run(args: &StartArgs, call: &Call) -> StepResult<Report> {
    let Wanted { unit, is_wanted, dependents } = wanted(args, call)?;
    let began = Moment::now();
    let mut report = Report::new(&unit, manager::state(call, &unit)?);
    if args.dependents {
        return start_dependents(args, call, report, &dependents);
    }
    if !is_wanted {
        return Ok(report.skip(Skipped::WasNotRunning));
    }
    if let Err(failure) = startable(&unit, &report.before) {
        return Err(report.stop(failure));
    }
    // One that is on its way already needs no second request, only patience.
    let before = &report.before;
    if before.is_active() || before.is_starting() {
        report = report.skip(Skipped::AlreadySo);
    } else {
        request::plan(&mut report, "start");
    }
    let down = dependents::down(call, unit.manager, &dependents)?;
    dependents::plan(&mut report, &down);
    if args.dry.dry_run {
        return Ok(report);
    }
    let mut report = finish(call, report, began, "start", &args.settle, &args.ready)?;
    match dependents::start(call, &mut report, down) {
        Ok(()) => Ok(report),
        Err(failure) => Err(report.stop(failure)),
    }
}

/// Only those: the unit itself was started by others, and has settled.
fn start_dependents(args: &StartArgs, call: &Call, mut report: Report, dependents: &[String]) -> StepResult<Report> {
    let down = dependents::down(call, report.manager, dependents)?;
    if down.is_empty() {
        return Ok(report.skip(Skipped::AlreadySo));
    }
    // The start of what requires it would start it too.
    if !report.before.is_active() && !report.before.has_done_its_work() {
        let (unit, state) = (report.unit(), report.before.phrase());
        let failure = Failure::refused(
            "service_inactive",
            format!("The unit {} is {state}, so what ran along with it is not started.", unit.name),
        );
        return Err(report.stop(failure.hint(format!("svc-unit start {unit}"))));
    }
    dependents::plan(&mut report, &down);
    if args.dry.dry_run {
        return Ok(report);
    }
    match dependents::start(call, &mut report, down) {
        Ok(()) => Ok(report),
        Err(failure) => Err(report.stop(failure)),
    }
}

/// What is to be started.
struct Wanted {
    unit: Unit,
    /// With a document: it was running then.
    is_wanted: bool,
    /// What had been stopped along with it.
    dependents: Vec<String>,
}

fn wanted(args: &StartArgs, call: &Call) -> Result<Wanted, Failure> {
    let Some(from) = &args.from.from else {
        return Ok(Wanted { unit: args.unit.unit(), is_wanted: true, dependents: Vec::new() });
    };
    let then = Received::read(call, from, &["svc-unit.status/1", "svc-unit.stop/1"], Accept::Good)?.result::<Report>()?;
    let unit = then.unit();
    match args.unit.named().filter(|named| *named != unit) {
        None => Ok(Wanted { unit, is_wanted: then.before.was_running(), dependents: then.dependents }),
        Some(named) => Err(Failure::usage("from_other_unit", format!("The --from document is of {unit}, and {named} is named."))
            .hint("Leave the name out: the document says which unit is meant.")),
    }
}
