//! `swap`: what was staged or cloned becomes the live database, or what a swap replaced becomes live again.

mod rename;

use svc_pgdump::pg::{DatabaseArgs, escape_identifier};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::from::{OtherServer, Received};
use svc_step::reporter::shell_quoted;
use svc_step::run_id::RunId;
use svc_step::swaps::GivenArgs;
use svc_step::{Call, Failure, StepResult, Stopped, swaps};

use crate::admin::{Admin, databases, live, no_template};
use crate::args::AdminArgs;
use crate::document::{Named, Swapped};
use crate::names::{copy_name, drop_statement};
use crate::record::{Recorded, SCHEMAS, run_of};
use crate::{preflight, record};

/// Arguments of `svc-pgrestore swap`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An unfinished swap is finished; the document of a finished one, swapped again, goes back.\n\nExample:\n  svc-pgrestore stage --from pgdump.json > staged.json && svc-pgrestore swap --from staged.json"
)]
pub struct SwapArgs {
    #[command(flatten)]
    given: GivenArgs,
    /// Go back: what the swap replaced becomes live again
    #[arg(long)]
    back: bool,
    /// Fail (3) if an earlier swap has made the copy live: clients may have written to it
    #[arg(long, conflicts_with = "back")]
    unused: bool,
    /// Drop what was replaced
    #[arg(long)]
    drop_old: bool,
    #[command(flatten)]
    other: OtherServer,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &SwapArgs, call: &Call) -> StepResult<Swapped> {
    let options = [args.admin.given(), call.state_dir_option()].concat();
    let mut swap = swap_of(&args.given.read(call, &SCHEMAS)?, args.back, &options)?;
    args.database.check(&swap.database)?;
    let mut admin = Admin::connect(&args.admin, call)?;
    admin.check_server(args.other, &swap.system_identifier)?;
    swap.system_identifier.clone_from(&admin.system_identifier);
    let _lock = admin.lock(call, &swap.database, args.dry.dry_run)?;
    if args.unused {
        check_unused(&mut admin, call, &swap)?;
    }
    let run = run_of(&swap.run)?;
    let record = |swapped: &Swapped| record::write(call, &run, "swap", &swapped.database, swapped);
    perform(&mut admin, call, swap, args.drop_old, args.dry.dry_run, &record)
}

/// By the server's databases, and by the record of a swap that has gone back since.
fn check_unused(admin: &mut Admin, call: &Call, swap: &Swapped) -> Result<(), Failure> {
    let is_live = swap.state(&databases(&mut admin.client)?)?.is_done;
    if !is_live && !recorded(call, &swap.run)?.is_some_and(|recorded| recorded.swapped || recorded.back) {
        return Ok(());
    }
    Err(Failure::refused("not_swappable", format!("A swap has made the copy {} live before.", swap.incoming.name))
        .hint("Restore the dump: svc-pgrestore stage --from DOCUMENT; or omit --unused, to take the copy as it is now."))
}

/// The swap that a document or a record asks for. Only what was loaded and verified is ever swapped in, and it cannot go back before.
fn swap_of(received: &Received, back: bool, options: &[String]) -> Result<Swapped, Failure> {
    let Recorded { run, database, system_identifier, copy, verified, again, swapped } = Recorded::of(received)?;
    if let Some(swapped) = swapped {
        // A record is never ok. That of a way back is resumed, so that the same `--run RUN --back` again does not go forward. An
        // unfinished swap is finished, and so is a recorded one; the document of a finished swap goes back.
        let is_resumed = swapped.back && !received.is_ok();
        let is_reversed = (back && !is_resumed) || (received.is_ok() && swapped.swapped);
        return if is_reversed { swapped.reversed() } else { swapped.again() };
    }
    if copy.name == database {
        return Err(Failure::refused("not_swappable", "The database was restored in place, so there is nothing to swap.")
            .hint("Restore another dump: svc-pgrestore FILE."));
    }
    if back {
        return Err(Failure::usage(
            "options_invalid",
            "The document is of a copy that was not swapped in, so nothing can go back.",
        )
        .hint("Pass the document of the swap, or omit --back."));
    }
    if !verified {
        let again = shell_quoted(&[&again[..], options].concat());
        return Err(Failure::refused("not_verified", format!("The copy {} is incomplete.", copy.name))
            .hint(format!("Do it again, which removes what is left of this one:\n  {again}")));
    }
    Ok(Swapped::new(&run, &database, &system_identifier, &copy))
}

