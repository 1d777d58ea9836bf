//! Another product or a newer version: the recipes of docs/recipes.md, run as they stand there, between each pair of
//! neighbouring lines of either product; and what an older server, or the other product, says of what it cannot restore.

use svc_tests::prelude::*;

const INDICES: [&str; 3] = ["content", "events-1", "hidden-state"];

/// A cluster with the host's part of an operator: its settings, and the folder where documents are kept.
struct Site {
    host: Host,
    search: OwnSearch,
    env: BTreeMap<String, String>,
    _state: TempDir,
}

impl Site {
    /// Installed and configured as `path_repo` says, and not started.
    fn prepared(key: &str, settings: &Settings) -> Self {
        let host = Host::shared().unwrap();
        let search = host.prepare_search_server(key, settings).unwrap();
        let state = tempfile::tempdir().unwrap();
        let mut env: BTreeMap<String, String> = host.systemd.env().into_iter().chain(search_env(&search)).collect();
        env.insert("SVC_STATE_DIR".to_owned(), state.path().display().to_string());
        Self { host, search, env, _state: state }
    }

    /// As the vendor installs it, but for one more folder that its `path.repo` is to know when it starts.
    fn new(key: &str) -> Self {
        let site = Self::prepared(key, &Settings { no_path_repo: true, ..Settings::default() });
        site.tool(&["configure", "--location", &site.copies().display().to_string()]).ok();
        site
    }

    /// Below this, folders may be registered that no recipe speaks of.
    fn copies(&self) -> PathBuf {
        self.setting("SVC_BACKUP_REPO").with_file_name("copies")
    }

    fn setting(&self, name: &str) -> PathBuf {
        PathBuf::from(&self.env[name])
    }

    fn recipe(&self, name: &str, more: &[(&str, &Path)], dir: &Path) {
        let commands = page::recipe("docs/recipes.md", name).unwrap();
        let more = more.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string()));
        let env: Vec<(String, String)> = self.env.clone().into_iter().chain(more).collect();
        page::bash(&commands, &env, dir).unwrap_or_else(|error| panic!("{} {name}: {error:#}", self.search.key));
    }

    fn tool(&self, args: &[&str]) -> Ran {
        Tool::new("svc-snap").envs(self.env.clone()).args(args).run()
    }

    fn seed(&self) {
        let body = |settings: Value, aliases: Value| json!({"settings": settings, "aliases": aliases, "mappings": {"properties": {"n": {"type": "integer"}, "t": {"type": "text"}}}});
        let aliases = json!({"all": {"is_write_index": true}, "few": {"filter": {"term": {"n": 1}}}});
        let put = |name: &str, body: Value| self.search.ask("PUT", &format!("/{name}"), Some(&body)).unwrap();
        put("content", body(json!({"number_of_replicas": 0, "number_of_shards": 2}), aliases));
        put("events-1", body(json!({"number_of_replicas": 1}), json!({"all": {}})));
        put("hidden-state", body(json!({"number_of_replicas": 0, "hidden": true}), json!({})));
        for (count, name) in [(50, "content"), (7, "events-1"), (1, "hidden-state")] {
            for n in 0..count {
                let document = json!({"n": n % 3, "t": format!("{name} {n} by {}", self.search.key)});
                self.search.ask("PUT", &format!("/{name}/_doc/{n}"), Some(&document)).unwrap();
            }
        }
    }

    fn documents(&self) -> BTreeMap<String, (Index, Value)> {
        let settings = |name: &str| {
            let all = self.search.ask("GET", &format!("/{name}/_settings?flat_settings=true"), None).unwrap();
            let of = |key: &str| all[name]["settings"][key].clone();
            json!([of("index.number_of_replicas"), of("index.hidden"), of("index.number_of_shards"), of("index.blocks.write")])
        };
        let indices = content::documents(&self.search.url, &INDICES.join(",")).unwrap();
        indices.into_iter().map(|(name, index)| (name.clone(), (index, settings(&name)))).collect()
    }

    fn copy(&self, from: &Path, name: &str) -> String {
        let to = self.copies().join(name);
        fs::create_dir_all(self.copies()).unwrap();
        os::run(Command::new("cp").arg("-r").args([from, &to])).unwrap();
        os::run(Command::new("chown").args(["-R", &self.search.os_user]).arg(&to)).unwrap();
        to.display().to_string()
    }
}

