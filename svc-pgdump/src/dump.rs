//! `dump`: pg_dump of one database into a file that is complete or not there (procedure, 4.2).

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use postgres::Client;
use svc_step::action::Action;
use svc_step::child::Running;
use svc_step::common::DryRun;
use svc_step::file::{self, CompleteFile, Existing};
use svc_step::lock::Lock;
use svc_step::progress::Unit;
use svc_step::work::joined;
use svc_step::{Call, Failure, Status, StepResult, deadline, settings};

use crate::check::{Dump, Examiner};
use crate::compression::{CompressingWriter, Compression};
use crate::document::{DumpFacts, Dumped};
use crate::pg::{self, ConnectionArgs, DatabaseArgs, Target, identify};
use crate::pg_dump::{self, PgDump};
use crate::properties::Properties;
use crate::space;

/// What pg_dump leaves out without a word: options of user mappings that only a superuser reads (their view hides them), and on a
/// standby the rows of unlogged tables.
const LEFT_OUT: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_user_mappings WHERE umoptions IS NULL AND usename <> current_user) \
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper), \
    pg_catalog.pg_is_in_recovery() AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE relpersistence = 'u' AND relkind = 'r')";
/// A file system's 255 bytes, less what the tools append to the name of a dump while they write beside it.
const LONGEST_NAME: usize = 255 - ".saved.properties.json.partial".len();
/// How many pieces wait for the writer at most: memory does not grow if the disk is slow.
const WAITING: usize = 8;

/// Arguments of the dump.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Dump options")]
pub struct DumpArgs {
    /// Write the dump here; default: DBNAME.backup.sql, with .zst or .gz if it is compressed
    #[arg(short = 'f', long, visible_alias = "file", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a dump that is there already
    #[arg(long)]
    force: bool,
    /// Compress the dump
    #[arg(long, value_name = "METHOD", value_enum)]
    compress: Option<Compression>,
    /// Give up when a table stays locked by others for this long
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = deadline::parse)]
    lock_wait_timeout: Duration,
    /// The pg_dump to run; default: the packaged one of the server's major version, else the one on the PATH
    #[arg(long, value_name = "PROGRAM")]
    pg_dump: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(crate) fn run(args: &DumpArgs, call: &Call) -> StepResult<Dumped> {
    let database = args.database.name(None)?;
    let path = output(args.output.as_deref(), &database, args.compress)?;
    existing(&path, args.force)?;
    let owner = args.database.owner(settings::variable("SVC_DB_USER").as_deref());
    let target = args.connection.resolve(call, Some(&owner))?;
    let mut client = target.connect(call, &database)?;
    client.batch_execute(pg::BEFORE_DUMP).map_err(|error| pg::of_query(&error, "limit the time of a statement"))?;
    let server = identify(&mut client)?;
    let mut properties = Properties::read(&mut client, &database)?;
    properties.warn_if_closed(call);
    warn_of_left_out(&mut client, call)?;
    let program = PgDump::find(call, args.pg_dump.as_deref(), &server)?;
    let estimate = space::estimate(&mut client, &path, args.compress)?;
    drop(client);
    let properties_path = Properties::path_of(&path);
    let facts = DumpFacts {
        path: path.display().to_string(),
        compression: args.compress,
        server_version: Some(server.version),
        pg_dump_version: Some(program.version.clone()),
        ..DumpFacts::default()
    };
    let result = Dumped {
        dump: facts,
        database: database.clone(),
        server_host: target.host.clone(),
        server_port: target.port,
        system_identifier: server.system_identifier,
        properties_path: properties_path.display().to_string(),
        expected_bytes: Some(estimate.bytes),
        plan: vec![
            Action::command(program.typed(args.lock_wait_timeout, &target, &database)),
            Action::file(&properties_path, "write the database's own properties"),
            Action::file(&path, format!("write the dump of {database}")),
        ],
        ..Dumped::default()
    };
    if args.dry.dry_run {
        return Ok(result);
    }
    space::check(call, &path, estimate);
    let _lock = Lock::take(call, "file", &resolved(&path)?)?;
    // Another run may have written it while this one asked for a password or waited for the server.
    let existing = existing(&path, args.force)?;
    let mut partial = CompleteFile::create(&path, 0o600)?;
    // What is counted is SQL, and of a compressed dump only the size of the file is known.
    let progress_total = if estimate.from_last && args.compress.is_none() { estimate.bytes } else { 0 };
    let dump = write(call, args, &program, &target, &database, &mut partial, &path, progress_total)?;
    properties.text_sha256 = Some(dump.sha256.clone());
    let text = properties.to_text()?;
    let result = Dumped {
        dump: DumpFacts::of(&dump, &path),
        properties_sha256: Some(file::sha256(text.as_bytes())),
        contents: dump.contents,
        ..result
    };
    publish(call, partial, &path, existing, &text, result)
}

