//! `svc-snap`'s one-time configuration: configure, register, verify and health; and a repository that is damaged.

use svc_tests::prelude::*;

#[test]
fn vendor_server_is_configured_and_registered_once() {
    let host = Host::shared().unwrap();
    let server = host.search_server(&host.search.key, &Settings { no_path_repo: true, ..Settings::default() }).unwrap();
    let sandbox = Sandbox::on(server.server.clone(), "setup");
    let location = server.repo_root.join("backup_repo");
    let location = location.to_str().unwrap();
    let config = server.config_file.clone();
    let configure = |extra: &[&str]| {
        let tool = sandbox.tool(&["configure", "--location", location]).env("SVC_SEARCH_CONFIG", &config);
        tool.env("SVC_SEARCH_OS_USER", OS_USER).args(extra).run()
    };
    let vendors = fs::read_to_string(&config).unwrap();
    let before = format!("{vendors}# a comment at the end, without a line end");
    fs::write(&config, &before).unwrap();

    let node = json!({"nodes/0/name": "svc-1", "nodes/0/version": server.version, "nodes/0/path_repo": []});
    sandbox.run(&["health"]).ok().unchanged().warns("repository_unusable").warns("repository_not_found").has(&node);
    let refused = sandbox.run(&["register", "--location", location]).refused("repository_unusable");
    refused.error_has(&[&format!("svc-snap configure --location {location}")]);

    let dry = configure(&["--dry-run"]).ok().unchanged();
    assert_eq!(dry.result()["plan"].as_array().unwrap().len(), 4);
    assert_eq!((fs::read_to_string(&config).unwrap(), Path::new(location).exists()), (before.clone(), false));

    let done = configure(&[]).ok().changed();
    assert_eq!((&done.result()["path_repo"], done.result()["previous"].is_string()), (&json!([location]), true));
    let kept = fs::read_to_string(done.result()["previous"].as_str().unwrap()).unwrap();
    assert_eq!(kept, before);
    assert_eq!(fs::read_to_string(&config).unwrap(), format!("{before}\npath.repo: [\"{location}\"]\n"));
    assert_eq!(fs::metadata(location).unwrap().uid(), os::system_user(OS_USER).unwrap().uid.as_raw());
    configure(&[]).ok().unchanged();

    host.systemd.stop(&server.unit).unwrap();
    sandbox.run(&["health", "--wait", "--timeout", "1s"]).fails(6, "timeout").unchanged();
    let waiting = sandbox.tool(&["health", "--wait"]).spawn();
    host.systemd.start(&server.unit).unwrap();
    waiting.wait().ok().has(&json!({"path_repo": [location], "version": server.version}));

    let settings = json!({"location": location, "compress": "true"});
    sandbox.run(&["register", "--location", location]).ok().changed().has(&json!({"settings": settings}));
    sandbox.run(&["register", "--location", location]).ok().unchanged().has(&json!({"plan": []}));
    let expected = json!({"name": sandbox.prefix, "registered": true, "type": "fs", "location": location, "verified": true,
        "readonly": false, "readable": true});
    sandbox.run(&["health"]).ok().has(&json!({"repository": expected}));
    sandbox.simple("docs", 3);
    sandbox.run(&["create", "first"]).ok().changed();

    sandbox.run(&["register", "--location", location, "--readonly"]).ok().changed();
    sandbox.run(&["create", "second"]).refused("repository_shared").error_has(&["read-only"]);
    sandbox.run(&["show", "first"]).ok();
    sandbox.run(&["register", "--location", &format!("{location}/other")]).refused("name_in_use");
    // What it has is not dropped without an error.
    let rate = ["--setting", "max_snapshot_bytes_per_sec=9mb"];
    sandbox.tool(&["register", "--location", location, "--readonly"]).args(rate).run().ok().changed();
    let before = sandbox.repository();
    let refused = sandbox.run(&["register", "--location", location]).refused("name_in_use");
    refused.error_has(&["readonly", "max_snapshot_bytes_per_sec"]);
    assert_eq!(sandbox.repository(), before);
    sandbox.run(&["register", "--location", location, "--replace"]).ok().changed();
    assert_eq!(sandbox.repository(), settings);

    what_is_missing_has_a_reason(&sandbox);
    disks_have_watermarks(&sandbox);
}

