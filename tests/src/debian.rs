//! A whole Debian in a container, with a process 1 of its own: what a user manager lacks, such as a journal and users without
//! rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cgroup::Group;
use crate::{children, download, os, wait};

/// A container that runs; it halts when this is dropped.
pub struct Debian {
    child: Child,
    init: Pid,
    group: Group,
}

impl Debian {
    /// The files of one with these packages, `locales` among them (none is started when it is installed), and
    /// with two locales; fetched once, and kept in the cache.
    pub fn files_with(packages: &[&str]) -> Result<PathBuf> {
        let base = download::cached("debian-bookworm", |dir| {
            let mut command = Command::new("debootstrap");
            os::run(command.args(["--variant=minbase", "--include=systemd-sysv,dbus", "bookworm"]).arg(dir)).map(drop)
        })?;
        download::cached(&format!("debian-bookworm-2-{}", packages.join("-")), |dir| {
            os::run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(base.join(".")).arg(dir))?;
            os::file(&dir.join("usr/sbin/policy-rc.d"), "#!/bin/sh\nexit 101\n", 0o755, None)?;
            let within = |args: &[&str]| {
                let mut nspawn = Command::new("systemd-nspawn");
                nspawn.args(["--quiet", "--register=no", "--keep-unit", "--pipe", "--suppress-sync=yes", "--directory"]).arg(dir);
                os::run(nspawn.args(["--setenv=DEBIAN_FRONTEND=noninteractive", "--setenv=LANG=C.UTF-8"]).args(args)).map(drop)
            };
            within(&["apt-get", "update", "-q"])?;
            within(&[&["apt-get", "install", "-q", "-y", "--no-install-recommends"], packages].concat())?;
            for locale in ["de_DE", "tr_TR"] {
                within(&["localedef", "-i", locale, "-f", "UTF-8", &format!("{locale}.UTF-8")])?;
            }
            within(&["apt-get", "clean"])?;
            Ok(fs::remove_file(dir.join("usr/sbin/policy-rc.d"))?)
        })
    }

    /// Boots one of these files, with these options of `systemd-nspawn`.
    pub fn boot(root: &Path, log: &Path, options: &[String]) -> Result<Self> {
        // Two containers in one group have the same `system.slice/NAME.service`, and neither can kill its unit.
        let group = Group::create()?;
        let mut nspawn = children::grouped("sh");
        nspawn.args(group.entered()).args(["systemd-nspawn", "--quiet", "--boot", "--private-network", "--register=no"]);
        nspawn.args(["--keep-unit", "--directory"]).arg(root).args(options);
        let mut child = children::logging(&mut nspawn, log)?.spawn().context("cannot run systemd-nspawn")?;
        let nspawn = children::pid(&child);
        let init = children::until_up("systemd-nspawn", &mut child, log, || os::child(nspawn, "systemd"))?;
        let debian = Self { child, init, group };
        wait::until("the container to be up", wait::HANG, || {
            let state = debian.typed("systemctl is-system-running").ok()?;
            matches!(state.stdout.trim_ascii(), b"running" | b"degraded").then_some(())
        })
        .with_context(|| os::tail(log, 20))?;
        Ok(debian)
    }

    /// Ends it in one moment, as a lost power does.
    pub fn kill(&mut self) {
        let _ = kill(self.init, Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// Runs a line in it, as root types it after a login.
    pub fn typed(&self, line: &str) -> Result<Output> {
        let login =
            ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"];
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.init)).args(["--all", "--root", "--wd", "--"]).args(login);
        Ok(command.args(["bash", "-c", line]).stdin(Stdio::null()).output()?)
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        // One that was killed has been waited for: its number may be another process's by now.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // It passes the order to halt on to the container.
        let _ = kill(children::pid(&self.child), Signal::SIGTERM);
        if !wait::gone(wait::HANG, || !matches!(self.child.try_wait(), Ok(None))) {
            self.group.signal(Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}
