//! `svc-upgrade` and `svc-rollback` beside the procedure's own commands (9.2, 9.3), with the sample service, in a throw-away host.
//!
//! The installer's and the uninstaller's own time, and the unit's, are taken out on both sides: they are nobody's merit.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use svc_tests::host::{Host, OwnPostgres, OwnSearch, texts};
use svc_tests::product::Product;
use svc_tests::sandbox::Sandbox;
use svc_tests::tool::{Tool, root, search_path};

use crate::measure::{Scratch, durable, fill_index, fill_tables, machine, postgresql, search, search_server, settle};
use crate::report::{Entry, Report};
use crate::{Frame, journal};

/// What can be measured by itself: the upgrade into an empty repository, and the rollback, beside the procedure's commands; the upgrade
/// and the quiesced backup where last night's snapshot is there, beside the longer of dump and snapshot alone; upgrade and rollback with
/// clones, beside the procedure's commands, and at a quarter of the size.
const PARTS: [&str; 3] = ["empty", "changed", "cloned"];

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many MB of documents the search database has
    #[arg(long, default_value_t = 1000)]
    documents: usize,
    /// Size of the PostgreSQL database in MB
    #[arg(long, default_value_t = 500)]
    rows: usize,
    #[command(flatten)]
    frame: Frame,
}

/// The service's name, which is also that of its role.
const NAME: &str = "svc";
/// What is installed when something is measured, and what it is upgraded to.
const BEFORE: &str = "1.15.5";
const AFTER: &str = "2.0.1";
/// In how many indices the documents are: one of them is a fifth.
const INDICES: usize = 5;
/// The snapshot of last night.
const NIGHTLY: &str = "snapshot_svc_last_night";
/// A rollback that swaps clones in must not take longer for more: what two runs of the same may differ by.
const FLAT: f64 = 1.2;

/// What a run took, in seconds, without the installer's and the unit's own time.
#[derive(Debug, Default)]
pub struct Took {
    /// How long the service was down.
    pub downtime: f64,
    /// From its start to its end.
    pub complete: f64,
    /// Step by step.
    pub entries: Vec<Entry>,
}

/// What is measured, as the report names it.
const UPGRADE: &str = "`svc-upgrade` into an empty repository";
const CHANGED: &str = "`svc-upgrade`, a fifth of the documents changed since last night's snapshot";
const QUIESCED: &str = "`svc-backup --quiesce`, a fifth of the documents changed since last night's snapshot";
const ROLLBACK: &str = "`svc-rollback`";
const CLONED: &str = "`svc-upgrade --clone`";
const CLONED_BACK: &str = "`svc-rollback` after `--clone`";
const PLAIN_UPGRADE: &str = "The upgrade by the procedure's commands";
const PLAIN_ROLLBACK: &str = "The rollback by the procedure's commands";

/// The rounds of all that is measured.
#[derive(Default)]
struct Rounds(BTreeMap<&'static str, Vec<Took>>);

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let Arguments { documents, rows, frame } = arguments;
    let (ground, pairs) = (&Ground::new()?, frame.pairs(3));
    let servers = [machine(&ground.search.data_dir)?, search(&ground.search), postgresql(&ground.postgres)?].join("; ");
    frame.measure(&PARTS, format!("{servers}; {documents} MB of documents and {rows} MB of rows"), |report, wanted| {
        let mut rounds = Rounds::default();
        let measured = rounds.measure(ground, pairs, (*documents, *rows), wanted);
        rounds.report(report);
        measured
    })
}

/// The service, with servers of its own whose disk is waited for, and a folder for what the measured commands print.
struct Ground {
    // Dropped in this order: what is in the servers, then the servers.
    product: Product,
    search: OwnSearch,
    postgres: OwnPostgres,
    scratch: Scratch,
}

