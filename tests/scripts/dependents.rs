//! Units that stop along with the service: an upgrade and a rollback start them again, however they end.

use std::fs;

use svc_tests::journey::{assert_back, installed};
use svc_tests::product::Product;

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
fn what_stops_along_with_the_service_is_started_again() {
    let (product, before) = installed("depends");
    product.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
    let worker = Worker::started(&product);
    let mut process = worker.process();
    let upgrade = || product.tool("svc-upgrade").arg(product.installer("2.0.1"));

    // An upgrade that failed leaves it down, and the rollback knows from there that it ran.
    product.tool("svc-upgrade").arg(product.failing_installer()).run().fails(1, "command_failed");
    assert!(!product.host.systemd.is_active(&worker.name));
    product.tool("svc-rollback").run().ok();
    worker.assert_back_after(&mut process);
    assert_back(&product, &before);

    // An installer, with its hook, that starts the service and nothing else.
    let hook = product.path("hooks/post-install/10-starts");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    svc_tests::os::write_program(&hook, format!("#!/bin/sh\nexec systemctl --user start {}\n", product.unit())).unwrap();
    upgrade().env("SVC_HOOKS_DIR", product.path("hooks")).run().ok();
    worker.assert_back_after(&mut process);
}

#[test]
#[ignore = "one more upgrade and rollback"]
fn what_stops_along_with_the_service_is_started_again_after_a_good_upgrades_rollback_and_a_backup_that_fails() {
    let (product, before) = installed("depback");
    product.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
    let worker = Worker::started(&product);
    let mut process = worker.process();
    let upgrade = || product.tool("svc-upgrade").arg(product.installer("2.0.1"));
    upgrade().run().ok();
    worker.assert_back_after(&mut process);
    product.tool("svc-rollback").run().ok();
    worker.assert_back_after(&mut process);
    assert_back(&product, &before);

    // A dump that fails after the stop: nothing was changed.
    product.host.postgres.sql(&product.database(), "CREATE TABLE closed AS SELECT 1 AS n").unwrap();
    upgrade().run().fails(3, "permission_denied");
    worker.assert_back_after(&mut process);
}
