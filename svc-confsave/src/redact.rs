//! Secrets are left out of everything that is shown: by the name of their key, inside URLs, and in comments that name them.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};
use indexmap::IndexMap;
use serde_json::Value;
use svc_step::line_secrets::{has_password, is_secret_flag, lines, takes_user, without_secrets};
use svc_step::secret::{REDACTED, is_secret_name};

use crate::hidden::{Hidden, indent};
use crate::tree::{Flat, Path, Tree};

/// Decides what is shown in one call.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    show: bool,
    /// Finds, all at once, the secrets that are long and odd enough to be taken out wherever else they stand (an anchor, a
    /// comment).
    known: Option<AhoCorasick>,
    /// The paths of values whose name stands beside them: `name: DB_PASSWORD`, `value: …`.
    named: BTreeSet<Path>,
}

impl Redactor {
    /// Learns the secrets of all files that a call reads; with `show` nothing is left out.
    pub(crate) fn new(show: bool, files: &[&Flat]) -> Self {
        let named = files.iter().flat_map(|flat| named_secrets(flat)).collect();
        let mut redactor = Self { show, known: None, named };
        let mut known = BTreeSet::new();
        for (path, leaf) in files.iter().flat_map(|flat| flat.iter()) {
            learn(leaf, redactor.is_secret(path), &mut known);
        }
        redactor.known = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(known).ok();
        redactor
    }

    /// A value as it may be shown.
    pub(crate) fn value(&self, path: &[String], leaf: &Tree) -> Value {
        if self.show {
            return leaf.to_json();
        }
        self.tree(leaf, self.is_secret(path))
    }

    /// Keys as they may be shown: one may well be a URL with user and password.
    pub(crate) fn path(&self, path: &[String]) -> Path {
        path.iter().map(|key| self.key(key)).collect()
    }

    fn key(&self, key: &str) -> String {
        if self.show { key.to_owned() } else { without_secrets(key) }
    }

    fn is_secret(&self, path: &[String]) -> bool {
        let heads = (1..=path.len()).filter_map(|count| path.get(..count));
        path.iter().any(|key| is_secret_name(key)) || heads.into_iter().any(|head| self.named.contains(head))
    }

    fn tree(&self, tree: &Tree, secret: bool) -> Value {
        match tree {
            Tree::Scalar(scalar) if secret && !scalar.text.is_empty() => REDACTED.into(),
            Tree::Scalar(scalar) => self.text(&scalar.text).into(),
            Tree::List { .. } if secret => REDACTED.into(),
            Tree::List { items, .. } => members(items).map(|(item, flagged)| self.tree(item, flagged)).collect(),
            Tree::Map { entries, .. } => {
                let named = names_a_secret(entries);
                let is_secret = |key: &str| secret || is_secret_name(key) || (named && key == VALUE);
                entries.iter().map(|(key, value)| (self.key(key), self.tree(value, is_secret(key)))).collect()
            }
            Tree::Alias(_) => tree.to_json(),
        }
    }

    /// The lines of a file, as many as it has, without the secrets at the places `hidden` and without private keys. Each is
    /// shown by [`Redactor::text`].
    pub(crate) fn lines(&self, text: &str, hidden: &[Hidden]) -> Vec<String> {
        let mut lines: Vec<String> = lines(text).map(str::to_owned).collect();
        if self.show {
            return lines;
        }
        hidden.iter().for_each(|place| place.cover(&mut lines));
        let mut in_pem = false;
        for line in &mut lines {
            let pem = in_pem || line.contains("-----BEGIN");
            in_pem = pem && !line.contains("-----END");
            if pem && !line.contains("-----") {
                *line = format!("{}{REDACTED}", indent(line));
            }
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
        let mut out = String::new();
        match &self.known {
            Some(known) => known.replace_all_with(text, &mut out, |_, _, out| {
                out.push_str(REDACTED);
                true
            }),
            None => text.clone_into(&mut out),
        }
        without_secrets(&out)
    }
}

/// Collects the lines of secrets that cannot be anything else.
fn learn<'a>(tree: &'a Tree, secret: bool, known: &mut BTreeSet<&'a str>) {
    match tree {
        Tree::Scalar(scalar) if secret => {
            let odd = |text: &&str| text.len() >= 8 && !text.bytes().all(|byte| byte.is_ascii_lowercase());
            known.extend(scalar.text.lines().map(str::trim).filter(odd));
        }
        Tree::Scalar(_) | Tree::Alias(_) => {}
        Tree::List { items, .. } => members(items).for_each(|(item, flagged)| learn(item, secret || flagged, known)),
        Tree::Map { entries, .. } => {
            let named = names_a_secret(entries);
            for (key, value) in entries {
                learn(value, secret || is_secret_name(key) || (named && key == VALUE), known);
            }
        }
    }
}

