//! svc-confsave as an operator uses it: both layouts saved, compared and carried over, and what it refuses.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use svc_tests::os;
use svc_tests::tool::{Ran, Tool, bin_dir};
use tempfile::TempDir;

const SECRET: &str = "hunter2-Very:secret";

const SHIPPED: &str = "# Configuration of the service.
service:
  name: 'svc'
  languages:
    - en
    - \"fr\"  # not whole yet

database:
  # The pool
  pool:
    size: 16
    idle_timeout_ms: 60000
  url: postgres://svc@db/svc_db

session:
  secret: \"change-me\"
  lifetime_minutes: 240

log: {level: info, keep_days: 30} # short
";

const SHIPPED_CONF: &str = "# Configuration of the service.

[database]
host = db1
pool_size = 12

[session]
; To be changed
secret = change-me
lifetime_minutes: 240

[log]
level = info
";

/// An installation in a folder of its own, whose path has blanks in it.
struct Site {
    dir: TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("conf save ").tempdir().unwrap();
        fs::create_dir_all(dir.path().join("inst dir/config/svc")).unwrap();
        fs::create_dir_all(dir.path().join("inst dir/conf")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn yaml(&self) -> PathBuf {
        self.path("inst dir/config/svc/svc.yaml")
    }

    fn conf(&self) -> PathBuf {
        self.path("inst dir/conf/svc.conf")
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn tool(&self, step: &str) -> Tool {
        Tool::new("svc-confsave")
            .arg(step)
            .env("SVC_INSTALL_DIR", self.path("inst dir"))
            .env("SVC_STATE_DIR", self.path("state"))
            .env("SVC_RUN_ID", "20261120t020003z-test")
    }

    /// Every file but for the locks, with what it holds.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>, u32)> {
        let mut folders = vec![self.dir.path().to_owned()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() && !path.ends_with("state") {
                    folders.push(path);
                } else if meta.is_file() {
                    files.push((path.clone(), fs::read(&path).unwrap(), meta.mode()));
                }
            }
        }
        files.sort();
        files
    }

    /// A carry of `saved` onto `new`, with `base` where there is one.
    fn carry(&self, layout: &str, saved: impl AsRef<[u8]>, base: Option<&str>, new: impl AsRef<[u8]>) -> Tool {
        let place = if layout == "yaml" { self.yaml() } else { self.conf() };
        fs::write(place, new).unwrap();
        let saved = self.write(&format!("saved.{layout}"), saved);
        let tool = self.tool("carry").arg(saved);
        match base {
            Some(base) => tool.arg("--base").arg(self.write(&format!("base.{layout}"), base)),
            None => tool,
        }
    }
}

/// A product of its own, so that its saved copy in the real /tmp is nobody else's.
struct Product(String);

impl Product {
    fn new(test: &str) -> Self {
        Self(format!("confsave-{test}-{}", std::process::id()))
    }

    fn saved(&self, extension: &str) -> PathBuf {
        Path::new("/tmp").join(format!("{}.{extension}", self.0))
    }

