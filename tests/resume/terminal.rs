//! What becomes of the terminal at any step is nothing to the run.

use std::fs;

use svc_tests::journey::{assert_back, installed, runs};
use svc_tests::product::Product;
use svc_tests::terminal::{Terminal, ended};
use svc_tests::wait;

use crate::cut::{A_WHILE, has, points};
use crate::pairs::Passed;

/// What becomes of the terminal, in turn.
const ENDS: [fn(Terminal); 3] = [Terminal::close, Terminal::kill_all, |mut terminal| {
    terminal.interrupt();
    terminal.wait();
}];

/// Types a script, ends the terminal at a point, and waits for the run's own good end.
fn without_its_terminal(product: &Product, typed: &str, kind: &str, point: &str, end: fn(Terminal)) {
    let known = runs(product);
    let terminal = Terminal::open(product, typed, &[]);
    wait::until(point, A_WHILE, || {
        let new = runs(product).into_iter().find(|run| !known.contains(run))?;
        (has(&new, point) || new.join("document.json").exists()).then_some(())
    })
    .unwrap();
    end(terminal);
    let document = ended(product, kind);
    assert_eq!(document["ok"], true, "the terminal ended at {point}: {document:#}");
}

#[test]
#[ignore = "half an hour: an upgrade and a rollback for each step"]
fn a_run_whose_terminal_ends_at_any_step_comes_to_its_own_end() {
    let (product, before) = installed("reterminal");
    let upgrade = format!("svc-upgrade '{}'", product.installer("2.0.1").display());
    let mut there = vec!["stop.started".to_owned()];
    let mut back = vec!["stop.started".to_owned()];
    let passed = Passed::new();
    let mut next = 0;
    while next < there.len().max(back.len()) {
        let number = next;
        next += 1;
        let points_of_both = [&there[number % there.len()], &back[number % back.len()]].map(String::clone);
        let line = format!("reterminal {number} {points_of_both:?}");
        if passed.holds(&line) {
            continue;
        }
        let [of_upgrade, of_rollback] = points_of_both;
        without_its_terminal(&product, &upgrade, "-upgrade", &of_upgrade, ENDS[number % 3]);
        assert_eq!(product.marker(), "2.0.1");
        there = points(runs(&product).last().unwrap());
        without_its_terminal(&product, "svc-rollback", "-rollback", &of_rollback, ENDS[(number + 1) % 3]);
        assert_back(&product, &before);
        let run = runs(&product).pop().unwrap();
        back = points(&run);
        for tool in ["svc-snap", "svc-pgrestore"] {
            product.tool(tool).args(["unstage", "--run", &run.file_name().unwrap().to_string_lossy()]).run().ok();
        }
        // Of the first it is not known yet what there is.
        if number > 0 {
            passed.note(&line);
        }
        // Every script reads all runs.
        runs(&product).iter().for_each(|run| fs::remove_dir_all(run).unwrap());
    }
}
