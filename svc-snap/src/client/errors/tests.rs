use std::path::Path;
use std::{env, fs, io};

use serde_json::json;

use super::*;

const BEGIN: &str =
    "<!-- The errors of the servers, from svc-snap/src/client/errors.rs: SVC_UPDATE_PAGES=1 cargo test -p svc-snap -->\n";
const END: &str = "<!-- to here -->\n";

#[test]
fn errors_page_lists_each_server_error_rule() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let page = fs::read_to_string(&file).unwrap();
    let quoted = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let row = |rule: &Rule| {
        assert!(rule.message.ends_with('.') && rule.hint.ends_with('.'), "{}", rule.code);
        let http: Vec<String> = rule.http.iter().map(u16::to_string).collect();
        let types = if rule.types.is_empty() { "any other".to_owned() } else { quoted(rule.types) };
        let effect = if rule.effect == Effect::Unknown { " *" } else { "" };
        let (says, http, exit, code) = (quoted(rule.says), http.join(", "), rule.status.code(), rule.code);
        format!("| {types} | {says} | {http} | {exit}{effect} | `{code}` |\n")
    };
    let rows: String = RULES.iter().map(row).collect();
    let table = format!(
        "| the server's `type` | and its `reason` or cause says | HTTP | exit | `error.code` |\n|---|---|---|---|---|\n{rows}\
         | any other | | any other | 1 | `server_refused` |\n"
    );
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if env::var_os("SVC_UPDATE_PAGES").is_some() {
        fs::write(&file, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert!(found == table, "docs/errors.md is not what errors.rs says; SVC_UPDATE_PAGES=1 writes it");
    }
}

fn code(status: u16, body: &Value) -> (u8, String) {
    let failure = refusal(status, body).failure;
    assert!(!format!("{failure:?}").contains("pw@"), "{failure:?}");
    (failure.status.code(), failure.code)
}

fn error(kind: &str, reason: &str) -> Value {
    json!({"error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason}, "status": 0})
}

#[test]
fn server_error_type_gives_status_and_code() {
    let hidden = json!({"error": {"type": "exception", "reason": "failed", "root_cause": [{"type": "exception", "reason": "failed"}],
        "caused_by": {"type": "repository_missing_exception", "reason": "[r] missing"}}, "status": 500});
    assert_eq!(code(500, &hidden), (4, "repository_not_found".to_owned()));
    for (status, kind, reason, exit, expected) in [
        (404, "snapshot_missing_exception", "[r:s] is missing", 4, "snapshot_not_found"),
        (500, "snapshot_restore_exception", "[r:s] snapshot does not exist", 4, "snapshot_not_found"),
        (400, "invalid_snapshot_name_exception", "snapshot with the same name already exists", 3, "name_in_use"),
        (400, "snapshot_name_already_in_use_exception", "the same name already exists", 3, "name_in_use"),
        (500, "repository_exception", "[/x] doesn't match any of path.repo", 3, "repository_unusable"),
        (500, "snapshot_exception", "Indices don't have primary shards [lost]", 7, "indices_red"),
        (500, "snapshot_exception", "the following indices have unassigned primary shards [lost]", 7, "indices_red"),
        (500, "snapshot_restore_exception", "an open index with same name exists", 3, "name_in_use"),
        (503, "concurrent_snapshot_execution_exception", "running", 5, "server_busy"),
        (500, "repository_exception", "loading repository data: unknown field [uuid]", 3, "version_unsupported"),
        (401, "security_exception", "missing authentication credentials", 3, "access_denied"),
        (403, "security_exception", "is unauthorized", 3, "permission_denied"),
        (503, "master_not_discovered_exception", "", 5, "server_busy"),
        (
            500,
            "repository_exception",
            "Found unexpected initialized repo metadata [{\"a\":\"http://me:pw@far/\"}]",
            5,
            "server_busy",
        ),
        (500, "repository_exception", "[r] repository type [s3] does not exist", 3, "repository_unusable"),
        (500, "repository_exception", "[r] Unexpected exception when loading repository data", 7, "repository_damaged"),
        (400, "illegal_argument_exception", "no", 1, "server_refused"),
        (400, "validation_exception", "currently has [9]/[9] maximum LOCAL_ONLY shards open;", 3, "out_of_space"),
        (503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state];", 5, "server_busy"),
        (403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api)];", 3, "index_blocked"),
    ] {
        assert_eq!(code(status, &error(kind, reason)), (exit, expected.to_owned()), "{kind}: {reason}");
    }
    assert_eq!(code(405, &json!({"error": "Incorrect HTTP method", "status": 405})), (1, "server_refused".to_owned()));
    let failure = refusal(404, &error("repository_missing_exception", "[r] missing")).failure;
    assert_eq!(failure.causes, ["HTTP 404 repository_missing_exception", "[r] missing"], "once each");
}

#[test]
fn missing_snapshot_file_is_damaged_repository() {
    let with = |kind: &str, cause: &str| json!({"error": {"type": kind, "reason": "[r:s/u] is missing", "caused_by": {"type": cause, "reason": "/x/snap-u.dat"}}});
    for (kind, cause) in [
        ("snapshot_missing_exception", "no_such_file_exception"),
        ("snapshot_exception", "corrupt_state_exception"),
        ("snapshot_exception", "corrupt_index_exception"),
    ] {
        assert_eq!(code(404, &with(kind, cause)), (7, "repository_damaged".to_owned()), "{kind} {cause}");
    }
}

#[test]
fn effect_is_unknown_only_after_ambiguous_errors() {
    let own = |status, kind| refusal(status, &error(kind, "r")).effect;
    assert_eq!(own(500, "repository_exception"), Effect::None);
    assert_eq!(own(503, "concurrent_snapshot_execution_exception"), Effect::None);
    assert_eq!(own(503, "master_not_discovered_exception"), Effect::Unknown);
    // An answer without an error of the server's own is that of a gateway.
    for (status, effect) in [408, 500, 502, 503, 504, 520].map(|status| (status, Effect::Unknown)) {
        assert_eq!((refusal(status, &Value::Null).effect, not_json("x", status).effect), (effect, effect), "{status}");
    }
    assert!([200, 302, 404].into_iter().all(|status| not_json("x", status).effect == Effect::Unknown));
    for status in [400, 401, 403, 404, 405, 413, 429] {
        assert_eq!(refusal(status, &Value::Null).effect, Effect::None, "{status}");
    }
}

#[test]
fn broken_tls_connection_has_unknown_effect() {
    let base = "https://h:9200";
    let broken = no_answer(base, &ureq::Error::Rustls(Tls::DecryptError));
    for error in [broken, incomplete(base, &io::Error::other(Tls::DecryptError))] {
        assert_eq!((error.failure.status.code(), error.effect), (5, Effect::Unknown), "{}", error.failure);
    }
    let untrusted = Tls::InvalidCertificate(rustls::CertificateError::Revoked);
    let untrusted = no_answer(base, &ureq::Error::Rustls(untrusted));
    assert_eq!((untrusted.failure.code.as_str(), untrusted.effect), ("not_trusted", Effect::None));
}
