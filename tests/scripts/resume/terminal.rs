//! What becomes of the terminal at any step is nothing to the run.

use svc_tests::journey::{assert_back, id_of, installed, runs};
use svc_tests::product::Product;
use svc_tests::terminal::{Terminal, ended};
use svc_tests::wait;

use crate::cut::has;

/// What becomes of the terminal, in turn.
const ENDS: [fn(Terminal); 3] = [Terminal::close, Terminal::kill_all, |mut terminal| {
    terminal.interrupt();
    terminal.wait();
}];

/// Types a script, ends the terminal at a point, and waits for the run's own good end.
fn without_its_terminal(product: &Product, typed: &str, kind: &str, point: &str, end: fn(Terminal)) {
    let known = runs(product);
    let terminal = Terminal::open(product, typed, &[]);
    wait::until(point, wait::HANG, || {
        let new = runs(product).into_iter().find(|run| !known.contains(run))?;
        (has(&new, point) || new.join("document.json").exists()).then_some(())
    })
    .unwrap();
    end(terminal);
    let document = ended(product, kind);
    assert_eq!(document["ok"], true, "the terminal ended at {point}: {document:#}");
}

#[test]
#[ignore = "minutes: an upgrade and a rollback for each of some steps"]
fn run_finishes_after_terminal_ends_at_some_steps() {
    let (product, before) = installed("reterminal");
    let upgrade = format!("svc-upgrade '{}'", product.installer("2.0.1").display());
    let steps = ["present.started", "dump.json", "installer.started", "start.started"];
    let back = ["point.started", "stage-database.started", "swap-database.started", "installer.started"];
    for (number, (there, back)) in steps.into_iter().zip(back).enumerate() {
        without_its_terminal(&product, &upgrade, "-upgrade", there, ENDS[number % 3]);
        assert_eq!(product.marker(), "2.0.1");
        without_its_terminal(&product, "svc-rollback", "-rollback", back, ENDS[(number + 1) % 3]);
        assert_back(&product, &before);
        let run = runs(&product).pop().unwrap();
        for tool in ["svc-snap", "svc-pgrestore"] {
            product.tool(tool).args(["discard", "--run", &id_of(&run)]).run().ok();
        }
    }
}
