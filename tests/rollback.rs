//! `svc-rollback` (procedure, 9.3) with the sample service on real servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use svc_tests::product::{Content, Product};
use svc_tests::tool::Ran;

/// The interval at which the service adds nothing: what both databases hold can be compared to the last byte.
const STILL: &str = "0";

/// 1.15.5 with items, customised, running and quiet; and all that it holds.
fn installed(name: &str) -> (Product, Content) {
    let product = Product::new(name).unwrap();
    product.run(&product.installer("1.15.5")).unwrap();
    product.customise("interval_ms", STILL).unwrap();
    product.customise("bulk_size", "750").unwrap();
    product.tool("svc-setup-snapshots").run().ok();
    let seeded = Command::new(svc_tests::tool::bin_dir().join("svc-sample"))
        .args(["seed", "--items", "400"])
        .envs(product.env())
        .output()
        .unwrap();
    assert!(seeded.status.success(), "{}", String::from_utf8_lossy(&seeded.stderr));
    product.tool("svc-unit").arg("start").run().ok();
    product.tool("svc-unit").arg("stop").run().ok();
    let content = product.content().unwrap();
    (product, content)
}

/// Upgraded to 2.0.1, which runs and writes.
fn upgraded(name: &str) -> (Product, Content, Ran) {
    let (product, before) = installed(name);
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().ok();
    assert_ne!(product.content().unwrap(), before, "the upgrade has altered nothing, so there is nothing to see");
    (product, before, upgrade)
}

fn point_of(ran: &Ran) -> PathBuf {
    PathBuf::from(ran.result()["restore_point"].as_str().unwrap())
}

/// The service is back: content, version, customised values, running.
fn assert_back(product: &Product, before: &Content) {
    let now = product.content().unwrap();
    assert_eq!(now.dump, before.dump, "the relational database is not as before");
    assert_eq!(now.indices.keys().collect::<Vec<_>>(), before.indices.keys().collect::<Vec<_>>());
    assert_eq!(now.indices, before.indices, "the search database is not as before");
    assert_eq!(product.marker(), "1.15.5");
    assert!(product.is_active());
    let conf = fs::read_to_string(product.install_dir().join(format!("conf/{}.conf", product.name))).unwrap();
    assert!(conf.contains(&format!("interval_ms = {STILL}\n")) && conf.contains("bulk_size = 750\n"), "{conf}");
}

#[test]
fn after_a_good_upgrade_everything_is_as_before_it() {
    let (product, before, _) = upgraded("rbgood");
    let ran = product.tool("svc-rollback").run();
    assert!(matches!(ran.status, 0 | 9), "{ran}");
    assert_back(&product, &before);
}

#[test]
fn after_an_installer_that_failed_half_way_everything_is_as_before_it() {
    let (product, before) = installed("rbhalf");
    let upgrade = product.tool("svc-upgrade").arg(product.failing_installer()).run();
    assert_eq!(upgrade.status, 1, "{upgrade}");
    let ran = product.tool("svc-rollback").run();
    assert!(matches!(ran.status, 0 | 9), "{ran}");
    assert_back(&product, &before);
}

#[test]
fn what_it_replaced_is_kept_until_the_named_commands_are_typed() {
    let (product, before, _) = upgraded("rbkept");
    let ran = product.tool("svc-rollback").run();
    let indices = || product.host.search.ask("GET", "/_cat/indices/svc-before-*?format=json&expand_wildcards=all", None).unwrap();
    let ours =
        || indices().as_array().unwrap().iter().filter(|index| index["index"].as_str().unwrap().contains("rbkept")).count();
    let databases = || {
        product.host.postgres.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'rbkept_db_before%'").unwrap()
    };
    assert!(ours() > 0);
    assert_eq!(databases().trim(), "1");
    let commands = ran.result()["remove_kept"].as_array().unwrap().clone();
    assert_eq!(commands.len(), 2, "{ran}");
    for command in commands {
        let mut words = command.as_str().unwrap().split(' ');
        product.tool(words.next().unwrap()).args(words).run().ok().changed();
    }
    assert_eq!(ours(), 0);
    assert_eq!(databases().trim(), "0");
    assert_back(&product, &before);
}