impl Ground {
    /// Starts the servers, installs the service, and starts it. Its repository is empty.
    fn new() -> Result<Self> {
        let mut host = Host::shared()?;
        let (search, postgres) = (search_server(&host, &host.search.key, &[])?, durable(&host)?);
        (host.search, host.postgres) = (search.server.clone(), postgres.server.clone());
        let product = Product::on(host, NAME)?;
        product.install(BEFORE, 400)?;
        Ok(Self { product, search, postgres, scratch: Scratch::new(Vec::new())? })
    }

    /// The service's settings; the search database is its alone.
    fn env(&self) -> impl Iterator<Item = (String, String)> {
        let own = [("SVC_INDICES", "*".to_owned()), ("SVC_PG_UNIT", format!("user:{}", self.postgres.unit))];
        self.product.env().into_iter().chain(texts(&own))
    }

    /// A tool or a script with these.
    fn tool(&self, name: &str) -> Tool {
        self.product.tool(name).envs(self.env()).limit(Duration::from_secs(1800))
    }

    /// Runs a command with these, and gives its time in seconds.
    fn time(&self, words: &[&str]) -> Result<f64> {
        let (program, arguments) = words.split_first().context("an empty command")?;
        let path = search_path([root().join("scripts"), self.postgres.bin_dir.clone()]);
        settle(&self.postgres)?;
        Ok(self.scratch.weigh(Command::new(program).args(arguments).envs(self.env()).env("PATH", path))?.seconds)
    }

    /// A script, measured as the procedure's commands are: to the moment of its end. Its document, too.
    fn script(&self, words: &[&str]) -> Result<(Took, Value)> {
        let before = SystemTime::now();
        let seconds = self.time(words)?;
        let document = self.scratch.ok()?;
        let from = before.duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
        Ok((journal::took(&document, from, seconds)?, document))
    }

    /// The path of the service's repository, or of what is below it.
    fn repository(below: &str) -> String {
        format!("/_snapshot/{NAME}_backup{below}")
    }

    /// Makes the databases hold about so many MB, beside the items of the service, which its installers rewrite.
    fn fill(&self, documents: usize, rows: usize) -> Result<()> {
        (0..INDICES).try_for_each(|number| self.fill_index(number, documents))?;
        fill_tables(&self.postgres, &self.product.database(), &["public".to_owned()], rows)?;
        eprintln!("{documents} MB of documents, {rows} MB of rows");
        Ok(())
    }

    /// Writes a fifth of the documents again.
    fn fill_index(&self, number: usize, documents: usize) -> Result<()> {
        let name = format!("{NAME}-archive-{number}");
        let _ = self.search.request("DELETE", &format!("/{name}"), None)?;
        let body = json!({"settings": {"number_of_shards": 1, "number_of_replicas": 0},
            "mappings": {"properties": {"t": {"type": "keyword", "index": false, "doc_values": false}}}});
        self.search.ask("PUT", &format!("/{name}"), Some(&body))?;
        // Ten documents to the MB.
        fill_index(&Sandbox::on(self.search.server.clone(), "bench"), &name, documents * 10 / INDICES);
        Ok(())
    }

    /// Removes what the last runs have left: snapshots, but for one that stays, restore points, and journals.
    fn remove_runs(&self, stays: Option<&str>) -> Result<()> {
        let all = self.search.ask("GET", &Self::repository("/_all"), None)?;
        let snapshots = all["snapshots"].as_array().context("no list of snapshots")?;
        for name in snapshots.iter().filter_map(|one| one["snapshot"].as_str()).filter(|name| stays != Some(name)) {
            self.search.ask("DELETE", &Self::repository(&format!("/{name}")), None)?;
        }
        let folders = [self.product.backup_dir(), self.product.state_dir()];
        Ok(folders.iter().filter(|folder| folder.exists()).try_for_each(fs::remove_dir_all)?)
    }

