//! Creates a fresh database and fills it: a copy, or with `--in-place` the database itself.

use postgres::error::{DbError, SqlState};
use svc_pgdump::Properties;
use svc_pgdump::check::{INTERNAL_OPTION, major};
use svc_pgdump::pg;
use svc_step::progress::Unit;
use svc_step::{Call, Failure};

use crate::admin::{Admin, oid_of, session_pid, up_to};
use crate::create::{Creation, Statement};
use crate::document::{PropertiesFrom, Source};
use crate::input::{Input, kept_of};
use crate::load::{self, Load};
use crate::prepare::Prepared;
use crate::verify::verify;

/// Creates, loads, verifies, and gives the properties; `staged` tells how far it came.
pub(crate) fn fill(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let Prepared { admin, input, creation, expected, chosen, plan, staged, sets_internal_option, .. } = prepared;
    call.check()?;
    admin.alter(call, &creation.create().sql, &format!("create the database {}", creation.name))?;
    staged.staged.oid = oid_of(&mut admin.client, &creation.name)?;
    admin.alter(call, &creation.grant().sql, "grant the owner's rights")?;
    try_properties(admin, call, creation, staged.properties_from, input)?;
    call.check()?;
    let load = Load {
        server: admin.server.version_num,
        database: &creation.name,
        dump: &input.dump,
        size_bytes: staged.dump.text_size_bytes,
    };
    load::load(call, admin, &load, chosen, plan)
        .map_err(|failure| hint_of_client(failure, &staged.dump, *sets_internal_option, load.server))?;
    input.dump.unaltered()?;
    let progress = call.progress("verify", Unit::Items("tables"));
    let connect = || admin.target.connect(call, &creation.name);
    let (first, mut clients) = up_to(chosen.jobs.min(expected.rows.len()), connect)?;
    clients.push(first);
    let own = clients.iter_mut().map(session_pid).collect::<Result<Vec<_>, _>>()?;
    admin.close(call, creation, &staged.staged, &own)?;
    let verification = admin.interruptible(call, &mut clients, |clients| verify(clients, expected, &progress))?;
    drop(clients);
    for statement in creation.after_load() {
        admin.alter(call, &statement.sql, "give the database its recorded properties")?;
    }
    call.check()?;
    staged.verification = Some(verification);
    staged.verified = true;
    Ok(())
}

/// A pg_dump that is newer than its server, or than this one, may write what only another server understands.
fn hint_of_client(failure: Failure, dump: &Source, sets_internal_option: bool, server: u32) -> Failure {
    let server = server / 10_000;
    if failure.code == "load_failed" && sets_internal_option {
        return failure.hint(format!(
            "Check that line and the causes. The dump sets {INTERNAL_OPTION}, which its server ({}) keeps for itself and another one may refuse: dump it with the server's own pg_dump, which leaves that out, or restore on a server of that version.",
            dump.server_version
        ));
    }
    if failure.code != "load_failed" || major(&dump.pg_dump_version).is_none_or(|client| client <= server) {
        return failure;
    }
    failure.hint(format!(
        "Check that line and the causes. The dump is by pg_dump {}, which may write what only a server of that version understands: dump with one of version {server}, or restore on a newer server.",
        dump.pg_dump_version
    ))
}

/// Tries each recorded property on the empty database, in a transaction that is rolled back. Then gives it those that hold during the
/// load, and connects once: some of them only a new session reads.
pub(crate) fn try_properties(
    admin: &mut Admin,
    call: &Call,
    creation: &Creation,
    from: PropertiesFrom,
    input: &Input,
) -> Result<(), Failure> {
    let told = |error: &postgres::Error| pg::of_query(error, "try the recorded properties of the database");
    admin.client.batch_execute("BEGIN").map_err(|error| told(&error))?;
    let mut tried = creation.before_load().into_iter().chain(creation.after_load()).map(|statement| {
        let ran = admin.client.batch_execute(&statement.sql);
        ran.map_err(|error| error.as_db_error().map_or_else(|| told(&error), |said| rejected(&statement, said, from, input)))
    });
    let tried = tried.try_for_each(|one| one);
    let ended = admin.client.batch_execute("ROLLBACK").map_err(|error| told(&error));
    tried.and(ended)?;
    for statement in creation.before_load() {
        admin.alter(call, &statement.sql, "give the database its recorded properties")?;
    }
    match admin.target.connect(call, &creation.name) {
        // Everybody may connect to a new database, so a right that is lacking is one that a setting needs.
        Err(failure) if ["postgres_connect", "postgres_no_right"].contains(&failure.code.as_str()) => {
            Err(no_connection(failure, creation, from, input))
        }
        // pg_hba.conf may allow the live name and not that of the copy.
        Err(failure) if !["postgres_access_denied", "password_missing"].contains(&failure.code.as_str()) => Err(failure),
        _ => Ok(()),
    }
}

fn no_connection(failure: Failure, creation: &Creation, from: PropertiesFrom, input: &Input) -> Failure {
    let message = "The server refuses connections to a database with the recorded properties.";
    let hint = format!(
        "Fix the cause on the server; or remove the setting from {}, and restore by the name of the dump: svc-pgrestore FILE",
        place(from, input)
    );
    let is_shown = creation.before_load().iter().all(Statement::is_shown);
    let refused = Failure::refused("property_rejected", message).hint(hint);
    // The server repeats a value, which may be a secret.
    if is_shown { failure.causes.into_iter().fold(refused, Failure::cause) } else { refused }
}

fn place(from: PropertiesFrom, input: &Input) -> String {
    match (from, &input.kept) {
        (PropertiesFrom::Recorded, _) => Properties::path_of(input.dump.path()).display().to_string(),
        (_, Some(_)) => kept_of(input.dump.path()).display().to_string(),
        (_, None) => "the live database".to_owned(),
    }
}

fn rejected(statement: &Statement, said: &DbError, from: PropertiesFrom, input: &Input) -> Failure {
    let remove = format!("remove it from {}, and restore by the name of the dump: svc-pgrestore FILE", place(from, input));
    let hint = if *said.code() == SqlState::INSUFFICIENT_PRIVILEGE {
        format!("Connect as a superuser (--as postgres), who may set it; or {remove}.")
    } else {
        format!("Fix the cause on the server; or {remove}.")
    };
    // The server repeats a value, which may be a secret.
    let cause = if statement.is_shown() { pg::words(said) } else { said.code().code().to_owned() };
    let message = format!("The server rejects a recorded property of the database: {}.", statement.shown());
    Failure::refused("property_rejected", message).hint(hint).cause(cause)
}
