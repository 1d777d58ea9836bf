use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Tool;
use crate::wait;

fn shell(script: &str) -> Tool {
    Tool::program("/bin/sh").args(["-c", script])
}

#[test]
fn a_call_gets_only_what_it_is_given() {
    let ran = shell("cat; echo $GIVEN; env | grep -c -e ^HOME= -e ^CARGO").env("GIVEN", "this").stdin("in\n").run();
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "in\nthis\n0\n"));
    assert_eq!(shell("cat").run().stdout, "");
}

#[test]
fn a_signal_is_seen_in_the_status() {
    let tool = shell("echo ready >&2; exec sleep 60").spawn();
    wait::until("the shell", crate::wait::HANG, || tool.stderr_so_far().contains("ready").then_some(())).unwrap();
    tool.signal_group(Signal::SIGTERM);
    assert_eq!(tool.wait().status, 143);
}

#[test]
fn a_tool_that_nobody_waits_for_is_ended_with_what_it_started() {
    let tool = shell("sleep 60 & echo $! >&2; wait").spawn();
    let said = wait::until("its child", crate::wait::HANG, || tool.stderr_so_far().trim().parse().ok()).unwrap();
    drop(tool);
    assert!(wait::gone(crate::wait::HANG, || kill(Pid::from_raw(said), None).is_err()));
}

#[test]
#[should_panic(expected = "stdout has 2 documents, not one")]
fn two_documents_are_one_too_many() {
    shell("echo '{}'; echo '{}'").run();
}

#[test]
#[should_panic(expected = "stdout is not JSON to its end")]
fn a_document_must_be_whole() {
    shell("echo '{\"schema\":'").run();
}

#[test]
#[should_panic(expected = "has no svc-snap.dance")]
fn a_document_needs_a_schema() {
    shell("echo '{\"schema\":\"svc-snap.dance/1\"}'").run();
}

#[test]
#[should_panic(expected = "was not silent on stderr")]
fn a_success_is_silent() {
    shell("echo done >&2").run();
}

#[test]
#[should_panic(expected = "did not end within")]
fn a_tool_that_hangs_is_killed() {
    shell("sleep 60").limit(Duration::from_millis(200)).run();
}

#[test]
#[should_panic(expected = "left behind holds its output open")]
fn a_tool_leaves_nobody_behind() {
    // More than the shell needs on any machine.
    shell("sleep 600 & exit 0").limit(Duration::from_secs(10)).run();
}
