//! The setting `path.repo` in a search database's configuration file: read, and extended, without touching anything else.
//!
//! The file is a flat list of settings with comments, in which a tool may change nothing but what it was asked to. So the line
//! of the setting is found and edited as text; a form that is not understood is refused, not guessed at.

/// The configuration with the setting as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub text: String,
    /// The folders that it names.
    pub folders: Vec<String>,
}

/// Where the setting stands, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    /// The line of its key, and the key with its colon, as it stands there.
    line: usize,
    key: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// Nothing, or `null`.
    None,
    /// One text, in which commas separate folders.
    Text { folders: Vec<String>, comment: String },
    /// `[a, b]`.
    Flow { folders: Vec<String>, comment: String },
    /// `- a` lines; the last of them, and their indentation.
    Block { folders: Vec<String>, last: usize, indent: String },
}

impl Value {
    fn folders(&self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Text { folders, .. } | Self::Flow { folders, .. } | Self::Block { folders, .. } => folders.clone(),
        }
    }
}

/// Whether a server whose `path.repo` names `folders` may have a repository at `location`.
fn covers(folders: &[String], location: &str) -> bool {
    let with_slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
    folders.iter().any(|folder| with_slash(location).starts_with(&with_slash(folder)))
}

/// Adds `location` to the setting, unless it is covered already.
///
/// # Errors
/// Why the setting is not understood, as the end of a sentence.
pub(crate) fn extend(text: &str, location: &str) -> Result<Edited, String> {
    let found = find(text)?;
    let mut folders = found.as_ref().map(|found| found.value.folders()).unwrap_or_default();
    if covers(&folders, location) {
        return Ok(Edited { text: text.to_owned(), folders });
    }
    folders.push(location.to_owned());
    let edited = match found {
        Some(found) => edit(text, &found, &folders, location),
        None => append(text, &folders),
    };
    // The proof: the edited file says just this.
    match find(&edited)? {
        Some(again) if again.value.folders() == folders => Ok(Edited { text: edited, folders }),
        _ => Err("the edited file would not say what it should".to_owned()),
    }
}

fn edit(text: &str, found: &Found, folders: &[String], location: &str) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    match &found.value {
        Value::Block { last, indent, .. } => {
            if let Some(line) = lines.get_mut(*last).filter(|line| !line.ends_with('\n')) {
                line.push('\n');
            }
            lines.insert(last + 1, format!("{indent}- {}\n", quoted(location)));
        }
        Value::None => replace(&mut lines, found, folders, ""),
        Value::Text { comment, .. } | Value::Flow { comment, .. } => replace(&mut lines, found, folders, comment),
    }
    lines.concat()
}

fn replace(lines: &mut [String], found: &Found, folders: &[String], comment: &str) {
    if let Some(line) = lines.get_mut(found.line) {
        let end = if line.ends_with("\r\n") {
            "\r\n"
        } else if line.ends_with('\n') {
            "\n"
        } else {
            ""
        };
        *line = format!("{} {}{comment}{end}", found.key, flow(folders));
    }
}

fn append(text: &str, folders: &[String]) -> String {
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{gap}path.repo: {}\n", flow(folders))
}

fn flow(folders: &[String]) -> String {
    format!("[{}]", folders.iter().map(|folder| quoted(folder)).collect::<Vec<_>>().join(", "))
}

/// A JSON string is a YAML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Finds the setting as `path.repo:` at the beginning of a line, or as `repo:` below `path:`.
fn find(text: &str) -> Result<Option<Found>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut below_path = false;
    for (number, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        if indent == 0 {
            below_path = key_of(body).is_some_and(|(name, _, rest)| name == "path" && comment_only(rest));
            if key_of(body).is_some_and(|(name, _, rest)| name == "path" && rest.trim_start().starts_with('{')) {
                return Err("its `path` is written in braces".to_owned());
            }
        }
        let wanted = if indent == 0 { "path.repo" } else { "repo" };
        if indent > 0 && !below_path {
            continue;
        }
        if let Some((_, key, rest)) = key_of(body).filter(|(name, _, _)| name == wanted) {
            let key = format!("{}{key}", line.get(..indent).unwrap_or_default());
            let value = value(&lines, number, indent, rest)?;
            found.push(Found { line: number, key, value });
        }
    }
    if found.len() > 1 {
        return Err("it has path.repo more than once".to_owned());
    }
    Ok(found.pop())
}

/// The name of a `name: value` line, the key as it stands there with its colon, and what follows.
fn key_of(body: &str) -> Option<(String, &str, &str)> {
    let at =
        body.find(':').filter(|at| body.get(at + 1..).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])))?;
    let (key, rest) = body.split_at(at + 1);
    let name = key.trim_end_matches(':').trim();
    let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let bare = bare.or_else(|| name.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')));
    Some((bare.unwrap_or(name).to_owned(), key, rest))
}

fn comment_only(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with('#')
}

fn value(lines: &[&str], number: usize, indent: usize, rest: &str) -> Result<Value, String> {
    let text = rest.trim_start();
    if comment_only(rest) {
        return block(lines, number, indent);
    }
    if let Some(inner) = text.strip_prefix('[') {
        let (folders, after) = flow_items(inner)?;
        return Ok(Value::Flow { folders, comment: comment(after)? });
    }
    if text.starts_with(['{', '&', '*', '!', '|', '>', '%', '@', '`']) {
        return Err("its path.repo is written in a form that is not understood".to_owned());
    }
    let (scalar, after) = scalar(text, false)?;
    let comment = comment(after)?;
    let folders: Vec<String> = scalar.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect();
    if folders.is_empty() || scalar == "null" || scalar == "~" { Ok(Value::None) } else { Ok(Value::Text { folders, comment }) }
}

