//! svc-unit on a real manager of systemd: units of every temper, started, stopped, waited for, and judged.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, thread};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::systemd::Systemd;
use svc_tests::tool::{Ran, Spawned, Tool};
use svc_tests::{os, wait};
use tempfile::TempDir;

/// Runs until it is told to end.
const SIMPLE: &str = "ExecStart=/bin/sleep 600";
/// Says that it is ready after two seconds.
const SLOW: &str =
    "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'sleep 2; systemd-notify --ready; exec sleep 600'\nTimeoutStartSec=60";
/// Takes longer to start than a call takes on a busy machine.
const LATE: &str =
    "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'sleep 12; systemd-notify --ready; exec sleep 600'\nTimeoutStartSec=60";
/// Ends with status 3 after a second.
const SHORT: &str = "ExecStart=/bin/sh -c 'sleep 1; exit 3'";

/// A unit of one test, gone when it is dropped.
struct Own {
    systemd: Systemd,
    name: String,
}

impl Own {
    /// `service` is the text of the section `[Service]`.
    fn new(name: &str, service: &str) -> Self {
        Self::with(name, "", service)
    }

    fn with(name: &str, unit: &str, service: &str) -> Self {
        let systemd = Host::shared().unwrap().systemd;
        let name = format!("unit-test-{name}-{}.service", std::process::id());
        systemd.install(&name, &format!("[Unit]\n{unit}\n[Service]\n{service}\n")).unwrap();
        Self { systemd, name }
    }

    fn file(&self) -> PathBuf {
        self.systemd.unit_dir.join(&self.name)
    }

    fn reload(&self) {
        os::run(self.systemd.systemctl().arg("daemon-reload")).unwrap();
    }

    fn systemctl(&self, verb: &[&str]) {
        os::run(self.systemd.systemctl().args(verb).arg(&self.name)).unwrap();
    }

    fn tool(&self, step: &str) -> Tool {
        tool(&self.systemd, step).arg(format!("user:{}", self.name))
    }

    /// With a short time to hold, so that the tests do not crawl.
    fn start(&self) -> Tool {
        self.tool("start").args(["--settle", "300ms"])
    }

    fn status(&self) -> Value {
        self.tool("status").run().ok().unchanged().result()["after"].clone()
    }

    fn waits_in(&self, state: &str) {
        let seen = || (self.systemd.property(&self.name, "ActiveState").unwrap() == state).then_some(());
        wait::until(&format!("{} to be {state}", self.name), Duration::from_secs(20), seen).unwrap();
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.systemd.systemctl().args(["stop", &self.name]).output();
        let _ = fs::remove_file(self.file());
        let _ = self.systemd.systemctl().arg("daemon-reload").output();
        let _ = self.systemd.systemctl().args(["reset-failed", &self.name]).output();
    }
}

fn tool(systemd: &Systemd, step: &str) -> Tool {
    Tool::new("svc-unit").arg(step).envs(systemd.env())
}

fn manager() -> Systemd {
    Host::shared().unwrap().systemd
}

fn after<'a>(ran: &'a Ran, key: &str) -> &'a Value {
    &ran.result()["after"][key]
}

fn says(ran: &Ran, text: &str) {
    let error = &ran.doc()["error"];
    let told = format!("{} {} {}", error["message"], error["hint"], error["causes"]);
    assert!(told.contains(text), "the error does not speak of `{text}`\n{ran}");
}

/// A systemctl that notes how often the tool has asked for the state.
struct Looks {
    folder: TempDir,
}

