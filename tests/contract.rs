//! What all six tools keep alike, held for all of them from one table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use svc_tests::tool::{Tool, bin_dir, root, schema_file};
use svc_tests::{children, os, wait};

fn tools() -> Vec<(&'static str, clap::Command)> {
    vec![
        ("svc-version", svc_version::cli()),
        ("svc-unit", svc_unit::cli()),
        ("svc-confsave", svc_confsave::cli()),
        ("svc-pgdump", svc_pgdump::cli()),
        ("svc-pgrestore", svc_pgrestore::cli()),
        ("svc-snap", svc_snap::cli()),
    ]
}

/// `SVC_UPDATE_SCHEMAS=1` writes it again.
#[test]
fn schema_file_matches_schemas_of_all_programs() {
    let (mut steps, mut defs) = (Vec::new(), serde_json::Map::new());
    for program in tools().iter().map(|(tool, _)| *tool).chain(["svc-run", "svc-point"]) {
        let printed = os::run(Command::new(bin_dir().join(program)).arg("schema")).unwrap();
        let whole: Value = serde_json::from_str(&printed).unwrap();
        steps.extend(whole["oneOf"].as_array().unwrap().iter().cloned());
        defs.extend(whole["$defs"].as_object().unwrap().clone());
    }
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The documents of svc-tools",
        "oneOf": steps,
        "$defs": defs,
    });
    let (text, file) = (svc_step::schema::text(&whole), schema_file());
    if std::env::var_os("SVC_UPDATE_SCHEMAS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{} is not what the programs print; SVC_UPDATE_SCHEMAS=1 writes it", file.display());
}

#[test]
fn every_tool_and_step_has_help_with_example() {
    for (tool, mut cli) in tools() {
        cli.build();
        cli.clone().debug_assert();
        let long = cli.render_long_help().to_string();
        assert!(long.contains("Exit status:"), "{tool} --help lacks the table of exit statuses");
        assert!(long.contains("Example"), "{tool} --help lacks an example");
        for step in cli.get_subcommands_mut().filter(|step| step.get_name() != "help") {
            let name = step.get_name().to_owned();
            assert!(step.get_about().is_some(), "{tool} {name} says nothing of itself");
            assert!(step.render_long_help().to_string().contains("Example"), "{tool} {name} --help lacks an example");
        }
    }
}

/// Flags in hints that are those of other programs: `psql --list`, `pg_dump --create`.
const FOREIGN: [&str; 2] = ["create", "list"];

#[test]
fn every_flag_that_a_hint_names_is_there() {
    let of = |tool: &str, known: &[String]| {
        for file in os::files_below(&root().join(tool).join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            for hint in text.split("#[cfg(test)]").next().unwrap().split(".hint(").skip(1).map(argument) {
                for word in hint.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-') {
                    let flag =
                        word.strip_prefix("--").filter(|flag| flag.starts_with(|letter: char| letter.is_ascii_lowercase()));
                    // A family of flags may be named by their beginning: "the --ready flags".
                    let names = |one: &str, flag: &str| {
                        one.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                    };
                    let there = |flag: &str| FOREIGN.contains(&flag) || known.iter().any(|one| names(one, flag));
                    assert!(flag.is_none_or(there), "{}: there is no {word}: {hint}", file.display());
                }
            }
        }
    };
    let mut all = Vec::new();
    for (tool, mut cli) in tools() {
        cli.build();
        let mut known = Vec::new();
        flags(&cli, &mut known);
        of(tool, &known);
        all.extend(known);
    }
    // What svc-run and svc-point name is also the scripts'.
    for entry in fs::read_dir(root().join("scripts")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = fs::read_to_string(entry).unwrap();
        let words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
        all.extend(words.filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty()).map(str::to_owned));
    }
    of("svc-step", &all);
}

/// The text to the parenthesis that closes the call.
fn argument(text: &str) -> &str {
    let mut open = 1;
    let end = text.find(|letter| {
        open += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        open == 0
    });
    &text[..end.unwrap_or(text.len())]
}

