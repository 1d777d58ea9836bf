//! The commands that the page of `svc-snap` shows, run as they stand there on a server of their own.

use std::fs;

use serde_json::json;
use svc_tests::host::{Host, search_env};
use svc_tests::page;
use svc_tests::search::Settings;

/// What stands in the page, and in whose place what is there.
const FOLDER: &str = "/var/backups/search/backup_repo";
const RUN: &str = "20261121t093626z-hand";

#[test]
fn every_command_of_the_page_works_in_the_order_of_the_page() {
    let host = Host::shared().unwrap();
    let search = host.search_server(&host.search.key, &Settings { path_repo: false, ..Settings::default() }).unwrap();
    for (index, count) in [("content", 1), ("hs-a", 5)] {
        search.ask("PUT", &format!("/{index}"), Some(&json!({"settings": {"number_of_replicas": 0}}))).unwrap();
        for n in 0..count {
            search.ask("PUT", &format!("/{index}/_doc/{n}"), Some(&json!({"n": n}))).unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = search.repo_root.join("backup_repo").display().to_string();
    let mut env = [host.systemd.env(), search_env(&search)].concat();
    env.retain(|(name, _)| name != "SVC_BACKUP_REPO");
    env.push(("SVC_STATE_DIR".to_owned(), dir.path().join("state").display().to_string()));

    let mut blocks = page::transcripts("svc-snap/README.md").unwrap();
    // What lies in /etc is not this test's to make; snap_connection.rs has credentials of every kind.
    blocks.retain(|block| !block.contains("/etc/"));
    // The page begins with what comes after the one-time configuration.
    blocks.sort_by_key(|block| !block.contains("svc-snap configure"));
    assert!(blocks.len() >= 7 && blocks[0].contains("svc-snap configure"), "{blocks:?}");
    for block in &blocks {
        let commands = block.replace(FOLDER, &folder).replace(RUN, "$(jq -r .result.run restored.json)");
        let commands = format!("systemctl() {{ svc-unit \"$1\" \"$SVC_SEARCH_UNIT\"; }}\n{commands}");
        page::bash(&commands, &env, dir.path()).unwrap_or_else(|error| panic!("{block}\n{error:#}"));
    }
    let document = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(document("swapped.json").contains("\"ok\":true"));
}
