//! What tests rely on in the throw-away host: content is compared to its end, and the network breaks on demand.

use std::collections::BTreeMap;

use serde_json::json;
use svc_tests::content;
use svc_tests::host::Host;
use svc_tests::proxy::{Act, At, End, Gate, Mode, Proxy};
use svc_tests::{http, search};

#[test]
fn all_documents_of_cluster_are_read_across_pages() {
    let host = Host::shared().unwrap();
    let nodes = host.search.ask("GET", "/_nodes", None).unwrap();
    let node = nodes["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(node["version"], host.search.version.as_str());

    let (root, _) = host.search.request("GET", "/", None).unwrap();
    assert_eq!(root == 200, search::distribution(&host.search.key).unwrap().answers_root);

    // More than one page, and more than a plain search returns.
    let lines: String = (0..12_000).map(|id| format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{{\"n\":{id}}}\n")).collect();
    http::bulk(&format!("{}/host-test", host.search.url), &lines).unwrap();
    let found = content::documents(&host.search.url, "host-test").unwrap();
    let expected: BTreeMap<_, _> = (0..12_000).map(|id| (id.to_string(), json!({"n": id}))).collect();
    assert_eq!(found["host-test"].documents, expected);
    host.search.ask("DELETE", "/host-test", None).unwrap();
}

#[test]
fn proxy_and_gate_break_connections_on_demand() {
    let host = Host::shared().unwrap();
    let proxy = Proxy::to(&host.search.url).unwrap();
    let ask = || http::request("GET", &format!("{}/_cluster/health", proxy.url()), None);
    assert_eq!(ask().unwrap().0, 200);

    proxy.set(Mode::CutAfter(40));
    ask().expect_err("an answer that is cut is no answer");
    let gate = Gate::to(&host.search.url).unwrap();
    gate.rule(|_| true, Act::Cut(At::Request(0), End::Reset), 0, 1);
    let reset = || http::request("GET", &format!("{}/_cluster/health", gate.url()), None);
    reset().expect_err("a connection that is reset has no answer");
    assert_eq!(reset().unwrap().0, 200);

    proxy.set(Mode::Stall);
    let seen = proxy.accepted();
    std::thread::scope(|scope| {
        let asked = scope.spawn(ask);
        svc_tests::wait::until("the stalled request", svc_tests::wait::HANG, || (proxy.accepted() > seen).then_some(())).unwrap();
        assert!(!asked.is_finished());
        proxy.set(Mode::Pass);
        assert_eq!(asked.join().unwrap().unwrap().0, 200);
    });
}
