//! `svc-rollback`: which restore point it goes back to, and what it finds out, says and refuses before and after.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use svc_tests::damage;
use svc_tests::journey::{self, assert_back, installed, point_of, upgraded};
use svc_tests::sandbox::unallocatable;

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
    fs::write(&hook, breaks).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();

    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).env("SVC_HOOKS_DIR", product.path("hooks")).run();
    let upgrade = upgrade.fails(1, "unit_not_started").changed();
    let point = point_of(&upgrade).file_name().unwrap().to_string_lossy().into_owned();
    let hint = upgrade.doc()["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("svc-rollback") && hint.contains(&point), "{upgrade}");
    assert_eq!(product.marker(), "2.0.1");

    product.tool("svc-rollback").run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn a_restore_point_that_is_damaged_half_or_of_another_version_is_refused_before_anything_is_touched() {
    let (product, _, upgrade) = upgraded("rbdamaged");
    let process = || product.host.systemd.property(&product.unit(), "MainPID").unwrap();
    let running = process();
    let rollback = || product.tool("svc-rollback");
    let other = rollback().arg("--installer").arg(product.installer("1.14.2")).run().refused("installer_version");
    let steps = other.result()["steps"].as_array().unwrap();
    assert!(!steps.iter().any(|step| step["step"].as_str().unwrap().starts_with("stage-")), "{other}");
    let sums = point_of(&upgrade).join("SHA256SUMS");
    fs::rename(&sums, product.path("sums")).unwrap();
    rollback().run().fails(4, "point_not_found").unchanged();
    fs::rename(product.path("sums"), sums).unwrap();
    damage::flip_a_byte(&point_of(&upgrade).join("rbdamaged_db.backup.sql")).unwrap();
    rollback().run().fails(7, "dump_altered").unchanged();
    damage::flip_a_byte(&point_of(&upgrade).join("snapshot.json")).unwrap();
    rollback().run().fails(7, "point_damaged").unchanged();
    assert_eq!((process(), product.marker()), (running, "2.0.1".to_owned()));
}

#[test]
fn without_an_upgrade_nothing_is_chosen_by_itself_and_the_points_are_listed() {
    let (product, _) = installed("rbnone");
    let backup = product.tool("svc-backup").run().ok();
    let id = point_of(&backup).file_name().unwrap().to_string_lossy().into_owned();
    let ran = product.tool("svc-rollback").run().fails(4, "point_not_found").unchanged();
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().contains(&id), "{ran}");
}

#[test]
fn a_point_that_was_not_quiesced_is_taken_only_when_asked_for_twice() {
    let (product, _) = installed("rbunquiet");
    product.tool("svc-unit").arg("start").run().ok();
    let backup = product.tool("svc-backup").run().ok();
    let id = point_of(&backup).file_name().unwrap().to_string_lossy().into_owned();
    product.tool("svc-rollback").arg(&id).run().refused("point_unquiesced");
    let before = product.content().unwrap();
    product.tool("svc-rollback").args(["--accept-unquiesced", &id]).run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn a_restore_point_can_be_moved_as_a_whole_and_one_of_other_databases_is_taken_only_when_that_is_said() {
    let (product, before, upgrade) = upgraded("rbmoved");
    let point = point_of(&upgrade);
    let moved = product.path("elsewhere").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    // As if both databases had been made anew since.
    for (file, key) in [("snapshot.json", "cluster_uuid"), ("pgdump.json", "system_identifier")] {
        let text = fs::read_to_string(moved.join(file)).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["result"][key] = "7000000000000000000".into();
        fs::write(moved.join(file), document.to_string()).unwrap();
    }
    journey::seal(&moved);
    let refused = product.tool("svc-rollback").arg(&moved).run().refused("other_server");
    assert!(refused.doc()["error"]["hint"].as_str().unwrap().contains("--other-server"), "{refused}");
    assert!(product.is_active() && product.marker() == "2.0.1");
    product.tool("svc-rollback").arg("--other-server").arg(&moved).run().ok().changed();
    assert_back(&product, &before);
}

#[test]
fn what_cannot_be_kept_is_given_up_only_when_that_is_said_and_the_question_comes_before_the_staging() {
    let (product, before, _) = upgraded("rbred");
    // As a broken upgrade may leave one.
    product.host.search.ask("PUT", "/rbred-lost?wait_for_active_shards=0", Some(&unallocatable())).unwrap();
    let process = || product.host.systemd.property(&product.unit(), "MainPID").unwrap();
    let running = process();
    let refused = product.tool("svc-rollback").run().refused("live_index_red");
    assert!(refused.doc()["error"]["hint"].as_str().unwrap().contains("--discard-current"), "{refused}");
    let steps = refused.result()["steps"].as_array().unwrap();
    assert!(!steps.iter().any(|step| step["step"].as_str().unwrap().starts_with("stage-")), "{refused}");
    assert_eq!((process(), product.marker()), (running, "2.0.1".to_owned()));
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
    let refused = product.tool("svc-rollback").run().refused("nothing_to_roll_back").unchanged();
    let id = upgrade.doc()["run_id"].as_str().unwrap();
    let hint = refused.doc()["error"]["hint"].as_str().unwrap();
    assert!(
        hint.contains(attempt.doc()["run_id"].as_str().unwrap()) && hint.ends_with(&format!("svc-rollback {id}")),
        "{refused}"
    );
    product.tool("svc-rollback").arg(id).run().review("configuration_changed_since");
    assert_back(&product, &before);
}

#[test]
fn a_dry_run_alters_nothing_and_names_every_command_which_do_the_same_when_they_are_typed() {
    let (product, before, _) = upgraded("rbdry");
    let ran = product.tool("svc-rollback").arg("--dry-run").talks().run().ok().unchanged();
    let room: Vec<&str> = ran.result()["preflight"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["check"] == "snapshot" || check["check"] == "dump")
        .map(|check| check["says"].as_str().unwrap())
        .collect();
    assert!(room.len() == 2 && room[0].contains(" indices of ") && room[1].contains(" free in "), "{ran}");
    let plan: Vec<&str> = ran.result()["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let at = |wanted: &str| {
        plan.iter().position(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{wanted} is not in {plan:#?}"))
    };
    assert!(at("svc-pgrestore stage") < at("svc-unit stop"));
    assert!(at("svc-unit stop") < at("svc-snap swap"));
    assert!(at("svc-snap swap") < at("rbdry-1.15.5.run"));
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
    product.type_plan(&ran);
    assert_back(&product, &before);
}