fn flags(command: &clap::Command, known: &mut Vec<String>) {
    known.extend(command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)));
    command.get_subcommands().for_each(|step| flags(step, known));
}

#[test]
fn environment_wins_over_settings_file_in_every_tool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("environment");
    let with = |text: &str, mode: u32| os::file(&file, text, mode, None).unwrap();
    os::folder(folder.path(), 0o755, None).unwrap();
    for (tool, args, status) in FAILING {
        let call = || failing(tool, args).env("SVC_ENVIRONMENT_FILE", &file);
        with("export SVC_RUN_ID='20261120t020003z-file'\nSVC_TIMEOUT=\n", 0o644);
        let run_id = |tool: Tool| tool.run().doc()["run_id"].as_str().unwrap().to_owned();
        assert_eq!(run_id(call()), "20261120t020003z-file");
        assert_eq!(run_id(call().env("SVC_RUN_ID", "")), "20261120t020003z-file");
        assert_eq!(run_id(call().env("SVC_RUN_ID", "20261120t020003z-own")), "20261120t020003z-own");
        // What does not fit is named, with its place.
        with("SVC_TIMEOUT=soon\n", 0o644);
        call().run().exits(2, &[&format!("SVC_TIMEOUT in {}", file.display())]);
        assert_eq!(call().env("SVC_TIMEOUT", "5s").run().status, status);
        with("SVC_TIMEOUT = 5s\n", 0o644);
        call().run().exits(2, &["Line 1", &file.to_string_lossy()]);
        // Nobody may read it but root; the help is for everybody.
        with("SVC_TIMEOUT=5s\n", 0o600);
        let by_daemon = || Tool::new(tool).env("SVC_ENVIRONMENT_FILE", &file).as_user("daemon");
        let ran = by_daemon().args(args.iter().copied()).run();
        assert!(ran.status == 3 && ran.stderr.contains("hint: ") && ran.stdout.is_empty(), "{ran}");
        for (arg, status) in [("--help", 0), ("--version", 0), ("--no-such-flag", 3)] {
            by_daemon().arg(arg).run().exits(status, &[]);
        }
    }
}

/// A step of each tool that can be run without a server, and fails.
const FAILING: [(&str, &[&str], i32); 7] = [
    ("svc-point", &["create", "/proc/nowhere/point"], 3),
    ("svc-version", &["current", "--install-dir", "/nonexistent"], 4),
    ("svc-unit", &["status"], 5),
    ("svc-confsave", &["save", "--install-dir", "/nonexistent"], 4),
    ("svc-pgdump", &["--host", "127.0.0.1", "--port", "1", "--username", "svc"], 5),
    ("svc-pgrestore", &["/nonexistent/svc_db.backup.sql"], 4),
    ("svc-snap", &["list", "--url", "http://127.0.0.1:1"], 5),
];

fn failing(tool: &str, args: &[&str]) -> Tool {
    let failing = Tool::new(tool).args(args.iter().copied());
    // Without systemctl, also on a host that has one.
    if tool == "svc-unit" { failing.env("PATH", "/nonexistent") } else { failing }
}

#[test]
fn failure_is_told_on_stderr_and_in_a_document_or_table() {
    for (tool, args, status) in FAILING {
        let run = |more: &[&str]| failing(tool, args).args(more.iter().copied()).run().exits(status, &[]);
        let ran = run(&[]);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert!(lines.len() == 2 && lines[0].starts_with(&format!("{tool}: ")) && lines[1].starts_with("hint: "), "{ran}");
        assert_eq!(ran.doc()["changed"], false, "{ran}");
        let quiet = run(&["--quiet", "--pretty"]);
        assert!(quiet.stderr.is_empty() && quiet.stdout.lines().count() > 5, "{quiet}");
        let table = run(&["--table"]);
        let last = table.stdout.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("{tool} ")) && last.contains(": failed: "), "{table}");
        assert!(!table.stdout.contains(['{', '\u{1b}']) && table.stderr.contains("hint: "), "{table}");
        assert_eq!(failing(tool, args).env("SVC_RUN_ID", "Nightly Run").run().status, 2, "{tool}");
        // Nobody reads what it prints.
        let mut closed = Command::new("bash");
        closed.args(["-c", "\"$@\" 2>&1 >&- | cat; exit \"${PIPESTATUS[0]}\"", "closed"]);
        let closed = closed.arg(bin_dir().join(tool)).args(args).output().unwrap();
        assert!(!String::from_utf8_lossy(&closed.stdout).contains("panicked"), "{tool}: {closed:?}");
        assert_ne!(closed.status.code(), Some(101), "{tool}");
    }
}