    fn install(&self, site: &Site, content: &str) -> PathBuf {
        let folder = site.path("inst dir/config").join(&self.0);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}.yaml", self.0));
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        for entry in fs::read_dir("/tmp").unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.0) {
                let _ = fs::remove_file(entry.path());
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// `path` → `outcome` (and reason) of every key that a carry speaks of.
fn outcomes(ran: &Ran) -> Vec<(String, String)> {
    let of = |key: &Value| {
        let outcome = key["outcome"].as_str().unwrap().to_owned();
        let outcome = key["reason"].as_str().map_or(outcome.clone(), |reason| format!("{outcome}: {reason}"));
        (key["path"].as_str().unwrap().to_owned(), outcome)
    };
    ran.result()["keys"].as_array().unwrap().iter().map(of).collect()
}

#[track_caller]
fn assert_outcomes(ran: &Ran, wanted: &[(&str, &str)]) {
    let wanted: Vec<(String, String)> = wanted.iter().map(|&(path, outcome)| (path.into(), outcome.into())).collect();
    assert_eq!(outcomes(ran), wanted, "{ran}");
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

// save

#[test]
fn a_save_copies_the_newer_layout_to_tmp_private_and_says_whose_the_source_is() {
    let (site, product) = (Site::new(), Product::new("newer"));
    let source = product.install(&site, SHIPPED);
    fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
    let ran = site.tool("save").env("SVC_NAME", &product.0).run().ok().changed();
    let copy = product.saved("yaml");
    assert_eq!(text(&copy), SHIPPED);
    assert_eq!(mode(&copy), 0o600);
    let result = ran.result();
    assert_eq!(result["layout"], "yaml");
    assert_eq!(result["source"], source.to_str().unwrap());
    assert_eq!(result["path"], copy.to_str().unwrap());
    assert_eq!(result["size_bytes"], SHIPPED.len());
    assert_eq!(result["owner"], "root");
    assert_eq!(result["group"], "root");
    assert_eq!(result["mode"], "0640");
    assert!(result["modified_at"].as_str().unwrap().ends_with('Z'));
    let sum = os::run(Command::new("sha256sum").arg(&copy)).unwrap();
    assert!(sum.contains(result["sha256"].as_str().unwrap()));
    assert_eq!(mode(&source), 0o640);

    let again = site.tool("save").env("SVC_NAME", &product.0).run().ok().unchanged();
    assert_eq!(again.result()["plan"], serde_json::json!([]));
}

#[test]
fn a_save_after_the_reinstallation_never_replaces_the_customised_copy() {
    let site = Site::new();
    fs::write(site.conf(), "customised = yes\n").unwrap();
    let save = || site.tool("save").arg("--to").arg(site.path("svc.conf"));
    assert_eq!(save().run().ok().changed().result()["layout"], "conf");
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    save().run().refused("copy_exists");
    assert_eq!(text(site.path("svc.conf")), "customised = yes\n");

    let forced = save().arg("--force").run().ok().changed();
    assert_eq!(forced.result()["kept_as"], site.path("svc.conf.1").to_str().unwrap());
    assert_eq!(text(site.path("svc.conf.1")), "customised = yes\n");
    assert_eq!(text(site.path("svc.conf")), SHIPPED_CONF);
    // The next one finds .1 taken, and loses nothing either.
    fs::write(site.conf(), "third = 3\n").unwrap();
    save().arg("--force").run().ok();
    assert_eq!(text(site.path("svc.conf.1")), "customised = yes\n");
    assert_eq!(text(site.path("svc.conf.2")), SHIPPED_CONF);
    assert_eq!(mode(&site.path("svc.conf")), 0o600);
}

#[test]
fn both_layouts_are_refused_until_one_is_named_and_neither_is_not_found() {
    let site = Site::new();
    let save = || site.tool("save").arg("--to").arg(site.dir.path());
    save().run().fails(4, "config_not_found").unchanged();
    fs::write(site.yaml(), SHIPPED).unwrap();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    save().run().refused("config_in_both_layouts");
    save().args(["--layout", "conf"]).run().ok();
    save().args(["--layout", "yaml"]).run().ok();
    assert_eq!(text(site.path("svc.conf")), SHIPPED_CONF);
    assert_eq!(text(site.path("svc.yaml")), SHIPPED);
    fs::remove_file(site.conf()).unwrap();
    save().args(["--layout", "conf"]).run().fails(4, "config_not_found");
}

#[test]
fn the_copy_goes_to_the_file_or_folder_that_is_named() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    fs::create_dir(site.path("a folder")).unwrap();
    let save = |to: PathBuf| site.tool("save").arg("--to").arg(to).run();
    save(site.path("a folder")).ok();
    assert_eq!(text(site.path("a folder/svc.yaml")), SHIPPED);
    save(site.path("other name")).ok();
    assert_eq!(text(site.path("other name")), SHIPPED);
    save(site.path("nowhere/")).fails(4, "folder_not_found").unchanged();
    save(site.path("nowhere/x.yaml")).fails(4, "folder_not_found").unchanged();
    save(site.yaml()).refused("same_file");
    // A relative path is one of the folder that the call is made in.
    site.tool("save").args(["--to", "relative.yaml"]).dir(site.dir.path()).run().ok();
    assert_eq!(text(site.path("relative.yaml")), SHIPPED);
}

#[test]
fn a_file_of_neither_layout_is_named_by_flag_or_environment() {
    let site = Site::new();
    let odd = site.write("odd place.yml", SHIPPED);
    let ran = site.tool("save").arg("--to").arg(site.path("x")).env("SVC_CONFIG_FILE", &odd).run().ok();
    assert_eq!(ran.result()["layout"], "yaml");
    site.tool("save").arg("--config").arg(site.path("none.conf")).run().fails(4, "config_not_found");
}

#[test]
fn a_planted_link_a_foreign_file_and_a_folder_in_the_copys_place_are_refused() {
    let (site, product) = (Site::new(), Product::new("planted"));
    let stranger = os::system_user("svc-confsave-a").unwrap();
    product.install(&site, SHIPPED);
    let copy = product.saved("yaml");
    let save = || site.tool("save").env("SVC_NAME", &product.0);

    let victim = site.write("victim", "precious");
    symlink(&victim, &copy).unwrap();
    save().run().refused("not_a_regular_file");
    save().arg("--force").run().refused("not_a_regular_file");
    assert_eq!(text(&victim), "precious");
    fs::remove_file(&copy).unwrap();
    symlink("/nonexistent/target", &copy).unwrap();
    save().run().refused("not_a_regular_file");
    fs::remove_file(&copy).unwrap();

    for content in ["planted: yes\n", SHIPPED] {
        fs::write(&copy, content).unwrap();
        chown(&copy, Some(stranger.uid.as_raw()), Some(stranger.gid.as_raw())).unwrap();
        save().arg("--force").run().refused("foreign_file");
        assert_eq!(text(&copy), content);
        // Nor is it read: its values would come into the configuration.
        for step in ["diff", "carry"] {
            site.tool(step).env("SVC_NAME", &product.0).run().refused("foreign_file");
        }
    }
    fs::remove_file(&copy).unwrap();

    fs::create_dir(&copy).unwrap();
    save().run().refused("not_a_regular_file");
    fs::remove_dir(&copy).unwrap();
    // A link where the unfinished file would be is not followed either.
    symlink(&victim, PathBuf::from(format!("{}.partial", copy.display()))).unwrap();
    save().run().ok();
    assert_eq!(text(&victim), "precious");
    assert_eq!(text(&copy), SHIPPED);
}

#[test]
fn a_copy_that_others_can_read_is_made_private() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let copy = site.write("svc.yaml", SHIPPED);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    site.tool("save").arg("--to").arg(&copy).run().ok().changed();
    assert_eq!(mode(&copy), 0o600);
    site.tool("save").arg("--to").arg(&copy).run().ok().unchanged();
}

