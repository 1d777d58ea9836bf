//! Units of the tests' own, and what a tool asks systemctl for; and what nearly every test uses.

pub use std::fs;
pub use std::net::TcpListener;
pub use std::path::{Path, PathBuf};

pub use nix::sys::signal::Signal;
pub use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::systemd::Systemd;
pub use svc_tests::tool::{Ran, Spawned, Tool};
pub use svc_tests::{os, wait};
pub use tempfile::TempDir;

/// Runs until it is told to end.
pub const SIMPLE: &str = "ExecStart=/bin/sleep 600";
/// Takes no notice of a TERM.
pub const DEAF: &str =
    "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'trap : TERM; systemd-notify --ready; while :; do sleep 0.1; done'";

/// Continues as soon as there is a file of this name.
fn once_there_is(file: &Path, then: &str) -> String {
    format!("ExecStart=/bin/sh -c 'while test ! -e {}; do sleep 0.1; done; {then}'", file.display())
}

/// Ends with status 3 as soon as there is a file of this name.
pub fn fails_once(file: &Path) -> String {
    once_there_is(file, "exit 3")
}

/// Is ready as soon as there is a file of this name.
pub fn ready_once(file: &Path) -> String {
    let service = once_there_is(file, "systemd-notify --ready; exec sleep 600");
    format!("Type=notify\nNotifyAccess=all\nTimeoutStartSec=600\n{service}")
}

/// Has done its work as soon as there is a file of this name.
pub fn done_once(file: &Path) -> String {
    format!("Type=oneshot\n{}", once_there_is(file, "exit 0"))
}

/// A unit of one test, gone when it is dropped.
pub struct Own {
    pub systemd: Systemd,
    pub name: String,
}

impl Own {
    /// `service` is the text of the section `[Service]`.
    pub fn new(name: &str, service: &str) -> Self {
        Self::with(name, "", service)
    }

    pub fn with(name: &str, unit: &str, service: &str) -> Self {
        Self::named(format!("unit-test-{name}-{}.service", std::process::id()), unit, service)
    }

    /// One that cannot run without another one.
    pub fn needing(other: &Self, name: &str, service: &str) -> Self {
        Self::with(name, &format!("Requires={0}\nAfter={0}", other.name), service)
    }

    /// One of just this name.
    pub fn named(name: String, unit: &str, service: &str) -> Self {
        let systemd = manager();
        systemd.install(&name, &format!("[Unit]\n{unit}\n[Service]\n{service}\n")).unwrap();
        Self { systemd, name }
    }

    pub fn file(&self) -> PathBuf {
        self.systemd.unit_dir.join(&self.name)
    }

    pub fn systemctl(&self, verb: &[&str]) {
        os::run(self.systemd.systemctl().args(verb).arg(&self.name)).unwrap();
    }

    pub fn tool(&self, step: &str) -> Tool {
        tool(&self.systemd, step).arg(format!("user:{}", self.name))
    }

    /// With a short time to hold, so that the tests do not crawl.
    pub fn start(&self) -> Tool {
        self.tool("start").args(["--settle", "300ms"])
    }

    /// A start from a document that may name other units too.
    pub fn start_from(&self, document: impl Into<Vec<u8>>) -> Tool {
        tool(&self.systemd, "start").args(["--settle", "300ms", "--from", "-"]).stdin(document)
    }

    pub fn status(&self) -> Value {
        self.tool("status").run().ok().unchanged().result()["after"].clone()
    }

    pub fn is_active(&self) -> bool {
        self.systemd.is_active(&self.name)
    }

    pub fn waits_in(&self, state: &str) {
        let seen = || (self.systemd.property(&self.name, "ActiveState").unwrap() == state).then_some(());
        wait::so(&format!("{} to be {state}", self.name), seen);
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

pub fn tool(systemd: &Systemd, step: &str) -> Tool {
    Tool::new("svc-unit").arg(step).envs(systemd.env())
}

pub fn manager() -> Systemd {
    Host::shared().unwrap().systemd
}

pub fn after<'a>(ran: &'a Ran, key: &str) -> &'a Value {
    &ran.result()["after"][key]
}

/// Starts a tool, waits for what is to be `seen`, and then until the tool knows it: the poll that begins next asks for the state,
/// and the one behind that shows that the tool has taken the answer in. The folder has the record of the polls.
pub fn polled<T>(tool: Tool, seen: impl FnOnce() -> T) -> (Spawned, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let polls = folder.path().join("polls");
    let record = format!("case \" $* \" in *' show '*) echo poll >>'{}' ;; esac", polls.display());
    let spawned = tool.stub(folder.path(), "systemctl", &record).spawn();
    seen();
    let count = || fs::read_to_string(&polls).unwrap_or_default().lines().count();
    let wanted = count() + 2;
    wait::so("the tool to poll", || (count() >= wanted).then_some(()));
    (spawned, folder)
}
