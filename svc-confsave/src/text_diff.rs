//! The unified text diff for people. Lines are compared as they are and shown as they may be.

use std::ops::Range;
use std::time::Duration;

use similar::{DiffTag, TextDiff};
use svc_step::line_secrets::lines;

use crate::hidden::Hidden;
use crate::redact::Redactor;

/// Beyond this the diff becomes coarser, not wrong.
const PATIENCE: Duration = Duration::from_secs(5);

/// One side of a diff.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub hidden: &'a [Hidden],
}

/// The diff of two texts; empty where they are the same but for their line ends.
pub(crate) fn unified(old: Side<'_>, new: Side<'_>, redactor: &Redactor) -> String {
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (lines(old.text).collect(), lines(new.text).collect());
    let diff = TextDiff::configure().timeout(PATIENCE).diff_slices(&old_lines, &new_lines);
    let groups = diff.grouped_ops(3);
    if groups.iter().flatten().all(|op| op.tag() == DiffTag::Equal) {
        return String::new();
    }
    let old_lines = redactor.lines(old.text, old.hidden);
    let new_lines = redactor.lines(new.text, new.hidden);
    let mut out = format!("--- {}\n+++ {}\n", old.name, new.name);
    let shown = |sign: char, lines: &[String], range: Range<usize>| -> String {
        let lines = lines.get(range).unwrap_or_default();
        lines.iter().map(|line| format!("{sign}{}\n", redactor.text(line))).collect()
    };
    for group in groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (from, to) = (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        out.push_str(&format!("@@ -{} +{} @@\n", position(&from), position(&to)));
        for op in &group {
            let (tag, from, to) = op.as_tag_tuple();
            match tag {
                DiffTag::Equal => out.push_str(&shown(' ', &new_lines, to)),
                _ => {
                    out.push_str(&shown('-', &old_lines, from));
                    out.push_str(&shown('+', &new_lines, to));
                }
            }
        }
    }
    out
}

fn position(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    #[test]
    fn a_changed_secret_is_a_changed_line_that_shows_nothing() {
        let (old, new) = ("a: 1\r\npassword: old-one\r\nb: 2\r\n", "a: 1\npassword: new-one\nb: 3\n");
        let (old_read, new_read) = (yaml::read(old).unwrap(), yaml::read(new).unwrap());
        let old = Side { name: "saved", text: old, hidden: &old_read.hidden };
        let new = Side { name: "new", text: new, hidden: &new_read.hidden };
        let wanted = "--- saved\n+++ new\n@@ -1,3 +1,3 @@\n a: 1\n-password: <redacted>\n-b: 2\n+password: <redacted>\n+b: 3\n";
        assert_eq!(unified(old, new, &Redactor::default()), wanted);
        assert_eq!(unified(old, old, &Redactor::default()), "");
    }

    #[test]
    fn a_line_that_a_lone_carriage_return_ends_is_a_line() {
        let texts = ["a: 1\rpassword: |\r  hunter2 x\rpin: 4711\rb: 2\r", "a: 1\rpassword: |\r  hunter3 x\rpin: 4712\rb: 2\r"];
        let read = texts.map(|text| yaml::read(text).unwrap());
        let [old, new] = [0, 1].map(|at| Side { name: "f", text: texts[at], hidden: &read[at].hidden });
        let diff = unified(old, new, &Redactor::default());
        assert!(["hunter", "471", "\r"].iter().all(|gone| !diff.contains(gone)), "{diff}");
        assert!(diff.contains(" a: 1\n") && diff.contains("-pin: <redacted>\n") && diff.contains(" b: 2\n"), "{diff}");
    }

    #[test]
    fn short_secrets_on_lines_of_their_own_are_left_out_too() {
        let texts = ["pin: |\n  4711\ntokens:\n  - abc\nx: 1\n", "pin: |\n  4712\ntokens:\n  - abd\nx: 2\n"];
        let read = texts.map(|text| yaml::read(text).unwrap());
        let [old, new] = [0, 1].map(|at| Side { name: "f", text: texts[at], hidden: &read[at].hidden });
        let diff = unified(old, new, &Redactor::default());
        assert!(["471", "ab"].iter().all(|gone| !diff.contains(gone)), "{diff}");
        assert!(diff.contains("-  <redacted>\n") && diff.contains("-  - <redacted>\n") && diff.contains("+x: 2\n"), "{diff}");
    }
}
