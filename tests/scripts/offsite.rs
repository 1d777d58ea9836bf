//! Backups that outlive the host and are of one moment: `svc-backup --quiesce`, `svc-nightly` with all of it on, and `svc-offsite`.

use std::io::Write;
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use svc_tests::children::grouped;
use svc_tests::journey::prelude::*;

fn quiesced_backup(product: &Product) -> Tool {
    product.tool("svc-backup").arg("--quiesce")
}

fn quiesced_night(product: &Product) -> Tool {
    product.tool("svc-nightly").env("SVC_NIGHTLY_QUIESCE", "yes")
}

#[test]
fn service_runs_again_after_quiesced_night() {
    let product = running("offquiet");
    let (process, stub) = (product.process(), product.path("stub"));
    let no_space = quiesced_night(&product).stub(&stub, "svc-point", "case $* in space*) exit 1 ;; esac");
    // It could not be started again.
    let no_start = quiesced_night(&product).stub(&product.path("stub 4"), "svc-unit", "case $* in *--dry-run*) exit 1 ;; esac");
    for night in [no_space, no_start] {
        let ran = night.run();
        assert!(ran.status == 9 && product.process() == process && ran.stderr.contains("svc-nightly: warning: "), "{ran}");
        let warm = document_of(&product, "-backup-nightly");
        assert_eq!((&warm["ok"], &warm["warnings"][0]["code"]), (&json!(true), &json!("not_quiesced")), "{warm}");
    }

    // As cron starts it, with all that a night may do: nothing in the environment, all settings in the file.
    let metrics = product.path("svc.prom");
    let more = [("SVC_METRICS_FILE", metrics.to_str().unwrap()), ("SVC_NIGHTLY_QUIESCE", "yes"), ("SVC_DUMP_COMPRESS", "zstd")];
    settings_file(&product, &more);
    let script = |name: &str| Tool::new(name).env("SVC_ENVIRONMENT_FILE", product.path("environment"));
    assert_eq!(script("svc-offsite").args(["restic", "init"]).talks().run().status, 0);
    let ran = script("svc-nightly").run();
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""), "{ran}");
    let backup = document_of(&product, "-backup-nightly");
    let downtime = &backup["result"]["downtime_ms"];
    assert!(downtime.as_u64().is_some_and(|downtime| downtime > 0), "{downtime}");
    assert_eq!(&document_of(&product, "z-nightly")["result"]["downtime_ms"], downtime);
    assert!(product.is_active());
    let list = script("svc-backup").args(["--list", "--read-all"]).run().ok();
    let points = list.result()["points"].as_array().unwrap();
    assert!(points.len() == 3 && points[2]["state"] == "valid" && points[2]["quiesced"] == true, "{list}");
    assert_eq!(product.snapshots().len(), 3, "the warm snapshot is to go");
    let dump = fs::read(Path::new(points[2]["path"].as_str().unwrap()).join("offquiet_db.backup.sql")).unwrap();
    assert!(dump.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "it is not compressed");
    assert_eq!(copies(&script("svc-offsite").arg("list").run()), [points[2]["id"].as_str().unwrap()]);
    let written = fs::read_to_string(&metrics).unwrap();
    assert!(written.contains("svc_offsite_copy_timestamp_seconds{") && written.contains("quiesced=\"true\""), "{written}");
    let of_each = ["The newest valid restore point, ", "The restore point of the last off-site copy, "];
    script("svc-nightly").args(["--max-age", "26h"]).talks().run().exits(0, &of_each);
    assert_eq!(script("svc-nightly").args(["--max-age", "1ms"]).talks().run().status, 7);
    // Every check and the warm snapshot come before the stop, the rest of the verification after the start; in between nothing may take
    // for ever.
    let steps: Vec<&str> =
        backup["result"]["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    let stop = steps.iter().position(|step| *step == "stop").unwrap();
    assert!(steps[..stop].ends_with(&["warm-snapshot", "unit-before"]) && steps[..stop].contains(&"space"), "{steps:?}");
    let rest = ["configuration", "dump", "snapshot", "verify-snapshot", "unit-after", "start", "finalize", "drop-warm-snapshot"];
    assert_eq!(steps[stop + 1..], rest);
    let log = fs::read_to_string(PathBuf::from(backup["result"]["run_dir"].as_str().unwrap()).join("log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.ends_with(" --timeout 2h")).count(), 2, "{log}");

    product.tool("svc-nightly").env("SVC_NIGHTLY_QUIESCE", "true").run().exits(2, &["SVC_NIGHTLY_QUIESCE is `true`"]);

    // As good as an upgrade's: a rollback takes it, compressed as it is, without being asked twice.
    product.tool("svc-rollback").arg(points[2]["id"].as_str().unwrap()).run().ok().changed();
    let quiesced = |ran: &Ran| json_of(point_of(ran).join("restore-point.json"))["quiesced"].clone();
    // Whoever starts it meanwhile is told of.
    let starts = format!("case $* in *--dry-run*) ;; *) systemctl --user start '{}' ;; esac", product.unit());
    let ran = quiesced_backup(&product).stub(&product.path("stub 2"), "svc-pgdump", &starts).run().review("not_quiesced");
    assert!(quiesced(&ran) == false && product.is_active(), "{ran}");
    // What was stopped stays so, even if somebody stops it after the checks.
    let stops = format!("case $* in create*_warm*) systemctl --user stop '{}' ;; esac", product.unit());
    let ran = quiesced_backup(&product).stub(&product.path("stub 3"), "svc-snap", &stops).run().ok();
    assert!(!product.is_active() && ran.result()["downtime_ms"].is_null(), "{ran}");
    product.tool("svc-unit").arg("stop").run().ok();
    let ran = quiesced_backup(&product).run().ok();
    assert!(!product.is_active() && ran.result()["downtime_ms"].is_null() && quiesced(&ran) == true, "{ran}");
}

#[test]
fn service_is_started_again_if_quiesced_backup_fails() {
    let product = running("offundo");
    let restarts = |what: &str, fails: &dyn Fn(Tool) -> Ran| {
        let before = product.process();
        let ran = fails(quiesced_backup(&product));
        assert!(product.is_active() && product.process() != before, "{what}: {ran}");
        ran
    };
    let stubbed = |backup: Tool, tool: &str, does: &str| {
        let stub = product.path("stub");
        let _ = fs::remove_dir_all(&stub);
        backup.stub(&stub, tool, does).run()
    };
    for (tool, does) in [
        ("svc-pgdump", "case $* in *--dry-run*) ;; *) exit 1 ;; esac"),
        ("svc-snap", "case $* in create*_manual*) exit 1 ;; esac"),
        ("svc-point", "case $* in finalize*) exit 1 ;; esac"),
    ] {
        let ran = restarts(tool, &|backup| stubbed(backup, tool, does).fails(1, "no_document"));
        assert!(ran.result()["downtime_ms"].as_u64().is_some_and(|downtime| downtime > 0), "{tool}: {ran}");
    }
    restarts("a signal", &|backup| signal_at(&product, backup, (Signal::SIGTERM, false), "dump.started").1);
    // Even if a tool that is told to end does not.
    let stuck = "case $* in *--dry-run*) ;; *) trap '' TERM; kill -TERM $PPID; exec sleep 600 ;; esac";
    assert_eq!(restarts("a stuck tool", &|backup| stubbed(backup, "svc-pgdump", stuck)).status, 143);
    // One that does not start at once is started by what undoes the stop: then the point is complete.
    let once = format!(
        "case $* in *--dry-run*) ;; start*) [ -e '{0}' ] || {{ touch '{0}'; exit 1; }} ;; esac",
        product.path("tried").display()
    );
    let ran = restarts("a start that fails", &|backup| stubbed(backup, "svc-unit", &once).fails(1, "no_document"));
    let point = point_of(&ran);
    assert!(point.join("SHA256SUMS").exists(), "{ran}");
    product.tool("svc-backup").arg("--kind=manual").run().ok();
    product.tool("svc-backup").args(["--delete", &id_of(&point)]).run().ok();
    assert!(!point.exists());
    // A disk that is full only then.
    let disk = SmallDisk::at(&product.backup_dir(), 40).unwrap();
    let fills = format!("case $1 in stop) cat /dev/zero > '{}/full' 2>&- ;; esac", product.backup_dir().display());
    restarts("a full disk", &|backup| stubbed(backup, "svc-unit", &fills).fails(1, "out_of_space"));
    drop(disk);
    // Killed at once with all that it has begun: the next call of any script starts it.
    restarts("a kill", &|backup| {
        let (_, ran) = signal_at(&product, backup, (Signal::SIGKILL, true), "stop.json");
        assert!(!product.is_active());
        once_free(|| product.tool("svc-run").arg("recover")).ok();
        ran
    });
    assert_eq!((count_in(&product.backup_dir()), product.snapshots().len()), (1, 1));

    // One that cannot be stopped runs on, and what is found before the stop stops nothing.
    let before = product.process();
    stubbed(quiesced_backup(&product), "svc-unit", "case $1 in stop) exit 1 ;; esac").fails(1, "no_document");
    quiesced_backup(&product).env(DOWN.0, DOWN.1).run().fails(5, "search_unreachable").unchanged();
    assert_eq!(product.process(), before);
}

/// Writes the settings file, with the place of the copies; the environment of whoever has all settings there.
fn settings_file(product: &Product, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let [file, password, far] = ["environment", "restic password", "far away/restic"].map(|name| product.path(name));
    os::file(&password, "correct horse\n", 0o600, None).unwrap();
    let offsite = [("SVC_OFFSITE", far.to_str().unwrap()), ("SVC_OFFSITE_PASSWORD_FILE", password.to_str().unwrap())];
    fs::write(&file, product.settings_file(&[&offsite, more].concat())).unwrap();
    // A login has the user manager's, and what an installer of the product needs, which gets nothing of our settings.
    let own = ["SVC_NAME", "SVC_INSTALL_DIR", "SVC_UNIT_SCOPE", "SVC_INTERVAL_MS", "SVC_SEARCH_URL"];
    let own = product.env().into_iter().filter(|(name, _)| own.contains(&name.as_str()) || name.starts_with("PG"));
    let login = product.host.systemd.env().into_iter().chain(own);
    login.chain([("SVC_ENVIRONMENT_FILE".to_owned(), file.display().to_string())]).collect()
}

/// Types the block of the page that has this in it, with the ID of the restore point in place of the page's.
#[track_caller]
fn typed(env: &[(String, String)], has: &str, dir: &Path, id: &str) -> String {
    let block = page::transcripts("docs/backups.md").unwrap().into_iter().find(|block| block.contains(has)).unwrap();
    let root = env.iter().find(|(key, _)| key == "FETCHED").map_or("/var/backups", |(_, root)| root);
    page::bash(&block.replace("20261121t021703z-backup-nightly", id).replace("/var/backups", root), env, dir)
        .unwrap_or_else(|error| panic!("{has}: {error:#}"))
}

/// The restore points whose copies a list shows.
fn copies(list: &Ran) -> Vec<String> {
    assert_eq!(list.status, 0, "{list}");
    list.texts("copies", "point_id")
}

/// How many snapshots restic has, verified or not.
fn restic_snapshots(offsite: &Tool) -> usize {
    let listed = offsite.clone().args(["restic", "snapshots", "--json"]).talks().run().stdout;
    serde_json::from_str::<Value>(&listed).unwrap().as_array().unwrap().len()
}

#[test]
fn deleted_point_and_lost_host_are_restored_from_copy() {
    let (mut product, before) = still("offlost");
    let env = settings_file(&product, &[("SVC_OFFSITE_KEEP", "--keep-daily 2")]);
    let dir = product.path("documents");
    fs::create_dir(&dir).unwrap();
    let point = point_of(&product.tool("svc-backup").run().ok());
    typed(&env, "svc-offsite push", &dir, "");
    let id = id_of(&point);
    let record = json_of(product.state_dir().join("offsite.json"));
    assert_eq!(record["point_id"], id.as_str());
    let time = |key: &str| record[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time("made_at") <= time("copied_at") && time("copied_at") <= jiff::Timestamp::now(), "{record}");

    product.upgrade().run().ok();
    product.tool("svc-backup").args(["--delete", &id]).run().ok();
    assert!(!point.exists());
    // Where the repository is that is in use, it is not put.
    Tool::new("svc-offsite").args(["fetch", &id]).envs(env.clone()).run().refused("name_in_use").unchanged();
    let may_write = product.host.search.repo_root.display().to_string();
    let beside = [env, vec![("FETCHED".to_owned(), may_write)]].concat();
    typed(&beside, "register --readonly --replace", &dir, &id);
    assert_back(&product, &before);
    product.tool("svc-backup").run().ok();

    // Another host: other servers, and nothing of the first but the package, the restic repository and its password.
    product.run(&product.install_dir().join("bin/svc-uninstall")).unwrap();
    let here = product.host.clone();
    let search = here.search_server(&here.search.key, &search::Settings::default()).unwrap();
    let postgres = here.postgres_server().unwrap();
    for lost in [product.backup_dir(), product.state_dir(), product.install_dir(), product.repository_dir(), dir.clone()] {
        fs::remove_dir_all(lost).unwrap();
    }
    product.host.search = (*search).clone();
    product.host.postgres = (*postgres).clone();
    product.host.postgres.create_role("offlost", "pass:word").unwrap();
    product.host.postgres.pgpass(&product.path("pgpass"), "offlost", "pass:word").unwrap();
    fs::create_dir(&dir).unwrap();
    let env = settings_file(&product, &[]);
    product.tool("svc-rollback").arg("--no-uninstall").run().fails(4, "point_not_found").unchanged();
    let said = typed(&env, "svc-offsite fetch", &dir, &id);
    assert!(said.lines().any(|line| line.contains(&id) && line.contains("svc-point.copies/1")), "{said}");
    assert_eq!(os::mode(product.repository_dir()), 0o750);
    assert_back(&product, &before);
    product.host = here;
}

#[test]
fn failed_push_leaves_restore_point_unchanged() {
    let product = running("offpush");
    let env = settings_file(&product, &[]);
    let script = |name: &str| Tool::new(name).envs(env.iter().cloned());
    let (push, stub) = (|| script("svc-offsite").arg("push"), product.path("stub"));
    push().run().fails(4, "point_not_found").unchanged();
    // There is no restic repository yet.
    let night = script("svc-nightly").run();
    assert!(night.status == 5 && night.stdout.is_empty() && night.stderr.contains("was not copied off-site"), "{night}");
    assert!(night.stderr.contains("\n  svc-offsite restic init\n") && !night.stderr.contains("\\n"), "{night}");
    let list = || product.tool("svc-backup").args(["--list", "--read-all"]).run().ok();
    let points = list().result()["points"].clone();
    assert!(points.as_array().unwrap().len() == 1 && points[0]["state"] == "valid", "{points}");
    assert!(!product.state_dir().join("offsite.json").exists());

    assert!(script("svc-offsite").args(["restic", "init"]).talks().run().status == 0);
    push().arg("--dry-run").talks().run().ok().unchanged();
    let password = product.path("restic password");
    os::chmod(&password, 0o644);
    push().run().refused("settings_invalid");
    os::chmod(&password, 0o600);
    push().env("SVC_OFFSITE_TIMEOUT", "soon").run().fails(2, "settings_invalid").unchanged();
    push().run().ok().changed();
    let first = fs::read_to_string(product.state_dir().join("offsite.json")).unwrap();
    // What is written to the repository meanwhile makes the copy invalid, and none is left.
    let writes = format!("case $* in backup*) : > '{}/index-999' ;; esac", product.repository_dir().display());
    let count = || copies(&script("svc-offsite").arg("list").run()).len();
    let copies = count();
    push().stub(&stub, "restic", &writes).run().fails(5, "server_busy");
    fs::remove_file(product.repository_dir().join("index-999")).unwrap();
    assert_eq!((count(), fs::read_to_string(product.state_dir().join("offsite.json")).unwrap()), (copies, first));
    // One that restic could not read whole is none either.
    let unread = "case $* in backup*) \"$0.real\" \"$@\"; exit 3 ;; esac";
    symlink("/usr/bin/restic", stub.join("restic.real")).unwrap();
    push().stub(&stub, "restic", unread).run().fails(5, "offsite_failed");
    assert_eq!((count(), restic_snapshots(&script("svc-offsite"))), (copies, copies));
    assert_eq!(list().result()["points"], points);
    script("svc-offsite").arg("check").run().ok();

    // Another folder than the repository's, and a link to that one: what it leads to is copied.
    let none = product.path("empty");
    fs::create_dir(&none).unwrap();
    for push in [push(), push().arg("--dry-run")] {
        let ran = push.env("SVC_BACKUP_REPO", &none).run().fails(4, "snapshot_not_found").unchanged();
        ran.error_has(&["is not in the directory"]);
    }
    let link = product.path("link");
    symlink(product.repository_dir(), &link).unwrap();
    push().env("SVC_BACKUP_REPO", &link).run().ok();
    let held = script("svc-offsite").args(["restic", "ls", "latest"]).talks().run().stdout;
    assert!(held.contains("/index.latest\n"), "{held}");
    // What cannot be pruned keeps no copy from being made.
    let copies = count();
    let fails = push().env("SVC_OFFSITE_KEEP", "--keep-last 99").stub(&stub, "restic", "case $* in forget*) exit 1 ;; esac");
    fails.run().review("not_removed").changed();
    assert_eq!(count(), copies + 1);
    // A repository in an object store has to outlive the host by itself.
    let s3 = "case $1 in health) PATH=${PATH#*:} svc-snap \"$@\" | sed 's/\"type\":\"fs\"/\"type\":\"s3\"/'; exit ;; esac";
    push().stub(&product.path("stub s3"), "svc-snap", s3).run().ok().warns("not_restored");
    let held = script("svc-offsite").args(["restic", "ls", "latest"]).talks().run().stdout;
    assert!(held.contains("/SHA256SUMS\n") && !held.contains("/index.latest\n"), "{held}");
    Tool::new("svc-offsite").arg("push").envs(product.env()).run().exits(2, &["SVC_OFFSITE"]);
    let id = points[0]["id"].as_str().unwrap();
    fs::rename(points[0]["path"].as_str().unwrap(), product.path("point")).unwrap();
    // The newest copy is one without a repository, so it is nothing to it that the directory of that is in use.
    script("svc-offsite").args(["fetch", id]).run().ok().warns("not_restored");
}

/// svc-offsite with these arguments and settings, for an empty restic repository.
fn with_repository(product: &Product, more: &[(&str, &str)]) -> impl Fn(&[&str]) -> Tool + use<> {
    let env = settings_file(product, more);
    product.script("bin/ssh", "exec /usr/lib/openssh/sftp-server");
    let _ = symlink("/usr/bin/restic", product.path("bin/restic.real"));
    let path = search_path([product.path("bin")]);
    let offsite =
        move |args: &[&str]| Tool::new("svc-offsite").args(args.iter().copied()).envs(env.iter().cloned()).env("PATH", &path);
    assert_eq!(offsite(&["restic", "init"]).talks().run().status, 0);
    offsite
}

fn point(product: &Product, kind: &str) -> PathBuf {
    point_of(&product.tool("svc-backup").args(["--kind", kind]).run().ok())
}

/// What a stub of restic does in order to hang if it is called so, leaving a file.
fn hangs(product: &Product, call: &str) -> (PathBuf, String) {
    let there = product.path("it hangs");
    let does = format!("case $* in {call}) touch '{}'; exec sleep 600 ;; esac", there.display());
    (there, does)
}

#[test]
fn unverified_copy_is_neither_listed_nor_fetched() {
    let (product, _) = installed("offcopy");
    let offsite = with_repository(&product, &[]);
    let point = point(&product, "nightly");
    what_is_not_verified(&product, &offsite, &point);
    what_is_fetched(&product, &offsite, &point);

    // A restic repository that is damaged is told of as that, and one that is not there as that.
    let pack = fs::read_dir(product.path("far away/restic/data")).unwrap().flatten();
    let pack = pack.flat_map(|dir| fs::read_dir(dir.path()).unwrap()).flatten().next().unwrap().path();
    os::chmod(&pack, 0o600);
    fs::File::options().append(true).open(&pack).unwrap().write_all(b"x").unwrap();
    offsite(&["check"]).run().fails(7, "repository_damaged");
    fs::rename(product.path("far away"), product.path("away")).unwrap();
    offsite(&["check"]).run().fails(5, "offsite_failed");
    // The hint to make one is not for a host that has copies.
    offsite(&["push"]).run().fails(5, "offsite_failed").without(&["restic init"]);
}

fn what_is_not_verified(product: &Product, offsite: &impl Fn(&[&str]) -> Tool, point: &Path) {
    let (id, stub) = (id_of(point), product.path("stub"));
    let there_are = || (copies(&offsite(&["list"]).run()), restic_snapshots(&offsite(&[])));
    let has_record = || product.state_dir().join("offsite.json").exists();
    // Copied, and ended before it is verified.
    let (there, does) = hangs(product, "tag*");
    let push = offsite(&["push"]).stub(&stub, "restic", &does).spawn();
    wait::so("the copy to be verified", || there.exists().then_some(()));
    push.ended_by(Signal::SIGTERM).fails(143, "interrupted");
    fs::remove_file(there).unwrap();
    assert_eq!((there_are(), has_record()), ((vec![], 1), false));
    fs::rename(point, product.path(&id)).unwrap();
    offsite(&["fetch", &id]).run().fails(4, "point_not_found").unchanged();
    fs::rename(product.path(&id), point).unwrap();
    // restic cannot write the new tags, and says nothing but a warning.
    offsite(&["push"]).stub(&stub, "restic", "case $* in tag*) exit ;; esac").run().fails(5, "offsite_failed");
    assert!(!has_record());
    // Another host prunes, and has ended a moment later.
    let seen = product.path("locked");
    let lock = format!(
        "case $* in tag*) [ -e '{0}' ] || {{ touch '{0}'; echo 'repository is already locked by PID 7 on vault' >&2; exit 1; }} ;; esac",
        seen.display()
    );
    offsite(&["push"]).stub(&stub, "restic", &lock).run().ok().changed();
    assert!(seen.exists());
    assert_eq!(there_are(), (vec![id], 1));
    // A server that only takes new files (as `rclone serve restic --append-only` does it): what had the first tag stays there too.
    let keeps = format!(
        "case $* in tag*) cp -aT '{0}/snapshots' '{0}/kept'; restic.real \"$@\"; cp -an '{0}/kept/.' '{0}/snapshots'; exit ;; \
         forget*) echo 'Fatal: blob not removed, server response: 403 Forbidden (403)' >&2; exit 1 ;; esac",
        product.path("far away/restic").display()
    );
    for _ in 0..2 {
        let ran = offsite(&["push"]).stub(&stub, "restic", &keeps).run().ok().changed();
        // The rollback of a test beside this one may be in its swap.
        let of_copies = |warning: &Value| warning["code"] != "swap_unfinished";
        assert!(!ran.doc()["warnings"].as_array().unwrap().iter().any(of_copies), "{ran}");
    }
    let (listed, all) = there_are();
    assert_eq!((listed.len(), all), (3, 5));
    // Of a directory that has another name, no fetch would find the copy.
    let renamed = product.path("renamed \"point");
    fs::rename(point, &renamed).unwrap();
    offsite(&["push"]).arg(&renamed).run().fails(7, "point_invalid").unchanged();
    fs::rename(&renamed, point).unwrap();
}

fn what_is_fetched(product: &Product, offsite: &impl Fn(&[&str]) -> Tool, point: &Path) {
    let (id, stub, empty) = (id_of(point), product.path("stub"), product.path("new"));
    fs::rename(point, product.path("point")).unwrap();
    let fetch = || offsite(&["fetch", &id]).env("SVC_BACKUP_REPO", &empty);
    // Killed while the repository is restored, and while the restore point is.
    for target in [&empty, &product.backup_dir()] {
        let (there, does) = hangs(product, &format!("restore*'{}/.fetch'", target.display()));
        let killed = fetch().stub(&stub, "restic", &does).spawn();
        wait::so("restic to be restoring", || there.exists().then_some(()));
        killed.signal_group(Signal::SIGKILL);
        killed.wait();
        fs::remove_file(there).unwrap();
        assert!(!point.exists());
    }
    // One that finds something in the way has changed what it has moved before.
    let held = empty.join(format!(".fetch-{id}"));
    fs::write(held.join("index.latest"), "x").unwrap();
    let others: Vec<PathBuf> = (0..9).map(|number| held.join(format!("other {number}"))).collect();
    others.iter().for_each(|other| fs::write(other, "").unwrap());
    let stopped = once_free(fetch);
    let is_moved = others.iter().any(|other| !other.exists());
    assert!(stopped.doc()["error"]["code"] == "name_in_use" && stopped.doc()["changed"] == is_moved, "{stopped}");
    assert!(stopped.hint().contains("Move it away"), "{stopped}");
    fs::remove_file(held.join("index.latest")).unwrap();
    once_free(fetch).ok().changed();
    let fetched = names_in(&empty);
    assert!(fetched.contains(&"index.latest".to_owned()) && !fetched.iter().any(|name| name.starts_with('.')), "{fetched:?}");
    assert_eq!(names_in(&product.backup_dir()), [id.as_str()]);
    // A full disk is not kept full, and what is there is not written over.
    fetch().run().refused("name_in_use").error_has(&["exists already"]);
    fs::remove_dir_all(point).unwrap();
    fetch().run().refused("name_in_use").error_has(&["is not empty"]);
    fs::remove_dir_all(&empty).unwrap();
    fetch().stub(&stub, "restic", "case $* in restore*) echo no space >&2; exit 1 ;; esac").run().fails(5, "offsite_failed");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    // A copy that is damaged.
    let does = "case $* in restore*backups/.fetch*) restic.real \"$@\"; find \"$SVC_BACKUP_DIR\" -name version.json -delete; exit 0 ;; esac";
    let damaged = fetch().stub(&stub, "restic", does).run().fails(7, "point_invalid");
    assert!(!damaged.hint().contains("is complete"), "{damaged}");
    fs::remove_dir_all(point).unwrap();
    fs::rename(product.path("point"), point).unwrap();
}

#[test]
fn push_prunes_only_copies_of_its_own_host() {
    let (product, _) = installed("offfar");
    let keep = ("SVC_OFFSITE_KEEP", "--keep-last 1");
    let older = point(&product, "nightly");
    let id = id_of(&older);
    // By SFTP, as the server of ssh has it.
    let far = Path::new("/var/tmp").join(format!("svc offtwo {}", std::process::id()));
    let sftp = format!("sftp:backup@vault:{}/restic", far.display());
    let offsite = with_repository(&product, &[keep, ("SVC_OFFSITE", &sftp)]);
    let tag = format!("offfar,{id},kind-nightly");
    let other = ["restic", "backup", "--quiet", "--host", "other", "--tag", &tag, older.to_str().unwrap()];
    assert_eq!(offsite(&other).talks().run().status, 0);
    for _ in 0..2 {
        offsite(&["push"]).run().ok();
    }
    let listed = offsite(&["list"]).run();
    assert_eq!(copies(&listed), [id.as_str(), &id], "each keeps its last one\n{listed}");
    assert_eq!(copies(&offsite(&["list", "--host", "other"]).run()).len(), 1);
    fs::rename(&older, product.path("point")).unwrap();
    offsite(&["fetch", &id]).run().refused("name_in_use").error_has(&["both have a copy"]);
    // That of the other one is a restore point alone: no directory for a repository is needed.
    offsite(&["fetch", &id, "--host", "other"]).env("SVC_BACKUP_REPO", "/nowhere").run().ok().warns("not_restored");
    assert!(older.join("SHA256SUMS").exists());
    fs::remove_dir_all(far).unwrap();

    let (far, port) = (tempfile::tempdir().unwrap(), os::free_ports(1).unwrap()[0]);
    let address = format!("127.0.0.1:{port}");
    let slowly = ["serve", "restic", "--bwlimit", "200k", "--addr", &address];
    let mut server = grouped("rclone").args(slowly).arg(far.path()).spawn().unwrap();
    wait::so("rclone to serve", || TcpStream::connect(&address).ok());
    let offsite = with_repository(&product, &[keep, ("SVC_OFFSITE", &format!("rest:http://{address}/"))]);
    // Copies have the second of their restore point.
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let then = second();
    wait::so("the next second", || (second() > then).then_some(()));
    let [manual, newer] = ["manual", "nightly"].map(|kind| point(&product, kind));
    // On a terminal it shows how far it is.
    let file = product.path("environment").display().to_string();
    let push = format!("svc-offsite push {}", id_of(&manual));
    let mut terminal = Terminal::open(&product, &push, &[("SVC_ENVIRONMENT_FILE", &file)]);
    // A copy as small as this one would have ended before.
    let has_file = |folder: fs::DirEntry| fs::read_dir(folder.path()).is_ok_and(|mut files| files.next().is_some());
    let begun = || fs::read_dir(far.path().join("data")).ok()?.flatten().any(has_file).then_some(());
    wait::promptly("the copy", wait::HANG, begun).unwrap();
    let server_id = Pid::from_raw(server.id().try_into().unwrap());
    kill(server_id, Signal::SIGSTOP).unwrap();
    terminal.wait_for("restic: ");
    kill(server_id, Signal::SIGCONT).unwrap();
    terminal.wait();
    // A clock that was ahead once has dated one in the future.
    let ahead = json!({"point_id": "x", "made_at": "2099-01-01T00:00:00Z", "copied_at": "2026-01-01T00:00:00Z"});
    fs::write(product.state_dir().join("offsite.json"), ahead.to_string()).unwrap();
    offsite(&["push"]).arg(&newer).run().ok().changed();
    offsite(&["push"]).arg(&older).run().ok().changed().warns_of("not_removed", &id);
    // Only those of nights go.
    assert_eq!(copies(&offsite(&["list"]).run()), [id_of(&manual), id_of(&newer)]);
    assert_eq!(json_of(product.state_dir().join("offsite.json"))["point_id"], id_of(&newer));
    server.kill().unwrap();
    server.wait().unwrap();
}
