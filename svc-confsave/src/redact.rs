//! Secrets are left out of everything that is shown: by the name of their key, inside of URLs, behind flags.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, MatchKind};
use indexmap::IndexMap;
use serde_json::Value;
use svc_step::redact::{is_secret_after, without_secrets};
use svc_step::secret::{REDACTED, is_secret_name};

use crate::tree::{Flat, Path, Tree, above, render};

/// Decides what is shown in one call.
#[derive(Debug)]
pub(crate) struct Redactor {
    show: bool,
    /// Finds, all at once, the secrets that are long and odd enough to be taken out wherever else they stand (an anchor).
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

    /// A value as it may be shown: text, lists and objects of text; `*a.b` for what refers to a group.
    pub(crate) fn value(&self, path: &[String], leaf: &Tree) -> Value {
        self.tree(leaf, self.is_secret(path))
    }

    /// Keys as they may be shown.
    pub(crate) fn path(&self, path: &[String]) -> Path {
        path.iter().map(|key| self.key(key)).collect()
    }

    /// A key may well be a URL with user and password.
    fn key(&self, key: &str) -> String {
        if self.show { key.to_owned() } else { without_secrets(key) }
    }

    fn is_secret(&self, path: &[String]) -> bool {
        path.iter().any(|key| is_secret_name(key)) || above(path).chain([path]).any(|head| self.named.contains(head))
    }

    fn tree(&self, tree: &Tree, secret: bool) -> Value {
        let secret = secret && !self.show;
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
            Tree::Alias(path) => format!("*{}", render(path)).into(),
        }
    }

    /// Any text as it may be shown.
    fn text(&self, text: &str) -> String {
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
const VALUE: &str = "value";

/// The keys under which that name stands.
const NAMES: [&str; 2] = ["name", "key"];

/// Whether a group says, beside its value, that it is a secret's.
fn names_a_secret(entries: &IndexMap<String, Tree>) -> bool {
    NAMES.iter().filter_map(|key| entries.get(*key)).any(|name| name.text().is_some_and(is_secret_name))
}

/// The paths of such values among leaves.
fn named_secrets(flat: &Flat) -> impl Iterator<Item = Path> {
    flat.iter().filter_map(|(path, leaf)| {
        let (last, group) = path.split_last()?;
        let is_named = NAMES.contains(&last.as_str()) && leaf.text().is_some_and(is_secret_name);
        is_named.then(|| group.iter().cloned().chain([VALUE.to_owned()]).collect())
    })
}

/// A list's members, and whether each is a secret for what comes before it: `--password`, or a user flag.
fn members(items: &[Tree]) -> impl Iterator<Item = (&Tree, bool)> {
    let before = std::iter::once(None).chain(items.iter().map(Some));
    items.iter().zip(before).map(|(item, before)| {
        let flag = before.and_then(Tree::text).unwrap_or_default();
        (item, is_secret_after(flag, item.text().unwrap_or_default()))
    })
}
