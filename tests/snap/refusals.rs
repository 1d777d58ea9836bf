//! What the servers say no to, told in the tool's own words: errors of the page's list that no other test provokes, each by a real
//! server, with its code and its exit status.

use serde_json::{Value, json};
use svc_tests::host::Host;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;

#[test]
fn what_a_server_refuses_has_a_code_and_a_status_of_its_own() {
    let host = Host::shared().unwrap();
    let extra = vec![("http.max_content_length".to_owned(), "1kb".to_owned())];
    let server = host.search_server(&host.search.key, &Settings { extra, ..Settings::default() }).unwrap();
    let sandbox = Sandbox::on(server.search.clone(), "refused").registered(&[]);
    let docs = sandbox.index("docs", json!({"settings": {"number_of_replicas": 1}}));
    sandbox.fill(&docs, 0, 2);
    let created = sandbox.create("s");
    sandbox.simple("other", 1);
    let location = sandbox.location().display().to_string();
    let set = |name: &str, value: Value| sandbox.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {name: value}})));

    sandbox.run(&["list", "--repository", "nowhere"]).fails(4, "repository_not_found").unchanged();
    sandbox.run(&["stage", "nothing"]).fails(4, "snapshot_not_found").unchanged();
    let long = ["create", "long", "--taken-because", &"x".repeat(800)];
    sandbox.run(&long).fails(1, "search_refused").unchanged();

    // A disk that is full, or an operator, makes a cluster read-only.
    set("cluster.blocks.read_only", json!(true));
    let blocked = [sandbox.from(&["stage"], &created), sandbox.run(&["register", "--location", &location, "--readonly"])];
    set("cluster.blocks.read_only", Value::Null);
    for ran in blocked {
        ran.refused("index_blocked");
    }

    // The replicas that come along nobody counts but the server.
    sandbox.ask("DELETE", &format!("/{docs}"), None);
    let shards = sandbox.ask("GET", "/_cluster/health", None)["active_shards"].as_u64().unwrap();
    set("cluster.max_shards_per_node", json!(shards + 1));
    let full = sandbox.from(&["restore", "--in-place"], &created);
    set("cluster.max_shards_per_node", Value::Null);
    full.refused("out_of_space");

    // A closed index is taken over only where it has as many shards.
    sandbox.index("docs", json!({"settings": {"number_of_replicas": 0, "number_of_shards": 2}}));
    let other_shape = sandbox.from(&["restore", "--in-place", "--on-conflict", "close"], &created).fails(1, "search_refused");
    assert!(other_shape.doc()["error"]["causes"].to_string().contains("with [2] shards"), "{other_shape}");

    // Two repositories that do not know of each other, in one folder.
    let second = sandbox.name("second");
    let fs = json!({"type": "fs", "settings": {"location": location}});
    sandbox.ask("PUT", &format!("/_snapshot/{second}"), Some(fs));
    sandbox.run(&["create", "by-the-second", "--repository", &second]).ok();
    sandbox.run(&["delete", "s"]).fails(7, "repository_changed_elsewhere").unchanged();
    assert_eq!(sandbox.run(&["list"]).status, 7);

    let url = ["register", "--repository", "from-afar", "--type", "url", "--readonly", "--setting", "url=http://127.0.0.1:1/"];
    // One of the six has the module that reads from an address. It refuses the address, and registers it all the same.
    if sandbox.search.key == "opensearch-3" {
        sandbox.run(&url).fails(7, "repository_unusable").changed();
    } else {
        sandbox.run(&url).refused("repository_unusable");
    }
}
