//! libpq's password file: lines of `host:port:database:user:password`, `*` for any, `\:` and `\\` for themselves.

use svc_step::secret::Secret;

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    fields: [Field; 4],
    password: Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Any,
    Is(String),
}

/// The connection that a password is looked up for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// A host name, or the folder of a socket; libpq's default folder also goes by `localhost`.
    pub(crate) hosts: &'a [&'a str],
    pub(crate) port: u16,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

/// Reads all lines that are of that form; comments and others are passed over, as libpq does. The second is how many lines
/// are no UTF-8 text, which a password here must be.
pub(crate) fn parse(bytes: &[u8]) -> (Vec<Entry>, usize) {
    let mut odd = 0;
    let mut entries = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#")) {
        match std::str::from_utf8(line) {
            Ok(line) => entries.extend(entry(line.strip_suffix('\r').unwrap_or(line))),
            Err(_) => odd += 1,
        }
    }
    (entries, odd)
}

fn entry(line: &str) -> Option<Entry> {
    let mut rest = line;
    let mut field = || {
        let (field, after) = split(rest)?;
        rest = after;
        Some(field)
    };
    let fields = [field()?, field()?, field()?, field()?];
    // The password goes to the end of the line, colons and all.
    Some(Entry { fields, password: Secret::new(unescape(rest)) })
}

/// The field before the first colon that is not escaped, and what follows that colon.
fn split(text: &str) -> Option<(Field, &str)> {
    let mut escaped = false;
    let colon = text.char_indices().find(|(_, letter)| {
        let found = *letter == ':' && !escaped;
        escaped = *letter == '\\' && !escaped;
        found
    });
    let (field, rest) = text.split_at_checked(colon?.0)?;
    let field = if field == "*" { Field::Any } else { Field::Is(unescape(field)) };
    Some((field, rest.strip_prefix(':')?))
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            other => out.push(other),
        }
    }
    out
}

/// The first line that fits decides.
pub(crate) fn lookup(entries: &[Entry], wanted: &Wanted<'_>) -> Option<Secret> {
    let port = wanted.port.to_string();
    let fits = |entry: &&Entry| {
        let [host, its_port, database, user] = &entry.fields;
        let is = |field: &Field, value: &str| match field {
            Field::Any => true,
            Field::Is(text) => text == value,
        };
        wanted.hosts.iter().any(|name| is(host, name))
            && is(its_port, &port)
            && is(database, wanted.database)
            && is(user, wanted.user)
    };
    entries.iter().find(fits).map(|entry| entry.password.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, hosts: &[&str], database: &str, user: &str) -> Option<String> {
        lookup(&parse(text.as_bytes()).0, &Wanted { hosts, port: 5432, database, user }).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let text = "# comment\nbroken line\nh:5433:*:svc:other\nh:5432:*:svc:first\nh:*:*:*:second\n";
        assert_eq!(found(text, &["h"], "db", "svc").as_deref(), Some("first"));
        assert_eq!(found(text, &["h"], "db", "x").as_deref(), Some("second"));
        assert_eq!(found(text, &["g"], "db", "svc"), None);
    }

    #[test]
    fn escapes_are_understood() {
        let text = r"fe80\:\:1:5432:a\\b:u\:v:p\:w\\:x";
        assert_eq!(found(text, &["fe80::1"], r"a\b", "u:v").as_deref(), Some(r"p:w\:x"));
    }

    #[test]
    fn the_default_socket_also_goes_by_localhost() {
        assert_eq!(found("localhost:*:*:*:pw", &["/var/run/postgresql", "localhost"], "db", "svc").as_deref(), Some("pw"));
    }

    #[test]
    fn a_comment_in_another_encoding_is_no_obstacle_and_a_line_in_one_is_counted() {
        let (entries, odd) = parse(b"# G\xfcnter's\nh:*:*:svc:pw\r\nh:*:*:x:p\xe4ss\n");
        assert_eq!((entries.len(), odd), (1, 1));
        let wanted = Wanted { hosts: &["h"], port: 1, database: "db", user: "svc" };
        assert_eq!(lookup(&entries, &wanted).unwrap().expose(), "pw");
    }

    #[test]
    fn a_password_is_never_shown() {
        assert!(!format!("{:?}", parse(b"*:*:*:*:hunter2")).contains("hunter2"));
    }
}
