//! What was measured, as a table and as JSON. No figure is written by hand: the tool's page gets the table from here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::sample::{Sample, exponent, median};

/// Between these lines of a page stands the table.
const BEGIN: &str = "<!-- measured: written by tests/bench/run, not by hand -->";
const END: &str = "<!-- measured: end -->";

/// Time that grows by at most this power is linear, as far as a few sizes and a busy server tell.
const LINEAR: f64 = 1.2;
/// Memory that grows by at most this power is flat: a document names everything that it speaks of, and so grows a little.
const FLAT: f64 = 0.5;

/// Where a report goes beside the terminal.
#[derive(Debug, clap::Args)]
pub struct Places {
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A page with a place for the table
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// All that was measured on one machine and server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// The machine and the server.
    pub measured_on: String,
    /// One thing beside another.
    pub ratios: Vec<Ratio>,
    /// One thing at several sizes.
    pub growth: Vec<Growth>,
    /// What runs spent their time on.
    #[serde(default)]
    pub accounts: Vec<Account>,
    /// What could not be measured, and why.
    pub left_out: Vec<String>,
}

/// One thing beside another.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    pub size: usize,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    /// What `curl` took for the same requests, where it was measured beside it.
    pub curl_seconds: Option<f64>,
}

impl Growth {
    /// What was measured at each size.
    pub fn of(what: String, points: Vec<Point>) -> Self {
        let power = |value: fn(&Point) -> f64| exponent(&points.iter().map(|one| (one.size, value(one))).collect::<Vec<_>>());
        Self {
            what,
            time_exponent: power(|one| one.seconds),
            // Less than the clock's 10 ms is none.
            cpu_exponent: power(|one| one.cpu_seconds.max(0.01)),
            memory_exponent: power(|one| one.memory_bytes as f64),
            points,
        }
    }
}

impl Report {
    /// What earlier runs measured on the same machine and server, so that a part can be measured by itself (`--only`); nothing
    /// where there is no such file.
    pub fn of(measured_on: String, places: &Places) -> Self {
        let text = places.json.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let earlier = serde_json::from_str::<Self>(&text).ok().filter(|earlier| earlier.measured_on == measured_on);
        earlier.unwrap_or(Self { measured_on, ..Self::default() })
    }

    /// Prints the table and keeps the figures, whatever came then; what missed its target.
    pub fn close(&self, measured: Result<()>, places: &Places) -> Result<Vec<String>> {
        println!("{}", self.table(false));
        if let Some(path) = &places.json {
            self.write_json(path)?;
        }
        measured?;
        if let Some(path) = &places.page {
            self.write_page(path)?;
        }
        Ok(self.missed())
    }

    /// Adds one thing beside another.
    pub fn ratio(&mut self, what: &str, against: &str, target: Option<f64>, sample: &Sample) {
        self.add(Ratio {
            what: what.to_owned(),
            against: against.to_owned(),
            ratio: sample.ratio(),
            target,
            pairs: sample.ours.len(),
            ours_seconds: median(sample.ours.iter().copied()),
            theirs_seconds: median(sample.theirs.iter().copied()),
        });
    }

    /// Adds a row.
    pub fn add(&mut self, ratio: Ratio) {
        eprintln!("{}", row(&ratio));
        replace(&mut self.ratios, ratio, |one, other| (&one.what, &one.against) == (&other.what, &other.against));
    }

    /// Adds one thing at several sizes.
    pub fn growth(&mut self, growth: Growth) {
        eprintln!("{}", line(&growth));
        replace(&mut self.growth, growth, |one, other| one.what == other.what);
    }

    /// Adds what a run spent its time on.
    pub fn account(&mut self, account: Account) {
        replace(&mut self.accounts, account, |one, other| one.what == other.what);
    }

    /// What missed its target.
    pub fn missed(&self) -> Vec<String> {
        let ratios = self.ratios.iter().filter(|one| one.target.is_some_and(|target| one.ratio > target)).map(row);
        let grows = |one: &&Growth| one.time_exponent > LINEAR || one.cpu_exponent > LINEAR || one.memory_exponent > FLAT;
        ratios.chain(self.growth.iter().filter(grows).map(line)).collect()
    }

    /// The tables, in Markdown; a page has no room for how it grows.
    fn table(&self, is_page: bool) -> String {
        let mut text = format!("Measured on {}.\n\n", self.measured_on);
        if !self.ratios.is_empty() {
            text.push_str("| | against | ratio | at most | medians | pairs |\n|---|---|---|---|---|---|\n");
            self.ratios.iter().for_each(|one| text.extend([row(one), "\n".to_owned()]));
        }
        if !self.growth.is_empty() && !is_page {
            text.push_str("\n| | size: seconds, memory | time | computing | memory |\n|---|---|---|---|---|\n");
            self.growth.iter().for_each(|one| text.extend([line(one), "\n".to_owned()]));
        }
        self.accounts.iter().for_each(|one| text.extend(["\n".to_owned(), one.table()]));
        self.left_out.iter().for_each(|one| text.push_str(&format!("\nNot measured: {one}.\n")));
        text
    }

    /// Writes all of it as JSON.
    fn write_json(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string_pretty(self)?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts the table into a page, in the place that the page has for it.
    fn write_page(&self, path: &Path) -> Result<()> {
        let page = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
        let (head, tail) = parts.with_context(|| format!("{} has no lines {BEGIN} and {END}", path.display()))?;
        ensure!(!tail.contains(BEGIN), "{} has two places for the table", path.display());
        Ok(fs::write(path, format!("{head}{BEGIN}\n{}{END}{tail}", self.table(true)))?)
    }
}

/// What is measured again stands in its place.
fn replace<T>(all: &mut Vec<T>, one: T, is_same: impl Fn(&T, &T) -> bool) {
    match all.iter_mut().find(|other| is_same(other, &one)) {
        Some(other) => *other = one,
        None => all.push(one),
    }
}

fn line(one: &Growth) -> String {
    let points: Vec<String> = one.points.iter().map(point).collect();
    let power = |exponent: f64, most: f64| format!("n^{exponent:.2}{}", if exponent > most { " **missed**" } else { "" });
    let (time, cpu) = (power(one.time_exponent, LINEAR), power(one.cpu_exponent, LINEAR));
    format!("| {} | {} | {time} | {cpu} | {} |", one.what, points.join("; "), power(one.memory_exponent, FLAT))
}

fn row(one: &Ratio) -> String {
    let target = one.target.map_or("–".to_owned(), |target| {
        let verdict = if one.ratio > target { " **missed**" } else { "" };
        format!("{target:.2}{verdict}")
    });
    // What is no time has none.
    let medians = match (one.ours_seconds, one.theirs_seconds) {
        (0.0, 0.0) => "–".to_owned(),
        (ours, theirs) => format!("{} / {}", seconds(ours), seconds(theirs)),
    };
    format!("| {} | {} | {:.2} | {target} | {medians} | {} |", one.what, one.against, one.ratio, one.pairs)
}

fn point(one: &Point) -> String {
    let curl = one.curl_seconds.map_or(String::new(), |curl| format!(" (curl {})", seconds(curl)));
    format!("{}: {}{curl}, {:.1} MB", one.size, seconds(one.seconds), one.memory_bytes as f64 / 1e6)
}

pub fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.1} ms", value * 1e3) } else { format!("{value:.2} s") }
}
