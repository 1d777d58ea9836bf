//! `svc-pgdump` and `svc-pgrestore` on servers 13 to 18, with clients 15, 16 and 18: what goes back where, and what does not.

use svc_tests::pg_case::prelude::*;

/// One of every kind of object.
const KINDS: [&str; 2] = [include_str!("../pgrestore/every_kind.sql"), include_str!("../pgrestore/more_kinds.sql")];
/// The database, of that name on each server, so that its owner is everywhere too.
const NAME: &str = "pgm";

/// A server of one version with the database, and the dump of it.
struct Site {
    version: u32,
    case: Case,
    before: Vec<u8>,
    /// The same as [`by_newest`] has it.
    by_newest: Option<Vec<u8>>,
    document: PathBuf,
    // Goes last: the case takes its databases away.
    _server: OwnPostgres,
}

impl Site {
    fn start(host: &Host, programs: Programs) -> Self {
        let version = programs.version;
        let server = host.postgres_of(programs).unwrap();
        let case = Case::on(server.server.clone(), NAME.to_owned());
        for script in KINDS {
            case.script(script);
        }
        let (before, document) = (case.bytes(), case.backup());
        let by_newest = by_newest(&case.pg, NAME);
        Self { version, case, before, by_newest, document, _server: server }
    }

    /// What is dumped goes back and is the same, byte for byte; and the way back is open.
    fn goes_round(&self) {
        let Self { version, case, before, document, .. } = self;
        case.sql("SET client_min_messages = warning; DROP SCHEMA more CASCADE; ALTER TABLE nothing ADD COLUMN new int");
        let upgraded = case.bytes();
        let jobs = if version % 2 == 0 { "1" } else { "7" };
        let ran = case.from(&["--jobs", jobs], document).ok().changed();
        same(before, &case.bytes(), &format!("server {version}, {jobs} jobs"));
        let restored = case.keep("restored.json", &ran);
        case.from(&["swap"], &restored).ok().changed();
        same(&upgraded, &case.bytes(), &format!("server {version}, swapped back"));
        case.from(&["discard"], &restored).ok().changed();
    }

    /// A clone is the same; servers before 15 make one of files without being told.
    fn is_cloned(&self) {
        let case = &self.case;
        let ran = case.tool().arg("clone").run().ok().changed();
        same(&self.before, &case.take(&ran.result()["clone"], &case.pg), &format!("server {}, clone", self.version));
    }

    /// A trigger for the start of a session (there are some from 17 on) does not see those of the restore.
    fn has_a_login_trigger(&self) {
        let case = &self.case;
        case.sql(
            "CREATE FUNCTION only_live() RETURNS event_trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF current_database() LIKE '%staged%' THEN RAISE 'not yet'; END IF; END $$; \
             CREATE EVENT TRIGGER only_live ON login EXECUTE FUNCTION only_live(); ALTER EVENT TRIGGER only_live ENABLE ALWAYS",
        );
        let before = case.bytes();
        case.from(&["--drop-old"], &case.backup()).ok().changed();
        same(&before, &case.bytes(), "a login trigger");
        assert_eq!(case.admin("SELECT count(*) FROM pg_db_role_setting"), "0");
    }

    /// A limit of the time of a transaction (from 17 on), which a dump by an older client does not take off, does not cut the load.
    fn is_not_cut_by_a_timeout(&self) {
        let case = &self.case;
        let path = case.dump_with(&case.dump(), "BEGIN;\nSELECT pg_catalog.pg_sleep(2);\nCOMMIT;");
        let text = fs::read_to_string(&path).unwrap();
        let path = case.write("slow.sql", text.replace("SET transaction_timeout = 0;\n", ""));
        case.admin(&format!("ALTER ROLE {ADMINISTRATOR} SET transaction_timeout TO '1s'"));
        let ran = case.tool().arg("stage").arg(&path).run().ok().changed();
        // Before the test's own sessions, which the limit would hold for too.
        case.admin(&format!("ALTER ROLE {ADMINISTRATOR} RESET transaction_timeout"));
        case.pg.drop_database(ran.result()["staged"]["name"].as_str().unwrap()).unwrap();
    }

