//! Running a tool or a script of the product as an operator's shell does, and holding its document against its schema.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fmt, fs};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::{os, wait};

/// After how long a tool that does not end is killed and the test fails.
const LIMIT: Duration = Duration::from_secs(300);

/// The folder of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate is inside the workspace")
}

/// The folder of the built tools: `SVC_TEST_BIN_DIR`, else the one that cargo put this test beside.
pub fn bin_dir() -> PathBuf {
    if let Some(dir) = env::var_os("SVC_TEST_BIN_DIR") {
        return PathBuf::from(dir);
    }
    let test = env::current_exe().expect("this test has a path");
    let folder = test.parent().expect("an executable is in a folder");
    if folder.ends_with("deps") { folder.parent().expect("deps is in a folder").to_owned() } else { folder.to_owned() }
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
    /// A built program of the workspace, such as `svc-snap`.
    pub fn new(name: &str) -> Self {
        Self::program(bin_dir().join(name))
    }

    /// A script of the folder `scripts`, such as `svc-backup`.
    pub fn script(name: &str) -> Self {
        Self::program(root().join("scripts").join(name))
    }

    /// Any other program that keeps the contract.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        assert!(path.exists(), "{} is not there: `cargo build --workspace` builds it", path.display());
        let inherited = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin_dir()).chain(env::split_paths(&inherited));
        let search = env::join_paths(folders).expect("no folder of PATH has a colon in it");
        Self {
            program: path,
            args: Vec::new(),
            env: BTreeMap::from([("PATH".into(), search), ("LANG".into(), "C.UTF-8".into())]),
            stdin: None,
            dir: env::temp_dir(),
            user: None,
            limit: LIMIT,
            talks: false,
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets several variables, such as those of [`crate::host::Host::env`].
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(mut self, vars: impl IntoIterator<Item = (N, V)>) -> Self {
        self.env.extend(vars.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Takes a variable away again.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.env.remove(std::ffi::OsStr::new(name));
        self
    }

    /// What the tool finds on its stdin; without, that is `/dev/null`.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(text.into());
        self
    }

    /// The folder it is run in; without, the one for temporary files.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Runs it as another user.
    pub fn as_user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// After how long it is killed and the test fails; 5 minutes without.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Allows it to write to stderr although it succeeds: it was asked for `--progress` or `--verbose`.
    pub fn talks(mut self) -> Self {
        self.talks = true;
        self
    }

    /// Runs it to its end. The test fails if it breaks the contract: more than one document, a document that its schema does not
    /// allow or that disagrees with the exit status, a success that is not silent on stderr.
    pub fn run(self) -> Ran {
        self.spawn().wait()
    }

    /// Starts it, for a test that does something meanwhile.
    pub fn spawn(self) -> Spawned {
        let mut command = match &self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(os::run_as(user)).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        let mut child = command
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.dir)
            // A group of its own, so that a test can do to it what the end of an ssh session does.
            .process_group(0)
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        if let (Some(text), Some(mut pipe)) = (self.stdin.clone(), child.stdin.take()) {
            // A tool that refuses before it reads closes the pipe; that is its right.
            thread::spawn(move || drop(pipe.write_all(&text)));
        }
        let stdout = Reader::new(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Reader::new(child.stderr.take().expect("stderr is a pipe"));
        Spawned { tool: self, child, stdout, stderr }
    }
}

/// What a pipe has brought so far.
#[derive(Debug)]
struct Reader {
    text: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                sink.lock().expect("nobody panics with the lock").extend_from_slice(&buffer[..count]);
            }
        });
        Self { text, thread }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("nobody panics with the lock")).into_owned()
    }
}

/// A tool at work.
#[derive(Debug)]
pub struct Spawned {
    tool: Tool,
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

/// A test that fails in between leaves no tool at work, nor what it started.
impl Drop for Spawned {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

impl Spawned {
    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are small"))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot send {signal} to {}: {error}", self.tool.program.display()));
    }

    /// Sends a signal to it and to all its children, as the end of a terminal session does.
    pub fn signal_group(&self, signal: Signal) {
        killpg(self.pid(), signal)
            .unwrap_or_else(|error| panic!("cannot send {signal} to {}: {error}", self.tool.program.display()));
    }

    /// What it has written to stderr up to now.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.so_far()
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end and looks at what it printed, as [`Tool::run`] does.
    pub fn wait(mut self) -> Ran {
        let ended = wait::until("the tool", self.tool.limit, || self.child.try_wait().ok().flatten());
        let Ok(status) = ended else {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
            let (limit, out, err) = (self.tool.limit, self.stdout.so_far(), self.stderr.so_far());
            panic!("{:?} did not end within {limit:?}\nstdout: {out}\nstderr: {err}", self.tool);
        };
        let readers = [&self.stdout, &self.stderr];
        let closed = wait::gone(Duration::from_secs(10), || readers.iter().all(|reader| reader.thread.is_finished()));
        let ran = Ran {
            program: self.tool.program.clone(),
            args: self.tool.args.clone(),
            status: number(status),
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
            document: None,
        };
        assert!(closed, "a process that the tool left behind holds its output open\n{ran}");
        ran.judged(self.tool.talks)
    }
}

