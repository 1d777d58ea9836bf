//! A restore point on another host: other servers, no journal, nothing installed.

use std::fs;

use svc_tests::journey::{assert_back, copy_folder, id_of, point_of, still};
use svc_tests::search::Settings;

#[test]
fn a_restore_point_is_restored_on_a_host_that_knows_nothing_of_it_if_it_is_named_and_although_it_was_not_quiesced() {
    let (mut product, before) = still("elsewhere");
    let point = point_of(&product.tool("svc-backup").run().ok());
    // Without an upgrade a point is taken only if it is named, and one that was not quiesced only with an option.
    let unnamed = product.tool("svc-rollback").run().fails(4, "point_not_found").unchanged();
    assert!(unnamed.hint().contains(&id_of(&point)), "{unnamed}");
    product.tool("svc-rollback").arg(id_of(&point)).run().refused("not_quiesced");
    let repository = product.repository_dir();
    product.run(&product.install_dir().join("bin/svc-uninstall")).unwrap();

    // What goes along: the point's folder, and a copy of the repository's.
    let here = product.host.clone();
    let search = here.search_server(&here.search.key, &Settings::default()).unwrap();
    let postgres = here.postgres_server().unwrap();
    product.host.search = (*search).clone();
    product.host.postgres = (*postgres).clone();
    copy_folder(&repository, &product.repository_dir());
    let moved = product.path("copied").join(point.file_name().unwrap());
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    fs::rename(product.state_dir(), product.path("state of the other host")).unwrap();
    fs::remove_dir_all(product.install_dir()).unwrap();
    product.host.postgres.create_role("elsewhere", "pass:word").unwrap();
    product.host.postgres.pgpass(&product.path("pgpass"), "elsewhere", "pass:word").unwrap();
    product.tool("svc-setup-snapshots").run().ok();

    product.tool("svc-rollback").arg("--no-uninstall").run().fails(4, "point_not_found").unchanged();
    let back = || product.tool("svc-rollback").args(["--no-uninstall", "--accept-unquiesced"]).arg(&moved);
    let refused = back().run().refused("other_server");
    assert!(refused.hint().contains("--other-server"), "{refused}");
    back().arg("--other-server").run().ok().changed();
    assert_back(&product, &before);
    // Its servers are gone when this ends; what it left on the host's own is taken away with the product.
    product.host = here;
}
