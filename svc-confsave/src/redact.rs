//! Secrets are left out of everything that is shown: by the name of their key, inside URLs, and in comments that name them.

use std::collections::BTreeSet;

use saphyr_parser::{Marker, Span};
use serde_json::Value;
use svc_step::secret::{REDACTED, is_secret_name};

use crate::tree::{Flat, Tree};

/// Decides what is shown in one call.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    show: bool,
    /// Secrets that are long and odd enough to be taken out wherever else they stand (an anchor, a comment).
    known: BTreeSet<String>,
}

impl Redactor {
    /// Learns the secrets of all files that a call reads; with `show` nothing is left out.
    pub(crate) fn new(show: bool, files: &[&Flat]) -> Self {
        let mut redactor = Self { show, known: BTreeSet::new() };
        for (path, leaf) in files.iter().flat_map(|flat| flat.iter()) {
            redactor.learn(leaf, path.iter().any(|key| is_secret_name(key)));
        }
        redactor
    }

    fn learn(&mut self, tree: &Tree, secret: bool) {
        match tree {
            Tree::Scalar(scalar) if secret => {
                let odd = |text: &str| text.len() >= 8 && !text.bytes().all(|byte| byte.is_ascii_lowercase());
                self.known.extend(scalar.text.lines().map(str::trim).filter(|line| odd(line)).map(str::to_owned));
            }
            Tree::Scalar(_) => {}
            Tree::List { items, .. } => items.iter().for_each(|item| self.learn(item, secret)),
            Tree::Map { entries, .. } => {
                entries.iter().for_each(|(key, value)| self.learn(value, secret || is_secret_name(key)));
            }
        }
    }

    /// A value as it may be shown.
    pub(crate) fn value(&self, path: &[String], leaf: &Tree) -> Value {
        if self.show {
            return leaf.to_json();
        }
        self.tree(leaf, path.iter().any(|key| is_secret_name(key)))
    }

    fn tree(&self, tree: &Tree, secret: bool) -> Value {
        match tree {
            Tree::Scalar(scalar) if secret && !scalar.text.is_empty() => REDACTED.into(),
            Tree::Scalar(scalar) => self.text(&scalar.text).into(),
            Tree::List { .. } if secret => REDACTED.into(),
            Tree::List { items, .. } => items.iter().map(|item| self.tree(item, false)).collect(),
            Tree::Map { entries, .. } => {
                let shown = |(key, value): (&String, &Tree)| (key.clone(), self.tree(value, secret || is_secret_name(key)));
                entries.iter().map(shown).collect()
            }
        }
    }

    /// The lines of a file as they may be shown, as many as it has. `hidden` are the places of its secrets.
    pub(crate) fn lines(&self, text: &str, hidden: &[Hidden]) -> Vec<String> {
        let mut lines: Vec<String> = text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()).collect();
        if self.show {
            return lines;
        }
        hidden.iter().for_each(|place| place.cover(&mut lines));
        let mut in_pem = false;
        for line in &mut lines {
            let pem = in_pem || line.contains("-----BEGIN");
            in_pem = pem && !line.contains("-----END");
            *line = if pem && !line.contains("-----") { format!("{}{REDACTED}", indent(line)) } else { self.line(line) };
        }
        lines
    }

    /// Any text as it may be shown.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.show {
            return text.to_owned();
        }
        if text.contains("PRIVATE KEY-----") {
            return REDACTED.to_owned();
        }
        let shown: Vec<String> = text.split('\n').map(|line| self.line(line)).collect();
        shown.join("\n")
    }

    fn line(&self, line: &str) -> String {
        let mut out = line.to_owned();
        for secret in &self.known {
            if out.contains(secret.as_str()) {
                out = out.replace(secret.as_str(), REDACTED);
            }
        }
        after_names(&user_info(&out))
    }
}

fn indent(line: &str) -> &str {
    line.split(|c: char| !c.is_whitespace()).next().unwrap_or_default()
}

/// Takes user and password out of URLs. A password may hold any sign, so everything up to the last `@` goes.
fn user_info(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(after.len());
        let (url, behind) = after.split_at_checked(end).unwrap_or((after, ""));
        match url.rsplit_once('@') {
            // Several URLs without a blank between: each on its own.
            Some((user, host)) if !user.contains("://") => {
                out.push_str(&format!("{REDACTED}@{host}"));
                rest = behind;
            }
            _ => rest = after,
        }
    }
    out.push_str(rest);
    out
}

/// Takes out what follows `password=`, `token: ` or `--secret ` inside a line: to the end of the line where the name starts
/// it, else to the end of the word.
fn after_names(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['=', ':', ' ']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let mut signs = from.chars();
        let sign = signs.next();
        let after = signs.as_str();
        out.push_str(before);
        out.extend(sign);
        rest = after;
        let (name, first) = name_at_end_of(&out);
        let names = is_secret_name(&name) && (sign != Some(' ') || name.starts_with("--"));
        if !names || after.trim().is_empty() {
            continue;
        }
        let blank = after.len() - after.trim_start().len();
        let (blank, value) = after.split_at_checked(blank).unwrap_or(("", after));
        if value.starts_with(REDACTED) || (sign == Some(' ') && value.starts_with(['=', ':'])) {
            continue;
        }
        out.push_str(blank);
        out.push_str(REDACTED);
        rest = if first { "" } else { behind_value(value) };
    }
    out.push_str(rest);
    out
}

