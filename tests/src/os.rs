//! What is asked of the operating system: users, ports, folders, other programs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, User};

/// Ports are taken from below the range that Linux gives to outgoing connections, which could otherwise sit on one between
/// the check and the start of the server.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

pub fn system_user(name: &str) -> Result<User> {
    if let Some(user) = User::from_name(name)? {
        return Ok(user);
    }
    // Hosts that start at once may all find no user, and a second useradd that came to look before the first had ended gives the user
    // another number, after folders were made for the first one.
    let lock = std::env::temp_dir().join("svc-tests.users.lock");
    let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    lock.lock()?;
    if User::from_name(name)?.is_none() {
        let home = ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"];
        run(Command::new("useradd").args(["--system", "--user-group", "--no-create-home"]).args(home).arg(name))?;
    }
    User::from_name(name)?.with_context(|| format!("useradd made no user {name}"))
}

pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    let mut listeners = Vec::new();
    let taken = Path::new("/run/svc-test-ports");
    fs::create_dir_all(taken)?;
    for _ in 0..10_000 {
        if listeners.len() == count {
            break;
        }
        let port = fastrand::u16(PORTS);
        // Nobody else of the tests is given it while this process lives: until its server listens it looks free.
        let lock = File::create(taken.join(port.to_string()))?;
        if lock.try_lock().is_ok() {
            listeners.extend(TcpListener::bind(("127.0.0.1", port)));
            std::mem::forget(lock);
        }
    }
    ensure!(listeners.len() == count, "found no {count} free ports on 127.0.0.1");
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// Makes a folder with its parents, of that mode, owned by `owner` (by root when there is none).
pub fn folder(path: &Path, mode: u32, owner: Option<&User>) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
    give(path, mode, owner)
}

/// Writes a text file of that mode, owned by `owner` (by root when there is none).
pub fn file(path: &Path, text: &str, mode: u32, owner: Option<&User>) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    give(path, mode, owner)
}

fn give(path: &Path, mode: u32, owner: Option<&User>) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(owner.map_or(Ok(()), |user| chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())))?)
}

/// Who may do what with a file or folder, as `chmod` has it; that must work.
#[track_caller]
pub fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is the test's own");
}

#[track_caller]
pub fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Copies a program that is run at once, by a process of its own: if a thread of this one starts a child meanwhile, that child has the
/// copy open for writing for a moment, and nobody can run it ("text file busy").
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp").arg("--preserve=mode").args([from, to])).map(drop)
}

/// Writes a program that is run at once, in the same way, and makes its folder.
pub fn write_program(path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Result<()> {
    fed(Command::new("install").args(["-D", "--mode=755", "/dev/stdin"]).arg(path.as_ref()), text).map(drop)
}

/// `program` to be run as another user, without that user's login shell and in a folder that anybody can pass.
pub fn command_as(user: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(run_as(user)).arg(program).current_dir("/");
    command
}

/// The arguments of `setpriv` that make it run a program as that user; it replaces itself, so the process id stays.
pub fn run_as(user: &str) -> [String; 3] {
    [format!("--reuid={user}"), format!("--regid={user}"), "--init-groups".to_owned()]
}

/// Runs a program to its end and returns its output; a failure carries the command's name and all that it said.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?} failed ({}):\n{stdout}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(stdout)
}

/// The same for a program that reads that.
pub fn fed(command: &mut Command, input: impl AsRef<[u8]>) -> Result<String> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_ref())?;
    file.rewind()?;
    run(command.stdin(file))
}

/// Whether a line of signals in a process's status, such as `SigIgn`, has that one.
pub fn has_signal(pid: Pid, line: &str, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|one| u64::from_str_radix(one.strip_prefix(line)?.strip_prefix(':')?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as i32 - 1)) != 0)
}

/// A program that a process has started and that is running now.
pub fn child(of: Pid, name: &str) -> Option<Pid> {
    let (name, parent) = (format!("Name:\t{name}\n"), format!("PPid:\t{of}\n"));
    let is_it = |pid: &Pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.starts_with(&name) && status.contains(&parent)
    };
    processes().find(is_it)
}

/// All that run on this machine.
pub fn processes() -> impl Iterator<Item = Pid> {
    let all = fs::read_dir("/proc").expect("/proc is there").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw)
}

/// A status as a shell has it: 128 and the signal's number for a program that a signal ended.
pub fn status(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The last lines of a text file, or a sentence about why there are none.
pub fn tail(path: &Path, lines: usize) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| format!("{}: {error}", path.display()).into_bytes());
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
