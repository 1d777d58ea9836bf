//! The plan of a staging or a restore: everything that is found out before anything is changed.

use svc_pgdump::{Dump, Properties};
use svc_step::action::Action;
use svc_step::lock::Lock;
use svc_step::people::shell_quoted;
use svc_step::{Call, Failure};

use crate::admin::{self, Admin};
use crate::args::{DatabaseArgs, RestoreArgs};
use crate::create::{Creation, Statement};
use crate::document::{Named, PropertiesFrom, Staged};
use crate::input::{Input, kept_of};
use crate::load::{self, Chosen, Plan};
use crate::verify::Expected;
use crate::{names, preflight};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Copy,
    Swap,
    Place,
}

pub(crate) struct Prepared {
    pub(crate) admin: Admin,
    pub(crate) input: Input,
    pub(crate) creation: Creation,
    pub(crate) expected: Expected,
    pub(crate) chosen: Chosen,
    pub(crate) plan: Plan,
    pub(crate) staged: Staged,
    /// Whether the dump sets an option that its server keeps for itself.
    pub(crate) sets_internal_option: bool,
    _lock: Option<Lock>,
}

pub(crate) fn prepare(args: &RestoreArgs, aim: Aim, dry_run: bool, call: &Call) -> Result<Prepared, Failure> {
    let mut input = args.input.open(call)?;
    let database = args.database.name(input.recorded.as_ref().map(|recorded| recorded.database.as_str()))?;
    names::of_the_service(&database)?;
    check_named(&input, &args.database, &database, aim, call)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    if let Some(identifier) = input.recorded.as_ref().and_then(|recorded| recorded.system_identifier.as_deref()) {
        admin.check_server(args.input.other, identifier)?;
    }
    let lock = admin.lock(call, &database, dry_run)?;
    let (dump, plan) = input.examine(call)?;
    let chosen = args.loader.choose(&plan, &mut admin, call)?;
    let owner = args.owner();
    preflight::needs(&mut admin, &dump, &owner)?;
    let live = admin::live(&mut admin.client, &database)?;
    if let Some(live) = &live {
        match preflight::in_the_way(&database, live) {
            Err(found) if aim == Aim::Copy => {
                call.warn(&found.code, format!("{} As long as that is so, the copy cannot be swapped in.", found.message));
            }
            found => found?,
        }
    }
    let (properties, properties_from) = properties(&admin, call, &input, &database, live.is_some())?;
    let folder = preflight::folder(&mut admin, properties.as_ref().map(|properties| properties.tablespace.as_str()))?;
    let room = match args.input.ignore_room {
        true => None,
        false => preflight::disk_space(&mut admin, &dump, folder.as_deref(), aim == Aim::Place, &database)?,
    };
    let copy_name = names::staged(&database, call.run_id());
    let mut creation = Creation {
        name: if aim == Aim::Place { database.clone() } else { copy_name.clone() },
        owner,
        properties,
        server: admin.server.version_num,
        // Who is no superuser would lock himself out too.
        closed: admin.server.superuser,
        opened_by_swap: aim != Aim::Place,
    };
    leave_out_roles(&mut admin, call, &mut creation)?;
    warn(call, &admin, &dump, &creation);
    if live.is_some() {
        preflight::warn_of_missing_tables(call, &admin, &dump, &database);
    }
    let mut actions = Vec::new();
    if aim == Aim::Place && live.is_some() {
        actions.extend(creation.tried_as(&copy_name));
        if properties_from == PropertiesFrom::Live && input.kept.is_none() {
            actions.push(Action::file(&kept_of(input.dump.path()), "write the live database's properties"));
        }
        actions.push(Action::statement(names::drop_statement(&database)));
    }
    let load = load::actions(&chosen, &plan, &admin.target, &creation.name, &input.dump.path().display().to_string());
    actions.extend([creation.create().action(), creation.grant().action()]);
    actions.extend(creation.before_load().iter().map(Statement::action).chain(load));
    actions.extend(creation.close().iter().map(Statement::action));
    actions.push(Action::statement("ANALYZE"));
    actions.extend(creation.after_load().iter().map(Statement::action));
    let staged = Staged {
        database,
        system_identifier: admin.server.system_identifier.clone(),
        server_version: admin.server.version.clone(),
        owner: creation.owner.clone(),
        staged: Named { name: creation.name.clone(), oid: None },
        verified: false,
        verification: None,
        dump: input.source(&dump),
        properties_from,
        loader: chosen.name().to_owned(),
        loader_because: chosen.because.clone(),
        jobs_count: chosen.jobs,
        room,
        plan: actions,
    };
    let expected = Expected {
        rows: dump.tables.iter().map(|table| (table.quoted(), table.row_count)).collect(),
        has_large_objects: dump.has_large_objects,
    };
    let sets_internal_option = dump.sets_internal_option;
    Ok(Prepared { admin, input, creation, expected, chosen, plan, staged, sets_internal_option, _lock: lock })
}

