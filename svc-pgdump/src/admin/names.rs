//! The names of our own databases, and of those that are nobody's to replace.

use svc_step::Failure;
use svc_step::run_id::{RunId, fit};

/// PostgreSQL cuts names at this many bytes, in silence.
const LONGEST: usize = 63;

/// The name of a copy of a database that a run makes or keeps: `svc_db_staged_<run>`, where it is `staged`.
#[must_use]
pub fn copy_name(database: &str, what: &str, run: &RunId) -> String {
    fit(&format!("{database}_{what}_{run}"), LONGEST)
}

/// The database is one that may be copied and replaced at all.
///
/// # Errors
/// The server itself relies on it (3).
pub fn of_the_service(database: &str) -> Result<(), Failure> {
    if !matches!(database, "postgres" | "template0" | "template1") {
        return Ok(());
    }
    Err(Failure::refused("database_of_the_server", format!("The database {database} belongs to the server itself."))
        .hint("Name the service's own database with --dbname or SVC_DATABASE."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_two_long_ones_stay_apart() {
        let run: RunId = "20261120t020003z-upgrade-2.0.1".parse().unwrap();
        assert_eq!(copy_name("svc_db", "staged", &run), "svc_db_staged_20261120t020003z-upgrade-2.0.1");
        let long = "a_database_whose_name_is_as_long_as_names_may_be_in_postgresql_";
        let names = [copy_name(long, "staged", &run), copy_name(long, "before", &run)];
        assert!(names.iter().all(|name| name.len() <= LONGEST), "{names:?}");
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn the_servers_own_databases_are_refused() {
        assert_eq!(of_the_service("postgres").unwrap_err().code, "database_of_the_server");
        assert!(of_the_service("svc_db").is_ok());
    }
}
