//! What the script's calls of `svc-run` ask of the supervisor: one request and one reply, each a line of JSON, over a socket in the run
//! directory.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use svc_step::Failure;
use svc_step::journal::Undo;

/// The socket's name in the run directory.
const SOCKET: &str = "socket";

/// A request of the script: a verb of its command line.
#[derive(Debug, Serialize, Deserialize, Subcommand)]
pub enum Request {
    /// Run a step, and wait for it
    Step(Step),
    /// Run a step in parallel to what follows
    Start(Step),
    /// Wait for started steps; the first that fails ends the others
    Wait {
        /// Let the other steps finish
        #[arg(long)]
        all: bool,
        #[arg(required = true)]
        steps: Vec<String>,
    },
    /// Register a command that is run, in reverse order, if the run fails before `commit`; registered after `commit`, if it fails later
    Undo(Undo),
    /// The point of no return: from here on the run is resumed, not undone
    Commit {
        /// How to go back from there, as lines; the hint on resuming the run is added
        #[arg(long, default_value = "")]
        hint: String,
    },
    /// Show the checks of the preflight; a failed one ends the run
    Verdict,
    /// Add a fact to the last document
    Note {
        /// The fact is a list
        #[arg(long)]
        list: bool,
        key: String,
        values: Vec<String>,
    },
    /// Add a warning to the last document
    Warn { code: String, text: String },
    /// End the run with this status, code, sentence and hint
    Fail { status: u8, code: String, text: String, hint: String },
}

/// One step, as the script asks for it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct Step {
    pub name: String,
    #[command(flatten)]
    pub options: Options,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
    /// The working directory of the script.
    #[arg(skip)]
    pub directory: PathBuf,
    /// The environment of the script.
    #[arg(skip)]
    pub environment: Vec<(OsString, OsString)>,
}

/// How a step is run, and what its failure is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct Options {
    /// The step changes nothing: --dry-run runs it too
    #[arg(long)]
    pub reads: bool,
    /// --reads, and a failure is a verdict, which `svc-run verdict` shows
    #[arg(long)]
    pub preflight: bool,
    /// Skip it unless that step is ok
    #[arg(long, value_name = "STEP")]
    pub needs: Option<String>,
    /// Skip it if that step is ok
    #[arg(long, value_name = "STEP")]
    pub unless: Option<String>,
    /// A command without a document of its own (installer, uninstaller, hook)
    #[arg(long, conflicts_with_all = ["reads", "preflight", "ok"])]
    pub external: bool,
    /// Run it even if an earlier attempt was ok
    #[arg(long)]
    pub again: bool,
    /// This exit status does not count as a failure (4: not there)
    #[arg(long, value_name = "STATUS")]
    pub ok: Option<i32>,
    /// A failure is this warning
    #[arg(long, value_name = "CODE", conflicts_with_all = ["or_review", "defer"])]
    pub or_warn: Option<String>,
    /// A failure is this warning, and a person must read it (9)
    #[arg(long, value_name = "CODE", conflicts_with = "defer")]
    pub or_review: Option<String>,
    /// A failure of one of these codes is a warning of that code; any other is a failure
    #[arg(long, value_name = "CODE,...", value_delimiter = ',', conflicts_with_all = ["or_warn", "or_review", "defer"])]
    pub warn_if: Vec<String>,
    /// What helps after a failure of this code, in place of the tool's hint
    #[arg(long, num_args = 2, value_names = ["CODE", "TEXT"])]
    pub hint: Vec<String>,
    /// A failure ends the run only when the script has ended
    #[arg(long)]
    pub defer: bool,
}

/// A path to the socket that is short enough for the kernel, which takes 108 bytes, however long the run directory's is. Valid as long as
/// the directory is open.
fn address(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

pub fn listen(run: &Path) -> Result<UnixListener, Failure> {
    let fault = |error: std::io::Error| Failure::io("open the socket of the run", &run.join(SOCKET), &error);
    let folder = File::open(run).map_err(fault)?;
    match std::fs::remove_file(run.join(SOCKET)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fault(error)),
        _ => UnixListener::bind(address(&folder)).map_err(fault),
    }
}

pub fn close(run: &Path) {
    let _ = std::fs::remove_file(run.join(SOCKET));
}

/// The way to the supervisor of a run.
/// Errors: it is gone (1).
pub fn connect(run: &Path) -> Result<UnixStream, Failure> {
    let folder = File::open(run).map_err(|error| gone(&error))?;
    UnixStream::connect(address(&folder)).map_err(|error| gone(&error))
}

fn gone(error: &dyn Display) -> Failure {
    Failure::fault("The supervisor of the run is gone.")
        .hint("The next call of any script finishes what is left. To see it:\n  svc-run status")
        .cause(error.to_string())
}

/// The exit status that the supervisor gives to a call.
pub fn ask(run: &Path, request: &Request) -> Result<i32, Failure> {
    let mut stream = connect(run)?;
    send(&mut stream, request).map_err(|error| gone(&error))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| gone(&error))?;
    serde_json::from_str(&line).map_err(|error| gone(&error))
}

pub fn send(stream: &mut UnixStream, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads one request; none from another user, or if the caller is gone.
pub fn receive(stream: &UnixStream) -> Option<Request> {
    let peer = nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    if peer.uid() != nix::unistd::Uid::effective().as_raw() {
        return None;
    }
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
