//! What is measured in turn, and what becomes of it in the report.

use anyhow::Result;

use super::ground::Ground;
use super::literal::{self, Spent};
use super::ours::{self, Took};
use crate::account::{Account, Entry};
use crate::report::Report;
use crate::sample::Sample;

/// The snapshot of last night.
const NIGHTLY: &str = "snapshot_svc_last_night";
/// A rollback that takes standing copies must not take longer for more: what two runs of the same may differ by.
const FLAT: f64 = 1.2;

/// What was measured, round by round.
pub struct Rounds<'g> {
    ground: &'g Ground,
    pairs: usize,
    empty: Vec<Pair>,
    theirs: Vec<[Spent; 2]>,
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

impl<'g> Rounds<'g> {
    /// Nothing measured yet.
    pub fn new(ground: &'g Ground, pairs: usize) -> Self {
        let (empty, theirs, clone, clone_when_small, changed) = Default::default();
        Self { ground, pairs, empty, theirs, clone, clone_when_small, changed }
    }

    /// Everything once.
    pub fn warm_up(&self) -> Result<()> {
        self.pair(false)?;
        self.procedure().map(drop)
    }

    /// Standing copies, at the size that is there.
    pub fn clone_when_small(&mut self) -> Result<()> {
        for _ in 0..self.pairs {
            let pair = self.pair_with_copies()?;
            self.clone_when_small.push(pair);
        }
        Ok(())
    }

