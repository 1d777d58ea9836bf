//! A throw-away host for the tests and the demo: a real search database, a real PostgreSQL and a real user manager of
//! systemd, all in one folder, on loopback, on free ports, as unprivileged users, stopped by process id.
//!
//! `svc-testhost run -- COMMAND` starts the host, runs a command in it, and takes it away again. A test finds it by
//! [`host::Host::shared`], starts further servers of its own by [`host::Host::search_server`], runs the tools by [`tool::Tool`],
//! puts a [`proxy`] between them, and compares what the databases hold by [`content`].

pub mod bare;
pub mod children;
pub mod cluster;
pub mod content;
pub mod damage;
pub mod debian;
pub mod disk;
pub mod download;
pub mod host;
pub mod http;
pub mod java;
pub mod journey;
pub mod kills;
pub mod os;
pub mod page;
pub mod pg_case;
pub mod postgres;
pub mod prelude;
pub mod product;
pub mod programs;
pub mod proxy;
pub mod random;
pub mod rights;
pub mod s3;
pub mod sandbox;
pub mod search;
pub mod secured;
pub mod systemd;
pub mod terminal;
pub mod tool;
pub mod wait;
pub mod witness;

mod cgroup;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that `tests/run --deep` sets; such a run also includes the tests that are `#[ignore]`.
const DEEP: &str = "SVC_TEST_DEEP";

/// How many rounds a series has: `all` in a deep run, else `few`, which is recorded as left out.
pub fn rounds(what: &str, few: usize, all: usize) -> usize {
    if few >= all || std::env::var_os(DEEP).is_some_and(|value| !value.is_empty()) {
        return all;
    }
    skip(&format!("{what}: {few} rounds of {all}, the others only with --deep"));
    few
}

/// Several behaviours of one server, one after the other: one that fails hides none of those behind it.
pub fn each_holds<T>(server: &T, behaviours: &[fn(&T)]) {
    let holds = |behaviour: &&fn(&T)| catch_unwind(AssertUnwindSafe(|| behaviour(server))).is_ok();
    assert_eq!(behaviours.iter().filter(holds).count(), behaviours.len(), "not all hold; what failed is told above");
}

/// The variable that names the file of what was left out, which `tests/suite` sets for each search database.
const SKIPPED: &str = "SVC_TEST_SKIPPED";

/// Records that a test, or a part of one, is left out here: what it would have shown, and why not. A test that returns early has
/// passed for the test harness; the result of its search database names what is recorded here.
pub fn skip(what_and_why: &str) {
    // Past the test harness, which hides what a test that has passed has printed.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("left out: {what_and_why}\n").as_bytes());
    let Some(file) = std::env::var_os(SKIPPED) else { return };
    let recorded = std::fs::File::options().create(true).append(true).open(&file);
    // One write, so that tests that run at the same time do not mix their lines.
    let recorded = recorded.and_then(|mut file| std::io::Write::write_all(&mut file, format!("{what_and_why}\n").as_bytes()));
    assert!(recorded.is_ok(), "cannot record in {} what is left out: {recorded:?}", file.display());
}

/// What a test fetches, or nothing: then it is recorded as left out.
pub fn had<T>(what: &str, fetched: anyhow::Result<T>) -> Option<T> {
    fetched.map_err(|error| skip(&format!("{what}: it cannot be had: {error:#}"))).ok()
}
