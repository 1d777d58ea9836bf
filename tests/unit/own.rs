//! Units of the tests' own, and a systemctl that notes what it is asked.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;
use svc_tests::host::Host;
use svc_tests::systemd::Systemd;
use svc_tests::tool::{Ran, Spawned, Tool};
use svc_tests::{os, wait};
use tempfile::TempDir;

/// Runs until it is told to end.
pub const SIMPLE: &str = "ExecStart=/bin/sleep 600";
/// Says that it is ready after two seconds.
pub const SLOW: &str =
    "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'sleep 2; systemd-notify --ready; exec sleep 600'\nTimeoutStartSec=60";
/// Takes longer to start than a call takes on a busy machine.
pub const LATE: &str =
    "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'sleep 12; systemd-notify --ready; exec sleep 600'\nTimeoutStartSec=60";
/// Ends with status 3 after a second.
pub const SHORT: &str = "ExecStart=/bin/sh -c 'sleep 1; exit 3'";

/// Ends with status 3 as soon as there is a file of this name.
pub fn until_there_is(file: &Path) -> String {
    format!("ExecStart=/bin/sh -c 'while test ! -e {}; do sleep 0.1; done; exit 3'", file.display())
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

    /// One of just this name.
    pub fn named(name: String, unit: &str, service: &str) -> Self {
        let systemd = Host::shared().unwrap().systemd;
        systemd.install(&name, &format!("[Unit]\n{unit}\n[Service]\n{service}\n")).unwrap();
        Self { systemd, name }
    }

    pub fn file(&self) -> PathBuf {
        self.systemd.unit_dir.join(&self.name)
    }

    pub fn reload(&self) {
        os::run(self.systemd.systemctl().arg("daemon-reload")).unwrap();
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

    pub fn status(&self) -> Value {
        self.tool("status").run().ok().unchanged().result()["after"].clone()
    }

    pub fn waits_in(&self, state: &str) {
        let seen = || (self.systemd.property(&self.name, "ActiveState").unwrap() == state).then_some(());
        wait::until(&format!("{} to be {state}", self.name), svc_tests::wait::HANG, seen).unwrap();
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

pub fn says(ran: &Ran, text: &str) {
    let error = &ran.doc()["error"];
    let told = format!("{} {} {}", error["message"], error["hint"], error["causes"]);
    assert!(told.contains(text), "the error does not speak of `{text}`\n{ran}");
}

/// A systemctl that records how often the tool has asked for the state.
pub struct Polls {
    folder: TempDir,
}

impl Polls {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = env::var_os("PATH").unwrap();
        let real = env::split_paths(&path).map(|folder| folder.join("systemctl")).find(|file| file.exists()).unwrap();
        let (real, notes) = (real.display(), folder.path().join("polls"));
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in\n*' show '*) {real} \"$@\"; rc=$?; echo poll >>'{}'; exit $rc ;;\n*) exec {real} \"$@\" ;;\nesac\n",
            notes.display()
        );
        let file = folder.path().join("systemctl");
        svc_tests::os::write_program(&file, script).unwrap();
        Self { folder }
    }

    /// The tool, which is to use it.
    pub fn of(&self, tool: Tool) -> Tool {
        let inherited = env::var_os("PATH").unwrap();
        let folders = std::iter::once(self.folder.path().to_owned()).chain(env::split_paths(&inherited));
        tool.env("PATH", env::join_paths(folders).unwrap())
    }

    pub fn count(&self) -> usize {
        fs::read_to_string(self.folder.path().join("polls")).unwrap_or_default().lines().count()
    }

    /// Until the tool knows the current state: one poll may be under way, the next one begins later, and the third shows that
    /// the second has been taken in.
    pub fn wait(&self) {
        let wanted = self.count() + 3;
        wait::until("the tool to poll", svc_tests::wait::HANG, || (self.count() >= wanted).then_some(())).unwrap();
    }
}

/// Until its request has reached the manager.
pub fn once_activating(unit: &Own, tool: Tool) -> Spawned {
    let spawned = tool.spawn();
    unit.waits_in("activating");
    spawned
}
