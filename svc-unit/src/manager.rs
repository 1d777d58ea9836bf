//! `systemctl`: asked for properties, and asked to act. Its exit status is no evidence (craft: a unit that had to be killed
//! and one that dies at once are both 0), so what it says on stderr is only used to explain.

use std::process::Command;

use svc_step::child::{self, Captured};
use svc_step::{Call, Failure, Status};

use crate::name::{Manager, Unit};
use crate::state::{PROPERTIES, State};

/// `systemctl` with what goes before every verb.
fn arguments<'a>(manager: Manager, verb: &[&'a str], units: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let user = (manager == Manager::User).then_some("--user");
    let fixed = ["systemctl"].into_iter().chain(user).chain(["--no-pager", "--no-ask-password"]);
    fixed.chain(verb.iter().copied()).chain(["--"]).chain(units).map(str::to_owned).collect()
}

/// The command that acts, as an operator would type it.
pub(crate) fn command_line(unit: &Unit, verb: &str) -> Vec<String> {
    arguments(unit.manager, &[verb], [unit.name.as_str()])
}

/// Runs a program of the init system; its words are English and its times UTC, whatever the caller's language is.
pub(crate) fn capture(call: &Call, argv: &[String]) -> Result<Captured, Failure> {
    let (program, arguments) = argv.split_first().map_or(("systemctl", argv), |(program, rest)| (program.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env("TZ", "UTC").env("SYSTEMD_COLORS", "0");
    child::capture(call, &mut command)
}

/// The unit's state.
///
/// # Errors
/// There is no systemctl or no manager (5), the manager is another user's (3), a signal, or the end of the time limit.
pub(crate) fn state(call: &Call, unit: &Unit) -> Result<State, Failure> {
    let argv = arguments(unit.manager, &["show", "--property", PROPERTIES], [unit.name.as_str()]);
    let ended = capture(call, &argv).map_err(without_systemctl)?;
    State::parse(&String::from_utf8_lossy(&ended.stdout)).ok_or_else(|| no_answer(unit, ended.stderr.trim()))
}

/// What `systemctl show` prints of several units, a block of each.
///
/// # Errors
/// As [`state`]; also where it did not speak of each of them.
pub(crate) fn show(call: &Call, manager: Manager, properties: &str, units: &[String]) -> Result<Vec<String>, Failure> {
    let argv = arguments(manager, &["show", "--property", properties], units.iter().map(String::as_str));
    let ended = capture(call, &argv).map_err(without_systemctl)?;
    let shown = String::from_utf8_lossy(&ended.stdout);
    let blocks: Vec<String> = shown.split("\n\n").filter(|block| !block.trim().is_empty()).map(str::to_owned).collect();
    if blocks.len() == units.len() {
        return Ok(blocks);
    }
    let unit = Unit { name: units.join(", "), manager };
    Err(no_answer(&unit, ended.stderr.trim()))
}

/// Asks the manager to act and waits as long as it takes; what it says is for explanation only.
pub(crate) fn ask(call: &Call, unit: &Unit, verb: &str) -> Result<Captured, Failure> {
    capture(call, &command_line(unit, verb)).map_err(without_systemctl)
}

/// Whether what systemctl says means that the caller lacks the rights.
pub(crate) fn lacks_rights(stderr: &str) -> bool {
    ["authentication required", "Access denied", "Permission denied", "Operation not permitted"]
        .iter()
        .any(|sign| stderr.contains(sign))
}

/// The refusal of a caller without the rights.
pub(crate) fn no_rights(unit: &Unit, step: &str, stderr: &str) -> Failure {
    let failure = Failure::refused("no_rights", format!("The calling user may not {step} {}.", unit.name));
    let failure = match unit.manager {
        Manager::System => failure.hint(format!("sudo svc-unit {step} {unit}")),
        Manager::User => failure.hint(format!("Run svc-unit {step} {unit} as the user who owns that manager.")),
    };
    failure.cause(stderr.trim())
}

fn without_systemctl(failure: Failure) -> Failure {
    if failure.code != "program_not_found" {
        return failure;
    }
    Failure::new(Status::Unavailable, "systemctl_not_found", "The program systemctl is not installed or not on the PATH.")
        .hint("Run this on a host with systemd, with systemctl's folder on PATH.")
        .retryable(false)
}

fn no_answer(unit: &Unit, stderr: &str) -> Failure {
    if lacks_rights(stderr) || is_anothers_manager(unit) {
        return no_rights(unit, "status", stderr);
    }
    let failure = match unit.manager {
        Manager::System => Failure::unavailable("manager_unreachable", "No system manager of systemd answers on this host.")
            .hint("Run this on a host that was booted with systemd; for a unit of a user manager, say --user."),
        Manager::User => Failure::unavailable("manager_unreachable", "The calling user's manager of systemd does not answer.")
            .hint("Set XDG_RUNTIME_DIR to that user's own (/run/user/UID); loginctl enable-linger USER starts the manager."),
    };
    failure.cause(if stderr.is_empty() { "systemctl show printed nothing" } else { stderr })
}

/// A user manager hangs up on other users, which systemctl reports as a broken connection.
fn is_anothers_manager(unit: &Unit) -> bool {
    let owner = || {
        let folder = std::env::var_os("XDG_RUNTIME_DIR")?;
        Some(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder).ok()?))
    };
    unit.manager == Manager::User && owner().is_some_and(|owner| owner != nix::unistd::geteuid().as_raw())
}
