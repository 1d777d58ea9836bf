//! Cut off at every step, one after the other, in one upgrade and one rollback.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;

use crate::cut::How;
use crate::journey::Journey;
use crate::pairs::{in_turn, once};

/// The points at which a script is cut off by default; `--deep` takes all.
const SOME: [&str; 5] = ["dump.started", "installer.started", "stage-database.started", "swap-database.started", "carry.started"];

/// Each point once.
fn each(seen: &mut BTreeSet<String>) -> impl FnMut(&str) -> bool {
    move |point| {
        let now = (svc_tests::deep() || SOME.contains(&point)) && seen.insert(point.to_owned());
        if now {
            eprintln!("cut off at {point}");
        }
        now
    }
}

fn cut_at_every_step(name: &str, how: How) {
    let mut journey = Journey::new(name, &[]);
    let (mut there, mut back) = (BTreeSet::new(), BTreeSet::new());
    let cuts = journey.there(how, each(&mut there));
    // One may have come too late.
    assert!(cuts + 1 >= there.len() && there.len() > 1, "cut off {cuts} times: {there:?}");
    let cuts = journey.back(how, each(&mut back));
    assert!(cuts + 1 >= back.len() && back.len() > 3, "cut off {cuts} times: {back:?}");
}

#[test]
fn killed_with_all_its_tools_at_each_step_it_comes_to_its_end_and_nothing_is_lost() {
    cut_at_every_step("reall", How::Killed);
}

#[test]
fn killed_alone_at_each_step_it_comes_to_its_end_and_nothing_is_lost() {
    if !svc_tests::deep() {
        return svc_tests::skip("the scripts killed at each step while their tools go on: only with --deep");
    }
    cut_at_every_step("realone", How::Alone);
}

#[test]
fn told_to_end_at_each_step_it_comes_to_its_end_and_nothing_is_lost() {
    if !svc_tests::deep() {
        return svc_tests::skip("TERM for a script, HUP for its group, at each step: only with --deep");
    }
    cut_at_every_step("reterm", How::Asked(Signal::SIGTERM));
    cut_at_every_step("rehup", How::Hung(Signal::SIGHUP));
}

#[test]
fn cut_off_with_standing_copies_while_its_tools_go_on_and_by_a_signal_nothing_is_lost() {
    let mut journey = Journey::new("reways", &["--aside"]);
    // Killed, told to end while what is left of that is being cleared up, and at the very end.
    let hows = [How::Alone, How::Asked(Signal::SIGTERM)];
    let points = ["snapshot.started", "drop-snapshot.started", "drop-warm-snapshot.started"];
    assert_eq!(journey.there_by(&hows, in_turn(&points)), points.len());
    assert_eq!(journey.back(How::Asked(Signal::SIGTERM), once("uninstall.started")), 1);
    if !svc_tests::deep() {
        return svc_tests::skip("an upgrade and a rollback cut off by HUP, and alone between the swaps: only with --deep");
    }
    assert_eq!(journey.there(How::Hung(Signal::SIGHUP), once("installer.started")), 1);
    assert_eq!(journey.back(How::Alone, once("swap-database.started")), 1);
}
