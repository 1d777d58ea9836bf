//! The names of our own databases: what is staged beside the live one, and what a swap replaced.

use svc_step::run_id::{RunId, fit};

/// PostgreSQL cuts names at this many bytes, in silence.
const LONGEST: usize = 63;

/// The copy that a run stages: `svc_db_staged_<run>`.
#[must_use]
pub fn staged(database: &str, run: &RunId) -> String {
    fit(&format!("{database}_staged_{run}"), LONGEST)
}

/// What a run's swap replaced: `svc_db_before_<run>`.
#[must_use]
pub fn before(database: &str, run: &RunId) -> String {
    fit(&format!("{database}_before_{run}"), LONGEST)
}

/// Whether a name is that of a database which the swap of some run keeps.
#[must_use]
pub fn is_kept(database: &str, name: &str) -> bool {
    name.strip_prefix(database).is_some_and(|rest| rest.starts_with("_before_"))
}

/// Whether the server itself relies on a database of that name.
#[must_use]
pub fn belongs_to_the_server(database: &str) -> bool {
    matches!(database, "postgres" | "template0" | "template1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_two_long_ones_stay_apart() {
        let run: RunId = "20261120t020003z-upgrade-2.0.1".parse().unwrap();
        assert_eq!(staged("svc_db", &run), "svc_db_staged_20261120t020003z-upgrade-2.0.1");
        let long = "a_database_whose_name_is_as_long_as_names_may_be_in_postgresql_";
        let names = [staged(long, &run), before(long, &run)];
        assert!(names.iter().all(|name| name.len() <= LONGEST), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
