//! Names of repositories and of what is in them: the servers' rules, checked before anything is sent.

/// Checks a repository's name, which may have upper-case letters.
pub(crate) fn repository(text: &str) -> Result<String, String> {
    checked("repository", text, false)
}

/// Checks a name; `lower`: whether it may have no upper-case letters.
pub(crate) fn checked(what: &str, text: &str, lower: bool) -> Result<String, String> {
    const FORBIDDEN: &[char] = &['\\', '/', '*', '?', '"', '<', '>', '|', ',', '#', ':'];
    let wrong = |why: &str| Err(format!("`{text}` is no {what} name: {why}"));
    if text.is_empty() {
        wrong("it is empty")
    } else if text.starts_with('_') || text.starts_with('-') {
        wrong("it starts with _ or -")
    } else if text == "." || text == ".." {
        wrong("it is . or ..")
    } else if text.contains(FORBIDDEN) || text.chars().any(|one| one.is_whitespace() || one.is_control()) {
        wrong("it has white space or one of \\ / * ? \" < > | , # : in it")
    } else if lower && text.chars().any(char::is_uppercase) {
        wrong("it has upper-case letters")
    } else if text.len() > 255 {
        wrong("it is longer than 255 bytes")
    } else {
        Ok(text.to_owned())
    }
}