/// Yellow on a single node is as it should be; red is not, and says why.
fn what_is_missing_has_a_reason(sandbox: &Sandbox) {
    let with_replica = sandbox.index("copied", json!({"settings": {"number_of_replicas": 1}}));
    let health = sandbox.run(&["health"]).ok();
    assert_eq!((&health.result()["status"], &health.doc()["warnings"]), (&json!("yellow"), &json!([])));

    let lost = sandbox.red("lost");
    let red = sandbox.run(&["health"]).fails(7, "indices_red").unchanged().has(&json!({"red_indices": [lost]}));
    red.error_has(&[&format!("{lost} shard 0: INDEX_CREATED")]);
    sandbox.tool(&["health"]).env("SVC_INDICES", &with_replica).run().ok().warns("indices_red");
    sandbox.delete(&lost);
    sandbox.delete(&with_replica);
}

/// (`capacity.rs` has the levels.)
fn disks_have_watermarks(sandbox: &Sandbox) {
    sandbox.watermarks("1000tb", "1000tb");
    sandbox.set_cluster("cluster.routing.allocation.disk.threshold_enabled", json!(true));
    let disk = json!({"disks/0/level": "past_flood_stage", "disks/0/node": "svc-1"});
    sandbox.run(&["health"]).ok().warns("out_of_space").has(&disk);
}

#[test]
fn unusable_repository_folder_is_refused_by_configure() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "folder");
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let config = dir.path().join("opensearch.yml");
    fs::write(&config, "# ours\npath.repo: [\"/elsewhere\"]\n").unwrap();
    let configure = |location: &Path| {
        sandbox.tool(&["configure", "--os-user", OS_USER]).arg("--config").arg(&config).arg("--location").arg(location).run()
    };
    let repo = dir.path().join("backup_repo");
    configure(&PathBuf::from(format!("/tmp/{}", sandbox.prefix))).refused("repository_unusable");
    os::chmod(dir.path(), 0o700);
    configure(&repo).refused("repository_unusable").error_has(&[dir.path().to_str().unwrap()]);
    os::chmod(dir.path(), 0o755);
    configure(&config.join("backup_repo")).refused("repository_unusable");
    fs::write(&config, "# ours\nhttp.port: 1\n").unwrap();
    // A folder with other things in it is not given away.
    let backups = dir.path().join("backups");
    fs::create_dir(&backups).unwrap();
    fs::write(backups.join("dump.sql"), "x").unwrap();
    configure(&backups).refused("repository_unusable");
    assert_eq!(fs::metadata(backups.join("dump.sql")).unwrap().uid(), 0);
    let location = dir.path().join("deep/backup_repo");
    configure(&location).ok().changed();
    let expected = format!("# ours\nhttp.port: 1\npath.repo: [\"{}\"]\n", location.display());
    assert_eq!(fs::read_to_string(&config).unwrap(), expected);
    // What another user's server had left in it is given to this one's.
    fs::write(location.join("index-0"), "x").unwrap();
    configure(&location).ok().changed();
    assert_eq!(fs::metadata(location.join("index-0")).unwrap().uid(), os::system_user(OS_USER).unwrap().uid.as_raw());
    configure(&location).ok().unchanged();
    let elsewhere = ["configure", "--location", "/var/x/y"];
    let nobody = sandbox.tool(&elsewhere).args(["--os-user", "nobody-of-that-name", "--config"]).arg(&config).run();
    nobody.fails(2, "settings_invalid");
    let nowhere = ["--config", "/nowhere/opensearch.yml", "--os-user", OS_USER];
    sandbox.tool(&elsewhere).args(nowhere).run().fails(4, "file_not_found");
}

#[test]
fn path_repo_is_added_without_changing_file_rights() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "files");
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    os::chmod(dir.path(), 0o755);
    let (etc, location) = (dir.path().join("etc"), dir.path().join("repo/backup_repo"));
    let config = etc.join("search.yml");
    fs::create_dir(&etc).unwrap();
    let configure = || {
        let call = sandbox.tool(&["configure", "--os-user", OS_USER]).env("SVC_RUN_ID", "20261120t020003z-one");
        call.arg("--config").arg(&config).arg("--location").arg(&location).run()
    };
    let line = format!("path.repo: [\"{}\"]", location.display());
    // What cannot be extended stays, and the hint has the line that names one folder more. (`path_repo.rs` has the forms of the setting.)
    let text = "cluster.name: \"docker-cluster\"\npath.repo: ${SNAPSHOTS}";
    fs::write(&config, text).unwrap();
    let refused = configure().refused("settings_invalid");
    assert!(refused.hint().ends_with(&format!("\n  {}", line.replace('[', "[\"${SNAPSHOTS}\", "))), "{refused}");
    assert_eq!(fs::read_to_string(&config).unwrap(), text);
    std::os::unix::fs::chown(&config, Some(1), Some(2)).unwrap();
    rights::plant(&config).unwrap();
    rights::plant_in_folder(&etc).unwrap();
    let its_rights = rights::of(&config);
    // Other characters than ASCII's, and a vendor's own file as it is.
    let vendors = format!("config/{}.yml", sandbox.search.product);
    for before in ["# Größe: ≥ 3\n".to_owned(), fs::read_to_string(sandbox.search.home.join(vendors)).unwrap()] {
        fs::write(&config, &before).unwrap();
        let done = configure().ok().changed();
        let kept = Path::new(done.result()["previous"].as_str().unwrap());
        for (file, text) in [(config.as_path(), &format!("{before}{line}\n")), (kept, &before)] {
            assert_eq!((&fs::read_to_string(file).unwrap(), rights::of(file)), (text, its_rights.clone()));
        }
        configure().ok().unchanged();
    }
    // Each file before is kept, although it is the same run, and nothing else.
    assert_eq!(fs::read_dir(&etc).unwrap().count(), 3);

    fs::write(&config, b"cluster.name: caf\xe9\n").unwrap();
    configure().fails(7, "file_invalid").unchanged();
}