fn block(lines: &[&str], number: usize, indent: usize) -> Result<Value, String> {
    let (mut folders, mut last, mut margin) = (Vec::new(), None, String::new());
    for (at, line) in lines.iter().enumerate().skip(number + 1) {
        let body = line.trim_start();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let depth = line.len() - body.len();
        let Some(item) = body.strip_prefix("- ").filter(|_| depth >= indent) else {
            if depth > indent {
                return Err("its path.repo is written in a form that is not understood".to_owned());
            }
            break;
        };
        let (folder, after) = scalar(item.trim_start(), false)?;
        comment(after)?;
        folders.push(folder);
        last = Some(at);
        line.get(..depth).unwrap_or_default().clone_into(&mut margin);
    }
    Ok(last.map_or(Value::None, |last| Value::Block { folders, last, indent: margin }))
}

/// The items up to the closing bracket, which must stand in the same line.
fn flow_items(mut rest: &str) -> Result<(Vec<String>, &str), String> {
    let mut folders = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(']') {
            return Ok((folders, after));
        }
        if rest.is_empty() || rest.starts_with('#') {
            return Err("its path.repo goes over several lines".to_owned());
        }
        let (item, after) = scalar(rest, true)?;
        folders.push(item);
        rest = after.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// One plain or quoted text, and what follows it.
fn scalar(text: &str, in_flow: bool) -> Result<(String, &str), String> {
    let open = || "its path.repo has a quote that is not closed".to_owned();
    if let Some(rest) = text.strip_prefix('\'') {
        let end = rest.find('\'').ok_or_else(open)?;
        let (inner, after) = rest.split_at(end);
        return Ok((inner.to_owned(), after.get(1..).unwrap_or_default()));
    }
    if text.starts_with('"') {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let inner = stream.next().and_then(Result::ok).ok_or_else(open)?;
        return Ok((inner, text.get(stream.byte_offset()..).unwrap_or_default()));
    }
    let end = if in_flow { text.find([',', ']']) } else { text.find(" #").or_else(|| text.find("\t#")) };
    let (inner, after) = text.split_at(end.unwrap_or(text.len()));
    Ok((inner.trim().to_owned(), after))
}

/// A comment with the white space before it, as it stands there.
fn comment(after: &str) -> Result<String, String> {
    let after = after.trim_end_matches(['\r', '\n']);
    if comment_only(after) {
        Ok(after.trim_end().to_owned())
    } else {
        Err("something follows the value of its path.repo".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(text: &str) -> String {
        extend(text, "/new").unwrap().text
    }

    #[test]
    fn a_file_without_the_setting_gets_a_line_at_its_end() {
        assert_eq!(extended("# path.repo: /x\na: 1"), "# path.repo: /x\na: 1\npath.repo: [\"/new\"]\n");
        assert_eq!(extended(""), "path.repo: [\"/new\"]\n");
    }

    #[test]
    fn every_form_is_extended_and_all_other_lines_stay() {
        for (before, after) in [
            ("a: 1\npath.repo: /old # mine\nb: 2\n", "a: 1\npath.repo: [\"/old\", \"/new\"] # mine\nb: 2\n"),
            ("path.repo: '/a b, /c'\n", "path.repo: [\"/a b\", \"/c\", \"/new\"]\n"),
            ("path.repo: [\"/a\", /b ]  # two\r\nb: 2\r\n", "path.repo: [\"/a\", \"/b\", \"/new\"]  # two\r\nb: 2\r\n"),
            ("path.repo: []\n", "path.repo: [\"/new\"]\n"),
            ("path.repo:\nb: 2\n", "path.repo: [\"/new\"]\nb: 2\n"),
            (
                "path.repo:\n  - /a\n  # why\n  - \"/b\"\n\nb: 2\n",
                "path.repo:\n  - /a\n  # why\n  - \"/b\"\n  - \"/new\"\n\nb: 2\n",
            ),
            ("path.repo:\n- /a\nb: 2\n", "path.repo:\n- /a\n- \"/new\"\nb: 2\n"),
            ("path.repo:\n  - /a", "path.repo:\n  - /a\n  - \"/new\"\n"),
            ("path:\n  data: /d\n  repo: /a\nb: 2\n", "path:\n  data: /d\n  repo: [\"/a\", \"/new\"]\nb: 2\n"),
            ("path:\n  repo:\n    - /a\n  logs: /l\n", "path:\n  repo:\n    - /a\n    - \"/new\"\n  logs: /l\n"),
            ("other:\n  repo: /a\n", "other:\n  repo: /a\npath.repo: [\"/new\"]\n"),
            ("\"path.repo\" : /a\n", "\"path.repo\" : [\"/a\", \"/new\"]\n"),
        ] {
            assert_eq!(extended(before), after, "{before}");
            assert_eq!(extended(after), after, "twice: {before}");
        }
    }

    #[test]
    fn a_folder_below_one_that_is_named_needs_nothing() {
        let text = "path.repo: /var/backups\n";
        assert_eq!(extend(text, "/var/backups/backup_repo").unwrap().text, text);
        assert_ne!(extend(text, "/var/backups2").unwrap().text, text);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [
            "path.repo: /a\npath.repo: /b\n",
            "path.repo: [\"/a\",\n  \"/b\"]\n",
            "path.repo: \"/a\n",
            "path.repo: |\n  /a\n",
            "path: {repo: /a}\n",
            "path.repo: [/a] x\n",
            "path.repo:\n  a: b\n",
        ] {
            assert!(extend(bad, "/new").is_err(), "{bad}");
        }
    }
}