/// Swaps, under a lock that the caller holds. `record` writes the plan for `--run`.
pub(crate) fn perform(
    admin: &mut Admin,
    call: &Call,
    mut swap: Swapped,
    drop_old: bool,
    dry_run: bool,
    record: &dyn Fn(&Swapped) -> Result<(), Failure>,
) -> StepResult<Swapped> {
    let before = recorded(call, &swap.run).ok().flatten();
    if let Some(previous) = &mut swap.previous {
        previous.oid = previous.oid.or_else(|| recorded_previous(before.as_ref()?, &swap.incoming));
    }
    let gone = swap.previous.as_ref().and_then(|previous| previous.oid);
    let known = databases(&mut admin.client)?;
    let state = swap.state(&known)?;
    let is_new = !state.is_done;
    let mut swapped = swap.planned(state, drop_old);
    if is_new && let Some(live) = live(&mut admin.client, &swapped.database)? {
        check_order(admin, call, &swapped, gone, &known)?;
        preflight::in_the_way(&swapped.database, &live)?;
        if drop_old {
            no_template(&swapped.database, &live)?;
        }
        if live.is_closed {
            call.warn("not_restored", "The live database has ALLOW_CONNECTIONS false, and is open after the swap.");
        }
    }
    if dry_run {
        return Ok(swapped);
    }
    if is_new {
        call.check()?;
        record(&swapped)?;
        let renamed = rename::rename(admin, call, &swapped);
        renamed.map_err(|failure| Stopped::with(with_hint(failure, admin, &swapped.run), swapped.clone()))?;
        swapped.swapped = true;
    }
    if drop_old && let Some(previous) = swapped.previous.clone() {
        let dropped = drop_previous(admin, call, &previous, is_new || gone.is_some());
        dropped.map_err(|failure| Stopped::with(failure, swapped.clone()))?;
        swapped.previous_dropped = true;
    }
    // Without this record the next call finds out by the server's databases, as after a kill at the commit.
    let is_recorded = !is_new && !swapped.previous_dropped && before.is_none_or(|before| before.swapped);
    if !is_recorded && let Err(failure) = record(&swapped) {
        call.warn("not_checked", format!("The swap is done, and could not be recorded for --run: {}", failure.message));
    }
    Ok(swapped)
}

/// Refuses (3) to go back before a later swap has, which replaced the one that is to go: each run would discard what is the other's.
fn check_order(admin: &Admin, call: &Call, swap: &Swapped, gone: Option<u32>, known: &[Named]) -> Result<(), Failure> {
    let live = swap.previous.as_ref().and_then(|previous| previous.oid);
    let replaced = known.iter().find(|one| swap.back && one.oid == gone && live != gone);
    let Some(Named { name, .. }) = replaced else { return Ok(()) };
    let mut records = swaps::all(call, &SCHEMAS).into_iter().filter_map(|received| Recorded::of(&received).ok()?.swapped);
    let later = records.find(|one| !one.back && one.incoming.oid == live && one.database == swap.database);
    let run = later.map_or("RUN".to_owned(), |later| later.run);
    let message = format!("A later swap has replaced what this one made live, and named it {name}.");
    Err(Failure::refused("not_swappable", message)
        .hint(format!("Go back in the reverse order. That one first: {} --back", admin.command("swap", &run))))
}

/// The OID of what a swap that took place has replaced, by its record, which may be that of the way back.
fn recorded_previous(recorded: &Swapped, incoming: &Named) -> Option<u32> {
    if recorded.incoming.oid == incoming.oid { recorded.previous.as_ref()?.oid } else { recorded.incoming.oid }
}

