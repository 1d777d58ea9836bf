//! Interrupted at every step, one after the other, in one rehearsal, one backup, one upgrade and one rollback.

use svc_tests::journey::prelude::*;

use crate::cut::{How, in_turn};
use crate::journey::Journey;

/// The scripts that leave the service as it is. The rehearsal makes the restore point that it needs.
const IN_PARALLEL: [&[&str]; 2] = [&["svc-rehearse", "--or-backup"], &["svc-backup"]];

/// Each point once.
fn each(seen: &mut BTreeSet<String>) -> impl FnMut(&str) -> bool {
    move |point| {
        let is_new = seen.insert(point.to_owned());
        if is_new {
            eprintln!("interrupted at {point}");
        }
        is_new
    }
}

fn cut_at_every_step(name: &str, how: How, options: &[&str]) {
    let mut journey = Journey::new(name, options);
    for call in IN_PARALLEL {
        let mut points = BTreeSet::new();
        let cuts = journey.in_parallel(call, how, each(&mut points));
        assert!(cuts > 5 && cuts + 1 >= points.len(), "{call:?}, interrupted {cuts} times: {points:?}");
    }
    // Of these, no point is overlooked because it has passed before anybody looked: they are met in another round then.
    let is_met = |points: &BTreeSet<String>, steps: &[&str]| {
        steps.iter().all(|step| points.iter().any(|point| point.starts_with(&format!("{step}."))))
    };
    let (mut there, mut back, mut cuts) = (BTreeSet::new(), BTreeSet::new(), 0);
    for round in 1..=5 {
        cuts += journey.there(&[how], each(&mut there)) + journey.back(&[how], each(&mut back));
        if is_met(&there, &["warm-snapshot", "stop", "snapshot", "installer", "start"]) && is_met(&back, &["installer", "start"])
        {
            // One in each direction may have come too late.
            return assert!(cuts + 2 * round >= there.len() + back.len(), "interrupted {cuts} times: {there:?} {back:?}");
        }
    }
    panic!("not interrupted where it should be: {there:?} {back:?}");
}

#[test]
fn kill_of_tools_or_script_at_some_steps_loses_nothing() {
    let mut journey = Journey::new("resome", &[]);
    for (call, how) in IN_PARALLEL.into_iter().zip([How::Killed, How::Script]) {
        assert!(journey.in_parallel(call, how, in_turn(&["dump.started", "stage-database.started"])) > 0, "{call:?}");
    }
    let points = ["dump.started", "installer.started"];
    assert_eq!(journey.there(&[How::Script, How::Killed], in_turn(&points)), points.len());
    let points = ["stage-database.started", "swap-database.started", "restore-configuration.started"];
    assert_eq!(journey.back(&[How::Killed, How::Script, How::Killed], in_turn(&points)), points.len());
}

macro_rules! at_each_step {
    ($($test:ident, $why:literal: $(($product:literal, $how:expr, $options:expr)),+;)+) => {
        $(
            #[test]
            #[ignore = $why]
            fn $test() {
                $(cut_at_every_step($product, $how, &$options);)+
            }
        )+
    };
}

at_each_step! {
    kill_of_tools_at_each_step_loses_nothing, "minutes: interrupted at each step": ("reall", How::Killed, []);
    kill_of_supervisor_at_each_step_loses_nothing, "minutes: interrupted at each step": ("realone", How::Alone, []);
    kill_of_script_at_each_step_loses_nothing, "minutes: interrupted at each step": ("rebash", How::Script, []);
    kill_at_each_step_with_clone_loses_nothing, "minutes: interrupted at each step": ("reclone", How::Killed, ["--clone"]);
    term_or_hup_at_each_step_loses_nothing, "minutes: interrupted at each step, twice":
        ("reterm", How::Asked(Signal::SIGTERM), []), ("rehup", How::Hung(Signal::SIGHUP), []);
}

#[test]
fn supervisor_kill_and_sigterm_with_clone_lose_nothing() {
    let mut journey = Journey::new("reways", &["--clone"]);
    // Killed, told to end while what is left of that is being undone, and at the very end, if the signal comes too late.
    let hows = [How::Alone, How::Asked(Signal::SIGTERM)];
    let points = ["snapshot.started", "remove-incomplete-point.started", "drop-warm-snapshot.started"];
    assert_eq!(journey.there(&hows, in_turn(&points)), points.len() - 1);
    assert_eq!(journey.back(&[How::Asked(Signal::SIGTERM)], in_turn(&["uninstall.started"])), 1);
}
