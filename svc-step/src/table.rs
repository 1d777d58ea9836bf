//! A document for people: lines and tables that fit 80 columns, times local and ages relative, sizes readable, colour only for the
//! verdict. Values may hold control characters and terminal escapes, which a terminal would obey: they are removed.

use std::io::IsTerminal;

use console::{Style, measure_text_width, truncate_str};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::clean::{clean, clean_lines};
use crate::reporter::{self, bytes};

/// What every table fits into.
const WIDTH: usize = 80;
/// A cell is cut to this width.
const CELL: usize = 40;
/// The first cell of a row is its name.
const NAME: usize = 64;
/// Between two columns.
const GAP: usize = 2;

/// Which columns of a list come first; the others follow in the order of the document, as far as they fit.
const FIRST: &[(&str, &[&str])] = &[
    ("points", &["id", "state", "made_at", "size_bytes", "quiesced", "version", "kind"]),
    ("snapshots", &["name", "state", "started_at", "indices_count", "kind", "duration_ms"]),
    ("captured", &["name", "docs_count", "docs_exact"]),
    ("disks", &["node", "level", "available_bytes", "high_watermark_bytes"]),
    ("changed", &["path", "saved", "new"]),
    ("copies", &["point_id", "host", "made_at", "has_repository"]),
];
/// Keys whose value is a verdict, with the values that are shown in green and in red.
const VERDICTS: [&str; 5] = ["state", "status", "verdict", "level", "active_state"];
const GREEN: [&str; 7] = ["valid", "SUCCESS", "ok", "verified", "green", "free", "active"];
const RED: [&str; 7] = ["damaged", "FAILED", "PARTIAL", "INCOMPATIBLE", "failed", "red", "past_flood_stage"];

/// A document as a person reads it. A result with a `summary` is that sentence.
pub fn document(json: &str, exit_code: u8) -> String {
    let document: Value = serde_json::from_str(json).unwrap_or_default();
    let result = document.get("result").unwrap_or(&Value::Null);
    if let Some(summary) = result.get("summary").and_then(Value::as_str) {
        return format!("{}\n", clean(summary));
    }
    let mut text = result.as_object().map(|result| lines(result, "")).unwrap_or_default();
    // On a terminal they are on stderr already.
    if !reporter::is_watched() {
        for warning in document.get("warnings").and_then(Value::as_array).into_iter().flatten() {
            let message = warning.get("message").and_then(Value::as_str).unwrap_or_default();
            text.push_str(&format!("warning: {}\n", clean_lines(message)));
        }
    }
    text.push_str(&verdict(&document, exit_code));
    text
}

fn verdict(document: &Value, exit_code: u8) -> String {
    let string = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(clean).unwrap_or_default();
    let (said, style) = match (document.get("ok").and_then(Value::as_bool), exit_code) {
        (Some(true), 0) => ("ok".to_owned(), Style::new().green()),
        (Some(true), _) => ("done; read the warnings".to_owned(), Style::new().yellow()),
        _ => (format!("failed: {}", string("/error/code")), Style::new().red()),
    };
    let tool = string("/tool").split(' ').next().unwrap_or_default().to_owned();
    format!("{tool} {}: {}\n", string("/step"), painted(&said, style))
}

/// The members of an object: single values first, then its lists, each as a table.
fn lines(object: &Map<String, Value>, parent: &str) -> String {
    let mut singles = Vec::new();
    collect(object, parent, &mut singles);
    let width = singles.iter().map(|(label, ..)| measure_text_width(label)).max().unwrap_or(0).min(CELL);
    let mut text = String::new();
    for (label, key, value) in singles {
        match value {
            Value::String(block) if block.trim_end().contains('\n') => {
                let block = clean_lines(block.trim_end()).replace('\n', "\n  ");
                text.push_str(&format!("{label}\n  {block}\n"));
            }
            value => {
                let shown = single(key, value);
                // A name or a path is not cut if a line of its own is wide enough.
                let indent = if is_word_wider(&shown, WIDTH - width - GAP) { 2 } else { width + GAP };
                let gap = if indent == 2 {
                    "\n".to_owned() + &" ".repeat(indent)
                } else {
                    " ".repeat(indent.saturating_sub(measure_text_width(&label)).max(1))
                };
                let shown = coloured(key, value, wrapped(&shown, indent));
                text.push_str(format!("{label}{gap}{shown}").trim_end());
                text.push('\n');
            }
        }
    }
    for (key, list) in object.iter().filter_map(|(key, value)| Some((key, value.as_array()?))) {
        let rows: Vec<&Map<String, Value>> = list.iter().filter_map(Value::as_object).collect();
        if !rows.is_empty() {
            let before = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{before}{} ({})\n{}", label(key), rows.len(), of_rows(key, &rows)));
        }
    }
    text
}