/// What is recorded of the swap of a run.
fn recorded(call: &Call, run: &str) -> Result<Option<Swapped>, Failure> {
    let received = swaps::find(call, &run_of(run)?, &SCHEMAS)?;
    Ok(received.map(|received| Recorded::of(&received)).transpose()?.and_then(|recorded| recorded.swapped))
}

/// `is_known`: it is the one that was replaced, not another of its name.
fn drop_previous(admin: &mut Admin, call: &Call, previous: &Named, is_known: bool) -> Result<(), Failure> {
    if is_known && databases(&mut admin.client)?.contains(previous) {
        return admin.drop(call, &previous.name, "drop the database that was replaced");
    }
    let message = format!("It is unknown whether the database {} is the one that was replaced.", previous.name);
    Err(Failure::refused("name_in_use", message)
        .hint(format!("Check it; if it is not needed, {} drops it.", drop_statement(&previous.name))))
}

/// A failed swap names the command that resumes it.
pub(crate) fn with_hint(failure: Failure, admin: &Admin, run: &str) -> Failure {
    match &failure.hint {
        Some(hint) if hint.contains("--run ") => failure,
        _ => failure.further_hint(format!("{} resumes it.", admin.command("swap", run))),
    }
}

/// Whether a swap has taken place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwapState {
    pub(crate) is_done: bool,
    /// What was replaced, if it still exists; what would be, with the name that it is to have.
    pub(crate) previous: Option<Named>,
}

/// Until the server was asked, `previous` is the name that the live database will get; its OID is unknown.
impl Swapped {
    pub(crate) fn new(run: &RunId, database: &str, system_identifier: &str, incoming: &Named) -> Self {
        Self {
            run: run.to_string(),
            back: false,
            database: database.to_owned(),
            system_identifier: system_identifier.to_owned(),
            incoming: incoming.clone(),
            previous: Some(Named { name: copy_name(database, "before", run), oid: None }),
            swapped: false,
            previous_dropped: false,
            plan: Vec::new(),
        }
    }

    /// The same swap once more.
    pub(crate) fn again(&self) -> Result<Self, Failure> {
        let new = Self::new(&run_of(&self.run)?, &self.database, &self.system_identifier, &self.incoming);
        Ok(Self { back: self.back, previous: self.previous.clone().or(new.previous), ..new })
    }

    /// The way back: what was replaced becomes live again, and what had come in gets its name back.
    fn reversed(&self) -> Result<Self, Failure> {
        let nothing = |why: &str| {
            Failure::not_found("swap_not_found", format!("There is nothing to go back to: {why}."))
                .hint("Restore another dump: svc-pgrestore FILE.")
        };
        if self.previous_dropped {
            return Err(nothing("what the swap replaced was dropped"));
        }
        let previous = self.previous.clone().ok_or_else(|| nothing("the swap replaced no database"))?;
        Ok(Self { back: !self.back, incoming: previous, previous: Some(self.incoming.clone()), ..self.again()? })
    }

    pub(crate) fn state(&self, catalog: &[Named]) -> Result<SwapState, Failure> {
        let incoming = catalog.iter().find(|one| one.oid.is_some() && one.oid == self.incoming.oid).ok_or_else(|| {
            Failure::not_found("swap_not_found", format!("The database {} is not on the server any more.", self.incoming.name))
                .hint("Restore the dump again: svc-pgrestore FILE")
        })?;
        if incoming.name == self.database {
            // Another database may have been given the name.
            let is_previous = |one: &&Named| {
                self.previous.as_ref().is_some_and(|p| p.name == one.name && (p.oid.is_none() || p.oid == one.oid))
            };
            return Ok(SwapState { is_done: true, previous: catalog.iter().find(is_previous).cloned() });
        }
        if incoming.name == self.incoming.name {
            return self.ready(catalog);
        }
        let (from, to) = (&incoming.name, &self.incoming.name);
        Err(Failure::refused("name_in_use", format!("The database {to} was renamed to {from}.")).hint(format!(
            "If it is the right one: ALTER DATABASE {} RENAME TO {}.",
            escape_identifier(from),
            escape_identifier(to)
        )))
    }

