//! A restore point as it is read: what it says of itself, and which state it is in.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use nix::unistd::{AccessFlags, access};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::journal::{self, Journal};
use svc_step::reporter::shell_quoted;
use svc_step::run_id::{self, RunId};
use svc_step::settings::{ServiceArg, default_of, variable};
use svc_step::{Call, DryRun, Failure, Lock, file};

/// What a restore point says of itself, in `restore-point.json`.
pub const ABOUT: &str = "restore-point.json";
/// The sums of its files; written last.
pub const SUMS: &str = "SHA256SUMS";
/// The schema of `restore-point.json`.
pub const SCHEMA: &str = "svc-restore-point/1";
/// What a restore point is for: made by an upgrade, every night, or by hand.
pub const KINDS: [&str; 3] = ["upgrade", "nightly", "manual"];
/// A larger one of these files was not written by us.
const LARGEST: u64 = 1024 * 1024;

/// Where the restore points of a service are.
#[derive(Debug, Clone, Args)]
pub struct BackupDir {
    #[arg(long, value_name = "DIR", env = "SVC_BACKUP_DIR")]
    backup_dir: Option<PathBuf>,
    #[command(flatten)]
    service: ServiceArg,
}

impl BackupDir {
    pub fn service(&self) -> &str {
        &self.service.name
    }

    /// The directory, absolute.
    pub fn dir(&self) -> PathBuf {
        real(&self.backup_dir.clone().unwrap_or_else(|| default_of("SVC_BACKUP_DIR", self.service()).into()))
    }

    /// The service's own database: restore points of others may have come into the directory.
    pub fn database(&self) -> String {
        variable("SVC_DATABASE").unwrap_or_else(|| default_of("SVC_DATABASE", self.service()))
    }

    /// The lock of the directory; none in a dry run.
    pub fn lock(&self, call: &Call, dry: DryRun) -> Result<Option<Lock>, Failure> {
        Lock::unless_dry(call, "restore-points", &self.dir().display().to_string(), dry.dry_run)
    }

    /// The directory, without links, of a restore point that is named by its ID or by its path.
    pub fn point(&self, named: &str) -> PathBuf {
        real(&if named.contains('/') { PathBuf::from(named) } else { self.dir().join(named) })
    }
}

/// The path without links; if it does not exist, as it stands.
pub fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// The directory, or its first parent that exists: restore points can be made there.
/// Errors: it is no directory that can be written to (3).
pub fn usable(wanted: &Path) -> Result<&Path, Failure> {
    let folder = wanted.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let is_directory = if folder.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) };
    let writable = is_directory.and_then(|()| Ok(access(folder, AccessFlags::W_OK)?));
    writable.map(|()| folder).map_err(|error| Failure::directory(folder, "SVC_BACKUP_DIR", &error))
}

/// `restore-point.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// [`SCHEMA`].
    pub schema: String,
    /// The ID of the run that made it.
    pub id: String,
    /// `upgrade`, `nightly` or `manual`.
    pub kind: Option<String>,
    /// RFC 3339, UTC.
    pub made_at: Option<String>,
    /// The installed version.
    pub version: Option<String>,
    /// The database.
    pub database: String,
    /// Whether the service was stopped meanwhile.
    pub quiesced: bool,
}

impl About {
    /// That of the restore point in a directory; none if it is absent, cut short, or of another schema.
    pub fn read(point: &Path) -> Option<Self> {
        let text = file::read_text("read the restore point", &point.join(ABOUT), LARGEST).ok()?;
        serde_json::from_str(&text).ok().filter(|about: &Self| about.schema == SCHEMA)
    }

    pub fn dump(&self) -> String {
        dump_of(&self.database)
    }
}

pub fn dump_of(database: &str) -> String {
    format!("{database}.backup.sql")
}

/// The state of a restore point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its files are what its sums say.
    Valid,
    /// It has no sums: its run has failed or was interrupted.
    Incomplete,
    /// It has no sums, and its run is in progress.
    Running,
    /// A file is not what its sum says, or is absent; or it is a copy of another restore point.
    Damaged,
}

