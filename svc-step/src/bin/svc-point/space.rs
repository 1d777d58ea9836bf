//! `space`: whether the disks have enough space for a restore point, by what was measured.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use svc_step::reporter::bytes;
use svc_step::{Call, Failure, StepResult, file, journal};

use crate::point::BackupDir;

/// With less than this nothing can be backed up, whatever was measured (tables that nobody has analysed).
const LEAST: u64 = 16 * 1024 * 1024;

/// Arguments of `svc-point space`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A document that is absent, or of a step that failed, says nothing.")]
pub struct SpaceArgs {
    /// The document of svc-snap health
    #[arg(long, value_name = "FILE")]
    search: Option<PathBuf>,
    /// The document of svc-snap verify
    #[arg(long, value_name = "FILE")]
    repository: Option<PathBuf>,
    /// The document of svc-pgdump --dry-run
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    #[command(flatten)]
    dir: BackupDir,
}

/// The disk space that a restore point needs and finds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Space {
    /// The directory that was measured: that of the restore points, or its first parent that exists.
    pub directory: String,
    /// What is free on its disk.
    pub free_bytes: u64,
    /// What a dump takes, as an estimate.
    pub dump_bytes: Option<u64>,
    /// The directory of the repository, if it is on this host.
    pub repository: Option<String>,
    /// What is free on the disk of the repository.
    pub repository_free_bytes: Option<u64>,
    /// The size of the indices.
    pub indices_bytes: Option<u64>,
    /// What a snapshot takes, if it is the first one; later ones store only what no earlier one has.
    pub snapshot_bytes: Option<u64>,
    /// Whether both directories are on one disk.
    pub one_disk: bool,
    /// Nodes whose disks are past their flood stage: their indices take no writes, which an installer needs.
    pub flooded_nodes: Vec<String>,
    /// The same as a sentence.
    pub summary: String,
}

/// What is read of `svc-snap health`.
#[derive(Debug, Default, Deserialize)]
struct Health {
    indices_bytes: Option<u64>,
    disks: Vec<Disk>,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct Disk {
    node: String,
    level: String,
}

#[derive(Debug, Default, Deserialize)]
struct Repository {
    location: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Verified {
    snapshots_count: u64,
}

#[derive(Debug, Deserialize)]
struct Dump {
    expected_bytes: Option<u64>,
}

pub(crate) fn run(args: &SpaceArgs, call: &Call) -> StepResult<Space> {
    let wanted = args.dir.dir();
    let folder = crate::point::usable(&wanted)?;
    let space = measure(args, folder);
    if space.is_too_little() {
        let message = format!("There is too little disk space: {}.", space.summary);
        let hint = "Free disk space there, or set SVC_BACKUP_DIR to a directory on another disk.";
        return Err(Failure::refused("out_of_space", message).hint(hint).into());
    }
    if space.may_be_too_little() {
        call.warn("out_of_space", format!("There may be too little disk space: {}.", space.summary));
    }
    Ok(space)
}

/// The result of a document; none if the step failed, or did not run.
fn result<T: DeserializeOwned>(document: Option<&PathBuf>) -> Option<T> {
    serde_json::from_value(journal::document_in(document?)?.result?).ok()
}

fn measure(args: &SpaceArgs, folder: &Path) -> Space {
    let health: Health = result(args.search.as_ref()).unwrap_or_default();
    let is_first = result(args.repository.as_ref()).is_some_and(|verified: Verified| verified.snapshots_count == 0);
    let repository = health.repository.location.filter(|location| location.is_dir());
    let device = |folder: &Path| fs::metadata(folder).ok().map(|data| data.dev());
    let mut space = Space {
        directory: folder.display().to_string(),
        free_bytes: file::free_bytes(folder).unwrap_or(u64::MAX),
        dump_bytes: result::<Dump>(args.database.as_ref()).and_then(|dump| dump.expected_bytes),
        repository_free_bytes: repository.as_deref().and_then(file::free_bytes),
        one_disk: repository.as_deref().is_some_and(|repository| device(repository) == device(folder)),
        repository: repository.map(|repository| repository.display().to_string()),
        indices_bytes: health.indices_bytes,
        snapshot_bytes: health.indices_bytes.filter(|_| is_first),
        flooded_nodes: health.disks.into_iter().filter(|disk| disk.level == "past_flood_stage").map(|disk| disk.node).collect(),
        summary: String::new(),
    };
    space.summary = space.sentence();
    space
}

impl Space {
    fn is_too_little(&self) -> bool {
        self.free_bytes < LEAST || self.repository_free_bytes.is_some_and(|free| free < LEAST) || !self.flooded_nodes.is_empty()
    }

    fn may_be_too_little(&self) -> bool {
        let (dump, snapshot) = (self.dump_bytes.unwrap_or(0), self.snapshot_bytes.unwrap_or(0));
        self.free_bytes < dump
            || self.repository_free_bytes.is_some_and(|free| free < snapshot)
            || (self.one_disk && self.free_bytes < dump.saturating_add(snapshot))
    }

    fn sentence(&self) -> String {
        let dump = self.dump_bytes.map_or(String::new(), |size| format!(", a dump takes about {}", bytes(size)));
        let mut parts = vec![format!("{} free in {}{dump}", bytes(self.free_bytes), self.directory)];
        if let Some((free, repository)) = self.repository_free_bytes.zip(self.repository.as_ref()) {
            let takes = match (self.snapshot_bytes, self.indices_bytes) {
                (Some(first), _) => format!(", a first snapshot takes {}", bytes(first)),
                (None, Some(indices)) => format!(", for what is new of {}", bytes(indices)),
                (None, None) => String::new(),
            };
            parts.push(format!("{} free in {repository}{takes}", bytes(free)));
        }
        parts.extend(self.flooded_nodes.iter().map(|node| format!("the disk of {node} is past its flood stage")));
        parts.join("; ")
    }
}
