//! The swap of two databases' names: what it is, whether it has taken place, and its inverse. Databases are identified by their OIDs,
//! which they keep when they are renamed.

use svc_pgdump::pg::escape_identifier;
use svc_step::Failure;
use svc_step::action::Action;
use svc_step::run_id::RunId;

use crate::document::{Cloned, Named, Staged, Swapped};
use crate::names::{self, drop_statement};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The run that staged or cloned, whichever run the call belongs to.
    pub(crate) run: RunId,
    /// Whether it goes back: what a swap replaced becomes live again.
    pub(crate) back: bool,
    pub(crate) database: String,
    pub(crate) system_identifier: String,
    /// What becomes the live database, with the name that it has before.
    pub(crate) incoming: Named,
    pub(crate) previous_name: String,
    pub(crate) previous_oid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has taken place; what was replaced, if it still exists.
    Done { previous: Option<Named> },
    /// It has not; the present live database, if there is one, with the name that it is to have.
    Ready { previous: Option<Named> },
}

impl Exchange {
    pub(crate) fn standing(&self, catalog: &[Named]) -> Result<Standing, Failure> {
        let named = |name: &str| catalog.iter().find(|one| one.name == name);
        let incoming = catalog.iter().find(|one| one.oid.is_some() && one.oid == self.incoming.oid).ok_or_else(|| {
            Failure::not_found("staged_not_found", format!("The database {} is not on the server any more.", self.incoming.name))
                .hint("Restore the dump again: svc-pgrestore FILE")
        })?;
        if incoming.name == self.database {
            // Somebody may have given the name to another database.
            let previous =
                named(&self.previous_name).filter(|previous| self.previous_oid.is_none() || previous.oid == self.previous_oid);
            return Ok(Standing::Done { previous: previous.cloned() });
        }
        if incoming.name != self.incoming.name {
            let (from, to) = (&incoming.name, &self.incoming.name);
            return Err(Failure::refused("staged_renamed", format!("Somebody has renamed the database {to} to {from}.")).hint(
                format!(
                    "If it is the right one: ALTER DATABASE {} RENAME TO {}.",
                    escape_identifier(from),
                    escape_identifier(to)
                ),
            ));
        }
        self.ready(catalog)
    }

    /// The same if the copy surely exists under its own name.
    pub(crate) fn ready(&self, catalog: &[Named]) -> Result<Standing, Failure> {
        let named = |name: &str| catalog.iter().find(|one| one.name == name);
        let Some(live) = named(&self.database) else { return Ok(Standing::Ready { previous: None }) };
        if named(&self.previous_name).is_some() {
            let name = &self.previous_name;
            let message = format!("The live database cannot be renamed to {name}: there is a database of that name.");
            return Err(Failure::refused("name_taken", message).hint(format!(
                "Check it; if it is not needed, {} drops it; then run the same command again.",
                drop_statement(name)
            )));
        }
        Ok(Standing::Ready { previous: Some(Named { name: self.previous_name.clone(), oid: live.oid }) })
    }

    /// The statements of the transaction. It opens what comes in, to which nobody could connect before.
    pub(super) fn statements(&self, previous: Option<&Named>) -> Vec<String> {
        let rename =
            |from: &str, to: &str| format!("ALTER DATABASE {} RENAME TO {}", escape_identifier(from), escape_identifier(to));
        let replaced = previous.map(|previous| rename(&self.database, &previous.name));
        let open = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", escape_identifier(&self.database));
        replaced.into_iter().chain([rename(&self.incoming.name, &self.database), open]).collect()
    }

    /// The OID of each database after the renames, by its name.
    pub(super) fn renamed(&self, previous: Option<&Named>) -> Vec<(String, Option<u32>)> {
        let previous = previous.map(|previous| (previous.name.clone(), previous.oid));
        previous.into_iter().chain([(self.database.clone(), self.incoming.oid)]).collect()
    }

    pub(crate) fn plan(&self, previous: Option<&Named>, drop_old: bool) -> Vec<Action> {
        let mut plan = vec![Action::statement("BEGIN")];
        plan.extend(self.statements(previous).into_iter().map(Action::statement));
        plan.push(Action::statement("COMMIT"));
        if let (true, Some(previous)) = (drop_old, previous) {
            plan.push(Action::statement(drop_statement(&previous.name)));
        }
        plan
    }

    pub(crate) fn planned(&self, previous: Option<Named>, plan: Vec<Action>) -> Swapped {
        Swapped {
            run: self.run.to_string(),
            back: self.back,
            database: self.database.clone(),
            system_identifier: self.system_identifier.clone(),
            incoming: self.incoming.clone(),
            drop_command: previous.as_ref().map(|previous| format!("{};", drop_statement(&previous.name))),
            previous,
            swapped: false,
            previous_dropped: false,
            sessions_ended_count: 0,
            plan,
        }
    }

    pub(crate) fn of_staged(staged: &Staged, run: RunId) -> Self {
        Self::forward(&staged.database, &staged.system_identifier, &staged.staged, run)
    }

    pub(crate) fn of_clone(clone: &Cloned) -> Result<Self, Failure> {
        Ok(Self::forward(&clone.database, &clone.system_identifier, &clone.clone, run_of(&clone.run)?))
    }

