//! How a load fails: the server refuses a line of the dump, or goes away. The SQLSTATE decides, never the message, which comes in the
//! language of the server; what psql prints is read by the SQLSTATE that a verbose psql puts before each message.

use postgres::Error;
use postgres::error::{DbError, ErrorPosition, SqlState};
use svc_pgdump::check::lexer::Position;
use svc_pgdump::pg::{self, Said};
use svc_step::Failure;

/// With these SQLSTATEs the server ends the session: it says nothing of the statement. Class 08 is none of them: a function that connects to
/// another server says it, and the session goes on.
const ENDED: [&str; 7] = ["25P03", "25P04", "57P01", "57P02", "57P03", "57P04", "57P05"];
/// The server's disk is full.
const DISK_FULL: &str = "53100";

/// What the server said at that line of the dump: it ended the session, where the client saw that or the SQLSTATE says so, or it said no.
pub(crate) fn told(line: Option<u64>, said: &Said, severity: &str, is_lost: bool) -> Failure {
    let message = said.message();
    let mut failure = match said.code.as_str() {
        code if is_lost || ENDED.contains(&code) => lost(line, &message),
        DISK_FULL => refused(line, &message).hint("Free disk space on the server, and run the same command again."),
        _ => refused(line, &message),
    };
    failure.causes.push(format!("{severity} ({})", said.code));
    failure.causes.extend(said.more());
    failure
}

/// The server says no to what stands in that line of the dump.
fn refused(line: Option<u64>, words: &str) -> Failure {
    Failure::failed("load_failed", format!("The dump could not be loaded{}: {}.", place(line), words.trim_end_matches('.')))
        .hint("Check that line of the dump and the causes; when it has what it needs, run the same command again.")
}

/// The server went away while it was at that line of the dump.
pub(crate) fn lost(line: Option<u64>, words: &str) -> Failure {
    let words = words.trim_end_matches('.');
    Failure::unavailable(
        "connection_lost",
        format!("The server ended the connection while the dump was loaded{}: {words}.", place(line)),
    )
    .hint("Check the server's log; when it is up, run the same command again.")
}

fn place(line: Option<u64>) -> String {
    line.map(|line| format!(" (line {line} of the dump)")).unwrap_or_default()
}

/// The failure of a statement that begins at that place.
pub(crate) fn of_statement(error: &Error, sql: &str, at: Position) -> Failure {
    let line = error.as_db_error().map_or(at.line, |said| line_within(said, sql, at));
    failure(error, line)
}

/// The failure of a COPY whose rows begin at that place.
pub(crate) fn of_rows(error: &Error, at: Position) -> Failure {
    let row = error.as_db_error().and_then(|said| Said::from(said).row());
    failure(error, row.map_or(at.line, |row| at.line + row.line - 1))
}

/// Two sessions waited for each other, and this one was chosen to give way: once more, it may get through.
pub(crate) fn gave_way(error: &Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::T_R_DEADLOCK_DETECTED)
}

fn failure(error: &Error, line: u64) -> Failure {
    let Some(said) = error.as_db_error() else {
        return lost(Some(line), &error.to_string()).cause(pg::chain(error).join(": "));
    };
    told(Some(line), &Said::from(said), &pg::severity(said), false)
}

fn line_within(said: &DbError, sql: &str, at: Position) -> u64 {
    let Some(ErrorPosition::Original(letter)) = said.position() else { return at.line };
    let before = usize::try_from(*letter).unwrap_or(1).saturating_sub(1);
    at.line + sql.chars().take(before).filter(|letter| *letter == '\n').count() as u64
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) line: Option<u64>,
    pub(crate) said: Said,
}

/// psql puts this before everything it says about its input.
const INPUT: &str = "psql:<stdin>:";
/// Status of a psql that lost its connection, by its manual.
const LOST: i32 = 2;
/// Nothing went wrong.
const SUCCESS: &str = "00";
/// Warnings, and "no data".
const WARNINGS: [&str; 2] = ["01", "02"];

