//! `/etc/svc-tools/environment`: the settings of this host. Every program of ours reads it, so that a command means the same by
//! hand, by cron, by a unit and by a script.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::table;
use crate::failure::Failure;
use crate::file;

const FILE: &str = "/etc/svc-tools/environment";
/// The variable that names another file.
const NAMED_BY: &str = "SVC_ENVIRONMENT_FILE";
/// In bytes: a larger file is none of ours.
const LARGEST: u64 = 1024 * 1024;

/// The file that [`load`] reads.
pub fn environment_file() -> PathBuf {
    super::variable(NAMED_BY).map_or_else(|| FILE.into(), PathBuf::from)
}

/// Reads the settings of the file into the environment of this process, and returns their names. A variable that is set and not empty
/// wins over the file. No file is no setting, unless it is named.
///
/// To be called first in `main`: no other thread may exist yet.
///
/// # Errors
/// The file that is named is not there (4), it cannot be read (3), or a line of it is no setting (2).
pub fn load() -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for (name, value) in unset()?.into_iter().filter(|(name, _)| is_setting(name)) {
        check(&name, &value)?;
        set(&name, &value);
        names.push(name);
    }
    Ok(names)
}

/// The variables of the file that are no settings of ours, such as the keys of an object store: nobody but restic gets them.
///
/// # Errors
/// As [`load`].
pub fn others() -> Result<Vec<(String, String)>, Failure> {
    Ok(unset()?.into_iter().filter(|(name, _)| !is_setting(name)).collect())
}

/// Those of the file that the environment does not set.
fn unset() -> Result<Vec<(String, String)>, Failure> {
    let all = read(&environment_file())?.into_iter();
    Ok(all.filter(|(name, _)| super::variable(name).is_none()).collect())
}

/// Whether our programs read it: ours, libpq's, and where `systemctl --user` finds its manager.
fn is_setting(name: &str) -> bool {
    name.starts_with("SVC_") || name.starts_with("PG") || name == "XDG_RUNTIME_DIR"
}

/// A misspelt setting would leave the default in force, and a path from the working directory would mean another one by hand than by cron.
fn check(name: &str, value: &str) -> Result<(), Failure> {
    let wrong = |what: &str| {
        let message = format!("{name} of the settings in {} {what}.", environment_file().display());
        Err(Failure::usage("settings_invalid", message).hint("All settings and what they are:\n  svc-run setting"))
    };
    if name.starts_with("SVC_") && !super::known().any(|known| known == name) {
        return wrong("is not a setting");
    }
    if table::find(name).is_some_and(|setting| setting.is_path) && !value.starts_with('/') {
        return wrong("is not an absolute path");
    }
    Ok(())
}

/// clap and libpq's variables are read from the environment, in many places.
#[allow(unsafe_code)]
fn set(name: &str, value: &str) {
    // SAFETY: `main` calls `load` before it starts a thread, so nothing reads the environment at the same time. Neither name nor
    // value holds a NUL, and the name no `=`: `parse` refuses them.
    unsafe { std::env::set_var(name, value) }
}

fn read(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let action = "read the settings";
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return if path == Path::new(FILE) { Ok(Vec::new()) } else { Err(Failure::io(action, path, &error)) };
        }
        Err(error) => return Err(unreadable(path).cause(error.to_string())),
    };
    if path.is_dir() {
        return Err(unreadable(path).cause("it is a directory"));
    }
    parse(file::text_of(file, action, path, LARGEST)?.trim_start_matches('\u{feff}'), path)
}

fn unreadable(path: &Path) -> Failure {
    Failure::refused("settings_invalid", format!("The settings in {} cannot be read.", path.display()))
        .hint(format!("Run the command as root (sudo), or name a file that you can read in {NAMED_BY}."))
}

/// The settings of a file that have a value, in their order. Nothing in a value is expanded or executed.
fn parse(text: &str, path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut settings = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = setting(line) else {
            // Without the line: a secret may be in it.
            return Err(Failure::usage(
                "settings_invalid",
                format!("Line {number} of the settings in {} is not KEY=value.", path.display()),
            )
            .hint("Write one setting on each line, without blanks around the =; a comment begins with #."));
        };
        if !value.is_empty() {
            settings.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(settings)
}

fn setting(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).map_or(line, str::trim_start);
    let (name, value) = line.split_once('=')?;
    let is_name = !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.is_empty();
    let value = value.trim();
    // Two words in quotes are no value in quotes.
    let quoted = |quote| value.strip_prefix(quote)?.strip_suffix(quote).filter(|inner: &&str| !inner.contains(quote));
    (is_name && !value.contains('\0')).then(|| (name, quoted('"').or_else(|| quoted('\'')).unwrap_or(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_file_values_are_not_expanded() {
        let text = "# ours\n\nSVC_NAME=app\n export  SVC_UNIT=app@1.service \r\nA='$HOME `id` $(id)'\nB=\"it's\"\nC=a b # c\nD=\nE=''\n\
            F=\"half\nexported=1\nG=it's\nH='/my app/x' --data '/srv/y'\n";
        let read = parse(text, Path::new("/f")).unwrap();
        let wanted = [
            ("SVC_NAME", "app"),
            ("SVC_UNIT", "app@1.service"),
            ("A", "$HOME `id` $(id)"),
            ("B", "it's"),
            ("C", "a b # c"),
            ("F", "\"half"),
            ("exported", "1"),
            ("G", "it's"),
            ("H", "'/my app/x' --data '/srv/y'"),
        ];
        assert_eq!(read, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn malformed_line_is_error_naming_file_and_line() {
        for line in ["SVC_UNIT = x", "SVC_UNIT", "=x", "1A=x", "set -a", "A-B=x", "A=x\0y"] {
            let failure = parse(&format!("A=secret\n{line}"), Path::new("/etc/f")).unwrap_err();
            assert_eq!((failure.status.code(), failure.code.as_str()), (2, "settings_invalid"), "{line}");
            assert_eq!(failure.message, "Line 2 of the settings in /etc/f is not KEY=value.");
        }
    }

    #[test]
    fn missing_or_unreadable_settings_file_is_error() {
        assert_eq!(read(Path::new("/dev/null")).unwrap(), []);
        assert_eq!(read(Path::new("/nowhere/environment")).unwrap_err().status.code(), 4);
        assert_eq!(read(Path::new("/etc")).unwrap_err().status.code(), 3);
    }

    #[test]
    fn unknown_setting_and_relative_path_are_refused() {
        for (name, value, says) in [
            ("SVC_DATABSE", "svc_db", "is not a setting"),
            ("SVC_STATE_DIR", "state", "is not an absolute path"),
            ("SVC_BACKUP_DIR", "~/backups", "is not an absolute path"),
            ("SVC_SEARCH_CA", "$HOME/ca.pem", "is not an absolute path"),
        ] {
            let failure = check(name, value).unwrap_err();
            assert!(failure.status.code() == 2 && failure.message.contains(says), "{failure}");
        }
        for (name, value) in [("SVC_DATABASE", "svc_db"), ("SVC_STATE_DIR", "/x y"), ("PGHOST", "db")] {
            assert!(check(name, value).is_ok(), "{name}");
        }
    }
}
