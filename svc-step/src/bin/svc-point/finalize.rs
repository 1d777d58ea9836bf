//! `finalize`: the directory becomes a restore point. Its documents and its sums are written, `SHA256SUMS` last.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::document::Time;
use svc_step::file::{self, Existing};
use svc_step::from::{Accept, Received};
use svc_step::{Call, Failure, StepResult};

use crate::point::{ABOUT, About, KINDS, SCHEMA, SUMS, dump_of};

/// The document of a service that was stopped for its backup.
const STOP: &str = "svc-unit.stop/1";
/// The document of what is installed, and that of the dump.
const CURRENT: &str = "svc-version.current/1";
const DUMP: &str = "svc-pgdump.dump/1";
/// The documents that go into the restore point, by their schemas, and their names there.
const DOCUMENTS: [(&str, &str); 4] = [
    ("svc-confsave.save/1", "confsave.json"),
    (CURRENT, "version.json"),
    ("svc-snap.create/1", "snapshot.json"),
    (DUMP, "pgdump.json"),
];

/// Arguments of `svc-point finalize`.
#[derive(Debug, clap::Args)]
pub struct FinalizeArgs {
    /// The directory, named by the ID of its run
    dir: PathBuf,
    /// The documents of svc-confsave save, svc-version current, svc-snap create and svc-pgdump
    #[arg(required = true)]
    documents: Vec<PathBuf>,
    /// What it is for
    #[arg(long, value_parser = KINDS)]
    kind: String,
    /// A document of svc-unit status or stop, from before and from after the backup (repeatable)
    #[arg(long = "unit", value_name = "FILE", required = true)]
    units: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
}

/// A restore point.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finalized {
    /// Its ID.
    pub id: String,
    /// Its directory.
    pub path: String,
    /// `upgrade`, `nightly` or `manual`.
    pub kind: String,
    /// The installed version.
    pub version: Option<String>,
    /// The database.
    pub database: String,
    /// Whether the service was stopped while it was made.
    pub quiesced: bool,
    /// RFC 3339, UTC.
    pub made_at: String,
    /// The effects of the step, in order; in a dry run, what they would be.
    pub plan: Vec<Action>,
}

/// What is read of the document of svc-unit.
#[derive(Debug, Deserialize)]
struct UnitResult {
    after: UnitState,
    /// Of a status those that run, of a stop those that were stopped.
    dependents: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct UnitState {
    active_state: Option<String>,
    job_pending: Option<bool>,
    invocation_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Installed {
    version: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DumpResult {
    database: String,
    sha256: String,
    size_bytes: u64,
}

pub(crate) fn run(args: &FinalizeArgs, call: &Call) -> StepResult<Finalized> {
    let dir = file::absolute(&args.dir)?;
    let (mut quiesced, mut was_stopped, mut ran) = (true, false, None);
    for unit in &args.units {
        let unit = Received::read(call, unit, &["svc-unit.status/1", STOP], Accept::Successful)?;
        let (is_stop, result) = (unit.schema() == STOP, unit.result::<UnitResult>()?);
        quiesced &= is_down(&result.after) && (is_stop || result.dependents.is_empty());
        was_stopped |= is_stop;
        // It may have run between the two. systemd forgets a unit that nothing refers to.
        if let Some(last) = result.after.invocation_id {
            quiesced &= ran.as_ref().is_none_or(|ran| *ran == last);
            ran = Some(last);
        }
    }
    let message = "The service, or what stops along with it, ran while its databases were being backed up, so the restore point is \
                   not quiesced.";
    // What the installer changes has only this restore point to go back to. Of another one somebody is told.
    if args.kind == "upgrade" && !quiesced {
        let hint = "Find out what starts it (systemctl list-dependencies --reverse, a timer, configuration management) and \
                    prevent that, then run the same command again.";
        return Err(Failure::failed("not_quiesced", message).hint(hint).into());
    }
    if was_stopped && !quiesced {
        call.review("not_quiesced", message);
    }
    // A call that was killed after its last effect.
    if let Some(about) = About::read(&dir).filter(|about| about.id == id_of(&dir) && dir.join(SUMS).exists()) {
        return Ok(of(about, args, &dir, Vec::new()));
    }
    if args.dry.dry_run {
        return Ok(planned(args, call, &dir, quiesced));
    }
    // What a signal has interrupted is not finalized: what it has ended may have answered wrong.
    call.check()?;
    finalize(args, call, &dir, quiesced)
        .map_err(|error| call.stopped(unfinished(&dir, error), planned(args, call, &dir, quiesced)))
}

fn id_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the unit is down, and nothing is about to start it.
fn is_down(unit: &UnitState) -> bool {
    matches!(unit.active_state.as_deref(), Some("inactive" | "failed")) && unit.job_pending == Some(false)
}

fn unfinished(dir: &Path, failure: Failure) -> Failure {
    if failure.signal.is_some() {
        return failure;
    }
    let message = format!("The restore point {} could not be finalized: {failure}", dir.display());
    Failure::new(failure.status, &failure.code, message)
        .retryable(failure.retryable)
        .hint(failure.hint.unwrap_or_else(|| "Check the disk space of SVC_BACKUP_DIR.".to_owned()))
        .cause(failure.causes.join("; "))
}

fn finalize(args: &FinalizeArgs, call: &Call, dir: &Path, quiesced: bool) -> Result<Finalized, Failure> {
    let schemas = DOCUMENTS.map(|(schema, _)| schema);
    let given = args.documents.iter().map(|path| Ok((Received::read(call, path, &schemas, Accept::Successful)?, path)));
    let given = given.collect::<Result<Vec<_>, Failure>>()?;
    let find = |schema: &str| {
        given.iter().find(|(given, _)| given.schema() == schema).ok_or_else(|| {
            Failure::usage("options_invalid", format!("No document {schema} is given for the restore point."))
                .hint("Pass the documents of svc-confsave save, svc-version current, svc-snap create and svc-pgdump.")
        })
    };
    let (dump, installed): (DumpResult, Installed) = (find(DUMP)?.0.result()?, find(CURRENT)?.0.result()?);
    for (schema, name) in DOCUMENTS {
        let (_, path) = find(schema)?;
        let text = fs::read(path).map_err(|error| Failure::io("read the document", path, &error))?;
        call.effects().happened();
        write(&dir.join(name), &text)?;
    }
    let about = About {
        schema: SCHEMA.to_owned(),
        id: id_of(dir),
        kind: Some(args.kind.clone()),
        made_at: Some(Time::from(jiff::Timestamp::now()).as_str().to_owned()),
        version: installed.version,
        database: dump.database.clone(),
        quiesced,
    };
    let text = serde_json::to_string_pretty(&about).unwrap_or_default();
    write(&dir.join(ABOUT), format!("{text}\n").as_bytes())?;
    let sums = sums(call, dir, &dump)?;
    call.check()?;
    file::write_complete(&dir.join(SUMS), sums.as_bytes(), 0o600, Existing::Replace)?;
    Ok(of(about, args, dir, plan(dir)))
}

/// Made durable with all the others, before the sums are written: the service is down meanwhile.
fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text)).map_err(|error| Failure::io("write the file", path, &error))
}

