//! `--in-place`: the procedure's literal order (4.2), DROP, CREATE (with OWNER), GRANT, load, for lack of room for a copy.

use svc_pgdump::admin::drop_if_there;
use svc_step::file::{self, Existing};
use svc_step::{Call, Failure, StepResult, Stopped};

use crate::fill::fill;
use crate::input::kept_of;
use crate::outcome::{PropertiesFrom, Restored};
use crate::prepare::{Aim, Prepared, RestoreArgs, prepare};
use crate::restore::without_swap;
use crate::trial;
use svc_step::people::shell_quoted;

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
    keep_properties(&prepared, call)?;
    match drop_and_fill(args, &mut prepared, call) {
        Ok(()) => {
            forget_properties(&prepared, call);
            Ok(without_swap(prepared.staged, true))
        }
        Err(failure) => Err(Stopped::with(failure, without_swap(prepared.staged, true))),
    }
}

/// The live database's properties would be lost with it if the load failed, so they are kept where the next call finds them: not
/// under the name of the file that `svc-pgdump` writes, of which its document knows the hash.
fn keep_properties(prepared: &Prepared, call: &Call) -> Result<(), Failure> {
    if let (PropertiesFrom::Live, None, Some(properties)) =
        (prepared.staged.properties_from, &prepared.input.kept, &prepared.creation.properties)
    {
        let path = kept_of(prepared.input.dump.path());
        file::write_whole(&path, properties.to_text()?.as_bytes(), 0o600, Existing::Keep)?;
        call.effects().happened();
    }
    Ok(())
}

/// The database has them again.
fn forget_properties(prepared: &Prepared, call: &Call) {
    let path = kept_of(prepared.input.dump.path());
    if prepared.staged.properties_from == PropertiesFrom::Live
        && let Err(error) = std::fs::remove_file(&path)
    {
        call.warn("leftover", format!("The file {} could not be removed: {error}.", path.display()));
    }
}

fn drop_and_fill(args: &RestoreArgs, prepared: &mut Prepared, call: &Call) -> Result<(), Failure> {
    let database = prepared.staged.database.clone();
    prepared.admin.alter(call, &drop_if_there(&database), &format!("drop the database {database}"))?;
    fill(prepared, call).map_err(|failure| {
        let again = again(args, prepared);
        failure.hint(format!("The database {database} is not whole. When the cause is mended, this restores it again: {again}"))
    })
}

/// The command that does the same again from any shell, whatever is set there: a name that it left out could be that of another
/// database, which would be dropped.
fn again(args: &RestoreArgs, prepared: &Prepared) -> String {
    let staged = &prepared.staged;
    let mut words =
        ["svc-pgrestore", "--in-place", "--dbname", &staged.database, "--owner", &staged.owner].map(str::to_owned).to_vec();
    words.extend(args.admin.typed(&prepared.admin.target));
    words.extend(args.input.ignore_room.then(|| "--ignore-room".to_owned()));
    // A path that begins with a dash is none here: it is absolute.
    words.push(staged.dump.path.clone());
    shell_quoted(&words)
}
