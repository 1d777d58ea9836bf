//! A PostgreSQL that is there and says nothing any more: its processes are stopped, or nothing comes through. Whatever the step
//! is at, `--timeout` and the first signal end it, the document says what nobody knows, and its hint does what is left to do.

use svc_tests::pg_case::prelude::*;

/// A database behind a network that stands still from a chosen statement on.
struct Frozen {
    case: Case,
    dump: PathBuf,
    proxy: Proxy,
    admin: String,
}

impl Frozen {
    fn at(name: &str, statement: &'static str) -> Self {
        let (case, dump) = Case::filled(name);
        let admin = case.role("adm", "SUPERUSER");
        let proxy = case.proxy();
        proxy.set(Mode::StallAt(statement));
        Self { case, dump, proxy, admin }
    }

    /// What is to be swapped in, its run, and the number of the live database.
    fn staged_at(name: &str, statement: &'static str) -> (Self, String, String) {
        let frozen = Self::at(name, statement);
        let ran = frozen.case.tool().arg("stage").arg(&frozen.dump).run().ok();
        let live = frozen.case.oid(&frozen.case.database);
        (frozen, ran.id().to_owned(), live)
    }

    fn through(&self, tool: Tool) -> Tool {
        self.case.through(&self.proxy, &self.admin, tool)
    }

    /// A call that has come to the statement.
    fn stalled(&self, tool: Tool) -> Spawned {
        let spawned = self.through(tool).spawn();
        wait::so("the chosen statement", || self.proxy.is_stalled().then_some(()));
        spawned
    }

    /// Sends the first signal when nothing comes through any more.
    fn term(&self, tool: Tool) -> Ran {
        self.stalled(tool).ended_by(Signal::SIGTERM).fails(143, "interrupted")
    }

    /// What the hint says, as a command that finds its own way.
    fn follow_hint(&self, ran: &Ran, step: &str) -> Ran {
        let run = ran.id();
        assert!(ran.hint().contains(&format!("svc-pgrestore {step} --run {run}")), "{ran}");
        self.proxy.cut();
        self.case.by_run(&[step], run)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Its sessions end when nothing stands still any more.
        self.proxy.set(Mode::Pass);
        self.proxy.cut();
    }
}

fn dump_in_its_own_queries() {
    let frozen = Frozen::at("pgz_dump", "statement_timeout");
    let ran = frozen.through(frozen.case.dumper().env("SVC_TIMEOUT", "30s").args(["--output", "frozen.sql"])).run();
    let ran = ran.fails(6, "timeout").unchanged().error_has(&["did not answer any more"]);
    assert!(!frozen.case.path("frozen.sql").exists(), "{ran}");
}

/// There it is pg_dump that waits.
fn dump_in_its_rows() {
    let frozen = Frozen::at("pgz_copy", "COPY public.items");
    frozen.term(frozen.case.dumper().args(["--output", "frozen.sql"])).unchanged();
    assert!(!["frozen.sql", "frozen.sql.partial"].iter().any(|name| frozen.case.path(name).exists()));
}

fn clone_at_its_copy() {
    let frozen = Frozen::at("pgz_clone", "CREATE DATABASE");
    let ran = frozen.term(frozen.case.tool().arg("clone"));
    assert!(ran.doc()["changed"].is_null() && ran.result()["verified"] == false, "{ran}");
    frozen.follow_hint(&ran, "discard").ok().unchanged();
    assert_eq!(frozen.case.copies(), "");
}

/// There it is our own queries that wait, or pg_dump.
fn stage_in_its_verification(name: &str, statement: &'static str) {
    let frozen = Frozen::at(name, statement);
    let witness = Witness::of(&frozen.case);
    let ran = frozen.term(frozen.case.tool().arg("stage").arg(&frozen.dump)).changed();
    let left = frozen.case.oid(&frozen.case.copies());
    let ran = ran.has(&json!({"verified": false, "staged/oid": left.parse::<u32>().unwrap()}));
    frozen.follow_hint(&ran, "discard").ok().changed();
    witness.assert_unchanged("after a verification without an answer");
}

