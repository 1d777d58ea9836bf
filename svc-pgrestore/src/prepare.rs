//! Everything that is found out before anything is altered: the dump is whole, the server has what it needs, nothing is in the
//! way. What comes of it is the plan.

use std::path::Path;

use svc_pgdump::admin::{Admin, AdminArgs, Creation, Named, Statement, drop_statement, of_the_service};
use svc_pgdump::{Dump, Properties};
use svc_step::action::Action;
use svc_step::lock::Lock;
use svc_step::{Call, Failure};

use crate::input::{Input, InputArgs, kept_of};
use crate::loader::{self, Chosen, LoaderArgs, Plan};
use crate::outcome::{PropertiesFrom, Room, Staged};
use crate::proof::Expected;
use crate::settings::{DatabaseArgs, OwnerArg};
use crate::{names, part, preflight, server, trial};
use svc_step::people::shell_quoted;

/// What staging and restoring need to know.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) owner: OwnerArg,
    #[command(flatten)]
    pub(crate) loader: LoaderArgs,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

/// Where the dump is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A copy beside the live database, which stays so.
    Copy,
    /// The same, and it is swapped in.
    Swap,
    /// The database itself, which is dropped first.
    Place,
}

/// Ready to load.
pub(crate) struct Prepared {
    pub(crate) admin: Admin,
    pub(crate) input: Input,
    pub(crate) creation: Creation,
    pub(crate) expected: Expected,
    /// What loads the dump.
    pub(crate) chosen: Chosen,
    /// In which order.
    pub(crate) plan: Plan,
    /// What the document says, with nothing done yet.
    pub(crate) staged: Staged,
    /// Whether the dump sets an option that its server keeps for itself.
    pub(crate) sets_internal_option: bool,
    _lock: Option<Lock>,
}

/// Finds everything out.
///
/// # Errors
/// Whatever speaks against the restore; nothing was altered.
pub(crate) fn prepare(args: &RestoreArgs, aim: Aim, dry_run: bool, call: &Call) -> Result<Prepared, Failure> {
    let mut input = args.input.open(call)?;
    let database = args.database.name(input.recorded.as_ref().map(|recorded| recorded.database.as_str()));
    let owner = args.owner.name(&args.database);
    of_the_service(&database)?;
    meant(&input, &args.database, &database, aim, call)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    if let Some(identifier) = input.recorded.as_ref().and_then(|recorded| recorded.system_identifier.as_deref()) {
        admin.is_meant(args.input.other, identifier)?;
    }
    let lock = admin.lock(call, &database, dry_run)?;
    let (dump, plan) = input.examine(call)?;
    let chosen = args.loader.choose(&plan, &mut admin, call)?;
    needs(&mut admin, &dump, &owner)?;
    let live = server::live(&mut admin.client, &database)?;
    if let Some(live) = &live {
        match preflight::in_the_way(&database, live) {
            Err(found) if aim == Aim::Copy => {
                call.warn(&found.code, format!("{} As long as that is so, the copy cannot be swapped in.", found.message));
            }
            found => found?,
        }
    }
    let (properties, properties_from) = properties(&admin, call, &input, &database, live.is_some())?;
    let folder = files(&mut admin, properties.as_ref())?;
    let room = match args.input.ignore_room {
        true => None,
        false => room(&mut admin, &dump, folder.as_deref(), aim, &database)?,
    };
    let name = match aim {
        Aim::Copy | Aim::Swap => names::staged(&database, call.run_id()),
        Aim::Place => database.clone(),
    };
    let mut creation = Creation {
        name: name.clone(),
        owner: owner.clone(),
        properties,
        server: admin.server.version_num,
        // Whoever is no superuser would shut himself out too.
        closed: admin.server.superuser,
        opened_by_swap: aim != Aim::Place,
    };
    leave_out_roles(&mut admin, call, &mut creation)?;
    remarks(call, &admin, &dump);
    if live.is_some() {
        part::remark(call, &admin, &dump, &database);
    }
    other_owner(call, &creation);
    let mut first = Vec::new();
    if aim == Aim::Place && live.is_some() {
        first.extend(trial::actions(&creation, &names::staged(&database, call.run_id())));
        if properties_from == PropertiesFrom::Live && input.kept.is_none() {
            first.push(Action::file(&kept_of(input.dump.path()), "write the live database's properties"));
        }
        first.push(Action::statement(drop_statement(&database)));
    }
    let load = loader::actions(&chosen, &plan, &admin.target, &name, &input.dump.path().display().to_string());
    let staged = Staged {
        database,
        system_identifier: admin.server.system_identifier.clone(),
        server_version: admin.server.version.clone(),
        owner,
        staged: Named { name, oid: None },
        proven: false,
        proof: None,
        dump: input.source(&dump),
        properties_from,
        loader: chosen.name().to_owned(),
        loader_because: chosen.because.clone(),
        jobs_count: chosen.jobs,
        room,
        plan: first.into_iter().chain(actions(&creation, load)).collect(),
    };
    let sets_internal_option = dump.sets_internal_option;
    Ok(Prepared { admin, input, creation, expected: expected(&dump), chosen, plan, staged, sets_internal_option, _lock: lock })
}

