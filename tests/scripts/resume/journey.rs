//! An upgrade and the way back, interrupted as often as one likes, each time resumed as `--status` says.

use svc_tests::journey::prelude::*;

use crate::cut::{Cut, How, cut, has};

/// A service that is upgraded and rolled back.
pub struct Journey {
    /// They go before the product's folder does.
    _disks: Vec<SmallDisk>,
    pub product: Product,
    /// What both databases held when the last restore point was made.
    before: Content,
    upgrade: Vec<String>,
}

impl Journey {
    /// The service runs as 1.15.5; `options` are those of its upgrades.
    pub fn new(name: &str, options: &[&str]) -> Self {
        Self::with_disks(Product::new(name).unwrap(), Vec::new(), options)
    }

    /// The same with disks of its own for some of its folders.
    pub fn with_disks(product: Product, disks: Vec<SmallDisk>, options: &[&str]) -> Self {
        let before = product.install_still("1.15.5", 400).unwrap();
        product.start();
        let mut upgrade: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        upgrade.push(product.installer("2.0.1").display().to_string());
        Self { _disks: disks, product, before, upgrade }
    }

    /// What came to its end by itself; the log of a run that did not says why.
    fn ended_well(&self, ran: Ran) -> Ran {
        if ran.status != 0 {
            let log = runs(&self.product).pop().and_then(|run| fs::read_to_string(run.join("log")).ok());
            eprintln!("{}", log.unwrap_or_default());
        }
        ran.ok()
    }

    /// Whether the power was lost in the middle of an installer: nobody knows what it did, and `--status` says how it is run again.
    fn is_unknown(&self, ran: &Ran, how: How, script: &str) -> bool {
        let is_it = how == How::Lost && ran.status == 3 && ran.doc()["error"]["code"] == "outcome_unknown";
        assert!(!is_it || next(&self.product, script).contains("--rerun-installer"), "{ran}");
        is_it
    }

    fn upgrade(&self) -> Tool {
        self.product.tool("svc-upgrade").args(self.upgrade.iter())
    }

    fn rollback(&self) -> Tool {
        self.product.tool("svc-rollback")
    }

    /// Calls a script until it comes to its end by itself, and interrupts it wherever `wanted` likes the point, each
    /// time in the next of these ways (the last one again and again); `after` gives what is called next. Gives how it
    /// ended, and how often it was interrupted. Unless an installer was run again whose outcome was unknown, no step may
    /// have had its effect twice.
    fn interrupted(
        &mut self,
        (script, call, once): (&str, Tool, &[&str]),
        hows: &[How],
        mut wanted: impl FnMut(&str) -> bool,
        mut after: impl FnMut(&mut Self, &Cut, How) -> Tool,
    ) -> (Ran, usize) {
        let (mut cuts, mut twice, mut next) = (0, false, call);
        loop {
            let how = hows[cuts.min(hows.len() - 1)];
            match cut(&self.product, next.clone(), how, |_, point| wanted(point)) {
                Ok(cut) => {
                    cuts += 1;
                    next = after(self, &cut, how);
                }
                Err(ran) if ran.status == 8 => wait_until_free(&self.product, script),
                Err(ran) if self.is_unknown(&ran, how, script) => (next, twice) = (next.arg("--rerun-installer"), true),
                Err(ran) => {
                    let ran = self.ended_well(*ran);
                    if !twice {
                        assert_nothing_twice(&ran.run_dir(), once);
                    }
                    return (ran, cuts);
                }
            }
        }
    }

