//! `svc-upgrade` and `svc-rollback` beside the procedure's own commands (9.2, 9.3), with the sample service, in a throw-away host.
//!
//! The installer's and the uninstaller's own time, and the unit's, are taken out on both sides: they are nobody's merit.

mod ground;
mod literal;
mod ours;

use anyhow::Result;
use clap::Args;

use self::ground::Ground;
use self::ours::Took;
use crate::Frame;
use crate::report::{Entry, Report, Sample};

pub const PARTS: &str = "Parts:
  empty      the upgrade into an empty repository, and the rollback, beside the procedure's commands
  changed    the upgrade and the quiesced backup where last night's snapshot is there, beside the longer of dump and snapshot alone
  cloned     upgrade and rollback with clones, beside the procedure's commands, and at a quarter of the size";

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many MB of documents the search database has
    #[arg(long, default_value_t = 1000)]
    documents: usize,
    /// Size of the PostgreSQL database in MB
    #[arg(long, default_value_t = 500)]
    rows: usize,
    /// The search database; default: that of the host
    #[arg(long)]
    search: Option<String>,
    #[command(flatten)]
    frame: Frame,
}

/// The snapshot of last night.
const NIGHTLY: &str = "snapshot_svc_last_night";
/// A rollback that swaps clones in must not take longer for more: what two runs of the same may differ by.
const FLAT: f64 = 1.2;

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let Arguments { documents, rows, frame, .. } = arguments;
    let (ground, pairs) = (&Ground::new(arguments.search.as_deref())?, frame.pairs(3)?);
    let described = format!("{}; {documents} MB of documents and {rows} MB of rows", ground.described()?);
    frame.measure(described, PARTS, |report, wanted| {
        let mut rounds = Rounds::default();
        let measured = rounds.measure(ground, pairs, (*documents, *rows), wanted);
        rounds.report(report);
        measured
    })
}

/// What was measured, round by round.
#[derive(Default)]
struct Rounds {
    empty: Vec<Pair>,
    /// Upgrade and rollback by the procedure's commands, one by one.
    theirs: Vec<[Vec<Entry>; 2]>,
    clone: Vec<Pair>,
    clone_when_small: Vec<Pair>,
    changed: Vec<Changed>,
}

/// An upgrade and its rollback.
struct Pair {
    upgrade: Took,
    rollback: Took,
}

/// A quiesced backup, and an upgrade, where last night's snapshot is there.
struct Changed {
    quiesced: Took,
    upgrade: Took,
    dump_alone: f64,
    snapshot_alone: f64,
}

