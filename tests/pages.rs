//! What the pages say, held against the sources: links, lengths, words, codes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use svc_tests::os::files_below;
use svc_tests::tool::root;

const TOOLS: [&str; 6] = ["svc-snap", "svc-pgdump", "svc-pgrestore", "svc-version", "svc-unit", "svc-confsave"];

/// What makes a failure or a warning of that exit status; its code is the literal behind it. Those of warnings are 0 and 9; what a
/// script says stands last.
const MAKERS: [(u8, &[&str]); 10] = [
    (1, &["Failure::failed(", "Status::Failed,", "fail 1 "]),
    (2, &["Failure::usage(", "Status::Usage,", "bad(", "fail 2 "]),
    (3, &["Failure::refused(", "refuse_any(", "Status::Refused,", "fail 3 "]),
    (4, &["Failure::not_found(", "Status::NotFound,"]),
    (5, &["Failure::unavailable(", "Status::Unavailable,"]),
    (6, &["Failure::timeout(", "Status::Timeout,"]),
    (7, &["Failure::invalid(", "Status::Invalid,"]),
    (8, &["Failure::locked(", "Status::Locked,"]),
    (0, &[".warn(", "warn_of(call,", "svc-run warn ", "--or-warn "]),
    (9, &[".review(", "--or-review "]),
];

/// Statuses of codes that are no literal where their failure or warning is made.
const OTHERS: [(&str, u8); 4] = [("run_unfinished", 9), ("failed", 1), ("repository_damaged", 0), ("file_invalid", 9)];

/// Each code of the sources and of the scripts with its exit statuses, as the page has them.
fn codes() -> BTreeMap<String, String> {
    let mut found: BTreeMap<&str, BTreeSet<u8>> = BTreeMap::new();
    let folders = TOOLS.iter().map(|tool| root().join(tool).join("src"));
    let files = folders.chain([root().join("svc-step/src"), root().join("scripts")]).flat_map(|folder| files_below(&folder));
    let texts: Vec<String> = files.filter(|file| !file.ends_with("tests.rs")).flat_map(fs::read_to_string).collect();
    for text in &texts {
        let text = text.split("mod tests {").next().unwrap();
        for (status, makers) in MAKERS {
            for behind in makers.iter().flat_map(|maker| text.split(*maker).skip(1)) {
                let literal = behind.trim_start().trim_start_matches('"');
                let end = literal.find(|sign: char| !sign.is_ascii_lowercase() && sign != '_').unwrap_or(literal.len());
                if literal[..end].contains('_') || ["locked", "timeout", "conflict", "interrupted"].contains(&&literal[..end]) {
                    found.entry(&literal[..end]).or_default().insert(status);
                }
            }
        }
    }
    // A warning of a run says itself that a person must read it.
    found.entry("run_unfinished").or_default().remove(&0);
    for (code, status) in OTHERS {
        assert!(texts.iter().any(|text| text.contains(&format!("\"{code}\""))), "{code} of OTHERS stands in no source");
        assert!(found.entry(code).or_default().insert(status), "{code}, {status} need not stand in OTHERS: it was found");
    }
    let shown = |statuses: BTreeSet<u8>| statuses.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let mut all: BTreeMap<String, String> =
        found.into_iter().map(|(code, statuses)| (code.to_owned(), shown(statuses))).collect();
    all.entry("interrupted".to_owned()).and_modify(|statuses| *statuses += ", 128+n").or_insert_with(|| "128+n".to_owned());
    all
}

/// The first two cells of a table's row, and the rest of it.
fn row(line: &str) -> Option<[&str; 3]> {
    let cells: Vec<&str> = line.strip_prefix('|')?.splitn(3, '|').map(str::trim).collect();
    cells.try_into().ok()
}

