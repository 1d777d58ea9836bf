//! A script that runs on a terminal, which `script` plays.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};
use serde_json::Value;

use crate::journey::newest_run;
use crate::product::Product;
use crate::tool::{root, search_path};
use crate::{os, wait};

/// A command line with the tools first in `PATH`, to be typed on a terminal that is seen on stdout.
pub fn on_terminal(typed: &str) -> Command {
    let mut command = Command::new("script");
    command.args(["-qec", typed, "/dev/null"]).env("PATH", search_path([])).env("TERM", "xterm").stdin(Stdio::null());
    command
}

pub struct Terminal {
    player: Child,
    screen: PathBuf,
}

impl Terminal {
    /// Opens one, with such settings, in which that is typed.
    pub fn open(product: &Product, typed: &str, settings: &[(&str, &str)]) -> Self {
        let screen = product.path("screen");
        let _ = fs::remove_file(&screen);
        let mut script = Command::new("script");
        let player = player(script.args(["-qefc", typed]).arg(&screen), product, settings, &[]);
        Self { player, screen }
    }

    pub fn shows(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.screen).unwrap_or_default()).into_owned()
    }

    pub fn wait_for(&self, text: &str) {
        wait::until(text, wait::HANG, || self.shows().contains(text).then_some(()))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.shows()));
    }

    pub fn wait(&mut self) {
        self.player.wait().unwrap();
    }

    pub fn type_in(&mut self, text: &str) {
        self.player.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The end of the window, or of ssh: the kernel hangs up.
    pub fn close(mut self) {
        self.player.kill().unwrap();
        self.player.wait().unwrap();
    }

    pub fn signal_all(&self, signal: Signal) {
        let player = self.player.id();
        let child = fs::read_to_string(format!("/proc/{player}/task/{player}/children")).unwrap();
        let session = Pid::from_raw(child.split_whitespace().next().unwrap().parse().unwrap());
        for pid in os::processes().filter(|pid| getsid(Some(*pid)) == Ok(session)) {
            // It may have ended by itself.
            let _ = kill(pid, signal);
        }
    }
}

/// Starts what plays a terminal, with the product's settings and nothing else in the environment; these folders come first in the
/// `PATH`.
pub fn player(command: &mut Command, product: &Product, settings: &[(&str, &str)], folders: &[PathBuf]) -> Child {
    let path = search_path(folders.iter().cloned().chain([root().join("scripts")]));
    command.env_clear().envs(product.env()).envs(settings.iter().copied()).env("PATH", path);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the newest run, whose name has `kind` in it, has written its last document.
pub fn ended(product: &Product, kind: &str) -> Value {
    wait::so("the run's own end", || {
        let run = newest_run(product);
        let of = run.file_name()?.to_string_lossy().contains(kind);
        let text = fs::read_to_string(run.join("document.json")).ok().filter(|_| of)?;
        serde_json::from_str(&text).ok()
    })
}
