//! Where a run stands, for people.

use jiff::Timestamp;
use svc_step::clean::{clean, clean_lines};
use svc_step::table::{Cell, Table, WIDTH, ago, duration, local};

use super::{StatusResult, StepStatus};
use crate::console::lines_of;

/// How wide the longest bar is, where there is space for it; with less space than the other it is left out.
const BAR: usize = 30;
const SHORTEST_BAR: usize = 5;

/// The answer for people: the steps as a table, how the run stands, what to run next.
pub fn text(status: &StatusResult) -> String {
    let mut out = format!("{}\n{}{}\n", title(status), table(&status.steps), clean_lines(&status.message));
    if let Some(next) = &status.next {
        out.push_str(&format!("next: {}\n", clean_lines(next)));
    }
    if !status.undo.is_empty() {
        let commands: Vec<String> = status.undo.iter().map(|undo| clean(&undo.command)).collect();
        let commands = lines_of(&commands);
        out.push_str(&format!(
            "The next call of any script first undoes what the run has left:{commands}\nTo only undo it:\n  svc-run recover\n"
        ));
    }
    out
}

/// The run, and when it was begun.
pub fn title(status: &StatusResult) -> String {
    let script = if status.script.is_empty() { "a run" } else { &status.script };
    let begun = status.started_at.parse::<Timestamp>();
    let begun = begun.map(|begun| format!(", begun {} ({})", local(begun), ago(begun))).unwrap_or_default();
    clean(&format!("{script} {}{begun}", status.run))
}

/// Number, step, when it was begun, how it ended, how long it took, a bar.
fn table(steps: &[StepStatus]) -> String {
    let rows: Vec<[String; 5]> = steps.iter().map(row).collect();
    let widths =
        (0..5).filter_map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count() + 2).max());
    let bar = WIDTH.saturating_sub(widths.sum()).min(BAR);
    let longest = steps.iter().filter_map(|step| step.duration_ms).max().filter(|ms| *ms > 0);
    let mut table = Table::default();
    for (step, [number, name, at, state, took]) in steps.iter().zip(&rows) {
        let mut cells = vec![Cell::new(number), Cell::new(name), Cell::new(at), Cell::new(state), Cell::right(took)];
        if let Some((ms, longest)) = step.duration_ms.zip(longest).filter(|_| bar >= SHORTEST_BAR) {
            let length = u128::from(ms) * bar as u128 / u128::from(longest);
            cells.push(Cell::new(&"#".repeat(usize::try_from(length).unwrap_or(bar).max(1))));
        }
        table.row(cells, Vec::new());
    }
    table.text()
}

fn row(step: &StepStatus) -> [String; 5] {
    let begun: Option<Timestamp> = step.begun_at.as_str().parse().ok();
    let at = begun.and_then(|begun| local(begun).get(11..).map(ToOwned::to_owned)).unwrap_or_default();
    let took = step.duration_ms.map(duration).unwrap_or_default();
    [format!("{:02}", step.number), label(step), at, step.state.clone(), took]
}

/// The step's name, and which attempt it was after the first.
pub fn label(step: &StepStatus) -> String {
    let again = if step.attempt > 1 { format!(" ({})", step.attempt) } else { String::new() };
    format!("{}{again}", step.step)
}
