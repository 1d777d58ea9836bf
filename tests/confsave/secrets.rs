//! No secret is shown, wherever it stands.

use crate::site::*;

const YAML: &str = r"
session: {secret: '%'}
db:
  password: |
    %
  url: 'postgres://svc:%@db/x'
  dsn: host=h password='%'
  apiTokens:
    - %
    - b
credentials: !own {user: '%'}
# password: %
plain: &p '%'
again: *p
password_file: /etc/pw
";

const CONF: &str = "
# old password = %
[db]
password = %
url = http://u:%@h/
host = h
";

const NOT_UNDERSTOOD: &str = "
port 6379
requirepass %
masteruser x
tokens:
  - %
<password>%</password>
";

/// Texts with secrets, each a `%`, and as which layout they are read. Not all are understood.
const TEXTS: [(&str, &str, &str); 6] = [
    ("keys, URLs, blocks, lists, tags, comments and anchors", "yaml", YAML),
    ("a key", "yaml", "mirrors:\n  \"https://u:%@registry\": {timeout: 1}\n"),
    ("a lone carriage return", "yaml", "a: 1\rsession:\r  password: |\r    % of two words\r  pin: '%'\rb: 2\r"),
    ("keys, URLs and comments of lines", "conf", CONF),
    ("lines that are not understood", "conf", NOT_UNDERSTOOD),
    ("a lone carriage return in lines", "conf", "a = 1\r[db]\rpassword = % of two words\rnote = x\n"),
];

#[test]
fn no_secret_is_shown_unless_it_is_asked_for() {
    for (what, layout, content) in TEXTS {
        let site = Site::new();
        let with = |secret: &str| content.replace('%', secret);
        let plain = site.carry(layout, with(SECRET), None, with("other-Secret-1")).args(["--dry-run", "--layout", layout]);
        let base = site.write("base", with("base-Secret-1"));
        let diff = site.tool("diff").arg(site.path(&format!("saved.{layout}"))).args(["--layout", layout]);
        let calls = [
            diff.clone(),
            plain.clone().arg("--base").arg(base),
            plain.clone().arg("--all"),
            plain.clone(),
            plain.arg("--verbose").talks(),
        ];
        for call in calls {
            let ran = call.run();
            assert!(matches!(ran.status, 0 | 9), "{what}\n{ran}");
            ran.without(&[SECRET, "hunter2", "other-Secret", "base-Secret", "of two words"]);
        }
        diff.arg("--show-secrets").run().exits(0, &[SECRET]);
    }
}

#[test]
fn short_secrets_are_known_by_where_they_stand() {
    let site = Site::new();
    // Too short to be taken out wherever else they stand.
    let config = |x: char| {
        format!(
            "dbpass: {x}1\nbindpw: {x}2\ndsn: root:{x}3@tcp(h)/db\nenv:\n  - value: {x}4\n    name: DB_PASSWORD\n\
             args: [\"--password\", \"{x}5\"]\nrun: curl -u a:{x}6 h\nproxy: //u:{x}7@h\nnamed: {{name: TOKEN, value: {x}8}}\n\
             credentials: !own {{user: {x}9}}\n"
        )
    };
    fs::write(site.yaml(), config('q')).unwrap();
    let ran = site.tool("diff").arg(site.write("saved.yaml", config('z'))).run().ok();
    // The names of the files may have such letters by chance.
    let shown = ran.result()["changed"].to_string();
    for gone in ('1'..='9').flat_map(|number| [format!("q{number}"), format!("z{number}")]) {
        assert!(!shown.contains(&gone), "{gone} is shown\n{ran}");
    }
    assert_eq!(ran.result()["changed"].as_array().unwrap().len(), 9, "{ran}");
}

#[test]
fn secret_names_are_recognised_in_any_spelling() {
    let site = Site::new();
    let secrets = "password db_password dbPassword PASSWORD secret client-secret apiKey api_key APIKEY access.key token auth_tokens \
                   private_key credentials pass smtp_pass pwd salt dbpass bindpw ldap_userpw";
    let others = "password_file keyboard host user monkey level secret_path passage author bypass compass";
    let config = |value: &str, more: &str| {
        let names = secrets.split_whitespace().chain(others.split_whitespace());
        names.map(|name| format!("{name}: {value}\n")).collect::<String>() + more
    };
    let pem = "cert: |\n  -----BEGIN RSA PRIVATE KEY-----\n  MIIabc\n  -----END RSA PRIVATE KEY-----\n";
    fs::write(site.yaml(), config("x1", "env: [{name: DB_HOST, value: y1}]\ncert: z\n")).unwrap();
    let saved = site.write("saved.yaml", config("x2", "env: [{name: DB_HOST, value: y2}]\n") + pem);
    let ran = site.tool("diff").arg(&saved).run().ok();
    let changed = ran.result()["changed"].as_array().unwrap();
    let saved = |name: &str| {
        changed.iter().find(|entry| entry["key"][0] == name).unwrap_or_else(|| panic!("{name}"))["saved"].to_string()
    };
    secrets.split_whitespace().for_each(|name| assert_eq!(saved(name), "\"<redacted>\"", "{name}"));
    others.split_whitespace().for_each(|name| assert_eq!(saved(name), "\"x2\"", "{name}"));
    assert!(saved("env").contains("y2") && !ran.stdout.contains("MIIabc"), "{ran}");
}