fn warn_of_left_out(client: &mut Client, call: &Call) -> Result<(), Failure> {
    let row = client.query_one(LEFT_OUT, &[]).and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    let (mappings, unlogged) = row.map_err(|error| pg::of_query(&error, "look for what a dump leaves out"))?;
    if mappings {
        let message =
            "User mappings may be dumped without their options (a password), which only a superuser reads: --as postgres.";
        call.review("not_restored", message);
    }
    if unlogged {
        call.review("not_restored", "A standby has no rows of unlogged tables, so the dump has none: dump the primary.");
    }
    Ok(())
}

/// Where the dump goes: a database's name may hold a slash, a file's may not.
fn output(named: Option<&Path>, database: &str, compression: Option<Compression>) -> Result<PathBuf, Failure> {
    let suffix = compression.map_or("", Compression::suffix);
    let default = || PathBuf::from(format!("{}.backup.sql{suffix}", database.replace('/', "_")));
    let path = file::absolute(&named.map_or_else(default, Path::to_owned))?;
    let folder = file::folder_of(&path);
    let meta = std::fs::metadata(folder).map_err(|error| Failure::io("write the dump into its directory", folder, &error))?;
    let name = path.file_name().unwrap_or_default();
    let what = match () {
        () if name.is_empty() || !meta.is_dir() || path.is_dir() => "is not a name for a file".to_owned(),
        () if name.len() > LONGEST_NAME => format!("has a name of {} bytes, and at most {LONGEST_NAME} fit", name.len()),
        () => return Ok(path),
    };
    Err(Failure::usage("options_invalid", format!("{} {what}.", path.display()))
        .hint("Name another file, in a directory that is there, with --output."))
}

/// By whatever name it is written, a file has one lock.
fn resolved(path: &Path) -> Result<String, Failure> {
    let folder = file::folder_of(path);
    let resolved =
        std::fs::canonicalize(folder).map_err(|error| Failure::io("find the directory of the dump", folder, &error))?;
    Ok(resolved.join(path.file_name().unwrap_or_default()).display().to_string())
}

fn existing(path: &Path, force: bool) -> Result<Existing, Failure> {
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(Existing::Keep),
        Ok(meta) if !meta.is_file() => Err(file::not_regular("write the dump", path, "no regular file")),
        Ok(_) if force => Ok(Existing::Replace),
        Ok(_) => Err(file::exists(path)),
    }
}