#[test]
fn refused_health_is_waited_out_or_leaves_repository_unknown() {
    let sandbox = Sandbox::new("refused");
    let unknown_user = (401, "security_exception", "missing credentials");
    let refused =
        sandbox.tool(&["health"]).via(&sandbox.gate().refusing("GET /", 1, unknown_user)).run().refused("access_denied");
    assert_eq!(refused.doc()["error"]["causes"], json!(["HTTP 401 security_exception", "missing credentials"]), "{refused}");
    // A cluster that starts does not know its users yet.
    sandbox.tool(&["health", "--wait"]).via(&sandbox.gate().refusing("GET /", 3, unknown_user)).run().ok();
    for (status, kind) in [(403, "security_exception"), (503, "concurrent_snapshot_execution_exception")] {
        let verify = format!("POST /_snapshot/{}/_verify", sandbox.prefix);
        let gate = sandbox.gate().refusing(&verify, 1, (status, kind, "no"));
        let unknown = json!({"repository/verified": null, "repository/readable": null});
        sandbox.tool(&["health"]).via(&gate).run().ok().warns("not_checked").has(&unknown);
    }
}

#[test]
fn health_wait_repeats_only_cluster_health_request() {
    let sandbox = Sandbox::new("waits");
    let lost = sandbox.red("lost");
    let gate = sandbox.gate();
    let is_health = |line: &String| line.starts_with("GET /_cluster/health?");
    let waiting = sandbox.tool(&["health", "--wait"]).via(&gate).spawn();
    let polls = || gate.asked().iter().filter(|line| is_health(line)).count();
    wait::so("some polls", || (polls() > 5).then_some(()));
    sandbox.delete(&lost);
    waiting.wait().ok();

    let mut times = BTreeMap::<String, usize>::new();
    for line in gate.asked().into_iter().filter(|line| !is_health(line) && line != "GET /") {
        *times.entry(line).or_default() += 1;
    }
    assert!(times.values().all(|times| *times <= 2), "{times:#?}");
    assert_eq!(times.iter().filter(|(line, _)| line.contains("_verify")).map(|(_, times)| times).sum::<usize>(), 1, "{times:#?}");
}