    /// `svc-upgrade`, from a service that runs.
    fn upgrade(&self, clone: bool) -> Result<Took> {
        let installer = self.product.installer(AFTER).display().to_string();
        let words: &[&str] = if clone { &["svc-upgrade", "--clone", &installer] } else { &["svc-upgrade", &installer] };
        Ok(self.script(words)?.0)
    }

    /// `svc-rollback` of that; what it has replaced is removed.
    fn rollback(&self) -> Result<Took> {
        let (took, document) = self.script(&["svc-rollback"])?;
        for command in document["result"]["discard_previous"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (program, words) = command.split_once(' ').context("a command without arguments")?;
            self.tool(program).args(words.split(' ')).run().ok();
        }
        Ok(took)
    }

    /// One of the two by the procedure's commands, one by one: the service is down from the first to the last.
    fn procedure(&self, what: &str, version: &str) -> Result<Took> {
        let script = root().join("tests/bench/procedure").display().to_string();
        let (installer, dump) = (self.product.installer(version).display().to_string(), self.scratch.path("svc_db.backup.sql"));
        self.time(&[&script, what, &installer, &dump])?;
        let entry = |line: &str| {
            let (micros, rest) = line.split_once('\t')?;
            let (own, step) = rest.split_once('\t')?;
            let seconds = micros.parse::<f64>().ok()? / 1e6;
            let step = if step.starts_with("the ") { step.to_owned() } else { format!("`{step}`") };
            Some(Entry { phase: "while the service is down", step, seconds, is_own: own == "own" })
        };
        let entries: Vec<Entry> = self.scratch.output()?.lines().filter_map(entry).collect();
        let seconds = entries.iter().filter(|entry| !entry.is_own).map(|entry| entry.seconds).sum();
        Ok(Took { downtime: seconds, complete: seconds, entries })
    }
}

impl Rounds {
    fn measure(
        &mut self,
        ground: &Ground,
        pairs: usize,
        (documents, rows): (usize, usize),
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        ground.fill(documents / 4, rows / 4)?;
        // Nobody's first call is measured: the search database's compiler warms up.
        pair(ground, false)?;
        procedure(ground)?;
        for _ in (0..pairs).filter(|_| wanted("cloned")) {
            self.add(["small upgrade", "small rollback"], pair(ground, true)?);
        }
        ground.fill(documents, rows)?;
        for round in (0..pairs).filter(|_| wanted("empty") || wanted("cloned")) {
            // Whatever drifts must favour none of the three.
            for turn in 0..3 {
                match (round + turn) % 3 {
                    0 if wanted("empty") => self.add([UPGRADE, ROLLBACK], pair(ground, false)?),
                    1 => self.add([PLAIN_UPGRADE, PLAIN_ROLLBACK], procedure(ground)?),
                    2 if wanted("cloned") => self.add([CLONED, CLONED_BACK], pair(ground, true)?),
                    _ => {}
                }
            }
        }
        for _ in (0..pairs).filter(|_| wanted("changed")) {
            self.add(["alone", QUIESCED, CHANGED], changed(ground, documents)?);
        }
        Ok(())
    }

