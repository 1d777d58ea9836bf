//! `discard`: drops what was staged, cloned or replaced, and nothing else.

use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::{OtherServer, Received};
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::admin::{Admin, AdminArgs, databases};
use crate::args::DatabaseArgs;
use crate::document::{Cloned, Discarded, Named, Restored, Staged, Swapped};
use crate::names::{self, drop_statement};
use crate::record::SCHEMAS;
use crate::swap::run_of;

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

struct Copies {
    run: RunId,
    database: String,
    system_identifier: String,
    copies: Vec<Named>,
}

pub(crate) fn run(args: &DiscardArgs, call: &Call) -> StepResult<Discarded> {
    let copies = Copies::of(&args.given.read(call, &SCHEMAS)?)?;
    args.database.check(&copies.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    admin.check_server(args.other, &copies.system_identifier)?;
    let _lock = admin.lock(call, &copies.database, args.dry.dry_run)?;
    let (drop, absent) = copies.sort(&databases(&mut admin.client)?)?;
    let plan: Vec<Action> = drop.iter().map(|one| Action::statement(drop_statement(&one.name))).collect();
    let mut discarded = Discarded {
        database: copies.database,
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
    remove_record(&mut admin, &copies.run, call).map_err(|failure| call.stopped(failure, discarded.clone()))?;
    Ok(discarded)
}

/// Removes the record of the run, unless a copy that it names is still there: that of a swap names more than the document of the
/// staging before it. A damaged record stays, since nobody knows which copies it named.
fn remove_record(admin: &mut Admin, run: &RunId, call: &Call) -> Result<(), Failure> {
    let Ok(recorded) = swaps::read(call, run, &SCHEMAS).and_then(|received| Copies::of(&received)) else { return Ok(()) };
    let (left, _) = recorded.sort(&databases(&mut admin.client)?)?;
    if left.is_empty() { swaps::remove(call, run) } else { Ok(()) }
}

impl Copies {
    fn of(received: &Received) -> Result<Self, Failure> {
        match received.step() {
            "stage" => Self::of_stage(received, received.result()?),
            "swap" => Self::of_swap(received.result()?),
            "clone" => {
                let Cloned { run, database, system_identifier, clone, .. } = received.result()?;
                Ok(Self { run: run_of(&run)?, database, system_identifier, copies: vec![clone] })
            }
            _ => {
                let restored: Restored = received.result()?;
                restored.swap.map_or_else(|| Self::of_stage(received, restored.stage), Self::of_swap)
            }
        }
    }

    fn of_stage(received: &Received, staged: Staged) -> Result<Self, Failure> {
        let Staged { database, system_identifier, staged, .. } = staged;
        Ok(Self { run: run_of(received.run_id())?, database, system_identifier, copies: vec![staged] })
    }

    fn of_swap(swapped: Swapped) -> Result<Self, Failure> {
        let Swapped { run, database, system_identifier, incoming, previous, .. } = swapped;
        let copies = std::iter::once(incoming).chain(previous).collect();
        Ok(Self { run: run_of(&run)?, database, system_identifier, copies })
    }

    /// Which copies are to be dropped, and which are not there any more. The live database is neither.
    fn sort(&self, catalog: &[Named]) -> Result<(Vec<Named>, Vec<Named>), Failure> {
        let (mut drop, mut absent) = (Vec::new(), Vec::new());
        for copy in &self.copies {
            let found = catalog.iter().find(|one| if copy.oid.is_some() { one.oid == copy.oid } else { one.name == copy.name });
            match found {
                None => absent.push(copy.clone()),
                Some(found) if found.name == self.database => {}
                Some(found) if self.copies.iter().any(|known| known.name == found.name) => drop.push(found.clone()),
                // A later swap replaced it and named it after its own run, which may discard it.
                Some(found) if names::is_before(&self.database, &found.name) => absent.push(copy.clone()),
                Some(found) => {
                    return Err(Failure::refused(
                        "staged_renamed",
                        format!("Somebody has renamed the database {} to {}.", copy.name, found.name),
                    )
                    .hint(format!("Check it; if it is not needed, {} drops it.", drop_statement(&found.name))));
                }
            }
        }
        Ok((drop, absent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, oid: u32) -> Named {
        Named { name: name.to_owned(), oid: Some(oid) }
    }

    fn copies() -> Copies {
        let copies = vec![named("svc_db_staged_r", 20), named("svc_db_before_r", 10)];
        let run = "20300101t000000z-r".parse().unwrap();
        Copies { run, database: "svc_db".to_owned(), system_identifier: "7".to_owned(), copies }
    }

    #[test]
    fn the_live_database_is_never_dropped_whichever_copy_it_was() {
        let after = [named("svc_db", 20), named("svc_db_before_r", 10)];
        assert_eq!(copies().sort(&after).unwrap(), (vec![named("svc_db_before_r", 10)], vec![]));
        let back = [named("svc_db", 10), named("svc_db_staged_r", 20)];
        assert_eq!(copies().sort(&back).unwrap(), (vec![named("svc_db_staged_r", 20)], vec![]));
    }

    #[test]
    fn another_database_of_that_name_is_not_ours_and_one_that_was_renamed_is_refused() {
        let other = [named("svc_db", 20), named("svc_db_before_r", 11)];
        assert_eq!(copies().sort(&other).unwrap(), (vec![], vec![named("svc_db_before_r", 10)]));
        let later = [named("svc_db", 30), named("svc_db_before_r", 10), named("svc_db_before_s", 20)];
        assert_eq!(copies().sort(&later).unwrap(), (vec![named("svc_db_before_r", 10)], vec![named("svc_db_staged_r", 20)]));
        let renamed = [named("svc_db", 20), named("mine", 10)];
        assert_eq!(copies().sort(&renamed).unwrap_err().code, "staged_renamed");
    }
}