/// The name that ends before the last sign of `text`, and whether it is the first thing of the line.
fn name_at_end_of(text: &str) -> (String, bool) {
    let mut signs = text.chars();
    signs.next_back();
    let head = signs.as_str().trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let start = head.char_indices().rev().take_while(|(_, c)| of_name(*c)).last().map_or(head.len(), |(at, _)| at);
    let (before, name) = head.split_at_checked(start).unwrap_or(("", head));
    let first = before.chars().all(|c| c.is_whitespace() || matches!(c, '#' | ';' | '-' | '"' | '\'' | '+' | '!'));
    (name.to_owned(), first)
}

/// What stands behind a value, which ends at its closing quote, or else where a word ends.
fn behind_value(value: &str) -> &str {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let end = match quote {
        Some(quote) => value.char_indices().skip(1).find(|(_, c)| *c == quote).map(|(at, c)| at + c.len_utf8()),
        None => value.find(|c: char| c.is_whitespace() || matches!(c, '&' | ';' | '}' | '"' | '\'')),
    };
    end.and_then(|end| value.get(end..)).unwrap_or_default()
}

/// Where a secret stands in a file, lines and columns (in characters) counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hidden {
    from: (usize, usize),
    /// Behind its last character; `None`: the end of the line that it starts in.
    to: Option<(usize, usize)>,
}

impl Hidden {
    /// The place of a value. The reader counts lines from 1.
    pub(crate) fn of(span: &Span) -> Self {
        let place = |mark: &Marker| (mark.line().saturating_sub(1), mark.col());
        Self { from: place(&span.start), to: Some(place(&span.end)) }
    }

    /// The value of one line, from a column on.
    pub(crate) const fn in_line(line: usize, column: usize) -> Self {
        Self { from: (line, column), to: None }
    }

    /// Covers it: the rest of its first line, and its other lines but for their indentation.
    pub(crate) fn cover(&self, lines: &mut [String]) {
        let (first, column) = self.from;
        let (last, end) = self.to.unwrap_or((first, usize::MAX));
        for (at, line) in lines.iter_mut().enumerate().take(last + 1).skip(first) {
            let head = |count| line.chars().take(count).collect::<String>();
            // The end of a block of text is told as the place of what follows it.
            if at > first && at == last && head(end).trim().is_empty() {
                continue;
            }
            let kept = if at == first { head(column) } else { indent(line).to_owned() };
            let covered = line.find(REDACTED).is_some_and(|place| place < kept.len());
            if !covered && kept.len() < line.len() && !line.trim().is_empty() {
                *line = format!("{kept}{REDACTED}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_however_they_are_written() {
        for secret in [
            "password",
            "db_password",
            "dbPassword",
            "PASSWORD",
            "secret",
            "client-secret",
            "apiKey",
            "api_key",
            "APIKEY",
            "access.key",
            "token",
            "auth_tokens",
            "private_key",
            "credentials",
            "pass",
            "smtp_pass",
            "pwd",
            "salt",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for open in ["password_file", "keyboard", "host", "user", "monkey", "level", "secret_path", "passage", "author"] {
            assert!(!is_secret_name(open), "{open}");
        }
    }

    #[test]
    fn secrets_inside_a_text_are_taken_out() {
        let redactor = Redactor::default();
        for (text, shown) in [
            ("http://u:p@h:9200/x", "http://<redacted>@h:9200/x"),
            ("postgres://u:p/w@1@h/db", "postgres://<redacted>@h/db"),
            ("a http://u:p@h, http://v:q@i", "a http://<redacted>@h, http://<redacted>@i"),
            ("http://h/x?token=abc&y=1", "http://h/x?token=<redacted>&y=1"),
            ("host=h password=abc dbname=d", "host=h password=<redacted> dbname=d"),
            ("host=h password='a b' dbname=d", "host=h password=<redacted> dbname=d"),
            ("# password: hunter2 or so", "# password: <redacted>"),
            ("password = my pass phrase", "password = <redacted>"),
            ("run --password hunter2 -v", "run --password <redacted> -v"),
            ("{\"token\": \"abc\", \"x\": 1}", "{\"token\": <redacted>, \"x\": 1}"),
            ("Authorization: Bearer abc", "Authorization: <redacted>"),
            ("https://host:9200/path", "https://host:9200/path"),
            ("password_file: /etc/x", "password_file: /etc/x"),
            ("session:", "session:"),
            ("# To be changed before use", "# To be changed before use"),
        ] {
            assert_eq!(redactor.text(text), shown);
        }
    }

    #[test]
    fn a_private_key_is_not_shown_under_any_name() {
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\n";
        assert_eq!(Redactor::default().text(pem), REDACTED);
        let lines = Redactor::default().lines(&format!("cert: |\n  {}", pem.replace('\n', "\n  ")), &[]);
        assert!(!lines.concat().contains("MIIabc"));
    }

    #[test]
    fn a_secret_is_taken_out_where_it_stands_a_second_time() {
        let flat: Flat = [(vec!["password".to_owned()], Tree::string("hunter2-hunter2"))].into_iter().collect();
        let redactor = Redactor::new(false, &[&flat]);
        assert_eq!(redactor.text("x hunter2-hunter2 y"), "x <redacted> y");
        assert_eq!(Redactor::new(true, &[&flat]).text("x hunter2-hunter2 y"), "x hunter2-hunter2 y");
    }
}
