//! An upgrade over two versions that is interrupted in a hop, or between two.

use std::path::Path;

use nix::sys::signal::Signal;
use svc_tests::journey::{id_of, point_of, runs};
use svc_tests::product::Product;

use crate::cut::{How, cut, has};
use crate::journey::{assert_nothing_twice, next, wait_until_free};

/// Where, by a part of the run's name, and how.
type Moment = (&'static str, &'static str, How);

fn cut_in_the_hops(product: &Product, (part, point, how): Moment) {
    let before = product.content().unwrap();
    let upgrade = product.tool("svc-upgrade").args(["--to", "2.0.1"]);
    let of_hop = |run: &Path| run.to_string_lossy().contains(&format!("-upgrade-{part}"));
    cut(product, upgrade, how, |run, other| of_hop(run) && other == point).unwrap();
    wait_until_free(product, "svc-upgrade");
    let outer = runs(product).into_iter().rfind(|run| run.to_string_lossy().contains("-upgrade-hops")).unwrap();
    let id = id_of(&outer);
    if !how.in_order() {
        let said = next(product, "svc-upgrade");
        assert!(said.contains(&format!("svc-upgrade --resume {id}")), "{said}");
    }
    let ran = product.tool("svc-upgrade").args(["--resume", &id]).run().ok();
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
    assert_nothing_twice(&outer, &[]);
    let hops = runs(product).into_iter().filter(|run| *run > outer && has(run, "installer.json")).collect::<Vec<_>>();
    assert_eq!(hops.len(), 2, "{hops:?}");
    hops.iter().for_each(|run| assert_nothing_twice(run, &["installer"]));

    // Each hop has a restore point, which restores what was there before it.
    let hops = ran.result()["hops"].as_array().unwrap();
    let good: Vec<&str> = hops.iter().filter(|hop| hop["ok"] == true).map(|hop| hop["restore_point"].as_str().unwrap()).collect();
    assert_eq!(good.len(), 2, "{ran}");
    let back = product.tool("svc-rollback").run().ok();
    assert_eq!(point_of(&back).to_str(), Some(good[1]), "{back}");
    assert_eq!(product.marker(), "1.15.5");
    let again = product.tool("svc-rollback").arg(good[0]).run().ok();
    assert_eq!(product.marker(), "1.14.2");
    assert_eq!(product.content().unwrap(), before);
    [&back, &again].into_iter().flat_map(|ran| ran.lines("discard_previous")).for_each(|command| product.typed(command));
}

#[test]
#[ignore = "minutes: interrupted in the hops and between them"]
fn upgrade_interrupted_in_or_between_hops_is_resumed() {
    let product = Product::new("rehops").unwrap();
    product.install_still("1.14.2", 200).unwrap();
    product.start();
    let moments: [Moment; 12] = [
        ("hops", "hop-1.started", How::Killed),
        ("1.15.5", "dump.started", How::Killed),
        ("1.15.5", "snapshot.started", How::Alone),
        ("1.15.5", "installer.started", How::Killed),
        ("1.15.5", "start.started", How::Asked(Signal::SIGTERM)),
        ("hops", "hop-1.json", How::Killed),
        ("hops", "hop-2.started", How::Alone),
        ("2.0.1", "stop.json", How::Killed),
        ("2.0.1", "snapshot.started", How::Hung(Signal::SIGINT)),
        ("2.0.1", "installer.started", How::Alone),
        ("2.0.1", "installer.json", How::Killed),
        ("2.0.1", "marker.started", How::Hung(Signal::SIGHUP)),
    ];
    for moment in moments {
        eprintln!("interrupted at {moment:?}");
        cut_in_the_hops(&product, moment);
    }
}