impl Looks {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = env::var_os("PATH").unwrap();
        let real = env::split_paths(&path).map(|folder| folder.join("systemctl")).find(|file| file.exists()).unwrap();
        let (real, notes) = (real.display(), folder.path().join("looks"));
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in\n*' show '*) {real} \"$@\"; rc=$?; echo look >>'{}'; exit $rc ;;\n*) exec {real} \"$@\" ;;\nesac\n",
            notes.display()
        );
        let file = folder.path().join("systemctl");
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// The tool, which is to use it.
    fn of(&self, tool: Tool) -> Tool {
        let inherited = env::var_os("PATH").unwrap();
        let folders = std::iter::once(self.folder.path().to_owned()).chain(env::split_paths(&inherited));
        tool.env("PATH", env::join_paths(folders).unwrap())
    }

    fn count(&self) -> usize {
        fs::read_to_string(self.folder.path().join("looks")).unwrap_or_default().lines().count()
    }

    /// Until the tool knows the state of now: one look may be under way, the next one begins later, and the third shows that
    /// the second has been taken in.
    fn wait(&self) {
        let wanted = self.count() + 3;
        wait::until("the tool to look", Duration::from_secs(20), || (self.count() >= wanted).then_some(())).unwrap();
    }
}

/// Until its request has reached the manager.
fn once_activating(unit: &Own, tool: Tool) -> Spawned {
    let spawned = tool.spawn();
    unit.waits_in("activating");
    spawned
}

#[test]
fn a_unit_is_started_once_and_stopped_once() {
    let unit = Own::new("simple", SIMPLE);
    let asleep = unit.status();
    assert_eq!((&asleep["load_state"], &asleep["active_state"]), (&json!("loaded"), &json!("inactive")));
    assert_eq!(asleep["main_pid"], Value::Null);
    assert_eq!(asleep["active_enter_at"], Value::Null);

    // Longer than a call takes on a busy machine.
    let settle = Duration::from_secs(8);
    let begun = Instant::now();
    let started = unit.tool("start").args(["--settle", "8s"]).run().ok().changed();
    let took = begun.elapsed();
    assert!(took >= settle, "it did not wait for the unit to settle\n{started}");
    assert_eq!(started.result()["before"]["active_state"], "inactive");
    assert_eq!((after(&started, "active_state"), after(&started, "sub_state")), (&json!("active"), &json!("running")));
    assert_eq!(started.result()["manager"], "user");
    let asked = started.result()["requested_epoch_ms"].as_u64().unwrap();
    let active = after(&started, "active_enter_epoch_ms").as_u64().unwrap();
    let ended = asked + u64::try_from(took.as_millis()).unwrap();
    assert!((asked..ended).contains(&(active + 1)), "asked at {asked}, active at {active}, ended at {ended}");
    assert!(after(&started, "active_enter_at").as_str().unwrap().ends_with('Z'));
    let pid = unit.systemd.property(&unit.name, "MainPID").unwrap();
    assert_eq!(after(&started, "main_pid").to_string(), pid);

    let begun = Instant::now();
    let again = unit.tool("start").args(["--settle", "8s"]).run().ok().unchanged();
    assert!(begun.elapsed() < settle, "it has been active for that long already\n{again}");
    assert_eq!(again.result()["skipped"], "already_so");
    assert_eq!(again.result()["requested_at"], Value::Null);

    let stopped = unit.tool("stop").run().ok().changed();
    assert_eq!(stopped.result()["before"]["main_pid"].to_string(), pid);
    assert_eq!(after(&stopped, "active_state"), "inactive");
    assert!(!unit.systemd.is_active(&unit.name));
    let again = unit.tool("stop").run().ok().unchanged();
    assert_eq!(again.result()["skipped"], "already_so");
}

#[test]
fn a_unit_that_is_not_there_is_stopped_already_and_cannot_be_anything_else() {
    let systemd = manager();
    let named = |step: &str| tool(&systemd, step).arg("user:unit-test-nobody.service");
    let stopped = named("stop").run().ok().unchanged();
    assert_eq!(stopped.result()["skipped"], "not_there");
    assert_eq!(after(&stopped, "load_state"), "not-found");
    for step in ["status", "start", "restart", "wait"] {
        let ran = named(step).run().fails(4, "unit_not_found").unchanged();
        assert_eq!(after(&ran, "active_state"), "inactive");
    }
    named("wait").args(["--for", "inactive"]).run().ok();
}

