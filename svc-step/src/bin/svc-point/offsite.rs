//! Off-site copies: a restore point and the directory of the snapshot repository as one snapshot of restic, tagged with the service's name,
//! the restore point's ID and its kind once it is verified, and with `unverified-NAME` in place of the name until then.

pub mod copies;
pub mod fetch;
pub mod push;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::child::Running;
use svc_step::document::Time;
use svc_step::poll::retry;
use svc_step::progress::Unit;
use svc_step::redact::sentence_without_secrets;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, Status, restic};

/// A snapshot of restic, as `restic snapshots --json` prints it.
#[derive(Debug, Clone, Deserialize)]
struct Snapshot {
    id: String,
    /// The ID that it had before it got other tags.
    original: Option<String>,
    time: Timestamp,
    hostname: String,
    #[serde(default)]
    tags: Vec<String>,
    paths: Vec<PathBuf>,
}

/// An off-site copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Copy {
    /// The restore point.
    pub point_id: String,
    /// The host that it was made on.
    pub host: String,
    /// When the restore point was made, one second later for each older copy of it; RFC 3339, UTC.
    pub made_at: Time,
    /// Whether it holds the directory of the snapshot repository too.
    pub has_repository: bool,
    /// The ID of the snapshot in the restic repository.
    pub restic_snapshot: String,
}

impl Snapshot {
    /// Whether it is the one that restic printed this ID of, complete or shortened, perhaps with other tags since.
    fn was(&self, id: &str) -> bool {
        [Some(&self.id), self.original.as_ref()].into_iter().flatten().any(|one| one.starts_with(id))
    }

    fn has(&self, tag: &str) -> bool {
        self.tags.iter().any(|other| other == tag)
    }

    /// The restore point and its path on the host that it was made on.
    fn point(&self) -> Option<(&str, &Path)> {
        self.paths.iter().find_map(|path| {
            let id = path.file_name()?.to_str()?;
            (self.has(id) && id.parse::<RunId>().is_ok()).then_some((id, path.as_path()))
        })
    }

    /// The path of the snapshot repository's directory on that host, if it was copied.
    fn repository(&self) -> Option<&Path> {
        let (_, point) = self.point()?;
        self.paths.iter().map(PathBuf::as_path).find(|path| *path != point)
    }

    fn copy(&self) -> Option<Copy> {
        let (id, _) = self.point()?;
        Some(Copy {
            point_id: id.to_owned(),
            host: self.hostname.clone(),
            made_at: self.time.into(),
            has_repository: self.repository().is_some(),
            restic_snapshot: self.id.clone(),
        })
    }
}

/// How the sentence begins of a list that failed.
const NOT_LISTED: &str = "The off-site copies cannot be listed";

/// What restic says of a repository that another one is writing to; for how long that is waited for, and how often it is tried.
const LOCKED: &str = "already locked";
const LOCKED_FOR: Duration = Duration::from_secs(15 * 60);
const LOCKED_POLL: Duration = Duration::from_secs(10);

/// A file system has it at its top, where the snapshot repository may be.
const LOST_FOUND: &str = "lost+found";

/// A path as a pattern of restic's that matches it alone.
fn literal(path: &str) -> String {
    path.chars().flat_map(|letter| ['\\', letter].into_iter().skip(usize::from(!"\\*?[".contains(letter)))).collect()
}

/// The tag of the copies of restore points of a kind.
fn of_kind(kind: &str) -> String {
    format!("kind-{kind}")
}

/// The tag of what is not verified yet.
fn unverified(service: &str) -> String {
    format!("unverified-{service}")
}

/// The snapshots with a tag, of a host if one is named, the oldest first; `failed` begins the sentence of a failure.
fn snapshots(call: &Call, tag: &str, host: Option<&str>, failed: &str) -> Result<Vec<Snapshot>, Failure> {
    let mut args = vec!["snapshots", "--json", "--no-lock", "--tag", tag];
    args.extend(host.into_iter().flat_map(|host| ["--host", host]));
    let listed = run(call, &args, failed)?;
    let mut found: Vec<Snapshot> = serde_json::from_slice(&listed).map_err(|error| {
        Failure::failed("offsite_failed", "The list of restic's snapshots is not understood.")
            .hint("svc-offsite restic snapshots --json")
            .cause(error.to_string())
    })?;
    // The time is one of whole seconds.
    found.sort_by(|one, other| (one.time, one.point()).cmp(&(other.time, other.point())));
    Ok(found)
}

/// A line of `restic backup --json` while it copies.
#[derive(Debug, Deserialize)]
struct Copying {
    total_bytes: u64,
    /// restic leaves it out while it is 0.
    #[serde(default)]
    bytes_done: u64,
}

