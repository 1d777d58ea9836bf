//! `systemctl`: asked for properties, and asked to act. What decides are properties and its exit status; its text is for people
//! alone. Its success says little (it is 0 for a unit that had to be killed and for one that dies at once), its failure is
//! that of systemd's job or of the request.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use svc_step::action::Action;
use svc_step::child::{self, Captured};
use svc_step::{Call, Failure, Status};

use crate::state::State;
use crate::unit::{Manager, Unit};

/// The properties that are a unit's state.
const STATE: &str = "LoadState,LoadError,ActiveState,SubState,Result,Type,MainPID,ExecMainCode,ExecMainStatus,\
NRestarts,UnitFileState,InvocationID,NeedDaemonReload,Job,ControlGroup,ActiveEnterTimestamp,ActiveEnterTimestampMonotonic,\
InactiveEnterTimestamp,InactiveEnterTimestampMonotonic";
/// systemctl's exit status if the request was not permitted, as that of an init script (LSB).
pub(crate) const NOT_PERMITTED: i32 = 4;

pub(crate) fn arguments<'a>(manager: Manager, verb: &[&'a str], units: &'a [String]) -> Vec<&'a str> {
    let user = (manager == Manager::User).then_some("--user").into_iter();
    let options = user.chain(["--no-pager", "--no-ask-password"]).chain(verb.iter().copied());
    options.chain(["--"]).chain(units.iter().map(String::as_str)).collect()
}

/// The command that is going to act.
pub(crate) fn plan(unit: &Unit, verb: &str) -> Action {
    Action::command(["systemctl"].into_iter().chain(arguments(unit.manager, &[verb], std::slice::from_ref(&unit.name))))
}

/// Runs a program of systemd, with times in UTC and text in English, whatever the caller's language is.
pub(crate) fn capture<'a>(call: &Call, program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Result<Captured, Failure> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env("TZ", "UTC").env("SYSTEMD_COLORS", "0");
    child::capture(call, &mut command).map_err(|failure| match failure.code.as_str() {
        "file_not_found" => {
            Failure::new(Status::Unavailable, "manager_unreachable", format!("The program {program} is not on the PATH."))
                .hint("Run this on a host with systemd, with systemctl's directory on PATH.")
                .retryable(false)
        }
        _ => failure,
    })
}

/// One unit of [`show`], and the units that the relations asked for name.
pub(crate) struct Shown {
    pub(crate) unit: Unit,
    pub(crate) state: State,
    pub(crate) related: Vec<String>,
}

pub(crate) fn state(call: &Call, step: &str, unit: &Unit) -> Result<State, Failure> {
    let shown = show(call, step, unit.manager, std::slice::from_ref(&unit.name), "")?.pop();
    shown.map(|shown| shown.state).ok_or_else(|| no_answer(unit.manager, step, &unit.name, ""))
}

/// The units in their order. The manager must answer for each of them (5), and is not another user's (3).
pub(crate) fn show(call: &Call, step: &str, manager: Manager, units: &[String], relations: &str) -> Result<Vec<Shown>, Failure> {
    let Some(first) = units.first() else { return Ok(Vec::new()) };
    let properties = format!("{STATE},{relations}");
    let ended = capture(call, "systemctl", arguments(manager, &["show", "--property", &properties], units))?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let blocks = text.split("\n\n").map(|block| block.lines().filter_map(|line| line.split_once('=')).collect());
    let shown: Vec<BTreeMap<&str, &str>> = blocks.collect();
    if shown.len() != units.len() || shown.iter().any(|one| !one.contains_key("ActiveState")) {
        return Err(no_answer(manager, step, first, ended.stderr.trim()));
    }
    // A name with a backslash is quoted as for a shell; before systemd 247 the backslash was escaped.
    let plain = |name: &str| match name.strip_prefix('"') {
        Some(quoted) => quoted.trim_end_matches('"').replace(r"\\", r"\"),
        None => name.replace(r"\x5c", r"\"),
    };
    let of = |(name, properties): (&String, &BTreeMap<&str, &str>)| {
        let named = relations.split(',').filter_map(|relation| properties.get(relation));
        let related = named.flat_map(|names| names.split_whitespace()).map(plain).collect();
        Shown { unit: Unit { name: name.clone(), manager }, state: State::from(properties), related }
    };
    Ok(units.iter().zip(&shown).map(of).collect())
}

/// Whether the manager is another user's, who alone may act (unless polkit lets others).
pub(crate) fn is_of_another_user(manager: Manager) -> bool {
    let owner = match manager {
        Manager::System => Some(0),
        Manager::User => std::env::var_os("XDG_RUNTIME_DIR").and_then(|folder| Some(std::fs::metadata(folder).ok()?.uid())),
    };
    owner.is_some_and(|owner| owner != nix::unistd::geteuid().as_raw())
}

pub(crate) fn no_rights(manager: Manager, step: &str, unit: &str, stderr: &str) -> Failure {
    let how = if manager == Manager::System { "with sudo" } else { "as the user who owns that manager" };
    let hint = format!("Run the same command {how}.");
    Failure::refused("permission_denied", format!("The caller has no right to svc-unit {step} {unit}.")).hint(hint).cause(stderr)
}

fn no_answer(manager: Manager, step: &str, unit: &str, stderr: &str) -> Failure {
    // A user manager hangs up on other users, and without a bus the system manager on all but root.
    let is_booted = manager == Manager::User || Path::new("/run/systemd/system").exists();
    if is_booted && is_of_another_user(manager) {
        return no_rights(manager, step, unit, stderr);
    }
    let failure = match manager {
        Manager::System => Failure::unavailable("manager_unreachable", "No system manager of systemd answers on this host.")
            .hint("Run this on a host that was booted with systemd; for a unit of a user manager, pass --user."),
        Manager::User => Failure::unavailable("manager_unreachable", "The calling user's manager of systemd does not answer.")
            .hint("Set XDG_RUNTIME_DIR to that user's own (/run/user/UID); loginctl enable-linger USER starts the manager."),
    };
    failure.cause(if stderr.is_empty() { "systemctl show printed nothing" } else { stderr })
}