#[test]
fn a_unit_whose_file_was_removed_while_it_runs_is_still_stopped() {
    let unit = Own::new("bereft", SIMPLE);
    unit.start().run().ok();
    fs::remove_file(unit.file()).unwrap();
    unit.reload();
    assert_eq!(unit.status()["load_state"], "not-found");
    let stopped = unit.tool("stop").run().ok().changed();
    assert_eq!(stopped.result()["before"]["active_state"], "active");
    assert!(!unit.systemd.is_active(&unit.name));
}

#[test]
fn a_masked_unit_is_refused_with_the_command_that_unmasks_it() {
    let unit = Own::new("masked", SIMPLE);
    fs::remove_file(unit.file()).unwrap();
    std::os::unix::fs::symlink("/dev/null", unit.file()).unwrap();
    unit.reload();
    assert_eq!(unit.status()["load_state"], "masked");
    for step in ["start", "restart", "wait"] {
        let ran = unit.tool(step).run().refused("unit_masked");
        says(&ran, &format!("systemctl --user unmask {}", unit.name));
    }
    unit.tool("stop").run().ok().unchanged();
}

#[test]
fn a_unit_file_that_cannot_be_used_is_invalid_with_the_managers_reason() {
    let unit = Own::new("broken", "Type=simple");
    assert_eq!(unit.status()["load_state"], "bad-setting");
    let ran = unit.start().run().fails(7, "unit_invalid").unchanged();
    says(&ran, "bad-setting");
    says(&ran, "systemd-analyze --user verify");
}

#[test]
fn a_unit_that_dies_at_once_was_not_started() {
    let unit = Own::new("crash", "ExecStart=/bin/sh -c 'exit 7'");
    let ran = unit.start().run().fails(1, "unit_not_started").changed().warns("journal_empty");
    assert_eq!((after(&ran, "active_state"), after(&ran, "result")), (&json!("failed"), &json!("exit-code")));
    assert_eq!((after(&ran, "exec_main_code"), after(&ran, "exec_main_status")), (&json!("exited"), &json!(7)));
    says(&ran, "exit status 7");
    // A program that is not there at all.
    let unit = Own::new("no-program", "ExecStart=/nonexistent/program");
    unit.start().run().fails(1, "unit_not_started");
}

#[test]
fn a_unit_that_dies_after_a_while_did_not_hold() {
    let unit = Own::new("short", SHORT);
    let ran = unit.tool("start").args(["--settle", "4s"]).run().fails(1, "unit_died").changed();
    says(&ran, "exit status 3");
    // A unit that nobody watches counts as started: it is the settling that finds it out.
    unit.tool("start").args(["--settle", "0"]).run().ok().changed();
}

#[test]
fn a_unit_that_is_started_again_and_again_did_not_hold_although_it_is_active_most_of_the_time() {
    let unit = Own::with("loop", "StartLimitIntervalSec=0", &format!("{SHORT}\nRestart=always\nRestartSec=10ms"));
    unit.tool("start").args(["--settle", "4s"]).run().fails(1, "unit_died").changed();
    assert!(unit.systemd.property(&unit.name, "NRestarts").unwrap() != "0");
    // Waiting counts anew after each restart, and gives up.
    let ran = unit.tool("wait").args(["--settle", "4s", "--timeout", "5s"]).run().fails(6, "timeout").unchanged();
    says(&ran, &unit.name);
    unit.tool("stop").run();
}

