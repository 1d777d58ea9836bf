//! Progress on stderr: a bar on a terminal, lines or JSON lines if asked for, nothing in cron.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::common::ProgressMode;
use crate::reporter::{Reporter, write_line};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in powers of 1024.
    Bytes,
    /// Anything else, such as shards or rows.
    Items(&'static str),
}

/// How often plain and JSON lines come.
const PACE: Duration = Duration::from_secs(10);

/// Parts of the work that are complete or not, such as shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// What they are called.
    pub name: &'static str,
    /// How many are complete.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// When lines came, and what is in progress.
#[derive(Debug, Default)]
struct Pace {
    started: Option<Instant>,
    last: Option<Instant>,
    at: String,
}

/// The progress of one piece of work; it disappears when it is dropped.
pub struct Progress {
    what: String,
    unit: Unit,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { json: bool, pace: Mutex<Pace> },
    Nothing,
}

impl Progress {
    /// Shows it if it is wanted.
    pub fn start(reporter: &Reporter, what: &str, unit: Unit) -> Self {
        let shown = match reporter.progress() {
            ProgressMode::None => Shown::Nothing,
            ProgressMode::Auto => Shown::Bar(bar(what, unit)),
            mode => Shown::Lines { json: mode == ProgressMode::Json, pace: Mutex::default() },
        };
        Self { what: what.to_owned(), unit, shown }
    }

    /// Whether anybody sees it: if not, nobody need find out how far the work is.
    pub const fn is_shown(&self) -> bool {
        !matches!(self.shown, Shown::Nothing)
    }

    /// How far the work is, and how many of its parts are complete; `total` is 0 while it is unknown. One that is passed was an
    /// estimate that did not hold: it counts as not known.
    pub fn set(&self, done: u64, total: u64, parts: Option<&Parts>) {
        let total = if total < done { 0 } else { total };
        match &self.shown {
            Shown::Bar(bar) => {
                if bar.length().unwrap_or(0) != total {
                    bar.set_style(style(self.unit, total > 0));
                    if total > 0 { bar.set_length(total) } else { bar.unset_length() }
                }
                if let Some(parts) = parts {
                    bar.set_message(parts.to_string());
                }
                bar.set_position(done);
            }
            Shown::Lines { json, pace } => {
                self.write_now_and_then(pace, |at, since| self.line(*json, done, total, parts, at, since))
            }
            Shown::Nothing => {}
        }
    }

    /// What is in progress just now, such as the table of a dump.
    pub fn at(&self, text: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.set_message(text.to_owned()),
            Shown::Lines { pace, .. } => text.clone_into(&mut locked(pace).at),
            Shown::Nothing => {}
        }
    }

    fn write_now_and_then(&self, pace: &Mutex<Pace>, line: impl FnOnce(&str, Duration) -> String) {
        let mut pace = locked(pace);
        let started = *pace.started.get_or_insert_with(Instant::now);
        if pace.last.is_none_or(|last| last.elapsed() >= PACE) {
            pace.last = Some(Instant::now());
            write_line(&line(&pace.at, started.elapsed()));
        }
    }

    fn line(&self, json: bool, done: u64, total: u64, parts: Option<&Parts>, at: &str, since: Duration) -> String {
        let unit = match self.unit {
            Unit::Bytes => "bytes",
            Unit::Items(name) => name,
        };
        let speed = Speed::of(done, total, since);
        let at = Some(at).filter(|at| !at.is_empty());
        if json {
            let mut line = serde_json::json!({"progress": self.what, "unit": unit, "done": done, "total": total,
                "per_second": speed.per_second, "left_ms": speed.left.map(|left| left.as_millis()),
                "at": at});
            if let (Some(line), Some(parts)) = (line.as_object_mut(), parts) {
                line.insert(parts.name.to_owned(), serde_json::json!({"done": parts.done, "total": parts.total}));
            }
            return line.to_string();
        }
        let mut text = match total {
            0 => format!("{}: {done} {unit}", self.what),
            _ => format!("{}: {done} of {total} {unit}", self.what),
        };
        let more = [
            parts.map(Parts::to_string),
            speed.per_second.map(|rate| format!("{rate} {unit}/s")),
            speed.left.map(|left| format!("{} s left", left.as_secs())),
            at.map(str::to_owned),
        ];
        more.into_iter().flatten().for_each(|more| text.push_str(&format!(", {more}")));
        text
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} {}", self.done, self.total, self.name)
    }
}

fn locked(pace: &Mutex<Pace>) -> std::sync::MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How fast a piece of work goes, as far as it can be told.
#[derive(Debug, PartialEq, Eq)]
struct Speed {
    per_second: Option<u64>,
    left: Option<Duration>,
}

impl Speed {
    fn of(done: u64, total: u64, since: Duration) -> Self {
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let per_second = done.saturating_mul(1000).checked_div(millis);
        let left = per_second.and_then(|rate| total.checked_sub(done)?.checked_div(rate)).map(Duration::from_secs);
        Self { per_second, left: left.filter(|_| total > 0) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &str, unit: Unit) -> ProgressBar {
    let bar = ProgressBar::no_length().with_style(style(unit, false));
    let stderr = Term::stderr();
    if !stderr.is_term() {
        // It is a file that is copied to a terminal; its width is unknown here.
        bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(stderr), 4));
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// The bar itself comes last, in the space that is left: a narrow terminal cuts it and nothing that says something.
fn style(unit: Unit, is_total_known: bool) -> ProgressStyle {
    let template = match (unit, is_total_known) {
        (Unit::Bytes, true) => "{prefix}: {bytes}/{total_bytes} {msg} {bytes_per_sec}, {eta} left [{wide_bar}]",
        (Unit::Bytes, false) => "{spinner} {prefix}: {bytes} {msg} {bytes_per_sec}",
        (Unit::Items(_), true) => "{prefix}: {pos}/{len} {msg} {eta} left [{wide_bar}]",
        (Unit::Items(_), false) => "{spinner} {prefix}: {pos} {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_has_rate_and_time_left_only_if_known() {
        let speed = |per_second, left| Speed { per_second, left };
        assert_eq!(Speed::of(100, 300, Duration::from_secs(2)), speed(Some(50), Some(Duration::from_secs(4))));
        assert_eq!(Speed::of(100, 0, Duration::from_secs(2)), speed(Some(50), None));
        assert_eq!(Speed::of(0, 300, Duration::from_secs(2)), speed(Some(0), None));
        assert_eq!(Speed::of(100, 300, Duration::ZERO), speed(None, None));
    }

    #[test]
    fn progress_line_has_parts_rate_and_time_left() {
        let progress = Progress { what: "restore".to_owned(), unit: Unit::Bytes, shown: Shown::Nothing };
        let parts = Parts { name: "shards", done: 1, total: 4 };
        let line = |json| progress.line(json, 100, 300, Some(&parts), "COPY t", Duration::from_secs(2));
        assert_eq!(line(false), "restore: 100 of 300 bytes, 1 of 4 shards, 50 bytes/s, 4 s left, COPY t");
        let json: serde_json::Value = serde_json::from_str(&line(true)).unwrap();
        assert_eq!((&json["at"], json["unit"].as_str()), (&serde_json::json!("COPY t"), Some("bytes")));
        assert_eq!(json["shards"], serde_json::json!({"done": 1, "total": 4}));
        assert_eq!((&json["per_second"], &json["left_ms"]), (&serde_json::json!(50), &serde_json::json!(4000)));
    }
}
