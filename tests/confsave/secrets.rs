//! No secret is shown, wherever it stands.

use std::fs;

use crate::site::{SECRET, Site, text};

#[test]
fn short_secrets_are_known_by_where_they_stand() {
    let site = Site::new();
    // Too short to be taken out wherever else they stand.
    let config = |x: char| {
        format!(
            "dbpass: {x}1\nbindpw: {x}2\ndsn: root:{x}3@tcp(h)/db\nenv:\n  - value: {x}4\n    name: DB_PASSWORD\n\
             args: [\"--password\", \"{x}5\"]\nrun: curl -u a:{x}6 h\nproxy: //u:{x}7@h\nnamed: {{name: TOKEN, value: {x}8}}\n"
        )
    };
    fs::write(site.yaml(), config('q')).unwrap();
    let saved = site.write("saved.yaml", config('z'));
    let ran = site.tool("diff").arg(&saved).run().ok();
    let result = ran.result();
    // The names of the files may have such letters by chance.
    let shown = result["changed"].to_string();
    for gone in ('1'..='8').flat_map(|number| [format!("q{number}"), format!("z{number}")]) {
        assert!(!shown.contains(&gone), "{gone} is shown\n{ran}");
    }
    assert_eq!(result["changed"].as_array().unwrap().len(), 8, "{ran}");
}

#[test]
fn names_of_secrets_are_known_however_they_are_written_and_other_values_are_shown() {
    let site = Site::new();
    let secrets = "password db_password dbPassword PASSWORD secret client-secret apiKey api_key APIKEY access.key token auth_tokens \
                   private_key credentials pass smtp_pass pwd salt dbpass bindpw ldap_userpw";
    let others = "password_file keyboard host user monkey level secret_path passage author bypass compass";
    let config = |value: &str| {
        secrets.split_whitespace().chain(others.split_whitespace()).map(|name| format!("{name}: {value}\n")).collect::<String>()
    };
    fs::write(site.yaml(), config("x1") + "env: [{name: DB_HOST, value: y1}]\ncert: z\n").unwrap();
    let pem = "cert: |\n  -----BEGIN RSA PRIVATE KEY-----\n  MIIabc\n  -----END RSA PRIVATE KEY-----\n";
    let saved = site.write("saved.yaml", config("x2") + "env: [{name: DB_HOST, value: y2}]\n" + pem);
    let ran = site.tool("diff").arg(&saved).run().ok();
    let changed = ran.result()["changed"].as_array().unwrap();
    let saved = |name: &str| {
        changed.iter().find(|entry| entry["key"][0] == name).unwrap_or_else(|| panic!("{name}"))["saved"].to_string()
    };
    secrets.split_whitespace().for_each(|name| assert_eq!(saved(name), "\"<redacted>\"", "{name}"));
    others.split_whitespace().for_each(|name| assert_eq!(saved(name), "\"x2\"", "{name}"));
    assert!(saved("env").contains("y2") && !ran.stdout.contains("MIIabc"), "{ran}");
}

