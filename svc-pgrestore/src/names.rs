//! The names of our own databases, and the statements that drop one.

use svc_pgdump::pg::escape_identifier;
use svc_step::Failure;
use svc_step::run_id::{RunId, fit};

/// PostgreSQL cuts longer names without an error.
const LONGEST: usize = 63;

/// What the copy of a database in a run is called: `staged`, `clone`, or `before` for what its swap replaces.
pub(crate) fn copy_name(database: &str, kind: &str, run: &RunId) -> String {
    fit(&format!("{database}_{kind}_{run}"), LONGEST)
}

/// Whether the swap of some run may have replaced it.
pub(crate) fn is_before(database: &str, name: &str) -> bool {
    let before = format!("{database}_before_");
    // Of a long name, what came behind it was cut, and a hash stands there.
    let cut = |name: &str| name.len() + 3 >= LONGEST && name.rsplit_once('-').is_some_and(|(head, _)| before.starts_with(head));
    name.starts_with(&before) || cut(name)
}

/// Refuses (2) a database that the server itself relies on.
pub(crate) fn of_the_service(database: &str) -> Result<(), Failure> {
    if !matches!(database, "postgres" | "template0" | "template1") {
        return Ok(());
    }
    Err(Failure::usage("options_invalid", format!("The database {database} belongs to the server itself."))
        .hint("Pass the service's own database with --dbname or SVC_DATABASE."))
}

/// The statement that drops a database and ends its sessions.
pub(crate) fn drop_statement(database: &str) -> String {
    format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", escape_identifier(database))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_copy_names_are_shortened_and_distinct() {
        let run: RunId = "20261120t020003z-upgrade-2.0.1".parse().unwrap();
        assert_eq!(copy_name("svc_db", "staged", &run), "svc_db_staged_20261120t020003z-upgrade-2.0.1");
        let long = "a_database_whose_name_is_as_long_as_names_may_be_in_postgresql_";
        let names = ["staged", "before"].map(|kind| copy_name(long, kind, &run));
        assert!(names.iter().all(|name| name.len() <= LONGEST), "{names:?}");
        assert_ne!(names[0], names[1]);
        for database in [long, "svc_db", "a_database_whose_name_is_rather_long_but_not_too_much"] {
            assert!(is_before(database, &copy_name(database, "before", &run)), "{database}");
            assert!(!is_before(database, "mine") && !is_before(database, &copy_name("other", "before", &run)));
        }
        assert_eq!(of_the_service("postgres").unwrap_err().code, "options_invalid");
    }
}
