//! The commands that the page of `svc-unit` shows, and what it says that they print.

use svc_tests::page::Example;

use crate::own::*;

#[test]
fn every_step_has_working_example_on_page() {
    let own = |name: &str, unit: &str, service: &str| Own::named(format!("{name}.service"), unit, service);
    let unit = own("svc-page", "", SIMPLE);
    let _broken = own("svc-page2", "", "Type=notify\nExecStart=/bin/sh -c 'exit 7'");
    let _worker = own("svc-page-worker", "Requires=svc-page.service\nAfter=svc-page.service", SIMPLE);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    for example in Example::of_tool(&svc_unit::cli()).unwrap() {
        example.with("127.0.0.1:8080", &address).holds(&unit.systemd.env(), dir.path()).unwrap();
    }
}
