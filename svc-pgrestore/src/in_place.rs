//! `--in-place`: the procedure's literal order (4.2), DROP, CREATE (with OWNER), GRANT, load, for lack of room for a copy.

use svc_pgdump::Properties;
use svc_pgdump::admin::drop_if_there;
use svc_step::file::{self, Existing};
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::fill::fill;
use crate::outcome::{PropertiesFrom, Restored};
use crate::prepare::{Aim, Prepared, RestoreArgs, prepare};
use crate::restore::without_swap;
use crate::trial;

pub(crate) fn run(args: &RestoreArgs, dry_run: bool, call: &Call) -> StepResult<Restored> {
    let mut prepared = prepare(args, Aim::Place, dry_run, call)?;
    call.warn(
        "in_place",
        format!(
            "The database {} is dropped before the dump is loaded: there is no way back but a dump.",
            prepared.staged.database
        ),
    );
    if dry_run {
        return Ok(without_swap(prepared.staged, true));
    }
    call.check()?;
    trial::can_be_created(&mut prepared, call)?;
    // What the trial made is gone again.
    call.effects().undone();
    keep_properties(&prepared, call)?;
    match drop_and_fill(&mut prepared, call) {
        Ok(()) => Ok(without_swap(prepared.staged, true)),
        Err(failure) => Err(Stopped::with(failure, without_swap(prepared.staged, true))),
    }
}

/// The live database's properties would be lost with it if the load failed, so they are kept where the next call finds them.
fn keep_properties(prepared: &Prepared, call: &Call) -> Result<(), Failure> {
    if let (PropertiesFrom::Live, Some(properties)) = (prepared.staged.properties_from, &prepared.creation.properties) {
        let path = Properties::path_of(prepared.input.dump.path());
        file::write_whole(&path, properties.to_text()?.as_bytes(), 0o600, Existing::Keep)?;
        call.effects().happened();
    }
    Ok(())
}

fn drop_and_fill(prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let database = prepared.staged.database.clone();
    prepared.admin.alter(call, &drop_if_there(&database), &format!("drop the database {database}"))?;
    fill(prepared, call).map_err(|failure| {
        failure.hint(format!(
            "The database {database} is not whole. When the cause is mended, restore again: svc-pgrestore --in-place {}.",
            prepared.staged.dump.path
        ))
    })
}