/// Runs pg_dump into the partial file; the dump is read, hashed and compressed while it passes by.
#[allow(clippy::too_many_arguments)] // each is one thing that is known by now
fn write(
    call: &Call,
    args: &DumpArgs,
    program: &PgDump,
    target: &Target,
    database: &str,
    partial: &mut CompleteFile,
    path: &Path,
    total: u64,
) -> Result<Dump, Failure> {
    let progress = call.progress("dump", Unit::Bytes);
    let mut examiner = Examiner::default();
    let mut tables_count = 0;
    let mut running = Running::start(&mut program.command(args.lock_wait_timeout, target, database))?;
    let fault = |error: std::io::Error| Failure::io("write the dump", path, &error);
    let (send, pieces) = sync_channel(WAITING);
    let file = partial.file();
    let (running, written) = thread::scope(|scope| {
        // It has its own thread, so that pg_dump waits neither for it nor for the check of the SQL.
        let writer = scope.spawn(move || {
            let mut writer = CompressingWriter::new(args.compress, file);
            pieces.into_iter().try_for_each(|piece: Vec<u8>| writer.write(&piece))?;
            writer.finish()
        });
        let passed = running.pieces(call, |piece| {
            examiner.feed(&piece, &mut |_| ());
            send.send(piece).map_err(|_| Failure::fault("The dump's file takes no more."))?;
            progress.set(examiner.size_bytes(), total, None);
            if examiner.tables().len() != tables_count {
                tables_count = examiner.tables().len();
                progress.at(&examiner.tables().last().map(ToString::to_string).unwrap_or_default());
            }
            Ok(())
        });
        // If it failed, pg_dump is ended before the writer is waited for.
        let passed = passed.map(|()| running);
        drop(send);
        let written = joined(writer)?.map_err(fault);
        match passed {
            // Of a signal or the time limit that is the reason; else a file that takes no more.
            Err(failure) if failure.signal.is_some() || failure.status == Status::Timeout => Err(failure),
            Err(failure) => Err(written.err().unwrap_or(failure)),
            Ok(running) => Ok((running, written?)),
        }
    })?;
    let ended = running.wait(call)?;
    if !ended.status.success() {
        // ^C goes to both of us, and pg_dump may be the first to end of it.
        call.pause(Duration::from_millis(200))?;
        return Err(pg_dump::failure(call, &ended, target, database));
    }
    for line in pg_dump::own_words(&ended.stderr) {
        // What a pg_dump that succeeds says: circular foreign keys, a collation that changed.
        call.warn("external_warning", line.to_owned());
    }
    let (sha256, compressed) = written;
    let mut dump = examiner.finish(sha256);
    dump.compressed = compressed;
    let dump = dump.require_complete(path).map_err(|failure| {
        failure.hint("pg_dump said that it succeeded: check the disk and the server's log, then run the same command again.")
    })?;
    let Some(command) = dump.commands.first() else { return Ok(dump) };
    let message =
        format!("pg_dump wrote a command for psql, which could do anything, and which svc-pgrestore refuses: {command}.");
    Err(Failure::invalid("dump_invalid", message).hint(
        "Look for an object of the database whose definition has that line, and change it; then run the same command again.",
    ))
}

/// Gives both files their names. A first dump gets its name after its properties. A dump that replaces another gets it before them; until
/// the new properties are published, the old ones do not match its hash and are ignored.
fn publish(
    call: &Call,
    mut partial: CompleteFile,
    path: &Path,
    existing: Existing,
    properties: &str,
    result: Dumped,
) -> StepResult<Dumped> {
    // What the disk does not take shows before anything has its name.
    partial.file().sync_all().map_err(|error| Failure::io("write the dump", path, &error))?;
    let properties_path = Properties::path_of(path);
    let mut own = CompleteFile::create(&properties_path, 0o600)?;
    let written = own.write_all(properties.as_bytes()).and_then(|()| own.file().sync_all());
    written.map_err(|error| Failure::io("write the database's properties", &properties_path, &error))?;
    let first = existing == Existing::Keep;
    let was_there = properties_path.exists();
    let properties = |call: &Call| give_name(call, own, &properties_path, Existing::Replace);
    let named = match first {
        true => properties(call).and_then(|()| give_name(call, partial, path, existing)),
        false => give_name(call, partial, path, existing).and_then(|()| properties(call)),
    };
    let Err(failure) = named else { return Ok(result) };
    let without_dump = failure.code == "name_in_use" || !path.exists();
    if first && without_dump && !was_there && std::fs::remove_file(&properties_path).is_ok() {
        call.effects().undone();
    }
    Err(call.stopped(failure, result))
}

/// If only the last sync fails, the file has its name all the same.
fn give_name(call: &Call, file: CompleteFile, path: &Path, existing: Existing) -> Result<(), Failure> {
    let inode = || std::fs::symlink_metadata(path).ok().map(|meta| meta.ino());
    let before = inode();
    let published = file.publish(existing);
    if published.is_ok() || inode() != before {
        call.effects().happened();
    }
    published
}