/// Without the installer's and the unit's own time.
fn counted(entries: &[Entry]) -> f64 {
    entries.iter().filter(|entry| !entry.is_own).map(|entry| entry.seconds).sum()
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
            self.clone_when_small.push(pair(ground, true)?);
        }
        ground.fill(documents, rows)?;
        for round in (0..pairs).filter(|_| wanted("empty") || wanted("cloned")) {
            eprintln!("round {}", round + 1);
            // Whatever drifts must favour none of the three.
            for turn in 0..3 {
                match (round + turn) % 3 {
                    0 if wanted("empty") => self.empty.push(pair(ground, false)?),
                    1 => self.theirs.push(procedure(ground)?),
                    2 if wanted("cloned") => self.clone.push(pair(ground, true)?),
                    _ => {}
                }
            }
        }
        for round in (0..pairs).filter(|_| wanted("changed")) {
            eprintln!("changed, round {}", round + 1);
            self.changed.push(changed(ground, documents)?);
        }
        Ok(())
    }

    /// Puts all of it into the report.
    fn report(&self, report: &mut Report) {
        let their_upgrade = "stop, `curl` snapshot, `pg_dump`, installer, start";
        let their_rollback = "stop, uninstall, `DELETE`, `curl …/_restore`, `psql`, installer, start";
        let longer = "the longer of `svc-pgdump` and `svc-snap create --rate-limit none` alone";
        let theirs = |which: usize| self.theirs.iter().map(|both| counted(&both[which])).collect::<Vec<f64>>();
        let of = |pairs: &[Pair], time: fn(&Pair) -> f64| pairs.iter().map(time).collect::<Vec<f64>>();
        let changed = |time: fn(&Changed) -> f64| self.changed.iter().map(time).collect::<Vec<f64>>();
        let alone = changed(|one| one.dump_alone.max(one.snapshot_alone));
        let small = of(&self.clone_when_small, |pair| pair.rollback.complete);
        let upgraded: fn(&Pair) -> f64 = |one| one.upgrade.downtime;
        let complete: fn(&Pair) -> f64 = |one| one.rollback.complete;
        let of_changed = "a fifth of the documents changed since last night's snapshot";
        let after_clone = "`svc-rollback` after `--clone`, whole time";
        for (what, against, target, ours, theirs) in [
            ("`svc-upgrade` into an empty repository, downtime", their_upgrade, Some(0.15), of(&self.empty, upgraded), theirs(0)),
            (
                &format!("`svc-upgrade`, {of_changed}, downtime"),
                longer,
                Some(1.15),
                changed(|one| one.upgrade.downtime),
                alone.clone(),
            ),
            (
                &format!("`svc-backup --quiesce`, {of_changed}, downtime"),
                longer,
                Some(1.15),
                changed(|one| one.quiesced.downtime),
                alone,
            ),
            ("`svc-rollback`, downtime", their_rollback, Some(0.10), of(&self.empty, |one| one.rollback.downtime), theirs(1)),
            ("`svc-rollback`, whole time", their_rollback, Some(0.35), of(&self.empty, complete), theirs(1)),
            ("`svc-upgrade --clone`, downtime", their_upgrade, None, of(&self.clone, upgraded), theirs(0)),
            (after_clone, their_rollback, Some(0.05), of(&self.clone, complete), theirs(1)),
            (after_clone, "the same with a quarter of the content", Some(FLAT), of(&self.clone, complete), small),
        ] {
            if !ours.is_empty() && ours.len() == theirs.len() {
                report.ratio(what, against, target, &Sample { ours, theirs });
            }
        }
        let parts =
            |pairs: &[Pair], of: fn(&Pair) -> &Took| pairs.iter().map(|pair| of(pair).entries.clone()).collect::<Vec<_>>();
        let changed = |of: fn(&Changed) -> &Took| self.changed.iter().map(|one| of(one).entries.clone()).collect::<Vec<_>>();
        let theirs = |which: usize| self.theirs.iter().map(|both| both[which].clone()).collect::<Vec<_>>();
        for (what, runs) in [
            ("`svc-upgrade` into an empty repository", parts(&self.empty, |pair| &pair.upgrade)),
            (&format!("`svc-upgrade`, {of_changed}"), changed(|one| &one.upgrade)),
            (&format!("`svc-backup --quiesce`, {of_changed}"), changed(|one| &one.quiesced)),
            ("The upgrade by the procedure's commands", theirs(0)),
            ("`svc-rollback`", parts(&self.empty, |pair| &pair.rollback)),
            ("The rollback by the procedure's commands", theirs(1)),
            ("`svc-upgrade --clone`", parts(&self.clone, |pair| &pair.upgrade)),
            ("`svc-rollback` after `--clone`", parts(&self.clone, |pair| &pair.rollback)),
        ] {
            report.account(what, &runs);
        }
    }
}

/// With clones last night's snapshot is there, so that the warm one, of which nothing is measured here, is quick.
fn pair(ground: &Ground, clone: bool) -> Result<Pair> {
    if clone {
        take_nightly(ground);
    }
    let upgrade = ours::upgrade(ground, clone)?;
    let rollback = ours::rollback(ground)?;
    ground.remove_runs(None)?;
    let with = if clone { "with clones" } else { "ours" };
    let (down, complete) = (rollback.downtime, rollback.complete);
    eprintln!("{with}: upgrade down for {:.2} s; rollback down for {down:.2} s, {complete:.2} s in all", upgrade.downtime);
    Ok(Pair { upgrade, rollback })
}

fn procedure(ground: &Ground) -> Result<[Vec<Entry>; 2]> {
    let both = [literal::upgrade(ground)?, literal::rollback(ground)?];
    ground.remove_runs(None)?;
    eprintln!("the procedure: upgrade {:.2} s, rollback {:.2} s", counted(&both[0]), counted(&both[1]));
    Ok(both)
}

fn take_nightly(ground: &Ground) {
    ground.tool("svc-snap").args(["create", NIGHTLY, "--kind", "nightly", "--rate-limit", "none"]).run().ok();
}

/// Last night's snapshot is there, and a fifth of the documents was written again.
fn changed(ground: &Ground, documents: usize) -> Result<Changed> {
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
    ground.remove_runs(Some(NIGHTLY))?;
    for file in [dump.clone(), format!("{dump}.properties.json")] {
        std::fs::remove_file(file)?;
    }
    let quiesced = ours::quiesced(ground)?;
    ground.remove_runs(Some(NIGHTLY))?;
    let upgrade = ours::upgrade(ground, false)?;
    eprintln!("a quiesced backup down for {:.2} s", quiesced.downtime);
    eprintln!("down for {:.2} s; alone the dump {dump_alone:.2} s, the snapshot {snapshot_alone:.2} s", upgrade.downtime);
    ours::rollback(ground)?;
    ground.remove_runs(None)?;
    Ok(Changed { quiesced, upgrade, dump_alone, snapshot_alone })
}
