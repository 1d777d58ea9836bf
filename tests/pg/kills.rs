//! `svc-pgdump` and `svc-pgrestore` killed at their system calls, their servers stopped and their connections cut: what is there
//! afterwards is the old or the new, never half of each, and the same command again finishes it and leaves nothing else.

use svc_tests::kills::{self, Moment};
use svc_tests::pg_case::prelude::*;

/// Every file below a folder, but the locks, which stay.
fn files(folder: &Path) -> Vec<String> {
    let find = ["-name", "locks", "-prune", "-o", "-type", "f", "-printf", "%f\\n"];
    let mut found: Vec<_> = os::run(Command::new("find").arg(folder).args(find)).unwrap().lines().map(str::to_owned).collect();
    found.sort();
    found
}

fn records(case: &Case) -> Vec<String> {
    files(&case.path("state"))
}

const NONE: [&str; 0] = [];

/// Lets a day pass for the files that a killed call has left half written; younger ones may be those of a running call.
fn grow_old(case: &Case) {
    let touch = ["-path", "*/swaps/*.partial", "-exec", "touch", "--date=1 day ago", "{}", "+"];
    os::run(Command::new("find").arg(case.dir.path()).args(touch)).unwrap();
}

/// Waits until the server has noticed that the tool is gone.
fn noticed(case: &Case) {
    let name = literal(&format!("%{}%", case.database));
    let its_own = format!("application_name = 'svc-tools' AND (datname LIKE {name} OR query LIKE {name})");
    case.wait_for_end("the killed tool's sessions", &its_own);
}

/// How many moments more are tried if the tool came to its end before each of the chosen ones.
const SPARE: usize = 8;

/// One command that is killed at many moments.
struct Series<'a> {
    what: &'a str,
    /// How many moments, unless it is a deep run.
    count: usize,
    case: &'a Case,
    /// Prepares the state in which the command is given, in the nth round.
    prepare: &'a dyn Fn(usize),
    command: &'a dyn Fn(usize) -> Tool,
    /// Whether what is there is the old or the new; `when` says after what.
    old_or_new: &'a dyn Fn(&str),
    /// What must be so when the command has come to its end.
    done: &'a dyn Fn(usize, &Ran, &str),
}

impl Series<'_> {
    fn run(&self) {
        if !kills::possible(self.what) {
            return;
        }
        (self.prepare)(0);
        let (ran, all) = kills::moments((self.command)(0), self.case.dir.path());
        (self.done)(0, &ran.ok(), "undisturbed");
        let of = all.len();
        assert!(of > 10, "{}: strace saw {of} calls only", self.what);
        let mut random = Random::with_seed(random::seed());
        let chosen = kills::sample(self.what, all.clone(), self.count, &mut random);
        let rounds = chosen.len();
        let more = (0..SPARE).map(|_| all[random.usize(..of)].clone());
        let mut killed = 0;
        for (round, moment) in (1..).zip(chosen.into_iter().chain(more)) {
            // Threads may go another way than in the run that was looked at, but not always.
            if round > rounds && killed > 0 {
                break;
            }
            killed += usize::from(self.round(round, &moment));
        }
        eprintln!("{}: killed at {killed} of {of} moments", self.what);
        assert!(killed > 0, "{} was never killed", self.what);
    }

    fn round(&self, round: usize, moment: &Moment) -> bool {
        let when = format!("{} killed at {moment:?}", self.what);
        (self.prepare)(round);
        let killed = kills::kill_at((self.command)(round), moment);
        assert!([0, 137].contains(&killed.status), "{when}\n{killed}");
        // Every other time the command is given again at once, while the server may still be at it.
        if !round.is_multiple_of(2) {
            (self.old_or_new)(&when);
        }
        grow_old(self.case);
        let again = (self.command)(round).run();
        assert!(again.status == 0, "{when}, and then\n{again}");
        (self.done)(round, &again, &when);
        killed.status == 137
    }
}

fn run_id(round: usize) -> String {
    format!("20300101t{round:06}z-kill")
}

#[test]
fn killed_dump_leaves_old_or_new_file_with_own_properties() {
    dumps("svc-pgdump", "pgk_dump", &[], 5);
    dumps("svc-pgdump --compress zstd", "pgk_zstd", &["--compress", "zstd"], 2);
}

