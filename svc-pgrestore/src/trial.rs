//! The trial of what the server may not accept: recorded properties, on the empty database before anything is loaded into it. Before
//! `--in-place` drops anything, an empty database of another name is created for it and dropped again: what the server cannot create
//! anew (a locale that it does not have, a tablespace that is full) must not be dropped first.

use postgres::error::{DbError, SqlState};
use svc_pgdump::admin::{Admin, Creation, Named, Statement, databases, drop_if_there};
use svc_pgdump::{Properties, refusal};
use svc_step::action::Action;
use svc_step::{Call, Failure, swaps};

use crate::input::{Input, kept_of};
use crate::outcome::PropertiesFrom;
use crate::prepare::Prepared;
use crate::swap::SCHEMAS;
use crate::{names, notes, stage};

/// What is done, as an operator would type it.
pub(crate) fn actions(wanted: &Creation, name: &str) -> Vec<Action> {
    let trial = trial(wanted, name);
    let given = trial.before_load().into_iter().map(|statement| statement.action());
    let created = std::iter::once(trial.create().action());
    created.chain(given).chain(std::iter::once(Action::statement(drop_if_there(name)))).collect()
}

fn trial(wanted: &Creation, name: &str) -> Creation {
    Creation { name: name.to_owned(), ..wanted.clone() }
}

/// Creates an empty database with the properties of the one that is to be created, and drops it. It is noted as a staging that did
/// not come to its end, so that the next call clears away what a killed one leaves.
///
/// # Errors
/// The server does not create it, or is lost; the live database is untouched.
pub(crate) fn can_be_created(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    stage::remove_leftovers(prepared, call)?;
    let name = names::staged(&prepared.staged.database, call.run_id());
    let catalog = databases(&mut prepared.admin.client)?;
    let is_there = |name: &str| catalog.iter().any(|one| one.name == name);
    // Nothing is dropped; or this run has made such a database already.
    if !is_there(&prepared.staged.database) || is_there(&name) {
        return Ok(());
    }
    let mut noted = prepared.staged.clone();
    noted.staged = Named { name: name.clone(), oid: None };
    let is_new = swaps::find(call, call.run_id(), &SCHEMAS)?.is_none();
    if is_new {
        notes::write(call, call.run_id(), "stage", &noted.database, &noted)?;
    }
    let Prepared { admin, input, creation, staged, .. } = prepared;
    let trial = trial(creation, &name);
    let created = admin.alter(call, &trial.create().sql, "create a database like the one that is to be replaced");
    let accepted = if created.is_ok() { accepts(admin, call, &trial, staged.properties_from, input) } else { Ok(()) };
    match prepared.admin.take_back(&name) {
        Ok(()) => {
            if created.is_ok() {
                call.effects().undone();
            }
            if is_new {
                swaps::remove(call, call.run_id())?;
            }
        }
        Err(error) => call.warn("leftover", format!("The empty database {name} could not be dropped: {}", error.message)),
    }
    created.map_err(|failure| {
        failure.hint(format!("The database {} is untouched. See the cause, and make good what the server lacks.", noted.database))
    })?;
    accepted
}

/// The server accepts the recorded properties: each is tried on the empty database, in a transaction that is rolled back. Then it is
/// given those that hold during the load, and connected to once: some of them only a new session reads.
///
/// # Errors
/// It rejects one (3), or is lost (5).
pub(crate) fn accepts(
    admin: &mut Admin,
    call: &Call,
    creation: &Creation,
    from: PropertiesFrom,
    input: &Input,
) -> Result<(), Failure> {
    let told = |error: &postgres::Error| refusal::of_query(error, "try the recorded properties of the database");
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
        // Everybody has the right to connect to a new database, so one that is lacking is to what a setting names.
        Err(failure) if ["postgres_connect", "postgres_no_right"].contains(&failure.code.as_str()) => {
            Err(closing(failure, creation, from, input))
        }
        // Whom the server lets in may depend on the name, and that of a copy is another one.
        Err(failure) if !["postgres_access_denied", "password_missing"].contains(&failure.code.as_str()) => Err(failure),
        _ => Ok(()),
    }
}

/// With its properties, the server lets nobody into the database.
fn closing(failure: Failure, creation: &Creation, from: PropertiesFrom, input: &Input) -> Failure {
    let message = "The server connects nobody to a database with the recorded properties.";
    let hint = format!(
        "See the cause, and make good what the server lacks; or take the setting out of {}, and restore by the name of the dump: svc-pgrestore FILE",
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
    let leave = format!("take it out of {}, and restore by the name of the dump: svc-pgrestore FILE", place(from, input));
    let hint = if *said.code() == SqlState::INSUFFICIENT_PRIVILEGE {
        format!("Connect as a superuser (--as postgres), who may set it; or {leave}.")
    } else {
        format!("See the cause, and make good what the server lacks; or {leave}.")
    };
    // The server repeats a value, which may be a secret.
    let cause = if statement.is_shown() { refusal::words(said) } else { said.code().code().to_owned() };
    let message = format!("The server rejects a recorded property of the database: {}.", statement.shown());
    Failure::refused("property_rejected", message).hint(hint).cause(cause)
}