/// Every step that continues from another's document: its tool, and its arguments.
fn from() -> Vec<(&'static str, Vec<String>)> {
    let mut all = Vec::new();
    for (tool, cli) in tools() {
        for step in cli.get_subcommands().chain([&cli]).filter(|step| step.get_arguments().any(|arg| arg.get_id() == "from")) {
            let name = Some(step.get_name()).filter(|name| *name != tool);
            all.push((tool, name.into_iter().chain(["--from", "-"]).map(str::to_owned).collect()));
        }
    }
    assert!(all.len() > 18, "{all:?}");
    all
}

#[test]
fn invalid_from_document_exits_2_without_change() {
    let failed = r#"{"schema":"svc-pgdump.dump/1","tool":"svc-pgdump 0.1.0","step":"dump","ok":false,"changed":false,"dry_run":false,"run_id":"20261120t020003z-hand","result":null,"warnings":[],"error":{"code":"postgres_unreachable","message":"Nobody answers.","hint":"Start it.","retryable":true,"causes":[]}}"#;
    let foreign = r#"{"schema":"svc-elsewhere.step/1","tool":"x 1","step":"step","ok":true,"changed":false,"dry_run":false,"run_id":"20261120t020003z-hand","result":{},"warnings":[],"error":null}"#;
    let two = format!("{foreign}{foreign}");
    let half = &foreign[..foreign.len() / 2];
    for (tool, args) in from() {
        for input in ["", " \n", half, two.as_str(), foreign, failed, "[]", "\u{0}"] {
            let ran = Tool::new(tool).args(&args).stdin(input).run();
            assert_eq!(ran.status, 2, "{tool} {args:?} with {input:?}: {}", ran.stdout);
            assert_eq!(ran.doc()["changed"], false, "{tool} {args:?} with {input:?}");
        }
    }
    // Of the step that it continues from: its error is repeated.
    let dry = failed.replace(r#""dry_run":false"#, r#""dry_run":true"#);
    let later = failed.replace("svc-pgdump.dump/1", "svc-pgdump.dump/2");
    for (input, code, says) in [
        (failed, "postgres_unreachable", "Nobody answers."),
        (dry.as_str(), "from_invalid", "of a dry run"),
        (later.as_str(), "from_invalid", "cannot resume from"),
    ] {
        Tool::new("svc-pgdump").args(["verify", "--from", "-"]).stdin(input).run().fails(2, code).unchanged().error_has(&[says]);
    }
}

#[test]
fn sigterm_ends_step_waiting_for_its_document() {
    for (tool, args) in from() {
        let mut waiting = Command::new(bin_dir().join(tool));
        let waiting = waiting.args(&args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut waiting = waiting.spawn().unwrap();
        // `wait` closes stdin; held here, it stays open until after the signal.
        let input = waiting.stdin.take();
        let pid = children::pid(&waiting);
        wait::so("the handler to be there", || os::has_signal(pid, "SigCgt", Signal::SIGTERM).then_some(()));
        kill(pid, Signal::SIGTERM).unwrap();
        let ended = waiting.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(15), "{tool} {args:?}");
        drop(input);
    }
}

#[test]
fn settings_table_has_every_setting_of_tools_and_scripts() {
    let recorded: Vec<&str> = svc_step::settings::known().collect();
    let of = |command: &clap::Command| -> Vec<String> {
        command.get_arguments().filter_map(|arg| arg.get_env()).map(|name| name.to_string_lossy().into_owned()).collect()
    };
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (_, cli) in tools() {
        known.extend(of(&cli));
        known.extend(cli.get_subcommands().flat_map(of));
    }
    for folder in ["scripts", "scripts/lib"] {
        for entry in fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() || ["demo", "README.md"].contains(&entry.file_name().unwrap().to_str().unwrap()) {
                continue;
            }
            let text = fs::read_to_string(entry).unwrap();
            let words = text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
            known.extend(words.filter(|word| word.starts_with("SVC_") && !word.ends_with('_')).map(str::to_owned));
        }
    }
    assert!(known.len() > 30, "{known:?}");
    // What the scripts pass to one another and to hooks.
    let no_settings = ["VERSION", "RUN_DIR", "SUPERVISOR", "RESUMED", "DRY_RUN"];
    let is_none = |name: &str| name.strip_prefix("SVC_").is_some_and(|name| no_settings.contains(&name));
    let forgotten: Vec<&String> = known.iter().filter(|name| !recorded.contains(&name.as_str()) && !is_none(name)).collect();
    assert!(forgotten.is_empty(), "in svc_step::settings::table, or in no_settings here, is missing {forgotten:?}");
}