    /// The same if the copy surely exists under its own name.
    pub(crate) fn ready(&self, catalog: &[Named]) -> Result<SwapState, Failure> {
        let named = |name: &str| catalog.iter().find(|one| one.name == name);
        let Some((live, previous)) = named(&self.database).zip(self.previous.as_ref()) else {
            return Ok(SwapState { is_done: false, previous: None });
        };
        let name = &previous.name;
        if named(name).is_some() {
            let message = format!("The live database cannot be renamed to {name}: there is a database of that name.");
            let drop = drop_statement(name);
            return Err(Failure::refused("name_in_use", message)
                .hint(format!("Check it; if it is not needed, {drop} drops it; then run the same command again.")));
        }
        Ok(SwapState { is_done: false, previous: Some(Named { name: name.clone(), oid: live.oid }) })
    }

    /// The same with its plan, when its state is known.
    pub(crate) fn planned(self, state: SwapState, drop_old: bool) -> Self {
        let drop = state.previous.as_ref().map(|previous| drop_statement(&previous.name));
        let mut planned = Self { swapped: state.is_done, previous: state.previous, ..self };
        if !state.is_done {
            let statements = planned.statements();
            let transaction = ["BEGIN".to_owned()].into_iter().chain(statements).chain(["COMMIT".to_owned()]);
            planned.plan.extend(transaction.map(Action::statement));
        }
        planned.plan.extend(drop.filter(|_| drop_old).map(Action::statement));
        planned
    }

    /// The statements of the transaction. It opens what comes in, to which no user could connect before.
    fn statements(&self) -> Vec<String> {
        let database = escape_identifier(&self.database);
        let rename = |from: &str, to: &str| format!("ALTER DATABASE {from} RENAME TO {to}");
        let replaced = self.previous.as_ref().map(|previous| rename(&database, &escape_identifier(&previous.name)));
        let come_in = rename(&escape_identifier(&self.incoming.name), &database);
        replaced.into_iter().chain([come_in, format!("ALTER DATABASE {database} ALLOW_CONNECTIONS true")]).collect()
    }

    /// The databases after the renames.
    fn renamed(&self) -> Vec<Named> {
        let live = Named { name: self.database.clone(), oid: self.incoming.oid };
        self.previous.iter().cloned().chain([live]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, oid: u32) -> Named {
        Named { name: name.to_owned(), oid: Some(oid) }
    }

    fn swap() -> Swapped {
        Swapped::new(&"20300101t000000z-r".parse().unwrap(), "svc_db", "7", &named("svc_db_staged_r", 20))
    }

    const BEFORE: &str = "svc_db_before_20300101t000000z-r";

    #[test]
    fn swap_state_is_told_by_oid_not_name() {
        let done = swap().state(&[named("svc_db", 20), named(BEFORE, 10)]).unwrap();
        assert_eq!(done, SwapState { is_done: true, previous: Some(named(BEFORE, 10)) });
        let known = Swapped { previous: Some(named(BEFORE, 10)), ..swap() };
        assert_eq!(known.state(&[named("svc_db", 20), named(BEFORE, 10)]).unwrap(), done);
        let others = known.state(&[named("svc_db", 20), named(BEFORE, 11)]).unwrap();
        assert_eq!(others, SwapState { is_done: true, previous: None });
        for (catalog, code) in [
            (vec![named("svc_db", 10), named("svc_db_staged_r", 21)], "swap_not_found"),
            (vec![named("svc_db", 10), named("mine", 20)], "name_in_use"),
            (vec![named("svc_db", 10), named("svc_db_staged_r", 20), named(BEFORE, 9)], "name_in_use"),
        ] {
            assert_eq!(swap().state(&catalog).unwrap_err().code, code);
        }
    }
}
