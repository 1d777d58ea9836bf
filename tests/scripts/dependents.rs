//! Units that stop along with the service: an upgrade and a rollback start them again, however they end.

use svc_tests::journey::prelude::*;

/// A unit that requires the service. It is gone when this is dropped.
struct Worker<'a> {
    product: &'a Product,
    name: String,
}

impl<'a> Worker<'a> {
    fn started(product: &'a Product) -> Self {
        let name = format!("{}-worker.service", product.name);
        let (systemd, unit) = (&product.host.systemd, product.unit());
        let text = format!("[Unit]\nRequires={unit}\nAfter={unit}\n[Service]\nExecStart=/bin/sleep infinity\n");
        systemd.install(&name, &text).unwrap();
        systemd.start(&name).unwrap();
        Self { product, name }
    }

    /// Its main process, and the one before must be another: it was stopped, and started again.
    #[track_caller]
    fn assert_back_after(&self, before: &mut String) {
        let now = self.process();
        assert!(self.product.host.systemd.is_active(&self.name), "it was not started again");
        assert_ne!(&now, before, "it was not stopped, so this shows nothing");
        *before = now;
    }

    fn process(&self) -> String {
        self.product.host.systemd.property(&self.name, "MainPID").unwrap()
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let _ = self.product.host.systemd.remove(&self.name);
    }
}

#[test]
fn dependent_unit_is_started_again_however_an_upgrade_ends() {
    let (product, before) = still("depends");
    let worker = Worker::started(&product);
    let mut process = worker.process();
    let upgrade = || product.upgrade().env("SVC_HOOKS_DIR", product.path("hooks"));

    // A dump that fails after the stop: nothing was changed.
    let sql = |sql: &str| product.host.postgres.sql(&product.database(), sql).unwrap();
    sql("CREATE TABLE closed AS SELECT 1 AS n");
    upgrade().run().fails(3, "permission_denied");
    worker.assert_back_after(&mut process);
    sql("DROP TABLE closed");

    // What a licence's update after the installer may do to a unit by mistake. It is never active, not even for a moment.
    let unit = product.host.systemd.unit_dir.join(product.unit());
    let breaks = "sed -i 's|^ExecStart=|ExecStartPre=/bin/false\\nExecStart=|'";
    product.hook("10-hook", &format!("{breaks} '{}'\nsystemctl --user daemon-reload", unit.display()));
    let failed = upgrade().run().fails(1, "unit_failed").changed();
    assert!(failed.hint().contains("svc-rollback") && failed.hint().contains(&id_of(&point_of(&failed))), "{failed}");
    assert_eq!((product.marker(), product.host.systemd.is_active(&worker.name)), ("2.0.1".to_owned(), false));
    // The rollback knows from there that the other one ran.
    product.tool("svc-rollback").run().ok().changed();
    worker.assert_back_after(&mut process);
    assert_back(&product, &before);

    // An installer, with its hook, that starts the service and nothing else. A rollback does not leave it running as the vendor has
    // configured it.
    let started = product.path("started");
    let shows = format!("systemctl --user show --property=MainPID --value {} >'{}'", product.unit(), started.display());
    product.hook("10-hook", &format!("systemctl --user start {}\n{shows}", product.unit()));
    upgrade().run().ok();
    worker.assert_back_after(&mut process);
    product.tool("svc-rollback").env("SVC_HOOKS_DIR", product.path("hooks")).run().ok();
    worker.assert_back_after(&mut process);
    assert_ne!(fs::read_to_string(started).unwrap().trim(), product.process());
}