/// `SVC_UPDATE_PAGES=1` writes the statuses again. What a code means, and where it stands, a person has to say.
#[test]
fn errors_page_lists_every_code_once_with_its_statuses() {
    let file = root().join("docs/errors.md");
    let page = fs::read_to_string(&file).unwrap();
    let (table, rest) = page.split_once("\n## Errors of Elasticsearch").unwrap();
    let codes = codes();
    let mut shown = Vec::new();
    let lines = table.lines().map(|line| {
        let Some([code, _, meaning]) = row(line) else { return line.to_owned() };
        let Some(code) = code.strip_prefix('`').and_then(|code| code.strip_suffix('`')) else { return line.to_owned() };
        shown.push(code.to_owned());
        format!("| `{code}` | {} | {meaning}", codes.get(code).map_or("", String::as_str))
    });
    let lines: Vec<String> = lines.collect();
    let lacking: Vec<&String> = codes.keys().filter(|code| !shown.contains(code)).collect();
    assert!(lacking.is_empty(), "add a row to docs/errors.md, under what one does about it, for {lacking:?}");
    let old: Vec<&String> = shown.iter().filter(|code| !codes.contains_key(*code)).collect();
    assert!(old.is_empty(), "nothing makes these codes of docs/errors.md any more: {old:?}");
    assert_eq!(shown.len(), codes.len(), "a code has two rows in docs/errors.md");
    let wanted = format!("{}\n## Errors of Elasticsearch{rest}", lines.join("\n") + "\n");
    if env::var_os("SVC_UPDATE_PAGES").is_some() {
        fs::write(&file, wanted).unwrap();
    } else {
        assert!(page == wanted, "docs/errors.md is not what the sources say; SVC_UPDATE_PAGES=1 writes the statuses again");
    }
}

#[test]
fn exit_statuses_of_a_tools_page_are_those_of_the_sources() {
    let codes = codes();
    let mut rows = 0;
    for tool in TOOLS {
        let page = fs::read_to_string(root().join(tool).join("README.md")).unwrap();
        for line in page.lines() {
            let Some([names, statuses, _]) = row(line) else { continue };
            if !names.starts_with('`') || !statuses.starts_with(|sign: char| sign.is_ascii_digit()) {
                continue;
            }
            let of_code = |code| codes.get(code).map_or("", String::as_str).split(", ");
            let known: Vec<&str> = names.split('`').skip(1).step_by(2).flat_map(of_code).collect();
            let wrong: Vec<&str> = statuses.split(", ").filter(|status| !known.contains(status)).collect();
            assert!(wrong.is_empty(), "{tool}: {names} end with {known:?}, not with {wrong:?}");
            rows += 1;
        }
    }
    assert!(rows > 40, "{rows}");
}

#[test]
fn every_step_that_is_read_by_name_is_begun_by_some_script() {
    let scripts = ["scripts", "scripts/lib"].iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let texts: Vec<String> = scripts.flat_map(|entry| fs::read_to_string(entry.unwrap().path())).collect();
    let (mut begun, mut read) = (BTreeSet::new(), BTreeSet::new());
    // A counted name ends where its number stands.
    let names = |text: &str| -> Vec<String> {
        text.split_whitespace().map(|word| word.trim_matches('"').split('$').next().unwrap().to_owned()).collect()
    };
    for line in texts.iter().flat_map(|text| text.lines()) {
        let is_verb = |word: &String| ["step", "check", "start", "external", "undo", "preflight"].contains(&word.as_str());
        begun.extend(names(line.split(" -- ").next().unwrap()).into_iter().skip_while(|word| !is_verb(word)));
        // What a rollback reads of its upgrade.
        for read_of in line.replace("$last", "$upgrade").split("--run \"$upgrade\" ").skip(1) {
            read.extend(names(read_of.split([')', ';', '&', '.']).next().unwrap()));
        }
    }
    assert!(read.len() > 5, "{read:?}");
    read.extend(svc_step::steps::ALL.iter().map(|step| step.strip_suffix('1').unwrap_or(step).to_owned()));
    let unknown: Vec<_> = read.difference(&begun).collect();
    assert!(unknown.is_empty(), "no script begins these steps: {unknown:?}");
}

fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let folders = [".", "docs", "scripts", "tests", "tests/service", "svc-step"].map(str::to_owned).into_iter();
    let folders = folders.chain(TOOLS.map(str::to_owned));
    let entries = folders.flat_map(|folder| fs::read_dir(root().join(folder)).unwrap()).map(|entry| entry.unwrap().path());
    let pages: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    let mut links = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in targets.filter(|target| !target.starts_with("http") && !target.contains(' ')) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(file.exists(), "{} links to {target}", page.display());
            if !anchor.is_empty() {
                let there = fs::read_to_string(&file).unwrap();
                let found = there.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
                assert!(found, "{} links to {target}, and there is no such heading", page.display());
            }
            links += 1;
        }
    }
    assert!(links > 10, "{links}");
}

