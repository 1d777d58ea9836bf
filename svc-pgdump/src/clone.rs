//! `clone`: a clone of the database on the same server, which `svc-pgrestore swap` makes live again. It is made by the
//! server, file by file, and so is much quicker than a dump and its restore; it lies on the same disk, and so is no backup.

mod act;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::settings::ServiceArg;
use svc_step::{Call, Failure, StepResult, swaps};

use crate::admin::{Admin, AdminArgs, Creation, Named, Statement, copy_name, databases, of_the_service, run_id_taken};
use crate::connection::database_name;
use crate::properties::Properties;
use crate::refusal;

/// The schema of its documents and notes.
const SCHEMA: &str = "svc-pgdump.clone/1";

/// Arguments of `svc-pgdump clone`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: a way back without a restore, after the service's stop
  svc-pgdump clone > clone.json
  svc-pgrestore swap --from clone.json                back to what was cloned
  svc-pgrestore discard --from clone.json             it is not needed any more")]
pub struct CloneArgs {
    #[arg(long = "dbname", value_name = "DBNAME", env = "SVC_DATABASE")]
    dbname: Option<String>,
    #[command(flatten)]
    service: ServiceArg,
    /// Try although the server's disk has too little room for a second copy
    #[arg(long)]
    ignore_room: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    admin: AdminArgs,
}

/// A standing copy of the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cloned {
    /// The run whose copy it is; its name holds it, and `--run` takes it.
    pub run: String,
    /// The live database that it is a copy of.
    pub database: String,
    /// The server's identifier (`pg_control_system`).
    pub system_identifier: String,
    /// The server's version.
    pub server_version: String,
    /// Its owner, which is that of the live database.
    pub owner: String,
    /// The copy.
    pub clone: Named,
    /// `true`: it is whole, and has the live database's owner, settings, rights, comment and connection limit. Only then it can
    /// be swapped in.
    pub proven: bool,
    /// The size of the live database when it was copied: the room that the copy takes.
    pub size_bytes: u64,
    /// How many tables both have.
    pub tables_count: u64,
    /// What is done.
    pub plan: Vec<Action>,
}

pub(crate) fn run(args: &CloneArgs, call: &Call) -> StepResult<Cloned> {
    let database = database_name(args.dbname.as_deref(), &args.service.name)?;
    of_the_service(&database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    let _lock = admin.lock(call, &database, args.dry.dry_run)?;
    let (live, creation) = look(&admin, call, &database)?;
    let mut clone = planned(call, &admin, &database, &live, &creation);
    if let Some(done) = done(&mut admin, call, &clone)? {
        return Ok(done);
    }
    if !args.ignore_room {
        room(&admin, live.size_bytes)?;
    }
    if args.dry.dry_run {
        return Ok(clone);
    }
    match act::cloned(&mut admin, call, &creation, &mut clone) {
        Ok(()) => Ok(clone),
        Err(failure) => Err(call.stopped(failure, clone)),
    }
}

/// What is read of the live database.
struct Live {
    size_bytes: u64,
    tables_count: u64,
}

const LIVE: &str = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database()), \
    (SELECT count(*) FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'm'))";

/// Reads the live database, and lets go of it: nobody may be connected to it when it is copied.
fn look(admin: &Admin, call: &Call, database: &str) -> Result<(Live, Creation), Failure> {
    let mut client = admin.target.connect(call, database)?;
    let properties = Properties::read(&mut client, admin.server.version_num / 10_000)?;
    let row = client.query_one(LIVE, &[]).map_err(|error| refusal::of_query(&error, "ask for the size of the database"))?;
    let number = |at| u64::try_from(row.get::<_, i64>(at)).unwrap_or_default();
    let live = Live { size_bytes: number(0), tables_count: number(1) };
    let creation = Creation {
        name: copy_name(database, "clone", call.run_id()),
        owner: properties.owner.clone(),
        properties: Some(properties),
        server: admin.server.version_num,
        // Nobody is to write to it before it is whole. Whoever is no superuser would shut himself out too.
        closed: admin.server.superuser,
        opened_by_swap: true,
    };
    Ok((live, creation))
}

fn planned(call: &Call, admin: &Admin, database: &str, live: &Live, creation: &Creation) -> Cloned {
    let copy = creation.copy_of(database);
    Cloned {
        run: call.run_id().to_string(),
        database: database.to_owned(),
        system_identifier: admin.server.system_identifier.clone(),
        server_version: admin.server.version.clone(),
        owner: creation.owner.clone(),
        clone: Named { name: creation.name.clone(), oid: None },
        proven: false,
        size_bytes: live.size_bytes,
        tables_count: live.tables_count,
        plan: [copy].iter().chain(&creation.close()).chain(&creation.finish()).map(Statement::action).collect(),
    }
}

/// Whether this run has cloned it already.
///
/// # Errors
/// The run is about another database, what it cloned is gone or was swapped in (3), or a database of that name is somebody
/// else's (3); the note is empty or damaged (7).
fn done(admin: &mut Admin, call: &Call, wanted: &Cloned) -> Result<Option<Cloned>, Failure> {
    let noted: Option<Cloned> = swaps::find(call, call.run_id(), &[SCHEMA])?.map(|received| received.result()).transpose()?;
    let catalog = databases(&mut admin.client)?;
    let is_taken = catalog.iter().any(|one| one.name == wanted.clone.name);
    let Some(noted) = noted else {
        if !is_taken {
            return Ok(None);
        }
        return Err(Failure::refused(
            "clone_exists",
            format!("There is a database {} already, of which nothing is noted here.", wanted.clone.name),
        )
        .hint("Look at it; or give this run an id of its own: --run-id or SVC_RUN_ID."));
    };
    if noted.database != wanted.database || noted.system_identifier != wanted.system_identifier {
        return Err(run_id_taken(call.run_id(), &noted.database));
    }
    if !noted.proven {
        return Ok(None);
    }
    if catalog.contains(&noted.clone) {
        return Ok(Some(noted));
    }
    Err(Failure::refused(
        "copy_missing",
        format!("The run {} has cloned the database already, and that clone is gone or was swapped in.", wanted.run),
    )
    .hint("Give this one a run id of its own: --run-id or SVC_RUN_ID; without, run the command again."))
}

/// Where the server's disk is this host's.
fn room(admin: &Admin, needed: u64) -> Result<(), Failure> {
    let Some(folder) = admin.server.data_directory.as_deref() else { return Ok(()) };
    match admin.target.free_bytes(folder) {
        Some(free) if free < needed => {
            Err(Failure::refused("no_room", format!("A copy takes {needed} bytes at {folder}, and {free} bytes are free."))
                .hint("Make room; --ignore-room if the tables are elsewhere. A dump is smaller, and can lie on another disk."))
        }
        _ => Ok(()),
    }
}
