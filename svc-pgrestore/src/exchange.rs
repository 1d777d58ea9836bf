//! The exchange of two databases' names: what it is to be, whether it has taken place, and its inverse. Nothing here speaks
//! to a server; databases are told by their OIDs, which they keep whatever they are called.

use svc_pgdump::Cloned;
use svc_pgdump::admin::{Named, drop_statement};
use svc_pgdump::escape::escape_identifier;
use svc_step::Failure;
use svc_step::action::Action;
use svc_step::run_id::RunId;

use crate::names;
use crate::outcome::{Staged, Swapped};

/// An exchange that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The run that it is about: the one that staged. It names what is kept and where the exchange is noted, whichever run
    /// the call belongs to.
    pub run: RunId,
    /// Whether it goes back: what an exchange replaced becomes live again.
    pub back: bool,
    /// The name that is exchanged.
    pub database: String,
    /// The server's identifier.
    pub system_identifier: String,
    /// What becomes the live database, with the name that it has before.
    pub incoming: Named,
    /// What the live database is called afterwards.
    pub kept_name: String,
    /// Its OID, where it is known what the exchange has replaced; `None` before it, and where nothing tells.
    pub kept_oid: Option<u32>,
}

/// How things stand with an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It has taken place.
    Done {
        /// What was replaced, where it is still kept.
        kept: Option<Named>,
    },
    /// It has not.
    Ready {
        /// The present live database, with the name that it is to be kept under; `None` where there is none.
        kept: Option<Named>,
    },
}

impl Exchange {
    /// How things stand, by the server's own list of databases.
    ///
    /// # Errors
    /// The copy is gone (4), somebody renamed it (3), or the name for what is kept is taken (3).
    pub fn standing(&self, catalog: &[Named]) -> Result<Standing, Failure> {
        let named = |name: &str| catalog.iter().find(|one| one.name == name);
        let incoming = catalog.iter().find(|one| one.oid.is_some() && one.oid == self.incoming.oid).ok_or_else(|| {
            Failure::not_found("staged_not_found", format!("The database {} is not on the server any more.", self.incoming.name))
                .hint("Stage the dump again: svc-pgrestore stage FILE.")
        })?;
        if incoming.name == self.database {
            // Somebody may have given the name to a database of his own.
            let kept = named(&self.kept_name).filter(|kept| self.kept_oid.is_none() || kept.oid == self.kept_oid);
            return Ok(Standing::Done { kept: kept.cloned() });
        }
        if incoming.name != self.incoming.name {
            return Err(Failure::refused(
                "staged_renamed",
                format!("The database {} is called {} now, which nobody of us did.", self.incoming.name, incoming.name),
            )
            .hint(format!(
                "If it is the right one, name it back: ALTER DATABASE {} RENAME TO {}.",
                escape_identifier(&incoming.name),
                escape_identifier(&self.incoming.name)
            )));
        }
        self.ready(catalog)
    }

    /// The same where it is known that the copy is there under its own name.
    ///
    /// # Errors
    /// The name for what is kept is taken (3).
    pub fn ready(&self, catalog: &[Named]) -> Result<Standing, Failure> {
        let named = |name: &str| catalog.iter().find(|one| one.name == name);
        let Some(live) = named(&self.database) else { return Ok(Standing::Ready { kept: None }) };
        if named(&self.kept_name).is_some() {
            return Err(Failure::refused(
                "name_taken",
                format!("The live database cannot be kept as {}, since there is a database of that name.", self.kept_name),
            )
            .hint(format!("Look at it; DROP DATABASE {} makes room, or another --run-id.", escape_identifier(&self.kept_name))));
        }
        Ok(Standing::Ready { kept: Some(Named { name: self.kept_name.clone(), oid: live.oid }) })
    }

