//! What a terminal sees while `svc-snap` runs: bytes, shards, rate and time left; stdout stays one document.

use svc_tests::prelude::*;

/// Runs the tool on a terminal of 120 columns to its good end; gives what the screen has shown.
#[track_caller]
fn screen(sandbox: &Sandbox, args: &[&str]) -> String {
    let out = sandbox.state.path().join("out.json");
    let typed = format!("stty cols 120; svc-snap {} > {}", args.join(" "), out.display());
    let seen = on_terminal(&typed).envs(sandbox.env()).output().unwrap();
    let screen = String::from_utf8_lossy(&seen.stdout).into_owned();
    let document: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap_or_else(|_| panic!("{screen}"));
    let schema = json!(format!("svc-snap.{}/1", args[0]));
    assert_eq!((&document["ok"], &document["schema"]), (&json!(true), &schema), "{screen}\n{document:#}");
    screen
}

/// A line of the screen says of `what` all that there is to say.
#[track_caller]
fn shows(screen: &str, what: &str) {
    let mut lines = screen.split('\r').filter(|line| line.contains(&format!("{what}: ")));
    let says_all = |line: &str| ["/", "MiB ", " of 1 shards", "B/s", "s left", "["].iter().all(|word| line.contains(word));
    assert!(lines.any(says_all), "{screen}");
}

#[test]
fn terminal_shows_progress_of_create_and_wait() {
    let sandbox = Sandbox::new("bar");
    sandbox.noise("docs", 12);
    let rate = ["--rate-limit", "400kb"];
    shows(&screen(&sandbox, &["create", "s1", rate[0], rate[1]]), "snapshot s1");
    sandbox.run(&["delete", "s1"]).ok();
    let sandbox = sandbox.registered(&[("max_snapshot_bytes_per_sec", "400kb")]);
    sandbox.run(&["create", "s2", "--no-wait"]).ok();
    shows(&screen(&sandbox, &["wait", "s2"]), "snapshot s2");
}

#[test]
fn terminal_shows_progress_of_stage_and_restore() {
    let sandbox = Sandbox::new("back").registered(&[("max_restore_bytes_per_sec", "400kb")]);
    sandbox.noise("docs", 12);
    // A document in a file, since the terminal is the tool's stdin.
    let from = sandbox.state.path().join("from.json");
    fs::write(&from, sandbox.create("s").text()).unwrap();
    let from = ["--from", from.to_str().unwrap()];

    let run = "20261120t020003z-bar";
    shows(&screen(&sandbox, &["stage", from[0], from[1], "--run-id", run]), "restore");
    assert_eq!(sandbox.copies().len(), 1);
    sandbox.run(&["discard", "--run", run]).ok();
    let seen = screen(&sandbox, &["restore", from[0], from[1]]);
    shows(&seen, "restore");
    assert!(seen.split('\r').any(|line| line.contains("clone: 0/1")), "{seen}");
}

/// It accepts connections and answers nothing.
#[test]
fn frozen_server_is_shown_as_awaited() {
    let sandbox = Sandbox::new("frozen");
    let gate = sandbox.gate();
    gate.rule(|_| true, Act::Hold, 0, usize::MAX);
    let list = || sandbox.tool(&["list", "--timeout", "10s"]).via(&gate);
    let told = list().args(["--progress", "plain"]).talks().run();
    assert!(told.status == 6 && told.stderr.starts_with(&format!("wait for {}: ", gate.url())), "{told}");
    // Without a terminal it says nothing that was not asked for.
    let silent = list().run().fails(6, "timeout");
    assert!(!silent.stderr.contains("wait for"), "{silent}");
}
