//! What was measured, as a table and as JSON. No figure is written by hand: the tool's page gets the table from here.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::sample::{Sample, median};

/// Between these lines of a page stands the table.
const BEGIN: &str = "<!-- measured: written by tests/bench/run, not by hand -->";
const END: &str = "<!-- measured: end -->";

/// All that a run measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The machine and the server.
    pub measured_on: String,
    /// One thing beside another.
    pub ratios: Vec<Ratio>,
    /// One thing at several sizes.
    pub growth: Vec<Growth>,
    /// What could not be measured, and why.
    pub left_out: Vec<String>,
}

/// One thing beside another.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// Ours.
    pub what: String,
    /// The other.
    pub against: String,
    /// The median of the pairs' ratios (of a single quantity, itself).
    pub ratio: f64,
    /// What it may be at most.
    pub target: Option<f64>,
    /// How many pairs there were.
    pub pairs: usize,
    /// The medians of each, in seconds.
    pub ours_seconds: f64,
    pub theirs_seconds: f64,
}

/// One thing at several sizes.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    /// What was done.
    pub what: String,
    /// By which power it grows with the size: 1 is linear, 0 flat.
    pub time_exponent: f64,
    pub cpu_exponent: f64,
    pub memory_exponent: f64,
    /// What it took at each size.
    pub points: Vec<Point>,
}

/// What it took at one size.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    pub size: usize,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    /// What `curl` took for the same requests, where it was measured beside it.
    pub curl_seconds: Option<f64>,
}

impl Report {
    /// Adds one thing beside another.
    pub fn ratio(&mut self, what: &str, against: &str, target: Option<f64>, sample: &Sample) {
        self.ratios.push(Ratio {
            what: what.to_owned(),
            against: against.to_owned(),
            ratio: sample.ratio(),
            target,
            pairs: sample.ours.len(),
            ours_seconds: median(sample.ours.iter().copied()),
            theirs_seconds: median(sample.theirs.iter().copied()),
        });
        eprintln!("{}", self.ratios.last().map(row).unwrap_or_default());
    }

    /// What missed its target.
    pub fn missed(&self) -> Vec<String> {
        self.ratios.iter().filter(|one| one.target.is_some_and(|target| one.ratio > target)).map(row).collect()
    }

    /// The table, in Markdown.
    pub fn table(&self) -> String {
        let mut text = format!("Measured on {}.\n\n", self.measured_on);
        if !self.ratios.is_empty() {
            text.push_str("| | against | ratio | at most | medians | pairs |\n|---|---|---|---|---|---|\n");
            self.ratios.iter().for_each(|one| text.extend([row(one), "\n".to_owned()]));
        }
        if !self.growth.is_empty() {
            text.push_str("\n| | size: seconds, memory | time | computing | memory |\n|---|---|---|---|---|\n");
            for one in &self.growth {
                let points: Vec<String> = one.points.iter().map(point).collect();
                let power = |exponent: f64| format!("n^{exponent:.2}");
                let (time, cpu, memory) = (power(one.time_exponent), power(one.cpu_exponent), power(one.memory_exponent));
                let _ = writeln!(text, "| {} | {} | {time} | {cpu} | {memory} |", one.what, points.join("; "));
            }
        }
        self.left_out.iter().for_each(|one| text.push_str(&format!("\nNot measured: {one}.\n")));
        text
    }

    /// Writes all of it as JSON.
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

fn row(one: &Ratio) -> String {
    let target = one.target.map_or("–".to_owned(), |target| {
        let verdict = if one.ratio > target { " **missed**" } else { "" };
        format!("{target:.2}{verdict}")
    });
    let medians = format!("{} / {}", seconds(one.ours_seconds), seconds(one.theirs_seconds));
    format!("| {} | {} | {:.2} | {target} | {medians} | {} |", one.what, one.against, one.ratio, one.pairs)
}

fn point(one: &Point) -> String {
    let curl = one.curl_seconds.map_or(String::new(), |curl| format!(" (curl {})", seconds(curl)));
    format!("{}: {}{curl}, {:.1} MB", one.size, seconds(one.seconds), one.memory_bytes as f64 / 1e6)
}

fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.1} ms", value * 1e3) } else { format!("{value:.2} s") }
}
