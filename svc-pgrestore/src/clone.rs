//! `clone`: a clone of the database on the same server, file by file, which `swap` makes live. It is much quicker than a dump and its
//! restore; it lies on the same disk, so it is no backup.

use postgres::Client;
use postgres::error::SqlState;
use svc_pgdump::Properties;
use svc_pgdump::pg;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::progress::Unit;
use svc_step::{Call, Failure, StepResult, swaps};

use crate::admin::{Admin, AdminArgs, databases, oid_of, session_pid, sessions};
use crate::args::DatabaseArgs;
use crate::create::{Creation, Statement};
use crate::document::{Cloned, Named};
use crate::names;
use crate::record::{SCHEMAS, run_id_taken};

/// Arguments of `svc-pgrestore clone`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: a way back without a restore, after the service was stopped
  svc-pgrestore clone > clone.json
  svc-pgrestore swap --from clone.json                back to what was cloned
  svc-pgrestore discard --from clone.json             it is not needed any more")]
pub struct CloneArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Try although the server's disk has too little space for a second copy
    #[arg(long)]
    ignore_room: bool,
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
    if !args.ignore_room {
        disk_space(&admin, clone.size_bytes)?;
    }
    if args.dry.dry_run {
        return Ok(clone);
    }
    match act(&mut admin, call, &creation, &mut clone) {
        Ok(()) => Ok(clone),
        Err(failure) => Err(call.stopped(failure, clone)),
    }
}

const SIZE_AND_TABLES: &str = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database()), \
    (SELECT count(*) FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'm'))";

/// Reads the live database and disconnects from it: nobody may be connected when it is cloned.
fn plan(admin: &Admin, call: &Call, database: &str) -> Result<(Cloned, Creation), Failure> {
    let mut client = admin.target.connect(call, database)?;
    let properties = Properties::read(&mut client, admin.server.version_num / 10_000)?;
    let (size_bytes, tables_count) = size_and_tables(&mut client)?;
    let creation = Creation {
        name: names::clone(database, call.run_id()),
        owner: properties.owner.clone(),
        properties: Some(properties),
        server: admin.server.version_num,
        // Nobody may write to it before it is complete. Who is no superuser would lock himself out too.
        closed: admin.server.superuser,
        opened_by_swap: true,
    };
    let copy = creation.copy_of(database);
    let clone = Cloned {
        run: call.run_id().to_string(),
        database: database.to_owned(),
        system_identifier: admin.server.system_identifier.clone(),
        server_version: admin.server.version.clone(),
        owner: creation.owner.clone(),
        clone: Named { name: creation.name.clone(), oid: None },
        verified: false,
        size_bytes,
        tables_count,
        plan: [copy].iter().chain(&creation.close()).chain(&creation.finish()).map(Statement::action).collect::<Vec<Action>>(),
    };
    Ok((clone, creation))
}

fn size_and_tables(client: &mut Client) -> Result<(u64, u64), Failure> {
    let row = client.query_one(SIZE_AND_TABLES, &[]);
    let row = row.map_err(|error| pg::of_query(&error, "get the size of the database"))?;
    let number = |at| u64::try_from(row.get::<_, i64>(at)).unwrap_or_default();
    Ok((number(0), number(1)))
}

fn done(admin: &mut Admin, call: &Call, wanted: &Cloned) -> Result<Option<Cloned>, Failure> {
    let recorded = swaps::find(call, call.run_id(), &SCHEMAS)?;
    let catalog = databases(&mut admin.client)?;
    let Some(received) = recorded else {
        if !catalog.iter().any(|one| one.name == wanted.clone.name) {
            return Ok(None);
        }
        return Err(Failure::refused(
            "clone_exists",
            format!("There is a database {} already, and no record of it here.", wanted.clone.name),
        )
        .hint("Check it; or pass another run ID: --run-id or SVC_RUN_ID."));
    };
    let gone = || {
        let message =
            format!("The run {} has cloned the database already, and that clone is gone or was swapped in.", wanted.run);
        Failure::refused("copy_missing", message)
            .hint("Pass another run ID: --run-id or SVC_RUN_ID; without, run the command again.")
    };
    match received.step() {
        "clone" => {}
        "swap" => return Err(gone()),
        _ => return Err(run_id_taken(call.run_id())),
    }
    let clone: Cloned = received.result()?;
    if clone.database != wanted.database || clone.system_identifier != wanted.system_identifier {
        return Err(run_id_taken(call.run_id()));
    }
    match clone.verified {
        false => Ok(None),
        true if catalog.contains(&clone.clone) => Ok(Some(clone)),
        true => Err(gone()),
    }
}