#[test]
fn a_save_copies_any_bytes_and_reads_nothing_into_them() {
    let site = Site::new();
    for (at, bytes) in [&b""[..], b"\xff\xfe\x00binary", b"a: 1\r\na: [", b"\xef\xbb\xbfa: 1\n"].into_iter().enumerate() {
        fs::write(site.yaml(), bytes).unwrap();
        let copy = site.path(&format!("copy{at}"));
        site.tool("save").arg("--to").arg(&copy).run().ok();
        assert_eq!(fs::read(copy).unwrap(), bytes);
    }
}

#[test]
fn a_dry_run_of_a_save_says_the_plan_and_changes_nothing() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.write("svc.yaml", "old: 1\n");
    let before = site.files();
    let save = || site.tool("save").arg("--to").arg(site.dir.path()).arg("--force");
    let dry = save().arg("--dry-run").run().ok().unchanged();
    assert_eq!(dry.doc()["dry_run"], true);
    assert_eq!(site.files(), before);
    let real = save().run().ok().changed();
    assert_eq!(dry.result(), real.result());
    // A dry run's document is nothing to go on from.
    site.tool("carry").args(["--from", "-"]).stdin(dry.text()).run().fails(2, "from_dry_run").unchanged();
}

#[test]
fn an_unprivileged_user_saves_what_it_may_read_and_is_told_what_it_may_not() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    fs::set_permissions(site.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(site.yaml(), SHIPPED).unwrap();
    os::folder(&site.path("home"), 0o700, Some(&user)).unwrap();
    let save = || site.tool("save").as_user(&user.name).arg("--to").arg(site.path("home"));
    save().run().refused("state_dir_unusable");
    let ran = save().env("SVC_STATE_DIR", site.path("home/state")).run().ok();
    assert_eq!(ran.result()["owner"], "root");
    assert_eq!(fs::metadata(site.path("home/svc.yaml")).unwrap().uid(), user.uid.as_raw());

    fs::set_permissions(site.yaml(), fs::Permissions::from_mode(0o600)).unwrap();
    save().env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
    fs::set_permissions(site.path("inst dir"), fs::Permissions::from_mode(0o700)).unwrap();
    save().env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
    let carry = site.tool("carry").as_user(&user.name).arg(site.path("home/svc.yaml"));
    carry.env("SVC_STATE_DIR", site.path("home/state")).run().refused("permission_denied");
}

// diff

#[test]
fn a_diff_goes_by_key_and_not_by_line() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "")).unwrap();
    let saved =
        site.write("saved.yaml", SHIPPED.replace("    - en\n", "    - en\n    - de\n").replace("240", "240\n  cluster.name: x"));
    let ran = site.tool("diff").arg(&saved).run().ok().unchanged();
    let result = ran.result();
    assert_eq!(result["same"], false);
    assert_eq!(paths(&result["changed"]), ["service.languages", "database.pool.size"]);
    assert_eq!(result["changed"][1]["key"], serde_json::json!(["database", "pool", "size"]));
    assert_eq!((&result["changed"][1]["saved"], &result["changed"][1]["new"]), (&"16".into(), &"32".into()));
    assert_eq!(result["changed"][0]["saved"], serde_json::json!(["en", "de", "fr"]));
    assert_eq!(paths(&result["only_saved"]), ["session.lifetime_minutes", "session.\"cluster.name\""]);
    assert_eq!(paths(&result["only_new"]), Vec::<&str>::new());
    let text = result["text_diff"].as_str().unwrap();
    assert!(text.contains("\n-    size: 16\n+    size: 32\n"), "{text}");
}

