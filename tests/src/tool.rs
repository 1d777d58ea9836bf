//! Running a tool or a script of the product as an operator's shell does, and checking its document against its schema.

mod ran;
mod spawned;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

pub use self::ran::{Ran, schema_file};
pub use self::spawned::Spawned;
use crate::{os, wait};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate is inside the workspace")
}

/// The folder of the built tools: the one that cargo put this test beside.
pub fn bin_dir() -> PathBuf {
    let test = env::current_exe().expect("this test has a path");
    let folder = test.parent().expect("an executable is in a folder");
    if folder.ends_with("deps") { folder.parent().expect("deps is in a folder").to_owned() } else { folder.to_owned() }
}

/// A `PATH`: these folders, the tools', and those of the tests' own.
pub fn search_path(folders: impl IntoIterator<Item = PathBuf>) -> OsString {
    let inherited = env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().chain([bin_dir()]).chain(env::split_paths(&inherited));
    env::join_paths(all).expect("no folder of PATH has a colon in it")
}

/// A call of a tool, to be filled in and run. Its environment holds what it is given here, `PATH` (with the tools first) and
/// `LANG`, nothing else.
#[derive(Debug, Clone)]
pub struct Tool {
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    stdin: Option<Vec<u8>>,
    dir: PathBuf,
    user: Option<String>,
    limit: Duration,
    talks: bool,
}

impl Tool {
    /// A built program of the workspace, such as `svc-snap`, or a script of the folder `scripts`, such as `svc-backup`.
    pub fn new(name: &str) -> Self {
        let script = root().join("scripts").join(name);
        Self::program(if script.exists() { script } else { bin_dir().join(name) })
    }

    pub fn program(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        assert!(path.exists(), "{} is not there: `cargo build --workspace` builds it", path.display());
        Self {
            program: path,
            args: Vec::new(),
            env: BTreeMap::from([("PATH".into(), search_path([])), ("LANG".into(), "C.UTF-8".into())]),
            stdin: None,
            dir: env::temp_dir(),
            user: None,
            limit: wait::HANG,
            talks: false,
        }
    }

    /// Runs it through another program, such as `strace`, which gets these arguments and then its command line.
    pub fn through<A: Into<OsString>>(mut self, program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> Self {
        let own = std::mem::replace(&mut self.program, program.into());
        self.args = args.into_iter().map(Into::into).chain([own.into_os_string()]).chain(self.args).collect();
        self
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets several variables, such as those of [`crate::host::Host::env`].
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(mut self, vars: impl IntoIterator<Item = (N, V)>) -> Self {
        self.env.extend(vars.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    pub fn env_remove(mut self, name: &str) -> Self {
        self.env.remove(OsStr::new(name));
        self
    }

    /// Puts a shell script of that name first in `PATH`: it does what is given here, and continues as the real program.
    pub fn stub(mut self, folder: &Path, name: &str, does: &str) -> Self {
        let inherited = self.env.get(OsStr::new("PATH")).expect("there is a PATH").clone();
        let real = env::split_paths(&inherited).map(|folder| folder.join(name)).find(|path| path.exists());
        let real = real.unwrap_or_else(|| panic!("{name} is not on the PATH"));
        fs::create_dir_all(folder).expect("the folder of a stub can be made");
        let stub = folder.join(name);
        let text = format!("#!/bin/sh\n{does}\nexec '{}' \"$@\"\n", real.display());
        crate::os::write_program(&stub, text).expect("a stub can be written");
        let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&inherited));
        self.env.insert("PATH".into(), env::join_paths(folders).expect("no folder of PATH has a colon in it"));
        self
    }

    /// Without, its stdin is `/dev/null`.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// The folder that it runs in; without, the one for temporary files.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    pub fn as_user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Allows it to write to stderr although it succeeds: it has `--progress` or `--verbose`.
    pub fn talks(mut self) -> Self {
        self.talks = true;
        self
    }

    /// Runs it to its end. The test fails if it breaks the contract: more than one document, a document that its schema does not
    /// allow or that disagrees with the exit status, a success that is not silent on stderr.
    pub fn run(self) -> Ran {
        self.spawn().wait()
    }

    pub fn spawn(self) -> Spawned {
        let mut command = match &self.user {
            Some(user) => os::command_as(user, &self.program),
            None => Command::new(&self.program),
        };
        // A group of its own, so that a test can do to it what the end of an ssh session does.
        command.args(&self.args).env_clear().envs(&self.env).current_dir(&self.dir).process_group(0);
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        if let (Some(text), Some(mut pipe)) = (self.stdin.clone(), child.stdin.take()) {
            // A tool that refuses before it reads closes the pipe; that is its right.
            thread::spawn(move || drop(pipe.write_all(&text)));
        }
        Spawned::new(self, child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_violation_fails_test() {
        let limits = [wait::HANG, Duration::from_secs(10)];
        for (script, limit, why) in [
            ("echo '{}'; echo '{}'", limits[0], "stdout has 2 documents, not one"),
            ("echo '{\"schema\":'", limits[0], "stdout is not JSON to its end"),
            ("echo '{\"schema\":\"svc-snap.dance/1\"}'", limits[0], "has no svc-snap.dance"),
            ("echo done >&2", limits[0], "was not silent on stderr"),
            ("sleep 60", Duration::from_millis(200), "did not end within"),
            // More than the shell needs on any machine.
            ("sleep 600 & exit 0", limits[1], "left behind holds its output open"),
        ] {
            let tool = Tool { limit, ..Tool::program("/bin/sh").args(["-c", script]) };
            let panic = std::panic::catch_unwind(|| tool.run()).unwrap_err();
            assert!(panic.downcast_ref::<String>().unwrap().contains(why), "{script}: {panic:?}");
        }
    }
}