#[test]
fn a_unit_that_is_started_too_often_is_told_how_to_forget_it() {
    let limit = "StartLimitIntervalSec=1h\nStartLimitBurst=1";
    let unit = Own::with("limit", limit, "ExecStart=/bin/false");
    unit.start().run().fails(1, "unit_not_started");
    // A daemon-reload clears the manager's count of starts (seen on 252), and other tests of this host make it reload: until it
    // refuses, each further start is a real one, and says so.
    let ran = wait::until("the manager to refuse", Duration::from_secs(30), || {
        let ran = unit.start().run().fails(1, "unit_not_started");
        let started = after(&ran, "invocation_id") != &ran.result()["before"]["invocation_id"];
        assert_eq!(ran.doc()["changed"], started, "{ran}");
        (!started).then_some(ran)
    });
    says(&ran.unwrap(), &format!("systemctl --user reset-failed {}", unit.name));
}

#[test]
fn a_unit_that_has_to_be_killed_is_stopped_and_a_person_must_look() {
    let unit = Own::new("deaf", "ExecStart=/bin/sh -c 'trap : TERM; while :; do sleep 0.1; done'\nTimeoutStopSec=1");
    unit.start().run().ok();
    let ran = unit.tool("stop").run().review("unit_killed").changed();
    assert_eq!((after(&ran, "result"), after(&ran, "exec_main_code")), (&json!("timeout"), &json!("killed")));
    assert!(!unit.systemd.is_active(&unit.name));
}

#[test]
fn a_program_that_answers_term_with_a_status_of_its_own_is_stopped_with_a_warning() {
    let unit = Own::new("java", "ExecStart=/bin/sh -c 'trap \"exit 143\" TERM; while :; do sleep 0.1; done'");
    unit.start().run().ok();
    let ran = unit.tool("stop").run().ok().changed().warns("unit_ended_badly");
    assert_eq!(after(&ran, "active_state"), "failed");
    // A failed unit is no running one.
    let from = ran.text();
    unit.tool("stop").run().ok().unchanged();
    unit.start().run().ok().changed();
    unit.tool("stop").run();
    tool(&unit.systemd, "start").args(["--from", "-", "--settle", "0"]).stdin(from).run().ok().changed();
}

