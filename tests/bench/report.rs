//! What was measured, as a table and as JSON. No figure is written by hand: the tool's page gets the table from here.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::measure::Cost;

/// Between these lines of a page is the table.
const BEGIN: &str = "<!-- measured: written by tests/bench/run, not by hand -->";
const END: &str = "<!-- measured: end -->";

/// Time that grows by at most this power is linear, as far as a few sizes and a busy server tell.
const LINEAR: f64 = 1.15;
/// Memory that grows by at most this power is flat: a document names everything that it is about, and so grows a little.
const FLAT: f64 = 0.5;

/// Measurements in turn, in seconds.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub ours: Vec<f64>,
    pub theirs: Vec<f64>,
}

impl Sample {
    /// Measures `pairs` pairs; who comes first changes from pair to pair, as whatever drifts must not favour either.
    pub fn take(pairs: usize, mut ours: impl FnMut() -> Result<f64>, mut theirs: impl FnMut() -> Result<f64>) -> Result<Self> {
        let mut sample = Self::default();
        for pair in 0..pairs {
            if pair % 2 == 0 {
                sample.ours.push(ours()?);
                sample.theirs.push(theirs()?);
            } else {
                sample.theirs.push(theirs()?);
                sample.ours.push(ours()?);
            }
        }
        Ok(sample)
    }

    /// The median of the pairs' ratios, ours by theirs.
    fn ratio(&self) -> f64 {
        median(self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs))
    }
}

/// The middle one; of an even number, the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The power of `n` with which `value` grows, by least squares through the logarithms: 1 is linear, 0 is flat.
fn exponent(points: &[(usize, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, value)| ((*n as f64).ln(), value.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) = (logs.iter().map(|p| p.0).sum::<f64>() / count, logs.iter().map(|p| p.1).sum::<f64>() / count);
    let over = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    over / logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>()
}

/// All that was measured on one machine and server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// The machine and the server.
    measured_on: String,
    ratios: Vec<Ratio>,
    growth: Vec<Growth>,
    accounts: Vec<Account>,
}

/// One thing beside another.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ratio {
    what: String,
    against: String,
    /// The median of the pairs' ratios (of a single quantity, itself).
    ratio: f64,
    /// What it may be at most.
    target: Option<f64>,
    pairs: usize,
    /// The medians of each; of a single quantity, 0.
    ours_seconds: f64,
    theirs_seconds: f64,
}

/// One thing at several sizes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Growth {
    what: String,
    /// By which power it grows with the size: 1 is linear, 0 flat.
    time_exponent: f64,
    cpu_exponent: f64,
    memory_exponent: f64,
    points: Vec<Point>,
}

/// What it took at one size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    size: usize,
    seconds: f64,
    cpu_seconds: f64,
    pub memory_bytes: u64,
    /// What `curl` took for the same requests, where it was measured beside it.
    curl_seconds: Option<f64>,
}

impl Point {
    pub fn of(size: usize, cost: Cost, curl_seconds: Option<f64>) -> Self {
        let Cost { seconds, memory_bytes, cpu_seconds } = cost;
        Self { size, seconds, cpu_seconds, memory_bytes, curl_seconds }
    }
}

/// What the parts of a run took.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Account {
    what: String,
    /// Of how many runs these are the medians.
    runs: usize,
    entries: Vec<Entry>,
}

/// One part of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// When: while the service runs, or is down.
    phase: String,
    /// The step, or the command.
    step: String,
    pub seconds: f64,
    /// Whether it is the installer's or the unit's own time, which no ratio counts.
    pub is_own: bool,
}

impl Entry {
    pub fn new(phase: &str, step: &str, seconds: f64, is_own: bool) -> Self {
        Self { phase: phase.to_owned(), step: step.to_owned(), seconds, is_own }
    }
}

impl Report {
    /// What earlier runs measured on the same machine and server, so that a part can be measured by itself (`--only`); nothing
    /// where there is no such file.
    pub fn of(measured_on: String, json: Option<&Path>) -> Self {
        let text = json.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let earlier = serde_json::from_str::<Self>(&text).ok().filter(|earlier| earlier.measured_on == measured_on);
        earlier.unwrap_or(Self { measured_on, ..Self::default() })
    }

    /// Adds one thing beside another.
    pub fn ratio(&mut self, what: &str, against: &str, target: Option<f64>, sample: &Sample) {
        let medians = [&sample.ours, &sample.theirs].map(|seconds| median(seconds.iter().copied()));
        self.add((what, against), sample.ratio(), target, sample.ours.len(), medians);
    }

    /// Adds a single quantity, with what it may be at most.
    pub fn quantity(&mut self, what: &str, value: f64, target: f64, count: usize) {
        self.add((what, "–"), value, Some(target), count, [0.0; 2]);
    }

    fn add(&mut self, (what, against): (&str, &str), ratio: f64, target: Option<f64>, pairs: usize, medians: [f64; 2]) {
        let [ours_seconds, theirs_seconds] = medians;
        let (what, against) = (what.to_owned(), against.to_owned());
        let ratio = Ratio { what, against, ratio, target, pairs, ours_seconds, theirs_seconds };
        eprintln!("{}", ratio.row());
        replace(&mut self.ratios, ratio, |one, other| (&one.what, &one.against) == (&other.what, &other.against));
    }

    /// Adds one thing at several sizes.
    pub fn growth(&mut self, what: &str, points: Vec<Point>) {
        let power = |value: fn(&Point) -> f64| exponent(&points.iter().map(|one| (one.size, value(one))).collect::<Vec<_>>());
        let growth = Growth {
            what: what.to_owned(),
            time_exponent: power(|one| one.seconds),
            // Less than the clock's 10 ms is none.
            cpu_exponent: power(|one| one.cpu_seconds.max(0.01)),
            memory_exponent: power(|one| one.memory_bytes as f64),
            points,
        };
        eprintln!("{}", growth.row());
        replace(&mut self.growth, growth, |one, other| one.what == other.what);
    }

