//! The commands that the page of `svc-version` shows, and what it says that they print.

use std::fs;

use svc_tests::page::Example;

use crate::place::Place;

#[test]
fn every_step_has_working_example_on_page() {
    let place = Place::saying("1.15.5\n");
    let folder = place.path("srv");
    fs::create_dir_all(folder.join("installers")).unwrap();
    place.installer("srv/svc-2.0.1.run");
    for version in ["1.16.2", "1.17.0", "1.17.4", "2.0.1"] {
        place.installer(&format!("srv/installers/svc-{version}.run"));
    }
    let text = |path: std::path::PathBuf| path.display().to_string();
    let env = [("SVC_INSTALL_DIR", text(place.path(""))), ("SVC_STATE_DIR", text(place.path("state")))];
    let env: Vec<_> = env.into_iter().map(|(name, value)| (name.to_owned(), value.trim_end_matches('/').to_owned())).collect();
    for example in Example::of_tool(&svc_version::cli()).unwrap() {
        example.with("/opt/svc", &env[0].1).with("/srv", &text(folder.clone())).holds(&env, &folder).unwrap();
    }
}