fn dumps(what: &str, name: &str, more: &[&str], count: usize) {
    let (case, _) = Case::filled(name);
    let folder = case.path("dumps");
    fs::create_dir(&folder).unwrap();
    let (out, properties) = (folder.join("dump.sql"), folder.join("dump.sql.properties.json"));
    let command = &|_| case.dumper().args(["--as", "postgres", "--force"]).args(more).arg("--output").arg(&out);
    let work_mem = |size: &str| case.admin(&format!("ALTER DATABASE {} SET work_mem = '{size}'", case.database));
    work_mem("5MB");
    command(0).run().ok();
    let old = [&out, &properties].map(|path| fs::read(path).unwrap());
    work_mem("6MB");
    case.sql("DELETE FROM notes WHERE item > 100");
    // Every third time none is there yet.
    let prepare = &|round: usize| {
        for (path, bytes) in [&out, &properties].into_iter().zip(&old) {
            let _ = fs::remove_file(path);
            if round % 3 != 2 {
                fs::write(path, bytes).unwrap();
            }
        }
    };
    let is_old = || fs::read(&out).is_ok_and(|bytes| bytes == old[0]);
    let old_or_new = &|when: &str| {
        // A dump without its properties, or beside those of another one, which are not taken for its own.
        if out.exists() && !verify(&out).ok().result()["properties_path"].is_null() {
            let text = fs::read_to_string(&properties).unwrap();
            assert_eq!(text.contains("5MB"), is_old(), "{when}: a dump with the properties of another");
        }
    };
    let done = &|_: usize, _: &Ran, when: &str| {
        assert_eq!(files(&folder), ["dump.sql", "dump.sql.properties.json"], "{when}");
        verify(&out).ok();
        assert!(!is_old() && fs::read_to_string(&properties).unwrap().contains("6MB"), "{when}");
        assert_eq!(records(&case), NONE, "{when}");
    };
    Series { what, count, case: &case, prepare, command, old_or_new, done }.run();
}

#[test]
fn killed_clone_is_finished_by_same_command() {
    let (case, _) = Case::filled("pgk_clone");
    let (text, live) = (case.text(), case.oid(&case.database));
    let old_or_new = &|when: &str| assert_eq!((case.text(), case.oid(&case.database)), (text.clone(), live.clone()), "{when}");
    let done = &|round: usize, ran: &Ran, when: &str| {
        assert_eq!(ran.result()["verified"], true, "{when}");
        assert_eq!(case.copies(), ran.result()["clone"]["name"].as_str().unwrap(), "{when}");
        old_or_new(when);
        case.by_run(&["discard"], &run_id(round)).ok();
        assert_eq!((case.copies().as_str(), records(&case).len()), ("", 0), "{when}");
    };
    let command = &|round| case.tool().args(["clone", "--run-id", &run_id(round)]);
    Series { what: "svc-pgrestore clone", count: 2, case: &case, prepare: &|_| {}, command, old_or_new, done }.run();
}

#[test]
fn killed_swap_or_discard_is_finished_by_same_command() {
    let (case, dump) = Case::filled("pgk_swap");
    case.sql("DELETE FROM notes WHERE item > 100");
    let upgraded = case.text();
    let old = case.oid(&case.database);
    let run = "20300101t000000z-swaps";
    let staged = case.tool().args(["stage", "--run-id", run]).arg(&dump).run().ok();
    let new = staged.result()["staged"]["oid"].to_string();
    let copy = case.copies();
    let document = case.keep("staged.json", &staged);
    let forward = || case.tool().args(["swap", "--from"]).arg(&document);
    let back = || case.tool().args(["swap", "--run", run, "--back"]);
    let old_or_new = &|when: &str| {
        noticed(&case);
        let live = case.oid(&case.database);
        assert!([&old, &new].contains(&&live), "{when}: {live} is live");
        assert_eq!(case.copies().lines().count(), 1, "{when}");
        assert_eq!(case.notes(), if live == old { "100" } else { "200" }, "{when}");
    };
    let swapped = |_: usize, ran: &Ran, when: &str| {
        assert_eq!((ran.result()["swapped"].as_bool(), case.oid(&case.database)), (Some(true), new.clone()), "{when}");
        assert_eq!(case.oid(&case.copies()), old, "{when}");
    };
    let went_back = |_: usize, _: &Ran, when: &str| {
        let is = (case.oid(&case.database), case.copies(), case.text());
        assert_eq!(is, (old.clone(), copy.clone(), upgraded.clone()), "{when}");
    };
    let series = |what, prepare: &dyn Fn(usize), command: &dyn Fn(usize) -> Tool, done: &dyn Fn(usize, &Ran, &str)| {
        Series { what, count: 2, case: &case, prepare, command, old_or_new, done }.run();
    };
    // In the first round there is nothing to go back from.
    series("swap", &|round| drop((round > 0).then(|| back().run().ok())), &|_| forward(), &swapped);
    series("swap --back", &|_| drop(forward().run().ok()), &|_| back(), &went_back);

    // What is left is dropped, and only that.
    let done = &|_: usize, ran: &Ran, when: &str| {
        assert_eq!((case.oid(&case.database), case.copies()), (old.clone(), copy.clone()), "{when}\n{ran}");
        assert_eq!(records(&case).len(), 1, "{when}");
    };
    let prepare = &|round: usize| {
        let stage = || case.tool().args(["stage", "--run-id", &run_id(round)]).arg(&dump).run().ok();
        stage();
        case.keep("further.json", &stage());
    };
    // A record that is gone says that it was done.
    let further = || case.tool().args(["discard", "--from"]).arg(case.path("further.json"));
    let command = &|round| further().env("SVC_RUN_ID", run_id(round));
    let old_or_new = &|when: &str| assert_eq!(case.oid(&case.database), old, "{when}");
    Series { what: "discard", count: 1, case: &case, prepare, command, old_or_new, done }.run();
}

