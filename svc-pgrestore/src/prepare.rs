//! The plan of a staging or a restore: everything that is found out before anything is changed.

use std::path::{Path, PathBuf};

use svc_pgdump::check::lexer::Unit;
use svc_pgdump::pg::escape_identifier;
use svc_pgdump::{Dump, DumpArg, DumpFacts, DumpFile, Dumped, Properties};
use svc_step::action::Action;
use svc_step::lock::Lock;
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, file};

use crate::admin::{self, Admin};
use crate::args::RestoreArgs;
use crate::create::{Creation, Statement};
use crate::document::{Named, PropertiesFrom, Staged};
use crate::load::{self, Plan, Planner};
use crate::verify::Objects;
use crate::{names, preflight, record};

/// The dump, opened with the rights of the caller.
pub(crate) struct Input {
    pub(crate) dump: DumpFile,
    /// The document of the dump, if it was given.
    recorded: Option<Dumped>,
    properties: Option<Properties>,
    /// Those of the database that an `--in-place` which failed has dropped; not those of another one, or of one that still exists.
    pub(crate) saved: Option<Properties>,
}

/// Where `--in-place` saves the properties of the database that it drops, until the new one has them.
pub(crate) fn saved_properties(dump: &Path) -> PathBuf {
    file::beside(dump, ".saved.properties.json")
}

impl Input {
    fn open(args: &DumpArg, call: &Call) -> Result<Self, Failure> {
        let (path, documented) = args.read(call)?;
        let dump = DumpFile::open(&path)?;
        let (recorded, properties) = match documented {
            Some((dumped, properties)) => {
                if properties.exists() {
                    dumped.check_properties(&properties)?;
                }
                (Some(dumped), properties)
            }
            None => (None, Properties::path_of(&path)),
        };
        let saved = Properties::find(&saved_properties(&path))?;
        Ok(Self { dump, recorded, properties: Properties::find(&properties)?, saved })
    }

    /// Reads the dump through: is it complete, is it that of the document, and in which order is it loaded?
    fn examine(&mut self, call: &Call) -> Result<(Dump, Plan, Objects), Failure> {
        let path = self.dump.path();
        let (mut planner, mut objects) = (Planner::default(), Objects::default());
        let mut take = |unit: &Unit<'_>| {
            planner.unit(unit);
            objects.unit(unit);
        };
        let dump = self.dump.examine(call, &mut take)?.require_complete(path)?;
        match &self.recorded {
            Some(recorded) => recorded.check(&dump, path)?,
            None => self.properties = self.properties.take().filter(|properties| properties.belong(call, &dump, path)),
        }
        if let Some(command) = dump.commands.first() {
            let message = format!("The dump has commands for psql, which could do anything: {command}.");
            return Err(Failure::refused("dump_invalid", message).hint("Dump one database without --create: svc-pgdump does."));
        }
        self.dump.require_frames()?;
        Ok((dump, planner.finish(), objects))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Copy,
    Swap,
    /// What is replaced is dropped.
    SwapAndDrop,
    Place,
}

pub(crate) struct Prepared {
    pub(crate) admin: Admin,
    pub(crate) input: Input,
    pub(crate) creation: Creation,
    pub(crate) dump: Dump,
    pub(crate) objects: Objects,
    pub(crate) plan: Plan,
    pub(crate) staged: Staged,
    _lock: Option<Lock>,
}

impl Prepared {
    /// Where the properties are recorded.
    pub(crate) fn properties_place(&self) -> String {
        let dump = self.input.dump.path();
        match (self.staged.properties_from, &self.input.saved) {
            (PropertiesFrom::Recorded, _) => Properties::path_of(dump).display().to_string(),
            (_, Some(_)) => saved_properties(dump).display().to_string(),
            (_, None) => "the live database".to_owned(),
        }
    }

    /// What is done. `tried_as`: the name under which a database that takes the place of the live one is made before that is dropped.
    fn actions(&self, tried_as: Option<&str>) -> Vec<Action> {
        let Self { input, creation, staged, .. } = self;
        let mut actions = tried_as.map_or_else(Vec::new, |name| creation.tried_as(name));
        if tried_as.is_some() {
            if staged.properties_from == PropertiesFrom::Live && input.saved.is_none() {
                actions.push(Action::file(&saved_properties(input.dump.path()), "write the live database's properties"));
            }
            actions.push(Action::statement(names::drop_statement(&creation.name)));
        }
        let shown = |statements: Vec<Statement>| statements.into_iter().map(|statement| statement.action());
        actions.extend(shown(vec![creation.create(), creation.grant()]).chain(shown(creation.before_load())));
        actions.push(load::action(staged.jobs_count, &self.plan, &creation.name, &staged.dump.path));
        actions.extend(shown(creation.close().into_iter().collect()).chain([Action::statement("ANALYZE")]));
        actions.extend(shown(creation.after_load()));
        actions
    }
}