/// The single values of an object and of those within it, with their labels. What is the same as its neighbour is told once.
fn collect<'a>(object: &'a Map<String, Value>, parent: &str, found: &mut Vec<(String, &'a str, &'a Value)>) {
    let mut before: Option<&Value> = None;
    for (key, value) in object {
        let name = if parent.is_empty() { label(key) } else { format!("{parent} {}", label(key)) };
        match value {
            Value::Null => {}
            Value::Object(within) if before == Some(value) || within.is_empty() => {}
            Value::Object(within) => collect(within, &name, found),
            Value::Array(list) if list.iter().any(Value::is_object) => {}
            // The same as a time, for programs.
            _ if key.ends_with("_epoch_ms") => {}
            value => found.push((name, key, value)),
        }
        before = Some(value);
    }
}

/// `size_bytes` as a person calls it.
fn label(key: &str) -> String {
    let units = ["_bytes", "_ms", "_at", "_count"];
    let name = units.iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key);
    clean(&name.replace('_', " "))
}

/// A table of the rows of a list. A list within a row is a line below it.
fn of_rows(name: &str, rows: &[&Map<String, Value>]) -> String {
    let first = FIRST.iter().find(|(key, _)| *key == name).map_or(&[][..], |(_, columns)| *columns);
    let keys = rows.iter().flat_map(|row| row.keys().map(String::as_str));
    let mut columns: Vec<&str> = Vec::new();
    for key in first.iter().copied().chain(keys) {
        let is_told = |row: &&Map<String, Value>| row.get(key).is_some_and(|value| !value.is_null() && !is_nested(value));
        if !columns.contains(&key) && !key.ends_with("_epoch_ms") && rows.iter().any(is_told) {
            columns.push(key);
        }
    }
    let mut table = Table::new(&columns.iter().map(|key| label(key)).collect::<Vec<_>>());
    for row in rows {
        let cells = columns.iter().map(|key| {
            let value = row.get(*key).unwrap_or(&Value::Null);
            let right = value.is_number();
            Cell { text: if is_nested(value) { String::new() } else { cell(key, value) }, style: style_of(key, value), right }
        });
        let lists = row.iter().filter(|(_, value)| value.as_array().is_some_and(|list| !list.is_empty() && !has_objects(list)));
        let below = lists.map(|(key, value)| format!("  {}: {}", label(key), cell(key, value))).collect();
        table.row(cells.collect(), below);
    }
    table.text()
}

fn is_nested(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn has_objects(list: &[Value]) -> bool {
    list.iter().any(is_nested)
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Option<Style>,
    right: bool,
}

impl Cell {
    /// A cell of that text.
    pub fn new(text: &str) -> Self {
        Self { text: clean(text), ..Self::default() }
    }

    /// A number: the right ends are one below the other.
    pub fn right(text: &str) -> Self {
        Self { right: true, ..Self::new(text) }
    }
}

/// Rows of cells whose columns fit [`WIDTH`]. The columns are in the order of their weight: one that does not fit is left out and named
/// below the table.
#[derive(Debug, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<(Vec<Cell>, Vec<String>)>,
}

impl Table {
    /// A table with these headings; without any it has no heading.
    pub fn new(header: &[String]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, and lines below it.
    pub fn row(&mut self, cells: Vec<Cell>, below: Vec<String>) {
        self.rows.push((cells, below));
    }

    /// How wide a column is.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|(cells, _)| cells.get(column)).map(|cell| measure_text_width(&cell.text));
        let widest = cells.chain(self.header.get(column).map(|name| measure_text_width(name))).max().unwrap_or(0);
        widest.min(if column == 0 { NAME } else { CELL })
    }

