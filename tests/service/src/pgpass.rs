//! Finds a password in a file of libpq's form, `host:port:database:user:password`.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// The password of the first line that fits; `None` if no line does.
///
/// # Errors
/// A file that cannot be read.
pub fn find(file: &Path, host: &str, port: u16, database: &str, user: &str) -> anyhow::Result<Option<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the password file {}", file.display()))?;
    let port = port.to_string();
    let wanted = [host, port.as_str(), database, user];
    Ok(text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line).into_iter();
        let fits = wanted.iter().all(|want| fields.next().is_some_and(|field| field == "*" || field == *want));
        if fits { fields.next() } else { None }
    }))
}

/// The fields of a line, `\:` and `\\` read as the characters they stand for.
fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => field.extend(characters.next()),
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            _ => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_colons_belong_to_the_field() {
        assert_eq!(fields(r"h:1:d\:b:u:p\\:w"), ["h", "1", "d:b", "u", r"p\:w"]);
    }
}