pub(crate) fn prepare(args: &RestoreArgs, aim: Aim, dry_run: bool, call: &Call) -> Result<Prepared, Failure> {
    let mut input = Input::open(&args.dump, call)?;
    let database = args.database.name(input.recorded.as_ref().map(|recorded| recorded.database.as_str()))?;
    names::of_the_service(&database)?;
    if input.recorded.is_none() && args.database.named().is_none() {
        check_database(&input, &database, aim, call)?;
    }
    let mut admin = Admin::connect(&args.admin, call)?;
    if let Some(identifier) = input.recorded.as_ref().and_then(|recorded| recorded.system_identifier.as_deref()) {
        admin.check_server(args.other, identifier)?;
    }
    let lock = admin.lock(call, &database, dry_run)?;
    if aim != Aim::Copy {
        admin.check_left(call, &database)?;
    }
    let (dump, plan, objects) = input.examine(call)?;
    let jobs_count = load::jobs(args.jobs, &plan, &mut admin)?;
    let owner = args.database.owner(args.owner.as_deref());
    preflight::needs(&mut admin, &dump, &owner)?;
    let live = check_live(&mut admin, call, &database, aim)?;
    let is_dropped = |saved: &Properties| saved.database == database && live.is_none_or(|oid| saved.oid != Some(oid));
    input.saved = input.saved.filter(is_dropped);
    let (properties, properties_from) = properties(&mut admin, call, &input, &database, live.is_some())?;
    let folder = preflight::folder(&mut admin, properties.as_ref().map(|properties| properties.tablespace.as_str()))?;
    let copy_name = names::copy_name(&database, "staged", call.run_id());
    let mut creation = Creation {
        name: if aim == Aim::Place { database.clone() } else { copy_name.clone() },
        owner,
        properties,
        server: admin.server.version_num,
        // Who is no superuser would lock himself out too.
        closed: admin.superuser,
        opened_by_swap: aim != Aim::Place,
    };
    let missing = admin::missing_roles(&mut admin.client, &Vec::from_iter(creation.roles()))?;
    if !missing.is_empty() {
        call.review("not_restored", format!("Rights and settings of missing roles are left out: {}.", missing.join(", ")));
        creation.without_roles(&missing);
    }
    warn(call, &admin.target.user, &dump, &creation);
    let is_lost = live.is_some() && matches!(aim, Aim::SwapAndDrop | Aim::Place);
    if objects.lacks_owners && admin.target.user != creation.owner {
        let (admin, owner) = (&admin.target.user, &creation.owner);
        let message = format!("The dump has no owners (--no-owner): what it holds will belong to {admin}, not to {owner}.");
        if is_lost {
            return Err(preflight::lost(message));
        }
        call.review("not_restored", message);
    }
    // A dump of svc-pgdump is of all that there was.
    let is_external = input.recorded.is_none() && input.properties.is_none();
    if is_external && live.is_some() {
        let compared = preflight::missing_tables(call, &admin, (&dump, &objects), &database, is_lost);
        // It would have been a warning only.
        compared.or_else(|failure| if is_lost { Err(failure) } else { Ok(()) })?;
    }
    let tried_as = (aim == Aim::Place && live.is_some()).then_some(copy_name);
    let mut staged = Staged {
        database,
        system_identifier: admin.system_identifier.clone(),
        server_version: admin.server.version.clone(),
        owner: creation.owner.clone(),
        staged: Named { name: creation.name.clone(), oid: None },
        verified: false,
        verification: None,
        dump: DumpFacts::of(&dump, input.dump.path()),
        properties_from,
        jobs_count,
        disk_space: None,
        plan: Vec::new(),
    };
    // A copy that this run has staged already takes no more disk space.
    let in_place = aim == Aim::Place;
    let is_staged = !in_place && record::staged_before(&mut admin, &staged, call).is_ok_and(|before| before.is_some());
    if !args.ignore_disk_space && !is_staged {
        staged.disk_space = preflight::disk_space(&mut admin, call, &dump, folder.as_deref(), in_place, &staged.database)?;
    }
    let mut prepared = Prepared { admin, input, dump, objects, creation, plan, staged, _lock: lock };
    prepared.staged.plan = prepared.actions(tried_as.as_deref());
    Ok(prepared)
}