    /// Calls a script that leaves the service as it is, and is interrupted wherever `wanted` likes the point; gives how
    /// often that was.
    pub fn in_parallel(&mut self, call: &[&str], how: How, wanted: impl FnMut(&str) -> bool) -> usize {
        let (before, served_by) = (self.product.content().unwrap(), self.product.process());
        let script = self.product.tool(call[0]).args(call[1..].iter().copied());
        let (ran, cuts) = self.interrupted((call[0], script.clone(), &[]), &[how], wanted, |this, cut, how| {
            wait_until_free(&this.product, call[0]);
            let said = next(&this.product, call[0]);
            let again = format!("Run the same command again: {}", call.join(" "));
            assert!(said.contains(&again), "interrupted at {}: {said}", cut.point);
            let in_order = how.in_order() && !cut.recovering;
            // The next call of any script undoes what a killed one has left.
            if !in_order && cut.point.ends_with(".json") {
                this.product.tool("svc-run").arg("recover").run().ok();
            }
            if in_order || cut.point.ends_with(".json") {
                this.assert_no_copies(&format!("interrupted at {}", cut.point));
                this.remove_old_runs();
            }
            script.clone()
        });
        self.assert_no_copies(&ran);
        assert_eq!(self.product.content().unwrap(), before);
        assert_eq!(self.product.process(), served_by, "{ran}");
        cuts
    }

    /// There are no copies, and no records of some.
    fn assert_no_copies(&self, context: &dyn std::fmt::Display) {
        assert_eq!(self.product.copies(), BTreeSet::new(), "{context}");
        assert_eq!(names_in(&self.product.state_dir().join("swaps")), [""; 0], "{context}");
        self.assert_no_incomplete_point(context);
    }

    /// Upgrades, and is interrupted wherever `wanted` likes the point; gives how often that was.
    pub fn there(&mut self, hows: &[How], wanted: impl FnMut(&str) -> bool) -> usize {
        self.remove_old_runs();
        let (ran, cuts) =
            self.interrupted(("svc-upgrade", self.upgrade(), &["installer"]), hows, wanted, Self::after_upgrade_was_cut);
        // An upgrade that begins with a stopped service is down for no time of its own.
        let stopped =
            ran.result()["steps"].as_array().unwrap().iter().any(|step| step["step"] == "stop" && step["changed"] == true);
        assert!(!stopped || ran.result()["downtime_ms"].is_u64(), "{ran}");
        self.assert_upgraded(&ran);
        cuts
    }

    fn after_upgrade_was_cut(&mut self, cut: &Cut, how: How) -> Tool {
        let committed = is_committed(&cut.run);
        let product = &self.product;
        if !committed && product.is_active() {
            // A client continues meanwhile.
            product.seed(3).unwrap();
        }
        wait_until_free(product, "svc-upgrade");
        if committed {
            let said = next(product, "svc-upgrade");
            assert!(said.contains("svc-upgrade --resume"), "interrupted at {}: {said}", cut.point);
            return product.tool("svc-upgrade").arg("--resume");
        }
        let said = next(product, "svc-upgrade");
        let wanted = if names_disk_space(cut, how) { "disk space" } else { "Run the same command again: svc-upgrade" };
        assert!(said.contains(wanted), "interrupted at {}: {said}", cut.point);
        let logs =
            || runs(product).iter().rev().take(2).map(|run| fs::read_to_string(run.join("log")).unwrap()).collect::<String>();
        assert_eq!(product.marker(), "1.15.5", "interrupted at {} of {}: {said}\n{}", cut.point, cut.run.display(), logs());
        let stopped = has(&cut.run, "stop.started");
        if !how.in_order() && stopped && cut.point.ends_with(".json") {
            product.tool("svc-upgrade").arg("--resume").run().fails(3, "not_resumable");
        }
        // What one that was killed has left is there still if the next one is interrupted while it undoes that.
        if (how.in_order() && !cut.recovering) || (stopped && cut.point.ends_with(".json")) {
            assert!(product.is_active(), "interrupted at {}, it was not started again", cut.point);
            assert_eq!(self.product.copies(), BTreeSet::new(), "interrupted at {}", cut.point);
            let log = fs::read_to_string(cut.run.join("log")).unwrap();
            self.assert_no_incomplete_point(&format!("interrupted at {}\n{log}", cut.point));
            self.remove_old_runs();
        }
        self.before = product.content().unwrap();
        self.upgrade()
    }

