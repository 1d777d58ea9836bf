use serde_json::json;

use super::*;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn restored(patterns: &str, indices: &[&str], streams: &[&str], scope: &str) -> Result<Selected, Failure> {
    let (indices, streams, features) = (strings(indices), strings(streams), strings(&[".feature"]));
    let of = Contents { indices: &indices, streams: &streams, hidden: &[], features: &features, backing: &[] };
    of_snapshot(&Patterns::parse(patterns), of, &scope.parse().unwrap())
}

fn names(patterns: &str, indices: &[&str]) -> Vec<String> {
    restored(patterns, indices, &[], "*").unwrap().indices
}

#[test]
fn star_matches_any_text() {
    let all = |pattern: &str, names: &[&str]| names.iter().all(|name| matches(pattern, name));
    assert!(all("*", &["", "a"]) && all("a*", &["abc"]) && all("a*c", &["abc", "ac"]) && all("a*b*c", &["a-b-b-c"]));
    assert!(all("*x*", &["axb"]) && all("a", &["a"]));
    for (pattern, name) in [("a*c", "abcd"), ("a*b*c", "acb"), ("ab*ba", "aba"), ("a", "ab")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}

#[test]
fn security_and_own_copies_are_outside_scope() {
    let scope: Scope = "*".parse().unwrap();
    assert!(scope.contains("docs") && scope.contains(".hidden"));
    for name in [".security-7", ".opendistro_security", "svc-staged-r-a", "svc-before-r-a", "svc-replaced-r-a", "svc-clone-r-a"] {
        assert!(!scope.contains(name), "{name}");
    }
    assert!(!scope.means(".tasks") && scope.may_hold(".ds-logs-000001") && !scope.may_hold(".ds-.logs-000001"));
    let named: Scope = "*,.kibana*,logs,-.kibana_x".parse().unwrap();
    assert!(named.means(".kibana_1") && !named.means(".kibana_x") && !named.means("docs") && named.may_hold(".ds-logs-000001"));
    let scope: Scope = "svc-*, content,-svc-tmp*".parse().unwrap();
    assert!(scope.contains("svc-a") && scope.contains("content") && !scope.contains("svc-tmp1") && !scope.contains("other"));
    assert!(" ,".parse::<Scope>().is_err());
}

#[test]
fn exclusions_apply_in_any_order_and_number() {
    assert_eq!(names("*,-a,-b*", &["a", "b1", "b2", "c"]), ["c"]);
    assert_eq!(names("-a,*", &["a", "b"]), ["b"]);
    assert_eq!(names("-a,-b", &["a", "b", "c"]), ["c"]);
    assert_eq!(names("a*,-nowhere", &["a1", "b"]), ["a1"]);
    // The procedure's, with and without the index that it excludes.
    assert_eq!(names(DEFAULT, &["a", "b"]), ["a", "b"]);
    assert_eq!(names(DEFAULT, &["a", ".geoip_databases"]), ["a"]);
    assert_eq!(without("a*,s", &strings(&["s", "t"])), "--indices 'a*,s,-s,-t'", "what was asked for stays");
}

#[test]
fn missing_plain_name_is_data_not_found() {
    let failure = restored("a,x,y", &["a"], &[], "*").unwrap_err();
    assert_eq!((failure.status.code(), failure.code.as_str()), (4, "data_not_found"));
    assert!(failure.message.contains("x, y"));
    assert_eq!(names("a,x*", &["a"]), ["a"]);
    assert_eq!(restored("x*", &["a"], &[], "*").unwrap_err().code, "data_not_found");
}

#[test]
fn skipped_index_has_reason() {
    let held = ["a", "other", ".feature", ".security-7", "svc-before-20261120t020003z-x-a", ".ds-logs-000001", "b"];
    let selected = restored("*,-b", &held, &["logs"], "a,b,logs").unwrap();
    assert_eq!(selected.indices, ["a"]);
    assert_eq!(selected.streams, ["logs"]);
    let reasons: Vec<_> = selected.skipped.iter().map(|one| format!("{} {:?}", one.name, one.reason)).collect();
    let expected = ".ds-logs-000001 BackingIndex, .feature FeatureState, .security-7 Security, b NotAskedFor, other OutsideScope, svc-before-20261120t020003z-x-a OwnCopy";
    assert_eq!(reasons.join(", "), expected);
}

#[test]
fn unrestorable_index_named_explicitly_is_refused() {
    for (name, scope) in [(".security-7", "*"), ("other", "a"), (".feature", "*"), (".ds-logs-000001", "*")] {
        let failure = restored(name, &[name, "a"], &["logs"], scope).unwrap_err();
        assert_eq!((failure.status.code(), failure.code.as_str()), (3, "options_invalid"), "{name}");
    }
}

#[test]
fn backing_index_belongs_to_longest_matching_stream() {
    let streams = strings(&["logs", "logs-app"]);
    let is_of = |name: &str, index: &str| stream_of(index, &streams).map(String::as_str) == Some(name);
    assert!(is_of("logs", ".ds-logs-000001") && is_of("logs", ".ds-logs-2026.11.20-000012"));
    assert!(is_of("logs-app", ".ds-logs-app-2026.11.20-000001") && is_of("logs", ".fs-logs-2026.11.20-000001"));
    assert_eq!(stream_of(".ds-other-000001", &streams), None);
    let (indices, captured) = (strings(&["a", "renamed"]), strings(&["renamed"]));
    let of = Contents { indices: &indices, streams: &streams, hidden: &[], features: &[], backing: &captured };
    let selected = of_snapshot(&Patterns::parse("*"), of, &"*".parse().unwrap()).unwrap();
    assert_eq!(selected.indices, ["a"], "what was captured as a backing index is none of its own, whatever its name");
}

#[test]
fn scope_selects_indices_and_streams_with_skip_reasons() {
    let answer = json!({"indices": [
            {"name": "b", "attributes": ["closed"]}, {"name": "a", "aliases": ["x"], "attributes": ["hidden", "open"]},
            {"name": ".ds-logs-2026.11.20-000001", "attributes": ["hidden", "open"], "data_stream": "logs"},
            {"name": ".security-7", "attributes": ["open"]}, {"name": ".tasks", "attributes": ["open", "system"]},
            {"name": ".own", "attributes": ["open"]}, {"name": "svc-before-r-a", "attributes": ["open"]}],
        "aliases": [{"name": "x", "indices": ["a"]}],
        "data_streams": [{"name": "logs", "backing_indices": [".ds-logs-2026.11.20-000001"]}, {"name": "other"}, {"name": "history"}]});
    let scope = "*,-other".parse().unwrap();
    let within = |patterns: &str| {
        live_of(Names { hidden: vec!["history".to_owned()], ..Names::read(&answer) }, &scope, &Patterns::parse(patterns))
    };
    let live = within("*").unwrap();
    assert_eq!(live.names(), ["a", "b", "logs"]);
    let reasons: Vec<_> = live.skipped.iter().map(|one| format!("{} {:?}", one.name, one.reason)).collect();
    let expected = ".own ServersOwn, .security-7 Security, .tasks FeatureState, history ServersOwn, other OutsideScope, svc-before-r-a OwnCopy";
    assert_eq!(reasons.join(", "), expected);
    assert_eq!(within("a").unwrap().names(), ["a"]);
    assert_eq!(within(".own,a").unwrap().names(), [".own", "a"]);
    assert!(live.holds(".ds-logs-2026.11.20-000001") && live.holds("a") && !live.holds(".own"));
    for (patterns, code) in
        [("a,x", "data_not_found"), ("other", "options_invalid"), (".tasks", "options_invalid"), ("x*", "data_not_found")]
    {
        assert_eq!(within(patterns).unwrap_err().code, code, "{patterns}");
    }
}
