//! Off-site copies: a restore point and the directory of the snapshot repository as one snapshot of restic, tagged with the service's name
//! and the restore point's ID once it is verified, and with `unverified-NAME` in place of the name until then.

pub mod copies;
pub mod fetch;
pub mod push;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::child::{self, Captured};
use svc_step::document::Time;
use svc_step::line_secrets::sentence_without_secrets;
use svc_step::run_id::RunId;
use svc_step::{Call, Failure, restic};

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
    /// When the restore point was made; RFC 3339, UTC.
    pub made_at: Time,
    /// Whether it holds the directory of the snapshot repository too.
    pub has_repository: bool,
    /// The ID of the snapshot in the restic repository.
    pub restic_snapshot: String,
}

impl Snapshot {
    /// Whether it is the one that restic printed this ID of, whole or shortened, perhaps with other tags since.
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

/// A file system has it at its top, where the snapshot repository may be.
const LOST_FOUND: &str = "lost+found";

/// A path as a pattern of restic's that matches it alone.
fn literal(path: &str) -> String {
    path.chars().flat_map(|letter| ['\\', letter].into_iter().skip(usize::from(!"\\*?[".contains(letter)))).collect()
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
    let mut found: Vec<Snapshot> = serde_json::from_slice(&listed.stdout).map_err(|error| {
        Failure::failed("offsite_failed", "The list of restic's snapshots is not understood.")
            .hint("svc-offsite restic snapshots --json")
            .cause(error.to_string())
    })?;
    found.sort_by_key(|snapshot| snapshot.time);
    Ok(found)
}

/// Runs restic; `failed` begins the sentence of its failure.
///
/// # Errors
/// It ended with another status than 0 (5 `offsite_failed`), is not installed (4), a signal, or the time limit.
fn run(call: &Call, args: &[&str], failed: &str) -> Result<Captured, Failure> {
    let mut command = restic::command()?;
    call.reporter().detail(&format!("restic {}", args.join(" ")));
    let ended = child::capture(call, command.args(args))?;
    if ended.status.success() {
        return Ok(ended);
    }
    let stderr = sentence_without_secrets(&ended.stderr);
    let lines = || stderr.lines().filter(|line| !line.trim().is_empty());
    let said = lines().find(|line| line.starts_with("Fatal: ")).or_else(|| lines().next_back()).unwrap_or_default();
    let status = ended.status.code().map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
    let failure =
        Failure::unavailable("offsite_failed", format!("{failed}: restic ended with {status}: {}.", said.trim_end_matches('.')));
    let hint = if stderr.contains("already locked") {
        "If no other restic uses that repository:\n  svc-offsite restic unlock"
    } else {
        "Check SVC_OFFSITE, its storage and its password, then run the same command again:\n  svc-offsite list"
    };
    Err(failure.hint(hint).cause(lines().collect::<Vec<_>>().join("\n")))
}