#[test]
fn a_oneshot_unit_is_started_when_it_has_done_its_work() {
    let unit = Own::new("oneshot", "Type=oneshot\nExecStart=/bin/sleep 1");
    let ran = unit.start().run().ok().changed();
    assert_eq!(after(&ran, "active_state"), "inactive");
    let quick = Own::new("oneshot-quick", "Type=oneshot\nExecStart=/bin/true");
    quick.start().run().ok().changed();
    let remains = Own::new("oneshot-remains", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true");
    let ran = remains.start().run().ok().changed();
    assert_eq!((after(&ran, "active_state"), after(&ran, "sub_state")), (&json!("active"), &json!("exited")));
    remains.start().run().ok().unchanged();
    let fails = Own::new("oneshot-fails", "Type=oneshot\nExecStart=/bin/false");
    fails.start().run().fails(1, "unit_not_started").changed();
}

#[test]
fn a_unit_that_was_not_started_because_another_failed_says_so() {
    let other = Own::new("required", "Type=oneshot\nExecStart=/bin/false");
    let needs = format!("Requires={0}\nAfter={0}", other.name);
    for (name, service) in [("dependent", SIMPLE), ("dependent-oneshot", "Type=oneshot\nExecStart=/bin/true")] {
        let unit = Own::with(name, &needs, service);
        let ran = unit.start().run().fails(1, "unit_not_started");
        says(&ran, "dependency");
        // The unit is as it was, and the other was started and failed.
        assert_eq!(ran.doc()["changed"], Value::Null);
    }
}

#[test]
fn a_unit_whose_condition_is_not_met_was_not_started_although_systemctl_is_content() {
    let unit = Own::with("condition", "ConditionPathExists=/nonexistent", SIMPLE);
    let ran = unit.start().run().fails(1, "unit_not_started").unchanged();
    says(&ran, "condition");
}

#[test]
fn a_slow_start_is_waited_for() {
    let unit = Own::new("slow", SLOW);
    let ran = unit.start().run().ok().changed();
    assert_eq!(after(&ran, "active_state"), "active");
    let took = after(&ran, "active_enter_epoch_ms").as_u64().unwrap() - ran.result()["requested_epoch_ms"].as_u64().unwrap();
    assert!(took >= 1_900, "it took {took} ms from the request to being active");
}

#[test]
fn a_start_that_takes_too_long_is_given_up_and_can_be_waited_for() {
    let unit = Own::new("late", LATE);
    let ran = unit.start().args(["--timeout", "5s"]).run().fails(6, "timeout").changed();
    assert_eq!(after(&ran, "active_state"), "activating");
    says(&ran, &format!("svc-unit wait user:{}", unit.name));
    let waited = unit.tool("wait").args(["--settle", "300ms"]).run().ok().unchanged();
    assert_eq!(waited.result()["before"]["active_state"], "activating");
    assert_eq!(after(&waited, "active_state"), "active");
}

#[test]
fn term_in_the_middle_of_a_start_says_that_systemd_goes_on_and_how_to_wait() {
    let unit = Own::new("term", SLOW);
    let looks = Looks::new();
    let spawned = once_activating(&unit, looks.of(unit.start()));
    looks.wait();
    spawned.signal(Signal::SIGTERM);
    let ran = spawned.wait().fails(143, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "activating");
    says(&ran, "TERM");
    says(&ran, &format!("svc-unit wait user:{}", unit.name));
    // A second start finds it under way and only waits.
    let again = unit.start().run().ok().unchanged();
    assert_eq!(again.result()["skipped"], "already_so");
}

#[test]
fn term_while_a_unit_settles_and_while_it_stops_leaves_it_to_systemd() {
    let unit = Own::new("term-settle", "ExecStart=/bin/sh -c 'trap : TERM; while :; do sleep 0.1; done'\nTimeoutStopSec=2");
    let looks = Looks::new();
    let spawned = looks.of(unit.tool("start").args(["--settle", "60s"])).spawn();
    unit.waits_in("active");
    looks.wait();
    spawned.signal(Signal::SIGINT);
    let ran = spawned.wait().fails(130, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "active");
    assert!(unit.systemd.is_active(&unit.name));

    let spawned = looks.of(unit.tool("stop")).spawn();
    unit.waits_in("deactivating");
    looks.wait();
    spawned.signal(Signal::SIGTERM);
    let ran = spawned.wait().fails(143, "interrupted").changed();
    assert_eq!(after(&ran, "active_state"), "deactivating");
    says(&ran, "--for inactive");
    let gone = unit.tool("wait").args(["--for", "inactive"]).run().ok().unchanged();
    assert_eq!(after(&gone, "result"), "timeout");
}

#[test]
fn a_unit_that_waits_for_another_is_not_at_rest_and_its_start_is_cancelled_by_a_stop() {
    let other = Own::new("first", "Type=notify\nExecStart=/bin/sleep 600\nTimeoutStartSec=120");
    let unit = Own::with("second", &format!("After={}", other.name), SIMPLE);
    other.systemctl(&["start", "--no-block"]);
    unit.systemctl(&["start", "--no-block"]);
    let status = unit.status();
    assert_eq!((&status["active_state"], &status["job_pending"]), (&json!("inactive"), &json!(true)));
    unit.tool("wait").args(["--for", "inactive", "--timeout", "500ms"]).run().fails(6, "timeout");
    unit.tool("stop").run().ok().changed();
    assert_eq!(unit.status()["job_pending"], false);
}

#[test]
fn a_start_that_was_cut_off_while_it_waits_for_another_unit_has_changed_something() {
    let other = Own::new("ahead", "Type=notify\nExecStart=/bin/sleep 600\nTimeoutStartSec=120");
    let unit = Own::with("behind", &format!("After={}", other.name), SIMPLE);
    other.systemctl(&["start", "--no-block"]);
    let looks = Looks::new();
    let spawned = looks.of(unit.start()).spawn();
    let queued = || unit.systemd.property(&unit.name, "Job").ok().filter(|job| !job.is_empty());
    wait::until("the start to be queued", Duration::from_secs(20), queued).unwrap();
    looks.wait();
    spawned.signal(Signal::SIGTERM);
    // The unit is as it was, and will start by itself as soon as the other is up.
    let ran = spawned.wait().fails(143, "interrupted").changed();
    assert_eq!((after(&ran, "active_state"), after(&ran, "job_pending")), (&json!("inactive"), &json!(true)));
    unit.tool("stop").run().ok().changed();
}

#[test]
fn waiting_for_a_unit_ends_when_somebody_starts_it_and_when_it_fails() {
    let unit = Own::new("waited", SIMPLE);
    unit.tool("wait").args(["--timeout", "500ms"]).run().fails(6, "timeout").unchanged();
    let mut spawned = unit.tool("wait").args(["--settle", "300ms"]).spawn();
    assert!(spawned.is_running());
    unit.systemctl(&["start"]);
    let ran = spawned.wait().ok().unchanged();
    assert_eq!(after(&ran, "active_state"), "active");
    unit.systemctl(&["kill", "--signal=KILL"]);
    unit.waits_in("failed");
    let ran = unit.tool("wait").run().fails(1, "unit_not_started").unchanged();
    says(&ran, "signal 9");
}

#[test]
fn a_restart_is_a_new_run_of_the_unit_and_starts_a_stopped_one() {
    let unit = Own::new("restart", SIMPLE);
    let restart = || unit.tool("restart").args(["--settle", "300ms"]);
    let first = restart().run().ok().changed();
    assert_eq!(first.result()["before"]["active_state"], "inactive");
    let second = restart().run().ok().changed();
    assert_eq!(after(&first, "invocation_id"), &second.result()["before"]["invocation_id"]);
    assert_ne!(after(&first, "invocation_id"), after(&second, "invocation_id"));
    assert_ne!(after(&first, "main_pid"), after(&second, "main_pid"));
}

#[test]
fn a_unit_is_started_from_a_document_only_if_it_was_running_then() {
    let unit = Own::new("from", SIMPLE);
    let start_from = |text: String| tool(&unit.systemd, "start").args(["--settle", "300ms", "--from", "-"]).stdin(text);

    let asleep = unit.tool("status").run().ok().text();
    let ran = start_from(asleep).run().ok().unchanged();
    assert_eq!(ran.result()["skipped"], "was_not_running");
    assert!(!unit.systemd.is_active(&unit.name));

    unit.start().run().ok();
    let awake = unit.tool("status").run().ok().text();
    let stopped = unit.tool("stop").run().ok().text();
    let ran = start_from(stopped).run().ok().changed();
    assert_eq!(ran.result()["unit"], unit.name.as_str());
    assert_eq!(ran.result()["manager"], "user");
    unit.tool("stop").run().ok();
    // The unit of the document comes before that of the environment.
    start_from(awake.clone()).env("SVC_UNIT", "user:unit-test-nobody.service").run().ok().changed();
    start_from(awake).arg("user:unit-test-nobody.service").run().fails(2, "from_other_unit").unchanged();

    let stopped = unit.tool("stop").run().ok().text();
    let dry = unit.tool("stop").arg("--dry-run").run().ok().text();
    start_from(dry).run().fails(2, "from_dry_run").unchanged();
    start_from(format!("{stopped}{stopped}")).run().fails(2, "from_several").unchanged();
    start_from(stopped[..stopped.len() / 2].to_owned()).run().fails(2, "from_damaged").unchanged();
    start_from(String::new()).run().fails(2, "from_empty").unchanged();
    let missing = tool(&unit.systemd, "status").arg("user:unit-test-nobody.service").run().text();
    let ran = start_from(missing).run().fails(2, "unit_not_found").unchanged();
    says(&ran, "unit-test-nobody");
    assert!(!unit.systemd.is_active(&unit.name));
}

/// Answers every request with `status`.
fn answer(listener: &TcpListener, status: &str) {
    let (mut stream, _) = listener.accept().unwrap();
    let _ = stream.read(&mut [0; 4096]);
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn a_unit_is_ready_when_its_url_answers_well() {
    let unit = Own::new("ready-url", SIMPLE);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ready", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        for status in ["503 Service Unavailable", "302 Found", "204 No Content"] {
            answer(&listener, status);
        }
    });
    unit.start().args(["--ready-url", url.as_str()]).run().ok().changed();
    server.join().unwrap();
}