/// The sums of all files, each of them on the disk. That of the dump is in its document.
fn sums(call: &Call, dir: &Path, dump: &DumpResult) -> Result<String, Failure> {
    let name = dump_of(&dump.database);
    let size = fs::metadata(dir.join(&name)).map_err(|error| Failure::io("read the dump", &dir.join(&name), &error))?.len();
    if size != dump.size_bytes {
        let message = format!("The dump {name} has {size} bytes, and its document says {}.", dump.size_bytes);
        return Err(Failure::invalid("dump_invalid", message).hint("Run the backup again:\n  svc-backup"));
    }
    let mut text = format!("{}  ./{name}\n", dump.sha256);
    let fault = |error: std::io::Error| Failure::io("read the restore point", dir, &error);
    let mut paths = fs::read_dir(dir).map_err(fault)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    paths.as_mut().map(|paths| paths.sort()).ok();
    for path in paths.map_err(fault)? {
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|error| Failure::io("make the file durable", &path, &error))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file != name && !file.starts_with(SUMS) {
            let (_, sum) = file::digest_watched(&path, |_| call.check())?;
            text.push_str(&format!("{sum}  ./{file}\n"));
        }
    }
    Ok(text)
}

fn plan(dir: &Path) -> Vec<Action> {
    let names = DOCUMENTS.map(|(_, name)| name).into_iter().chain([ABOUT, SUMS]);
    names.map(|name| Action::file(&dir.join(name), "write")).collect()
}

fn planned(args: &FinalizeArgs, call: &Call, dir: &Path, quiesced: bool) -> Finalized {
    let made_at = Some(Time::from(call.started_at()).as_str().to_owned());
    of(About { id: id_of(dir), made_at, quiesced, ..About::default() }, args, dir, plan(dir))
}

fn of(about: About, args: &FinalizeArgs, dir: &Path, plan: Vec<Action>) -> Finalized {
    Finalized {
        id: about.id,
        path: dir.display().to_string(),
        kind: about.kind.unwrap_or_else(|| args.kind.clone()),
        version: about.version,
        database: about.database,
        quiesced: about.quiesced,
        made_at: about.made_at.unwrap_or_default(),
        plan,
    }
}