#[test]
fn formatting_order_and_comments_are_no_difference() {
    let site = Site::new();
    fs::write(site.yaml(), "b: {c: 1, d: \"y z\"} # note\n\n\na: x\n").unwrap();
    let saved = site.write("saved.yaml", "a: 'x'\r\nb:\r\n    d: y z\r\n    c: 1\r\n");
    assert_eq!(site.tool("diff").arg(&saved).run().ok().result()["same"], true);
    fs::write(site.yaml(), "a: no\nb: 010\n").unwrap();
    fs::write(&saved, "a: 'no'\nb: 8\n").unwrap();
    let ran = site.tool("diff").arg(&saved).run().ok();
    assert_eq!(paths(&ran.result()["changed"]), ["a", "b"], "readers disagree about these, so they are not the same");
}

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
    let shown = format!("{} {}", result["changed"], result["text_diff"].as_str().unwrap());
    for gone in ('1'..='8').flat_map(|number| [format!("q{number}"), format!("z{number}")]) {
        assert!(!shown.contains(&gone), "{gone} is shown\n{ran}");
    }
    assert_eq!(result["changed"].as_array().unwrap().len(), 8, "{ran}");
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
        // What is left out is said, and the difference is told all the same.
        let ran = site.tool("diff").arg(&saved).args(["--layout", layout]).run().ok();
        let changed = ran.result()["changed"].as_array().unwrap();
        let password = changed.iter().find(|entry| entry["path"] == "db.password").unwrap();
        assert_eq!((&password["redacted"], &password["saved"]), (&true.into(), &"<redacted>".into()));
        // The file itself gets the real value.
        let base = base.as_os_str();
        site.tool("carry").arg(&saved).args(["--layout", layout, "--base"]).arg(base).run().review("conflict");
        assert!(text(&place).contains(SECRET));
    }
}

#[test]
fn a_file_that_is_no_good_yaml_is_told_by_its_line_and_not_by_its_words() {
    let site = Site::new();
    let good = site.write("good.yaml", SHIPPED);
    for (bad, code) in [
        (&b"a: 1\nsecret: hunter2: x\n"[..], "yaml_invalid"),
        (b"secret: hunter2\nsecret: hunter2\n", "yaml_invalid"),
        (b"a:\n\thunter2: 1\n", "yaml_invalid"),
        (b"a: [hunter2, \n", "yaml_invalid"),
        (b"a: hunter2\n---\nb: 1\n", "yaml_invalid"),
        (b"a: *hunter2\n", "yaml_invalid"),
        (b"a: hunter2 \xff\n", "not_text"),
        (b"a: hunter2 \x00\n", "not_text"),
    ] {
        let bad_file = site.write("bad.yaml", bad);
        for (saved, new) in [(&bad_file, SHIPPED.as_bytes()), (&good, bad)] {
            fs::write(site.yaml(), new).unwrap();
            let before = site.files();
            for call in [site.tool("diff"), site.tool("carry").arg("--all")] {
                let ran = call.arg(saved).run().fails(7, code).unchanged();
                assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran}");
            }
            assert_eq!(site.files(), before);
        }
    }
}

#[test]
fn a_saves_document_leads_diff_and_carry_to_its_copy_also_when_both_have_moved() {
    let site = Site::new();
    let custom = SHIPPED.replace("size: 16", "size: 32");
    fs::write(site.yaml(), &custom).unwrap();
    let save = site.tool("save").arg("--to").arg(site.path("svc.yaml")).run().ok();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let piped = site.tool("diff").args(["--from", "-"]).stdin(save.text()).run().ok();
    assert_eq!(paths(&piped.result()["changed"]), ["database.pool.size"]);

    fs::create_dir(site.path("moved")).unwrap();
    fs::rename(site.path("svc.yaml"), site.path("moved/svc.yaml")).unwrap();
    let document = site.write("moved/confsave.json", save.text());
    site.tool("diff").args(["--from", "-"]).stdin(save.text()).run().fails(4, "file_not_found");
    let from = |step: &str| site.tool(step).arg("--from").arg(&document);
    assert_eq!(paths(&from("diff").run().ok().result()["changed"]), ["database.pool.size"]);

    fs::write(site.path("moved/svc.yaml"), format!("{custom}x: 1\n")).unwrap();
    from("diff").run().fails(7, "saved_altered").unchanged();
    from("carry").args(["--base", "new"]).run().fails(7, "saved_altered").unchanged();
    fs::write(site.path("moved/svc.yaml"), &custom).unwrap();
    assert_outcomes(&from("carry").args(["--base", "new"]).run().ok().changed(), &[("database.pool.size", "carried")]);
    assert_eq!(text(site.yaml()), custom);
}

#[test]
fn a_document_decides_between_two_layouts_that_an_uninstaller_left() {
    let site = Site::new();
    fs::write(site.conf(), SHIPPED_CONF.replace("db1", "db7")).unwrap();
    let save = site.tool("save").arg("--to").arg(site.path("svc.conf")).run().ok();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    fs::write(site.yaml(), SHIPPED).unwrap();
    site.tool("diff").arg(site.path("svc.conf")).run().refused("config_in_both_layouts");
    let ran = site.tool("diff").args(["--from", "-"]).stdin(save.text()).run().ok();
    assert_eq!(paths(&ran.result()["changed"]), ["database.host"]);
    let carry = || site.tool("carry").args(["--from", "-", "--base", "new"]).stdin(save.text());
    carry().run().ok().changed();
    assert_eq!(text(site.conf()), SHIPPED_CONF.replace("db1", "db7"));
    assert_eq!(text(site.yaml()), SHIPPED);
    // Who asks for the other one gets it.
    carry().args(["--layout", "yaml"]).run().review("not_carried").unchanged();
}