/// What a call came to.
#[derive(Debug, Clone)]
pub struct Ran {
    program: PathBuf,
    args: Vec<OsString>,
    /// The exit status; 128 and the signal's number for a tool that a signal ended.
    pub status: i32,
    /// All that it wrote to stdout.
    pub stdout: String,
    /// All that it wrote to stderr.
    pub stderr: String,
    /// The document; `None` for `--help`, `--version`, a wrong command line, and a tool that was killed.
    pub document: Option<Value>,
}

impl fmt::Display for Ran {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} {:?}\nstatus: {}", self.program.display(), self.args, self.status)?;
        match &self.document {
            Some(document) => writeln!(out, "document: {document:#}")?,
            None => writeln!(out, "stdout: {}", self.stdout)?,
        }
        write!(out, "stderr: {}", self.stderr)
    }
}

impl Ran {
    fn judged(mut self, talks: bool) -> Self {
        if self.stdout.trim_start().starts_with('{') {
            let mut documents: Vec<Value> = serde_json::Deserializer::from_str(&self.stdout)
                .into_iter()
                .collect::<Result<_, _>>()
                .unwrap_or_else(|error| panic!("stdout is not JSON to its end: {error}\n{self}"));
            assert!(documents.len() == 1, "stdout has {} documents, not one\n{self}", documents.len());
            self.document = documents.pop();
            self.check_document();
        }
        assert!(talks || self.status != 0 || self.stderr.is_empty(), "it succeeded, and was not silent on stderr\n{self}");
        self
    }

    fn check_document(&self) {
        let document = self.doc();
        let schema_file = schema_file(&self.schema());
        let text = fs::read_to_string(&schema_file)
            .unwrap_or_else(|error| panic!("no schema {}: {error}\n{self}", schema_file.display()));
        let schema: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{} is not JSON: {error}", schema_file.display()));
        let validator = jsonschema::validator_for(&schema)
            .unwrap_or_else(|error| panic!("{} is no JSON Schema: {error}", schema_file.display()));
        let errors: Vec<String> =
            validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{} does not allow the document:\n{}\n{self}", schema_file.display(), errors.join("\n"));

        let good = matches!(self.status, 0 | 9);
        assert!(document["ok"] == good, "the exit status and `ok` disagree\n{self}");
        assert!(document["error"].is_null() == good, "the exit status and `error` disagree\n{self}");
        if self.status == 9 {
            assert!(document["warnings"].as_array().is_some_and(|all| !all.is_empty()), "status 9 without a warning\n{self}");
        }
    }

    /// The document; the test fails if there is none.
    pub fn doc(&self) -> &Value {
        self.document.as_ref().unwrap_or_else(|| panic!("no document\n{self}"))
    }

    /// The document's schema name, such as `svc-snap.create/1`.
    pub fn schema(&self) -> String {
        self.doc()["schema"].as_str().unwrap_or_else(|| panic!("the document names no schema\n{self}")).to_owned()
    }

    /// The document's `result`.
    pub fn result(&self) -> &Value {
        &self.doc()["result"]
    }

    /// The document as text, for the next tool's stdin.
    pub fn text(&self) -> String {
        self.stdout.clone()
    }

