//! A user manager of systemd: the init system of the throw-away host.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;
use crate::host::texts;
use crate::{children, os, wait};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Systemd {
    pub xdg_runtime_dir: PathBuf,
    pub home: PathBuf,
    pub unit_dir: PathBuf,
}

impl Systemd {
    /// The variables that make `systemctl --user` speak to this manager.
    pub fn env(&self) -> Vec<(String, String)> {
        let config = self.home.join(".config");
        texts(&[
            ("HOME", self.home.display()),
            ("XDG_CONFIG_HOME", config.display()),
            ("XDG_RUNTIME_DIR", self.xdg_runtime_dir.display()),
        ])
    }

    pub fn systemctl(&self) -> Command {
        let mut command = Command::new("systemctl");
        command.arg("--user").envs(self.env()).env_remove("DBUS_SESSION_BUS_ADDRESS");
        command
    }

    /// Writes a unit file and makes the manager read it.
    pub fn install(&self, unit: &str, text: &str) -> Result<()> {
        os::file(&self.unit_dir.join(unit), text, 0o644, None)?;
        self.control(&["daemon-reload"])
    }

    pub fn control(&self, args: &[&str]) -> Result<()> {
        os::run(self.systemctl().args(args)).map(drop)
    }

    /// Ends a unit whatever state it is in, and takes its file away; what it holds is no longer wanted, so it is not asked to
    /// put it in order.
    pub fn remove(&self, unit: &str) -> Result<()> {
        // Nothing to kill in a unit that is down is a failure for systemctl, and all right here.
        let _ = self.control(&["kill", "--signal=KILL", "--kill-who=all", unit]);
        self.stop(unit)?;
        let _ = self.control(&["reset-failed", unit]);
        fs::remove_file(self.unit_dir.join(unit)).with_context(|| format!("cannot remove the unit file of {unit}"))?;
        self.control(&["daemon-reload"])
    }

    pub fn start(&self, unit: &str) -> Result<()> {
        self.control(&["start", unit])
    }

    pub fn stop(&self, unit: &str) -> Result<()> {
        self.control(&["stop", unit])
    }

    /// Ends every process of a unit at once, as a power cut would, and waits until the manager has seen it.
    pub fn kill(&self, unit: &str) -> Result<()> {
        self.control(&["kill", "--signal=KILL", "--kill-who=all", unit])?;
        let ended = || (self.property(unit, "ActiveState").ok()? != "active").then_some(());
        wait::until(&format!("the end of {unit}"), wait::HANG, ended)
    }

    pub fn property(&self, unit: &str, name: &str) -> Result<String> {
        os::run(self.systemctl().args(["show", "--value", "--property", name, unit])).map(|text| text.trim_end().to_owned())
    }

    pub fn is_active(&self, unit: &str) -> bool {
        self.property(unit, "ActiveState").is_ok_and(|state| state == "active")
    }
}

/// A running manager and all that it runs; both are gone when this is dropped.
pub struct Manager {
    pub systemd: Systemd,
    child: Child,
    group: Group,
    stopped: bool,
}

impl Manager {
    /// Starts a manager in a new folder. It ends with the thread that called this, even if that is killed.
    pub fn start(dir: &Path) -> Result<Self> {
        // systemd's library asks this folder whether the machine runs systemd at all.
        fs::create_dir_all("/run/systemd/system").context("cannot make /run/systemd/system")?;
        let systemd =
            Systemd { xdg_runtime_dir: dir.join("run"), home: dir.join("home"), unit_dir: dir.join("home/.config/systemd/user") };
        // The servers run as other users and say by the manager's socket that they are ready: they must pass this folder.
        os::folder(dir, 0o755, None)?;
        os::folder(&systemd.xdg_runtime_dir, 0o711, None)?;
        os::folder(&systemd.home, 0o755, None)?;
        os::folder(&systemd.unit_dir, 0o755, None)?;

        let group = Group::create()?;
        let log = dir.join("manager.log");
        let mut command = Command::new("/bin/sh");
        command.args(group.entered()).args(["setpriv", "--pdeathsig", "TERM", "/lib/systemd/systemd", "--user"]);
        command.env_clear().envs(systemd.env()).env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        // ^C on the terminal is for the command that runs in the host, not for the host.
        command.env("LANG", "C.UTF-8").process_group(0);
        let child = children::logging(&mut command, &log)?.spawn().context("cannot start systemd --user")?;
        let mut manager = Self { systemd, child, group, stopped: false };

        let socket = manager.systemd.xdg_runtime_dir.join("systemd/private");
        children::until_up("systemd --user", &mut manager.child, &log, || socket.exists().then_some(()))?;
        // A user manager expects its own user only; here the servers, who are others, say on this socket that they are ready.
        let notify = manager.systemd.xdg_runtime_dir.join("systemd/notify");
        os::chmod(&notify, 0o777);
        Ok(manager)
    }

    /// Stops every unit, then the manager. Fails, after having killed it, if anything had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        if self.stopped {
            return Ok(());
        }
        self.stopped = true;
        // TERM makes a user manager stop all its units and leave.
        kill(children::pid(&self.child), Signal::SIGTERM).ok();
        let left = wait::gone(wait::HANG, || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)));
        let survivors = self.group.processes();
        // Killing may take a second round: a process can have made a child between the poll and the signal.
        let empty = wait::gone(wait::HANG, || {
            self.group.signal(Signal::SIGKILL);
            let _ = self.child.try_wait();
            self.group.processes().is_empty()
        });
        ensure!(empty, "processes of the throw-away host could not be ended: {:?}", self.group.processes());
        ensure!(left, "systemd --user did not leave in time and was killed");
        ensure!(survivors.is_empty(), "processes had outlived systemd --user and were killed: {survivors:?}");
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("svc-testhost: {error:#}");
        }
    }
}
