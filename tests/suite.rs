//! `tests/suite`, which runs all the others; and the sample service's installers.

use std::fs;
use std::process::Command;

use svc_tests::host::Host;
use svc_tests::os;
use svc_tests::tool::root;

#[test]
fn unavailable_cluster_is_reported_as_skipped() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    os::folder(dir.path(), 0o755, None).unwrap();
    fs::create_dir(dir.path().join(".m2")).unwrap();
    let nowhere = "<settings><mirrors><mirror><id>nowhere</id><mirrorOf>*</mirrorOf><url>http://127.0.0.1:1/</url></mirror></mirrors></settings>";
    fs::write(dir.path().join(".m2/settings.xml"), nowhere).unwrap();
    let mut suite = Command::new("tests/suite");
    suite.args(["opensearch-2", "elasticsearch-8"]).current_dir(root()).env("SVC_TEST_CACHE", dir.path().join("cache"));
    let suite = suite.env("MAVEN_OPTS", format!("-Duser.home={}", dir.path().display())).output().unwrap();
    let said = String::from_utf8_lossy(&suite.stderr);
    assert_eq!(suite.status.code(), Some(2), "{said}");
    let told: Vec<Vec<_>> =
        std::str::from_utf8(&suite.stdout).unwrap().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(told, [["opensearch-2", "skipped"], ["elasticsearch-8", "skipped"]]);
    assert!(said.contains("cannot fetch org.opensearch.distribution"), "{said}");
}

#[test]
fn sample_service_installers_behave_as_documented() {
    let checked = Command::new(root().join("tests/service/check")).envs(Host::shared().unwrap().command_env()).output().unwrap();
    assert!(checked.status.success(), "{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
}