/// Whether a line can be had and `SVC_TEST_SEARCH` does not leave it out.
fn is_there(key: &str) -> bool {
    let chosen = std::env::var("SVC_TEST_SEARCH").unwrap_or_default();
    if !chosen.trim().is_empty() && !chosen.split_whitespace().any(|one| one == key) {
        skip(&format!("{key}: it is not among {chosen}"));
        return false;
    }
    had(key, svc_tests::search::distribution(key).unwrap().fetch()).is_some()
}

fn assert_verified(restored: &Value, counts: bool) {
    let indices = restored["result"]["indices"].as_array().unwrap();
    assert!(indices.len() >= INDICES.len(), "{restored}");
    for one in indices {
        assert_eq!(one["method"], "direct", "{restored}");
        assert_eq!(one["docs_expected"], if counts { one["docs_count"].clone() } else { Value::Null }, "{restored}");
    }
}

fn owners(folder: &Path, uid: u32) -> bool {
    let meta = fs::symlink_metadata(folder).unwrap();
    let below = || fs::read_dir(folder).unwrap().all(|entry| owners(&entry.unwrap().path(), uid));
    meta.uid() == uid && (!meta.is_dir() || below())
}

/// The recipe "Beside the old one", and what the documents of the old one are worth on the new one.
fn moves(old: &Site, new: &Site) {
    let dir = tempfile::tempdir().unwrap();
    let old_repo = new.setting("SVC_BACKUP_REPO").with_file_name("old_repo");
    let before = old.documents();
    old.recipe("move-old", &[], dir.path());
    old.tool(&["create", "later"]).refused("repository_shared").error_has(&["read-only"]);
    old.tool(&["cleanup"]).refused("repository_shared").error_has(&["read-only"]);
    old.recipe("move-copy", &[("OLD_REPO", &old_repo)], dir.path());
    new.recipe("move-new", &[("OLD_REPO", &old_repo)], dir.path());

    assert_eq!(new.documents(), before, "{} to {}", old.search.key, new.search.key);
    let restored = json_of(dir.path().join("restored.json"));
    assert_verified(&restored, true);
    let user = os::system_user(&new.search.os_user).unwrap();
    assert!(owners(&old_repo, user.uid.as_raw()), "the copy is not all the new server's");
    new.tool(&["list"]).ok().has(&json!({"snapshots/0/version": new.search.version}));

    let from = dir.path().join("snapshot.json").display().to_string();
    new.tool(&["restore", "--from", &from, "--repository", "old"]).fails(2, "options_invalid").error_has(&["--other-server"]);
    new.tool(&["restore", "--from", &from]).refused("other_server");
    let name = restored["result"]["snapshot"].as_str().unwrap();
    // Without the document: restored, and a warning names what was not verified.
    let named = new.tool(&["restore", name, "--repository", "old", "--indices", "content"]).ok().warns("not_checked");
    let named = named.has(&json!({"indices/0/docs_expected": null}));
    assert_eq!(new.documents(), before);
    new.tool(&["discard", "--run", named.id()]).ok();
}