#[test]
fn option_default_equals_default_of_its_setting() {
    let mut seen = 0;
    for (tool, mut cli) in tools() {
        cli.build();
        for command in cli.get_subcommands().chain([&cli]) {
            for arg in command.get_arguments() {
                let setting = arg.get_env().and_then(|name| svc_step::settings::table::find(name.to_str().unwrap()));
                let (Some(setting), [default]) = (setting, arg.get_default_values()) else { continue };
                let wanted = setting.default_for("svc");
                assert_eq!(default.to_str(), wanted.as_deref(), "{tool} {} {}", command.get_name(), setting.name);
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

/// The modules of a crate, each with those that it names; what is in a folder belongs to the module of that name.
fn modules(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut modules = BTreeMap::<String, BTreeSet<String>>::new();
    let files = os::run(Command::new("find").args(["-name", "*.rs", "-printf", "%P\\n"]).current_dir(source)).unwrap();
    for file in files.lines().filter(|file| !file.starts_with("bin/")) {
        let text = fs::read_to_string(source.join(file)).unwrap();
        let text = if file.contains('/') { text } else { text.replace("super::", "crate::") };
        // Braces after `crate::` name modules too.
        let named = text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap().split(',').collect(),
            None => vec![rest],
        });
        let word = |text: &str| text.trim().chars().take_while(|one| one.is_alphanumeric() || *one == '_').collect::<String>();
        let module = file.split('/').next().unwrap().trim_end_matches(".rs");
        modules.entry(module.to_owned()).or_default().extend(named.map(word));
    }
    modules.retain(|module, _| !["lib", "main"].contains(&module.as_str()));
    let known: BTreeSet<String> = modules.keys().cloned().collect();
    modules.iter_mut().for_each(|(module, named)| named.retain(|one| one != module && known.contains(one)));
    modules
}

#[test]
fn modules_have_no_import_cycles() {
    let programs = ["svc-step/src", "svc-step/src/bin/svc-run", "svc-step/src/bin/svc-point"].map(str::to_owned);
    for source in tools().into_iter().map(|(tool, _)| format!("{tool}/src")).chain(programs) {
        let mut left = modules(&root().join(&source));
        assert!(left.get("pg").is_none_or(BTreeSet::is_empty), "{left:?}");
        // Whoever imports nothing that is left goes, until nobody can.
        while let Some(module) = left.iter().find(|(_, named)| named.is_empty()).map(|(module, _)| module.clone()) {
            left.remove(&module);
            left.values_mut().for_each(|named| named.retain(|one| *one != module));
        }
        assert!(left.is_empty(), "{source}: in circles are {left:#?}");
    }
}