    /// Adds what runs took in their parts, as medians; the parts are those of the first run.
    pub fn account(&mut self, what: &str, runs: &[Vec<Entry>]) {
        let Some(first) = runs.first() else { return };
        let same = |run: &[Entry], entry: &Entry| {
            run.iter().find(|other| (&other.phase, &other.step) == (&entry.phase, &entry.step)).map(|other| other.seconds)
        };
        let middle = |entry: &Entry| Entry { seconds: median(runs.iter().filter_map(|run| same(run, entry))), ..entry.clone() };
        let account = Account { what: what.to_owned(), runs: runs.len(), entries: first.iter().map(middle).collect() };
        replace(&mut self.accounts, account, |one, other| one.what == other.what);
    }

    /// What missed its target.
    pub fn missed(&self) -> Vec<String> {
        let ratios = self.ratios.iter().filter(|one| one.target.is_some_and(|target| one.ratio > target)).map(Ratio::row);
        let grows = |one: &&Growth| one.time_exponent > LINEAR || one.cpu_exponent > LINEAR || one.memory_exponent > FLAT;
        ratios.chain(self.growth.iter().filter(grows).map(Growth::row)).collect()
    }

    /// The tables, in Markdown.
    pub fn table(&self) -> String {
        let mut text = format!("Measured on {}.\n\n", self.measured_on);
        if !self.ratios.is_empty() {
            text.push_str("| | against | ratio | at most | medians | pairs |\n|---|---|---|---|---|---|\n");
            text.extend(self.ratios.iter().map(|one| one.row() + "\n"));
        }
        if !self.growth.is_empty() {
            text.push_str("\n| | size: seconds, memory | time | computing | memory |\n|---|---|---|---|---|\n");
            text.extend(self.growth.iter().map(|one| one.row() + "\n"));
        }
        text.extend(self.accounts.iter().map(Account::table));
        text
    }

    pub fn write_json(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts the table into a page, in the place that the page has for it.
    pub fn write_page(&self, path: &Path) -> Result<()> {
        let page = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
        let (head, tail) = parts.with_context(|| format!("{} has no lines {BEGIN} and {END}", path.display()))?;
        ensure!(!tail.contains(BEGIN), "{} has two places for the table", path.display());
        Ok(fs::write(path, format!("{head}{BEGIN}\n{}{END}{tail}", self.table()))?)
    }
}

/// What is measured again takes its place.
fn replace<T>(all: &mut Vec<T>, one: T, is_same: impl Fn(&T, &T) -> bool) {
    match all.iter_mut().find(|other| is_same(other, &one)) {
        Some(other) => *other = one,
        None => all.push(one),
    }
}

fn missed(value: f64, most: f64) -> &'static str {
    if value > most { " **missed**" } else { "" }
}

impl Growth {
    fn row(&self) -> String {
        let point = |one: &Point| {
            let curl = one.curl_seconds.map_or(String::new(), |curl| format!(" (curl {})", seconds(curl)));
            format!("{}: {}{curl}, {:.1} MB", one.size, seconds(one.seconds), one.memory_bytes as f64 / 1e6)
        };
        let points: Vec<String> = self.points.iter().map(point).collect();
        let powers = [(self.time_exponent, LINEAR), (self.cpu_exponent, LINEAR), (self.memory_exponent, FLAT)];
        let [time, cpu, memory] = powers.map(|(power, most)| format!("n^{power:.2}{}", missed(power, most)));
        format!("| {} | {} | {time} | {cpu} | {memory} |", self.what, points.join("; "))
    }
}

impl Ratio {
    fn row(&self) -> String {
        let Self { what, against, ratio, pairs, .. } = self;
        let target = self.target.map_or("–".to_owned(), |target| format!("{target:.2}{}", missed(*ratio, target)));
        let medians = match (self.ours_seconds, self.theirs_seconds) {
            (0.0, 0.0) => "–".to_owned(),
            (ours, theirs) => format!("{} / {}", seconds(ours), seconds(theirs)),
        };
        format!("| {what} | {against} | {ratio:.2} | {target} | {medians} | {pairs} |")
    }
}

impl Account {
    fn table(&self) -> String {
        let runs = if self.runs == 1 { "one run".to_owned() } else { format!("medians of {} runs", self.runs) };
        let mut text = format!("\n**{}** ({runs}):\n\n| | step | |\n|---|---|---|\n", self.what);
        let mut phase = "";
        for entry in &self.entries {
            let shown = if entry.phase == phase { "" } else { &entry.phase };
            phase = &entry.phase;
            let own = if entry.is_own { " (not counted)" } else { "" };
            text.push_str(&format!("| {shown} | {}{own} | {} |\n", entry.step, seconds(entry.seconds)));
        }
        text
    }
}

fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.1} ms", value * 1e3) } else { format!("{value:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_ratios_is_not_the_ratio_of_medians() {
        let sample = Sample { ours: vec![1.0, 4.0, 9.0], theirs: vec![2.0, 2.0, 3.0] };
        assert!((sample.ratio() - 2.0).abs() < 1e-9);
        assert!((median([1.0, 2.0, 4.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn an_exponent_tells_linear_from_flat_and_square() {
        let grown = |power: i32| [500_usize, 1000, 2000].map(|n| (n, 3.0 * (n as f64).powi(power)));
        for power in 0..3 {
            assert!((exponent(&grown(power)) - f64::from(power)).abs() < 1e-9);
        }
    }
}
