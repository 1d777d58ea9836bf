//! The restore without a step name: stage, verify and swap; or with `--in-place` the procedure's literal order (4.2): DROP, CREATE
//! (with OWNER), GRANT, load.

use std::path::Path;

use svc_pgdump::Properties;
use svc_step::common::DryRun;
use svc_step::file::{self, Existing};
use svc_step::reporter::shell_quoted;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::admin::{self, Live, databases, oid_of};
use crate::args::RestoreArgs;
use crate::create::Creation;
use crate::document::{Named, PropertiesFrom, Restored, Staged, Swapped};
use crate::names::{copy_name, drop_statement};
use crate::prepare::{Aim, Prepared, prepare, saved_properties};
use crate::record::SCHEMAS;
use crate::stage::{fill, try_properties};
use crate::{record, stage, swap};

/// Arguments of `svc-pgrestore` without a step name.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Drop what was replaced
    #[arg(long)]
    drop_old: bool,
    /// Drop the database first and load into its place, for lack of disk space for a copy; there is no way back then
    #[arg(long, conflicts_with = "drop_old")]
    in_place: bool,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    restore: RestoreArgs,
}

pub(crate) fn run(args: &Args, call: &Call) -> StepResult<Restored> {
    if args.in_place {
        return in_place(&args.restore, args.dry.dry_run, call);
    }
    let aim = if args.drop_old { Aim::SwapAndDrop } else { Aim::Swap };
    let mut prepared = prepare(&args.restore, aim, args.dry.dry_run, call)?;
    if args.dry.dry_run {
        let swap = swap_of(&prepared.staged, call);
        // The copy has no OID yet.
        let state = swap.ready(&databases(&mut prepared.admin.client)?)?;
        return Ok(restored(&prepared.staged, Some(&swap.planned(state, args.drop_old))));
    }
    // One record holds both, so that the same run, killed and started again, finds what was staged.
    let record = |stage: &Staged, swap: Option<&Swapped>| {
        record::write(call, call.run_id(), "restore", &stage.database, &restored(stage, swap))
    };
    let staged = match record::staged_before(&mut prepared.admin, &prepared.staged, call)? {
        Some(staged) => staged,
        None => stage::perform(&mut prepared, call, &|staged| record(staged, None))
            .map_err(|Stopped { failure, result }| Stopped { failure, result: result.map(|stage| restored(&stage, None)) })?,
    };
    let record = |swapped: &Swapped| record(&staged, Some(swapped));
    match swap::perform(&mut prepared.admin, call, swap_of(&staged, call), args.drop_old, false, &record) {
        Ok(swapped) => Ok(restored(&staged, Some(&swapped))),
        Err(Stopped { failure, result }) => {
            // The same call has another run ID, and would stage once more.
            let failure = swap::with_hint(failure, &prepared.admin, call.run_id().as_str()).retryable(false);
            Err(Stopped::with(failure, restored(&staged, result.as_ref())))
        }
    }
}

fn restored(stage: &Staged, swap: Option<&Swapped>) -> Restored {
    let plan = stage.plan.iter().chain(swap.iter().flat_map(|swap| &swap.plan)).cloned().collect();
    let in_place = stage.staged.name == stage.database;
    Restored { database: stage.database.clone(), in_place, stage: stage.clone(), swap: swap.cloned(), plan }
}

fn swap_of(staged: &Staged, call: &Call) -> Swapped {
    Swapped::new(call.run_id(), &staged.database, &staged.system_identifier, &staged.staged)
}

fn in_place(args: &RestoreArgs, dry_run: bool, call: &Call) -> StepResult<Restored> {
    let mut prepared = prepare(args, Aim::Place, dry_run, call)?;
    let database = &prepared.staged.database;
    call.warn("not_verified", format!("{database} is dropped before the dump is loaded: it can be recovered only from a dump."));
    if dry_run {
        return Ok(restored(&prepared.staged, None));
    }
    let replaced = check_can_be_created(&mut prepared, call).and_then(|()| replace(args, &mut prepared, call));
    Stopped::ended(replaced, restored(&prepared.staged, None))
}

