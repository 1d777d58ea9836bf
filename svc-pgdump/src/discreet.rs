//! What the server says of a row, without what stands in it: documents go into logs and mails, and rows hold addresses and hashes.
//! Which row and column it is may be told; who may read the dump finds the rest there.

/// Whether errors of that SQLSTATE are about a value (class 22) or a row (class 23), so that the server quotes it.
fn of_rows(code: &str) -> bool {
    code.starts_with("22") || code.starts_with("23")
}

/// Errors of class 22 that quote columns, encodings and parameters, and no value.
const HARMLESS: [&str; 4] = ["22P04", "22021", "22P05", "22023"];

/// The message without the value that it quotes.
#[must_use]
pub fn message(code: &str, message: &str) -> String {
    if code.starts_with("22")
        && !HARMLESS.contains(&code)
        && let (Some((before, _)), Some((_, after))) = (message.split_once('"'), message.rsplit_once('"'))
    {
        return format!("{before}\"…\"{after}");
    }
    message.to_owned()
}

/// The detail, where it is not of a row; of a key only its columns.
#[must_use]
pub fn detail(code: &str, detail: &str) -> Option<String> {
    if !of_rows(code) {
        return Some(detail.to_owned());
    }
    let (columns, _) = detail.strip_prefix("Key (")?.split_once(")=(")?;
    Some(format!("Key ({columns})=(…)"))
}

/// The context: the functions that were at work, and the line and column of a COPY.
#[must_use]
pub fn place(context: &str) -> Option<String> {
    let mut kept = Vec::new();
    for line in context.lines() {
        if line.starts_with("COPY ") {
            // What follows the colon is the value, which may have lines of its own.
            kept.extend(line.split(": ").next().map(|place| place.trim_end_matches(':')));
            break;
        }
        kept.extend((line.starts_with("PL/") || line.starts_with("SQL function ")).then_some(line));
    }
    (!kept.is_empty()).then(|| kept.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_left_out_and_places_are_told() {
        assert_eq!(
            message("22P02", "invalid input syntax for type integer: \"a\"b\""),
            "invalid input syntax for type integer: \"…\""
        );
        assert_eq!(
            message("22003", "value \"99\" is out of range for type integer"),
            "value \"…\" is out of range for type integer"
        );
        assert_eq!(message("22P04", "missing data for column \"name\""), "missing data for column \"name\"");
        assert_eq!(message("42P01", "relation \"a\" does not exist"), "relation \"a\" does not exist");
        assert_eq!(detail("23505", "Key (email)=(x)=(y)) is duplicated.").as_deref(), Some("Key (email)=(…)"));
        assert_eq!(detail("23502", "Failing row contains (1, hash)."), None);
        assert_eq!(detail("2BP01", "view v depends on table t").as_deref(), Some("view v depends on table t"));
        assert_eq!(place("COPY users, line 5, column id: \"a\nPL/hash\"").as_deref(), Some("COPY users, line 5, column id"));
        assert_eq!(
            place("JSON data, line 1: {\"a\nPL/pgSQL function f() line 3 at RAISE\nCOPY users, line 5: \"1\"").as_deref(),
            Some("PL/pgSQL function f() line 3 at RAISE\nCOPY users, line 5")
        );
        assert_eq!(place("SQL statement \"INSERT INTO users VALUES ('x')\""), None);
    }
}
