//! `svc-run hold`: runs an external command in a session of its own, and writes its output and its exit status into the journal, whatever
//! becomes of the supervisor. The supervisor calls it; nobody types it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use nix::fcntl::{FallocateFlags, fallocate};
use svc_step::child::exit_status;
use svc_step::file;
use svc_step::journal::with_ending;

use super::external::{NOT_BEGUN, started_at};
use super::private_arguments;

/// The disk space that is taken beforehand for what the command prints: the disk may be full later, and a command that cannot print may
/// fail of that.
const RESERVED: i64 = 1024 * 1024;
/// How much of what the command prints is shown at a time.
const SHOWN: u64 = 1024 * 1024;

/// How the command is held.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The path of the step's files, without their endings
    #[arg(long)]
    files: PathBuf,
    /// How many of the last arguments are removed from the output
    #[arg(long)]
    private: usize,
    /// The service's lock, which is not the command's
    #[arg(long, value_name = "FD")]
    lock: Option<i32>,
    /// The command reads from the terminal, and prints there too
    #[arg(long)]
    terminal: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Holds the command.
pub fn run(args: &HoldArgs) -> ExitCode {
    match hold(args) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            super::console::plain(&format!("svc-run hold: {error}"));
            ExitCode::from(error.raw_os_error().and_then(|number| u8::try_from(number).ok()).unwrap_or(NOT_BEGUN))
        }
    }
}

fn hold(args: &HoldArgs) -> io::Result<i32> {
    // It was started as /proc/self/exe, and `pgrep` and the log of the system would call it `exe`.
    nix::sys::prctl::set_name(c"svc-run")?;
    // The lock of external commands: the supervisor has taken it, and hands it over as standard input. The copy is not inherited.
    let _lock = io::stdin().as_fd().try_clone_to_owned()?;
    if let Some(lock) = args.lock {
        nix::unistd::close(lock)?;
    }
    if !args.terminal {
        nix::unistd::setsid()?;
    }
    // Handled, not ignored, which the command would inherit. What ends a terminal must not end whoever waits for the command.
    for signal in [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let path = |ending: &str| with_ending(&args.files, ending);
    let status_file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path("rc.partial"))?;
    status_file.write_all_at(b"000\n", 0)?;
    // The space of both is taken before: the command may fill the disk at once.
    let process_file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path("process"))?;
    process_file.write_all_at(&[b'\n'; 64], 0)?;
    let mut output = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path("out.partial"))?;
    reserve_space(&output)?;
    fs::rename(path("out.partial"), path("out"))?;
    // That it began is known after a power cut too; one whose begin cannot be recorded is not begun.
    let recorded =
        output.sync_all().and_then(|()| file::sync_folder_of(&args.files).map_err(|failure| io::Error::other(failure.message)));
    recorded.inspect_err(|_| drop(fs::remove_file(path("out"))))?;

    // One that the system does not take has changed nothing, and is not begun either.
    let (child, terminal) = begin(args, &output).inspect_err(|_| drop(fs::remove_file(path("out"))))?;
    let status = end_of(args, child, terminal, &process_file)?;
    if args.private > 0 {
        let private: Vec<Vec<u8>> =
            args.command.iter().rev().take(args.private).map(|word| word.as_encoded_bytes().to_vec()).collect();
        if private_arguments::hide(&path("out"), &private).is_err() {
            output.set_len(0)?;
            output.write_all(private_arguments::REMOVED.as_bytes())?;
        }
    }
    // Installers sync nothing: what this one has laid, wherever that is, must not be lost with the power once it counts as done.
    nix::unistd::sync();
    let text = format!("{status}\n");
    status_file.write_all_at(text.as_bytes(), 0)?;
    status_file.set_len(text.len() as u64)?;
    status_file.sync_all()?;
    fs::rename(path("rc.partial"), path("rc"))?;
    file::sync_folder_of(&args.files).map_err(|failure| io::Error::other(failure.message))?;
    // What it did not need is given back.
    let length = output.metadata()?.len();
    let _ = output.set_len(length);
    Ok(status)
}

fn reserve_space(output: &File) -> io::Result<()> {
    match fallocate(output, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, RESERVED) {
        // Not every file system can.
        Err(nix::Error::EOPNOTSUPP) => Ok(()),
        other => Ok(other?),
    }
}

/// The command, and the terminal that it reads from.
fn begin(args: &HoldArgs, output: &File) -> io::Result<(Child, Option<File>)> {
    let Some((program, arguments)) = args.command.split_first() else { return Err(io::Error::other("no command")) };
    let mut command = Command::new(program);
    command.args(arguments);
    let terminal = if args.terminal { OpenOptions::new().read(true).write(true).open("/dev/tty").ok() } else { None };
    command.stdin(terminal.as_ref().map_or(Ok(Stdio::null()), |terminal| terminal.try_clone().map(Stdio::from))?);
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    Ok((command.spawn()?, terminal))
}

/// Its exit status as a shell gives it.
fn end_of(args: &HoldArgs, mut child: Child, terminal: Option<File>, process_file: &File) -> io::Result<i32> {
    let process = child.id().to_string();
    if let Some(started) = started_at(&process) {
        let _ = process_file.write_all_at(format!("{process} {started}\n").as_bytes(), 0);
    }
    let ended = match terminal {
        Some(terminal) => show_until_ended(&mut child, File::open(with_ending(&args.files, "out"))?, terminal)?,
        None => child.wait()?,
    };
    Ok(exit_status(ended))
}

/// Shows on the terminal what the command prints, until it has ended; what it leaves behind may continue to print.
fn show_until_ended(child: &mut Child, mut printed: File, mut terminal: File) -> io::Result<ExitStatus> {
    loop {
        let ended = child.try_wait()?;
        // A terminal that is gone is nothing to the command.
        let _ = io::copy(&mut Read::by_ref(&mut printed).take(SHOWN), &mut terminal);
        match ended {
            Some(ended) => return Ok(ended),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