#[test]
fn tool_page_fits_180_lines_of_120_characters() {
    for tool in TOOLS {
        let text = fs::read_to_string(root().join(tool).join("README.md")).unwrap();
        assert!(text.lines().count() <= 180, "{tool}: {} lines", text.lines().count());
        // A row of a table, and a command with its output, are one line.
        let prose = text.split("```").step_by(2).flat_map(str::lines).filter(|line| !line.starts_with('|'));
        let long: Vec<&str> = prose.filter(|line| line.chars().count() > 120).collect();
        assert!(long.is_empty(), "{tool}: {long:#?}");
    }
}

/// A screen, and what a person can read at once.
#[test]
fn readme_changelog_schema_and_codes_stay_short() {
    let text = |page: &str| fs::read_to_string(root().join(page)).unwrap();
    let changelog = text("CHANGELOG.md");
    let unreleased = changelog.split("\n## ").find(|section| section.starts_with("Unreleased\n")).unwrap();
    for (what, length, most) in [
        ("lines of README.md", text("README.md").lines().count(), 80),
        ("lines of CHANGELOG.md on what is not released", unreleased.lines().count(), 20),
        ("lines of the schema", text("schema/svc-tools.json").lines().count(), 5000),
        ("codes", codes().len(), 60),
    ] {
        assert!(length <= most, "{length} {what}, {most} at most");
    }
}

/// Words and phrases that the glossary has another word for, as far as they tell it by themselves: no name, comment, help text,
/// message or page has one of them.
const NOT_OUR_WORDS: &str = "brake, unstage, brought, bring, brings, bringing, no good, proven, proof, prove, proves, foresee, \
    foreseen, wish, doubt, fate, stray, rival, gone on, going on, goes on, go on, cut off, nobody saw, end unknown, seal, \
    sealed, overtaken, altered, altering, alters, the same again, give an account, mend, mended, mends, anew, betimes, befell, \
    bears, riddles, mixture, of then, of now, at work, glance, patience, in haste, in silence, relational database, noted, \
    standing copy, side by side, no room, judge, judged, judges, straight, is said, trial, nature, trouble, of which, none \
    where, null where, null` where, empty where, nothing where, also where, save where, only where";

/// Whether a page, a source or a script is the project's own text. What the tests save and load is not.
fn has_our_words(file: &Path) -> bool {
    let of_tests = file.strip_prefix(root().join("tests")).ok();
    let is_text = file.extension().is_none_or(|kind| kind == "rs" || kind == "md" || kind == "sh");
    match of_tests {
        Some(path) => is_text && !path.starts_with("confsave/shapes") && !path.starts_with("scanner/target"),
        // The document that is implemented has its own words.
        None => !file.ends_with("docs/procedure.md") && !file.ends_with("docs/glossary.md"),
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
    let is_alone = |at: usize| !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next());
    line.match_indices(word).any(|(at, _)| is_alone(at))
}

#[test]
fn no_word_stands_anywhere_that_the_glossary_has_another_for() {
    let folders = TOOLS.into_iter().chain(["svc-step", "scripts", "docs", "tests"]);
    let pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(|page| root().join(page));
    let files = folders.flat_map(|folder| files_below(&root().join(folder))).chain(pages);
    let mut found = Vec::new();
    for file in files.filter(|file| has_our_words(file)) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let mut in_list = false;
        for (number, line) in text.lines().enumerate() {
            in_list |= line.starts_with("const NOT_OUR_WORDS");
            // An underscore or a hyphen of a name is a space.
            let plain = line.to_lowercase().replace(['_', '-'], " ");
            let words = NOT_OUR_WORDS.split(", ").filter(|word| !in_list && has_word(&plain, word));
            found.extend(words.map(|word| format!("{}:{}: {word}", file.display(), number + 1)));
            in_list &= !line.ends_with(';');
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
