//! The commands that the page of `svc-snap` shows, run as they stand there on a server of their own.

use svc_tests::prelude::*;

/// What stands in the page, and in whose place what is there.
const FOLDER: &str = "/var/backups/search/backup_repo";
const RUN: &str = "20261121t093626z-hand";
const VOLATILE: [&str; 2] = ["2026-11-21T09:57:24Z", "snapshot_svc_20261121"];

#[test]
fn every_command_of_the_page_works_in_the_order_of_the_page() {
    let host = Host::shared().unwrap();
    let search = host.search_server(&host.search.key, &Settings { no_path_repo: true, ..Settings::default() }).unwrap();
    // A replica that has no node makes the server yellow, as on the page.
    for (index, count, replicas) in [("content", 1, 1), ("hs-a", 5, 0)] {
        search.ask("PUT", &format!("/{index}"), Some(&json!({"settings": {"number_of_replicas": replicas}}))).unwrap();
        for n in 0..count {
            search.ask("PUT", &format!("/{index}/_doc/{n}"), Some(&json!({"n": n}))).unwrap();
        }
    }
    let product = search.product.to_string();
    let dir = tempfile::tempdir().unwrap();
    let folder = search.repo_root.join("backup_repo").display().to_string();
    let mut env = [host.systemd.env(), search_env(&search)].concat();
    env.retain(|(name, _)| name != "SVC_BACKUP_REPO");
    env.push(("SVC_STATE_DIR".to_owned(), dir.path().join("state").display().to_string()));

    let mut examples = page::Example::all("svc-snap/README.md").unwrap();
    let blocks_with = |examples: &[page::Example], part: &str| -> Vec<usize> {
        examples.iter().filter(|one| one.command.contains(part)).map(|one| one.block).collect()
    };
    // What lies in /etc is not this test's to make; snap_connection.rs has credentials of every kind.
    let others = blocks_with(&examples, "/etc/");
    examples.retain(|one| !others.contains(&one.block));
    // The page begins with what comes after the one-time configuration.
    let first = blocks_with(&examples, "svc-snap configure");
    examples.sort_by_key(|one| !first.contains(&one.block));
    assert!(examples.len() >= 24 && examples[0].command.starts_with("svc-snap configure"), "{examples:?}");
    assert!(examples.iter().filter(|one| !one.shown.is_empty()).count() >= 12, "{examples:?}");
    for example in &examples {
        let mut here = example.with(FOLDER, &folder);
        here.command = here.command.replace(RUN, "$(jq -r .result.run restored.json)");
        here.command = format!("systemctl() {{ svc-unit \"$1\" \"$SVC_SEARCH_UNIT\"; }}; {}", here.command);
        for (page, this) in [("opensearch", product.as_str()), ("2.19.3", &search.version)] {
            here.shown = here.shown.replace(page, this);
        }
        // Of what the page does not show, the exit status alone is held against it.
        if example.shown.is_empty() {
            here.command = format!("{{ {}\n}} >out 2>&1", here.command);
        }
        for volatile in VOLATILE {
            here.shown = here.shown.replace(volatile, "…");
        }
        let status = here.holds(&env, dir.path()).unwrap_or_else(|error| panic!("{error:#}"));
        let out = fs::read_to_string(dir.path().join("out")).unwrap();
        assert!(status.success(), "{status}: {example:?}\n{out}");
    }
    assert_eq!(json_of(dir.path().join("swapped.json"))["ok"], true);
}