/// A restore point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Point {
    /// Its ID, the name of its directory.
    pub id: String,
    /// Its directory.
    pub path: String,
    /// Its state.
    pub state: State,
    /// `upgrade`, `nightly` or `manual`; `null` if neither it nor its ID says it.
    pub kind: Option<String>,
    /// The installed version.
    pub version: Option<String>,
    /// Whether the service was stopped while it was made.
    pub quiesced: Option<bool>,
    /// When it was made; RFC 3339, UTC.
    pub made_at: Option<String>,
    /// The size of its files.
    pub size_bytes: u64,
    /// Whether the dump was read too; otherwise only its size was compared.
    pub read_all: bool,
    /// The files that are not what the sums say, or are absent.
    pub damaged_files: Vec<String>,
    /// The same as `made_at`, to be compared.
    #[serde(skip)]
    pub made: Timestamp,
    /// Its place among the others: an ID is greater than all before, even if the clock went back.
    #[serde(skip)]
    pub order: Timestamp,
}

/// The restore points of the service's own database, the oldest first, and those that do not say theirs. Without `read_all` only the size
/// of a dump is compared. A directory that no run has made and that holds no restore point is not ours.
/// Errors: the directory cannot be read (3); a signal or the time limit.
pub fn survey(call: &Call, wanted: &BackupDir, read_all: bool) -> Result<Vec<Point>, Failure> {
    let (dir, database) = (&wanted.dir(), wanted.database());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(dir, &error)),
    };
    let mut points = Vec::new();
    for entry in entries.flatten() {
        let (folder, id) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let about = About::read(&folder);
        if about.as_ref().is_some_and(|about| about.database != database) {
            continue;
        }
        // A link counts if it leads to a restore point: on another disk.
        let is_named = entry.file_type().is_ok_and(|kind| kind.is_dir()) && id.parse::<RunId>().is_ok();
        if folder.is_dir() && (is_named || folder.join(ABOUT).exists()) {
            points.push(inspect(call, &folder, id, about.as_ref(), read_all)?);
        }
    }
    points.sort_by(|one, other| (one.order, &one.id).cmp(&(other.order, &other.id)));
    Ok(points)
}

/// Whether a restore point is under another name than its own: then it is a copy, or was renamed.
pub fn is_under_other_name(folder: &Path, about: &About) -> bool {
    folder.file_name() != Some(about.id.as_ref())
}

/// How one that was renamed gets its own name back; none if another one has that name, so that this is a copy.
pub fn rename_hint(folder: &Path, about: &About) -> Option<String> {
    let own = folder.with_file_name(&about.id);
    let rename = shell_quoted(&["mv", &folder.display().to_string(), &own.display().to_string()]);
    (!own.exists()).then(|| format!("To give it its own name back:\n  {rename}"))
}

/// The restore points that runs need which are in progress, or have changed the service and are not finished: their IDs, and those runs.
pub fn needed(call: &Call) -> BTreeMap<String, Journal> {
    let this = Journal::of(call.state_dir(), call.run_id().as_str());
    let others = journal::runs(call.state_dir()).into_iter().filter(|run| !this.is_within(run.id()) && !run.is_ok());
    let open = others.filter(|run| run.is_running() || run.has_changed_the_service() && run.replaced_by().is_none());
    open.filter_map(|run| Some((run.restore_point()?, run))).collect()
}

fn unreadable(dir: &Path, error: &std::io::Error) -> Failure {
    let message = format!("The directory {} cannot be read.", dir.display());
    Failure { message, ..Failure::directory(dir, "SVC_BACKUP_DIR", error) }
}

fn inspect(call: &Call, folder: &Path, id: String, about: Option<&About>, read_all: bool) -> Result<Point, Failure> {
    let (state, damaged_files) = state(call, folder, &id, about, read_all)?;
    let made_at = about.and_then(|about| about.made_at.clone());
    let (finalized, begun) = (made_at.as_ref().and_then(|text| text.parse().ok()), run_id::time(&id));
    let made = finalized.or(begun);
    Ok(Point {
        path: folder.display().to_string(),
        state,
        kind: kind(about, &id),
        version: about.and_then(|about| about.version.clone()),
        quiesced: about.map(|about| about.quiesced),
        made_at: made_at.or_else(|| made.map(|made| svc_step::document::Time::from(made).as_str().to_owned())),
        size_bytes: size(folder),
        read_all: read_all && state == State::Valid,
        damaged_files,
        made: made.unwrap_or_default(),
        order: finalized.max(begun).unwrap_or_default(),
        id,
    })
}

