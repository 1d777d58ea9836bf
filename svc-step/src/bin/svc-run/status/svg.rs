//! A run as a picture: a bar for each step on one axis of time, so that what ran in parallel is drawn in parallel; the downtime is shaded.
//! The steps of a script that is a step are drawn below it: those of the backup of a nightly run, and of each hop.

use std::fmt::Write;
use std::path::Path;

use jiff::Timestamp;
use svc_step::journal::{self, Journal};
use svc_step::table::{clean, duration, local};

use super::show::{label, title};
use super::{StatusResult, StepStatus};
use crate::report;

/// The width of the picture, and where on it the bars begin and end.
const WIDTH: u64 = 960;
const LEFT: u64 = 230;
const RIGHT: u64 = 860;
/// Where the first row begins, and the height of a row.
const TOP: u64 = 84;
const ROW: u64 = 22;
/// How many letters of a text fit above the rows.
const LETTERS: usize = 130;
/// Parts of the axis.
const TICKS: u64 = 5;

/// What is drawn.
#[derive(Default)]
pub struct Picture {
    steps: Vec<Bar>,
    /// From when to when the service was down.
    downtimes: Vec<(u64, Option<u64>)>,
}

/// A step, when it began, and in how many scripts that are steps it is one.
struct Bar {
    step: StepStatus,
    begun: u64,
    depth: usize,
}

impl Picture {
    /// Adds the steps of a run, and below a step those of the run that it is.
    pub fn add(&mut self, run: &Journal, steps: &[StepStatus], depth: usize) {
        let attempts = run.attempts();
        self.downtimes.extend(report::downtime(&attempts));
        let runs = run.dir().parent().and_then(Path::parent).map(journal::runs).unwrap_or_default();
        let nested = runs.into_iter().rev().filter(|other| other.plan().parent.as_deref() == Some(run.id()));
        let mut nested: Vec<(u64, Journal)> =
            nested.filter_map(|other| Some((other.attempts().first()?.begun_ms, other))).collect();
        for (step, attempt) in steps.iter().zip(&attempts) {
            self.steps.push(Bar { step: step.clone(), begun: attempt.begun_ms, depth });
            let later =
                attempts.iter().map(|one| one.begun_ms).filter(|begun| *begun > attempt.begun_ms).min().unwrap_or(u64::MAX);
            let (own, others) = nested.into_iter().partition(|(begun, _)| (attempt.begun_ms..later).contains(begun));
            nested = others;
            for (_, other) in own {
                self.add(&other, &super::steps(&other.attempts(), other.is_running(), None), depth + 1);
            }
        }
    }

    /// The steps as an SVG.
    pub fn draw(&self, status: &StatusResult) -> String {
        draw(status, &self.steps, &self.downtimes)
    }
}

fn draw(status: &StatusResult, steps: &[Bar], downtimes: &[(u64, Option<u64>)]) -> String {
    let axis = Axis::of(steps);
    let bottom = TOP + ROW * steps.len() as u64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        height = bottom + 40
    );
    svg.push_str(&text(16, 24, "font-size=\"16\"", &title(status)));
    svg.push_str(&text(16, 44, "", &status.message));
    for (from, to) in downtimes {
        // One that the run has not ended lasts to the end of the picture.
        let (x, end) = (axis.at(*from), axis.at(to.unwrap_or(u64::MAX)));
        let _ = writeln!(
            svg,
            "<rect class=\"downtime\" x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f6dede\"/>",
            TOP - 18,
            (end - x).max(1),
            bottom - TOP + 18
        );
        let said = to.map_or("service down".to_owned(), |to| format!("service down for {}", duration(to - from)));
        // To the left of its end where it would leave the picture.
        let (x, anchor) = if x > (LEFT + RIGHT) / 2 { (end, "end") } else { (x, "start") };
        svg.push_str(&text(x, TOP - 22, &format!("fill=\"#a33030\" text-anchor=\"{anchor}\""), &said));
    }
    for tick in 0..=TICKS {
        let (x, ms) = (LEFT + (RIGHT - LEFT) * tick / TICKS, axis.length * tick / TICKS);
        let _ = writeln!(svg, "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#d8d8d8\"/>");
        let said = if tick == 0 { axis.begins() } else { duration(ms) };
        svg.push_str(&text(x, bottom + 18, "fill=\"#606060\" text-anchor=\"middle\"", &said));
    }
    for (at, bar) in steps.iter().enumerate() {
        svg.push_str(&row(&axis, bar, TOP + ROW * at as u64));
    }
    svg.push_str("</svg>\n");
    svg
}

fn row(axis: &Axis, Bar { step, begun, depth }: &Bar, y: u64) -> String {
    let x = axis.at(*begun);
    let width = axis.at(begun + step.duration_ms.unwrap_or(0)).saturating_sub(x).max(2);
    let colour = match step.state.as_str() {
        "ok" | "ended with 0" => "#4a8f5a",
        "running" | "outcome unknown" => "#c9962c",
        _ => "#b03a3a",
    };
    let took = step.duration_ms.map(duration).unwrap_or_default();
    let said = if step.state == "ok" { took } else { format!("{took} {}", step.state) };
    let bar = format!(
        "<rect class=\"step\" x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"2\" fill=\"{colour}\"/>\n",
        y + 4,
        ROW - 8
    );
    // What has no space to the right of its bar stands to the left of it.
    let beside = if x + width > RIGHT - 40 && x > LEFT + 120 {
        text(x - 6, y + 15, "text-anchor=\"end\"", said.trim())
    } else {
        text(x + width + 6, y + 15, "", said.trim())
    };
    format!("{bar}{}{beside}", text(LEFT - 10, y + 15, "text-anchor=\"end\"", &format!("{}{}", "› ".repeat(*depth), label(step))))
}

/// From the first step's begin to the last one's end.
struct Axis {
    from: u64,
    length: u64,
}

impl Axis {
    fn of(steps: &[Bar]) -> Self {
        let from = steps.iter().map(|bar| bar.begun).min().unwrap_or(0);
        let ends = steps.iter().map(|bar| bar.begun + bar.step.duration_ms.unwrap_or(0));
        Self { from, length: ends.max().unwrap_or(0).saturating_sub(from).max(1) }
    }

    /// Where a time stands, in pixels.
    fn at(&self, ms: u64) -> u64 {
        let since = ms.saturating_sub(self.from).min(self.length);
        LEFT + u64::try_from(u128::from(RIGHT - LEFT) * u128::from(since) / u128::from(self.length)).unwrap_or(0)
    }

    fn begins(&self) -> String {
        let begun = i64::try_from(self.from).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
        local(begun).get(11..).unwrap_or_default().to_owned()
    }
}

fn text(x: u64, y: u64, attributes: &str, said: &str) -> String {
    let said = clean(said);
    let cut: String = said.chars().take(LETTERS).collect();
    let more = if cut.len() < said.len() { "…" } else { "" };
    format!("<text x=\"{x}\" y=\"{y}\" {attributes}>{}{more}</text>\n", escaped(&cut))
}

/// As XML has it; what XML does not allow at all is removed before.
fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|letter| !matches!(letter, '\u{fffe}' | '\u{ffff}')).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
