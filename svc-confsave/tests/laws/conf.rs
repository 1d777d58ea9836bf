//! Configurations of lines: sections, keys once and several times, both signs, comments, blank lines.

use proptest::prelude::*;

use crate::texts::{Line, Sample};

fn line() -> impl Strategy<Value = String> {
    let sign = prop::sample::select(vec![" = ", "=", ": ", " : ", ":"]);
    let value = prop::sample::select(vec!["0", "1", "", "two words", "\"quoted\"", "http://h:1/?a=b", "# no comment"]);
    let key = prop::sample::select(vec!["a", "b", "c.d", "s"]);
    let tail = prop::sample::select(vec!["", "", "  "]);
    prop_oneof![
        6 => (key, sign, value, tail).prop_map(|(key, sign, value, tail)| format!("{key}{sign}{value}{tail}")),
        1 => Just("# a comment".to_owned()),
        1 => Just("  ; another = one".to_owned()),
        1 => Just(String::new()),
    ]
}

fn lines(most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(line(), 0..most)
}

/// A file.
pub fn file() -> impl Strategy<Value = Sample> {
    let sections = prop::collection::btree_map(prop::sample::select(vec!["s", "t", "u v"]), lines(5), 0..4);
    let ends = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (lines(4), sections, ends).prop_map(|(top, sections, (crlf, marked, unended))| {
        let mut all: Vec<Line> = top.into_iter().map(|text| of(text, None)).collect();
        for (name, lines) in sections {
            all.push(Line::new(format!("[{name}]"), &[], true, false));
            all.extend(lines.into_iter().map(|text| of(text, Some(name))));
        }
        Sample::of(all, crlf, marked, unended)
    })
}

fn of(text: String, section: Option<&str>) -> Line {
    let is_comment = text.is_empty() || text.trim_start().starts_with(['#', ';']);
    let key = text.split(['=', ':']).next().unwrap_or_default().trim().to_owned();
    let owner: Vec<String> = if is_comment { Vec::new() } else { section.into_iter().map(str::to_owned).chain([key]).collect() };
    Line::new(text, &owner, is_comment, false)
}