    /// The table, a line a row.
    pub fn text(&self) -> String {
        let count = self.rows.iter().map(|(cells, _)| cells.len()).max().unwrap_or(0);
        let (mut shown, mut left_out, mut used) = (Vec::new(), Vec::new(), 0);
        for column in 0..count {
            let width = self.width(column);
            let more = if used == 0 { width } else { GAP + width };
            if used + more <= WIDTH {
                shown.push((column, width));
                used += more;
            } else {
                left_out.extend(self.header.get(column).map(String::as_str));
            }
        }
        let line = |cells: &[Cell]| {
            let padded = shown.iter().map(|(column, width)| padded(cells.get(*column), *width));
            format!("{}\n", padded.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end())
        };
        let mut text = String::new();
        if !self.header.is_empty() {
            let is_right = |column: usize| self.rows.iter().any(|(cells, _)| cells.get(column).is_some_and(|cell| cell.right));
            let names = self.header.iter().enumerate();
            let names = names.map(|(column, name)| Cell { right: is_right(column), ..Cell::new(&name.to_uppercase()) });
            text.push_str(&line(&names.collect::<Vec<_>>()));
        }
        for (cells, below) in &self.rows {
            text.push_str(&line(cells));
            below.iter().for_each(|below| text.push_str(&format!("{}\n", truncate_str(&clean(below), WIDTH, "…"))));
        }
        if !left_out.is_empty() {
            let left_out = format!("in the document too: {}", left_out.join(", "));
            text.push_str(&format!("{}\n", wrapped(&left_out, 0)));
        }
        text
    }
}

fn padded(cell: Option<&Cell>, width: usize) -> String {
    let Some(cell) = cell else { return " ".repeat(width) };
    let text = truncate_str(&cell.text, width, "…").into_owned();
    let space = " ".repeat(width.saturating_sub(measure_text_width(&text)));
    let text = cell.style.clone().map_or_else(|| text.clone(), |style| painted(&text, style));
    if cell.right { format!("{space}{text}") } else { format!("{text}{space}") }
}

/// A value in a line of its own.
fn single(key: &str, value: &Value) -> String {
    match time(value) {
        Some(time) => format!("{} ({})", local(time), ago(time)),
        None => cell(key, value),
    }
}

/// A value in a column.
fn cell(key: &str, value: &Value) -> String {
    let number = value.as_u64();
    match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(_) if key.ends_with("_bytes") => number.map(bytes).unwrap_or_default(),
        Value::Number(_) if key.ends_with("_ms") => number.map(duration).unwrap_or_default(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => time(value).map_or_else(|| clean(text), ago),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().map(|one| cell(key, one)).collect::<Vec<_>>().join(", "),
        Value::Object(_) => clean(&value.to_string()),
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().filter(|text| text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T'))?.parse().ok()
}

/// A time as the clock on the wall shows it.
pub fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// How long ago a time is: `3 h ago`.
pub fn ago(time: Timestamp) -> String {
    let seconds = Timestamp::now().duration_since(time).as_secs();
    let apart = match seconds.unsigned_abs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    };
    if seconds < 0 { format!("in {apart}") } else { format!("{apart} ago") }
}

/// A number of milliseconds, for people.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 if ms % 1000 < 100 => format!("{} s", ms / 1000),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{} m {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Text over several lines; all but the first are indented. A word that is wider than a line is cut.
fn wrapped(text: &str, indent: usize) -> String {
    let width = WIDTH.saturating_sub(indent).max(CELL / 2);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let word = truncate_str(word, width, "…");
        let used = lines.last().map_or(0, |line| measure_text_width(line));
        match lines.last_mut() {
            Some(line) if used == 0 => line.push_str(&word),
            Some(line) if used + 1 + measure_text_width(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word.into_owned()),
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

fn is_word_wider(text: &str, width: usize) -> bool {
    text.split(' ').any(|word| measure_text_width(word) > width)
}

fn style_of(key: &str, value: &Value) -> Option<Style> {
    let text = value.as_str().filter(|_| VERDICTS.contains(&key))?;
    match text {
        text if GREEN.contains(&text) => Some(Style::new().green()),
        text if RED.contains(&text) => Some(Style::new().red()),
        _ => Some(Style::new().yellow()),
    }
}

fn coloured(key: &str, value: &Value, text: String) -> String {
    match style_of(key, value) {
        Some(style) => painted(&text, style),
        None => text,
    }
}

/// In colour, if stdout is a terminal and nobody has asked for none.
fn painted(text: &str, style: Style) -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_colour =
        std::io::stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|it| it != "dumb");
    style.force_styling(has_colour).apply_to(text).to_string()
}

#[cfg(test)]
mod tests;
