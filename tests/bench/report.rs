//! What was measured, as tables. No figure is written by hand: a page gets the tables from here.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::measure::Cost;

/// Between these lines of a page are the tables.
const BEGIN: &str = "<!-- measured: written by tests/bench/run, not by hand -->";
const END: &str = "<!-- measured: end -->";

/// Time that grows by at most this power is linear, as far as a few sizes and a busy server tell.
const LINEAR: f64 = 1.15;
/// Memory that grows by at most this power is flat: a document names everything that it is about, and so grows a little.
const FLAT: f64 = 0.5;

/// How the tables begin: of one thing beside another, of one thing at several sizes; what the parts of a run took has a table of its own
/// for each run.
const HEADS: [&str; 3] = [
    "\n| | against | ratio | at most | medians | pairs |\n|---|---|---|---|---|---|\n",
    "\n| | size: seconds, memory | time | computing | memory |\n|---|---|---|---|---|\n",
    "",
];

/// All that was measured on one machine and server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The machine and the server.
    measured_on: String,
    rows: Vec<Row>,
}

/// A part of a table, as the page has it.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    /// Which of the tables.
    table: usize,
    /// What it is about, which is how it begins.
    what: String,
    figures: String,
    missed: bool,
}

impl Row {
    fn text(&self) -> String {
        format!("{}{}", self.what, self.figures)
    }
}

/// What a call took at one size, and `curl` for the same requests, where it was measured beside it.
pub type Point = (usize, Cost, Option<f64>);

/// One part of a run.
#[derive(Debug, Clone)]
pub struct Entry {
    /// When: while the service runs, or is down.
    pub phase: &'static str,
    /// The step, or the command.
    pub step: String,
    pub seconds: f64,
    /// Whether it is the installer's or the unit's own time, which no ratio counts.
    pub is_own: bool,
}

impl Report {
    /// What earlier runs measured on the same machine and server, so that a part can be measured by itself (`--only`); nothing
    /// where there is no such file.
    pub fn of(measured_on: String, json: Option<&Path>) -> Self {
        let text = json.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let earlier = serde_json::from_str::<Self>(&text).ok().filter(|earlier| earlier.measured_on == measured_on);
        earlier.unwrap_or(Self { measured_on, ..Self::default() })
    }

    /// Adds the median of the pairs' ratios, ours by theirs, and what it may be at most.
    pub fn ratio(&mut self, what: &str, against: &str, target: Option<f64>, (ours, theirs): (&[f64], &[f64])) {
        let medians = format!("{} / {}", seconds(median(ours)), seconds(median(theirs)));
        self.add_ratio((what, against), ratio(ours, theirs), target, &medians, ours.len());
    }

    /// Adds a single quantity, with what it may be at most.
    pub fn quantity(&mut self, what: &str, value: f64, target: f64, count: usize) {
        self.add_ratio((what, "–"), value, Some(target), "–", count);
    }

    fn add_ratio(&mut self, (what, against): (&str, &str), value: f64, target: Option<f64>, medians: &str, count: usize) {
        let missed = target.is_some_and(|target| value > target);
        let target = target.map_or("–".to_owned(), |target| format!("{target:.2}{}", mark(missed)));
        self.add(0, format!("| {what} | {against} |"), format!(" {value:.2} | {target} | {medians} | {count} |"), missed);
    }

    /// Adds one thing at several sizes, and by which power of the size it grows: 1 is linear, 0 flat.
    pub fn growth(&mut self, what: &str, points: &[Point]) {
        let power =
            |value: fn(&Cost) -> f64| exponent(&points.iter().map(|(n, cost, _)| (*n as f64, value(cost))).collect::<Vec<_>>());
        let powers = [
            (power(|cost| cost.seconds), LINEAR),
            // Less than the clock's 10 ms is none.
            (power(|cost| cost.cpu_seconds.max(0.01)), LINEAR),
            (power(|cost| cost.memory_bytes as f64), FLAT),
        ];
        let [time, cpu, memory] = powers.map(|(power, most)| format!("n^{power:.2}{}", mark(power > most)));
        let point = |(size, cost, curl): &Point| {
            let curl = curl.map_or(String::new(), |curl| format!(" (curl {})", seconds(curl)));
            format!("{size}: {}{curl}, {:.1} MB", seconds(cost.seconds), cost.memory_bytes as f64 / 1e6)
        };
        let points: Vec<String> = points.iter().map(point).collect();
        let figures = format!(" {} | {time} | {cpu} | {memory} |", points.join("; "));
        self.add(1, format!("| {what} |"), figures, powers.iter().any(|(power, most)| power > most));
    }