/// What an older server says of a folder in which the newer one has written after it.
fn back(old: &Site, new: &Site) {
    let mixed = new.copy(&old.setting("SVC_BACKUP_REPO"), "after-the-older");
    new.tool(&["register", "--repository", "after-the-older", "--location", &mixed]).ok();
    new.tool(&["create", "by-the-newer", "--repository", "after-the-older"]).ok();
    let location = old.copy(Path::new(&mixed), "mixed");

    old.tool(&["register", "--repository", "mixed", "--location", &location]).refused("version_unsupported");
    assert_eq!(old.search.request("GET", "/_snapshot/mixed", None).unwrap().0, 404);
    let register = ["register", "--repository", "mixed", "--location", &location, "--readonly"];
    old.tool(&register).ok().changed().warns("version_unsupported");

    let listed = old.tool(&["list", "--repository", "mixed"]).ok().warns("version_unsupported");
    let snapshots = listed.result()["snapshots"].as_array().unwrap();
    let (newer, own): (Vec<&Value>, Vec<&Value>) = snapshots.iter().partition(|one| one["name"] == "by-the-newer");
    assert!(newer.len() == 1 && !own.is_empty(), "{listed}");
    for one in newer {
        assert_eq!((&one["restorable"], &one["valid"]), (&json!(false), &json!(true)), "{listed}");
        assert!([json!(null), json!(new.search.version)].contains(&one["version"]), "{listed}");
    }
    for one in &own {
        assert_eq!((&one["restorable"], &one["version"]), (&json!(true), &json!(old.search.version)), "{listed}");
    }
    for step in [&["show"][..], &["stage"], &["restore"], &["restore", "--in-place", "--on-conflict", "close"]] {
        let args = [step, &["by-the-newer", "--repository", "mixed"]].concat();
        old.tool(&args).refused("version_unsupported");
    }
    let name = own[0]["name"].as_str().unwrap();
    let staged = old.tool(&["stage", name, "--repository", "mixed"]).ok();
    old.tool(&["discard", "--run", staged.id()]).ok();
}

/// An index that was made two major versions before does not come along, not even from the version between.
fn aged(middle: &Site, new: &Site) {
    let location = new.copy(&middle.setting("SVC_BACKUP_REPO"), "aged");
    new.tool(&["register", "--repository", "aged", "--location", &location, "--readonly"]).ok();
    for step in ["stage", "restore"] {
        new.tool(&[step, "aged", "--repository", "aged", "--indices", "content"]).refused("version_unsupported");
    }
}

/// The recipe "A newer version on the same data", and its way back.
fn in_place(old: &mut Site, newer: &str) {
    let dir = tempfile::tempdir().unwrap();
    let before = old.documents();
    // The move before has made it read-only.
    old.tool(&["register"]).refused("name_in_use");
    old.tool(&["register", "--replace"]).ok();
    old.recipe("in-place-before", &[], dir.path());
    old.host.systemd.stop(&old.search.unit).unwrap();

    let text = |path: &Path| path.display().to_string();
    let extra = texts(&[
        ("path.data", text(&old.search.data_dir)),
        ("path.repo", format!("[\"{}\"]", text(&old.setting("SVC_BACKUP_REPO").with_file_name("")))),
        ("cluster.name", format!("svc-{}", old.search.key)),
    ]);
    let mut up = Site::prepared(newer, &Settings { no_path_repo: true, extra, ..Settings::default() });
    up.env.insert("SVC_REPOSITORY".to_owned(), "since_the_upgrade".to_owned());
    up.recipe("in-place-after", &[], dir.path());
    assert_eq!(up.documents(), before);
    let from = text(&dir.path().join("snapshot.json"));
    // The document of before is right: the same cluster, the same repository.
    let staged = up.tool(&["stage", "--from", &from]).ok();
    up.tool(&["discard", "--run", staged.id()]).ok();
    up.tool(&["create", "again", "--repository", "my_backup"]).refused("repository_shared").error_has(&["read-only"]);
    up.host.systemd.stop(&up.search.unit).unwrap();

    assert!(old.host.systemd.start(&old.search.unit).is_err(), "{} starts on what {newer} has touched", old.search.key);
    old.recipe("in-place-back", &[("SEARCH_DATA", &old.search.data_dir)], dir.path());
    assert_eq!(old.documents(), before);
    assert_verified(&json_of(dir.path().join("restored.json")), true);
}