#[test]
fn a_unit_is_ready_when_its_port_is_open_and_a_closed_one_is_waited_for() {
    let unit = Own::new("ready-tcp", SIMPLE);
    let port = os::free_ports(1).unwrap()[0];
    let address = format!("127.0.0.1:{port}");
    let ran = unit.start().args(["--ready-tcp", address.as_str(), "--timeout", "8s"]).run().fails(6, "not_ready").changed();
    assert_eq!(after(&ran, "active_state"), "active");
    says(&ran, "refused");
    let looks = Looks::new();
    let mut spawned = looks.of(unit.tool("wait").args(["--ready-tcp", address.as_str(), "--settle", "0"])).spawn();
    looks.wait();
    assert!(spawned.is_running());
    let _listener = TcpListener::bind(&address).unwrap();
    spawned.wait().ok();
}

#[test]
fn a_unit_that_dies_before_it_is_ready_is_not_waited_for() {
    let unit = Own::new("ready-died", SHORT);
    let address = format!("127.0.0.1:{}", os::free_ports(1).unwrap()[0]);
    let ran = unit.start().args(["--ready-tcp", address.as_str(), "--timeout", "60s"]).run().fails(1, "unit_died").changed();
    assert!(ran.doc()["duration_ms"].as_u64().unwrap() < 20_000);
}

