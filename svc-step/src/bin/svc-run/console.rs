//! What people and scripts read: the texts of steps, of checks and of the end of a run, and the functions that print them.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use svc_step::Failure;
use svc_step::document::{Document, ErrorPart};
use svc_step::table::duration;

use crate::report::{Check, RunResult, Verdict};

/// A line of a script. Whoever listened may be gone, or his disk be full: no reason to stop half-way.
pub fn line(script: &str, text: &str) {
    plain(&format!("{script}: {text}"));
}

/// A line without the script's name.
pub fn plain(text: &str) {
    svc_step::reporter::write_line(text);
}

/// Lines on stdout, and the exit status for them.
pub fn lines(lines: &[String]) -> ExitCode {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    ExitCode::from(u8::from(!is_written(text.as_bytes())))
}

/// Whether a text is on stdout; what kept it from there is told. A reader that has gone is no failure.
pub fn is_written(text: &[u8]) -> bool {
    let mut out = std::io::stdout().lock();
    svc_step::reporter::is_printed("svc-run", "the output", out.write_all(text).and_then(|()| out.flush()))
}

/// The last document, or on a terminal its summary, unless the document is wanted there too; after a failure that is the two lines of it.
/// Whether it could be written.
pub fn show(document: &Document<RunResult>, json: bool) -> bool {
    let is_terminal = std::io::stdout().is_terminal();
    if is_terminal && !json {
        summary(document).iter().for_each(|summary| plain(summary));
        return true;
    }
    let text = if is_terminal { serde_json::to_string_pretty(document) } else { serde_json::to_string(document) };
    is_written(format!("{}\n", text.unwrap_or_default()).as_bytes())
}

/// The two lines of a failure, and its exit status.
pub fn failed(program: &str, failed: &Failure) -> ExitCode {
    plain(&failure(program, &ErrorPart::from(failed)));
    ExitCode::from(failed.exit_code())
}

/// `12/27 dump …`, when a step begins; without the total if that is not known. `files` is the path of the step's files without
/// their endings.
pub fn begins(files: &Path, total: Option<u32>) -> String {
    let name = files.file_name().unwrap_or_default().to_string_lossy();
    let (number, step) = name.split_once('-').unwrap_or(("", &name));
    match total.filter(|total| number.parse().is_ok_and(|number: u32| number <= *total)) {
        Some(total) => format!("{number}/{total} {step} …"),
        None => format!("{number} {step} …"),
    }
}