/// The recipe "The host is lost".
fn host_lost(lost: &Site) {
    let dir = tempfile::tempdir().unwrap();
    let before = lost.documents();
    let new = Site::new(&lost.search.key);
    os::run(Command::new("cp").arg("-r").args([lost.setting("SVC_BACKUP_REPO"), new.setting("SVC_BACKUP_REPO")])).unwrap();
    new.recipe("host-lost", &[], dir.path());
    assert_eq!(new.documents(), before);
    let restored = json_of(dir.path().join("restored.json"));
    assert_verified(&restored, false);
    assert_eq!(restored["warnings"][0]["code"], "not_checked", "{restored}");
}

/// Neither product restores what the other took, and neither is let write to the other's folder.
fn cross(opensearch: &Site, elasticsearch: &Site) {
    let location = opensearch.copy(&elasticsearch.setting("SVC_BACKUP_REPO"), "of-elasticsearch");
    for more in [&[][..], &["--readonly"]] {
        let args = [&["register", "--repository", "other", "--location", &location], more].concat();
        opensearch.tool(&args).refused("version_unsupported");
    }
    assert_eq!(opensearch.search.request("GET", "/_snapshot/other", None).unwrap().0, 404);

    let location = elasticsearch.copy(&opensearch.setting("SVC_BACKUP_REPO"), "of-opensearch");
    let register = ["register", "--repository", "other", "--location", &location];
    elasticsearch.tool(&register).refused("version_unsupported");
    elasticsearch.tool(&[&register[..], &["--readonly"]].concat()).ok().warns("version_unsupported");
    let listed = elasticsearch.tool(&["list", "--repository", "other"]).ok();
    for one in listed.result()["snapshots"].as_array().unwrap() {
        assert_eq!((&one["version"], &one["restorable"]), (&Value::Null, &json!(false)), "{listed}");
        for step in ["show", "stage", "restore"] {
            let args = [step, one["name"].as_str().unwrap(), "--repository", "other"];
            elasticsearch.tool(&args).refused("version_unsupported");
        }
    }
}

/// From line to line, as far as they are there: what a line skips, no server of its product takes. Gives the last but one, with its
/// snapshots. What costs a start of its own is tried with one pair.
fn chain(keys: [&str; 3]) -> Option<Site> {
    let keys: Vec<_> = keys.into_iter().skip_while(|key| !is_there(key)).take_while(|key| is_there(key)).collect();
    let (first, rest) = keys.split_first()?;
    let mut old = Site::prepared(first, &Settings::default());
    old.search.start(&old.host.systemd).unwrap();
    old.tool(&["register"]).ok();
    old.seed();
    for (at, key) in rest.iter().enumerate() {
        let new = Site::new(key);
        moves(&old, &new);
        back(&old, &new);
        if at == 0 {
            host_lost(&old);
        } else {
            aged(&old, &new);
        }
        if at + 1 == rest.len() {
            drop(new);
            in_place(&mut old, key);
            return Some(old);
        }
        // What the oldest made is too old for the next but one, and stays in a snapshot.
        new.tool(&["create", "aged"]).ok();
        for index in INDICES {
            new.search.ask("DELETE", &format!("/{index}"), None).unwrap();
        }
        new.seed();
        old = new;
    }
    old.tool(&["create"]).ok();
    Some(old)
}

#[test]
#[ignore = "minutes: starts all six servers"]
fn snapshots_move_between_major_versions() {
    let (opensearch, elasticsearch) = thread::scope(|scope| {
        let opensearch = scope.spawn(|| chain(["opensearch-1", "opensearch-2", "opensearch-3"]));
        let elasticsearch = chain(["elasticsearch-7", "elasticsearch-8", "elasticsearch-9"]);
        (opensearch.join().unwrap(), elasticsearch)
    });
    if let Some((opensearch, elasticsearch)) = opensearch.zip(elasticsearch) {
        cross(&opensearch, &elasticsearch);
    }
}