#[test]
fn a_dry_run_prints_the_command_and_does_nothing() {
    let unit = Own::new("dry", SIMPLE);
    let argv = |ran: &Ran| ran.result()["plan"][0]["argv"].clone();
    let ran = unit.tool("start").arg("--dry-run").run().ok().unchanged();
    assert_eq!(argv(&ran), json!(["systemctl", "--user", "--no-pager", "--no-ask-password", "start", "--", unit.name]));
    assert!(!unit.systemd.is_active(&unit.name));
    unit.start().run().ok();
    for step in ["stop", "restart"] {
        let before = unit.status();
        let ran = unit.tool(step).arg("--dry-run").run().ok().unchanged();
        assert_eq!(argv(&ran)[4], step);
        assert_eq!(unit.status(), before);
    }
    // Nothing to do is nothing to plan.
    assert_eq!(unit.tool("start").arg("--dry-run").run().ok().result()["plan"], json!([]));
}

#[test]
fn a_unit_file_that_was_changed_but_not_read_again_is_warned_of() {
    let unit = Own::new("changed", SIMPLE);
    unit.start().run().ok();
    fs::write(unit.file(), format!("[Service]\n{SIMPLE}\nNice=5\n")).unwrap();
    fs::File::open(unit.file()).unwrap().set_modified(std::time::SystemTime::now() + Duration::from_secs(5)).unwrap();
    // Other tests of this host make the manager read all files again, and the warning is gone then, rightly.
    wait::until("the warning", Duration::from_secs(20), || {
        fs::File::open(unit.file()).ok()?.set_modified(std::time::SystemTime::now() + Duration::from_secs(9)).ok()?;
        let ran = unit.tool("restart").args(["--settle", "0"]).run().ok();
        ran.doc()["warnings"].as_array()?.iter().any(|warning| warning["code"] == "daemon_reload_needed").then_some(())
    })
    .unwrap();
}