    /// Asserts that it is done (exit 0).
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status == 0, "expected success\n{self}");
        self.doc();
        self
    }

    /// Asserts that it is done and that a person must look (exit 9), with a warning of that code.
    #[track_caller]
    pub fn review(self, code: &str) -> Self {
        assert!(self.status == 9, "expected exit 9\n{self}");
        self.warns(code)
    }

    /// Asserts that one of the warnings has that code.
    #[track_caller]
    pub fn warns(self, code: &str) -> Self {
        let warnings = self.doc()["warnings"].as_array().cloned().unwrap_or_default();
        assert!(warnings.iter().any(|warning| warning["code"] == code), "expected the warning {code}\n{self}");
        self
    }

    /// Asserts that it failed with that status and that `error.code`, and that people are told in sentences what is wrong and
    /// what helps, in the document and on stderr.
    #[track_caller]
    pub fn fails(self, status: i32, code: &str) -> Self {
        assert!(self.status == status, "expected exit {status}\n{self}");
        let error = &self.doc()["error"];
        assert!(error["code"] == code, "expected error.code {code}\n{self}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.ends_with('.') && message.contains(' '), "error.message is no sentence\n{self}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "error.hint says nothing\n{self}");
        assert!(self.stderr.contains(message), "stderr does not say what is wrong\n{self}");
        self
    }

    /// The same for a safety rule that said no (exit 3): nothing was changed.
    #[track_caller]
    pub fn refused(self, code: &str) -> Self {
        self.fails(3, code).unchanged()
    }

    /// Asserts that the call altered something.
    #[track_caller]
    pub fn changed(self) -> Self {
        assert!(self.doc()["changed"] == true, "expected changed:true\n{self}");
        self
    }

    /// Asserts that the call altered nothing.
    #[track_caller]
    pub fn unchanged(self) -> Self {
        assert!(self.doc()["changed"] == false, "expected changed:false\n{self}");
        self
    }
}

/// Where the schema of a document lies: `svc-snap.create/1` beside the tool, that of a script in `scripts/schema`.
fn schema_file(name: &str) -> PathBuf {
    let (tool_and_step, _major) = name.split_once('/').unwrap_or((name, ""));
    let (tool, step) = tool_and_step.split_once('.').unwrap_or((tool_and_step, ""));
    let of_tool = root().join(tool);
    if of_tool.join("Cargo.toml").exists() {
        return of_tool.join("schema").join(format!("{step}.json"));
    }
    let scripts = root().join("scripts/schema");
    let of_step = scripts.join(format!("{tool_and_step}.json"));
    if of_step.exists() { of_step } else { scripts.join(format!("{tool}.json")) }
}

fn number(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Tool {
        Tool::program("/bin/sh").args(["-c", script])
    }

    #[test]
    fn a_call_gets_only_what_it_is_given() {
        let ran = shell("cat; echo $GIVEN; env | grep -c -e ^HOME= -e ^CARGO").env("GIVEN", "this").stdin("in\n").run();
        assert_eq!((ran.status, ran.stdout.as_str()), (1, "in\nthis\n0\n"));
        assert_eq!(shell("cat").run().stdout, "");
    }

    #[test]
    fn a_signal_is_seen_in_the_status() {
        let tool = shell("echo ready >&2; exec sleep 60").spawn();
        wait::until("the shell", Duration::from_secs(10), || tool.stderr_so_far().contains("ready").then_some(())).unwrap();
        tool.signal_group(Signal::SIGTERM);
        assert_eq!(tool.wait().status, 143);
    }

    #[test]
    fn a_tool_that_nobody_waits_for_is_ended_with_what_it_started() {
        let tool = shell("sleep 60 & echo $! >&2; wait").spawn();
        let said = wait::until("its child", Duration::from_secs(10), || tool.stderr_so_far().trim().parse().ok()).unwrap();
        drop(tool);
        assert!(wait::gone(Duration::from_secs(10), || kill(Pid::from_raw(said), None).is_err()));
    }

    #[test]
    #[should_panic(expected = "stdout has 2 documents, not one")]
    fn two_documents_are_one_too_many() {
        shell("echo '{}'; echo '{}'").run();
    }

    #[test]
    #[should_panic(expected = "stdout is not JSON to its end")]
    fn a_document_must_be_whole() {
        shell("echo '{\"schema\":'").run();
    }

    #[test]
    #[should_panic(expected = "no schema")]
    fn a_document_needs_a_schema() {
        shell("echo '{\"schema\":\"svc-snap.dance/1\"}'").run();
    }

    #[test]
    #[should_panic(expected = "was not silent on stderr")]
    fn a_success_is_silent() {
        shell("echo done >&2").run();
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_tool_that_hangs_is_killed() {
        shell("sleep 60").limit(Duration::from_millis(200)).run();
    }

    #[test]
    #[should_panic(expected = "left behind holds its output open")]
    fn a_tool_leaves_nobody_behind() {
        shell("sleep 15 & exit 0").run();
    }
}
