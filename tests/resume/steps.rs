//! Cut off at every step, one after the other, in one upgrade and one rollback.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;

use crate::cut::How;
use crate::journey::Journey;
use crate::pairs::once;

/// Of what comes before anything is altered, by default only these: there is nothing to go on with yet, and each cut makes an
/// upgrade begin anew.
const BEFORE: [&str; 3] = ["dump.started", "unit-after.json", "stage-database.started"];

/// The points at which a script is cut off that alters something from the step `altering` on; each once.
fn each(altering: &str, seen: &mut BTreeSet<String>) -> impl FnMut(&str) -> bool {
    let mut alters = false;
    move |point| {
        alters |= point.split('.').next() == Some(altering);
        let wanted = svc_tests::deep() || BEFORE.contains(&point) || (alters && point.ends_with(".started"));
        wanted && seen.insert(point.to_owned())
    }
}

fn cut_at_every_step(name: &str, how: How) {
    let mut journey = Journey::new(name, &[]);
    let (mut there, mut back) = (BTreeSet::new(), BTreeSet::new());
    let cuts = journey.there(how, each("installer", &mut there));
    assert!(cuts >= 8 && cuts + 1 >= there.len(), "cut off {cuts} times: {there:?}");
    let cuts = journey.back(how, each("stop", &mut back));
    assert!(cuts >= 12 && cuts + 1 >= back.len(), "cut off {cuts} times: {back:?}");
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
