//! `discard`: drops what was staged, cloned or replaced, and nothing else.

use svc_pgdump::pg::DatabaseArgs;
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::OtherServer;
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::admin::{Admin, databases};
use crate::args::AdminArgs;
use crate::document::{Discarded, Named};
use crate::names::{drop_statement, is_before};
use crate::record::{RESTORE, Recorded, SCHEMAS};

/// Arguments of `svc-pgrestore discard`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The live database is never dropped, whatever it was called before.\n\nExample:\n  svc-pgrestore discard --from swapped.json"
)]
pub struct DiscardArgs {
    #[command(flatten)]
    given: GivenArgs,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &DiscardArgs, call: &Call) -> StepResult<Discarded> {
    let recorded = Recorded::of(&args.given.read(call, &SCHEMAS)?)?;
    args.database.check(&recorded.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    admin.check_server(args.other, &recorded.system_identifier)?;
    let _lock = admin.lock(call, &recorded.database, args.dry.dry_run)?;
    let (drop, absent) = sort(&recorded.database, &copies(&recorded), &databases(&mut admin.client)?)?;
    let mut discarded = Discarded {
        database: recorded.database,
        system_identifier: admin.system_identifier.clone(),
        dropped: if args.dry.dry_run { drop.clone() } else { Vec::new() },
        absent,
        plan: drop.iter().map(|one| Action::statement(drop_statement(&one.name))).collect(),
    };
    if args.dry.dry_run {
        return Ok(discarded);
    }
    for one in drop {
        let dropped = call.check().and_then(|()| admin.drop(call, &one.name, &format!("drop {}", one.name)));
        dropped.map_err(|failure| Stopped::with(failure, discarded.clone()))?;
        discarded.dropped.push(one);
    }
    remove_record(&mut admin, &recorded.run, call).map_err(|failure| call.stopped(failure, discarded.clone()))?;
    Ok(discarded)
}

impl Admin {
    /// Refuses (3) a restore while one of another run, which was killed or failed at its swap, has left a database: no document names
    /// it, and the same command again, with a run ID of its own, would add one.
    pub(crate) fn check_left(&mut self, call: &Call, database: &str) -> Result<(), Failure> {
        let catalog = databases(&mut self.client)?;
        let is_cut = |one: &Recorded| one.swapped.as_ref().is_none_or(|swap| !swap.swapped) && one.run != *call.run_id();
        let left = |one: Recorded| Some((left_of(&one, &catalog).pop()?.name, one.run));
        let Some((name, run)) = self.recorded(call, database, &[RESTORE]).filter(is_cut).find_map(left) else { return Ok(()) };
        let message = format!("A restore in the run {run} was interrupted at its swap, and has left {name}.");
        let [swap, discard] = ["swap", "discard"].map(|step| self.command(step, run.as_str()));
        Err(Failure::refused("not_swappable", message)
            .hint(format!("{swap} finishes it, or says that it is done; {discard} drops {name}.")))
    }
}

/// What is there of what a run has recorded, but the live database.
fn left_of(recorded: &Recorded, catalog: &[Named]) -> Vec<Named> {
    sort(&recorded.database, &copies(recorded), catalog).unwrap_or_default().0
}

/// Removes the record of the run, unless a copy that it names is still there: that of a swap names more than the document of the
/// staging before it. A damaged record stays, since it is unknown which copies it named.
fn remove_record(admin: &mut Admin, run: &RunId, call: &Call) -> Result<(), Failure> {
    let Ok(recorded) = swaps::read(call, run, &SCHEMAS).and_then(|received| Recorded::of(&received)) else { return Ok(()) };
    let (left, _) = sort(&recorded.database, &copies(&recorded), &databases(&mut admin.client)?)?;
    if left.is_empty() { swaps::remove(call, run) } else { Ok(()) }
}

fn copies(recorded: &Recorded) -> Vec<Named> {
    let previous = recorded.swapped.as_ref().and_then(|swapped| swapped.previous.clone());
    std::iter::once(recorded.copy.clone()).chain(previous).collect()
}

/// Which copies are to be dropped, and which are not there any more. The live database is neither.
fn sort(database: &str, copies: &[Named], catalog: &[Named]) -> Result<(Vec<Named>, Vec<Named>), Failure> {
    let (mut drop, mut absent) = (Vec::new(), Vec::new());
    for copy in copies {
        let found = catalog.iter().find(|one| if copy.oid.is_some() { one.oid == copy.oid } else { one.name == copy.name });
        match found {
            None => absent.push(copy.clone()),
            Some(found) if found.name == database => {}
            Some(found) if copies.iter().any(|known| known.name == found.name) => drop.push(found.clone()),
            // A later swap replaced it and named it after its own run, which may discard it.
            Some(found) if is_before(database, &found.name) => absent.push(copy.clone()),
            Some(found) => {
                let message = format!("The database {} was renamed to {}.", copy.name, found.name);
                return Err(Failure::refused("name_in_use", message)
                    .hint(format!("Check it; if it is not needed, {} drops it.", drop_statement(&found.name))));
            }
        }
    }
    Ok((drop, absent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_or_unrelated_database_is_never_dropped() {
        let named = |name: &str, oid: u32| Named { name: name.to_owned(), oid: Some(oid) };
        let (staged, before) = (named("svc_db_staged_r", 20), named("svc_db_before_r", 10));
        let copies = [staged.clone(), before.clone()];
        for (catalog, drop, absent) in [
            // The live database, whichever copy it was.
            (vec![named("svc_db", 20), before.clone()], vec![before.clone()], vec![]),
            (vec![named("svc_db", 10), staged.clone()], vec![staged], vec![]),
            // Another database of that name; and one that a later swap has replaced.
            (vec![named("svc_db", 20), named("svc_db_before_r", 11)], vec![], vec![before.clone()]),
            (
                vec![named("svc_db", 30), before.clone(), named("svc_db_before_s", 20)],
                vec![before],
                vec![named("svc_db_staged_r", 20)],
            ),
        ] {
            assert_eq!(sort("svc_db", &copies, &catalog).unwrap(), (drop, absent), "{catalog:?}");
        }
        let renamed = [named("svc_db", 20), named("mine", 10)];
        assert_eq!(sort("svc_db", &copies, &renamed).unwrap_err().code, "name_in_use");
    }
}
