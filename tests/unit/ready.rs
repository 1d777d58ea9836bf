//! Ready means that it answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;

use svc_tests::secured::Authority;

use crate::own::*;

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ready", listener.local_addr().unwrap());
    (listener, url)
}

/// Reads a request, does what is to be done before the answer, and answers with `status`.
fn answer(listener: &TcpListener, status: &str, before: impl FnOnce()) {
    let (mut stream, _) = listener.accept().unwrap();
    let _ = stream.read(&mut [0; 4096]);
    before();
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn unit_is_ready_when_its_url_returns_success() {
    let unit = Own::new("ready-url", SIMPLE);
    let (listener, url) = listener();
    thread::scope(|scope| {
        scope.spawn(|| ["503 Service Unavailable", "302 Found", "204 No Content"].map(|status| answer(&listener, status, || ())));
        unit.start().args(["--ready-url", &*url]).run().ok().changed();
    });
    // Nobody answers any more, and a secret of the URL is not told.
    drop(listener);
    let secret = format!("{url}?token=hunter2");
    let ran = unit.tool("wait").args(["--settle", "0", "--timeout", "5s", "--ready-url", &*secret]).run().fails(6, "not_ready");
    ran.error_has(&["token=<redacted>"]).without(&["hunter2"]);
}

#[test]
fn ready_url_of_private_authority_needs_ready_ca() {
    let unit = Own::new("ready-ca", SIMPLE);
    let authority = Authority::new().unwrap();
    authority.issue("server", "localhost", "IP:127.0.0.1").unwrap();
    let port = os::free_ports(1).unwrap()[0].to_string();
    let arguments = ["s_server", "-quiet", "-www", "-accept", &*port, "-cert", "server.pem", "-key", "server.key"];
    let mut server = Command::new("openssl");
    server.args(arguments).current_dir(authority.file("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    let url = format!("https://127.0.0.1:{port}/ready");
    let ready = |step: &str| unit.tool(step).args(["--settle", "0", "--ready-url", &*url]);
    ready("start").args(["--ready-ca", &*authority.path("ca.pem")]).run().ok().changed();
    ready("wait").args(["--timeout", "8s"]).run().fails(6, "not_ready").error_has(&["certificate"]);
    ready("wait").args(["--ready-ca", &*authority.path("server.key")]).run().fails(2, "settings_invalid").unchanged();
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn unit_is_ready_when_its_port_opens() {
    let unit = Own::new("ready-tcp", SIMPLE);
    let address = format!("127.0.0.1:{}", os::free_ports(1).unwrap()[0]);
    let ran = unit.start().args(["--ready-tcp", &*address, "--timeout", "8s"]).run().fails(6, "not_ready").changed();
    ran.has(&json!({"after/active_state": "active"})).error_has(&["refused"]);
    let (mut spawned, _polls) = polled(unit.tool("wait").args(["--ready-tcp", &*address, "--settle", "0"]), || ());
    assert!(spawned.is_running());
    let _listener = TcpListener::bind(&address).unwrap();
    spawned.wait().ok();
}

#[test]
fn unit_that_dies_before_ready_fails_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let unit = Own::new("ready-died", &fails_once(&end));
    let address = format!("127.0.0.1:{}", os::free_ports(1).unwrap()[0]);
    // A call that waited for the port would wait until the test counts as hanging.
    let limit = format!("{}s", 2 * wait::HANG.as_secs());
    let start = unit.start().args(["--ready-tcp", &*address, "--timeout", &*limit]);
    let (spawned, _polls) = polled(start, || unit.waits_in("active"));
    fs::write(&end, "").unwrap();
    spawned.wait().fails(1, "unit_failed").changed().error_has(&["started but did not stay active"]);
}

#[test]
fn ready_answer_after_unit_died_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let unit = Own::new("ready-stale", &fails_once(&end));
    let (listener, url) = listener();
    let die = || {
        fs::write(&end, "").unwrap();
        unit.waits_in("failed");
    };
    thread::scope(|scope| {
        scope.spawn(|| answer(&listener, "204 No Content", die));
        let ran = unit.tool("start").args(["--settle", "0", "--ready-url", &*url]).run();
        // Had it not asked at all, nobody would ever be answered.
        let _ = TcpStream::connect(listener.local_addr().unwrap());
        ran.fails(1, "unit_failed").changed().error_has(&["started but did not stay active"]);
    });
}
