//! `svc-upgrade` and `svc-rollback` beside the procedure's own commands (9.2, 9.3), with the sample service, in a throw-away host.
//!
//! The installer's and the uninstaller's own time, and the unit's, are taken out on both sides: they are nobody's merit.

mod ground;
mod literal;
mod ours;

use std::collections::BTreeMap;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::ground::Ground;
use crate::Frame;
use crate::report::{Entry, Report};

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The upgrade into an empty repository, and the rollback, beside the procedure's commands
    Empty,
    /// The upgrade and the quiesced backup where last night's snapshot is there, beside the longer of dump and snapshot alone
    Changed,
    /// Upgrade and rollback with clones, beside the procedure's commands, and at a quarter of the size
    Cloned,
}

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
    frame: Frame<Part>,
}

/// The snapshot of last night.
const NIGHTLY: &str = "snapshot_svc_last_night";
/// A rollback that swaps clones in must not take longer for more: what two runs of the same may differ by.
const FLAT: f64 = 1.2;

/// What a run took, in seconds, without the installer's and the unit's own time.
#[derive(Debug, Default)]
struct Took {
    /// How long the service was down.
    downtime: f64,
    /// From its start to its end.
    complete: f64,
    /// Step by step.
    entries: Vec<Entry>,
}

/// The rounds of all that is measured.
#[derive(Default)]
struct Rounds(BTreeMap<&'static str, Vec<Took>>);

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let Arguments { documents, rows, frame } = arguments;
    let (ground, pairs) = (&Ground::new()?, frame.pairs(3)?);
    let described = format!("{}; {documents} MB of documents and {rows} MB of rows", ground.described()?);
    frame.measure(described, |report, wanted| {
        let mut rounds = Rounds::default();
        let measured = rounds.measure(ground, pairs, (*documents, *rows), wanted);
        rounds.report(report);
        measured
    })
}