    /// Ours and the procedure's, in turn.
    pub fn beside_the_procedure(&mut self, empty: bool, clone: bool) -> Result<()> {
        for round in 0..self.pairs {
            eprintln!("round {}", round + 1);
            // Whatever drifts must favour none of the three.
            for turn in 0..3 {
                match (round + turn) % 3 {
                    0 if empty => self.empty.push(self.pair(false)?),
                    1 => self.theirs.push(self.procedure()?),
                    2 if clone => self.clone.push(self.pair_with_copies()?),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Last night's snapshot is there, and a fifth of the documents was written anew.
    pub fn changed(&mut self, documents: usize) -> Result<()> {
        for round in 0..self.pairs {
            eprintln!("changed, round {}", round + 1);
            self.take_nightly()?;
            self.ground.change_a_fifth(documents)?;
            let dump = self.ground.scratch("alone.sql").display().to_string();
            let dump_alone = self.alone("svc-pgdump", &["--dbname", &self.ground.product.database(), "--output", &dump])?;
            let snapshot_alone = self.alone("svc-snap", &["create", "snapshot_svc_alone", "--rate-limit", "none"])?;
            self.ground.forget_runs(Some(NIGHTLY))?;
            for file in [dump.clone(), format!("{dump}.properties.json")] {
                std::fs::remove_file(file)?;
            }
            let quiesced = ours::quiesced(self.ground)?;
            self.ground.forget_runs(Some(NIGHTLY))?;
            let upgrade = ours::upgrade(self.ground, false)?;
            eprintln!("a quiesced backup down for {:.2} s", quiesced.downtime);
            eprintln!("down for {:.2} s; alone the dump {dump_alone:.2} s, the snapshot {snapshot_alone:.2} s", upgrade.downtime);
            ours::rollback(self.ground)?;
            self.ground.forget_runs(None)?;
            self.changed.push(Changed { quiesced, upgrade, dump_alone, snapshot_alone });
        }
        Ok(())
    }

    /// The time of one step by itself. The service is stopped meanwhile, as it is then.
    fn alone(&self, tool: &str, args: &[&str]) -> Result<f64> {
        self.ground.tool("svc-unit").arg("stop").run().ok();
        self.ground.settle()?;
        let seconds = self.ground.line(&[&[tool], args].concat()).time(&self.ground.output())?;
        self.ground.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
        Ok(seconds)
    }

    fn pair(&self, clone: bool) -> Result<Pair> {
        let upgrade = ours::upgrade(self.ground, clone)?;
        let rollback = ours::rollback(self.ground)?;
        self.ground.forget_runs(None)?;
        let with = if clone { "with copies" } else { "ours" };
        eprintln!(
            "{with}: upgrade down for {:.2} s; rollback down for {:.2} s, {:.2} s in all",
            upgrade.downtime, rollback.downtime, rollback.whole
        );
        Ok(Pair { upgrade, rollback })
    }

    /// Last night's snapshot is there, so that the warm one, of which nothing is measured here, is quick.
    fn pair_with_copies(&self) -> Result<Pair> {
        self.take_nightly()?;
        self.pair(true)
    }

    fn take_nightly(&self) -> Result<()> {
        self.ground.tool("svc-snap").args(["create", NIGHTLY, "--kind", "nightly", "--rate-limit", "none"]).run().ok();
        Ok(())
    }

    fn procedure(&self) -> Result<[Spent; 2]> {
        let both = [literal::upgrade(self.ground)?, literal::rollback(self.ground)?];
        self.ground.forget_runs(None)?;
        eprintln!("the procedure: upgrade {:.2} s, rollback {:.2} s", both[0].counted(), both[1].counted());
        Ok(both)
    }

    /// Puts all of it into the report.
    pub fn report(&self, report: &mut Report) {
        let their_upgrade = "stop, `curl` snapshot, `pg_dump`, installer, start";
        let their_rollback = "stop, uninstall, `DELETE`, `curl …/_restore`, `psql`, installer, start";
        let theirs = |which: usize| self.theirs.iter().map(|both| both[which].counted()).collect::<Vec<f64>>();
        let mut ratio = |what: &str, against: &str, target: Option<f64>, ours: Vec<f64>, theirs: Vec<f64>| {
            if !ours.is_empty() && ours.len() == theirs.len() {
                report.ratio(what, against, target, &Sample { ours, theirs });
            }
        };
        let of = |pairs: &[Pair], time: fn(&Pair) -> f64| pairs.iter().map(time).collect::<Vec<f64>>();
        let down = "`svc-upgrade` into an empty repository, downtime";
        ratio(down, their_upgrade, Some(0.15), of(&self.empty, |pair| pair.upgrade.downtime), theirs(0));
        let down = "`svc-upgrade`, a fifth of the documents changed since last night's snapshot, downtime";
        let alone: Vec<f64> = self.changed.iter().map(|one| one.dump_alone.max(one.snapshot_alone)).collect();
        let longer = "the longer of `svc-pgdump` and `svc-snap create --rate-limit none` alone";
        let changed = |of: fn(&Changed) -> &Took| self.changed.iter().map(|one| of(one).downtime).collect::<Vec<f64>>();
        ratio(down, longer, Some(1.15), changed(|one| &one.upgrade), alone.clone());
        let down = "`svc-backup --quiesce`, a fifth of the documents changed since last night's snapshot, downtime";
        ratio(down, longer, Some(1.15), changed(|one| &one.quiesced), alone);
        ratio("`svc-rollback`, downtime", their_rollback, Some(0.10), of(&self.empty, |pair| pair.rollback.downtime), theirs(1));
        ratio("`svc-rollback`, whole time", their_rollback, Some(0.35), of(&self.empty, |pair| pair.rollback.whole), theirs(1));
        ratio("`svc-upgrade --clone`, downtime", their_upgrade, None, of(&self.clone, |pair| pair.upgrade.downtime), theirs(0));
        let with_copies = "`svc-rollback` after `--clone`, whole time";
        ratio(with_copies, their_rollback, Some(0.05), of(&self.clone, |pair| pair.rollback.whole), theirs(1));
        let small = of(&self.clone_when_small, |pair| pair.rollback.whole);
        ratio(
            with_copies,
            "the same with a quarter of the content",
            Some(FLAT),
            of(&self.clone, |pair| pair.rollback.whole),
            small,
        );

        let mut account = |what: &str, runs: Vec<Vec<Entry>>| {
            if !runs.is_empty() {
                report.account(Account::of(what, &runs));
            }
        };
        let entries =
            |pairs: &[Pair], of: fn(&Pair) -> &Took| pairs.iter().map(|pair| of(pair).entries.clone()).collect::<Vec<_>>();
        account("`svc-upgrade` into an empty repository", entries(&self.empty, |pair| &pair.upgrade));
        let changed = self.changed.iter().map(|one| one.upgrade.entries.clone()).collect();
        account("`svc-upgrade`, a fifth of the documents changed since last night's snapshot", changed);
        let quiesced = self.changed.iter().map(|one| one.quiesced.entries.clone()).collect();
        account("`svc-backup --quiesce`, a fifth of the documents changed since last night's snapshot", quiesced);
        account("The upgrade by the procedure's commands", self.theirs.iter().map(|both| both[0].entries.clone()).collect());
        account("`svc-rollback`", entries(&self.empty, |pair| &pair.rollback));
        account("The rollback by the procedure's commands", self.theirs.iter().map(|both| both[1].entries.clone()).collect());
        account("`svc-upgrade --clone`", entries(&self.clone, |pair| &pair.upgrade));
        account("`svc-rollback` after `--clone`", entries(&self.clone, |pair| &pair.rollback));
    }
}