/// The key of a value whose name stands beside it.
pub(crate) const VALUE: &str = "value";

/// The keys under which that name stands.
const NAMES: [&str; 2] = ["name", "key"];

/// Whether a group says, beside its value, that it is a secret's.
pub(crate) fn names_a_secret(entries: &IndexMap<String, Tree>) -> bool {
    NAMES.iter().filter_map(|key| entries.get(*key)).any(|name| name.text().is_some_and(is_secret_name))
}

/// The paths of such values among leaves.
pub(crate) fn named_secrets(flat: &Flat) -> Vec<Path> {
    let mut found = Vec::new();
    for (path, leaf) in flat {
        if let Some((last, group)) = path.split_last()
            && NAMES.contains(&last.as_str())
            && leaf.text().is_some_and(is_secret_name)
        {
            found.push(group.iter().cloned().chain([VALUE.to_owned()]).collect());
        }
    }
    found
}

/// Whether a list's member is a secret for what comes before it: `--password`, or a user flag.
pub(crate) fn is_flagged(before: Option<&Tree>, text: Option<&str>) -> bool {
    let flag = before.and_then(Tree::text).unwrap_or_default();
    is_secret_flag(flag) || (takes_user(flag) && text.is_some_and(has_password))
}

/// A list's members, and whether each is a secret for what comes before it.
fn members(items: &[Tree]) -> impl Iterator<Item = (&Tree, bool)> {
    let before = std::iter::once(None).chain(items.iter().map(Some));
    items.iter().zip(before).map(|(item, before)| (item, is_flagged(before, item.text())))
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
            "dbpass",
            "bindpw",
            "ldap_userpw",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for open in [
            "password_file",
            "keyboard",
            "host",
            "user",
            "monkey",
            "level",
            "secret_path",
            "passage",
            "author",
            "bypass",
            "compass",
        ] {
            assert!(!is_secret_name(open), "{open}");
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
    fn a_value_is_a_secret_for_the_name_beside_it_and_the_flag_before_it() {
        let pair = |name: &str| {
            let entries = [("name", name), ("value", "x")].map(|(key, text)| (key.to_owned(), Tree::string(text)));
            Tree::group(entries.into_iter().collect())
        };
        let redactor = Redactor::default();
        let shown = |tree: &Tree| redactor.value(&["env".to_owned()], tree).to_string();
        assert_eq!(shown(&pair("DB_PASSWORD")), r#"{"name":"DB_PASSWORD","value":"<redacted>"}"#);
        assert_eq!(shown(&pair("DB_HOST")), r#"{"name":"DB_HOST","value":"x"}"#);
        let list = |items: &[&str]| Tree::List { tag: None, items: items.iter().map(|item| Tree::string(item)).collect() };
        assert_eq!(shown(&list(&["-v", "--password", "x", "y"])), r#"["-v","--password","<redacted>","y"]"#);
        assert_eq!(shown(&list(&["-u", "a:x", "-u", "a"])), r#"["-u","<redacted>","-u","a"]"#);
        let flat: Flat = [("name", "DB_PASSWORD"), ("value", "x")]
            .into_iter()
            .map(|(key, text)| (vec!["db".to_owned(), key.to_owned()], Tree::string(text)))
            .collect();
        let value = ["db", "value"].map(str::to_owned);
        assert_eq!(Redactor::new(false, &[&flat]).value(&value, &Tree::string("x")), REDACTED);
    }

    #[test]
    fn a_secret_is_taken_out_where_it_stands_a_second_time() {
        let flat: Flat = [(vec!["password".to_owned()], Tree::string("hunter2-hunter2"))].into_iter().collect();
        let redactor = Redactor::new(false, &[&flat]);
        assert_eq!(redactor.text("x hunter2-hunter2 y"), "x <redacted> y");
        assert_eq!(Redactor::new(true, &[&flat]).text("x hunter2-hunter2 y"), "x hunter2-hunter2 y");
    }
}
