//! The restore without a step name: stage, verify and swap; or with `--in-place` the procedure's literal order (4.2): DROP, CREATE
//! (with OWNER), GRANT, load.

use svc_pgdump::Properties;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing};
use svc_step::people::shell_quoted;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::admin::databases;
use crate::args::RestoreArgs;
use crate::create::Creation;
use crate::document::{Named, PropertiesFrom, Restored, Staged, Swapped};
use crate::fill::{fill, try_properties};
use crate::input::kept_of;
use crate::names::drop_if_exists;
use crate::prepare::{Aim, Prepared, prepare};
use crate::record::SCHEMAS;
use crate::swap::{self, DropOld, Exchange, Standing};
use crate::{names, record, stage};

/// Arguments of `svc-pgrestore` without a step name.
#[derive(Debug, clap::Args)]
pub struct WholeArgs {
    #[command(flatten)]
    old: DropOld,
    /// Drop the database first and load into its place, for lack of disk space for a copy; there is no way back then
    #[arg(long, conflicts_with = "drop_old")]
    in_place: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    restore: RestoreArgs,
}

pub(crate) fn run(args: &WholeArgs, call: &Call) -> StepResult<Restored> {
    if args.in_place {
        return in_place(&args.restore, args.dry.dry_run, call);
    }
    let mut prepared = prepare(&args.restore, Aim::Swap, args.dry.dry_run, call)?;
    if args.dry.dry_run {
        return Ok(dry_run(prepared, args.old.drop_old, call)?);
    }
    let staged = match staged_before(&mut prepared, call)? {
        Some(staged) => staged,
        None => stage::perform(&mut prepared, call)
            .map_err(|Stopped { failure, result }| Stopped { failure, result: result.map(|stage| without_swap(stage, false)) })?,
    };
    let restored = |swapped: Option<&Swapped>| {
        let plan = staged.plan.iter().chain(swapped.iter().flat_map(|swapped| &swapped.plan)).cloned().collect();
        Restored { database: staged.database.clone(), in_place: false, stage: staged.clone(), swap: swapped.cloned(), plan }
    };
    // One record holds both, so that the same run, killed and started again, finds what was staged.
    let record = |swapped: &Swapped| record::write(call, call.run_id(), "restore", &staged.database, &restored(Some(swapped)));
    let exchange = Exchange::of_staged(&staged, call.run_id().clone());
    match swap::perform(&mut prepared.admin, call, &exchange, args.old.drop_old, false, &record) {
        Ok(swapped) => Ok(restored(Some(&swapped))),
        Err(Stopped { failure, result }) => {
            Err(Stopped::with(swap::with_hint(failure, call.run_id()), restored(result.as_ref())))
        }
    }
}

/// The plan of both; the copy has no OID yet.
fn dry_run(mut prepared: Prepared, drop_old: bool, call: &Call) -> Result<Restored, Failure> {
    let stage = prepared.staged;
    let exchange = Exchange::of_staged(&stage, call.run_id().clone());
    let (Standing::Ready { previous } | Standing::Done { previous }) = exchange.ready(&databases(&mut prepared.admin.client)?)?;
    let plan = exchange.plan(previous.as_ref(), drop_old);
    let swap = exchange.planned(previous, plan);
    let plan = stage.plan.iter().chain(&swap.plan).cloned().collect();
    Ok(Restored { database: stage.database.clone(), in_place: false, stage, swap: Some(swap), plan })
}

/// What this run has staged already, whether it was swapped in or not.
fn staged_before(prepared: &mut Prepared, call: &Call) -> Result<Option<Staged>, Failure> {
    let Some(staged) = stage::recorded(&prepared.staged, call)? else { return Ok(None) };
    let catalog = databases(&mut prepared.admin.client)?;
    Ok(catalog.iter().any(|one| one.oid == staged.staged.oid).then_some(staged))
}

fn without_swap(stage: Staged, in_place: bool) -> Restored {
    Restored { database: stage.database.clone(), in_place, plan: stage.plan.clone(), stage, swap: None }
}