fn state(call: &Call, folder: &Path, id: &str, about: Option<&About>, read_all: bool) -> Result<(State, Vec<String>), Failure> {
    // A copy beside it has the same snapshot: whatever becomes of the one, the other needs that.
    if about.is_some_and(|about| about.id != id) {
        return Ok((State::Damaged, vec![ABOUT.to_owned()]));
    }
    // Whoever cannot see whether it has sums must not take it for one without.
    if !folder.join(SUMS).try_exists().map_err(|error| unreadable(folder, &error))? {
        let is_running = Journal::of(call.state_dir(), id).is_running();
        return Ok((if is_running { State::Running } else { State::Incomplete }, Vec::new()));
    }
    let Some(about) = about else { return Ok((State::Damaged, vec![ABOUT.to_owned()])) };
    let dump = about.dump();
    let mut damaged = damaged_files(call, folder, (!read_all).then_some(&*dump))?;
    if damaged.is_empty() && !read_all && !has_size_of_document(folder, &dump) {
        damaged.push(dump);
    }
    Ok((if damaged.is_empty() { State::Valid } else { State::Damaged }, damaged))
}

/// Whether the dump has the size that its document says.
fn has_size_of_document(folder: &Path, dump: &str) -> bool {
    let document = journal::document_in(&folder.join("pgdump.json"));
    let said = document.and_then(|document| document.number("/size_bytes"));
    said.is_some() && said == fs::metadata(folder.join(dump)).ok().map(|data| data.len())
}

/// The files of a restore point that are not what its sums say, or are absent; the file `unread`, which takes long to read, is left
/// out. `SHA256SUMS` itself if it holds no sums.
/// Errors: a signal, or the time limit.
pub fn damaged_files(call: &Call, point: &Path, unread: Option<&str>) -> Result<Vec<String>, Failure> {
    let text = file::read_text("read the sums", &point.join(SUMS), LARGEST).unwrap_or_default();
    let sums: Option<Vec<(&str, &str)>> = text.lines().map(sum_and_name).collect();
    let Some(sums) = sums.filter(|sums| !sums.is_empty()) else { return Ok(vec![SUMS.to_owned()]) };
    let mut damaged = Vec::new();
    for (sum, name) in sums {
        if Some(name) == unread {
            continue;
        }
        let found = file::digest_watched(&point.join(name), |_| call.check());
        call.check()?;
        if !found.is_ok_and(|(_, found)| found == sum) {
            damaged.push(name.to_owned());
        }
    }
    Ok(damaged)
}

/// A line of `sha256sum`.
fn sum_and_name(line: &str) -> Option<(&str, &str)> {
    let (sum, rest) = line.split_at_checked(64)?;
    let name = rest.strip_prefix("  ").or_else(|| rest.strip_prefix(" *"))?;
    let is_sum = sum.bytes().all(|byte| byte.is_ascii_hexdigit()) && !name.is_empty();
    is_sum.then(|| (sum, name.strip_prefix("./").unwrap_or(name)))
}

/// The kind of a restore point: as it says itself, else as its ID does.
pub fn kind(about: Option<&About>, id: &str) -> Option<String> {
    about.and_then(|about| about.kind.clone()).or_else(|| kind_of(id))
}

/// The kind that a run ID says: `20261120t020003z-backup-nightly`, `20261120t020003z-upgrade-2.0.1`.
fn kind_of(id: &str) -> Option<String> {
    let name = id.parse::<RunId>().ok()?.as_str().get(17..)?.to_owned();
    let name = name.strip_prefix("backup-").unwrap_or(&name);
    KINDS.into_iter().find(|kind| name.starts_with(kind)).map(str::to_owned)
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// How long ago a time is; none if it is dated in the future: nothing would be too old until then.
pub fn age(made: Timestamp) -> Option<Duration> {
    Duration::try_from(Timestamp::now().duration_since(made)).ok()
}

/// The same; nothing if it is in the future.
pub fn older(made: Timestamp) -> Duration {
    age(made).unwrap_or_default()
}
