//! What psql says on its stderr, read for the sentence that matters.

use svc_pgdump::discreet;
use svc_step::Failure;

use super::failures::{lost, refused};

/// The first error that psql reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The line of the dump, where psql named one.
    pub(crate) line: Option<u64>,
    /// The server's or psql's own words.
    pub(crate) message: String,
    /// What followed: detail, hint, context.
    pub(crate) more: Vec<String>,
}

/// What psql names in front of a field of the server's answer and two spaces.
const FIELDS: [&str; 3] = ["DETAIL", "HINT", "CONTEXT"];

/// psql puts this before everything it says about its input.
const INPUT: &str = "psql:<stdin>:";

/// The first error in psql's stderr.
pub(crate) fn first(stderr: &str) -> Option<Complaint> {
    let mut lines = stderr.lines().skip_while(|line| marker(line).is_none());
    let (line, said) = marker(lines.next()?)?;
    let (code, message) = coded(&said);
    let more = more(code, lines.take_while(|line| marker(line).is_none()));
    Some(Complaint { line, message: discreet::message(code, message), more })
}

/// The SQLSTATE that a verbose psql puts before the message; empty where it is psql's own.
fn coded(said: &str) -> (&str, &str) {
    let is_code = |code: &str| code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    said.split_once(": ").filter(|(code, _)| is_code(code)).unwrap_or(("", said))
}

/// What followed, without the values of rows: the detail, the hint and the place; the rest (`LINE 1: …`) quotes the statement.
fn more<'a>(code: &str, lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for line in lines {
        match (line.split_once(":  "), parts.last_mut()) {
            (Some((field, text)), _) if FIELDS.contains(&field) => parts.push((field, text.to_owned())),
            (None, Some((_, text))) if !line.starts_with("LINE ") => text.extend(["\n", line]),
            _ => parts.push(("", String::new())),
        }
    }
    let kept = parts.into_iter().filter_map(|(field, text)| match field {
        "DETAIL" => discreet::detail(code, &text),
        "HINT" => Some(text),
        "CONTEXT" => discreet::place(&text),
        _ => None,
    });
    kept.collect()
}

/// The warnings of a load that went well.
pub(crate) fn warnings(stderr: &str) -> Vec<String> {
    let warned = stderr.lines().filter_map(|line| line.split_once("WARNING:"));
    warned.map(|(_, text)| coded(text.trim()).1.to_owned()).collect()
}

fn marker(line: &str) -> Option<(Option<u64>, String)> {
    let after = line.strip_prefix(INPUT);
    let (number, rest) = match after.and_then(|rest| rest.split_once(':')) {
        Some((number, rest)) => (number.parse().ok(), rest.trim_start()),
        None => (None, line.trim_start_matches("psql:").trim_start()),
    };
    let told = ["ERROR:", "FATAL:", "PANIC:", "error:"].iter().find_map(|mark| {
        let at = rest.find(mark)?;
        rest.get(at + mark.len()..).map(|text| text.trim().to_owned())
    })?;
    Some((number, told))
}

/// The failure of a load, from psql's exit status and words.
pub(crate) fn failure(exit_code: Option<i32>, stderr: &str) -> Failure {
    let Some(complaint) = first(stderr) else {
        let how = exit_code.map_or_else(|| "was ended by a signal".to_owned(), |code| format!("ended with status {code}"));
        return Failure::failed("load_failed", format!("The dump could not be loaded: psql {how} and gave no reason."))
            .hint("Look at the server's log; then run the same command again.")
            .cause(stderr.trim());
    };
    let mut failure =
        if exit_code == Some(2) { lost(complaint.line, &complaint.message) } else { refused(complaint.line, &complaint.message) };
    failure.causes = complaint.more;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_told_with_its_line() {
        let stderr = "psql:<stdin>:9: WARNING:  01000: beware\nLOCATION:  x, y.c:1\npsql:<stdin>:12: ERROR:  42P01: relation \"a\" does not exist\nLINE 1: x\n  ^\nHINT:  Look.\nTwice.\nLOCATION:  x, y.c:1\n";
        let complaint = first(stderr).unwrap();
        assert_eq!((complaint.line, complaint.message.as_str()), (Some(12), "relation \"a\" does not exist"));
        assert_eq!(complaint.more, ["Look.\nTwice."]);
        assert_eq!(warnings(stderr), ["beware"]);
        let failure = failure(Some(3), stderr);
        assert_eq!(failure.message, "The dump could not be loaded (line 12 of the dump): relation \"a\" does not exist.");
    }

    #[test]
    fn what_stands_in_a_row_is_not_told() {
        let stderr = "psql:<stdin>:12: ERROR:  22P02: invalid input syntax for type integer: \"hash\"\nCONTEXT:  COPY t, line 5, column id: \"hash\nhash\"\nLOCATION:  x, y.c:1\n";
        let complaint = first(stderr).unwrap();
        assert_eq!(complaint.message, "invalid input syntax for type integer: \"…\"");
        assert_eq!(complaint.more, ["COPY t, line 5, column id"]);
        let stderr = "psql:<stdin>:12: ERROR:  23505: could not create unique index \"i\"\nDETAIL:  Key (email)=(a@b) is duplicated.\nTABLE NAME:  t\n";
        assert_eq!(first(stderr).unwrap().more, ["Key (email)=(…)"]);
    }

    #[test]
    fn a_lost_connection_and_silence_are_told_apart() {
        let lost = failure(Some(2), "psql:<stdin>:3: FATAL:  terminating connection due to administrator command\n");
        assert_eq!((lost.status.code(), lost.code.as_str()), (5, "connection_lost"));
        let refused = failure(Some(2), "psql: error: connection to server on socket \"/x\" failed: FATAL:  no\n");
        assert_eq!(refused.code, "connection_lost");
        assert_eq!(failure(None, "").code, "load_failed");
    }
}
