//! What stops along with a unit: the units that require it, are bound to it or are part of it, and those that do so of them.
//! systemd stops them with it, and does not start them again with it.

use std::collections::BTreeSet;

use svc_step::{Call, Failure};

use crate::report::Report;
use crate::request::{Goal, interrupted, request};
use crate::systemctl::{Shown, show};
use crate::unit::Unit;

/// The relations over which systemd passes a stop on (systemd.unit(5), "Requires=" and the following).
const STOPPED_WITH: &str = "RequiredBy,RequisiteOf,BoundBy,ConsistsOf,PropagatesStopTo";

/// What is not down: the unit itself, and behind it what systemd stops along with it. Not the targets: they run nothing, and to
/// start one starts all that it wants, also what somebody had stopped. With the names of what runs and stops along with it.
pub(crate) fn up(call: &Call, Report { unit, before, .. }: &Report) -> Result<(Vec<Shown>, Vec<String>), Failure> {
    let mut known = BTreeSet::from([unit.name.clone()]);
    let mut up = Vec::new();
    let mut asked = vec![unit.name.clone()];
    while !asked.is_empty() {
        let mut found = BTreeSet::new();
        for mut shown in show(call, "status", unit.manager, &asked, STOPPED_WITH)? {
            found.extend(shown.related.iter().cloned());
            if shown.unit == *unit {
                // systemd 249 forgets the group of an inactive unit, also if processes are left in it.
                shown.state.control_group = shown.state.control_group.or_else(|| before.control_group.clone());
            } else if shown.unit.name.ends_with(".target") {
                continue;
            }
            if !shown.state.is_inactive() || !shown.state.left_processes().is_empty() {
                up.push(shown);
            }
        }
        asked = found.difference(&known).cloned().collect();
        known.extend(found);
    }
    let running = up.iter().filter(|shown| shown.unit != *unit && shown.state.is_running());
    let names = running.map(|shown| shown.unit.name.clone()).collect();
    Ok((up, names))
}

/// Starts them after the unit itself; one that does not start is left out of the report, and a person must look: the unit itself
/// runs all the same.
pub(crate) fn start(call: &Call, report: &mut Report, down: Vec<Unit>) -> Result<(), Failure> {
    for unit in down {
        let name = unit.name.clone();
        match started(call, unit) {
            Ok(()) => report.dependents.push(name),
            Err(failure) if failure.signal.is_some() => return Err(failure),
            Err(Failure { message: why, .. }) => {
                let message = format!("{name}, which stopped along with {}, did not start again: {why}", report.unit.name);
                call.review("dependents_stopped", message);
            }
        }
    }
    Ok(())
}

fn started(call: &Call, unit: Unit) -> Result<(), Failure> {
    let mut own = Report::new(call, "start", unit)?;
    let answer = request(call, &mut own, "start").map_err(|failure| interrupted(failure, &own, Goal::Active))?;
    let is_up = answer.status.success() && (own.after.stays_up() || own.after.has_done_its_work());
    if is_up { Ok(()) } else { Err(Failure::failed("unit_failed", format!("It is {}.", own.after.phrase()))) }
}