#[test]
fn discarding_what_is_replaced_keeps_nothing() {
    let (product, before, _) = upgraded("rbdiscard");
    let ran = product.tool("svc-rollback").arg("--discard-current").run();
    assert!(matches!(ran.status, 0 | 9), "{ran}");
    assert_eq!(ran.result()["remove_kept"].as_array().unwrap().len(), 0);
    let left =
        product.host.postgres.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'rbdiscard_db_%'").unwrap();
    assert_eq!(left.trim(), "0");
    assert_back(&product, &before);
}

#[test]
fn a_damaged_restore_point_is_refused_before_anything_is_touched() {
    let (product, _, upgrade) = upgraded("rbdamaged");
    let now = product.marker();
    let dump = point_of(&upgrade).join("rbdamaged_db.backup.sql");
    let mut bytes = fs::read(&dump).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&dump, bytes).unwrap();
    product.tool("svc-rollback").run().fails(7, "point_damaged").unchanged();
    assert_eq!(product.marker(), now);
    assert!(product.is_active());
}

#[test]
fn a_snapshot_that_went_bad_is_found_by_the_staging_and_the_live_service_never_notices() {
    let (product, _, _) = upgraded("rbblob");
    flip_a_blob(&product.host.search.repo_root.join("rbblob_repo"));
    let process = product.host.systemd.property(&product.unit(), "MainPID").unwrap();
    let ran = product.tool("svc-rollback").run();
    assert!(ran.status != 0 && ran.status != 9, "{ran}");
    assert_eq!(product.host.systemd.property(&product.unit(), "MainPID").unwrap(), process);
    assert_eq!(product.marker(), "2.0.1");
    let staged =
        product.host.postgres.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'rbblob_db_%'").unwrap();
    assert_eq!(staged.trim(), "0", "a staged database is left");
}

/// Flips a byte in the largest data blob of a repository.
fn flip_a_blob(repository: &Path) {
    let mut blobs = Vec::new();
    let mut folders = vec![repository.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().unwrap().to_string_lossy().starts_with("__") {
                blobs.push(path);
            }
        }
    }
    let blob = blobs.into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).expect("the repository has blobs");
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&blob, bytes).unwrap();
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
    let ran = product.tool("svc-rollback").args(["--accept-unquiesced", &id]).run();
    assert!(matches!(ran.status, 0 | 9), "{ran}");
    assert_back(&product, &before);
}

#[test]
fn a_restore_point_can_be_moved_as_a_whole() {
    let (product, before, upgrade) = upgraded("rbmoved");
    let point = point_of(&upgrade);
    let moved = product.path("elsewhere").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    let ran = product.tool("svc-rollback").arg(&moved).run();
    assert!(matches!(ran.status, 0 | 9), "{ran}");
    assert_back(&product, &before);
}

#[test]
fn a_configuration_that_was_changed_after_the_upgrade_is_reported() {
    let (product, before, _) = upgraded("rbchanged");
    let yaml = product.install_dir().join("config/rbchanged/rbchanged.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    assert!(text.contains("display_name: \"Sample service\""), "{text}");
    fs::write(&yaml, text.replace("Sample service", "Our service")).unwrap();
    product.tool("svc-rollback").run().review("configuration_changed_since");
    assert_back(&product, &before);
}

#[test]
fn a_dry_run_names_every_command_and_alters_nothing() {
    let (product, _, _) = upgraded("rbdry");
    let ran = product.tool("svc-rollback").arg("--dry-run").talks().run().ok().unchanged();
    let plan: Vec<&str> = ran.result()["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let at = |wanted: &str| {
        plan.iter().position(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{wanted} is not in {plan:#?}"))
    };
    assert!(at("svc-pgrestore stage") < at("svc-unit stop"));
    assert!(at("svc-unit stop") < at("svc-snap swap"));
    assert!(at("svc-snap swap") < at("rbdry-1.15.5.run"));
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
}