/// Only the processes of the load are stopped, over the socket: the rest of the server answers.
fn stage_in_its_rows() {
    let (case, dump) = Case::filled("pgz_rows");
    let witness = Witness::of(&case);
    let rows = "CREATE FUNCTION public.slow(n integer) RETURNS boolean LANGUAGE sql AS 'SELECT pg_sleep(60) IS NOT NULL';\n\
                CREATE TABLE public.slowly (n integer CHECK (public.slow(n)));\nCOPY public.slowly (n) FROM stdin;\n1\n2\n\\.\n";
    let spawned = case.tool().arg("stage").arg(case.dump_with(&dump, rows)).spawn();
    let at_it = format!("datname LIKE '{}_staged_%' AND application_name = 'svc-tools'", case.database);
    case.wait_for("the rows", &format!("{at_it} AND wait_event = 'PgSleep'"));
    let stopped = case.stopped(&at_it);
    let ran = spawned.ended_by(Signal::SIGTERM);
    let left = case.copies();
    drop(stopped);
    let ran = ran.fails(143, "interrupted").changed().error_has(&["being accessed"]);
    let ran = ran.has(&json!({"verified": false, "staged/name": left}));
    case.by_run(&["discard"], ran.id()).ok().changed();
    witness.assert_unchanged("after processes that were stopped");
}

/// Before the commit nothing has changed.
fn swap_at_its_names() {
    let (frozen, run, live) = Frozen::staged_at("pgz_swap", "ALTER DATABASE");
    let ran = frozen.term(frozen.case.tool().args(["swap", "--run-id", &run, "--run", &run]));
    assert_resumed(&frozen, &ran.unchanged(), &live);
}

/// There nobody knows.
fn swap_at_its_commit() {
    let (frozen, run, live) = Frozen::staged_at("pgz_commit", "COMMIT");
    let swap = frozen.case.tool().args(["swap", "--timeout", "30s", "--run-id", &run, "--run", &run]);
    let ran = frozen.through(swap).run().fails(6, "timeout");
    assert!(frozen.proxy.is_stalled() && ran.doc()["changed"].is_null(), "{ran}");
    assert_resumed(&frozen, &ran, &live);
}

/// If the connection is lost there, it is read back what has become of it.
fn swap_lost_at_its_commit() {
    let (frozen, run, live) = Frozen::staged_at("pgz_lost", "COMMIT");
    let spawned = frozen.stalled(frozen.case.tool().args(["swap", "--run-id", &run, "--run", &run]));
    frozen.proxy.cut();
    frozen.case.wait_for_end("the swap's session", &format!("usename = '{}'", frozen.admin));
    frozen.proxy.set(Mode::Pass);
    assert_resumed(&frozen, &spawned.wait().fails(5, "postgres_unreachable").unchanged(), &live);
}

fn assert_resumed(frozen: &Frozen, ran: &Ran, live: &str) {
    assert_eq!(frozen.case.oid(&frozen.case.database), live, "{ran}");
    assert_eq!(ran.result()["swapped"], false, "{ran}");
    frozen.follow_hint(ran, "swap").ok().changed().has(&json!({"previous/oid": live.parse::<u32>().unwrap()}));
}

#[test]
fn silent_server_is_given_up_at_timeout_or_first_signal() {
    // In parallel, since each of them waits for longer than it works.
    thread::scope(|scope| {
        scope.spawn(dump_in_its_own_queries);
        scope.spawn(dump_in_its_rows);
        scope.spawn(clone_at_its_copy);
        scope.spawn(stage_in_its_rows);
        scope.spawn(|| stage_in_its_verification("pgz_verify", "ANALYZE"));
        scope.spawn(|| stage_in_its_verification("pgz_schema", "SET TRANSACTION ISOLATION LEVEL"));
        scope.spawn(swap_at_its_names);
        scope.spawn(swap_at_its_commit);
        scope.spawn(swap_lost_at_its_commit);
    });
}

#[test]
#[ignore = "half a minute: a server that stays away"]
fn server_lost_at_commit_leaves_swap_outcome_unknown() {
    let (frozen, run, live) = Frozen::staged_at("pgz_away", "COMMIT");
    let spawned = frozen.stalled(frozen.case.tool().args(["swap", "--run-id", &run, "--run", &run]));
    // From now on each connection ends at the first answer.
    frozen.proxy.set(Mode::CutAfter(0));
    frozen.proxy.cut();
    let ran = spawned.wait().fails(5, "outcome_unknown");
    assert!(ran.doc()["changed"].is_null(), "{ran}");
    assert_resumed(&frozen, &ran, &live);
}