fn in_place(args: &RestoreArgs, dry_run: bool, call: &Call) -> StepResult<Restored> {
    let mut prepared = prepare(args, Aim::Place, dry_run, call)?;
    let database = &prepared.staged.database;
    call.warn("in_place", format!("The database {database} is dropped before the dump is loaded: only a dump leads back."));
    if dry_run {
        return Ok(without_swap(prepared.staged, true));
    }
    call.check()?;
    can_be_created(&mut prepared, call)?;
    keep_properties(&prepared, call)?;
    match drop_and_fill(args, &mut prepared, call) {
        Ok(()) => {
            remove_kept_properties(&prepared, call);
            Ok(without_swap(prepared.staged, true))
        }
        Err(failure) => Err(Stopped::with(failure, without_swap(prepared.staged, true))),
    }
}

/// Creates an empty database with the same properties, and drops it: what the server cannot create again (a locale that it lacks, a
/// full tablespace) must not be dropped first. It is recorded as an unfinished staging, so that the next call removes what a killed
/// one leaves.
fn can_be_created(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    prepared.admin.remove_leftovers(call, &prepared.staged.database)?;
    let name = names::staged(&prepared.staged.database, call.run_id());
    let catalog = databases(&mut prepared.admin.client)?;
    let exists = |name: &str| catalog.iter().any(|one| one.name == name);
    // Nothing is dropped; or this run has created such a database already.
    if !exists(&prepared.staged.database) || exists(&name) {
        return Ok(());
    }
    let is_new = swaps::find(call, call.run_id(), &SCHEMAS)?.is_none();
    if is_new {
        let unfinished = Staged { staged: Named { name: name.clone(), oid: None }, ..prepared.staged.clone() };
        record::write(call, call.run_id(), "stage", &unfinished.database, &unfinished)?;
    }
    let Prepared { admin, input, creation, staged, .. } = prepared;
    let empty = Creation { name: name.clone(), ..creation.clone() };
    let created = admin.alter(call, &empty.create().sql, "create a database like the one that is to be replaced");
    let accepted = match &created {
        Ok(()) => try_properties(admin, call, &empty, staged.properties_from, input),
        Err(_) => Ok(()),
    };
    match admin.take_back(&name) {
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
        failure.hint(format!("The database {} was not changed. Fix the cause on the server.", staged.database))
    })?;
    accepted
}

/// The live database's properties would be lost with it if the load failed. Their file is not that of `svc-pgdump`, whose hash its
/// document has.
fn keep_properties(prepared: &Prepared, call: &Call) -> Result<(), Failure> {
    let properties: Option<&Properties> = prepared.creation.properties.as_ref();
    if let (PropertiesFrom::Live, None, Some(properties)) = (prepared.staged.properties_from, &prepared.input.kept, properties) {
        let path = kept_of(prepared.input.dump.path());
        file::write_whole(&path, properties.to_text()?.as_bytes(), 0o600, Existing::Keep)?;
        call.effects().happened();
    }
    Ok(())
}

fn remove_kept_properties(prepared: &Prepared, call: &Call) {
    let path = kept_of(prepared.input.dump.path());
    if prepared.staged.properties_from == PropertiesFrom::Live
        && let Err(error) = std::fs::remove_file(&path)
    {
        call.warn("leftover", format!("The file {} could not be removed: {error}.", path.display()));
    }
}

fn drop_and_fill(args: &RestoreArgs, prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let database = prepared.staged.database.clone();
    prepared.admin.alter(call, &drop_if_exists(&database), &format!("drop the database {database}"))?;
    fill(prepared, call).map_err(|failure| {
        let again = command(args, prepared);
        failure.hint(format!("The database {database} is incomplete. When the cause is fixed, restore it again: {again}"))
    })
}

/// The same command for a shell without any of the settings: a default could be another database, which would be dropped.
fn command(args: &RestoreArgs, prepared: &Prepared) -> String {
    let staged = &prepared.staged;
    let mut words =
        ["svc-pgrestore", "--in-place", "--dbname", &staged.database, "--owner", &staged.owner].map(str::to_owned).to_vec();
    words.extend(args.admin.typed(&prepared.admin.target));
    words.extend(args.input.ignore_room.then(|| "--ignore-room".to_owned()));
    // Absolute, so it cannot begin with a dash.
    words.push(staged.dump.path.clone());
    shell_quoted(&words)
}