fn all(stderr: &str) -> Vec<Complaint> {
    let mut found: Vec<(Complaint, Vec<&str>)> = Vec::new();
    let mut known = false;
    for line in stderr.lines() {
        if let Some(begun) = begun(line) {
            known = true;
            found.push((begun, Vec::new()));
        } else if line.starts_with("psql:") {
            // psql's own words.
            known = false;
        } else if let Some((_, rest)) = found.last_mut().filter(|_| known) {
            rest.push(line);
        }
    }
    found.into_iter().map(|(complaint, rest)| Complaint { said: with_fields(complaint.said, &rest), ..complaint }).collect()
}

fn begun(line: &str) -> Option<Complaint> {
    let (number, rest) = line.strip_prefix(INPUT)?.split_once(": ")?;
    let (code, message) = rest.split_once(":  ")?.1.split_once(": ")?;
    let is_code = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let said = Said { code: code.to_owned(), message: message.to_owned(), ..Said::default() };
    is_code.then(|| Complaint { line: number.parse().ok(), said })
}

/// The fields that follow a message, of which psql says the names in English. Those at the end, each on a line of its own, are taken
/// from the end: what comes before them may hold anything.
fn with_fields(mut said: Said, rest: &[&str]) -> Said {
    let mut left = rest;
    while let Some((last, before)) = left.split_last() {
        let Some((field, text)) = last.split_once(":  ") else { break };
        let place = match field {
            "TABLE NAME" => &mut said.table,
            "COLUMN NAME" => &mut said.column,
            "DATATYPE NAME" => &mut said.data_type,
            "CONSTRAINT NAME" => &mut said.constraint,
            "LOCATION" => {
                // exec_stmt_raise, pl_exec.c:3923
                let (routine, file) = text.split_once(", ").unwrap_or((text, ""));
                said.routine = routine.to_owned();
                said.file = file.split(':').next().unwrap_or_default().to_owned();
                left = before;
                continue;
            }
            "SCHEMA NAME" => {
                left = before;
                continue;
            }
            _ => break,
        };
        *place = Some(text.to_owned());
        left = before;
    }
    let context = left.iter().position(|line| line.starts_with("CONTEXT:  "));
    if let Some((first, more)) = context.and_then(|at| left.get(at..)).and_then(<[&str]>::split_first) {
        said.context =
            std::iter::once(first.trim_start_matches("CONTEXT:  ")).chain(more.iter().copied()).collect::<Vec<_>>().join("\n");
    }
    said.hint = left.iter().find_map(|line| line.strip_prefix("HINT:  ")).map(str::to_owned);
    said
}

/// The warnings of a load that went well, without the values of rows.
pub(crate) fn psql_warnings(stderr: &str) -> Vec<String> {
    all(stderr).iter().filter(|one| !one.said.code.starts_with(SUCCESS)).map(|one| one.said.message()).collect()
}

