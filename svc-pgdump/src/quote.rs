//! Names and texts inside SQL.

/// An identifier as SQL has it: quoted unless it surely need not be.
#[must_use]
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain && !KEYWORDS.split(' ').any(|word| word == name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Keywords that PostgreSQL does not take as the name of a table or a role (reserved ones, and those that name functions or
/// types), of all its versions from 13 to 18.
const KEYWORDS: &str = "all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate \
    collation column concurrently constraint create cross current_catalog current_date current_role current_schema \
    current_time current_timestamp current_user default deferrable desc distinct do else end except false fetch \
    for foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral \
    leading left like limit localtime localtimestamp natural not notnull null offset on only or order outer \
    overlaps placing primary references returning right select session_user similar some symmetric system_user \
    table tablesample then to trailing true union unique user using variadic verbose when where window with";

/// A text, quoted; a backslash asks for the form in which it means itself whatever the server's settings are.
#[must_use]
pub fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        for (name, wanted) in [("items", "items"), ("user", "\"user\""), ("A", "\"A\""), ("a\"b", "\"a\"\"b\""), ("1a", "\"1a\"")]
        {
            assert_eq!(quoted(name), wanted);
        }
        assert!(KEYWORDS.split(' ').is_sorted() && KEYWORDS.split(' ').count() == 101);
    }

    #[test]
    fn quotes_and_backslashes_do_not_end_a_text() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\'b"), r" E'a\\''b'");
    }
}