#[test]
fn the_saved_copy_is_found_in_tmp_by_itself() {
    let (site, product) = (Site::new(), Product::new("found"));
    product.install(&site, SHIPPED);
    let diff = || site.tool("diff").env("SVC_NAME", &product.0);
    diff().run().fails(4, "saved_not_found");
    site.tool("save").env("SVC_NAME", &product.0).run().ok();
    assert_eq!(diff().run().ok().result()["same"], true);
    fs::write(product.saved("conf"), SHIPPED_CONF).unwrap();
    diff().run().refused("saved_in_both_layouts");
    diff().arg(product.saved("yaml")).run().ok();
    fs::remove_file(product.saved("conf")).unwrap();
    fs::remove_file(product.saved("yaml")).unwrap();
    symlink(site.write("elsewhere", SHIPPED), product.saved("yaml")).unwrap();
    diff().run().refused("not_a_regular_file");
}

// carry

#[test]
fn customised_values_are_carried_and_the_new_files_comments_order_and_quoting_stay() {
    let site = Site::new();
    let mine = SHIPPED
        .replace("size: 16", "size: 32")
        .replace("\"fr\"  # not whole yet", "de")
        .replace("change-me", "mine")
        .replace("level: info", "level: debug")
        .replace("# The pool", "# a comment of mine\n  extra: 'yes'");
    // The vendor changed a default, a comment, and added a key.
    let new =
        SHIPPED.replace("240", "480").replace("# short", "# in short").replace("    size", "    # new\n    kind: fast\n    size");
    let ran = site.carry("yaml", &mine, Some(SHIPPED), &new).run().ok().changed();
    assert_outcomes(
        &ran,
        &[
            ("service.languages", "carried"),
            ("database.extra", "carried"),
            ("database.pool.size", "carried"),
            ("session.secret", "carried"),
            ("log.level", "carried"),
        ],
    );
    let wanted = new
        .replace("size: 16", "size: 32")
        .replace("\"fr\"  # not whole yet", "de")
        .replace("change-me", "mine")
        .replace("level: info", "level: debug")
        .replace("svc_db\n", "svc_db\n  extra: 'yes'\n");
    assert_eq!(text(site.yaml()), wanted);
    let before = site.path("inst dir/config/svc/svc.yaml.before-20261120t020003z-test");
    assert_eq!(ran.result()["kept_as"], before.to_str().unwrap());
    assert_eq!(text(&before), new);
    let sum = os::run(Command::new("sha256sum").arg(site.yaml())).unwrap();
    assert!(sum.contains(ran.result()["sha256"].as_str().unwrap()));

    // A second one finds all of it done.
    let again = site.tool("carry").arg(site.path("saved.yaml")).arg("--base").arg(site.path("base.yaml")).run().ok().unchanged();
    assert!(outcomes(&again).iter().all(|(_, outcome)| outcome == "same"));
    assert_eq!(again.result()["plan"], serde_json::json!([]));
    assert_eq!(text(&before), new);
}

#[test]
fn what_both_changed_is_a_conflict_that_the_operator_wins_and_a_person_must_look_at() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "");
    let new = SHIPPED.replace("size: 16", "size: 64").replace("240", "480");
    let ran = site.carry("yaml", mine, Some(SHIPPED), &new).run().review("conflict").changed();
    assert_outcomes(&ran, &[("database.pool.size", "conflict"), ("session.lifetime_minutes", "conflict")]);
    let key = &ran.result()["keys"][0];
    assert_eq!((&key["saved"], &key["base"], &key["new"]), (&"32".into(), &"16".into(), &"64".into()));
    assert_eq!(ran.result()["keys"][1]["saved"], Value::Null);
    assert_eq!(text(site.yaml()), new.replace("size: 64", "size: 32").replace("  lifetime_minutes: 480\n", ""));
}

#[test]
fn a_key_that_the_new_version_does_not_have_is_not_carried_and_not_forgotten() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("240", "100");
    let new = SHIPPED.replace("  lifetime_minutes: 240\n", "");
    let ran = site.carry("yaml", &mine, Some(SHIPPED), &new).run().review("not_carried").changed();
    assert_outcomes(&ran, &[("database.pool.size", "carried"), ("session.lifetime_minutes", "not_carried: gone_in_new")]);
    assert_eq!(text(site.yaml()), new.replace("size: 16", "size: 32"));
    // Whoever wants it all the same names it.
    let ran = site.tool("carry").arg(site.path("saved.yaml")).args(["--key", "session.lifetime_minutes"]).run().ok().changed();
    assert_outcomes(&ran, &[("session.lifetime_minutes", "carried")]);
    assert!(text(site.yaml()).contains("  lifetime_minutes: 100\n"));
}