/// By the name of its file alone a dump of another database may be restored by mistake: where nobody said which one is meant, the
/// properties beside it tell.
fn meant(input: &Input, named: &DatabaseArgs, database: &str, aim: Aim, call: &Call) -> Result<(), Failure> {
    let properties = input.properties.as_ref().or(input.kept.as_ref());
    let Some(other) = properties.map(|properties| &properties.database).filter(|other| *other != database) else { return Ok(()) };
    if input.recorded.is_some() || named.is_named() {
        return Ok(());
    }
    let message = format!("The dump is of the database {other}, and nobody named {database}, in whose place it would come.");
    if aim != Aim::Place {
        call.warn("database_not_named", message);
        return Ok(());
    }
    let options = [other.as_str(), database].map(|name| shell_quoted(&["--dbname".to_owned(), name.to_owned()]));
    Err(Failure::refused("database_not_named", message)
        .hint(format!("Say which database is to be dropped and restored: {}.", options.join(", or "))))
}

/// What the server must have.
fn needs(admin: &mut Admin, dump: &Dump, owner: &str) -> Result<(), Failure> {
    let version = dump.server_version.as_deref().unwrap_or_default();
    preflight::versions(dump.server_major().unwrap_or_default(), version, &admin.server)?;
    preflight::owner(&server::missing_roles(&mut admin.client, &[owner.to_owned()])?)?;
    preflight::roles(&server::missing_roles(&mut admin.client, &dump.roles)?)?;
    preflight::extensions(&server::missing_extensions(&mut admin.client, &dump.extensions)?)
}

/// The folder that the database's files will lie in, where the server tells it.
fn files(admin: &mut Admin, properties: Option<&Properties>) -> Result<Option<String>, Failure> {
    let own = admin.server.data_directory.clone();
    let Some(properties) = properties else { return Ok(own) };
    let location = server::tablespace(&mut admin.client, &properties.tablespace)?;
    let location = preflight::tablespace(&properties.tablespace, location)?;
    Ok(if location.is_empty() { own } else { Some(location) })
}

/// Where the server's disk is this host's.
fn room(admin: &mut Admin, dump: &Dump, folder: Option<&str>, aim: Aim, database: &str) -> Result<Option<Room>, Failure> {
    let Some((folder, free)) = folder.and_then(|folder| Some((folder, admin.target.free_bytes(folder)?))) else {
        return Ok(None);
    };
    if aim != Aim::Place {
        return preflight::room(dump.size_bytes, free, folder).map(Some);
    }
    let own = admin.server.data_directory.clone();
    let given_back = match server::files(&mut admin.client, database)? {
        None => 0,
        Some(files) => {
            let location = if files.location.is_empty() { own } else { Some(files.location) };
            let elsewhere = location.is_some_and(|location| preflight::are_apart(Path::new(&location), Path::new(folder)));
            match files.size_bytes {
                _ if elsewhere => 0,
                Some(size) => size,
                // What is not known cannot be too little.
                None => return Ok(None),
            }
        }
    };
    preflight::room_in_place(dump.size_bytes, free, given_back, folder).map(|()| None)
}