impl Rounds {
    fn measure(
        &mut self,
        ground: &Ground,
        pairs: usize,
        (documents, rows): (usize, usize),
        wanted: &dyn Fn(Part) -> bool,
    ) -> Result<()> {
        ground.fill(documents / 4, rows / 4)?;
        // Nobody's first call is measured: the search database's compiler warms up.
        pair(ground, false)?;
        procedure(ground)?;
        for _ in (0..pairs).filter(|_| wanted(Part::Cloned)) {
            self.add(["small upgrade", "small rollback"], pair(ground, true)?);
        }
        ground.fill(documents, rows)?;
        for round in (0..pairs).filter(|_| wanted(Part::Empty) || wanted(Part::Cloned)) {
            // Whatever drifts must favour none of the three.
            for turn in 0..3 {
                match (round + turn) % 3 {
                    0 if wanted(Part::Empty) => self.add(["upgrade", "rollback"], pair(ground, false)?),
                    1 => self.add(["their upgrade", "their rollback"], procedure(ground)?),
                    2 if wanted(Part::Cloned) => self.add(["cloned upgrade", "cloned rollback"], pair(ground, true)?),
                    _ => {}
                }
            }
        }
        for _ in (0..pairs).filter(|_| wanted(Part::Changed)) {
            self.add(["alone", "quiesced", "changed upgrade"], changed(ground, documents)?);
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
        let their_upgrade = "stop, `curl` snapshot, `pg_dump`, installer, start";
        let their_rollback = "stop, uninstall, `DELETE`, `curl …/_restore`, `psql`, installer, start";
        let longer = "the longer of `svc-pgdump` and `svc-snap create --rate-limit none` alone";
        let changed = "a fifth of the documents changed since last night's snapshot";
        let after_clone = "`svc-rollback` after `--clone`";
        let (upgrade, upgrade_changed) = ("`svc-upgrade` into an empty repository", format!("`svc-upgrade`, {changed}"));
        let quiesced = format!("`svc-backup --quiesce`, {changed}");
        for (what, ours, against, theirs, target) in [
            (format!("{upgrade}, downtime"), "upgrade", their_upgrade, "their upgrade", Some(0.15)),
            (format!("{upgrade_changed}, downtime"), "changed upgrade", longer, "alone", Some(1.15)),
            (format!("{quiesced}, downtime"), "quiesced", longer, "alone", Some(1.15)),
            ("`svc-rollback`, downtime".to_owned(), "rollback", their_rollback, "their rollback", Some(0.10)),
            ("`svc-rollback`, whole time".to_owned(), "rollback", their_rollback, "their rollback", Some(0.35)),
            ("`svc-upgrade --clone`, downtime".to_owned(), "cloned upgrade", their_upgrade, "their upgrade", None),
            (format!("{after_clone}, whole time"), "cloned rollback", their_rollback, "their rollback", Some(0.05)),
            (
                format!("{after_clone}, whole time"),
                "cloned rollback",
                "the same with a quarter of the content",
                "small rollback",
                Some(FLAT),
            ),
        ] {
            let seconds = |name: &str| -> Vec<f64> {
                let of = |one: &Took| if what.ends_with("downtime") { one.downtime } else { one.complete };
                self.of(name).iter().map(of).collect()
            };
            let (ours, theirs) = (seconds(ours), seconds(theirs));
            if !ours.is_empty() && ours.len() == theirs.len() {
                report.ratio(&what, against, target, (&ours, &theirs));
            }
        }
        for (what, name) in [
            (upgrade, "upgrade"),
            (&upgrade_changed, "changed upgrade"),
            (&quiesced, "quiesced"),
            ("The upgrade by the procedure's commands", "their upgrade"),
            ("`svc-rollback`", "rollback"),
            ("The rollback by the procedure's commands", "their rollback"),
            ("`svc-upgrade --clone`", "cloned upgrade"),
            (after_clone, "cloned rollback"),
        ] {
            report.account(what, &self.of(name).iter().map(|one| one.entries.as_slice()).collect::<Vec<_>>());
        }
    }
}

/// An upgrade and its rollback. With clones last night's snapshot is there, so that the warm one, of which nothing is measured here, is
/// quick.
fn pair(ground: &Ground, clone: bool) -> Result<[Took; 2]> {
    if clone {
        take_nightly(ground);
    }
    let both = [ours::upgrade(ground, clone)?, ours::rollback(ground)?];
    ground.remove_runs(None)?;
    Ok(both)
}

/// The same by the procedure's commands, one by one.
fn procedure(ground: &Ground) -> Result<[Took; 2]> {
    let both = [literal::upgrade(ground)?, literal::rollback(ground)?];
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
    ground.change_a_fifth(documents)?;
    let dump = ground.scratch.file("alone.sql").display().to_string();
    // The time of one step by itself. The service is stopped meanwhile, as it is then.
    let alone = |words: &[&str]| {
        ground.tool("svc-unit").arg("stop").run().ok();
        ground.settle()?;
        let seconds = ground.scratch.time(&ground.line(words))?;
        ground.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
        anyhow::Ok(seconds)
    };
    let dump_alone = alone(&["svc-pgdump", "--dbname", &ground.product.database(), "--output", &dump])?;
    let snapshot_alone = alone(&["svc-snap", "create", "snapshot_svc_alone", "--rate-limit", "none"])?;
    eprintln!("alone the dump {dump_alone:.2} s, the snapshot {snapshot_alone:.2} s");
    let longer = dump_alone.max(snapshot_alone);
    ground.remove_runs(Some(NIGHTLY))?;
    for file in [dump.clone(), format!("{dump}.properties.json")] {
        std::fs::remove_file(file)?;
    }
    let quiesced = ours::quiesced(ground)?;
    ground.remove_runs(Some(NIGHTLY))?;
    let upgrade = ours::upgrade(ground, false)?;
    ours::rollback(ground)?;
    ground.remove_runs(None)?;
    Ok([Took { downtime: longer, complete: longer, entries: Vec::new() }, quiesced, upgrade])
}