#[test]
fn with_the_base_new_all_customisations_come_back_after_a_reinstallation() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("log: {level: info, keep_days: 30} # short\n", "more: [1]\n");
    let ran = site.carry("yaml", &mine, None, SHIPPED).args(["--base", "new"]).run().ok().changed();
    assert_outcomes(
        &ran,
        &[("database.pool.size", "carried"), ("more", "carried"), ("log.level", "carried"), ("log.keep_days", "carried")],
    );
    assert_eq!(ran.result()["base"]["kind"], "new");
    assert_eq!(site.tool("diff").arg(site.path("saved.yaml")).run().ok().result()["same"], true);
    assert!(text(site.yaml()).starts_with("# Configuration of the service."));
}

#[test]
fn the_older_layout_is_carried_line_by_line() {
    let site = Site::new();
    let mine =
        SHIPPED_CONF.replace("db1", "db7").replace("= change-me", "=mine").replace("level = info", "level = debug\nfile=/x y");
    let new =
        SHIPPED_CONF.replace("pool_size = 12", "pool_size = 24").replace("level = info", "level = info  \n# new\nformat: text");
    let ran = site.carry("conf", &mine, Some(SHIPPED_CONF), &new).run().ok().changed();
    assert_outcomes(
        &ran,
        &[("database.host", "carried"), ("session.secret", "carried"), ("log.level", "carried"), ("log.file", "carried")],
    );
    let wanted = new
        .replace("db1", "db7")
        .replace("change-me", "mine")
        .replace("level = info", "level = debug")
        .replace("format: text\n", "format: text\nfile=/x y\n");
    assert_eq!(text(site.conf()), wanted);
    assert_eq!(text(site.path("inst dir/conf/svc.conf.before-20261120t020003z-test")), new);
}

#[test]
fn without_a_base_nothing_is_carried_but_what_is_named() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("240", "100").replace("level: info", "level: debug");
    let carry = |args: &[&str]| site.carry("yaml", &mine, None, SHIPPED).args(args.iter().copied()).run();
    let ran = carry(&[]).review("not_carried").unchanged();
    assert_eq!(ran.result()["not_carried_count"], 3);
    assert_eq!(outcomes(&ran)[0], ("database.pool.size".into(), "not_carried: no_base".into()));
    assert_eq!(text(site.yaml()), SHIPPED);

    let ran = carry(&["--key", "database", "--key", "log.level"]).ok().changed().warns("not_named");
    assert_outcomes(
        &ran,
        &[
            ("database.pool.size", "carried"),
            ("database.pool.idle_timeout_ms", "same"),
            ("database.url", "same"),
            ("session.lifetime_minutes", "not_carried: not_named"),
            ("log.level", "carried"),
        ],
    );
    assert_eq!(text(site.yaml()), SHIPPED.replace("size: 16", "size: 32").replace("level: info", "level: debug"));
    carry(&["--all"]).ok().changed();
    assert_eq!(text(site.yaml()), mine);
    carry(&["--key", "databse"]).fails(4, "key_not_found").unchanged();
    assert_eq!(carry(&["--all", "--base", "new"]).status, 2);
    assert_eq!(carry(&["--key", "a", "--base", "new"]).status, 2);
}

#[test]
fn a_conf_with_a_line_that_is_not_understood_is_put_back_as_a_whole_with_the_shipped_one_beside_it() {
    let site = Site::new();
    let shipped = format!("{SHIPPED_CONF}include more.d\n");
    let mine = shipped.replace("db1", "db7");
    let beside = site.path("inst dir/conf/svc.conf.svc-new");

    let ran = site.carry("conf", &mine, None, &shipped).run().review("not_carried").unchanged();
    assert_outcomes(&ran, &[("(the whole file)", "not_carried: not_recognised")]);
    assert_eq!(ran.result()["new"]["unknown_line"], 14);
    let diff = site.tool("diff").arg(site.path("saved.conf")).run().ok();
    assert_eq!((&diff.result()["by_key"], &diff.result()["same"]), (&false.into(), &false.into()));
    assert!(diff.result()["text_diff"].as_str().unwrap().contains("\n-host = db7\n+host = db1\n"));

    fs::set_permissions(site.conf(), fs::Permissions::from_mode(0o640)).unwrap();
    let ran =
        site.tool("carry").arg(site.path("saved.conf")).args(["--base", "new"]).run().review("carried_as_a_whole").changed();
    assert_outcomes(&ran, &[("(the whole file)", "carried")]);
    assert_eq!(ran.result()["kept_as"], beside.to_str().unwrap());
    assert_eq!((text(site.conf()), text(&beside)), (mine.clone(), shipped.clone()));
    assert_eq!((mode(&site.conf()), mode(&beside)), (0o640, 0o640));
    let again = site.tool("carry").arg(site.path("saved.conf")).arg("--all").run().ok().unchanged();
    assert_outcomes(&again, &[("(the whole file)", "same")]);

    // Both changed it: the operator's file wins as a whole, and it is a conflict.
    let theirs = shipped.replace("12", "24");
    let ran = site.carry("conf", &mine, Some(&shipped), &theirs).run().review("conflict").changed();
    assert_eq!(text(site.conf()), mine);
    assert_eq!(text(ran.result()["kept_as"].as_str().unwrap()), theirs);
    assert_eq!(text(&beside), shipped, "what was kept before is not lost");
    // Nobody customised it: the shipped one stays.
    let ran = site.carry("conf", &shipped, Some(&shipped), &theirs).run().ok().unchanged();
    assert_outcomes(&ran, &[]);
    assert_eq!(text(site.conf()), theirs);
}