    /// The statements, in one transaction: both renames or none. It opens what comes in, to which nobody could connect before.
    #[must_use]
    pub fn statements(&self, kept: Option<&Named>) -> Vec<String> {
        let rename =
            |from: &str, to: &str| format!("ALTER DATABASE {} RENAME TO {}", escape_identifier(from), escape_identifier(to));
        let clone = kept.map(|kept| rename(&self.database, &kept.name));
        let open = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", escape_identifier(&self.database));
        clone.into_iter().chain([rename(&self.incoming.name, &self.database), open]).collect()
    }

    /// The OID of each database after the renames, by its name.
    #[must_use]
    pub fn renamed(&self, kept: Option<&Named>) -> Vec<(String, Option<u32>)> {
        let kept = kept.map(|kept| (kept.name.clone(), kept.oid));
        kept.into_iter().chain([(self.database.clone(), self.incoming.oid)]).collect()
    }

    /// What is done, as an operator would type it.
    #[must_use]
    pub fn plan(&self, kept: Option<&Named>, drop_old: bool) -> Vec<Action> {
        let mut plan = vec![Action::statement("BEGIN")];
        plan.extend(self.statements(kept).into_iter().map(Action::statement));
        plan.push(Action::statement("COMMIT"));
        if let (true, Some(kept)) = (drop_old, kept) {
            plan.push(Action::statement(drop_statement(&kept.name)));
        }
        plan
    }

    /// The document's result, before the exchange.
    #[must_use]
    pub fn planned(&self, kept: Option<Named>, plan: Vec<Action>) -> Swapped {
        Swapped {
            run: self.run.to_string(),
            back: self.back,
            database: self.database.clone(),
            system_identifier: self.system_identifier.clone(),
            incoming: self.incoming.clone(),
            drop_command: kept.as_ref().map(|kept| format!("{};", drop_statement(&kept.name))),
            kept,
            swapped: false,
            kept_dropped: false,
            sessions_ended_count: 0,
            plan,
        }
    }

    /// What a run staged becomes live.
    #[must_use]
    pub fn of_staged(staged: &Staged, run: RunId) -> Self {
        Self {
            database: staged.database.clone(),
            system_identifier: staged.system_identifier.clone(),
            incoming: staged.staged.clone(),
            kept_name: names::before(&staged.database, &run),
            kept_oid: None,
            back: false,
            run,
        }
    }

    /// What a run cloned becomes live.
    ///
    /// # Errors
    /// The document names no run (2).
    pub fn of_clone(clone: &Cloned) -> Result<Self, Failure> {
        let run = run_of(&clone.run)?;
        Ok(Self {
            database: clone.database.clone(),
            system_identifier: clone.system_identifier.clone(),
            incoming: clone.clone.clone(),
            kept_name: names::before(&clone.database, &run),
            kept_oid: None,
            back: false,
            run,
        })
    }

    /// The same exchange once more, to finish it.
    ///
    /// # Errors
    /// The document names no run (2).
    pub fn again(swapped: &Swapped) -> Result<Self, Failure> {
        let run = run_of(&swapped.run)?;
        Ok(Self {
            database: swapped.database.clone(),
            system_identifier: swapped.system_identifier.clone(),
            incoming: swapped.incoming.clone(),
            kept_name: swapped.kept.as_ref().map_or_else(|| names::before(&swapped.database, &run), |kept| kept.name.clone()),
            kept_oid: swapped.kept.as_ref().and_then(|kept| kept.oid),
            back: swapped.back,
            run,
        })
    }

    /// The way back: what was kept becomes live again, and what had come in gets the name that it came from.
    ///
    /// # Errors
    /// Nothing was kept, so there is nothing to go back to (4), or the document names no run (2).
    pub fn back(swapped: &Swapped) -> Result<Self, Failure> {
        let nothing = |why: &str| {
            Failure::not_found("nothing_kept", format!("There is nothing to go back to: {why}."))
                .hint("Restore the dump of the state that is wanted: svc-pgrestore FILE.")
        };
        if swapped.kept_dropped {
            return Err(nothing("what the swap replaced was dropped"));
        }
        let kept = swapped.kept.clone().ok_or_else(|| nothing("the swap replaced no database"))?;
        Ok(Self {
            database: swapped.database.clone(),
            system_identifier: swapped.system_identifier.clone(),
            incoming: kept,
            kept_name: swapped.incoming.name.clone(),
            kept_oid: swapped.incoming.oid,
            back: !swapped.back,
            run: run_of(&swapped.run)?,
        })
    }
}

