//! The `.sha256` file beside an installer, as `sha256sum` writes it.

use std::path::Path;

use svc_step::{Failure, file};

/// A checksum file is a few short lines.
const LONGEST: u64 = 64 * 1024;

/// Holds a file, whose SHA-256 is `found`, against the `.sha256` file beside it; `false` if there is none.
///
/// # Errors
/// It is another one, or the checksum file names none for it (7).
pub(crate) fn compare(path: &Path, found: &str) -> Result<bool, Failure> {
    let beside = file::beside(path, ".sha256");
    let text = match file::read_text("read the checksum file", &beside, LONGEST) {
        Ok(text) => text,
        Err(failure) if failure.code == "file_not_found" => return Ok(false),
        Err(failure) => return Err(failure),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(wanted) = sum_of(&text, &name) else {
        return Err(Failure::invalid("file_invalid", format!("{} has no checksum of {name}.", beside.display()))
            .hint("Fetch the .sha256 file again, or remove it if it belongs to something else."));
    };
    if wanted.eq_ignore_ascii_case(found) {
        return Ok(true);
    }
    Err(Failure::invalid("file_invalid", format!("The checksum of {} is not that of its checksum file.", path.display()))
        .hint("Fetch the installer again, and its .sha256 file with it.")
        .cause(format!("{} has {wanted}, the installer has {found}", beside.display())))
}

/// The sum of the line that names the file, by whatever path; of a line without a name it is the sum of the file beside.
fn sum_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (sum, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let named = rest.trim_start().trim_start_matches('*');
        let same = named.is_empty() || Path::new(named).file_name().is_some_and(|last| last.to_string_lossy() == name);
        (same && sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_line_is_chosen_by_file_name() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        assert_eq!(sum_of(&format!("{a}  svc-2.0.1.run\n"), "svc-2.0.1.run"), Some(a.as_str()));
        assert_eq!(sum_of(&format!("{a} *dist/svc-2.0.1.run\r\n"), "svc-2.0.1.run"), Some(a.as_str()));
        assert_eq!(sum_of(&format!("{a}\n"), "svc-2.0.1.run"), Some(a.as_str()));
        let both = format!("{a}  svc-1.15.5.run\n{b}  svc-2.0.1.run\n");
        assert_eq!(sum_of(&both, "svc-2.0.1.run"), Some(b.as_str()));
        assert_eq!(sum_of(&both, "svc-3.0.0.run"), None);
        assert_eq!(sum_of("deadbeef  svc-2.0.1.run", "svc-2.0.1.run"), None);
        assert_eq!(sum_of("", "svc-2.0.1.run"), None);
    }
}