/// By its file name alone, a dump of another database may be restored by mistake: if neither an option nor a document names the
/// database, the properties beside the dump tell.
fn check_named(input: &Input, named: &DatabaseArgs, database: &str, aim: Aim, call: &Call) -> Result<(), Failure> {
    let properties = input.properties.as_ref().or(input.kept.as_ref());
    let Some(other) = properties.map(|properties| &properties.database).filter(|other| *other != database) else { return Ok(()) };
    if input.recorded.is_some() || named.named().is_some() {
        return Ok(());
    }
    let message = format!("The dump is of the database {other}, and no option names {database}, which it would replace.");
    if aim != Aim::Place {
        call.warn("database_not_named", message);
        return Ok(());
    }
    let options = [other.as_str(), database].map(|name| shell_quoted(&["--dbname".to_owned(), name.to_owned()]));
    Err(Failure::refused("database_not_named", message)
        .hint(format!("Pass the database that is to be dropped and restored: {}.", options.join(", or "))))
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
        let (path, dropped) = (kept_of(input.dump.path()), &kept.database);
        call.warn(
            "properties_kept",
            format!("The properties are those of {}, which --in-place kept of the database {dropped}.", path.display()),
        );
        return Ok((Some(kept.clone()), PropertiesFrom::Live));
    }
    let missing =
        "The dump has no properties file, and does not hold the database's encoding, locale, settings, rights and comment";
    if live {
        let mut client = admin.target.connect(call, database)?;
        let properties = Properties::read(&mut client, admin.server.version_num / 10_000)?;
        call.warn("properties_from_live", format!("{missing}: those of the live database {database} are used."));
        return Ok((Some(properties), PropertiesFrom::Live));
    }
    call.warn("properties_from_defaults", format!("{missing}: the server's defaults are used."));
    Ok((None, PropertiesFrom::Defaults))
}

fn leave_out_roles(admin: &mut Admin, call: &Call, creation: &mut Creation) -> Result<(), Failure> {
    let gone = admin::missing_roles(&mut admin.client, &creation.roles())?;
    if !gone.is_empty() {
        call.warn("roles_gone", format!("Rights and settings of missing roles are left out: {}.", gone.join(", ")));
        creation.without_roles(&gone);
    }
    Ok(())
}

fn warn(call: &Call, admin: &Admin, dump: &Dump, creation: &Creation) {
    if let Some(sentence) = load::left_out(dump, admin.server.version_num) {
        call.warn("header_passed_over", sentence);
    }
    if dump.has_subscriptions {
        call.warn(
            "subscriptions_left_out",
            "The subscriptions of the dump are not restored, since a database with one cannot be dropped: CREATE SUBSCRIPTION again if they are wanted.",
        );
    }
    if dump.has_inserts {
        call.warn("rows_not_counted", "The dump has its rows as INSERT statements, which are not counted and compared.");
    }
    if let Some(before) = creation.properties.as_ref().map(|properties| &properties.owner)
        && *before != creation.owner
    {
        let message = format!("The owner was {before}, and will be {}; --owner (SVC_DB_USER) names another one.", creation.owner);
        call.warn("other_owner", message);
    }
}
