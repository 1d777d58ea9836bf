//! `svc-rollback`: which restore point it goes back to, and what it finds out, says and refuses before and after.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;
use svc_tests::damage;
use svc_tests::journey::{self, assert_back, installed, journal, once_free, point_of, signal_at, upgraded};
use svc_tests::product::Product;
use svc_tests::sandbox::unallocatable;
use svc_tests::tool::{Ran, Tool};

#[test]
fn after_a_unit_that_dies_at_once_everything_is_as_before_the_upgrade() {
    let (product, before) = installed("rbdies");
    // What a licence's update after the installer may do to a unit by mistake. It is never active, not even for a moment.
    let hook = product.path("hooks/post-install/10-breaks");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let unit = product.host.systemd.unit_dir.join(product.unit());
    let breaks = format!(
        "#!/bin/sh\nsed -i 's|^ExecStart=|ExecStartPre=/bin/false\\nExecStart=|' '{}'\nsystemctl --user daemon-reload\n",
        unit.display()
    );
    svc_tests::os::write_program(&hook, breaks).unwrap();

    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).env("SVC_HOOKS_DIR", product.path("hooks")).run();
    let upgrade = upgrade.fails(1, "unit_failed").changed();
    let point = point_of(&upgrade).file_name().unwrap().to_string_lossy().into_owned();
    let hint = upgrade.hint();
    assert!(hint.contains("svc-rollback") && hint.contains(&point), "{upgrade}");
    assert_eq!(product.marker(), "2.0.1");

    product.tool("svc-rollback").run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn what_uninstalls_and_fails_is_not_run_again_by_itself_and_keeps_no_rollback_from_its_end() {
    let (product, before, _) = upgraded("rbunins");
    let script = product.path("uninstall");
    let does = format!("#!/bin/sh\necho ran >>'{}.out'\nsystemctl --user start '{}'\nexit 3\n", script.display(), product.unit());
    svc_tests::os::write_program(&script, does).unwrap();
    let rollback = || product.tool("svc-rollback").arg("--uninstall").arg(format!("'{}'", script.display()));
    let ran = rollback().run().fails(3, "service_state").changed().warns("command_failed");
    assert!(ran.hint().contains("svc-rollback --resume"), "{ran}");
    assert!(product.is_active(), "what failed left it running, and it is not stopped over that");
    product.tool("svc-rollback").arg("--resume").run().ok().changed().warns("command_failed");
    assert_eq!(fs::read_to_string(script.with_extension("out")).unwrap(), "ran\n");
    assert_back(&product, &before);
}

#[test]
fn what_cannot_be_gone_back_to_is_refused_before_the_stop_and_nothing_staged_is_left() {
    let (product, _, upgrade) = upgraded("rbrefuse");
    let process = product.process();
    let rollback = || product.tool("svc-rollback");
    let other = rollback().arg("--installer").arg(product.installer("1.14.2")).run().refused("file_invalid");
    assert!(!other.steps().iter().any(|step| step.starts_with("stage-")), "{other}");
    let sums = point_of(&upgrade).join("SHA256SUMS");
    fs::rename(&sums, product.path("sums")).unwrap();
    rollback().run().fails(4, "point_not_found").unchanged();
    fs::rename(product.path("sums"), sums).unwrap();
    // The directory of the older layout's configuration cannot be made: a file has its name.
    fs::write(product.install_dir().join("conf"), "").unwrap();
    let in_the_way = rollback().run().fails(1, "failed").unchanged();
    assert_eq!(in_the_way.failed_checks(), ["configuration"], "{in_the_way}");
    fs::remove_file(product.install_dir().join("conf")).unwrap();
    // A damaged file of the repository is found by the staging, one of the restore point before it.
    damage::flip_a_blob(&product.repository_dir()).unwrap();
    rollback().run().fails(7, "snapshot_invalid").error_has(&["could not be restored completely"]);
    assert_eq!(staged(&product), "0", "a staged database is left");
    for (file, code) in [("rbrefuse_db.backup.sql", "dump_invalid"), ("snapshot.json", "point_invalid")] {
        damage::flip_a_byte(&point_of(&upgrade).join(file)).unwrap();
        rollback().run().fails(7, code).unchanged();
    }
    assert_eq!((product.process(), product.marker()), (process, "2.0.1".to_owned()));
}

