//! Units that stop along with the service: an upgrade and a rollback start them again, however they end.

use svc_tests::journey::prelude::*;

#[test]
fn dependent_unit_is_started_again_however_an_upgrade_ends() {
    let (product, before) = still("depends");
    let (systemd, unit, worker) = (&product.host.systemd, product.unit(), "depends-worker.service");
    let requires = format!("[Unit]\nRequires={unit}\nAfter={unit}\n[Service]\nExecStart=/bin/sleep infinity\n");
    systemd.install(worker, &requires).unwrap();
    systemd.start(worker).unwrap();
    let process = || systemd.property(worker, "MainPID").unwrap();
    let mut last = process();
    let mut is_back_after = |what: &str| {
        assert!(systemd.is_active(worker), "{what}: it was not started again");
        assert_ne!(process(), last, "{what}: it was not stopped, so this shows nothing");
        last = process();
    };
    fs::create_dir(product.path("hooks")).unwrap();
    let upgrade = || product.upgrade().env("SVC_HOOKS_DIR", product.path("hooks"));

    // A dump that fails after the stop: nothing was changed.
    let sql = |sql: &str| product.host.postgres.sql(&product.database(), sql).unwrap();
    sql("CREATE TABLE closed AS SELECT 1 AS n");
    upgrade().run().fails(3, "permission_denied");
    is_back_after("a dump that fails");
    sql("DROP TABLE closed");

    // What a licence's update after the installer may do to a unit by mistake. It is never active, not even for a moment.
    let unit = systemd.unit_dir.join(unit);
    let breaks = "sed -i 's|^ExecStart=|ExecStartPre=/bin/false\\nExecStart=|'";
    product.hook("10-hook", &format!("{breaks} '{}'\nsystemctl --user daemon-reload", unit.display()));
    let failed = upgrade().run().fails(1, "unit_failed").changed();
    assert!(failed.hint().contains("svc-rollback") && failed.hint().contains(&id_of(&point_of(&failed))), "{failed}");
    assert_eq!((product.marker(), systemd.is_active(worker)), ("2.0.1".to_owned(), false));
    // The rollback knows from there that the other one ran.
    product.tool("svc-rollback").run().ok().changed();
    is_back_after("a rollback");
    assert_back(&product, &before);

    // An installer, with its hook, that starts the service and nothing else. A rollback does not leave it running as the vendor has
    // configured it.
    let started = product.path("started");
    let shows = format!("systemctl --user show --property=MainPID --value {} >'{}'", product.unit(), started.display());
    product.hook("10-hook", &format!("systemctl --user start {}\n{shows}", product.unit()));
    upgrade().run().ok();
    is_back_after("an upgrade whose hook starts the service");
    product.tool("svc-rollback").env("SVC_HOOKS_DIR", product.path("hooks")).run().ok();
    is_back_after("the rollback of that");
    assert_ne!(fs::read_to_string(started).unwrap().trim(), product.process());
    systemd.remove(worker).unwrap();
}
