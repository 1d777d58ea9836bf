//! The terminal from which an upgrade or a rollback was started: whatever becomes of it, the run continues.

use svc_tests::journey::prelude::*;
use svc_tests::terminal::{ended, player};

/// The sentence of a script that continues by itself.
const OF_ITS_OWN: &str = "continues in a session of its own";

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// The process in which a run continues, as its first line says.
fn process_of(terminal: &Terminal) -> Pid {
    let screen = terminal.shows();
    let said = screen.split_once("(process ").and_then(|(_, rest)| rest.split_once(')')).map(|(pid, _)| pid.to_owned());
    Pid::from_raw(said.unwrap_or_else(|| panic!("no process is named: {screen}")).parse().unwrap())
}

#[test]
fn neither_a_control_c_nor_the_end_of_the_terminal_ends_a_run() {
    let (product, before) = installed("term");
    let upgrade = format!("svc-upgrade {}", quoted(&product.installer("2.0.1")));
    // A shell that is there afterwards, as an operator's is.
    let mut terminal = Terminal::open(&product, &format!("trap : INT; {upgrade}; printf 'a %s' prompt; read -r _"), &[]);
    terminal.wait_for("svc-upgrade: stop: ok");
    // The bars of the tools.
    terminal.wait_for("B/s");
    let run = process_of(&terminal);
    terminal.type_in("\x03");
    terminal.wait_for("a prompt");
    assert!(terminal.shows().contains("the run continues"), "{}", terminal.shows());
    assert!(!os::has_signal(run, "SigIgn", Signal::SIGINT), "`kill -INT` would not end it");
    assert_eq!(ended(&product, "upgrade")["ok"], true);
    assert_eq!(product.marker(), "2.0.1");
    assert!(!terminal.shows().contains("svc-upgrade: marker: ok"), "it is shown on: {}", terminal.shows());
    terminal.type_in("\n");
    terminal.wait();

    let terminal = Terminal::open(&product, "svc-rollback", &[]);
    terminal.wait_for("svc-rollback: stop: ok");
    terminal.close();
    assert_eq!(ended(&product, "rollback")["ok"], true);
    assert_back(&product, &before);
}