fn properties(
    admin: &Admin,
    call: &Call,
    input: &Input,
    database: &str,
    live: bool,
) -> Result<(Option<Properties>, PropertiesFrom), Failure> {
    if let Some(properties) = &input.properties {
        return Ok((Some(properties.clone()), PropertiesFrom::Recorded));
    }
    if let Some(kept) = &input.kept {
        let path = kept_of(input.dump.path());
        call.warn(
            "properties_kept",
            format!(
                "The database's properties are those of {}, which --in-place has kept of the database {} when it dropped it.",
                path.display(),
                kept.database
            ),
        );
        return Ok((Some(kept.clone()), PropertiesFrom::Live));
    }
    let missing = "There is no properties file beside the dump, which does not hold the database's encoding, locale, settings, rights and comment";
    if live {
        let mut client = admin.target.connect(call, database)?;
        let properties = Properties::read(&mut client, admin.server.version_num / 10_000)?;
        call.warn("properties_from_live", format!("{missing}: they are taken from the live database {database}."));
        return Ok((Some(properties), PropertiesFrom::Live));
    }
    call.warn("properties_from_defaults", format!("{missing}: they are the server's defaults."));
    Ok((None, PropertiesFrom::Defaults))
}

fn leave_out_roles(admin: &mut Admin, call: &Call, creation: &mut Creation) -> Result<(), Failure> {
    let gone = server::missing_roles(&mut admin.client, &creation.roles())?;
    if !gone.is_empty() {
        call.warn("roles_gone", format!("Rights and settings of roles that are not there are left out: {}.", gone.join(", ")));
        creation.without_roles(&gone);
    }
    Ok(())
}

/// The owner is named by flag and settings, not by the dump.
fn other_owner(call: &Call, creation: &Creation) {
    let Some(before) = creation.properties.as_ref().map(|properties| &properties.owner) else { return };
    if *before != creation.owner {
        call.warn(
            "other_owner",
            format!(
                "The database belonged to {before}, and will belong to {}; --owner (SVC_DB_USER) says whose it is.",
                creation.owner
            ),
        );
    }
}

fn remarks(call: &Call, admin: &Admin, dump: &Dump) {
    if let Some(remark) = loader::passed_over(dump, admin.server.version_num) {
        call.warn("header_passed_over", remark);
    }
    if dump.has_subscriptions {
        call.warn(
            "subscriptions_left_out",
            "The dump holds subscriptions, which are not brought back, since a database with one cannot be dropped: CREATE SUBSCRIPTION anew where they are wanted.",
        );
    }
    if dump.has_inserts {
        call.warn("rows_not_counted", "The dump holds its rows as INSERT statements, which are not counted and so not compared.");
    }
}

/// Everything in order, as an operator would type it.
fn actions(creation: &Creation, load: Vec<Action>) -> Vec<Action> {
    let mut plan = vec![creation.create().action(), creation.grant().action()];
    plan.extend(creation.before_load().iter().map(Statement::action));
    plan.extend(load);
    plan.extend(creation.close().iter().map(Statement::action));
    plan.push(Action::statement("ANALYZE"));
    plan.extend(creation.after_load().iter().map(Statement::action));
    plan
}

fn expected(dump: &Dump) -> Expected {
    Expected {
        rows: dump.tables.iter().map(|table| (table.quoted(), table.row_count)).collect(),
        has_large_objects: dump.has_large_objects,
    }
}