/// The failure of a load, from psql's exit status and what the server said last.
pub(crate) fn of_psql(exit_code: Option<i32>, stderr: &str) -> Failure {
    let is_error =
        |one: &Complaint| !one.said.code.starts_with(SUCCESS) && !WARNINGS.iter().any(|class| one.said.code.starts_with(class));
    let Some(Complaint { line, said }) = all(stderr).into_iter().rfind(is_error) else {
        if exit_code == Some(LOST) {
            return lost(None, "psql lost it, and the server gave no reason");
        }
        let how = exit_code.map_or_else(|| "was ended by a signal".to_owned(), |code| format!("ended with status {code}"));
        return Failure::failed(
            "load_failed",
            format!("The dump could not be loaded: psql {how}, and the server gave no reason."),
        )
        .hint("Check the server's log; then run the same command again.");
    };
    told(line, &said, "ERROR", exit_code == Some(LOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_the_server_ends_is_told_from_a_statement_that_it_refuses() {
        for (code, is_lost, status, failure) in [
            ("57P01", false, 5, "connection_lost"),
            ("57P02", false, 5, "connection_lost"),
            ("57P03", false, 5, "connection_lost"),
            ("57P04", false, 5, "connection_lost"),
            ("57P05", false, 5, "connection_lost"),
            ("25P03", false, 5, "connection_lost"),
            ("25P04", false, 5, "connection_lost"),
            ("42P01", true, 5, "connection_lost"),
            // A statement that was too long for a limit, or was cancelled; another server that cannot be reached; a full disk.
            ("57014", false, 1, "load_failed"),
            ("08001", false, 1, "load_failed"),
            ("53100", false, 1, "load_failed"),
            ("42P01", false, 1, "load_failed"),
        ] {
            let said = Said { code: code.to_owned(), message: "no".to_owned(), ..Said::default() };
            let told = told(Some(7), &said, "FATAL", is_lost);
            assert_eq!((told.status.code(), told.code.as_str()), (status, failure), "{code}");
            assert_eq!(told.causes, [format!("FATAL ({code})")]);
        }
    }

    const GERMAN: &str = "psql:<stdin>:9: WARNUNG:  01000: Achtung\nLOCATION:  x, y.c:1\n\
        psql:<stdin>:12: FEHLER:  42P01: Relation »a« existiert nicht\nLINE 1: x\n  ^\nHINT:  Siehe.\nLOCATION:  x, y.c:1\n";

    #[test]
    fn the_error_is_told_with_its_line_in_any_language() {
        let failure = of_psql(Some(3), GERMAN);
        assert_eq!(failure.message, "The dump could not be loaded (line 12 of the dump): Relation »a« existiert nicht.");
        assert_eq!(failure.causes, ["ERROR (42P01)", "Siehe."]);
        let warned = GERMAN.split("psql:<stdin>:12").next().unwrap_or_default();
        assert_eq!(psql_warnings(warned), ["Achtung"]);
        let raised = warned.replace("x, y.c:1", "exec_stmt_raise, pl_exec.c:3923");
        assert_eq!(psql_warnings(&raised), ["a function of the database raised 01000"]);
    }

    #[test]
    fn what_stands_in_a_row_is_not_told() {
        for (stderr, message, more) in [
            (
                "psql:<stdin>:12: FEHLER:  22P02: ungültig: »hunter2\nTABLE NAME:  hunter2«\nCONTEXT:  COPY t, Zeile 5, Spalte id: »hunter2\nhunter2«\nLOCATION:  x, y.c:1\n",
                "invalid input syntax for the type",
                "COPY t, line 5, column id",
            ),
            (
                "psql:<stdin>:12: ERROR:  23505: could not create unique index \"i\"\nDETAIL:  Key (email)=(hunter2) is duplicated.\nSCHEMA NAME:  public\nTABLE NAME:  t\nCONSTRAINT NAME:  i\nLOCATION:  x, y.c:1\n",
                "not unique",
                "table t, constraint i",
            ),
        ] {
            let failure = of_psql(Some(3), stderr);
            assert!(failure.message.contains(message) && failure.causes.contains(&more.to_owned()), "{failure:?}");
            assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        }
        assert!(!format!("{:?}", of_psql(Some(3), "psql:<stdin>:3: error: invalid command \\hunter2\n")).contains("hunter2"));
    }

    #[test]
    fn a_lost_connection_and_silence_are_told_apart() {
        for (status, stderr) in [
            (2, "psql:<stdin>:3: FATAL:  57P01: terminating connection due to administrator command\n"),
            (3, "psql:<stdin>:3: FATAL:  57P01: breche Verbindung ab\n"),
            (2, "psql: error: connection to server on socket \"/x\" failed: FATAL:  no\n"),
        ] {
            let lost = of_psql(Some(status), stderr);
            assert_eq!((lost.status.code(), lost.code.as_str()), (5, "connection_lost"));
        }
        assert_eq!(of_psql(None, "").code, "load_failed");
    }
}