#[test]
fn no_secret_is_shown_unless_it_is_asked_for() {
    let site = Site::new();
    let config = |secret: &str| {
        format!(
            "session: {{secret: '{secret}'}}\ndb:\n  password: |\n    {secret}\n  url: 'postgres://svc:{secret}@db/x'\n  \
             dsn: host=h password='{secret}'\n  apiTokens:\n    - {secret}\n    - b\n# password: {secret}\nplain: &p '{secret}'\n\
             again: *p\npassword_file: /etc/pw\n"
        )
    };
    let conf =
        |secret: &str| format!("# old password = {secret}\n[db]\npassword = {secret}\nurl = http://u:{secret}@h/\nhost = h\n");
    for (layout, place, content) in [("yaml", site.yaml(), &config as &dyn Fn(&str) -> String), ("conf", site.conf(), &conf)] {
        fs::write(&place, content("other-Secret-1")).unwrap();
        let saved = site.write(&format!("saved.{layout}"), content(SECRET));
        let base = site.write(&format!("base.{layout}"), content("base-Secret-1"));
        let calls = [
            site.tool("diff").arg(&saved),
            site.tool("carry").arg(&saved).arg("--dry-run").arg("--base").arg(&base),
            site.tool("carry").arg(&saved).args(["--dry-run", "--all"]),
            site.tool("carry").arg(&saved).args(["--dry-run", "--verbose"]).talks(),
        ];
        for call in calls {
            let ran = call.args(["--layout", layout]).run();
            assert!(matches!(ran.status, 0 | 9), "{ran}");
            for gone in [SECRET, "hunter2", "other-Secret", "base-Secret"] {
                assert!(!ran.stdout.contains(gone) && !ran.stderr.contains(gone), "{gone} is shown\n{ran}");
            }
            assert!(ran.stdout.contains("<redacted>"));
        }
        let ran = site.tool("diff").arg(&saved).args(["--layout", layout, "--show-secrets"]).run().ok();
        assert!(ran.stdout.contains(SECRET));
        // The difference is told although the value is left out, and the output says so.
        let ran = site.tool("diff").arg(&saved).args(["--layout", layout]).run().ok();
        let changed = ran.result()["changed"].as_array().unwrap();
        let password = changed.iter().find(|entry| entry["path"] == "db.password").unwrap();
        assert_eq!((&password["saved"], &password["new"]), (&"<redacted>".into(), &"<redacted>".into()));
        // The file itself gets the real value.
        let base = base.as_os_str();
        site.tool("carry").arg(&saved).args(["--layout", layout, "--base"]).arg(base).run().review("conflict");
        assert!(text(&place).contains(SECRET));
    }
}

#[test]
fn no_secret_of_a_text_that_is_not_understood_and_none_of_a_key_is_shown() {
    let site = Site::new();
    let redis =
        |pass: &str| format!("port 6379\nrequirepass {pass}\nmasteruser x\ntokens:\n  - {pass}\n<password>{pass}</password>\n");
    let keyed = |pass: &str, size: u8| format!("mirrors:\n  \"https://u:{pass}@registry\": {{timeout: {size}}}\n");
    for (layout, place, shipped, mine) in
        [("conf", site.conf(), redis("old-pass"), redis(SECRET)), ("yaml", site.yaml(), keyed(SECRET, 1), keyed(SECRET, 2))]
    {
        fs::write(&place, shipped).unwrap();
        let saved = site.write(&format!("saved.{layout}"), mine);
        for call in [
            site.tool("diff").arg(&saved),
            site.tool("carry").arg(&saved).arg("--dry-run").arg("--base").arg(&place),
            site.tool("carry").arg(&saved).args(["--dry-run"]),
        ] {
            let ran = call.args(["--layout", layout]).run();
            assert!(matches!(ran.status, 0 | 9), "{ran}");
            for gone in [SECRET, "hunter2", "old-pass"] {
                assert!(!ran.stdout.contains(gone) && !ran.stderr.contains(gone), "{gone} is shown\n{ran}");
            }
        }
        let shown = site.tool("diff").arg(&saved).args(["--layout", layout, "--show-secrets"]).run().ok();
        assert!(shown.stdout.contains(SECRET));
    }
}

#[test]
fn no_secret_is_shown_of_a_file_whose_lines_a_lone_carriage_return_ends() {
    let site = Site::new();
    let yaml = |pass: &str| format!("a: 1\rsession:\r  password: |\r    {pass} of two words\r  pin: '{pass}'\rb: 2\r");
    let conf = |pass: &str| format!("a = 1\r[db]\rpassword = {pass} of two words\rnote = x\n");
    for (layout, place, shipped, mine) in
        [("yaml", site.yaml(), yaml("old-pass"), yaml(SECRET)), ("conf", site.conf(), conf("old-pass"), conf(SECRET))]
    {
        let base = site.write(&format!("base.{layout}"), &shipped);
        fs::write(&place, shipped).unwrap();
        let saved = site.write(&format!("saved.{layout}"), mine);
        for call in [
            site.tool("diff").arg(&saved),
            site.tool("carry").arg(&saved).arg("--dry-run").arg("--base").arg(&base),
            site.tool("carry").arg(&saved).args(["--dry-run", "--all"]),
        ] {
            let ran = call.args(["--layout", layout]).run();
            assert!(matches!(ran.status, 0 | 9), "{ran}");
            for gone in [SECRET, "hunter2", "old-pass", "of two words"] {
                assert!(!ran.stdout.contains(gone) && !ran.stderr.contains(gone), "{gone} is shown\n{ran}");
            }
        }
    }
}
