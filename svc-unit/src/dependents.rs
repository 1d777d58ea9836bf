//! What stops along with a unit: the units that require it, are bound to it or are part of it, and those that do so of them.
//! systemd stops them with it, and does not start them again with it.

use std::collections::{BTreeMap, BTreeSet};

use svc_step::action::Action;
use svc_step::{Call, Failure, Status};

use crate::manager;
use crate::name::{Manager, Unit};
use crate::report::Report;
use crate::request;

/// The relations over which systemd passes a stop on (systemd.unit(5), "Requires=" and what follows).
const RELATIONS: [&str; 5] = ["RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"];

/// The running units that systemd stops along with `unit`, by their names. Not the targets among them: they run nothing, and to
/// start one starts all that it wants, also what somebody had stopped.
///
/// # Errors
/// As [`manager::state`].
pub(crate) fn running(call: &Call, unit: &Unit) -> Result<Vec<String>, Failure> {
    let mut known = BTreeSet::from([unit.name.clone()]);
    let mut running = Vec::new();
    let mut asked = vec![unit.name.clone()];
    while !asked.is_empty() {
        let mut found = BTreeSet::new();
        for (name, shown) in show(call, unit.manager, &asked)? {
            if name != unit.name && !name.ends_with(".target") && is_running(&shown) {
                running.push(name);
            }
            let named = RELATIONS.iter().filter_map(|relation| shown.get(*relation));
            found.extend(named.flat_map(|names| names.split_whitespace()).map(str::to_owned));
        }
        asked = found.difference(&known).cloned().collect();
        known.extend(found);
    }
    running.sort();
    Ok(running)
}

/// After the stop: keeps, of those that were running, the ones that are down, and names them in a warning.
pub(crate) fn stopped(call: &Call, report: &mut Report) -> Result<(), Failure> {
    report.dependents = down(call, report.manager, &report.dependents)?;
    if !report.dependents.is_empty() {
        let names = report.dependents.join(", ");
        call.warn(
            "dependents_stopped",
            format!("Stopped along with {}: {names}. A start --from this document starts them again.", report.unit),
        );
    }
    Ok(())
}

/// Of these units, those that do not run.
pub(crate) fn down(call: &Call, manager: Manager, units: &[String]) -> Result<Vec<String>, Failure> {
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let shown = show(call, manager, units)?;
    Ok(shown.into_iter().filter(|(_, shown)| !is_running(shown)).map(|(name, _)| name).collect())
}

/// Notes that they are going to be started.
pub(crate) fn plan(report: &mut Report, down: &[String]) {
    let of_manager = |name: &String| Unit { name: name.clone(), manager: report.manager };
    let start = |unit: Unit| Action::command(manager::command_line(&unit, "start"));
    let starts: Vec<Action> = down.iter().map(of_manager).map(start).collect();
    report.plan.extend(starts);
}

/// Starts them, the unit itself being up; the ones that do not start are left out of the report, and a person must look: the unit
/// does its work all the same.
pub(crate) fn start(call: &Call, report: &mut Report, down: Vec<String>) -> Result<(), Failure> {
    for name in down {
        let unit = Unit { name, manager: report.manager };
        let mut own = Report::new(&unit, manager::state(call, &unit)?);
        let complaint = match request::send(call, &mut own, "start") {
            Ok(complaint) => complaint,
            // A refusal would say that nothing was changed, and the unit itself has been started.
            Err(failure) if failure.status == Status::Refused => {
                call.review(
                    "dependent_not_started",
                    format!(
                        "{}, which had been stopped along with {}, was not started again: {}",
                        unit.name, report.unit, failure.message
                    ),
                );
                continue;
            }
            Err(failure) => return Err(request::cut_off(failure, &own, "starting", "")),
        };
        let has_run = own.after.is_oneshot() && own.after.result == "success" && !complaint.refused;
        if own.after.was_running() || has_run {
            report.dependents.push(unit.name);
        } else {
            let (name, end) = (&unit.name, own.after.phrase());
            call.review(
                "dependent_not_started",
                format!("{name}, which had been stopped along with {}, did not start again: it is {end}.", report.unit),
            );
        }
    }
    Ok(())
}

type Shown = BTreeMap<String, String>;

fn show(call: &Call, manager: Manager, units: &[String]) -> Result<Vec<(String, Shown)>, Failure> {
    let properties = format!("ActiveState,{}", RELATIONS.join(","));
    let blocks = manager::show(call, manager, &properties, units)?;
    let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    let shown = blocks.iter().map(|block| block.lines().filter_map(pair).collect());
    Ok(units.iter().cloned().zip(shown).collect())
}

fn is_running(shown: &Shown) -> bool {
    shown.get("ActiveState").is_some_and(|state| matches!(state.as_str(), "active" | "reloading" | "refreshing" | "activating"))
}
