//! Cut off at every step, one after the other, in one upgrade and one rollback.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;

use crate::cut::How;
use crate::journey::Journey;
use crate::pairs::once;

/// At these points of an upgrade there is nothing to go on with yet, and each cut makes it begin anew.
const FIRST: [&str; 4] = ["stop.started", "dump.started", "snapshot.json", "unit-after.json"];

fn cut_at_every_step(name: &str, how: How) {
    let mut journey = Journey::new(name, &[]);
    let deep = svc_tests::deep();
    let mut seen = BTreeSet::new();
    let mut installing = false;
    let cuts = journey.there(how, |point| {
        installing |= point.starts_with("installer.");
        (deep || installing || FIRST.contains(&point)) && seen.insert(point.to_owned())
    });
    assert!(cuts >= 12, "cut off {cuts} times only: {seen:?}");
    let mut seen = BTreeSet::new();
    let cuts = journey.back(how, |point| seen.insert(point.to_owned()));
    assert!(cuts >= 20, "cut off {cuts} times only: {seen:?}");
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
fn cut_off_in_three_ways_once_each_nothing_is_lost() {
    let mut journey = Journey::new("reways", &["--aside"]);
    assert_eq!(journey.there(How::Alone, once("snapshot.started")), 1);
    assert_eq!(journey.back(How::Asked(Signal::SIGTERM), once("uninstall.started")), 1);
    assert_eq!(journey.there(How::Hung(Signal::SIGHUP), once("installer.started")), 1);
    assert_eq!(journey.back(How::Alone, once("swap-database.started")), 1);
}
