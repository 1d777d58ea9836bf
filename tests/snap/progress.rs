//! What a terminal sees while `svc-snap` runs: bytes, shards, rate and time left; stdout stays one document. Without a
//! terminal it prints nothing that was not asked for.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;
use svc_tests::terminal::on_terminal;
use svc_tests::tool::Ran;
use tempfile::TempDir;

/// A terminal of 120 columns.
struct Terminal<'a> {
    sandbox: &'a Sandbox,
    dir: TempDir,
}

impl<'a> Terminal<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, dir: tempfile::tempdir().unwrap() }
    }

    /// A document in a file, since the terminal is the tool's stdin.
    fn file(&self, document: &Ran) -> String {
        let file = self.dir.path().join("from.json");
        fs::write(&file, document.text()).unwrap();
        file.display().to_string()
    }

    /// Runs the tool there to its good end; gives what the screen has shown, and the document.
    #[track_caller]
    fn run(&self, args: &[&str]) -> (String, Value) {
        let out: PathBuf = self.dir.path().join("out.json");
        let seen = on_terminal(&format!("stty cols 120; svc-snap {} > {}", args.join(" "), out.display()))
            .env("SVC_SEARCH_URL", &self.sandbox.search.url)
            .env("SVC_REPOSITORY", &self.sandbox.prefix)
            .env("SVC_INDICES", format!("{}-*", self.sandbox.prefix))
            .env("SVC_STATE_DIR", self.sandbox.state.path())
            .output()
            .unwrap();
        let screen = String::from_utf8_lossy(&seen.stdout).into_owned();
        let document: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap_or_else(|_| panic!("{screen}"));
        assert_eq!(document["ok"], true, "{screen}\n{document:#}");
        (screen, document)
    }
}

/// A line of the screen says of `what` all that there is to say.
#[track_caller]
fn shows(screen: &str, what: &str) {
    let mut lines = screen.split('\r').filter(|line| line.contains(&format!("{what}: ")));
    let says_all = |line: &str| ["/", "MiB ", " of 1 shards", "B/s", "s left", "["].iter().all(|word| line.contains(word));
    assert!(lines.any(says_all), "{screen}");
}

#[test]
fn a_terminal_sees_bytes_shards_rate_and_time_left_of_a_snapshot_and_of_the_wait_for_it() {
    let sandbox = Sandbox::new("bar");
    sandbox.noise("docs", 20);
    let terminal = Terminal::new(&sandbox);
    let (screen, document) = terminal.run(&["create", "s1", "--rate-limit", "400kb"]);
    shows(&screen, "snapshot s1");
    assert_eq!(document["schema"], "svc-snap.create/1");

    // Elsewhere it prints nothing that was not asked for: `ok` holds it to that.
    sandbox.run(&["delete", "s1"]).ok();
    let asked = sandbox.tool(&["create", "s2", "--rate-limit", "400kb", "--progress", "json"]).talks().run().ok();
    let line: Value = serde_json::from_str(asked.stderr.lines().next().unwrap()).unwrap();
    assert_eq!((&line["unit"], &line["shards"]["total"]), (&json!("bytes"), &json!(1)), "{asked}");
    sandbox.run(&["delete", "s2"]).ok();
    let none = sandbox.tool(&["create", "s3", "--rate-limit", "800kb", "--progress", "none"]).run().ok();
    assert_eq!(none.stderr, "");
    sandbox.run(&["delete", "s3"]).ok();

    let sandbox = sandbox.registered(&[("max_snapshot_bytes_per_sec", "400kb")]);
    let terminal = Terminal::new(&sandbox);
    sandbox.run(&["create", "s4", "--no-wait"]).ok();
    let (screen, document) = terminal.run(&["wait", "s4"]);
    shows(&screen, "snapshot s4");
    assert_eq!(document["schema"], "svc-snap.wait/1");
    sandbox.run(&["delete", "s4"]).ok();
    sandbox.run(&["create", "s5", "--no-wait"]).ok();
    assert_eq!(sandbox.run(&["wait", "s5"]).ok().stderr, "");
}

/// On a server of the test's own, whose restores are slow.
#[test]
fn a_terminal_sees_bytes_shards_rate_and_time_left_of_a_restore() {
    let host = Host::shared().unwrap();
    let own = host.search_server(&host.search.key, &Settings::default()).unwrap();
    let sandbox = Sandbox::on(own.search.clone(), "back").registered(&[]);
    sandbox.noise("docs", 20);
    let created = sandbox.create("s");
    sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {"indices.recovery.max_bytes_per_sec": "400kb"}})));
    let terminal = Terminal::new(&sandbox);
    let from = terminal.file(&created);

    let run = "20261120t020003z-bar";
    let (screen, document) = terminal.run(&["stage", "--from", &from, "--run-id", run]);
    shows(&screen, "restore");
    assert_eq!((&document["schema"], sandbox.copies().len()), (&json!("svc-snap.stage/1"), 1));
    sandbox.run(&["discard", "--run", run]).ok();
    let (screen, document) = terminal.run(&["restore", "--from", &from]);
    shows(&screen, "restore");
    assert!(screen.split('\r').any(|line| line.contains("clone: 0/1")), "{screen}");
    assert_eq!(document["schema"], "svc-snap.restore/1");

    // Not a byte without a terminal.
    assert_eq!(sandbox.run(&["restore", "--from", &from]).ok().stderr, "");
    let asked = sandbox.tool(&["stage", "--from", &from, "--progress", "json"]).talks().run().ok();
    let line: Value = serde_json::from_str(asked.stderr.lines().next().unwrap()).unwrap();
    assert!(line["unit"] == "bytes" && line["shards"]["total"].is_u64(), "{asked}");
}
