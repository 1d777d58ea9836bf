//! The places of secrets in a file that is not understood: nobody can say where a value ends there, so whatever follows a
//! telling name in its line is one, and so are the lines that continue it.

use svc_step::line_secrets::lines;
use svc_step::secret::is_secret_name;

use crate::hidden::{Hidden, indent};

/// Signs that may stand between a name and its value, or end a line that goes on.
const SIGNS: [char; 10] = ['=', ':', '>', '"', '\'', '|', '\\', '{', '[', '('];

/// The places of its secrets.
pub(crate) fn places(text: &str) -> Vec<Hidden> {
    let mut found = Vec::new();
    // Of a name whose value comes in the lines that follow, how far it is indented.
    let mut open: Option<usize> = None;
    let mut continued = false;
    for (at, line) in lines(text).enumerate() {
        let (own, trimmed) = (indent(line).chars().count(), line.trim());
        let is_below = open.is_some_and(|above| own > above || (own == above && trimmed.starts_with('-')));
        if continued || is_below {
            continued = continued && line.ends_with('\\');
            found.push(Hidden::in_line(at, own));
            continue;
        }
        if trimmed.is_empty() {
            continue;
        }
        open = None;
        if let Some((column, value)) = value_of_a_name(line) {
            found.push(Hidden::in_line(at, column));
            continued = line.ends_with('\\');
            open = value.trim().is_empty().then_some(own);
        }
    }
    found
}

/// Where the value behind the first telling name of a line begins, and what is left of the line there. In a comment only its
/// first word is such a name: the others are prose.
fn value_of_a_name(line: &str) -> Option<(usize, &str)> {
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_comment = line.trim_start().starts_with(['#', ';']);
    let mut rest = line;
    loop {
        let start = rest.find(of_name)?;
        let (_, from) = rest.split_at_checked(start)?;
        let (word, behind) = from.split_at_checked(from.find(|c| !of_name(c)).unwrap_or(from.len()))?;
        if is_secret_name(word) {
            let value = behind.trim_start_matches(|c: char| c.is_whitespace() || SIGNS.contains(&c));
            let before = line.len() - value.len();
            return Some((line.get(..before)?.chars().count(), value));
        }
        if is_comment {
            return None;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use crate::redact::Redactor;

    #[test]
    fn whatever_follows_a_telling_name_in_a_text_that_is_not_understood_is_not_shown() {
        for (text, shown) in [
            ("requirepass hunter2", "requirepass <redacted>"),
            ("requirepass\thunter2", "requirepass\t<redacted>"),
            ("  user default password hunter2 on", "  user default password <redacted>"),
            ("<password>hunter2</password>", "<password><redacted>"),
            ("password = \\\nhunter2\nport 1", "password = \\\n<redacted>\nport 1"),
            ("password = hunter\\\n  two \\\n  three\nport 1", "password = <redacted>\n  <redacted>\n  <redacted>\nport 1"),
            ("tokens:\n  - abc\n\n  - def\nport: 1", "tokens:\n  <redacted>\n\n  <redacted>\nport: 1"),
            ("tokens:\n- abc\nport: 1", "tokens:\n<redacted>\nport: 1"),
            ("# requirepass foobared", "# requirepass <redacted>"),
            ("# Say the password here", "# Say the password here"),
            ("port 6379\ndir /var/lib\npassword_file /etc/pw", "port 6379\ndir /var/lib\npassword_file /etc/pw"),
        ] {
            assert_eq!(Redactor::default().lines(text, &super::places(text)).join("\n"), shown);
        }
    }
}
