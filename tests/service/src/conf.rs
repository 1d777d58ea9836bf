//! Reads the service's configuration, of whichever layout is there, as `section.key` → text.
//!
//! It knows as much of both formats as the shipped files and an operator's edits of them need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::refusal::Refusal;

/// The scalars of a configuration by their dotted key; lists and empty values are left out.
pub type Values = BTreeMap<String, String>;

/// Reads the newer layout's `config/<name>/<name>.yaml`, else the older layout's `conf/<name>.conf`, else `etc/<name>.yaml`. The name is whatever
/// product is installed there.
///
/// # Errors
/// A refusal when neither is there; an unreadable file.
pub fn read(install_dir: &Path) -> anyhow::Result<Values> {
    let newer = entries(&install_dir.join("config")).into_iter().flat_map(|folder| entries(&folder));
    let newer = newer.chain(entries(&install_dir.join("etc")));
    let older = entries(&install_dir.join("conf")).into_iter();
    let yaml = newer.filter(|path| has_extension(path, "yaml")).map(|path| (path, of_yaml as fn(&str) -> Values));
    let conf = older.filter(|path| has_extension(path, "conf")).map(|path| (path, of_conf as fn(&str) -> Values));
    let Some((path, parse)) = yaml.chain(conf).next() else {
        return Err(Refusal::because(format!("There is no configuration in {}.", install_dir.display())));
    };
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse(&String::from_utf8_lossy(&bytes)))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

fn of_conf(text: &str) -> Values {
    let mut values = Values::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{}.", name.trim());
        } else if let Some((key, value)) = line.split_once(['=', ':']) {
            values.insert(format!("{section}{}", key.trim()), value.trim().to_owned());
        }
    }
    values
}

fn of_yaml(text: &str) -> Values {
    let mut values = Values::new();
    let mut parents: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let entry = line.trim_start();
        if entry.is_empty() || entry.starts_with(['#', '-']) {
            continue;
        }
        let Some((key, value)) = entry.split_once(':') else { continue };
        let depth = line.len() - entry.len();
        while parents.last().is_some_and(|(of_parent, _)| *of_parent >= depth) {
            parents.pop();
        }
        let mut path: Vec<&str> = parents.iter().map(|(_, name)| name.as_str()).collect();
        path.push(key.trim());
        let path = path.join(".");
        let value = scalar(value.trim());
        if !value.is_empty() {
            values.insert(path, value);
        }
        parents.push((depth, key.trim().to_owned()));
    }
    values
}

/// The text of a YAML scalar on one line: unquoted, and without the comment behind it.
fn scalar(raw: &str) -> String {
    let mut rest = raw.chars().peekable();
    match rest.peek() {
        Some('\'') => {
            rest.next();
            let mut text = String::new();
            while let Some(c) = rest.next() {
                if c == '\'' && rest.next_if_eq(&'\'').is_none() {
                    break;
                }
                text.push(c);
            }
            text
        }
        Some('"') => {
            rest.next();
            let mut text = String::new();
            while let Some(c) = rest.next() {
                match c {
                    '"' => break,
                    '\\' => text.extend(rest.next()),
                    _ => text.push(c),
                }
            }
            text
        }
        _ => raw.split(" #").next().unwrap_or_default().trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_read_to_the_same_keys() {
        let conf = of_conf("# c\n[database]\nhost = db one\n; c\nport: 5432\n");
        let yaml = of_yaml("database:\n  host: 'db one'  # c\n  port: 5432 # c\nlist:\n  - a: b\n");
        assert_eq!(conf, yaml);
    }

    #[test]
    fn quotes_are_taken_off() {
        assert_eq!(scalar("'it''s # one'"), "it's # one");
        assert_eq!(scalar(r#""a \"b\" c" # d"#), r#"a "b" c"#);
    }
}
