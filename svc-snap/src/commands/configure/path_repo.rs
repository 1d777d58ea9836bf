//! `path.repo` of a server's configuration: read by a YAML parser, and extended in its text.

use saphyr_parser::{Event, Parser};
use serde_json::json;

const NAME: &str = "path.repo";

/// The configuration with `location` in its `path.repo`, and the directories that this names; all other settings are compared.
/// Errors: Why it is not edited, as the end of a sentence, and the line that an operator writes in place of the setting.
pub(super) fn with_folder(text: &str, location: &str) -> Result<(String, Vec<String>), (String, String)> {
    let before = settings(text);
    let mut folders = before.as_deref().map(folders).unwrap_or_default();
    let with_slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
    if folders.iter().any(|folder| with_slash(location).starts_with(&with_slash(folder))) {
        return Ok((text.to_owned(), folders));
    }
    let own = line_of(&folders);
    folders.push(location.to_owned());
    let line = line_of(&folders);
    let before = before.map_err(|why| (why, line.clone()))?;
    let (edited, why) = if before.iter().all(|(name, _)| name != NAME) {
        let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { end };
        (format!("{text}{gap}{line}{end}"), "a line at its end would not be read as a setting")
    } else {
        let is_own = text.lines().filter(|line| line.starts_with(NAME)).map(|line| line.starts_with(&own)).eq([true]);
        (if is_own { text.replacen(&own, &line, 1) } else { text.to_owned() }, "it has a path.repo without this directory")
    };
    let others = |all: &[(String, String)]| all.iter().filter(|(name, _)| name != NAME).cloned().collect::<Vec<_>>();
    match settings(&edited) {
        Ok(after) if others(&after) == others(&before) && self::folders(&after) == folders => Ok((edited, folders)),
        _ => Err((why.to_owned(), line)),
    }
}

/// A JSON list is a YAML list.
fn line_of(folders: &[String]) -> String {
    let quoted: Vec<String> = folders.iter().map(|folder| json!(folder).to_string()).collect();
    format!("{NAME}: [{}]", quoted.join(", "))
}

/// The directories that the setting names; a text may name several, parted by commas.
fn folders(settings: &[(String, String)]) -> Vec<String> {
    let values = settings.iter().filter(|(name, _)| name == NAME).flat_map(|(_, value)| value.split(','));
    values.map(str::trim).filter(|folder| !["", "~", "null"].contains(folder)).map(str::to_owned).collect()
}

/// A group or a list that is not closed yet.
enum Open {
    /// A group's name, and the full name of the setting whose value comes next.
    Group(String, Option<String>),
    /// A list's name.
    List(String),
}

/// The settings by their full names, as the servers flatten them (`path: {repo: x}` is `path.repo: x`); an item of a list has its name.
fn settings(text: &str) -> Result<Vec<(String, String)>, String> {
    let (mut all, mut open, mut documents) = (Vec::new(), Vec::new(), 0);
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| format!("line {} is not understood ({})", error.marker().line(), error.info()))?;
        let name = match (&event, open.last_mut()) {
            (Event::Scalar(key, ..), Some(Open::Group(group, next @ None))) => {
                *next = Some(if group.is_empty() { key.to_string() } else { format!("{group}.{key}") });
                continue;
            }
            (_, Some(Open::Group(_, next))) => next.take().unwrap_or_default(),
            (_, Some(Open::List(name))) => name.clone(),
            (_, None) => String::new(),
        };
        match event {
            Event::DocumentStart(_) => documents += 1,
            Event::Scalar(value, ..) if !open.is_empty() => all.push((name, value.to_string())),
            Event::Alias(_) => all.push((name, "*".to_owned())),
            Event::SequenceStart(..) if !open.is_empty() => {
                all.push((name.clone(), String::new()));
                open.push(Open::List(name));
            }
            Event::MappingStart(..) => open.push(Open::Group(name, None)),
            Event::SequenceEnd | Event::MappingEnd => drop(open.pop()),
            Event::Scalar(..) | Event::SequenceStart(..) => return Err(format!("line {} is not a setting", span.start.line())),
            _ => {}
        }
    }
    if documents > 1 { Err("it holds more than one document".to_owned()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_folder_leaves_other_bytes_unchanged() {
        for (before, after) in [
            ("# path.repo: /x\na: 1", "# path.repo: /x\na: 1\npath.repo: [\"/new\"]\n"),
            ("", "path.repo: [\"/new\"]\n"),
            ("# nothing but this\r\n", "# nothing but this\r\npath.repo: [\"/new\"]\r\n"),
            ("other:\n  path.repo: /a\n", "other:\n  path.repo: /a\npath.repo: [\"/new\"]\n"),
            (
                "h: &h [a, b]\ns: *h\nt: |\n  path.repo: /a\n",
                "h: &h [a, b]\ns: *h\nt: |\n  path.repo: /a\npath.repo: [\"/new\"]\n",
            ),
            ("path.repo: [\"/a\"] # ours\r\nb: 2\r\n", "path.repo: [\"/a\", \"/new\"] # ours\r\nb: 2\r\n"),
            ("path.repo: []\n", "path.repo: [\"/new\"]\n"),
            ("path.repo: /\n", "path.repo: /\n"),
            ("path:\n  repo: [/a,\n    /new]\n", "path:\n  repo: [/a,\n    /new]\n"),
        ] {
            assert_eq!(with_folder(before, "/new").unwrap().0, after, "{before}");
            assert_eq!(with_folder(after, "/new").unwrap().0, after, "twice: {before}");
        }
        let below = "path.repo: /var/backups/\n";
        assert_eq!(with_folder(below, "/var/backups/backup_repo").unwrap().0, below);
        assert!(with_folder(below, "/var/backups2").is_err());
    }

    #[test]
    fn unextendable_file_is_refused_with_path_repo_line() {
        for bad in [
            "path.repo: /a\n",
            "path.repo:\n  - /a\n",
            "path:\n  repo: ['/a']\n",
            "path.repo: [\"/a\"]\npath.repo: []\n",
            "a: 1\npath.repo: \"/a\"\n...\n",
            "path.repo: &all [/a]\nmore: *all\n",
            "path.repo: |\n  /a\n",
            "\tpath.repo: /a\n",
        ] {
            assert_eq!(with_folder(bad, "/new").unwrap_err().1, "path.repo: [\"/a\", \"/new\"]", "{bad}");
        }
        for bad in [
            "path.repo: ~\n",
            "path.repo: [/a\n",
            "path.repo:     # to be set by operations\n",
            "a: 1\n...\n",
            "{a: 1}\n",
            "- a\n",
            "a: [1\n",
            "  a: 1\n",
            "a: 1\n---\nb: 1\n",
            "a",
        ] {
            assert_eq!(with_folder(bad, "/new").unwrap_err().1, "path.repo: [\"/new\"]", "{bad}");
        }
        for bad in ["path.repo: /a,/b\n", "path.repo: /a\npath.repo: /b\n", "path.repo: /a\npath:\n  repo: /b\n"] {
            assert_eq!(with_folder(bad, "/new").unwrap_err().1, "path.repo: [\"/a\", \"/b\", \"/new\"]", "{bad}");
        }
    }
}