    fn forward(database: &str, system_identifier: &str, incoming: &Named, run: RunId) -> Self {
        Self {
            database: database.to_owned(),
            system_identifier: system_identifier.to_owned(),
            incoming: incoming.clone(),
            previous_name: names::before(database, &run),
            previous_oid: None,
            back: false,
            run,
        }
    }

    pub(crate) fn again(swapped: &Swapped) -> Result<Self, Failure> {
        let forward = Self::forward(&swapped.database, &swapped.system_identifier, &swapped.incoming, run_of(&swapped.run)?);
        let previous = swapped.previous.as_ref();
        Ok(Self {
            previous_name: previous.map_or(forward.previous_name, |previous| previous.name.clone()),
            previous_oid: previous.and_then(|previous| previous.oid),
            back: swapped.back,
            ..forward
        })
    }

    /// The way back: what was replaced becomes live again, and what had come in gets its name back.
    pub(crate) fn back(swapped: &Swapped) -> Result<Self, Failure> {
        let nothing = |why: &str| {
            Failure::not_found("previous_not_found", format!("There is nothing to go back to: {why}."))
                .hint("Restore another dump: svc-pgrestore FILE.")
        };
        if swapped.previous_dropped {
            return Err(nothing("what the swap replaced was dropped"));
        }
        let previous = swapped.previous.clone().ok_or_else(|| nothing("the swap replaced no database"))?;
        Ok(Self {
            database: swapped.database.clone(),
            system_identifier: swapped.system_identifier.clone(),
            incoming: previous,
            previous_name: swapped.incoming.name.clone(),
            previous_oid: swapped.incoming.oid,
            back: !swapped.back,
            run: run_of(&swapped.run)?,
        })
    }
}

pub(crate) fn run_of(text: &str) -> Result<RunId, Failure> {
    text.parse().map_err(|_| {
        Failure::usage("from_damaged", format!("The --from document has the invalid run ID `{text}`."))
            .hint("Pass the document as the tool printed it.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, oid: u32) -> Named {
        Named { name: name.to_owned(), oid: Some(oid) }
    }

    const RUN: &str = "20300101t000000z-r";

    fn exchange() -> Exchange {
        Exchange {
            run: RUN.parse().unwrap(),
            back: false,
            database: "svc_db".to_owned(),
            system_identifier: "7".to_owned(),
            incoming: named("svc_db_staged_r", 20),
            previous_name: "svc_db_before_r".to_owned(),
            previous_oid: None,
        }
    }

    #[test]
    fn both_renames_are_in_one_transaction_with_the_live_one_first() {
        let previous = named("svc_db_before_r", 10);
        let standing = exchange().standing(&[named("svc_db", 10), named("svc_db_staged_r", 20)]).unwrap();
        assert_eq!(standing, Standing::Ready { previous: Some(previous.clone()) });
        assert_eq!(
            exchange().statements(Some(&previous)),
            [
                "ALTER DATABASE \"svc_db\" RENAME TO \"svc_db_before_r\"",
                "ALTER DATABASE \"svc_db_staged_r\" RENAME TO \"svc_db\"",
                "ALTER DATABASE \"svc_db\" ALLOW_CONNECTIONS true"
            ]
        );
        assert_eq!(exchange().plan(Some(&previous), true).len(), 6);
    }

    #[test]
    fn a_missing_live_database_is_fine() {
        assert_eq!(exchange().standing(&[named("svc_db_staged_r", 20)]).unwrap(), Standing::Ready { previous: None });
        assert_eq!(exchange().statements(None).len(), 2);
    }

    #[test]
    fn whether_it_is_done_is_told_by_number_and_not_by_name() {
        let done = exchange().standing(&[named("svc_db", 20), named("svc_db_before_r", 10)]).unwrap();
        assert_eq!(done, Standing::Done { previous: Some(named("svc_db_before_r", 10)) });
        let known = Exchange { previous_oid: Some(10), ..exchange() };
        assert_eq!(known.standing(&[named("svc_db", 20), named("svc_db_before_r", 10)]).unwrap(), done);
        let others = known.standing(&[named("svc_db", 20), named("svc_db_before_r", 11)]).unwrap();
        assert_eq!(others, Standing::Done { previous: None });
        let other = exchange().standing(&[named("svc_db", 10), named("svc_db_staged_r", 21)]).unwrap_err();
        assert_eq!(other.code, "staged_not_found");
        let renamed = exchange().standing(&[named("svc_db", 10), named("mine", 20)]).unwrap_err();
        assert_eq!(renamed.code, "staged_renamed");
        let taken = [named("svc_db", 10), named("svc_db_staged_r", 20), named("svc_db_before_r", 9)];
        assert_eq!(exchange().standing(&taken).unwrap_err().code, "name_taken");
    }

    #[test]
    fn back_and_back_again_is_where_it_began() {
        let previous = named("svc_db_before_r", 10);
        let mut swapped = exchange().planned(Some(previous.clone()), Vec::new());
        swapped.swapped = true;
        let back = Exchange::back(&swapped).unwrap();
        assert_eq!((&back.incoming, back.previous_name.as_str(), back.back), (&previous, "svc_db_staged_r", true));
        let again = Exchange::back(&back.planned(Some(named("svc_db_staged_r", 20)), Vec::new())).unwrap();
        assert_eq!(again, Exchange { previous_oid: Some(10), ..exchange() });
        swapped.previous_dropped = true;
        assert_eq!(Exchange::back(&swapped).unwrap_err().code, "previous_not_found");
    }
}