/// Creates an empty database with the same properties, and drops it: what the server cannot create again (a locale that it lacks, a
/// full tablespace) must not be dropped first. It is recorded as an unfinished staging, so that the next call removes what a killed
/// one leaves: a run that has another record is refused (3).
fn check_can_be_created(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let place = prepared.properties_place();
    let Prepared { admin, creation, staged, .. } = prepared;
    admin.remove_unfinished(call, &staged.database)?;
    let name = copy_name(&staged.database, "staged", call.run_id());
    if oid_of(&mut admin.client, &staged.database)?.is_none() {
        return Ok(());
    }
    if swaps::find(call, call.run_id(), &SCHEMAS)?.is_some() || oid_of(&mut admin.client, &name)?.is_some() {
        return Err(record::run_id_taken(call.run_id()));
    }
    let unfinished = Staged { staged: Named { name: name.clone(), oid: None }, ..staged.clone() };
    record::write(call, call.run_id(), "stage", &unfinished.database, &unfinished)?;
    let empty = Creation { name: name.clone(), ..creation.clone() };
    let created = admin.alter(call, &empty.create().sql, "create a database like the one that is to be replaced");
    let accepted = if created.is_ok() { try_properties(admin, call, &empty, &place) } else { Ok(()) };
    match admin.take_back(&name) {
        Ok(()) => {
            call.effects().undone();
            swaps::remove(call, call.run_id())?;
        }
        Err(error) => call.warn("not_removed", format!("The empty database {name} could not be dropped: {}", error.message)),
    }
    created.map_err(|failure| failure.further_hint(format!("The database {} was not changed.", staged.database)))?;
    accepted
}

fn replace(args: &RestoreArgs, prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    // Until here a signal leaves the live database.
    call.check()?;
    let database = prepared.staged.database.clone();
    let saved = saved_properties(prepared.input.dump.path());
    // The live database's properties would be lost with it if the load failed. Their file is not that of `svc-pgdump`, whose hash its
    // document has.
    let live = (prepared.staged.properties_from == PropertiesFrom::Live && prepared.input.saved.is_none())
        .then_some(prepared.creation.properties.as_ref())
        .flatten();
    if let Some(properties) = live {
        if let Some(other) = Properties::find(&saved)?.filter(|other| other.database != database) {
            let hint = "Restore that one first, or move the file away if its properties are not needed.";
            return Err(file::exists(&saved).hint(hint).cause(format!("it has those of the dropped {}", other.database)));
        }
        file::write_complete(&saved, properties.to_text()?.as_bytes(), 0o600, Existing::Replace)?;
    }
    let is_saved = live.is_some();
    let incomplete = |failure: Failure, prepared: &Prepared| {
        let again = command(args, prepared, call);
        failure.further_hint(format!("The database {database} is incomplete. When the cause is fixed, restore it again: {again}"))
    };
    if let Err(failure) = prepared.admin.alter(call, &drop_statement(&database), &format!("drop the database {database}")) {
        return Err(match admin::live(&mut prepared.admin.client, &database) {
            Ok(Some(Live { oid: None, .. })) => {
                call.effects().happened();
                incomplete(failure, prepared)
            }
            // One that still exists has its properties itself.
            Ok(Some(_)) if is_saved => {
                remove_saved(&saved, call);
                failure
            }
            // If the server does not tell, the next call compares the OID.
            _ => failure,
        });
    }
    fill(prepared, call).map_err(|failure| {
        // Without a database before, nothing would tell the same command which properties it is to have.
        let is_new = prepared.staged.properties_from == PropertiesFrom::Defaults && prepared.staged.staged.oid.is_some();
        if is_new && prepared.admin.take_back(&database).is_ok() {
            call.effects().undone();
            return failure;
        }
        incomplete(failure, prepared)
    })?;
    // Those of another database are its only copy.
    (is_saved || prepared.input.saved.is_some()).then(|| remove_saved(&saved, call));
    Ok(())
}

fn remove_saved(path: &Path, call: &Call) {
    if path.exists()
        && let Err(error) = std::fs::remove_file(path)
    {
        call.warn("not_removed", format!("The file {} could not be removed: {error}.", path.display()));
    }
}

/// The same command for a shell without any of the settings: a default could be another database, which would be dropped.
fn command(args: &RestoreArgs, prepared: &Prepared, call: &Call) -> String {
    let staged = &prepared.staged;
    let mut options =
        ["svc-pgrestore", "--in-place", "--dbname", &staged.database, "--owner", &staged.owner].map(str::to_owned).to_vec();
    options.extend(args.admin.options(&prepared.admin.target).into_iter().chain(call.state_dir_option()));
    options.extend(args.ignore_disk_space.then(|| "--ignore-disk-space".to_owned()));
    // Absolute, so it cannot begin with a dash.
    options.push(staged.dump.path.clone());
    shell_quoted(&options)
}