#[test]
fn across_layouts_nothing_is_carried_and_every_customised_key_is_told_with_its_likely_place() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let saved =
        site.write("svc.conf", SHIPPED_CONF.replace("pool_size = 12", "pool_size = 99").replace("level = info", "level = debug"));
    let base = site.write("base.conf", SHIPPED_CONF);
    let before = site.files();
    let ran = site.tool("carry").arg(&saved).arg("--base").arg(&base).run().review("not_carried").unchanged();
    let other = "not_carried: other_layout";
    assert_outcomes(&ran, &[("database.pool_size", other), ("log.level", other)]);
    assert_eq!(ran.result()["keys"][0]["suggestion"], "database.pool.size");
    assert_eq!(ran.result()["keys"][1]["suggestion"], "log.level");
    let ran = site.tool("carry").arg(&saved).args(["--base", "new"]).run().review("not_carried").unchanged();
    assert_outcomes(&ran, &[("database.host", other), ("database.pool_size", other), ("log.level", other)]);
    assert_eq!(site.files(), before);
    let diff = site.tool("diff").arg(&saved).run().ok();
    assert_eq!(diff.result()["same"], false);
    assert_eq!(paths(&diff.result()["changed"]), ["log.level"]);

    // The other way.
    fs::remove_file(site.yaml()).unwrap();
    fs::write(site.conf(), SHIPPED_CONF).unwrap();
    let saved = site.write("svc.yaml", SHIPPED.replace("size: 16", "size: 99"));
    let ran = site
        .tool("carry")
        .arg(&saved)
        .arg("--base")
        .arg(site.write("base.yaml", SHIPPED))
        .run()
        .review("not_carried")
        .unchanged();
    assert_outcomes(&ran, &[("database.pool.size", other)]);
    assert_eq!(ran.result()["keys"][0]["suggestion"], "database.pool_size");
}

#[test]
fn line_ends_byte_order_mark_and_empty_files_are_borne() {
    let site = Site::new();
    let crlf = format!("\u{feff}{}", SHIPPED.replace('\n', "\r\n"));
    site.carry("yaml", SHIPPED.replace("size: 16", "size: 32"), Some(SHIPPED), &crlf).run().ok().changed();
    assert_eq!(text(site.yaml()), crlf.replace("size: 16", "size: 32"));
    site.carry("yaml", "a:\n  b: [1,\n    2]\nc: |\n  x\n", Some("a: 0\n"), "a: 0\r\n").run().ok();
    assert_eq!(text(site.yaml()).matches('\n').count(), text(site.yaml()).matches("\r\n").count());

    for empty in ["", "# only a comment\n"] {
        let ran = site.carry("yaml", "a:\n  b: 1\nc: 2\n", Some(""), empty).run().ok().changed();
        assert_outcomes(&ran, &[("a.b", "carried"), ("c", "carried")]);
        assert!(text(site.yaml()).starts_with(empty));
        let ran = site.carry("yaml", "", Some(""), empty).run().ok().unchanged();
        assert_outcomes(&ran, &[]);
    }
    fs::remove_file(site.yaml()).unwrap();
    let ran = site.carry("conf", "a = 1\r\n[s]\r\nb = 2\r\n", None, "").arg("--all").run().ok().changed();
    assert_outcomes(&ran, &[("a", "carried"), ("s.b", "carried")]);
    assert_eq!(text(site.conf()), "a = 1\n\n[s]\nb = 2\n");
}

#[test]
fn a_key_that_cannot_be_written_by_itself_alone_is_left_and_the_others_are_carried() {
    let site = Site::new();
    // Another key says the same by an alias: to set the one would set both.
    let new = "a: &x 1\nb: *x\nc: 1\n";
    let ran = site.carry("yaml", "a: 2\nb: 1\nc: 2\n", Some("a: 1\nb: 1\nc: 1\n"), new).run().review("not_carried").changed();
    assert_outcomes(&ran, &[("a", "not_carried: not_writable"), ("c", "carried")]);
    assert_eq!(text(site.yaml()), "a: &x 1\nb: *x\nc: 2\n");
}

