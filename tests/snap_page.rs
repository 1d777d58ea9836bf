//! The commands that the page of `svc-snap` shows, run as they stand there on a server of their own; and the codes of `docs/errors.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::json;
use svc_tests::host::{Host, search_env};
use svc_tests::page::Example;
use svc_tests::search::Settings;

/// What stands in the page, and in whose place what is there.
const FOLDER: &str = "/var/backups/search/backup_repo";
const RUN: &str = "20261121t093626z-hand";
/// What differs each time.
const VOLATILE: [&str; 2] = ["2026-11-21T09:57:24Z", "snapshot_svc_20261121"];

#[test]
fn every_command_of_the_page_works_in_the_order_of_the_page() {
    let host = Host::shared().unwrap();
    let search = host.search_server(&host.search.key, &Settings { path_repo: false, ..Settings::default() }).unwrap();
    // A replica that has no node makes the server yellow, as on the page.
    for (index, count, replicas) in [("content", 1, 1), ("hs-a", 5, 0)] {
        search.ask("PUT", &format!("/{index}"), Some(&json!({"settings": {"number_of_replicas": replicas}}))).unwrap();
        for n in 0..count {
            search.ask("PUT", &format!("/{index}/_doc/{n}"), Some(&json!({"n": n}))).unwrap();
        }
    }
    let product = search.product.to_string();
    let dir = tempfile::tempdir().unwrap();
    let folder = search.repo_root.join("backup_repo").display().to_string();
    let mut env = [host.systemd.env(), search_env(&search)].concat();
    env.retain(|(name, _)| name != "SVC_BACKUP_REPO");
    env.push(("SVC_STATE_DIR".to_owned(), dir.path().join("state").display().to_string()));

    let mut examples = Example::all("svc-snap/README.md").unwrap();
    let blocks_with = |examples: &[Example], part: &str| -> Vec<usize> {
        examples.iter().filter(|one| one.command.contains(part)).map(|one| one.block).collect()
    };
    // What lies in /etc is not this test's to make; snap_connection.rs has credentials of every kind.
    let others = blocks_with(&examples, "/etc/");
    examples.retain(|one| !others.contains(&one.block));
    // The page begins with what comes after the one-time configuration.
    let first = blocks_with(&examples, "svc-snap configure");
    examples.sort_by_key(|one| !first.contains(&one.block));
    assert!(examples.len() >= 24 && examples[0].command.starts_with("svc-snap configure"), "{examples:?}");
    assert!(examples.iter().filter(|one| !one.shown.is_empty()).count() >= 12, "{examples:?}");
    for example in &examples {
        let mut here = example.with(FOLDER, &folder);
        here.command = here.command.replace(RUN, "$(jq -r .result.run restored.json)");
        here.command = format!("systemctl() {{ svc-unit \"$1\" \"$SVC_SEARCH_UNIT\"; }}; {}", here.command);
        for (page, this) in [("opensearch", product.as_str()), ("2.19.3", &search.version)] {
            here.shown = here.shown.replace(page, this);
        }
        // Of what the page does not show, the exit status alone is held against it.
        if example.shown.is_empty() {
            here.command = format!("{{ {}\n}} >out 2>&1", here.command);
        }
        for volatile in VOLATILE {
            here.shown = here.shown.replace(volatile, "…");
        }
        let status = here.holds(&env, dir.path()).unwrap_or_else(|error| panic!("{error:#}"));
        let out = fs::read_to_string(dir.path().join("out")).unwrap();
        assert!(status.success(), "{status}: {example:?}\n{out}");
    }
    let document = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(document("swapped.json").contains("\"ok\":true"));
}

/// Codes by exit status; those of warnings are under 0 and 9.
type Codes = BTreeMap<u8, std::collections::BTreeSet<String>>;

/// What makes a failure or a warning with its code as the first literal.
const MAKERS: [(&str, u8); 13] = [
    ("Failure::failed(", 1),
    ("Failure::usage(", 2),
    ("bad(", 2),
    ("Failure::refused(", 3),
    ("refuse_any(", 3),
    ("Failure::not_found(", 4),
    ("Failure::unavailable(", 5),
    ("Failure::timeout(", 6),
    ("Failure::invalid(", 7),
    ("Failure::locked(", 8),
    (".warn(", 0),
    ("warn_of(", 0),
    (".review(", 9),
];

/// The codes in the first arguments of a call, the text behind its parenthesis: literals in snake case.
fn first_codes(arguments: &str) -> Vec<String> {
    let arguments = arguments.trim_start_matches("call, ");
    let mut depth = 0_i32;
    let end = arguments.find(|c: char| {
        depth += i32::from(matches!(c, '(' | '{' | '[')) - i32::from(matches!(c, ')' | '}' | ']'));
        depth < 0 || (depth == 0 && c == ',')
    });
    let first = &arguments[..end.unwrap_or(0)];
    let is_code =
        |text: &&str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
    first.split('"').skip(1).step_by(2).filter(is_code).map(str::to_owned).collect()
}

/// Of the sources in a folder, without their tests and programs.
fn codes(folder: &Path, found: &mut Codes) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with("bin") {
            codes(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            let text = text.split("mod tests {").next().unwrap();
            for (maker, status) in MAKERS {
                let calls = text.split(maker).skip(1);
                found.entry(status).or_default().extend(calls.flat_map(first_codes));
            }
        }
    }
}

/// `SVC_UPDATE_PAGES=1` writes it again.
#[test]
fn the_page_of_errors_has_every_code_with_its_exit_status() {
    const BEGIN: &str = "SVC_UPDATE_PAGES=1 cargo test -p svc-tests --test snap_page -->\n";
    const END: &str = "<!-- to here: the codes -->\n";
    let root = svc_tests::tool::root();
    let mut table = "| tool | exit | `error.code`, or code of a warning |\n|---|---|---|\n".to_owned();
    for (tool, name) in [("svc-step", "every tool"), ("svc-snap", "svc-snap")] {
        let mut found = Codes::new();
        codes(&root.join(tool).join("src"), &mut found);
        for (status, codes) in found.into_iter().filter(|(_, codes)| !codes.is_empty()) {
            let warning = if matches!(status, 0 | 9) { " (warning)" } else { "" };
            let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
            table += &format!("| {name} | {status}{warning} | {} |\n", codes.join(", "));
        }
    }
    let file: PathBuf = root.join("docs/errors.md");
    let page = fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if env::var_os("SVC_UPDATE_PAGES").is_some() {
        fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(found == table, "docs/errors.md is not what the sources say; SVC_UPDATE_PAGES=1 writes it");
    }
}
