//! `svc-rollback`: which restore point it goes back to, and what it finds out, says and refuses before and after.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::json;
use svc_tests::bare::{Bare, document, undo};
use svc_tests::damage;
use svc_tests::journey::{self, assert_back, journal, json_of, once_free, point_of, signal_at, upgraded};
use svc_tests::product::Product;
use svc_tests::tool::Ran;

#[test]
fn moved_point_of_other_server_needs_option() {
    let (product, before, upgrade) = upgraded("rbmoved");
    let point = point_of(&upgrade);
    let moved = product.path("elsewhere").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    assert_snapshot_is_kept(&product, &upgrade, &moved);
    // As if both databases had been created again since.
    for (file, key) in [("snapshot.json", "cluster_uuid"), ("pgdump.json", "system_identifier")] {
        let mut document = json_of(moved.join(file));
        document["result"][key] = "7000000000000000000".into();
        fs::write(moved.join(file), document.to_string()).unwrap();
    }
    journey::finalize(&moved);
    let refused = product.tool("svc-rollback").arg(&moved).run().refused("other_server");
    assert!(refused.hint().contains("--other-server"), "{refused}");
    assert!(product.is_active() && product.marker() == "2.0.1");

    // Killed before its point of no return, it leaves nothing: the next call removes what it has staged.
    let script =
        product.script("uninstall", &format!("echo ran >>\"$0.out\"\nsystemctl --user start '{}'\nexit 3", product.unit()));
    let uninstall = format!("'{}'", script.display());
    let rollback = || product.tool("svc-rollback").args(["--other-server", "--uninstall", &uninstall]).arg(&moved);
    signal_at(&product, rollback(), (Signal::SIGKILL, true), "swap-search-possible.started");
    once_free(|| product.tool("svc-rollback").arg("--resume")).fails(3, "not_resumable");
    assert_eq!(staged(&product), 0, "a staged database is left");

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

    // By whatever folder the point was named, the upgrade is known to be rolled back.
    let status = product.tool("svc-upgrade").arg("--status").run();
    assert!(status.stdout.contains("next: It was rolled back by the run "), "{status}");
    product.tool("svc-rollback").run().refused("not_resumable");
}

/// How many staged databases there are.
fn staged(product: &Product) -> usize {
    product.copies().iter().filter(|name| name.starts_with(&format!("{}_staged", product.database()))).count()
}

/// As where an upgrade is killed when its restore point is all but finalized, and the folder of the point is elsewhere by the time that
/// this is cleared up: the snapshot of the point stays. The upgrade itself had ended well, and has its journal again afterwards.
fn assert_snapshot_is_kept(product: &Product, upgrade: &Ran, point: &Path) {
    let (run, whole) = (upgrade.run_dir(), product.path("the whole journal"));
    journey::copy_folder(&run, &whole);
    let names = journal(&run);
    let last = names.iter().find(|name| name.ends_with("-unit-after.json")).unwrap()[..2].to_owned();
    for name in names {
        // In the notes stands what it would undo.
        if name == "notes.json" {
            let (folder, snapshot) = (point_of(upgrade), json_of(point.join("snapshot.json")));
            let name = snapshot["result"]["name"].as_str().unwrap();
            let mut undo =
                undo("remove-incomplete-point", &["svc-point", "remove", folder.to_str().unwrap(), "--snapshot", name]);
            undo["undo"][0]["until"] = "finalize".into();
            svc_tests::bare::left(&run, "notes.json", &undo);
        } else if name == "document.json" || (name[..2] > *last && name.as_bytes()[2] == b'-') {
            fs::remove_file(run.join(name)).unwrap();
        }
    }
    let resume = product.tool("svc-upgrade").arg("--resume").arg(run.file_name().unwrap());
    resume.run().fails(3, "not_resumable");
    assert!(journal(&run).iter().any(|name| name.ends_with("-remove-incomplete-point.json")), "nothing was undone");
    product.tool("svc-snap").args(["show", "--from"]).arg(point.join("snapshot.json")).run().ok();
    fs::remove_dir_all(&run).unwrap();
    fs::rename(whole, run).unwrap();
}

#[test]
fn previous_installer_is_searched_in_fixed_order() {
    let bare = Bare::default();
    let installer = |folder: &str| bare.path(folder).join("svc-1.15.5.run");
    for name in ["named", "beside", "here"] {
        svc_tests::os::write_program(installer(name), "#!/bin/sh\n").unwrap();
    }
    // An upgrade as far as it is read: its preflight had found the installer beside the new one.
    let id = "20260101t000000z-upgrade-2.0.1";
    let found = document("svc-version.find/1", &json!({"path": installer("beside")}));
    let files = [
        ("plan.json", json!({"settings": {"SVC_BACKUP_DIR": bare.path("backups")}})),
        ("04-previous-installer.started", json!("check\n")),
        ("04-previous-installer.json", found),
        ("09-installer.started", json!("external\n")),
    ];
    bare.run_left(id, &files);
    let point = bare.path("backups").join(id);
    fs::create_dir_all(&point).unwrap();
    let said = json!({"schema": "svc-restore-point/1", "id": id, "version": "1.15.5", "database": "svc_db", "quiesced": true});
    fs::write(point.join("restore-point.json"), said.to_string()).unwrap();
    journey::finalize(&point);

    let looked_at = |installers: Option<&str>, dir: &str| {
        let rollback = bare.tool("svc-rollback", &["--no-uninstall"]).dir(bare.path(dir));
        let ran = rollback.envs(installers.map(|name| ("SVC_INSTALLER_DIR", bare.path(name)))).run().unchanged();
        let found = journal(&ran.run_dir()).into_iter().find(|name| name.ends_with("-installer-file.json")).unwrap();
        let found = json_of(ran.run_dir().join(found));
        PathBuf::from(found["result"]["path"].as_str().unwrap_or_else(|| panic!("{found}\n{ran}")))
    };
    assert_eq!(looked_at(Some("named"), "here"), installer("named"));
    for installers in [None, Some("state")] {
        assert_eq!(looked_at(installers, "here"), installer("beside"));
        assert_eq!(looked_at(installers, "state"), installer("beside"), "it is nowhere else");
    }
    fs::remove_dir_all(bare.path("beside")).unwrap();
    assert_eq!(looked_at(Some("state"), "here"), installer("here"));
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
    let room = ["snapshot", "dump"].map(|check| ran.check(check)["message"].as_str().unwrap());
    assert!(room[0].contains(" indices of ") && room[1].contains(" free in "), "{ran}");
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

    // A damaged file of the repository is found by the staging, one of the restore point before it.
    let process = product.process();
    let again = || rollback().arg(&point).run();
    damage::flip_a_blob(&product.repository_dir()).unwrap();
    again().fails(7, "snapshot_invalid").error_has(&["could not be restored completely"]);
    assert_eq!(staged(&product), 0, "a staged database is left");
    for (file, code) in [("rbdry_db.backup.sql", "dump_invalid"), ("snapshot.json", "point_invalid")] {
        damage::flip_a_byte(&point.join(file)).unwrap();
        again().fails(7, code).unchanged();
    }
    assert_eq!(product.process(), process);
}
