//! What `carry` makes of three files: each kind of YAML and of lines (`cases/`), and files of the shape of fourteen real
//! configurations in two releases each (`shapes/`, which were written for these tests).

use std::collections::BTreeMap;

use svc_tests::tool::root;

use crate::site::*;

/// What was shipped, what the operator made of it, the next release, what comes of it, and what the document says of each key.
struct Case {
    name: String,
    base: String,
    saved: String,
    new: String,
    wanted: String,
    keys: Vec<String>,
}

impl Case {
    fn holds(&self, layout: &str) {
        let Self { name, base, saved, new, wanted, keys } = self;
        let site = Site::new();
        let place = if layout == "yaml" { site.yaml() } else { site.conf() };
        // Nobody customised it: the next release, to the byte.
        let ran = site.carry(layout, base, Some(base), new).run().ok().unchanged();
        assert_eq!(outcomes(&ran), [""; 0], "{name}");
        assert_text(&text(&place), new, name);
        // The same release again: the operator's file, to the value. One that is not understood is carried whole, for review.
        let ran = site.carry(layout, saved, Some(base), base).run().changed();
        let is_whole = outcomes(&ran) == ["(the whole file): carried"];
        drop(if is_whole { ran.review("not_restored") } else { ran.ok() });
        let diff = site.tool("diff").arg(site.path(&format!("saved.{layout}"))).run().ok();
        assert_eq!(diff.result()["same"], true, "{name}\n{diff}");
        // The next release.
        let carry = site.carry(layout, saved, Some(base), new);
        let ran = carry.clone().run();
        assert_text(&text(&place), wanted, name);
        assert_eq!(outcomes(&ran), *keys, "{name}\n{ran}");
        let status = |needs_review: bool| if needs_review { 9 } else { 0 };
        assert_eq!(ran.status, status(keys.iter().any(|key| !key.ends_with(": carried"))), "{name}\n{ran}");
        // A second time nothing is left to be done: the operator has won the conflicts.
        let again = carry.run().unchanged();
        assert_eq!(again.status, status(keys.iter().any(|key| key.contains(": not_carried"))), "{name}\n{again}");
        assert_text(&text(&place), wanted, name);
    }
}

fn folder() -> PathBuf {
    root().join("tests/confsave")
}

/// `=== NAME` begins a case, and `--- PART` each of its texts.
fn cases(layout: &str) -> Vec<Case> {
    let file = text(folder().join("cases").join(layout).with_extension("txt"));
    let case = |case: &str| {
        let mut parts = case.trim_end().split("\n--- ");
        let name = parts.next().unwrap().to_owned();
        let parts: BTreeMap<&str, &str> = parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect();
        let of = |part: &str| parts.get(part).map(|text| if text.is_empty() { String::new() } else { format!("{text}\n") });
        let base = of("base").unwrap();
        let new = of("new").unwrap_or_else(|| base.clone());
        let wanted = of("wanted").unwrap_or_else(|| new.clone());
        let keys = parts["keys"].lines().map(str::to_owned).collect();
        Case { name, saved: of("saved").unwrap(), base, new, wanted, keys }
    };
    file.split("\n=== ").skip(1).map(case).collect()
}

/// `NAME.1.*` and `NAME.2.*` are the releases, `NAME.mine.diff` is what the operator made of the first one, and `NAME.carried.diff`
/// what a carry makes of the second one, below what the document says of each key.
fn shape(first: &Path) -> Case {
    let name = first.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_owned();
    let second = first.with_file_name(first.file_name().unwrap().to_str().unwrap().replacen(".1.", ".2.", 1));
    let diff = |what: &str| first.with_file_name(format!("{name}.{what}.diff"));
    let patched = |file: &Path, what: &str| {
        os::run(Command::new("patch").args(["--quiet", "--output=-"]).arg(file).arg(diff(what))).unwrap()
    };
    Case {
        base: text(first),
        saved: patched(first, "mine"),
        new: text(&second),
        wanted: patched(&second, "carried"),
        keys: text(diff("carried")).lines().take_while(|line| !line.starts_with("--- ")).map(str::to_owned).collect(),
        name,
    }
}

#[test]
fn every_kind_of_yaml_keeps_how_it_is_written() {
    cases("yaml").iter().for_each(|case| case.holds("yaml"));
}

#[test]
fn carried_conf_keeps_its_formatting() {
    cases("conf").iter().for_each(|case| case.holds("conf"));
}

#[test]
fn files_of_real_shapes_are_carried_to_their_next_release() {
    let files = fs::read_dir(folder().join("shapes")).unwrap().map(|entry| entry.unwrap().path());
    let first: Vec<PathBuf> = files.filter(|file| file.to_str().unwrap().contains(".1.")).collect();
    assert_eq!(first.len(), 14);
    for file in first {
        let is_yaml = file.extension().is_some_and(|kind| kind == "yml" || kind == "yaml");
        shape(&file).holds(if is_yaml { "yaml" } else { "conf" });
    }
}