#[test]
fn owner_and_mode_of_the_new_file_stay_and_a_link_is_not_replaced() {
    let site = Site::new();
    let user = os::system_user("svc-confsave-a").unwrap();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    chown(site.yaml(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    fs::set_permissions(site.yaml(), fs::Permissions::from_mode(0o640)).unwrap();
    call.run().ok().changed();
    let meta = fs::metadata(site.yaml()).unwrap();
    assert_eq!((meta.uid(), meta.gid(), mode(&site.yaml())), (user.uid.as_raw(), user.gid.as_raw(), 0o640));

    let real = site.write("real.yaml", SHIPPED);
    fs::remove_file(site.yaml()).unwrap();
    symlink(&real, site.yaml()).unwrap();
    let carry = || site.tool("carry").arg(site.path("saved.yaml")).arg("--base").arg(site.path("base.yaml"));
    carry().run().refused("config_is_link");
    carry().arg("--config").arg(&real).run().ok().changed();
    assert!(fs::symlink_metadata(site.yaml()).unwrap().is_symlink());
    assert_eq!(text(&real), SHIPPED.replace("16", "32"));
}

#[test]
fn a_dry_run_of_a_carry_says_exactly_what_the_real_one_does_and_changes_nothing() {
    let site = Site::new();
    let mine = SHIPPED.replace("size: 16", "size: 32").replace("  lifetime_minutes: 240\n", "").replace("change-me", SECRET);
    let carry = || site.tool("carry").arg(site.path("saved.yaml")).arg("--base").arg(site.path("base.yaml"));
    drop(site.carry("yaml", mine, Some(SHIPPED), SHIPPED));
    let before = site.files();
    let dry = carry().arg("--dry-run").run().ok().unchanged();
    assert_eq!(site.files(), before);
    let changes: Vec<&str> =
        dry.result()["plan"].as_array().unwrap().iter().map(|action| action["change"].as_str().unwrap()).collect();
    assert!(changes[0].starts_with("keep as "), "{changes:?}");
    let wanted = ["set database.pool.size to \"32\"", "set session.secret to \"<redacted>\"", "remove session.lifetime_minutes"];
    assert_eq!(changes[1..], wanted);
    let real = carry().run().ok().changed();
    assert_eq!(dry.result(), real.result());
}

#[test]
fn another_run_at_the_same_file_is_locked_out() {
    let site = Site::new();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    // A dry run touches nothing, so it makes no lock.
    call.clone().arg("--dry-run").run().ok();
    assert!(!site.path("state").exists());
    call.clone().run().ok().changed();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let lock = fs::read_dir(site.path("state/locks")).unwrap().next().unwrap().unwrap().path();
    let held = fs::File::open(lock).unwrap();
    held.lock().unwrap();
    call.clone().run().fails(8, "locked").unchanged();
    drop(held);
    call.run().ok().changed();
}

#[test]
fn a_signal_before_the_file_is_changed_leaves_it_as_it_is() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let site = Site::new();
        fs::write(site.yaml(), SHIPPED).unwrap();
        let fifo = site.path("fifo");
        os::run(Command::new("mkfifo").arg(&fifo)).unwrap();
        let call = site.tool("carry").args(["--base", "new", "--from"]).arg(&fifo).spawn();
        // Opening the pipe for writing returns when the tool has opened it, which it does long after it began to catch.
        let pipe = fs::OpenOptions::new().write(true).open(fifo).unwrap();
        call.signal(signal);
        let ran = call.wait().fails(128 + signal as i32, "interrupted").unchanged();
        drop(pipe);
        assert_eq!(text(site.yaml()), SHIPPED, "{ran}");
        assert_eq!(fs::read_dir(site.yaml().parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }
}

#[test]
fn the_end_of_the_time_limit_changes_nothing() {
    let site = Site::new();
    let call = site.carry("yaml", SHIPPED.replace("16", "32"), Some(SHIPPED), SHIPPED);
    call.args(["--timeout", "0"]).run().fails(6, "timeout").unchanged();
    assert_eq!(text(site.yaml()), SHIPPED);
}

#[test]
fn a_disk_that_is_full_leaves_the_old_file_and_nothing_else() {
    let site = Site::new();
    let script = r#"
        mount -t tmpfs -o size=128k tmpfs "$1" && mkdir -p "$1/config/svc" &&
        printf 'a: 1\nbig: x\n' > "$1/config/svc/svc.yaml" || exit 99
        dd if=/dev/zero of="$1/fill" bs=1k 2>/dev/null
        "$2" carry "$3" --all --install-dir "$1" --state-dir "$4"
        status=$?
        [ "$(cat "$1/config/svc/svc.yaml")" = "$(printf 'a: 1\nbig: x')" ] && [ "$(ls "$1/config/svc")" = svc.yaml ] || exit 98
        exit $status"#;
    let saved = site.write("saved.yaml", format!("a: 2\nbig: {}\n", "y".repeat(50_000)));
    let out = Command::new("unshare")
        .args(["-m", "bash", "-c", script, "full"])
        .args([site.path("inst dir"), bin_dir().join("svc-confsave"), saved, site.path("state")])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["error"]["code"], "disk_full");
    assert_eq!(document["changed"], false);
}

#[test]
fn an_empty_environment_is_enough() {
    let site = Site::new();
    fs::write(site.yaml(), SHIPPED).unwrap();
    let out = Command::new("env")
        .arg("-i")
        .arg(bin_dir().join("svc-confsave"))
        .arg("save")
        .args(["--install-dir".into(), site.path("inst dir"), "--state-dir".into(), site.path("state")])
        .arg("--to")
        .arg(site.dir.path())
        .output()
        .unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert_eq!(text(site.path("svc.yaml")), SHIPPED);
}
