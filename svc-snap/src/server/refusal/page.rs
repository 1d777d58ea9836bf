//! The table of docs/errors.md that says what becomes of each error of the servers.

use std::path::Path;
use std::{env, fs};

use super::table::{RULES, Rule};
use crate::server::client::Effect;

const BEGIN: &str = "<!-- The errors of the servers, from src/client/errors.rs: SVC_UPDATE_PAGES=1 cargo test -p svc-snap -->\n";
const END: &str = "<!-- to here -->\n";

fn code(words: &[&str], join: &str) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(join)
}

fn row(rule: &Rule) -> String {
    let http: Vec<String> = rule.http.iter().map(u16::to_string).collect();
    let types = if rule.types.is_empty() { "any other".to_owned() } else { code(rule.types, ", ") };
    let with = if rule.with.is_empty() { String::new() } else { format!(" with {}", code(rule.with, " or ")) };
    let known = if rule.effect == Effect::Unknown { " *" } else { "" };
    format!(
        "| {types}{with} | {} | {} | {}{known} | `{}` |\n",
        code(rule.says, " or "),
        http.join(", "),
        rule.status.code(),
        rule.code
    )
}

/// `SVC_UPDATE_PAGES=1` writes it again.
#[test]
fn the_page_lists_every_error_of_the_servers_with_its_exit_status() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let page = fs::read_to_string(&file).unwrap();
    let rows: String = RULES.iter().map(row).collect();
    let table = format!(
        "| the server's `type` | and its `reason` says | HTTP | exit | `error.code` |\n|---|---|---|---|---|\n{rows}\
         | any other | | any other | 1 | `search_refused` |\n"
    );
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if env::var_os("SVC_UPDATE_PAGES").is_some() {
        fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(found == table, "docs/errors.md is not what table.rs says; SVC_UPDATE_PAGES=1 writes it");
    }
}

#[test]
fn every_rule_says_in_sentences_what_is_wrong_and_what_helps() {
    for rule in RULES {
        assert!(rule.message.ends_with('.') && rule.hint.ends_with('.'), "{}", rule.code);
        assert!(!rule.types.is_empty() || !rule.http.is_empty(), "{} fits everything", rule.code);
    }
}