/// How many steps the newest run of this kind and with these options has made that ended well: what is to be expected of the next one.
pub fn expected_total(state_dir: &Path, script: &str, run_id: &str, arguments: &[String]) -> Option<u32> {
    let options = |arguments: &[String]| arguments.iter().filter(|one| one.starts_with('-')).cloned().collect::<BTreeSet<_>>();
    let kind = |id: &str| {
        let name = id.split_once('-').map_or("", |(_, name)| name);
        name.split('-')
            .filter(|part| !part.starts_with(|first: char| first.is_ascii_digit()))
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let like = |run: &svc_step::journal::Journal| {
        let plan = run.plan();
        let is_same = plan.script == script && options(&plan.arguments) == options(arguments);
        is_same && kind(run.id()) == kind(run_id) && run.is_ok()
    };
    let run = svc_step::journal::runs(state_dir).into_iter().find(|run| run.id() != run_id && like(run))?;
    run.attempts().iter().map(|one| one.number).max()
}

/// `dump: ok, changed, 498 ms`, when a step has ended; `failed` says why it did not end well.
pub fn ended(step: &str, document: Option<&Document<Value>>, failed: Option<(u8, &str)>) -> String {
    match (failed, document) {
        (Some((4, message)), _) => format!("{step}: not there: {message}"),
        (Some((status, message)), _) => format!("{step}: failed with status {status}: {message}"),
        (None, Some(document)) => {
            let warnings: String = document.warnings.iter().map(|one| format!("warning: {} ", one.message)).collect();
            let changed = if document.changed == Some(true) { "changed, " } else { "" };
            format!("{step}: {warnings}ok, {changed}{}", duration(document.duration_ms))
        }
        (None, None) => format!("{step}: ok"),
    }
}

/// The checks but for the first ones, which were shown before, each on one line, and how many of all ended in which way.
pub fn preflight(checks: &[Check], shown: usize) -> Vec<String> {
    if checks.len() <= shown {
        return Vec::new();
    }
    let width = checks.iter().map(|one| one.check.len()).max().unwrap_or(0);
    let line =
        |one: &Check| format!("preflight  {:width$}  {}  {}", one.check, one.verdict.word(), one.message).trim_end().to_owned();
    let mut lines: Vec<String> = checks.iter().skip(shown).map(line).collect();
    let count = |verdict| checks.iter().filter(|one| one.verdict == verdict).count();
    let (pass, warn, fail) = (count(Verdict::Pass), count(Verdict::Warn), count(Verdict::Fail));
    lines.push(format!("preflight: {} checks: {pass} pass, {warn} warn, {fail} fail", checks.len()));
    lines
}

/// What a check that is ok has found, in a few words; its warnings come first.
pub fn found(document: &Document<Value>) -> String {
    let found = document.result.as_ref().map(|result| says(&document.schema, result)).unwrap_or_default();
    let warnings = document.warnings.iter().map(|one| one.message.as_str());
    warnings.chain([found.as_str()].into_iter().filter(|text| !text.is_empty())).collect::<Vec<_>>().join(" ").replace('\n', " ")
}

fn says(schema: &str, result: &Value) -> String {
    let text = |path: &str| match result.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(value) => value.to_string(),
    };
    let count = |path: &str| result.pointer(path).and_then(Value::as_array).map_or(0, Vec::len);
    let size = |path: &str| result.pointer(path).and_then(Value::as_u64).map(svc_step::reporter::bytes);
    match schema.split('/').next().unwrap_or_default() {
        "svc-version.current" => format!("{} is installed", text("/version")),
        "svc-version.installer" | "svc-version.find" => {
            let verified = result.get("checksum_verified").and_then(Value::as_bool) == Some(true);
            format!("{}{}", text("/version"), if verified { ", its checksum is right" } else { "" })
        }
        "svc-version.check" => format!("{} to {}: {}", text("/installed"), text("/to"), text("/rule")),
        "svc-unit.start" => format!("{} can be started", text("/unit")),
        "svc-unit.status" => format!("{} is {}", text("/unit"), text("/after/active_state")),
        "svc-snap.health" => {
            let disks = result.get("disks").and_then(Value::as_array).into_iter().flatten().map(disk).collect::<Vec<_>>();
            format!("{} {}, {}; {}", text("/product"), text("/version"), text("/status"), disks.join("; "))
        }
        "svc-snap.verify" => {
            let nodes =
                result.get("nodes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
            let snapshots = text("/snapshots_count");
            format!("{} can be written by {}, and has {snapshots} snapshots", text("/repository"), nodes.join(", "))
        }
        "svc-pgdump.dump" => format!("PostgreSQL {}, pg_dump {}", text("/server_version"), text("/pg_dump_version")),
        "svc-snap.clone" => format!("{} indices can be cloned", count("/indices")),
        "svc-pgrestore.clone" => format!("{} can be cloned", size("/size_bytes").unwrap_or_default()),
        "svc-confsave.save" => text("/source"),
        "svc-confsave.restore" => format!("{} can be restored", text("/path")),
        "svc-snap.stage" => {
            let needed = size("/disk_space/needed_bytes").map(|size| format!(" of {size}"));
            let free = size("/disk_space/free_bytes").map(|size| format!(", {size} free for them"));
            let space = needed.map(|needed| needed + &free.unwrap_or_default()).unwrap_or_default();
            format!("{}: {} indices{space}", text("/snapshot"), count("/indices"))
        }
        "svc-snap.restore" => {
            let indices = if result.pointer("/swap/indices").is_some() { "/swap/indices" } else { "/indices" };
            format!("{} indices can be swapped", count(indices))
        }
        "svc-pgrestore.stage" => {
            let needed = size("/disk_space/needed_bytes").zip(size("/disk_space/free_bytes"));
            let needed =
                needed.map(|(needed, free)| format!(": about {needed}, {free} free in {}", text("/disk_space/directory")));
            format!("{}{}", text("/dump/path"), needed.unwrap_or_default())
        }
        "svc-point.create" => format!("{} can be made", text("/path")),
        "svc-point.space" => text("/summary"),
        _ => String::new(),
    }
}

fn disk(disk: &Value) -> String {
    let text = |key: &str| disk.get(key).and_then(Value::as_str).unwrap_or_default();
    let free = disk.get("available_bytes").and_then(Value::as_u64).map(svc_step::reporter::bytes).unwrap_or_default();
    let level = if text("level") == "free" { "no watermark passed".to_owned() } else { text("level").replace('_', " ") };
    format!("{}: {free} free, {level}", text("node"))
}

/// What helps after a step of a script that failed. A tool's hint may name an option that the script does not have; then the hint names
/// the script's own.
pub fn hint_of(script: &str, document: Option<&Document<Value>>) -> Option<String> {
    let document = document?;
    let error = document.error.as_ref()?;
    let schema = document.schema.split('/').next().unwrap_or_default();
    let names = |option: &str| error.hint.as_deref().is_some_and(|hint| hint.contains(option));
    let own = match (error.code.as_str(), schema) {
        // Another disk may be full, that of the state directory: of that, the tool's own hint is right.
        ("out_of_space", "svc-pgrestore.clone") if names("--ignore-disk-space") => {
            "Free space on the disk of PostgreSQL, or omit --clone."
        }
        ("out_of_space", "svc-pgrestore.stage") if names("--ignore-disk-space") => "Free space on the disk of PostgreSQL.",
        ("out_of_space", "svc-snap.stage" | "svc-snap.restore") if names("--in-place") => {
            "Free disk space on the nodes of the cluster."
        }
        ("file_not_found", "svc-version.find") if script == "svc-upgrade" => {
            "Set SVC_INSTALLER_DIR to its directory, or pass --no-previous-installer: no rollback is possible then."
        }
        // Of these steps it is that there are data streams.
        ("not_swappable", "svc-snap.stage" | "svc-snap.restore" | "svc-snap.clone") => {
            "Leave the data streams out of SVC_INDICES ('*,-NAME'). How they are restored by hand:\n  svc-snap restore --help"
        }
        ("indices_red", "svc-snap.swap" | "svc-snap.restore" | "svc-snap.clone") if script == "svc-rollback" => {
            "Repair the index (GET /_cluster/allocation/explain), or pass --discard-current, which gives its data up."
        }
        ("indices_red", "svc-snap.swap" | "svc-snap.restore" | "svc-snap.clone") => {
            "Repair the index (GET /_cluster/allocation/explain)."
        }
        ("name_in_use", "svc-confsave.save") if names("--force") => "Move the copy to another place, then resume the run.",
        _ => return error.hint.clone(),
    };
    Some(own.to_owned())
}

/// The two lines of a failure: what happened, what to do.
pub fn failure(script: &str, error: &ErrorPart) -> String {
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("{script}: {}{hint}", error.message)
}

/// The lines at the end of a run on a terminal: from what to what, the downtime, the restore point, what to run next, where the
/// document is. None if the run failed: the two lines of that are all.
fn summary(document: &Document<RunResult>) -> Option<String> {
    let result = document.result.as_ref().filter(|_| document.ok && !document.dry_run)?;
    let script = document.tool.split(' ').next().unwrap_or_default();
    let version = |one: &Option<String>| one.clone().unwrap_or_else(|| "an unknown version".to_owned());
    let (from, to) = (version(&result.from_version), version(&result.version));
    let swapped = result.previous.is_some() || !result.swap_back.is_empty();
    let mut lines = vec![match script {
        "svc-upgrade" if result.downtime_ms.is_some() || !result.hops.is_empty() => format!("upgraded from {from} to {to}"),
        "svc-rollback" if result.version.is_some() && from == to => format!("rolled back to {to}"),
        "svc-rollback" if result.version.is_some() => format!("rolled back from {from} to {to}"),
        _ => "ended well".to_owned(),
    }];
    let found = result.rehearsal.as_ref().and_then(|rehearsal| rehearsal.get("summary")?.as_str());
    lines.extend(found.map(str::to_owned));
    let downtime: Option<u64> =
        if result.hops.is_empty() { result.downtime_ms } else { result.hops.iter().map(|hop| hop.downtime_ms).sum() };
    lines.extend(downtime.map(|ms| format!("the service was down for {}", duration(ms))));
    let point = result.restore_point.as_ref().or_else(|| result.hops.last()?.restore_point.as_ref());
    lines.extend(point.map(|point| format!("restore point: {point}")));
    lines.extend(result.go_back.as_ref().map(|command| format!("to go back:\n  {command}")));
    if script == "svc-rollback" && swapped {
        lines.push("to discard the data that was replaced:\n  svc-rollback --discard-previous".to_owned());
    }
    if !document.warnings.is_empty() {
        lines.push(format!("warnings to read: {}", document.warnings.len()));
    }
    lines.extend(result.run_dir.as_ref().map(|dir| format!("document: {dir}/document.json")));
    Some(lines.iter().map(|line| format!("{script}: {line}")).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture;

    fn document(differs: &Value) -> Document<Value> {
        serde_json::from_value(fixture::document(differs)).unwrap()
    }

    /// Whether a schema has all the names that a value has.
    fn is_known(schemas: &Value, schema: &Value, value: &Value) -> bool {
        if let Some(path) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            return is_known(schemas, schemas.pointer(path).unwrap_or(&Value::Null), value);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            return any.iter().any(|one| is_known(schemas, one, value));
        }
        match value {
            Value::Object(fields) => fields.iter().all(|(name, value)| is_known(schemas, &schema["properties"][name], value)),
            Value::Array(items) => items.iter().all(|item| is_known(schemas, &schema["items"], item)),
            _ => !schema.is_null(),
        }
    }

    #[test]
    fn check_message_has_warning_and_result() {
        let schemas = serde_json::from_str(include_str!("../../../../schema/svc-tools.json")).unwrap();
        let disks = json!([{"node": "n1", "available_bytes": 5_368_709_120_u64, "level": "free"}, {"node": "n2", "available_bytes": 1, "level": "past_flood_stage"}]);
        for (schema, result, expected) in [
            ("svc-version.current", json!({"version": "1.15.5"}), "1.15.5 is installed"),
            ("svc-version.installer", json!({"version": "2.0.1", "checksum_verified": true}), "2.0.1, its checksum is right"),
            ("svc-version.find", json!({"version": "2.0.1", "checksum_verified": null}), "2.0.1"),
            (
                "svc-version.check",
                json!({"installed": "1.15.5", "to": "2.0.1", "rule": "the next major"}),
                "1.15.5 to 2.0.1: the next major",
            ),
            ("svc-unit.start", json!({"unit": "svc.service"}), "svc.service can be started"),
            ("svc-unit.status", json!({"unit": "svc.service", "after": {"active_state": "active"}}), "svc.service is active"),
            (
                "svc-snap.health",
                json!({"product": "opensearch", "version": "2.19.0", "status": "green", "disks": disks}),
                "opensearch 2.19.0, green; n1: 5.00 GiB free, no watermark passed; n2: 1 B free, past flood stage",
            ),
            (
                "svc-snap.verify",
                json!({"repository": "svc", "nodes": ["a", "b"], "snapshots_count": 3}),
                "svc can be written by a, b, and has 3 snapshots",
            ),
            ("svc-pgdump.dump", json!({"server_version": "17.2", "pg_dump_version": "17.4"}), "PostgreSQL 17.2, pg_dump 17.4"),
            ("svc-snap.clone", json!({"indices": [1, 2]}), "2 indices can be cloned"),
            ("svc-pgrestore.clone", json!({"size_bytes": 2_621_440}), "2.50 MiB can be cloned"),
            ("svc-confsave.save", json!({"source": "/etc/svc.yaml"}), "/etc/svc.yaml"),
            ("svc-confsave.restore", json!({"path": "/etc/svc.yaml"}), "/etc/svc.yaml can be restored"),
            (
                "svc-snap.stage",
                json!({"snapshot": "s", "indices": [1], "disk_space": {"needed_bytes": 1024, "free_bytes": 2048}}),
                "s: 1 indices of 1.00 KiB, 2.00 KiB free for them",
            ),
            ("svc-snap.stage", json!({"snapshot": "s", "indices": [1], "disk_space": null}), "s: 1 indices"),
            ("svc-snap.restore", json!({"swap": {"indices": [1, 2, 3]}, "indices": []}), "3 indices can be swapped"),
            (
                "svc-pgrestore.stage",
                json!({"dump": {"path": "/d.sql"}, "disk_space": {"needed_bytes": 1024, "free_bytes": 2048, "directory": "/pg"}}),
                "/d.sql: about 1.00 KiB, 2.00 KiB free in /pg",
            ),
            ("svc-pgrestore.stage", json!({"dump": {"path": "/d.sql"}, "disk_space": null}), "/d.sql"),
            ("svc-point.create", json!({"path": "/b/p"}), "/b/p can be made"),
            ("svc-point.space", json!({"summary": "9 GB free in /b"}), "9 GB free in /b"),
            ("mine.anything", json!({}), ""),
        ] {
            let known = json!({"$ref": format!("#/$defs/{schema}/allOf/1/properties/result")});
            assert!(result == json!({}) || is_known(&schemas, &known, &result), "{schema} has nothing of that name: {result}");
            let mut it = document(&json!({"schema": format!("{schema}/1"), "result": result}));
            assert_eq!(found(&it), expected);
            it.warnings.push(svc_step::document::Warning { code: "x".to_owned(), message: "Look\nhere.".to_owned() });
            assert_eq!(found(&it), format!("Look here. {expected}").trim_end());
        }
    }

    #[test]
    fn hint_is_adapted_to_options_of_script() {
        for (script, step, code, flag, helps) in [
            // Of the dump, of PostgreSQL or of the state directory: the tool knows which disk is full.
            ("svc-backup", "svc-pgdump.dump", "out_of_space", "there", "as the tool has it: there"),
            ("svc-upgrade", "svc-pgrestore.clone", "out_of_space", "--ignore-disk-space", "omit --clone"),
            ("svc-rollback", "svc-pgrestore.stage", "out_of_space", "--ignore-disk-space", "space"),
            ("svc-rollback", "svc-snap.swap", "indices_red", "--drop-old", "--discard-current"),
            // A rehearsal gives nothing up, and has no such option.
            ("svc-rehearse", "svc-snap.swap", "indices_red", "--discard-current", "Repair the index"),
            ("svc-rollback", "svc-confsave.save", "name_in_use", "--force", "Move the copy"),
            ("svc-upgrade", "svc-snap.clone", "not_swappable", "--in-place", "SVC_INDICES"),
            ("svc-rollback", "svc-pgrestore.stage", "out_of_space", "there", "as the tool has it: there"),
            ("svc-rollback", "svc-snap.swap", "not_swappable", "--unused", "as the tool has it: --unused"),
            ("svc-rollback", "svc-snap.stage", "out_of_space", "--force", "as the tool has it: --force"),
        ] {
            let error = json!({"code": code, "message": "", "hint": format!("as the tool has it: {flag}"), "retryable": false, "causes": []});
            let it = document(&json!({"schema": format!("{step}/1"), "ok": false, "error": error}));
            let hint = hint_of(script, Some(&it)).unwrap();
            assert!(hint.contains(helps) && hint.contains(flag) == helps.contains(flag), "{script} {step} {code}: {hint}");
        }
    }

    #[test]
    fn preflight_shows_each_check_and_total() {
        let check = |check: &str, verdict, says: &str| Check { check: check.to_owned(), verdict, message: says.to_owned() };
        assert_eq!(preflight(&[], 0), [""; 0]);
        assert_eq!(
            preflight(&[check("unit", Verdict::Pass, "active"), check("repository", Verdict::Fail, "It is not there.")], 0),
            [
                "preflight  unit        pass  active",
                "preflight  repository  fail  It is not there.",
                "preflight: 2 checks: 1 pass, 0 warn, 1 fail"
            ]
        );
    }

    #[test]
    fn step_has_line_at_begin_and_end() {
        let files = Path::new("/var/lib/svc-tools/runs/x/12-dump.2");
        for (total, expected) in [(None, "12 dump.2 …"), (Some(27), "12/27 dump.2 …"), (Some(7), "12 dump.2 …")] {
            assert_eq!(begins(files, total), expected);
        }
        let it = document(&json!({"changed": true, "warnings": [{"code": "x", "message": "It is slow."}]}));
        assert_eq!(ended("dump", Some(&it), None), "dump: warning: It is slow. ok, changed, 1 s");
        assert_eq!(ended("dump", Some(&it), Some((4, "It is gone."))), "dump: not there: It is gone.");
        assert_eq!(ended("dump", None, Some((1, "It failed."))), "dump: failed with status 1: It failed.");
    }

    #[test]
    fn expected_step_total_comes_from_last_run_of_kind() {
        let made = fixture::Made::new("svc-upgrade");
        let total = |id: &str| expected_total(made.state(), "svc-upgrade", id, &[]);
        let last = made.another("20261120t030003z-upgrade-2.0.1", "svc-upgrade", None);
        last.step("07-start", "step", &json!({}));
        assert_eq!(total("20261121t030003z-upgrade-2.0.2"), None);
        last.ended(&json!({}));
        assert_eq!([total("20261121t030003z-upgrade-2.0.2"), total("20261121t030003z-upgrade-hops")], [Some(7), None]);
    }

    #[test]
    fn run_summary_shows_outcome_and_next_commands() {
        let of = |script: &str, result: Value| {
            let result: RunResult = serde_json::from_value(result).unwrap();
            let it = document(&json!({"tool": format!("{script} 0.1.0"), "result": null}));
            let text = serde_json::to_value(&it).unwrap();
            let mut it: Document<RunResult> = serde_json::from_value(text).unwrap();
            it.result = Some(result);
            it
        };
        let upgrade = json!({"from_version": "1.15.5", "version": "2.0.1", "downtime_ms": 4210, "restore_point": "/b/p", "go_back": "svc-rollback", "run_dir": "/r"});
        let expected = "svc-upgrade: upgraded from 1.15.5 to 2.0.1\nsvc-upgrade: the service was down for 4.2 s\nsvc-upgrade: restore point: /b/p\nsvc-upgrade: to go back:\n  svc-rollback\nsvc-upgrade: document: /r/document.json";
        assert_eq!(summary(&of("svc-upgrade", upgrade)).unwrap(), expected);
        let rollback = json!({"version": "1.15.5", "previous": {"run": "r"}, "swap_back": ["svc-unit stop"]});
        let expected = "svc-rollback: rolled back from an unknown version to 1.15.5\nsvc-rollback: to discard the data that was replaced:\n  svc-rollback --discard-previous";
        assert_eq!(summary(&of("svc-rollback", rollback)).unwrap(), expected);
        let mut failed = of("svc-upgrade", json!({}));
        failed.ok = false;
        assert_eq!(summary(&failed), None);
    }
}