fn disk_space(admin: &Admin, needed: u64) -> Result<(), Failure> {
    let Some(folder) = admin.server.data_directory.as_deref() else { return Ok(()) };
    match admin.target.free_bytes(folder) {
        Some(free) if free < needed => {
            Err(Failure::refused("no_room", format!("A clone takes {needed} bytes at {folder}, and {free} bytes are free."))
                .hint(
                    "Free disk space; --ignore-room if the tables are elsewhere. A dump is smaller, and can lie on another disk.",
                ))
        }
        _ => Ok(()),
    }
}

/// Records the clone before it makes it, so that the next call finds what a killed one left; a failure or a signal leaves nothing.
fn act(admin: &mut Admin, call: &Call, creation: &Creation, clone: &mut Cloned) -> Result<(), Failure> {
    call.check()?;
    admin.remove_leftovers(call, &clone.database)?;
    let record = |clone: &Cloned| swaps::write(call, call.run_id(), "clone", clone);
    record(clone)?;
    match copy(admin, call, creation, clone).and_then(|()| record(clone)) {
        Ok(()) => Ok(()),
        Err(failure) => Err(admin.undo(call, &clone.clone.name, failure)),
    }
}

fn copy(admin: &mut Admin, call: &Call, creation: &Creation, clone: &mut Cloned) -> Result<(), Failure> {
    let progress = call.progress("clone", Unit::Bytes);
    progress.at(&format!("{} of {} bytes", creation.name, clone.size_bytes));
    // The session that holds the lock of the database makes the clone: if this call is killed, the next one waits until the server
    // has ended that statement.
    let mut maker = admin.target.connect(call, svc_pgdump::pg::MAINTENANCE)?;
    std::mem::swap(&mut admin.client, &mut maker);
    let sql = creation.copy_of(&clone.database).sql;
    let attempt = call.effects().attempt();
    let made = admin.interruptible(call, std::slice::from_mut(&mut maker), |maker| {
        maker.iter_mut().try_for_each(|maker| maker.batch_execute(&sql)).map_err(|error| match error.code() {
            Some(code) if *code == SqlState::OBJECT_IN_USE => in_use(&error, &clone.database),
            _ => pg::of_query(&error, "clone the database"),
        })
    });
    if let Err(mut failure) = made {
        if failure.code == IN_USE
            && let Ok(Some(live)) = oid_of(&mut admin.client, &clone.database)
        {
            failure.causes.extend(sessions(&mut admin.client, &[live]));
        }
        return Err(failure);
    }
    // A failure may have ended that session.
    std::mem::swap(&mut admin.client, &mut maker);
    attempt.happened();
    clone.clone.oid = oid_of(&mut admin.client, &clone.clone.name)?;
    call.check()?;
    let mut client = admin.target.connect(call, &clone.clone.name)?;
    let own = session_pid(&mut client)?;
    admin.close(call, creation, &clone.clone, &[own])?;
    let (_, tables) = size_and_tables(&mut client)?;
    if tables != clone.tables_count {
        return Err(Failure::invalid("copy_differs", "The clone does not have the tables of the database.")
            .hint("Somebody changed the database meanwhile: stop what is connected to it, then run the same command again.")
            .cause(format!("the database has {} tables, the clone {tables}", clone.tables_count)));
    }
    for statement in creation.finish() {
        admin.alter(call, &statement.sql, "give the clone the properties of the database")?;
    }
    clone.verified = true;
    Ok(())
}

const IN_USE: &str = "database_in_use";

fn in_use(error: &postgres::Error, database: &str) -> Failure {
    let failure = Failure::unavailable(IN_USE, format!("The database {database} is in use, and cannot be cloned meanwhile."))
        .hint(
            "Stop the service (svc-unit stop) and what else is connected, then run the same command again; the causes name them.",
        );
    match error.as_db_error() {
        Some(said) => failure.cause(pg::words(said)),
        None => failure,
    }
}
