//! `clone`: a clone of the database on the same server, file by file, which `swap` makes live. It is much quicker than a dump and its
//! restore; it lies on the same disk, so it is no backup.

use postgres::Client;
use postgres::error::SqlState;
use svc_pgdump::Properties;
use svc_pgdump::pg::{self, DatabaseArgs, MAINTENANCE};
use svc_step::common::DryRun;
use svc_step::progress::Unit;
use svc_step::reporter::bytes;
use svc_step::{Call, Failure, StepResult, swaps};

use crate::admin::{Admin, Live, databases, live, oid_of, query_one, session_pid, sessions};
use crate::args::AdminArgs;
use crate::create::{Creation, Statement};
use crate::document::{Cloned, Named};
use crate::record::{SCHEMAS, run_id_taken};
use crate::{names, preflight};

/// Arguments of `svc-pgrestore clone`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: a way back without a restore, after the service was stopped
  svc-pgrestore clone > clone.json
  svc-pgrestore swap --from clone.json     # back to what was cloned
  svc-pgrestore discard --from clone.json  # it is not needed any more")]
pub struct CloneArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Try even if the server's disk has too little space for a second copy
    #[arg(long)]
    ignore_disk_space: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &CloneArgs, call: &Call) -> StepResult<Cloned> {
    let database = args.database.name(None)?;
    names::of_the_service(&database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    let _lock = admin.lock(call, &database, args.dry.dry_run)?;
    let (mut clone, creation) = plan(&admin, call, &database)?;
    if let Some(done) = done(&mut admin, call, &clone)? {
        return Ok(done);
    }
    if !args.ignore_disk_space {
        check_disk_space(&mut admin, call, &creation, &clone)?;
    }
    if args.dry.dry_run {
        return Ok(clone);
    }
    act(&mut admin, call, &creation, &mut clone).map_err(|failure| call.stopped(failure, clone.clone()))?;
    Ok(clone)
}

/// Reads the live database and disconnects from it: no session may be connected when it is cloned.
fn plan(admin: &Admin, call: &Call, database: &str) -> Result<(Cloned, Creation), Failure> {
    let mut client = admin.target.connect(call, database)?;
    let properties = Properties::read(&mut client, database)?;
    let (size_bytes, tables_count) = size_and_tables(&mut client)?;
    let creation = Creation {
        name: names::copy_name(database, "clone", call.run_id()),
        owner: properties.owner.clone(),
        properties: Some(properties),
        server: admin.server.version_num,
        // No client may write to it before it is complete. An administrator who is no superuser would lock himself out too.
        closed: admin.superuser,
        opened_by_swap: true,
    };
    let closed = creation.close().into_iter().collect();
    let statements = [vec![creation.copy_of(database)], creation.before_load(), closed, creation.after_load()].concat();
    let clone = Cloned {
        run: call.run_id().to_string(),
        database: database.to_owned(),
        system_identifier: admin.system_identifier.clone(),
        server_version: admin.server.version.clone(),
        owner: creation.owner.clone(),
        clone: Named { name: creation.name.clone(), oid: None },
        verified: false,
        size_bytes,
        tables_count,
        plan: statements.iter().map(Statement::action).collect(),
    };
    Ok((clone, creation))
}

fn size_and_tables(client: &mut Client) -> Result<(u64, u64), Failure> {
    let get = |client: &mut Client, sql| query_one::<i64>(client, "get the size of the database", sql, &[]);
    let size = get(client, "SELECT pg_catalog.pg_database_size(pg_catalog.current_database())")?;
    let tables = get(client, "SELECT count(*) FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'm')")?;
    Ok((u64::try_from(size).unwrap_or_default(), u64::try_from(tables).unwrap_or_default()))
}

/// The clone that this run has made already.
fn done(admin: &mut Admin, call: &Call, wanted: &Cloned) -> Result<Option<Cloned>, Failure> {
    let catalog = databases(&mut admin.client)?;
    let taken = Err(run_id_taken(call.run_id()));
    let clone: Cloned = match swaps::find(call, call.run_id(), &SCHEMAS)? {
        None if catalog.iter().any(|one| one.name == wanted.clone.name) => return taken,
        None => return Ok(None),
        Some(received) if received.step() == "clone" => received.result()?,
        Some(_) => return taken,
    };
    match clone {
        clone if clone.database != wanted.database || clone.system_identifier != wanted.system_identifier => taken,
        Cloned { verified: false, .. } => Ok(None),
        clone if catalog.contains(&clone.clone) => Ok(Some(clone)),
        _ => taken,
    }
}

fn check_disk_space(admin: &mut Admin, call: &Call, creation: &Creation, clone: &Cloned) -> Result<(), Failure> {
    let tablespace = creation.properties.as_ref().map(|properties| properties.tablespace.as_str());
    let Some(folder) = preflight::folder(admin, tablespace)? else { return Ok(()) };
    let (needed, free) = (clone.size_bytes, admin.target.free_bytes(&folder));
    let freed = preflight::freed(admin, call, &folder, &clone.database, false)?;
    let free = free.zip(freed).map(|(free, freed)| free.saturating_add(freed));
    let Some(free) = free.filter(|free| *free < needed) else { return Ok(()) };
    Err(Failure::refused("out_of_space", format!("A clone takes {} at {folder}, and {} are free.", bytes(needed), bytes(free)))
        .hint("Free disk space; --ignore-disk-space if the tables are elsewhere. A dump is smaller, and may lie elsewhere."))
}

/// Records the clone before it makes it, so that the next call finds what a killed one left; a failure or a signal leaves nothing.
fn act(admin: &mut Admin, call: &Call, creation: &Creation, clone: &mut Cloned) -> Result<(), Failure> {
    call.check()?;
    admin.remove_unfinished(call, &clone.database)?;
    let record = |clone: &Cloned| swaps::write(call, call.run_id(), "clone", clone);
    record(clone)?;
    let made = copy(admin, call, creation, clone).and_then(|()| record(clone));
    made.map_err(|failure| admin.undo(call, &clone.clone.name, failure))
}

fn copy(admin: &mut Admin, call: &Call, creation: &Creation, clone: &mut Cloned) -> Result<(), Failure> {
    let progress = call.progress("clone", Unit::Bytes);
    progress.at(&format!("{} of {}", creation.name, bytes(clone.size_bytes)));
    // The session that holds the lock of the database makes the clone: if this call is killed, the next one waits until the server
    // has ended that statement.
    let mut maker = admin.target.connect(call, MAINTENANCE)?;
    std::mem::swap(&mut admin.client, &mut maker);
    let pid = session_pid(&mut maker)?;
    let _ = maker.batch_execute(pg::CONNECTION_CHECKS);
    let attempt = call.effects().attempt();
    let create = || maker.batch_execute(&creation.copy_of(&clone.database).sql).map_err(|error| failed(&error, &clone.database));
    if let Err(mut failure) = admin.supervised(call, &[pid], &|| false, create) {
        if failure.code == "server_busy"
            && let Ok(Some(Live { oid: Some(oid), prepared, .. })) = live(&mut admin.client, &clone.database)
        {
            failure.causes.extend(prepared.iter().map(|gid| format!("prepared transaction {gid}")));
            failure.causes.extend(sessions(&mut admin.client, &[oid]));
        }
        return Err(failure);
    }
    // A failure may have ended that session.
    std::mem::swap(&mut admin.client, &mut maker);
    attempt.happened();
    clone.clone.oid = oid_of(&mut admin.client, &clone.clone.name)?;
    call.check()?;
    let give = |admin: &mut Admin, statements: Vec<Statement>| {
        statements.iter().try_for_each(|one| admin.alter(call, &one.sql, "give the clone the properties of the database"))
    };
    give(admin, creation.before_load())?;
    let mut client = admin.target.connect(call, &clone.clone.name)?;
    let own = session_pid(&mut client)?;
    admin.close(call, creation, &clone.clone, &[own])?;
    let (_, tables) = size_and_tables(&mut client)?;
    if tables != clone.tables_count {
        return Err(Failure::invalid("content_differs", "The clone does not have the tables of the database.")
            .hint("A client changed the database meanwhile: stop what is connected to it, then run the same command again.")
            .cause(format!("the database has {} tables, the clone {tables}", clone.tables_count)));
    }
    give(admin, creation.after_load())?;
    clone.verified = true;
    Ok(())
}

fn failed(error: &postgres::Error, database: &str) -> Failure {
    match error.as_db_error() {
        Some(said) if *said.code() == SqlState::OBJECT_IN_USE => {
            let message = format!("The database {database} is in use, and cannot be cloned meanwhile.");
            Failure::unavailable("server_busy", message)
                .hint("Stop the service (svc-unit stop) and what else is connected, then run the same command again; the causes name them.")
                .cause(pg::describe(said))
        }
        _ => pg::of_query(error, "clone the database"),
    }
}
