//! `svc-rollback`: which restore point it goes back to, and what it finds out, says and refuses before and after.

use svc_tests::journey::prelude::*;

#[test]
fn moved_point_of_other_server_needs_option() {
    let (product, before, upgrade) = upgraded("rbmoved");
    let point = point_of(&upgrade);
    let moved = product.path("elsewhere").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    // As if both databases had been created again since.
    for (file, key) in [("snapshot.json", "cluster_uuid"), ("pgdump.json", "system_identifier")] {
        let mut document = json_of(moved.join(file));
        document["result"][key] = "7000000000000000000".into();
        fs::write(moved.join(file), document.to_string()).unwrap();
    }
    finalize(&moved);
    product.tool("svc-rollback").arg(&moved).run().refused("other_server").error_has(&["--other-server"]);
    assert!(product.is_active() && product.marker() == "2.0.1");

    let script =
        product.script("uninstall", &format!("echo ran >>\"$0.out\"\nsystemctl --user start '{}'\nexit 3", product.unit()));
    let uninstall = format!("'{}'", script.display());
    let rollback = || product.tool("svc-rollback").args(["--other-server", "--uninstall", &uninstall]).arg(&moved);
    // Its folder is away for a while when it is killed behind that point: it is resumed with what is staged.
    signal_at(&product, rollback(), (Signal::SIGKILL, true), "stop.started");
    assert_eq!(staged(&product), 1, "nothing is staged, so this shows nothing");
    let away = product.path("away");
    fs::rename(&moved, &away).unwrap();
    let comes_back = format!("[ \"$1\" = stop ] && [ -e '{0}' ] && mv -T '{0}' '{1}'", away.display(), moved.display());
    let resume = || product.tool("svc-rollback").arg("--resume");
    let ran = once_free(|| resume().stub(&product.path("stub"), "svc-unit", &comes_back));
    // What uninstalls and fails is not run again by itself, and keeps no rollback from its end.
    let ran = ran.fails(3, "service_state").warns("command_failed");
    // The killed stop may have had its effect, or not.
    assert_ne!(ran.doc()["changed"], false, "{ran}");
    assert!(ran.hint().contains("svc-rollback --resume"), "{ran}");
    assert!(product.is_active(), "what failed left it running, and it is not stopped over that");
    resume().run().ok().changed().warns("command_failed");
    assert_eq!(fs::read_to_string(product.path("uninstall.out")).unwrap(), "ran\n");
    assert_back(&product, &before);
}

fn staged(product: &Product) -> usize {
    product.copies().iter().filter(|name| name.starts_with(&format!("{}_staged", product.database()))).count()
}

#[test]
fn rollback_dry_run_prints_commands_that_roll_back() {
    let (product, before, upgrade) = upgraded("rbdry");
    let process = product.process();
    let rollback = || product.tool("svc-rollback");
    let other = rollback().arg("--installer").arg(product.installer("1.14.2")).run().refused("file_invalid");
    assert!(!other.steps().iter().any(|step| step.starts_with("stage-")), "{other}");
    let (point, sums) = (point_of(&upgrade), point_of(&upgrade).join("SHA256SUMS"));
    fs::rename(&sums, product.path("sums")).unwrap();
    rollback().run().fails(4, "point_not_found").unchanged();
    fs::rename(product.path("sums"), sums).unwrap();
    // The directory of the older layout's configuration cannot be made: a file has its name.
    let conf = product.install_dir().join("conf");
    fs::write(&conf, "").unwrap();
    let in_the_way = rollback().run().fails(1, "failed").unchanged();
    assert_eq!(in_the_way.failed_checks(), ["configuration"], "{in_the_way}");
    fs::remove_file(conf).unwrap();

    let ran = rollback().arg("--dry-run").talks().run().ok().unchanged();
    let space = ["snapshot", "dump"].map(|check| ran.check(check)["message"].as_str().unwrap());
    assert!(space[0].contains(" indices of ") && space[1].contains(" free in "), "{ran}");
    let plan = ran.lines("plan");
    let at = |wanted: &str| {
        let found = plan.iter().position(|line| line.contains(wanted) && !line.contains("--dry-run"));
        found.unwrap_or_else(|| panic!("{wanted} is not in {plan:#?}"))
    };
    let order = ["svc-pgrestore stage", "svc-unit stop", "svc-snap swap", "rbdry-1.15.5.run"].map(at);
    assert!(order.is_sorted(), "{order:?} {plan:#?}");
    assert_eq!((product.process(), product.marker()), (process, "2.0.1".to_owned()));
    product.type_plan(&ran);
    assert_back(&product, &before);

    // A damaged file of the repository is found by the staging.
    let process = product.process();
    damage::flip_a_blob(&product.repository_dir()).unwrap();
    rollback().arg(point).run().fails(7, "snapshot_invalid").error_has(&["could not be restored completely"]);
    assert_eq!((staged(&product), product.process()), (0, process));
}