#[test]
fn attached_installer_reads_answer_from_terminal() {
    let product = running("termfollow");
    let typed = format!("svc-upgrade {}; echo status $?", quoted(&product.path("termfollow-2.0.2.run")));
    let mut terminal = Terminal::open(&product, &typed, &[]);
    terminal.wait();
    let screen = terminal.shows();
    assert!(screen.contains(OF_ITS_OWN), "{screen}");
    assert!(screen.contains("svc-upgrade: The step new failed") && screen.contains("status 4"), "{screen}");

    // An installer that asks, on the terminal that was kept for it; what it says is also kept. It minds no signal, and while it
    // runs nothing else does, although its script was ended with all that is on the terminal.
    let (answer, go) = (product.path("answer"), product.path("go"));
    let daemon = product.path("daemon");
    let asks = format!("trap '' HUP TERM; echo 'Which licence?' >&2; read -r it; echo \"$it\" >{}", quoted(&answer));
    let waits = format!(
        "until [ -e {} ]; do sleep 0.1; done; echo 'It is small.'; while sleep 0.2; do echo on; done & echo $! >>{}; exit 1",
        quoted(&go),
        quoted(&daemon)
    );
    let asking = product.installer_that(&format!("{asks}\n{waits}"));
    let mut terminal = Terminal::open(&product, &format!("svc-upgrade --attached {}", quoted(&asking)), &[]);
    terminal.wait_for("Which licence?");
    terminal.type_in("the large one\n");
    wait::so("the answer", || fs::read_to_string(&answer).is_ok_and(|it| it == "the large one\n").then_some(()));
    terminal.signal_all(Signal::SIGTERM);
    let document = ended(&product, "upgrade");
    assert!(document["error"]["message"].as_str().unwrap().contains("still running"), "{document:#}");
    product.tool("svc-backup").run().fails(8, "external_running").unchanged();
    fs::write(&go, "").unwrap();
    let run = PathBuf::from(document["result"]["run_dir"].as_str().unwrap());
    let file = |ending: &str| names_in(&run).into_iter().find(|name| name.ends_with(ending)).map(|name| run.join(name));
    let status = wait::so("the installer's own end", || file("-installer.rc"));
    assert_eq!(fs::read_to_string(status).unwrap(), "1\n");
    let printed = || fs::read_to_string(file("-installer.out").unwrap()).unwrap();
    assert!(printed().starts_with("Which licence?\nIt is small.\n"), "{}", printed());
    // What the installer has left behind continues, and holds neither the run nor its output.
    wait::so("the daemon to continue", || printed().ends_with("on\non\n").then_some(()));
    terminal.wait();
    // It is asked for once: what continues the run stays on the terminal too.
    let mut terminal = Terminal::open(&product, "svc-upgrade --resume --rerun-installer", &[]);
    terminal.wait_for("Which licence?");
    terminal.type_in("another one\n");
    terminal.wait();
    assert_eq!(fs::read_to_string(&answer).unwrap(), "another one\n");
    let daemons = fs::read_to_string(&daemon).unwrap();
    assert_eq!(daemons.lines().count(), 2);
    for daemon in daemons.lines() {
        kill(Pid::from_raw(daemon.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn run_in_tmux_or_screen_survives_closed_terminal_and_tables_heed_no_color() {
    let product = Product::new("termplex").unwrap();
    product.run(&product.installer("1.15.5")).unwrap();
    // Runs until the terminal has ended.
    let (begun, go) = (product.path("begun"), product.path("go"));
    product.hook(
        "10-waits",
        &format!("[ \"$SVC_VERSION\" = 1.15.5 ] && touch {}; until [ -e {} ]; do sleep 0.1; done", quoted(&begun), quoted(&go)),
    );
    let sockets = product.path("sockets");
    fs::create_dir(&sockets).unwrap();
    os::chmod(&sockets, 0o700);
    let of_product = [("SVC_HOOKS_DIR", product.path("hooks")), ("TMUX_TMPDIR", sockets.clone()), ("SCREENDIR", sockets)];
    let of_product = of_product.map(|(key, path)| (key, path.display().to_string()));
    let mut settings: Vec<(&str, &str)> = of_product.iter().map(|(key, path)| (*key, path.as_str())).collect();
    settings.push(("TERM", "xterm"));
    for begin in ["tmux -f /dev/null new-session", "screen -c /dev/null"] {
        let _ = (fs::remove_file(&begun), fs::remove_file(&go));
        let said = product.path("said");
        let typed = format!("{begin} sh -c \"svc-upgrade --hooks-only -v >/dev/null 2>{}\"", quoted(&said));
        let terminal = Terminal::open(&product, &typed, &settings);
        wait::until("the hook to be running", wait::HANG, || begun.exists().then_some(()))
            .unwrap_or_else(|error| panic!("{begin}: {error}\n{}", terminal.shows()));
        terminal.close();
        fs::write(&go, "").unwrap();
        assert_eq!(ended(&product, "-hooks")["ok"], true, "{begin}");
        let said = fs::read_to_string(said).unwrap();
        assert!(said.contains("hook-10-waits: ended with status 0") && !said.contains(OF_ITS_OWN), "{begin}: {said}");
    }

    for (typed, no_color, said) in [
        ("svc-backup --list", "", "svc-point list: \u{1b}[32mok\u{1b}[0m"),
        ("svc-backup --list", "1", "svc-point list: ok"),
        ("svc-backup --list --json", "1", "\"points\": []"),
    ] {
        let mut terminal = Terminal::open(&product, typed, &[("TERM", "xterm"), ("NO_COLOR", no_color)]);
        terminal.wait();
        assert!(terminal.shows().contains(said), "{typed} {no_color}: {:?}", terminal.shows());
    }
}

#[test]
fn run_survives_end_of_login_session() {
    let product = running("termscope");
    // logind is not here, so its word is played; the scopes, the session's and the one that the run makes, are systemd's.
    let real = Command::new("sh").args(["-c", "command -v systemd-run"]).output().unwrap().stdout;
    let real = String::from_utf8(real).unwrap();
    for (name, does) in [("busctl", "echo b true".to_owned()), ("systemd-run", format!("exec {} --user \"$@\"", real.trim()))] {
        product.script(&format!("stubs/{name}"), &does);
    }
    // An installer that runs until the session has ended.
    let (begun, go) = (product.path("begun"), product.path("go"));
    let (seen, settings) = (product.path("seen"), product.path("environment"));
    fs::write(&settings, "PRODUCTS_OWN=of_the_file\n").unwrap();
    let waits = format!("env >{}; touch {}; until [ -e {} ]; do sleep 0.1; done", quoted(&seen), quoted(&begun), quoted(&go));
    let installer = product.installer_that(&format!("{waits}\nexec {}", quoted(&product.installer("2.0.1"))));

    let session = "session-termscope.scope";
    let typed = format!("svc-upgrade --installer-arg \"$LICENCE\" {}", quoted(&installer));
    let within = format!("{} --user --scope --quiet --collect --slice=user.slice --unit={session} script -qefc", real.trim());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {within} \"$1\" /dev/null"), "sh", &typed]);
    let settings = settings.display().to_string();
    let settings = [("SVC_ENVIRONMENT_FILE", settings.as_str()), ("LICENCE", "t0psecret")];
    let mut terminal = player(&mut shell, &product, &settings, &[product.path("stubs")]);
    wait::so("the installer to be running", || begun.exists().then_some(()));
    // How systemd names a scope, it writes into its log.
    let scopes = ["list-units", "--type=scope", "--plain", "--no-legend", "--full"];
    let scopes = os::run(product.host.systemd.systemctl().args(scopes)).unwrap();
    assert!(scopes.contains(" svc-upgrade") && !scopes.contains("t0psecret"), "{scopes}");
    product.host.systemd.kill(session).unwrap();
    terminal.wait().unwrap();
    fs::write(&go, "").unwrap();
    assert_eq!(ended(&product, "upgrade")["ok"], true);
    assert_eq!(product.marker(), "2.0.1");
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.contains("PGPORT=") && !seen.contains("PRODUCTS_OWN") && !seen.contains("SVC_ADDED"), "{seen}");
}