/// The OID of the live database, if there is one; nothing of it may be lost or stop the swap.
fn check_live(admin: &mut Admin, call: &Call, database: &str, aim: Aim) -> Result<Option<u32>, Failure> {
    let Some(live) = admin::live(&mut admin.client, database)? else { return Ok(None) };
    if matches!(aim, Aim::SwapAndDrop | Aim::Place) {
        admin::no_template(database, &live)?;
    }
    match preflight::in_the_way(database, &live) {
        Err(found) if aim == Aim::Copy => {
            call.warn(&found.code, format!("{} As long as that is so, the copy cannot be swapped in.", found.message));
        }
        found => found?,
    }
    Ok(live.oid)
}

/// By its file name alone, a dump of another database may be restored by mistake: if neither an option nor a document names the
/// database, its properties file tells.
fn check_database(input: &Input, database: &str, aim: Aim, call: &Call) -> Result<(), Failure> {
    let properties = input.properties.as_ref().or(input.saved.as_ref());
    let Some(other) = properties.map(|properties| &properties.database).filter(|other| *other != database) else { return Ok(()) };
    let message = format!("The dump is of the database {other}, and no option names {database}, which it would replace.");
    if !matches!(aim, Aim::SwapAndDrop | Aim::Place) {
        call.warn("options_invalid", message);
        return Ok(());
    }
    let options = [other.as_str(), database].map(|name| shell_quoted(&["--dbname", name]));
    Err(Failure::refused("options_invalid", message)
        .hint(format!("Pass the database that is to be dropped and restored: {}.", options.join(", or "))))
}

fn properties(
    admin: &mut Admin,
    call: &Call,
    input: &Input,
    database: &str,
    is_live: bool,
) -> Result<(Option<Properties>, PropertiesFrom), Failure> {
    if let Some(properties) = &input.properties {
        return Ok((Some(properties.clone()), PropertiesFrom::Recorded));
    }
    if let Some(saved) = &input.saved {
        let path = saved_properties(input.dump.path());
        let whose = format!("those of {}, which --in-place saved of the database {}", path.display(), saved.database);
        call.warn("not_restored", format!("The properties are {whose}."));
        return Ok((Some(saved.clone()), PropertiesFrom::Live));
    }
    let missing = "The dump has no properties file, so no encoding, locale, settings, rights and comment of the database";
    if is_live {
        // A damaged one takes no connection. (A comment is text of its encoding, so it is asked itself if it can be.)
        let properties = match admin.target.connect(call, database) {
            Ok(mut client) => Properties::read(&mut client, database)?,
            Err(_) => Properties::of(&mut admin.client, Some(database))?,
        };
        if properties.connection_limit == 0 {
            let message =
                format!("{database} is closed, as a failed --in-place leaves it: its properties are not what they were.");
            let open = format!("ALTER DATABASE {} CONNECTION LIMIT -1", escape_identifier(database));
            return Err(Failure::refused("not_swappable", message)
                .hint(format!("Restore the dump that it was given again; or open the database: {open}.")));
        }
        call.warn("not_restored", format!("{missing}: those of the live database {database} are used."));
        return Ok((Some(properties), PropertiesFrom::Live));
    }
    call.warn("not_restored", format!("{missing}: the server's defaults are used."));
    Ok((None, PropertiesFrom::Defaults))
}

fn warn(call: &Call, admin: &str, dump: &Dump, creation: &Creation) {
    let extensions = &dump.contents.extensions;
    if !extensions.is_empty() && admin != creation.owner {
        let message = format!("The extensions {} will belong to {admin}", extensions.join(", "));
        call.warn("not_restored", format!("{message}: if another role had made them, it can no longer update or drop them."));
    }
    if dump.has_subscriptions {
        call.review(
            "not_restored",
            "The subscriptions of the dump are not restored, since a database with one cannot be dropped: CREATE SUBSCRIPTION again if they are wanted.",
        );
    }
    if dump.inserted.is_some() {
        call.warn("not_verified", "The dump has its rows as INSERT statements, which are not counted and compared.");
    }
    creation.properties.iter().for_each(|properties| properties.warn_if_closed(call));
    if let Some(before) = creation.properties.as_ref().map(|own| &own.owner).filter(|owner| **owner != creation.owner) {
        let message = format!("The owner was {before}, and will be {}; --owner (SVC_DB_USER) names another one.", creation.owner);
        call.warn("not_restored", message);
    }
}
