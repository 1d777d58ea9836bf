//! Progress on stderr: a bar on a terminal, lines or JSON lines where asked for, nothing in cron.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::common::ProgressMode;
use crate::people::{People, write_line};

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

/// The progress of one piece of work; it disappears when it is dropped.
pub struct Progress {
    what: String,
    unit: Unit,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { json: bool, last: Mutex<Option<Instant>> },
    Nothing,
}

impl Progress {
    pub(crate) fn start(people: &People, what: &str, unit: Unit) -> Self {
        let shown = match people.progress() {
            ProgressMode::None => Shown::Nothing,
            ProgressMode::Auto => Shown::Bar(bar(what, unit)),
            mode => Shown::Lines { json: mode == ProgressMode::Json, last: Mutex::default() },
        };
        Self { what: what.to_owned(), unit, shown }
    }

    /// Whether anybody sees it: where not, nobody need find out how far the work is.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        !matches!(self.shown, Shown::Nothing)
    }

    /// How far the work is; `total` is 0 while nobody knows it.
    pub fn set(&self, done: u64, total: u64) {
        match &self.shown {
            Shown::Bar(bar) => {
                if total > 0 {
                    bar.set_length(total);
                }
                bar.set_position(done);
            }
            Shown::Lines { json, last } => {
                let mut last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if last.is_none_or(|last| last.elapsed() >= PACE) {
                    *last = Some(Instant::now());
                    write_line(&self.line(*json, done, total));
                }
            }
            Shown::Nothing => {}
        }
    }

    /// What is at work just now, such as the table of a dump.
    pub fn at(&self, text: &str) {
        if let Shown::Bar(bar) = &self.shown {
            bar.set_message(text.to_owned());
        }
    }

    fn line(&self, json: bool, done: u64, total: u64) -> String {
        let unit = match self.unit {
            Unit::Bytes => "bytes",
            Unit::Items(name) => name,
        };
        if json {
            serde_json::json!({"progress": self.what, "unit": unit, "done": done, "total": total}).to_string()
        } else if total > 0 {
            format!("{}: {done} of {total} {unit}", self.what)
        } else {
            format!("{}: {done} {unit}", self.what)
        }
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
    let template = match unit {
        Unit::Bytes => "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}",
        Unit::Items(_) => "{prefix} [{bar:30}] {pos}/{len} {eta} {msg}",
    };
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
