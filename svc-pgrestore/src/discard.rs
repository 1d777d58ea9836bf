//! `discard`: drop what was staged or kept, and nothing else.

use svc_pgdump::Cloned;
use svc_pgdump::admin::{Admin, AdminArgs, Named, databases, drop_statement};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::{OtherServer, Received};
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::exchange::run_of;
use crate::names;
use crate::outcome::{Discarded, Restored, Staged, Swapped};
use crate::settings::DatabaseArgs;
use crate::swap::{CLONE, OWN_SCHEMAS, SCHEMAS};

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

/// The copies that a document speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spoken {
    run: RunId,
    database: String,
    system_identifier: String,
    copies: Vec<Named>,
}

pub(crate) fn run(args: &DiscardArgs, call: &Call) -> StepResult<Discarded> {
    let received = args.given.read(call, &SCHEMAS)?;
    let spoken = spoken(&received)?;
    args.database.agrees_with(&spoken.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    admin.is_meant(args.other, &spoken.system_identifier)?;
    let _lock = admin.lock(call, &spoken.database, args.dry.dry_run)?;
    let catalog = databases(&mut admin.client)?;
    let (drop, absent) = sort(&spoken, &catalog)?;
    let plan: Vec<Action> = drop.iter().map(|one| Action::statement(drop_statement(&one.name))).collect();
    let mut discarded = Discarded {
        database: spoken.database,
        system_identifier: admin.server.system_identifier.clone(),
        dropped: if args.dry.dry_run { drop.clone() } else { Vec::new() },
        absent,
        plan,
    };
    if args.dry.dry_run {
        return Ok(discarded);
    }
    for one in drop {
        let dropped = call.check().and_then(|()| admin.alter(call, &drop_statement(&one.name), &format!("drop {}", one.name)));
        if let Err(failure) = dropped {
            return Err(Stopped::with(failure, discarded));
        }
        discarded.dropped.push(one);
    }
    forget(&mut admin, &spoken.run, call).map_err(|failure| call.stopped(failure, discarded.clone()))?;
    Ok(discarded)
}

/// Removes the notes of the run, unless a copy that they speak of is still there: that of a swap knows more than the document of
/// the staging before it, and a copy that was cloned is noted by the tool that did it. A note that is cut stays: which copies it
/// spoke of is unknown.
fn forget(admin: &mut Admin, run: &RunId, call: &Call) -> Result<(), Failure> {
    let catalog = databases(&mut admin.client)?;
    for (tool, schemas) in [("svc-pgrestore", OWN_SCHEMAS.as_slice()), ("svc-pgdump", &[CLONE])] {
        let Ok(noted) = swaps::read(call, run, schemas).and_then(|received| spoken(&received)) else { continue };
        let (left, _) = sort(&noted, &catalog)?;
        if left.is_empty() {
            swaps::remove_of(call, tool, run)?;
        }
    }
    Ok(())
}

fn spoken(received: &Received) -> Result<Spoken, Failure> {
    match received.step() {
        "stage" => of_stage(received, received.result()?),
        "swap" => of_swap(received.result()?),
        "clone" => of_clone(received.result()?),
        _ => {
            let restored: Restored = received.result()?;
            restored.swap.map_or_else(|| of_stage(received, restored.stage), of_swap)
        }
    }
}

fn of_stage(received: &Received, staged: Staged) -> Result<Spoken, Failure> {
    Ok(Spoken {
        run: run_of(received.run_id())?,
        database: staged.database,
        system_identifier: staged.system_identifier,
        copies: vec![staged.staged],
    })
}

fn of_clone(clone: Cloned) -> Result<Spoken, Failure> {
    Ok(Spoken {
        run: run_of(&clone.run)?,
        database: clone.database,
        system_identifier: clone.system_identifier,
        copies: vec![clone.clone],
    })
}

fn of_swap(swapped: Swapped) -> Result<Spoken, Failure> {
    Ok(Spoken {
        run: run_of(&swapped.run)?,
        database: swapped.database,
        system_identifier: swapped.system_identifier,
        copies: std::iter::once(swapped.incoming).chain(swapped.kept).collect(),
    })
}

/// Which of the copies are to be dropped, and which are not there any more. What is live now is neither.
fn sort(spoken: &Spoken, catalog: &[Named]) -> Result<(Vec<Named>, Vec<Named>), Failure> {
    let (mut drop, mut absent) = (Vec::new(), Vec::new());
    for copy in &spoken.copies {
        let found = catalog.iter().find(|one| if copy.oid.is_some() { one.oid == copy.oid } else { one.name == copy.name });
        match found {
            None => absent.push(copy.clone()),
            Some(found) if found.name == spoken.database => {}
            Some(found) if spoken.copies.iter().any(|known| known.name == found.name) => drop.push(found.clone()),
            // A later swap replaced it, and keeps it under its own run's name: it is that run's to remove.
            Some(found) if names::is_kept(&spoken.database, &found.name) => absent.push(copy.clone()),
            Some(found) => {
                return Err(Failure::refused(
                    "staged_renamed",
                    format!("The database {} is called {} now, which nobody of us did.", copy.name, found.name),
                )
                .hint(format!("Look at it; if it is of no use, {} drops it.", drop_statement(&found.name))));
            }
        }
    }
    Ok((drop, absent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, oid: u32) -> Named {
        Named { name: name.to_owned(), oid: Some(oid) }
    }

    fn spoken() -> Spoken {
        let copies = vec![named("svc_db_staged_r", 20), named("svc_db_before_r", 10)];
        let run = "20300101t000000z-r".parse().unwrap();
        Spoken { run, database: "svc_db".to_owned(), system_identifier: "7".to_owned(), copies }
    }

    #[test]
    fn the_live_database_is_never_dropped_whichever_copy_it_was() {
        let after = [named("svc_db", 20), named("svc_db_before_r", 10)];
        assert_eq!(sort(&spoken(), &after).unwrap(), (vec![named("svc_db_before_r", 10)], vec![]));
        let back = [named("svc_db", 10), named("svc_db_staged_r", 20)];
        assert_eq!(sort(&spoken(), &back).unwrap(), (vec![named("svc_db_staged_r", 20)], vec![]));
    }

    #[test]
    fn another_database_of_that_name_is_not_ours_and_one_that_was_renamed_is_refused() {
        let other = [named("svc_db", 20), named("svc_db_before_r", 11)];
        assert_eq!(sort(&spoken(), &other).unwrap(), (vec![], vec![named("svc_db_before_r", 10)]));
        let later = [named("svc_db", 30), named("svc_db_before_r", 10), named("svc_db_before_s", 20)];
        assert_eq!(sort(&spoken(), &later).unwrap(), (vec![named("svc_db_before_r", 10)], vec![named("svc_db_staged_r", 20)]));
        let renamed = [named("svc_db", 20), named("mine", 10)];
        assert_eq!(sort(&spoken(), &renamed).unwrap_err().code, "staged_renamed");
    }
}