/// Runs restic and gives what it wrote to stdout. It runs again while another host prunes, checks or, if this one needs the
/// repository alone, copies. `failed` begins the sentence of its failure.
/// Errors: it ended with another status than 0 (5 `offsite_failed`), is not installed (4), a signal, the time limit, or as
/// [`restic::command`].
fn run(call: &Call, args: &[&str], failed: &str) -> Result<Vec<u8>, Failure> {
    // A copy of hours is not given up for want of its tag.
    let time = if args.first() == Some(&"tag") { Duration::MAX } else { LOCKED_FOR };
    let is_locked = |failure: &Failure| failure.causes.iter().any(|cause| cause.contains(LOCKED));
    let waits = OnceCell::new();
    let pause = |_| {
        waits.get_or_init(|| call.progress("another restic has locked the repository", Unit::Items("")));
        call.pause(LOCKED_POLL)
    };
    retry(|failure| is_locked(failure).then_some(time), pause, || run_once(call, args, failed))
}

fn run_once(call: &Call, args: &[&str], failed: &str) -> Result<Vec<u8>, Failure> {
    let mut command = restic::command()?;
    call.reporter().detail(&format!("restic {}", args.join(" ")));
    // How often a backup says how far it is, each second.
    let mut running = Running::start(command.args(args).env("RESTIC_PROGRESS_FPS", "1").stdin(Stdio::null()))?;
    let progress = OnceCell::new();
    let mut stdout = Vec::new();
    running.lines(call, |line| {
        match serde_json::from_slice::<Copying>(&line) {
            Ok(copying) => {
                progress.get_or_init(|| call.progress("restic", Unit::Bytes)).set(copying.bytes_done, copying.total_bytes, None)
            }
            Err(_) => stdout.extend(line.into_iter().chain([b'\n'])),
        }
        Ok(())
    })?;
    let ended = running.wait(call)?;
    if ended.status.success() {
        return Ok(stdout);
    }
    let stderr = sentence_without_secrets(&ended.stderr);
    let status = ended.status.code().map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
    let failure = Failure::unavailable("offsite_failed", format!("{failed}: restic ended with {status}: {}.", reason(&stderr)));
    let hint = if stderr.contains(LOCKED) {
        "If no other restic uses that repository:\n  svc-offsite restic unlock"
    } else {
        "Check SVC_OFFSITE, its storage and its password. To see whether it can be reached:\n  svc-offsite list"
    };
    Err(failure.hint(hint).cause(stderr))
}

/// Of a copy, what helps if the time limit has passed.
fn more_time(failure: Failure) -> Failure {
    match failure.status {
        Status::Timeout => failure.hint("Set SVC_OFFSITE_TIMEOUT; the next push continues with what was copied."),
        _ => failure,
    }
}

/// What restic says that is wrong: a line of its own, and the last one of a program that it has started, such as ssh.
fn reason(stderr: &str) -> String {
    let lines =
        || stderr.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(" returned error, retrying after "));
    let (program, own): (Vec<&str>, Vec<&str>) = lines().partition(|line| line.starts_with("subprocess "));
    let said = own.iter().find(|line| line.starts_with("Fatal: ")).or_else(|| own.first()).copied();
    let said = said.into_iter().chain(program.last().copied()).map(|line| line.trim_end_matches('.'));
    said.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restic_failure_reason_is_extracted_from_stderr() {
        let retry = "Remove(<snapshot/9dc1522822>) returned error, retrying after 552.330144ms: blob not removed, server response: \
                     403 Forbidden (403)";
        for (stderr, expected) in [
            (
                "unable to create lock in backend: repository is already locked by PID 1395 on vm by root (UID 0, GID 0)\n\
                 lock was created at 2026-11-26 02:08:11 (2.152152701s ago)\nstorage ID 33b07c0c\n\
                 the `unlock` command can be used to remove stale locks\n",
                "unable to create lock in backend: repository is already locked by PID 1395 on vm by root (UID 0, GID 0)",
            ),
            (
                "subprocess ssh: Host key verification failed.\nFatal: unable to open repository at sftp:a@b:/x: \
                 unable to start the sftp session, error: EOF\n",
                "Fatal: unable to open repository at sftp:a@b:/x: unable to start the sftp session, error: EOF; \
                 subprocess ssh: Host key verification failed",
            ),
            (
                &format!("{retry}\nunable to remove <snapshot/9dc1522822> from the repository\nruntime.goexit\n"),
                "unable to remove <snapshot/9dc1522822> from the repository",
            ),
        ] {
            assert_eq!(reason(stderr), expected);
        }
    }
}