/// The run that a document names.
///
/// # Errors
/// It is none (2).
pub fn run_of(text: &str) -> Result<RunId, Failure> {
    text.parse().map_err(|_| {
        Failure::usage("from_damaged", format!("The --from document names the run `{text}`, which is none."))
            .hint("Hand over the document as the tool printed it.")
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
            kept_name: "svc_db_before_r".to_owned(),
            kept_oid: None,
        }
    }

    #[test]
    fn both_renames_are_in_one_transaction_with_the_live_one_first() {
        let kept = named("svc_db_before_r", 10);
        let standing = exchange().standing(&[named("svc_db", 10), named("svc_db_staged_r", 20)]).unwrap();
        assert_eq!(standing, Standing::Ready { kept: Some(kept.clone()) });
        assert_eq!(
            exchange().statements(Some(&kept)),
            [
                "ALTER DATABASE \"svc_db\" RENAME TO \"svc_db_before_r\"",
                "ALTER DATABASE \"svc_db_staged_r\" RENAME TO \"svc_db\"",
                "ALTER DATABASE \"svc_db\" ALLOW_CONNECTIONS true"
            ]
        );
        assert_eq!(exchange().plan(Some(&kept), true).len(), 6);
    }

    #[test]
    fn a_missing_live_database_is_fine() {
        assert_eq!(exchange().standing(&[named("svc_db_staged_r", 20)]).unwrap(), Standing::Ready { kept: None });
        assert_eq!(exchange().statements(None).len(), 2);
    }

    #[test]
    fn whether_it_is_done_is_told_by_number_and_not_by_name() {
        let done = exchange().standing(&[named("svc_db", 20), named("svc_db_before_r", 10)]).unwrap();
        assert_eq!(done, Standing::Done { kept: Some(named("svc_db_before_r", 10)) });
        let known = Exchange { kept_oid: Some(10), ..exchange() };
        assert_eq!(known.standing(&[named("svc_db", 20), named("svc_db_before_r", 10)]).unwrap(), done);
        let others = known.standing(&[named("svc_db", 20), named("svc_db_before_r", 11)]).unwrap();
        assert_eq!(others, Standing::Done { kept: None });
        let other = exchange().standing(&[named("svc_db", 10), named("svc_db_staged_r", 21)]).unwrap_err();
        assert_eq!(other.code, "staged_not_found");
        let renamed = exchange().standing(&[named("svc_db", 10), named("mine", 20)]).unwrap_err();
        assert_eq!(renamed.code, "staged_renamed");
        let taken = [named("svc_db", 10), named("svc_db_staged_r", 20), named("svc_db_before_r", 9)];
        assert_eq!(exchange().standing(&taken).unwrap_err().code, "name_taken");
    }

    #[test]
    fn back_and_back_again_is_where_it_began() {
        let kept = named("svc_db_before_r", 10);
        let mut swapped = exchange().planned(Some(kept.clone()), Vec::new());
        swapped.swapped = true;
        let back = Exchange::back(&swapped).unwrap();
        assert_eq!((&back.incoming, back.kept_name.as_str(), back.back), (&kept, "svc_db_staged_r", true));
        let again = Exchange::back(&back.planned(Some(named("svc_db_staged_r", 20)), Vec::new())).unwrap();
        assert_eq!(again, Exchange { kept_oid: Some(10), ..exchange() });
        swapped.kept_dropped = true;
        assert_eq!(Exchange::back(&swapped).unwrap_err().code, "nothing_kept");
    }
}
