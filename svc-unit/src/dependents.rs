//! What stops along with a unit: the units that require it, are bound to it or are part of it, and those that do so of them.
//! systemd stops them with it, and does not start them again with it.

use std::collections::BTreeSet;

use svc_step::{Call, Failure, Status};

use crate::report::Report;
use crate::request::{Goal, interrupted, request};
use crate::systemctl::show;
use crate::unit::Unit;

/// The relations over which systemd passes a stop on (systemd.unit(5), "Requires=" and the following).
const STOPPED_WITH: &str = "RequiredBy,RequisiteOf,BoundBy,ConsistsOf,PropagatesStopTo";

/// The running units that systemd stops along with `unit`, by their names. Not the targets among them: they run nothing, and to
/// start one starts all that it wants, also what somebody had stopped.
pub(crate) fn running(call: &Call, unit: &Unit) -> Result<Vec<String>, Failure> {
    let mut known = BTreeSet::from([unit.name.clone()]);
    let mut running = Vec::new();
    let mut asked = vec![unit.name.clone()];
    while !asked.is_empty() {
        let mut found = BTreeSet::new();
        for shown in show(call, "status", unit.manager, &asked, STOPPED_WITH)? {
            if shown.name != unit.name && !shown.name.ends_with(".target") && shown.state.is_running() {
                running.push(shown.name);
            }
            found.extend(shown.related);
        }
        asked = found.difference(&known).cloned().collect();
        known.extend(found);
    }
    running.sort();
    Ok(running)
}

/// After the stop: keeps, of those that were running, the ones that are down, and names them in a warning.
pub(crate) fn stopped(call: &Call, report: &mut Report) -> Result<(), Failure> {
    report.dependents = down(call, &report.unit, &report.dependents)?.into_iter().map(|unit| unit.name).collect();
    if !report.dependents.is_empty() {
        let (name, names) = (&report.unit.name, report.dependents.join(", "));
        let message = format!("Stopped along with {name}: {names}. A start --from this document starts them again.");
        call.warn("dependents_stopped", message);
    }
    Ok(())
}

/// Of these dependents of a unit, those that do not run.
pub(crate) fn down(call: &Call, unit: &Unit, dependents: &[String]) -> Result<Vec<Unit>, Failure> {
    let shown = show(call, "status", unit.manager, dependents, "")?.into_iter().filter(|shown| !shown.state.is_running());
    Ok(shown.map(|shown| Unit { name: shown.name, manager: unit.manager }).collect())
}

/// Starts them after the unit itself; one that does not start is left out of the report, and a person must look: the unit itself
/// runs all the same.
pub(crate) fn start(call: &Call, report: &mut Report, down: Vec<Unit>) -> Result<(), Failure> {
    for unit in down {
        let mut own = Report::new(call, "start", unit)?;
        let why = match request(call, &mut own, "start") {
            Ok(answer) if own.after.is_running() || (answer.status.success() && own.after.has_done_its_work()) => {
                report.dependents.push(own.unit.name);
                continue;
            }
            Ok(_) => format!("It is {}.", own.after.phrase()),
            // A refusal would say that nothing was changed, and the unit itself has been started.
            Err(failure) if failure.status == Status::Refused => failure.message,
            Err(failure) => return Err(interrupted(failure, &own, Goal::Active)),
        };
        let message = format!("{}, which stopped along with {}, did not start again: {why}", own.unit.name, report.unit.name);
        call.review("dependents_stopped", message);
    }
    Ok(())
}