    fn assert_upgraded(&self, ran: &Ran) {
        let product = &self.product;
        assert_eq!(product.marker(), "2.0.1");
        assert!(product.is_active());
        product.tool("svc-upgrade").arg("--status").run().exits(0, &["It ended well."]);
        self.assert_no_incomplete_point(ran);
        // Clones stay, for the rollback.
        if !self.upgrade.iter().any(|option| option == "--clone") {
            assert_eq!(self.product.copies(), BTreeSet::new(), "{ran}");
        }
        let (rows, stored) = items(product, &product.database(), &format!("{}-items-000002", product.name));
        let wanted: BTreeSet<String> =
            self.before.indices[&format!("{}-items-000001", product.name)].documents.keys().cloned().collect();
        assert!(wanted.is_subset(&rows) && wanted.is_subset(&stored), "the upgrade has lost items");
    }

    /// Every restore point is complete and has its snapshot, and no other snapshot is left.
    fn assert_no_incomplete_point(&self, context: &dyn std::fmt::Display) {
        let product = &self.product;
        let points: Vec<_> =
            fs::read_dir(product.backup_dir()).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        let are_complete = points.iter().all(|point| point.join("SHA256SUMS").exists());
        assert!(are_complete, "an incomplete restore point is left: {points:?}\n{context}");
        let named = |point: &PathBuf| json_of(point.join("snapshot.json"))["result"]["name"].as_str().unwrap().to_owned();
        let of_points: BTreeSet<String> = points.iter().map(named).collect();
        assert_eq!(product.snapshots().into_iter().collect::<BTreeSet<_>>(), of_points, "{context}");
    }

    /// Rolls back, and is interrupted wherever `wanted` likes the point; gives how often that was.
    pub fn back(&mut self, hows: &[How], wanted: impl FnMut(&str) -> bool) -> usize {
        let (written, _) = items(&self.product, &self.product.database(), &format!("{}-items-000002", self.product.name));
        let mut first = true;
        let (ran, cuts) = self.interrupted(("svc-rollback", self.rollback(), &[]), hows, wanted, |this, cut, how| {
            this.after_rollback_was_cut(cut, how, std::mem::replace(&mut first, false))
        });
        assert_back(&self.product, &self.before);
        self.assert_previous(&written);
        ran.lines("discard_previous").into_iter().for_each(|command| self.product.typed(command));
        assert_eq!(self.product.copies(), BTreeSet::new());
        cuts
    }

    fn after_rollback_was_cut(&self, cut: &Cut, how: How, first: bool) -> Tool {
        let product = &self.product;
        wait_until_free(product, "svc-rollback");
        let said = next(product, "svc-rollback");
        if is_committed(&cut.run) {
            assert!(said.contains("svc-rollback --resume"), "interrupted at {}: {said}", cut.point);
            if first {
                self.rollback().run().refused("run_unfinished");
                self.upgrade().run().refused("run_unfinished");
            }
            return self.rollback().arg("--resume");
        }
        assert_eq!(product.marker(), "2.0.1");
        assert!(product.is_active());
        // Without disk space for its last document nobody knows that it has ended in order.
        let has_document = how.fills().is_none() || has_document(&cut.run);
        let wanted = if names_disk_space(cut, how) { "disk space" } else { "Run the same command again: svc-rollback" };
        assert!(said.contains(wanted), "interrupted at {}: {said}", cut.point);
        let in_order = how.in_order() && has_document && !cut.recovering;
        // The next call of any script undoes what a killed one has left.
        if !in_order && cut.point.ends_with(".json") {
            self.rollback().arg("--resume").run().fails(3, "not_resumable");
        }
        if in_order || cut.point.ends_with(".json") {
            let staged: Vec<String> = self.product.copies().into_iter().filter(|name| !name.contains("clone")).collect();
            assert_eq!(staged, Vec::<String>::new(), "interrupted at {}", cut.point);
        }
        self.rollback()
    }