    /// A dump by newer clients goes back, and is what these clients then dump again.
    fn takes_from_client(&self, client: u32) {
        let Self { version, case, .. } = self;
        let Some(bin_dir) = had(&format!("PostgreSQL, clients {client}"), programs::client(client)) else { return };
        let mut newer = case.pg.clone();
        newer.bin_dir = bin_dir;
        let before = postgres_bytes(&newer, NAME).unwrap();
        let dump = case.write("by-newer.sql", &before);
        // A server that keeps an option for itself, which its own clients leave out, numbers it again at each load.
        assert!(!text(&case.bytes()).contains("pg_attver="), "server {version}: its own pg_dump writes that down");
        let own = case.dumper().args(["--as", "postgres", "--pg-dump"]).arg(newer.bin_dir.join("pg_dump"));
        own.args(["--output", "ours.sql", "--force"]).run().ok();
        let run = format!("20300101t000000z-{client}");
        let ran = case.tool().args(["stage", "--run-id", &run]).arg(&dump).run().ok().changed();
        let after = without_numbers(&case.take(&ran.result()["staged"], &newer));
        same(&without_numbers(&before), &after, &format!("server {version}, client {client}"));
    }

    /// A dump of another server: one of an older one is taken, one of a newer one refused before anything.
    fn takes_from_server(&self, other: &Self) {
        let ran = self.case.from(&["stage", "--other-server"], &other.document);
        if other.version > self.version {
            ran.refused("version_unsupported").error_has(&[&format!("version {}", other.version)]);
        } else {
            let ran = ran.ok().changed().has(&json!({"verified": true}));
            let name = ran.result()["staged"]["name"].as_str().unwrap();
            if let Some(before) = &other.by_newest {
                let after = of_copy(&self.case.pg, name, || Ok(by_newest(&self.case.pg, name))).unwrap().unwrap();
                same(before, &after, &format!("server {} to {}", other.version, self.version));
            }
            self.case.pg.drop_database(name).unwrap();
        }
        assert_eq!(self.case.copies(), "");
    }
}

fn without_version(dump: &[u8]) -> Vec<u8> {
    let lines = dump.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"-- Dumped from database version ")).collect::<Vec<_>>().concat()
}

/// The rows of a database as the newest client dumps them from any server. (Each server words definitions in its own way.)
fn by_newest(pg: &Postgres, name: &str) -> Option<Vec<u8>> {
    let mut newest = pg.clone();
    newest.bin_dir = had("PostgreSQL, clients 18", programs::client(18))?;
    let mut pg_dump = newest.administrator("pg_dump");
    let output = pg_dump.args(["--restrict-key=svc", "--data-only"]).arg(format!("--dbname={name}")).output().unwrap();
    assert!(output.status.success() && output.stdout.len() > 1000, "{}", text(&output.stderr));
    Some(without_version(&output.stdout))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The same without the numbers that a server gives its own option.
fn without_numbers(dump: &[u8]) -> Vec<u8> {
    let text = text(dump);
    let mut parts = text.split("pg_attver=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "pg_attver=" + part.trim_start_matches(|letter: char| letter.is_ascii_digit())).into()
}

#[test]
fn dump_is_restored_on_same_version_and_newer_ones_alone() {
    let versions = Programs::versions().unwrap();
    let all = rounds("servers, each with the dumps of all others and of all clients", 3, versions.len()) == versions.len();
    let host = Host::shared().unwrap();
    let mut sites: Vec<Site> = Vec::new();
    for version in versions.into_iter().filter(|version| all || [13, 15, 18].contains(version)) {
        let Some(programs) = had(&format!("PostgreSQL, server {version}"), Programs::of(version)) else { continue };
        let site = Site::start(&host, programs);
        if all || [13, 15].contains(&version) {
            site.takes_from_client(18);
        }
        for other in &sites {
            if all || (other.version, version) == (13, 15) {
                site.takes_from_server(other);
            }
            if all || version == 18 {
                other.takes_from_server(&site);
            }
        }
        if all || [13, 18].contains(&version) {
            site.is_cloned();
        }
        site.goes_round();
        if version == 18 {
            site.is_not_cut_by_a_timeout();
        }
        sites.push(site);
    }
    // Last, since its dump takes the place of the one that the others have taken.
    sites.iter().filter(|site| site.version == 18).for_each(Site::has_a_login_trigger);
}