    /// Adds what runs took in their parts, as medians; the parts are those of the first run.
    pub fn account(&mut self, what: &str, runs: &[&[Entry]]) {
        let Some(first) = runs.first() else { return };
        let count = if runs.len() == 1 { "one run".to_owned() } else { format!("medians of {} runs", runs.len()) };
        let mut figures = format!(" ({count}):\n\n| | step | |\n|---|---|---|");
        let mut last = "";
        for Entry { phase, step, is_own, .. } in *first {
            let same = |run: &&[Entry]| run.iter().find(|one| (one.phase, &one.step) == (phase, step)).map(|one| one.seconds);
            let middle = median(&runs.iter().filter_map(same).collect::<Vec<_>>());
            let (shown, own) = (if *phase == last { "" } else { phase }, if *is_own { " (not counted)" } else { "" });
            figures.push_str(&format!("\n| {shown} | {step}{own} | {} |", seconds(middle)));
            last = phase;
        }
        self.add(2, format!("\n**{what}**"), figures, false);
    }

    /// What is measured again takes its place.
    fn add(&mut self, table: usize, what: String, figures: String, missed: bool) {
        let row = Row { table, what, figures, missed };
        eprintln!("{}", row.text());
        match self.rows.iter_mut().find(|other| other.what == row.what) {
            Some(other) => *other = row,
            None => self.rows.push(row),
        }
    }

    /// What missed its target.
    pub fn missed(&self) -> Vec<String> {
        self.rows.iter().filter(|row| row.missed).map(Row::text).collect()
    }

    /// The tables, in Markdown.
    pub fn table(&self) -> String {
        let mut text = format!("Measured on {}.\n", self.measured_on);
        for (table, head) in HEADS.iter().enumerate() {
            let rows: String = self.rows.iter().filter(|row| row.table == table).map(|row| row.text() + "\n").collect();
            text.extend((!rows.is_empty()).then(|| format!("{head}{rows}")));
        }
        text
    }

    pub fn write_json(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts the tables into a page, in the place that the page has for them.
    pub fn write_page(&self, path: &Path) -> Result<()> {
        let page = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
        let (head, tail) = parts.with_context(|| format!("{} has no lines {BEGIN} and {END}", path.display()))?;
        ensure!(!tail.contains(BEGIN), "{} has two places for the table", path.display());
        Ok(fs::write(path, format!("{head}{BEGIN}\n{}{END}{tail}", self.table()))?)
    }
}

fn mark(missed: bool) -> &'static str {
    if missed { " **missed**" } else { "" }
}

fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.1} ms", value * 1e3) } else { format!("{value:.2} s") }
}

/// The median of the pairs' ratios.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(&ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
}

/// The middle one; of an even number, the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The power of `n` with which `value` grows, by least squares through the logarithms.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, value)| (n.ln(), value.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) = (logs.iter().map(|p| p.0).sum::<f64>() / count, logs.iter().map(|p| p.1).sum::<f64>() / count);
    let over = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    over / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_ratios_is_not_ratio_of_medians() {
        assert!((ratio(&[1.0, 4.0, 9.0], &[1.0, 2.0, 9.0]) - 1.0).abs() < 1e-9);
        assert!((median(&[1.0, 2.0, 4.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn exponent_of_flat_linear_and_square_growth_is_found() {
        for power in 0..3 {
            let grown = [500.0, 1000.0, 2000.0].map(|n: f64| (n, 3.0 * n.powi(power)));
            assert!((exponent(&grown) - f64::from(power)).abs() < 1e-9);
        }
    }
}