    /// What was written until the rollback is in what it has kept: the rows, and all but the last one's document.
    fn assert_previous(&self, written: &BTreeSet<String>) {
        let kept = self.product.copies();
        let of = |part: &str| kept.iter().filter(|name| name.contains(part)).cloned().collect::<Vec<_>>();
        let (databases, indices) = (of("_db_"), of("-items-000002"));
        assert!(databases.len() == 1 && indices.len() == 1, "{kept:?}");
        let (rows, stored) = items(&self.product, &databases[0], &indices[0]);
        assert!(written.is_subset(&rows), "what was written after the upgrade is not kept");
        assert!(rows.len() - stored.len() <= 1 && stored.is_subset(&rows), "{} rows, {} documents", rows.len(), stored.len());
    }

    /// Every script reads all runs, and a series has hundreds.
    fn remove_old_runs(&self) {
        let runs = runs(&self.product);
        if runs.len() > 12 {
            // The IDs grow by the newest, even if they are ahead of the clock.
            runs.iter().rev().skip(1).for_each(|run| fs::remove_dir_all(run).unwrap());
        }
    }
}

/// Whether a run has passed its point of no return.
pub fn is_committed(run: &Path) -> bool {
    let notes = fs::read_to_string(run.join("notes.json")).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let committed = notes.is_some_and(|notes| notes["commit"].is_string());
    // A disk may have lost the notes.
    committed || ["uninstall.started", "installer.started"].iter().any(|point| has(run, point))
}

/// Whether its disk was full, and it could say so in its last document: the document names what the space was for.
fn names_disk_space(cut: &Cut, how: How) -> bool {
    // One that was to undo what an earlier run had left is not that run.
    how.fills().is_some() && has_document(&cut.run) && !cut.recovering
}

fn has_document(run: &Path) -> bool {
    let times = names_in(run).into_iter().filter(|name| name.starts_with("plan.") && name.ends_with(".json")).count();
    let document = if times == 1 { "document.json".to_owned() } else { format!("document.{times}.json") };
    run.join(document).exists()
}

/// The ids of the items in a database, and those in an index.
fn items(product: &Product, database: &str, index: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let rows = product.host.postgres.sql(database, "SELECT id FROM items").unwrap();
    let stored = content::documents(&product.host.search.url, index).unwrap();
    let stored = stored.into_values().flat_map(|index| index.documents.into_keys());
    (rows.lines().map(ToOwned::to_owned).collect(), stored.collect())
}

/// What `--status` says is to be typed next, on one line.
pub fn next(product: &Product, script: &str) -> String {
    let ran = product.tool(script).arg("--status").run();
    let next = ran.stdout.split_once("\nnext: ").map(|(_, rest)| rest.split("\nThe next call of any script").next().unwrap());
    let next = next.unwrap_or_else(|| panic!("nothing is next\n{}{}", ran.stdout, ran.stderr));
    next.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until the last run has neither a tool nor an installer left that is running.
pub fn wait_until_free(product: &Product, script: &str) {
    wait::so("what the script has left behind to end", || {
        let ran = product.tool(script).arg("--status").run().exits(0, &[]);
        let busy = |line: &str| line == "It is running." || line.starts_with("Its supervisor is gone;");
        (!ran.stdout.lines().any(busy)).then_some(())
    });
}

/// No step has had its effect twice, some have had theirs, and those that are named once. (A step that was killed with its effect
/// done has no document that says so.)
pub fn assert_nothing_twice(run: &Path, once: &[&str]) {
    let mut effects: BTreeMap<String, u32> = once.iter().map(|&step| (step.to_owned(), 0)).collect();
    for entry in fs::read_dir(run).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(files) = name.strip_suffix(".started") else { continue };
        let kind = fs::read_to_string(entry.path()).unwrap();
        let document = fs::read_to_string(run.join(format!("{files}.json"))).unwrap_or_default();
        let document: Value = serde_json::from_str(&document).unwrap_or_default();
        let step = files[3..].split('.').next().unwrap().to_owned();
        let began = run.join(format!("{files}.out")).exists();
        let done = document["ok"] == true && document["changed"] == true;
        if (kind.trim() == "external" && began) || (kind.trim() == "step" && done) {
            *effects.entry(step).or_default() += 1;
        }
    }
    assert!(!effects.is_empty() && effects.values().all(|&times| times == 1), "{}: {effects:?}", run.display());
}
