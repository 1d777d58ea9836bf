//! The commands that the page of `svc-version` shows, and what it says that they print.

use svc_tests::host::texts;
use svc_tests::page::Example;

use crate::place::*;

#[test]
fn every_step_has_working_example_on_page() {
    let place = Place::saying("1.15.5\n");
    let folder = place.path("srv");
    fs::create_dir_all(folder.join("installers")).unwrap();
    place.installer("srv/svc-2.0.1.run");
    for version in ["1.16.2", "1.17.0", "1.17.4", "2.0.1"] {
        place.installer(&format!("srv/installers/svc-{version}.run"));
    }
    let env = texts(&[("SVC_INSTALL_DIR", place.0.path().display()), ("SVC_STATE_DIR", place.path("state").display())]);
    for example in Example::of_tool(&svc_version::cli()).unwrap() {
        example.with("/opt/svc", &env[0].1).with("/srv", folder.to_str().unwrap()).holds(&env, &folder).unwrap();
    }
}