#[test]
fn killed_or_cut_restore_is_finished_by_same_run() {
    let (case, dump) = Case::filled("pgk_whole");
    let backed_up = case.text();
    case.sql("DELETE FROM notes WHERE item > 100");
    let old = case.oid(&case.database);
    let command = &|round: usize| case.tool().args(["--run-id", &run_id(round)]).arg(&dump);
    let old_or_new = &|when: &str| {
        noticed(&case);
        let rows = case.notes();
        assert_eq!(rows, if case.oid(&case.database) == old { "100" } else { "200" }, "{when}");
    };
    let done = &|round: usize, ran: &Ran, when: &str| {
        assert_eq!(ran.result()["swap"]["swapped"], true, "{when}");
        assert_eq!((case.text(), case.oid(&case.copies())), (backed_up.clone(), old.clone()), "{when}");
        case.by_run(&["swap", "--back"], &run_id(round)).ok();
        case.by_run(&["discard"], &run_id(round)).ok();
        assert_eq!((case.oid(&case.database), case.copies().as_str()), (old.clone(), ""), "{when}");
        assert_eq!(records(&case), NONE, "{when}");
    };
    Series { what: "restore", count: 5, case: &case, prepare: &|_| {}, command, old_or_new, done }.run();
    let (admin, proxy) = (case.role("adm", "SUPERUSER"), case.proxy());
    let mut random = Random::with_seed(random::seed());
    for round in 0..rounds("connections cut at random", 4, 60) {
        // Of each connection's answers: the first is over with some hundred bytes, the administrator's with a few thousand.
        let limit = 100 + random.usize(..[600, 6000, 20_000][round % 3]);
        let when = format!("each connection cut after {limit} bytes");
        proxy.set(Mode::CutAfter(limit));
        let ran = case.through(&proxy, &admin, command(round)).run();
        assert!(ran.status == 0 || (ran.status != 3 && !ran.hint().is_empty()), "{when}\n{ran}");
        old_or_new(&when);
        done(round, &case.by(&admin, command(round)).run().ok(), &when);
    }
}

#[test]
fn killed_in_place_restore_is_finished_by_same_command() {
    let (case, dump) = Case::filled("pgk_place");
    case.admin(&format!("ALTER DATABASE {} SET work_mem = '13MB'", case.database));
    let backed_up = case.text();
    // Without a record beside the dump, that of the live database must outlive it.
    let kept = case.path("svc_db.backup.sql.saved.properties.json");
    let prepare = &|_: usize| drop(case.sql("DELETE FROM notes WHERE item > 100"));
    let old_or_new = &|when: &str| {
        noticed(&case);
        if case.connection_limit() == "-1" {
            let rows = case.notes();
            assert!(["100", "200"].contains(&rows.as_str()), "{when}: {rows} rows, and it is open");
        } else {
            // Closed, or gone for the moment: what the dump does not tell is recorded.
            assert!(kept.exists(), "{when}: the database is gone or closed, and its properties are nowhere");
        }
    };
    let done = &|_: usize, _: &Ran, when: &str| {
        assert_eq!((case.text(), case.copies().as_str()), (backed_up.clone(), ""), "{when}");
        assert_eq!(case.sql("SHOW work_mem"), "13MB", "{when}: its properties are lost");
        assert_eq!(case.connection_limit(), "-1", "{when}: it was left closed");
        assert_eq!(records(&case), NONE, "{when}");
        assert!(!kept.exists(), "{when}: what was kept is left");
    };
    let command = &|_| case.tool().arg("--in-place").arg(&dump);
    Series { what: "--in-place", count: 2, case: &case, prepare, command, old_or_new, done }.run();
}
