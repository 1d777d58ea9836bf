//! Every code of a failure or a warning in this crate, held against the tool's page (README.md): what a program may get is
//! written down there with its exit status, and nothing is promised that the code does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What makes a failure, and the exit status that it has.
const FAILURES: [(&str, u8); 9] = [
    ("Failure::failed(", 1),
    ("Failure::usage(", 2),
    ("Failure::refused(", 3),
    ("refuse_any(", 3),
    ("Failure::not_found(", 4),
    ("Failure::unavailable(", 5),
    ("Failure::timeout(", 6),
    ("Failure::invalid(", 7),
    ("Failure::locked(", 8),
];

/// What makes a warning.
const WARNINGS: [&str; 2] = [".warn(", ".review("];

/// The sources of a crate of the workspace, without their tests.
fn sources(crate_name: &str) -> Vec<String> {
    let mut folders: Vec<PathBuf> = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_name).join("src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !["tests.rs", "codes.rs", "page.rs"].contains(&name.as_str()) {
                let text = fs::read_to_string(path).unwrap();
                found.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned());
            }
        }
    }
    assert!(found.len() > 10, "these are not the sources of {crate_name}");
    found
}

/// The codes that are the first argument of `call`.
fn codes_of(sources: &[String], call: &str) -> BTreeSet<String> {
    let arguments = sources.iter().flat_map(|text| text.split(call).skip(1));
    let literals = arguments.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    literals.map(str::to_owned).collect()
}

/// The words of a text that are set as code.
fn codes_in(text: &str) -> BTreeSet<String> {
    let words = text.split('`').skip(1).step_by(2);
    let is_code = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    words.filter(is_code).map(str::to_owned).collect()
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The codes of the page's tables of errors, each with its exit status: those written by hand begin with it, in the one of the
/// servers' errors it is the last column but one.
fn promised(page: &str) -> BTreeSet<(u8, String)> {
    let mut found = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (status, codes) = match cells.as_slice() {
            [_, _, _, status, codes] => (status.trim_end_matches(" *"), codes),
            [status, codes, _] => (*status, codes),
            _ => continue,
        };
        if let Ok(status) = status.parse::<u8>() {
            found.extend(codes_in(codes).into_iter().map(|code| (status, code)));
        }
    }
    found
}

#[test]
fn every_failure_stands_on_the_page_with_its_exit_status() {
    let (page, sources) = (page(), sources("svc-snap"));
    let promised = promised(&page);
    let made = FAILURES.iter().flat_map(|(call, status)| codes_of(&sources, call).into_iter().map(|code| (*status, code)));
    let made: BTreeSet<(u8, String)> = made.filter(|(_, code)| !code.starts_with("from_")).collect();
    assert!(made.len() > 60, "{made:?}");
    let missing: Vec<&(u8, String)> = made.difference(&promised).collect();
    assert!(missing.is_empty(), "README.md has no row with these: {missing:?}");
}

#[test]
fn every_warning_stands_on_the_page() {
    let (named, sources) = (codes_in(&page()), sources("svc-snap"));
    let made: BTreeSet<String> = WARNINGS.iter().flat_map(|call| codes_of(&sources, call)).collect();
    assert!(made.len() > 15, "{made:?}");
    let missing: Vec<&String> = made.difference(&named).collect();
    assert!(missing.is_empty(), "README.md does not speak of these: {missing:?}");
}

#[test]
fn the_page_promises_no_code_that_nothing_has() {
    let sources = [sources("svc-snap"), sources("svc-step")].concat();
    let has = |code: &str| sources.iter().any(|text| text.contains(&format!("\"{code}\"")));
    let empty: Vec<(u8, String)> = promised(&page()).into_iter().filter(|(_, code)| code != "from_" && !has(code)).collect();
    assert!(empty.is_empty(), "nothing has these: {empty:?}");
}