#[test]
fn the_unit_is_that_of_the_command_line_then_of_the_environment_then_the_products() {
    let systemd = manager();
    let of = |tool: Tool| {
        let ran = tool.run();
        (
            ran.result()["unit"].as_str().unwrap_or_default().to_owned(),
            ran.result()["manager"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let pair = |unit: &str| (unit.to_owned(), "user".to_owned());
    let status = || tool(&systemd, "status").arg("--user");
    assert_eq!(of(status()), pair("svc.service"));
    assert_eq!(of(status().env("SVC_NAME", "unit-test-none")), pair("unit-test-none.service"));
    assert_eq!(of(status().env("SVC_NAME", "x").env("SVC_UNIT", "unit-test-env")), pair("unit-test-env.service"));
    assert_eq!(of(status().env("SVC_UNIT", "unit-test-env").arg("unit-test-arg.socket")), pair("unit-test-arg.socket"));
    assert_eq!(of(tool(&systemd, "status").env("SVC_UNIT", "user:unit-test-env")), pair("unit-test-env.service"));
    for wrong in ["*", "a b", "svc@.service", "", "user:"] {
        assert_eq!(status().arg(wrong).run().status, 2, "{wrong}");
    }
    for wrong in [["--ready-tcp", "nonsense"], ["--ready-url", "ftp://x"], ["--ready-url", "http://u:p@x/"], ["--settle", "soon"]]
    {
        assert_eq!(tool(&systemd, "start").args(wrong).run().status, 2, "{wrong:?}");
    }
}

#[test]
fn without_systemctl_or_without_a_manager_it_is_unavailable() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    for step in ["status", "stop", "start", "restart", "wait"] {
        Tool::new("svc-unit").arg(step).env("PATH", path).run().fails(5, "systemctl_not_found").unchanged();
        let nobody = Tool::new("svc-unit").args([step, "--user"]).env("XDG_RUNTIME_DIR", path);
        nobody.run().fails(5, "manager_unreachable").unchanged();
    }
}

#[test]
fn the_manager_of_another_user_is_refused() {
    let systemd = manager();
    let user = os::system_user("svc-unit-test").unwrap();
    tool(&systemd, "status").args(["--user", "svc"]).as_user(&user.name).run().refused("no_rights");
}

/// What a system manager says to a user without rights cannot be had from a user manager: this stands in for systemctl. It
/// shows a unit in the state that the real one shows, and refuses to act in the words of systemd 252.
const WITHOUT_RIGHTS: &str = r#"#!/bin/sh
case "$*" in
*show*) printf 'LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nMainPID=7\nInvocationID=a\n' ;;
*) echo 'Failed to stop svc.service: Interactive authentication required.' >&2; exit 1 ;;
esac
"#;

#[test]
fn a_user_without_rights_is_told_the_sudo_line() {
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("systemctl");
    fs::write(&fake, WITHOUT_RIGHTS).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    for step in ["stop", "restart"] {
        let tool = Tool::new("svc-unit").arg(step).env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
        let ran = tool.run().refused("no_rights");
        assert_eq!(ran.doc()["error"]["hint"], format!("sudo svc-unit {step} svc.service"));
        assert_eq!(after(&ran, "active_state"), "active");
    }
}

/// The same stand-in with a journal beside it, as only a system manager has one.
#[test]
fn a_failed_start_carries_the_last_lines_of_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(
        "systemctl",
        "#!/bin/sh\nprintf 'LoadState=loaded\\nActiveState=failed\\nResult=exit-code\\nExecMainCode=1\\nExecMainStatus=1\\n'\n",
    );
    script("journalctl", "#!/bin/sh\necho \"$*\"\necho 'svc[7]: no route to the database'\n");
    let tool = Tool::new("svc-unit").args(["start", "svc"]).env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
    let ran = tool.run().fails(1, "unit_not_started");
    let journal = ran.result()["journal"].as_array().unwrap();
    assert!(journal[0].as_str().unwrap().contains("--unit svc.service"), "{ran}");
    assert_eq!(journal[1], "svc[7]: no route to the database");
}
