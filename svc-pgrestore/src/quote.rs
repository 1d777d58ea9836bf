//! Texts inside SQL; names are quoted by `svc_pgdump::whole::quoted`.

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
    fn quotes_and_backslashes_do_not_end_a_text() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\'b"), r" E'a\\''b'");
    }
}