#[test]
fn without_an_upgrade_a_point_is_taken_if_it_is_named_and_one_that_was_not_quiesced_with_an_option() {
    let (product, _) = installed("rbunquiet");
    product.tool("svc-unit").arg("start").run().ok();
    let backup = product.tool("svc-backup").run().ok();
    let id = point_of(&backup).file_name().unwrap().to_string_lossy().into_owned();
    let unnamed = product.tool("svc-rollback").run().fails(4, "point_not_found").unchanged();
    assert!(unnamed.hint().contains(&id), "{unnamed}");
    product.tool("svc-rollback").arg(&id).run().refused("not_quiesced");
    let before = product.content().unwrap();
    product.tool("svc-rollback").args(["--accept-unquiesced", &id]).run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn a_restore_point_can_be_moved_as_a_whole_and_one_of_other_databases_is_taken_only_with_the_option() {
    let (product, before, upgrade) = upgraded("rbmoved");
    let point = point_of(&upgrade);
    let moved = product.path("elsewhere").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    assert_snapshot_is_kept(&product, &upgrade, &moved);
    // As if both databases had been created again since.
    for (file, key) in [("snapshot.json", "cluster_uuid"), ("pgdump.json", "system_identifier")] {
        let text = fs::read_to_string(moved.join(file)).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["result"][key] = "7000000000000000000".into();
        fs::write(moved.join(file), document.to_string()).unwrap();
    }
    journey::finalize(&moved);
    let refused = product.tool("svc-rollback").arg(&moved).run().refused("other_server");
    assert!(refused.hint().contains("--other-server"), "{refused}");
    assert!(product.is_active() && product.marker() == "2.0.1");

    // Killed before its point of no return, it leaves nothing: the next call removes what it has staged.
    let rollback = || product.tool("svc-rollback").arg("--other-server").arg(&moved);
    signal_at(&product, rollback(), (Signal::SIGKILL, true), "swap-search-possible.started");
    once_free(|| product.tool("svc-rollback").arg("--resume")).fails(3, "not_resumable");
    assert_eq!(staged(&product), "0", "a staged database is left");

    // Its folder is away for a while when it is killed behind that point: it is resumed with what is staged.
    signal_at(&product, rollback(), (Signal::SIGKILL, true), "stop.started");
    assert_eq!(staged(&product), "1", "nothing is staged, so this shows nothing");
    let away = product.path("away");
    fs::rename(&moved, &away).unwrap();
    let comes_back = format!("[ \"$1\" = stop ] && [ -e '{0}' ] && mv -T '{0}' '{1}'", away.display(), moved.display());
    once_free(|| product.tool("svc-rollback").arg("--resume").stub(&product.path("stub"), "svc-unit", &comes_back))
        .ok()
        .changed();
    assert_back(&product, &before);

    // By whatever folder the point was named, the upgrade is known to be rolled back.
    let status = product.tool("svc-upgrade").arg("--status").run();
    assert!(status.stdout.contains("next: It was rolled back by the run "), "{status}");
    product.tool("svc-rollback").run().refused("not_resumable");
}

/// How many staged databases there are.
fn staged(product: &Product) -> String {
    let like = format!("SELECT count(*) FROM pg_database WHERE datname LIKE '{}_staged%'", product.database());
    product.host.postgres.sql("postgres", &like).unwrap().trim().to_owned()
}

/// As where an upgrade is killed when its restore point is all but finalized, and the folder of the point is elsewhere by the time that
/// this is cleared up: the snapshot of the point stays. The upgrade itself had ended well, and has its journal again afterwards.
fn assert_snapshot_is_kept(product: &Product, upgrade: &Ran, point: &Path) {
    let run = PathBuf::from(upgrade.result()["run_dir"].as_str().unwrap());
    let whole = product.path("the whole journal");
    assert!(Command::new("cp").arg("-a").args([&run, &whole]).status().unwrap().success());
    let names = journal(&run);
    let last = names.iter().find(|name| name.ends_with("-unit-after.json")).unwrap()[..2].to_owned();
    for name in names {
        // In the notes stands what it would undo.
        if name == "notes.json" {
            let folder = point_of(upgrade);
            let snapshot = fs::read_to_string(point.join("snapshot.json")).unwrap();
            let snapshot: serde_json::Value = serde_json::from_str(&snapshot).unwrap();
            let command = json!(["svc-point", "remove", folder, "--snapshot", snapshot["result"]["name"]]);
            let undo = json!({"name": "remove-incomplete-point", "command": command, "directory": "/", "until": "finalize",
                "always": false, "unless_interrupted": false});
            fs::write(run.join(name), svc_tests::journal::notes(&json!({"undo": [undo]})).to_string()).unwrap();
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
fn the_previous_installer_is_looked_for_in_its_folder_then_where_the_upgrade_had_found_it_and_then_here() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["named", "beside", "here"] {
        fs::create_dir(path(name)).unwrap();
        let installer = path(name).join("svc-1.15.5.run");
        svc_tests::os::write_program(&installer, "#!/bin/sh\n").unwrap();
    }
    // An upgrade as far as it is read: its preflight had found the installer beside the new one.
    let id = "20260101t000000z-upgrade-2.0.1";
    let (run, point) = (path("state/runs").join(id), path("backups").join(id));
    fs::create_dir_all(&run).unwrap();
    fs::create_dir_all(&point).unwrap();
    let found = json!({"schema": "svc-version.find/1", "tool": "svc-version 0.1.0", "step": "find", "ok": true, "changed": false,
        "dry_run": false, "run_id": id, "host": "here", "started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:00Z",
        "duration_ms": 0, "result": {"path": path("beside/svc-1.15.5.run")}, "warnings": [], "error": null});
    let said = json!({"schema": "svc-restore-point/1", "id": id, "version": "1.15.5", "database": "svc_db", "quiesced": true});
    for (file, text) in [
        (run.join("plan.json"), svc_tests::journal::plan(&json!({"settings": {"SVC_BACKUP_DIR": path("backups")}})).to_string()),
        (run.join("04-previous-installer.started"), "check\n".to_owned()),
        (run.join("04-previous-installer.json"), found.to_string()),
        (run.join("09-installer.started"), "external\n".to_owned()),
        (point.join("restore-point.json"), said.to_string()),
    ] {
        fs::write(file, text).unwrap();
    }
    journey::finalize(&point);

    let looked_at = |installers: Option<&str>, dir: &str| {
        let rollback = Tool::script("svc-rollback").arg("--no-uninstall").env("SVC_ENVIRONMENT_FILE", path("none"));
        let rollback = rollback.env("SVC_STATE_DIR", path("state")).env("SVC_BACKUP_DIR", path("backups")).dir(path(dir));
        let ran = rollback.envs(installers.map(|name| ("SVC_INSTALLER_DIR", path(name)))).run().unchanged();
        let run = PathBuf::from(ran.result()["run_dir"].as_str().unwrap());
        let found = journal(&run).into_iter().find(|name| name.ends_with("-installer-file.json")).unwrap();
        let found: serde_json::Value = serde_json::from_str(&fs::read_to_string(run.join(found)).unwrap()).unwrap();
        PathBuf::from(found["result"]["path"].as_str().unwrap_or_else(|| panic!("{found}\n{ran}")))
    };
    assert_eq!(looked_at(Some("named"), "here"), path("named/svc-1.15.5.run"));
    for installers in [None, Some("state")] {
        assert_eq!(looked_at(installers, "here"), path("beside/svc-1.15.5.run"));
        assert_eq!(looked_at(installers, "state"), path("beside/svc-1.15.5.run"), "it is nowhere else");
    }
    fs::remove_dir_all(path("beside")).unwrap();
    assert_eq!(looked_at(Some("state"), "here"), path("here/svc-1.15.5.run"));
}

#[test]
fn what_cannot_be_kept_is_given_up_only_with_the_option_and_the_question_comes_before_the_staging() {
    let (product, before, _) = upgraded("rbred");
    // As a broken upgrade may leave one.
    product.host.search.ask("PUT", "/rbred-lost?wait_for_active_shards=0", Some(&unallocatable())).unwrap();
    let running = product.process();
    let refused = product.tool("svc-rollback").run().refused("indices_red");
    assert!(refused.hint().contains("--discard-current"), "{refused}");
    assert!(!refused.steps().iter().any(|step| step.starts_with("stage-")), "{refused}");
    assert_eq!((product.process(), product.marker()), (running, "2.0.1".to_owned()));
    product.tool("svc-rollback").arg("--discard-current").run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn a_configuration_that_was_changed_after_the_upgrade_is_reported() {
    let (product, before, upgrade) = upgraded("rbchanged");
    let yaml = product.install_dir().join("config/rbchanged/rbchanged.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    assert!(text.contains("display_name: \"Sample service\""), "{text}");
    fs::write(&yaml, text.replace("Sample service", "Our service")).unwrap();
    // Whoever tried another upgrade since, which ended before its installer, may have that one in mind.
    let attempt = product.tool("svc-upgrade").arg("/not/there.run").run().unchanged();
    let refused = product.tool("svc-rollback").run().refused("not_resumable").unchanged();
    let id = upgrade.doc()["run_id"].as_str().unwrap();
    let hint = refused.hint();
    assert!(
        hint.contains(attempt.doc()["run_id"].as_str().unwrap()) && hint.ends_with(&format!("svc-rollback {id}")),
        "{refused}"
    );
    product.tool("svc-rollback").arg(id).run().review("content_differs");
    assert_back(&product, &before);
}

#[test]
fn a_dry_run_changes_nothing_and_names_every_command_and_the_commands_do_the_same_when_they_are_typed() {
    let (product, before, _) = upgraded("rbdry");
    let ran = product.tool("svc-rollback").arg("--dry-run").talks().run().ok().unchanged();
    let room = ["snapshot", "dump"].map(|check| ran.check(check)["message"].as_str().unwrap());
    assert!(room.len() == 2 && room[0].contains(" indices of ") && room[1].contains(" free in "), "{ran}");
    let plan: Vec<&str> = ran.result()["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let at = |wanted: &str| {
        plan.iter()
            .position(|line| line.contains(wanted) && !line.contains("--dry-run"))
            .unwrap_or_else(|| panic!("{wanted} is not in {plan:#?}"))
    };
    assert!(at("svc-pgrestore stage") < at("svc-unit stop"));
    assert!(at("svc-unit stop") < at("svc-snap swap"));
    assert!(at("svc-snap swap") < at("rbdry-1.15.5.run"));
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
    product.type_plan(&ran);
    assert_back(&product, &before);
}