#[test]
fn register_builds_request_for_every_type() {
    let sandbox = Sandbox::on(Host::shared().unwrap().search, "types");
    let path = format!("/_snapshot/{}", sandbox.prefix);
    for (kind, settings) in [
        ("s3", json!({"bucket": "backups", "base_path": "search/prod", "client": "default", "server_side_encryption": "true"})),
        ("gcs", json!({"bucket": "backups", "client": "my=client"})),
        ("url", json!({"url": "https://example.net/repo/"})),
    ] {
        let given = settings.as_object().unwrap().iter();
        let given = given.flat_map(|(name, value)| ["--setting".to_owned(), format!("{name}={}", value.as_str().unwrap())]);
        let register = || sandbox.tool(&["register", "--type", kind, "--readonly"]).args(given.clone());
        let dry = register().arg("--dry-run").env("SVC_BACKUP_REPO", "/not/of/this/type").run().ok().unchanged();
        let mut wanted = settings.clone();
        wanted["readonly"] = json!("true");
        let request = json!({"kind": "request", "method": "PUT", "path": path, "body": {"type": kind, "settings": wanted}});
        assert_eq!(dry.result()["plan"], json!([request]));
        // The small distributions have no plugins; one has the module that reads from an address.
        if kind != "url" {
            register().run().refused("repository_unusable").error_has(&[&format!("[{kind}]")]);
        }
    }
    sandbox.run(&["register", "--type", "tape"]).refused("repository_unusable");
    sandbox.run(&["register"]).fails(2, "options_invalid").unchanged();

    // A secret is neither sent nor shown.
    let location = sandbox.location().display().to_string();
    for setting in ["secret_key=s3cret", "url=https://me:s3cret@host/"] {
        let ran = sandbox.run(&["register", "--location", &location, "--setting", setting]);
        ran.fails(2, "options_invalid").unchanged().without(&["s3cret"]);
    }
    sandbox.run(&["register", "--location", "relative"]).fails(2, "options_invalid").unchanged();
    // One that the cluster has already stays out of sight.
    let body = json!({"type": "fs", "settings": {"location": location, "sas_token": "s3cret"}});
    sandbox.ask("PUT", &format!("/_snapshot/{}", sandbox.prefix), Some(body));
    sandbox.run(&["health"]).ok().without(&["s3cret"]);
    sandbox.run(&["register", "--location", &location]).refused("name_in_use").without(&["s3cret"]);
    let replaced = sandbox.run(&["register", "--location", &location, "--replace"]).ok().changed().without(&["s3cret"]);
    assert_eq!(replaced.result()["before"]["settings"]["sas_token"], "<redacted>");
    sandbox.run(&["register", "--location", &location, "--type", "s3", "--setting", "bucket=b"]).refused("name_in_use");
}

#[test]
fn repository_without_files_is_reported_damaged() {
    let sandbox = Sandbox::new("damaged");
    sandbox.simple("docs", 1);
    sandbox.create("s");
    assert_eq!(sandbox.run(&["verify"]).ok().result()["snapshots_count"], 1);
    // One whose own file is lost is removed, unless the document is of another one.
    let lose = || {
        let taken = sandbox.create("lost");
        let uuid = taken.result()["snapshot"]["uuid"].as_str().unwrap();
        fs::remove_file(sandbox.location().join(format!("snap-{uuid}.dat"))).unwrap();
        taken
    };
    let first = lose();
    sandbox.run(&["delete", "lost"]).ok().changed().warns("not_checked").has(&json!({"snapshot": null}));
    sandbox.run(&["show", "lost"]).fails(4, "snapshot_not_found").unchanged();
    let second = lose();
    sandbox.from(&["delete"], &first).refused("name_in_use");
    sandbox.from(&["delete"], &second).ok().changed();
    sandbox.from(&["delete"], &second).ok().unchanged();
    fs::remove_dir_all(sandbox.location()).unwrap();
    for step in [&["list"][..], &["show", "s"], &["wait", "s"], &["verify"], &["stage", "s"], &["prune"]] {
        sandbox.run(step).fails(7, "repository_damaged").unchanged().error_has(&[&sandbox.prefix]);
    }
    sandbox.run(&["health"]).ok().warns("repository_damaged").has(&json!({"repository/readable": false}));
    // A name that was never there is something else.
    sandbox.run(&["show", "nothing"]).fails(4, "snapshot_not_found").unchanged();
}

#[test]
fn register_of_directory_of_other_repository_is_refused_unless_readonly() {
    let sandbox = Sandbox::new("twice");
    sandbox.simple("docs", 3);
    sandbox.create("first");
    let (third, location) = (sandbox.name("third"), format!("{}/", sandbox.location().display()));
    let register = ["register", "--repository", &third, "--location", &location];
    for more in [None, Some("--replace"), Some("--dry-run")] {
        let refused = sandbox.tool(&register).args(more).run().refused("repository_shared").unchanged();
        refused.error_has(&[&sandbox.prefix, "--readonly"]);
    }
    sandbox.tool(&register).arg("--readonly").run().ok().changed();
    // Where somebody did so all the same, the server lets nobody use it any more until it is registered again.
    let path = format!("/_snapshot/{third}");
    sandbox.ask("PUT", &path, Some(json!({"type": "fs", "settings": {"location": sandbox.location()}})));
    sandbox.run(&["create", "second", "--repository", &third]).ok();
    let disabled = |args: &[&str]| sandbox.run(args).fails(7, "repository_shared").error_has(&["register", "--replace"]);
    disabled(&["create", "later"]);
    disabled(&["list"]);
    disabled(&["show", "first"]);
    disabled(&["delete", "first"]);
    sandbox.ask("DELETE", &path, None);
    sandbox.run(&["register", "--location", sandbox.location().to_str().unwrap(), "--replace"]).ok().changed();
    sandbox.run(&["create", "later"]).ok();
    assert_eq!(sandbox.snapshots().len(), 3);
}
