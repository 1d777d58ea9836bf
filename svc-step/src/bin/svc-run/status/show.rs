//! Where a run stands, for people.

use jiff::Timestamp;
use svc_step::clean::{clean, clean_lines};
use svc_step::table::{Cell, Table, ago, duration, local};

use super::{StatusResult, StepStatus};

/// The answer for people: the steps as a table, how the run stands, what to run next.
pub fn text(status: &StatusResult) -> String {
    let mut out = format!("{}\n{}{}\n", title(status), table(&status.steps), clean_lines(&status.message));
    if let Some(next) = &status.next {
        out.push_str(&format!("next: {}\n", clean_lines(next)));
    }
    if !status.undo.is_empty() {
        let commands: String = status.undo.iter().map(|undo| format!("\n  {}", clean(&undo.command))).collect();
        out.push_str(&format!(
            "The next call of any script first undoes what the run has left:{commands}\nTo only undo it:\n  svc-run recover\n"
        ));
    }
    out
}

/// The run, and when it was begun.
fn title(status: &StatusResult) -> String {
    let script = if status.script.is_empty() { "a run" } else { &status.script };
    let begun = status.started_at.parse::<Timestamp>();
    let begun = begun.map(|begun| format!(", begun {} ({})", local(begun), ago(begun))).unwrap_or_default();
    clean(&format!("{script} {}{begun}", status.run))
}

/// Number, step and which attempt of it, when it was begun, how it ended, how long it took.
fn table(steps: &[StepStatus]) -> String {
    let mut table = Table::default();
    for step in steps {
        let again = if step.attempt > 1 { format!(" ({})", step.attempt) } else { String::new() };
        let begun: Option<Timestamp> = step.started_at.as_str().parse().ok();
        let at = begun.and_then(|begun| local(begun).get(11..).map(ToOwned::to_owned)).unwrap_or_default();
        let cells = [format!("{:02}", step.number), format!("{}{again}", step.step), at, step.state.clone()];
        let mut cells: Vec<Cell> = cells.iter().map(|text| Cell::new(text)).collect();
        cells.push(Cell::right(&step.duration_ms.map(duration).unwrap_or_default()));
        table.row(cells, Vec::new());
    }
    table.text()
}
