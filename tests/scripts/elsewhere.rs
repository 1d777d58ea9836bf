//! A restore point on another host: other servers, no journal, nothing installed.

use std::fs;
use std::process::Command;

use svc_tests::journey::{assert_back, installed, point_of};
use svc_tests::search::Settings;

#[test]
fn a_restore_point_is_restored_on_a_host_that_knows_nothing_of_it() {
    let (mut product, before) = installed("elsewhere");
    let point = point_of(&product.tool("svc-backup").run().ok());
    let repository = product.repository_dir();
    product.run(&product.install_dir().join("bin/svc-uninstall")).unwrap();

    // What goes along: the point's folder, and a copy of the repository's.
    let here = product.host.clone();
    let search = here.search_server(&here.search.key, &Settings::default()).unwrap();
    let postgres = here.postgres_server().unwrap();
    product.host.search = (*search).clone();
    product.host.postgres = (*postgres).clone();
    let copied = Command::new("cp").arg("-r").args([&repository, &product.repository_dir()]).status().unwrap();
    assert!(copied.success());
    let moved = product.path("copied").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    fs::rename(product.state_dir(), product.path("state of the other host")).unwrap();
    fs::remove_dir_all(product.install_dir()).unwrap();
    product.host.postgres.create_role("elsewhere", "pass:word").unwrap();
    product.host.postgres.pgpass(&product.path("pgpass"), "elsewhere", "pass:word").unwrap();
    product.tool("svc-setup-snapshots").run().ok();

    product.tool("svc-rollback").arg("--no-uninstall").run().fails(4, "point_not_found").unchanged();
    let back = || product.tool("svc-rollback").args(["--no-uninstall"]).arg(&moved);
    let refused = back().run().refused("other_server");
    assert!(refused.hint().contains("--other-server"), "{refused}");
    back().arg("--other-server").run().ok().changed();
    assert_back(&product, &before);
    // Its servers are gone when this ends; what it left on the host's own is taken away with the product.
    product.host = here;
}