    fn add<const N: usize>(&mut self, names: [&'static str; N], took: [Took; N]) {
        for (name, took) in names.into_iter().zip(took) {
            eprintln!("{name}: down for {:.2} s, {:.2} s in all", took.downtime, took.complete);
            self.0.entry(name).or_default().push(took);
        }
    }

    fn of(&self, name: &str) -> &[Took] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Puts all of it into the report.
    fn report(&self, report: &mut Report) {
        let longer = "the longer of `svc-pgdump` and `svc-snap create --rate-limit none` alone";
        let by_upgrade = "stop, `curl` snapshot, `pg_dump`, installer, start";
        let by_rollback = "stop, uninstall, `DELETE`, `curl …/_restore`, `psql`, installer, start";
        for (ours, part, against, theirs, target) in [
            (UPGRADE, "downtime", by_upgrade, PLAIN_UPGRADE, Some(0.15)),
            (CHANGED, "downtime", longer, "alone", Some(1.15)),
            (QUIESCED, "downtime", longer, "alone", Some(1.15)),
            (ROLLBACK, "downtime", by_rollback, PLAIN_ROLLBACK, Some(0.10)),
            (ROLLBACK, "whole time", by_rollback, PLAIN_ROLLBACK, Some(0.35)),
            (CLONED, "downtime", by_upgrade, PLAIN_UPGRADE, None),
            (CLONED_BACK, "whole time", by_rollback, PLAIN_ROLLBACK, Some(0.05)),
            (CLONED_BACK, "whole time", "the same with a quarter of the content", "small rollback", Some(FLAT)),
        ] {
            let of = |one: &Took| if part == "downtime" { one.downtime } else { one.complete };
            let [one, other] = [ours, theirs].map(|name| self.of(name).iter().map(of).collect::<Vec<_>>());
            if !one.is_empty() && one.len() == other.len() {
                report.ratio(&format!("{ours}, {part}"), against, target, (&one, &other));
            }
        }
        for what in [UPGRADE, CHANGED, QUIESCED, PLAIN_UPGRADE, ROLLBACK, PLAIN_ROLLBACK, CLONED, CLONED_BACK] {
            report.account(what, &self.of(what).iter().map(|one| one.entries.as_slice()).collect::<Vec<_>>());
        }
    }
}

/// An upgrade and its rollback. With clones last night's snapshot is there, so that the warm one, of which nothing is measured here, is
/// quick.
fn pair(ground: &Ground, clone: bool) -> Result<[Took; 2]> {
    if clone {
        take_nightly(ground);
    }
    let both = [ground.upgrade(clone)?, ground.rollback()?];
    ground.remove_runs(None)?;
    Ok(both)
}

/// The same by the procedure's commands, one by one.
fn procedure(ground: &Ground) -> Result<[Took; 2]> {
    let both = [ground.procedure("upgrade", AFTER)?, ground.procedure("rollback", BEFORE)?];
    ground.remove_runs(None)?;
    Ok(both)
}

fn take_nightly(ground: &Ground) {
    ground.tool("svc-snap").args(["create", NIGHTLY, "--kind", "nightly", "--rate-limit", "none"]).run().ok();
}

/// Last night's snapshot is there, and a fifth of the documents was written again: the longer of dump and snapshot alone, a quiesced
/// backup, and an upgrade.
fn changed(ground: &Ground, documents: usize) -> Result<[Took; 3]> {
    take_nightly(ground);
    ground.fill_index(0, documents)?;
    let dump = ground.scratch.path("alone.sql");
    // The time of one step by itself. The service is stopped meanwhile, as it is then.
    let alone = |words: &[&str]| {
        ground.tool("svc-unit").arg("stop").run().ok();
        let seconds = ground.time(words)?;
        ground.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
        anyhow::Ok(seconds)
    };
    let dump_alone = alone(&["svc-pgdump", "--dbname", &ground.product.database(), "--output", &dump])?;
    let snapshot_alone = alone(&["svc-snap", "create", "snapshot_svc_alone", "--rate-limit", "none"])?;
    eprintln!("alone the dump {dump_alone:.2} s, the snapshot {snapshot_alone:.2} s");
    let longer = dump_alone.max(snapshot_alone);
    ground.remove_runs(Some(NIGHTLY))?;
    for file in [dump.clone(), format!("{dump}.properties.json")] {
        fs::remove_file(file)?;
    }
    // Of a service that runs.
    let (quiesced, _) = ground.script(&["svc-backup", "--quiesce"])?;
    ground.remove_runs(Some(NIGHTLY))?;
    let upgrade = ground.upgrade(false)?;
    ground.rollback()?;
    ground.remove_runs(None)?;
    Ok([Took { downtime: longer, complete: longer, entries: Vec::new() }, quiesced, upgrade])
}
