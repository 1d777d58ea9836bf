//! `stage`: a copy of the database beside the live one, loaded and verified. The live database is not touched.

use postgres::error::{DbError, SqlState};
use svc_pgdump::pg;
use svc_step::common::DryRun;
use svc_step::{Call, Failure, StepResult, swaps};

use crate::admin::{Admin, databases, oid_of};
use crate::args::RestoreArgs;
use crate::create::{Creation, Statement};
use crate::document::Staged;
use crate::load::{self, Load};
use crate::names::drop_statement;
use crate::prepare::{Aim, Prepared, prepare};
use crate::record::{self, SCHEMAS};
use crate::verify::verify;

/// Arguments of `svc-pgrestore stage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  svc-pgrestore stage --from pgdump.json > staged.json")]
pub struct StageArgs {
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    restore: RestoreArgs,
}

pub(crate) fn run(args: &StageArgs, call: &Call) -> StepResult<Staged> {
    let mut prepared = prepare(&args.restore, Aim::Copy, args.dry.dry_run, call)?;
    if args.dry.dry_run {
        return Ok(prepared.staged);
    }
    perform(&mut prepared, call, &|staged| record::write(call, call.run_id(), "stage", &staged.database, staged))
}

type Record<'a> = &'a dyn Fn(&Staged) -> Result<(), Failure>;

/// `record` is given what was staged; until then it is recorded as unfinished.
pub(crate) fn perform(prepared: &mut Prepared, call: &Call, record: Record<'_>) -> StepResult<Staged> {
    act(prepared, call, record).map_err(|failure| call.stopped(failure, prepared.staged.clone()))
}

fn act(prepared: &mut Prepared, call: &Call, record: Record<'_>) -> Result<Staged, Failure> {
    prepared.admin.remove_unfinished(call, &prepared.staged.database)?;
    let catalog = databases(&mut prepared.admin.client)?;
    let name = prepared.staged.staged.name.clone();
    if catalog.iter().any(|one| one.name == name) {
        return match record::staged(&prepared.staged, call)? {
            Some(staged) if catalog.contains(&staged.staged) => Ok(staged),
            _ => {
                let message = format!("There is a database {name} already, of another dump.");
                let drops = match swaps::find(call, call.run_id(), &SCHEMAS)? {
                    Some(_) => prepared.admin.command("discard", call.run_id().as_str()),
                    None => drop_statement(&name),
                };
                Err(Failure::refused("name_in_use", message).hint(format!("{drops} drops it, or pass another run ID.")))
            }
        };
    }
    record::write(call, call.run_id(), "stage", &prepared.staged.database, &prepared.staged)?;
    let filled = fill(prepared, call).and_then(|()| record(&prepared.staged));
    filled.map_err(|failure| prepared.admin.undo(call, &name, failure))?;
    Ok(prepared.staged.clone())
}

/// Creates the copy (with `--in-place` the database itself), loads, verifies, and gives the properties; `staged` tells how far it came.
pub(crate) fn fill(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let place = prepared.properties_place();
    let Prepared { admin, input, dump, objects, creation, plan, staged, .. } = prepared;
    call.check()?;
    admin.alter(call, &creation.create().sql, &format!("create the database {}", creation.name))?;
    staged.staged.oid = oid_of(&mut admin.client, &creation.name)?;
    admin.alter(call, &creation.grant().sql, "grant the owner's rights")?;
    try_properties(admin, call, creation, &place)?;
    call.check()?;
    let load = Load { server: admin.server.version_num, database: &creation.name, file: &input.dump, dump };
    let mut sessions = load::load(call, admin, &load, plan, staged.jobs_count)?;
    input.dump.unchanged()?;
    let verification = verify(call, admin, &mut sessions, dump, objects, creation, &staged.staged)?;
    drop(sessions);
    // What follows opens a database that is restored in place: it is complete then.
    call.check()?;
    for statement in creation.after_load() {
        admin.alter(call, &statement.sql, "give the database its recorded properties")?;
    }
    staged.verification = Some(verification);
    staged.verified = true;
    Ok(())
}

/// Tries each recorded property on the empty database, in a transaction that is rolled back. Then gives it those that hold during the
/// load, and connects once: some of them only a new session reads. `place` is where they are recorded.
pub(crate) fn try_properties(admin: &mut Admin, call: &Call, creation: &Creation, place: &str) -> Result<(), Failure> {
    let failed = |error: postgres::Error| pg::of_query(&error, "try the recorded properties of the database");
    admin.client.batch_execute("BEGIN").map_err(failed)?;
    let tried = creation.before_load().into_iter().chain(creation.after_load()).try_for_each(|statement| {
        admin.client.batch_execute(&statement.sql).map_err(|error| match error.as_db_error() {
            Some(said) => rejected(&statement, said, place),
            None => failed(error),
        })
    });
    let ended = admin.client.batch_execute("ROLLBACK").map_err(failed);
    tried.and(ended)?;
    for statement in creation.before_load() {
        admin.alter(call, &statement.sql, "give the database its recorded properties")?;
    }
    let Err(failure) = admin.target.connect(call, &creation.name) else { return Ok(()) };
    match failure.code.as_str() {
        // Everybody may connect to a new database, so a right that is lacking is one that a setting needs.
        "server_refused" | "permission_denied" => {}
        // pg_hba.conf may allow the live name and not that of the copy.
        "access_denied" => return Ok(()),
        _ => return Err(failure),
    }
    let message = "The server refuses connections to a database with the recorded properties.";
    let refused = Failure::refused("server_refused", message).hint(format!(
        "Fix the cause on the server; or remove the setting from {place}, and restore by the name of the dump: svc-pgrestore FILE"
    ));
    // The server repeats a value, which may be a secret.
    let is_shown = creation.before_load().iter().all(Statement::is_shown);
    Err(failure.causes.into_iter().filter(|_| is_shown).fold(refused, Failure::cause))
}

fn rejected(statement: &Statement, said: &DbError, place: &str) -> Failure {
    let remove = format!("remove it from {place}, and restore by the name of the dump: svc-pgrestore FILE");
    let hint = if *said.code() == SqlState::INSUFFICIENT_PRIVILEGE {
        format!("Connect as a superuser (--as postgres), who may set it; or {remove}.")
    } else {
        format!("Fix the cause on the server; or {remove}.")
    };
    // The server repeats a value, which may be a secret.
    let cause = if statement.is_shown() { pg::describe(said) } else { said.code().code().to_owned() };
    let message = format!("The server rejects a recorded property of the database: {}.", statement.shown());
    Failure::refused("server_refused", message).hint(hint).cause(cause)
}
