//! `svc-rollback` (procedure, 9.3) with the sample service on real servers: everything is as before, and what was replaced is kept.

use svc_tests::journey::prelude::*;
use svc_tests::kills;

#[test]
fn failed_installer_is_rerun_by_option_or_rolled_back() {
    let (product, before) = installed("rbhalf");
    let upgrade = product.tool("svc-upgrade").arg(product.failing_installer()).run().fails(1, "command_failed");
    // What a failed command changed is not known.
    assert_ne!(upgrade.doc()["changed"], false);
    // By its name svc-rollback would take it once more although that was done already.
    let (point, hint) = (point_of(&upgrade), upgrade.hint());
    assert!(hint.contains("svc-rollback") && hint.contains(&id_of(&point)), "{upgrade}");
    assert!(!hint.contains(&format!("svc-rollback {}", point.display())) && !hint.contains("svc-rollback '/"), "{upgrade}");

    product.tool("svc-upgrade").arg("--resume").run().refused("command_failed");
    let again = || product.tool("svc-upgrade").args(["--resume", "--rerun-installer"]);
    // As one that leaves no unit at all.
    fs::remove_file(product.host.systemd.unit_dir.join(product.unit())).unwrap();
    product.host.systemd.control(&["daemon-reload"]).unwrap();
    // Its restore point stays where it is, wherever later ones go.
    let odd = again().env("SVC_BACKUP_DIR", product.path("other")).args(["--installer-arg", "odd"]).run();
    assert_eq!(point_of(&odd.fails(1, "command_failed")), point);
    // What was said then holds from then on: the installer is not run without it.
    again().run().fails(2, "options_invalid");
    let run = names_in(&upgrade.run_dir());
    let installers = run.iter().filter(|name| name[3..].starts_with("installer.") && name.ends_with(".json")).count();
    assert_eq!(installers, 2, "{run:?}");
    // A restore point of what it has left would be none to go back to.
    product.upgrade().run().refused("run_unfinished");

    let unit = product.host.systemd.unit_dir.join(product.unit());
    let dry_run = || {
        product.host.systemd.control(&["daemon-reload"]).unwrap();
        let ran = product.tool("svc-rollback").arg("--dry-run").talks().run();
        fs::remove_file(&unit).unwrap();
        product.host.systemd.control(&["daemon-reload"]).unwrap();
        ran
    };
    symlink("/dev/null", &unit).unwrap();
    assert_eq!(dry_run().refused("unit_failed").failed_checks(), ["ready"]);
    // The installer replaces it.
    fs::write(&unit, "[Service]\n").unwrap();
    dry_run().ok().unchanged();
    // Without the unit nothing is asked of what its start is to wait for.
    product.tool("svc-rollback").env("SVC_READY_TCP", "nobody:0").arg("--dry-run").talks().run().ok().unchanged();
    // Hooks that are run alone finish nothing of it.
    product.tool("svc-upgrade").arg("--hooks-only").run().ok();
    let status = || product.tool("svc-upgrade").arg("--status").run();
    status().exits(0, &[&format!("svc-upgrade --resume {} --rerun-installer", upgrade.id())]);
    // Behind the swaps neither the installer nor its checks are asked for again, wherever that is typed.
    let folder = product.path("installers");
    let rollback = |dir: &Path| product.tool("svc-rollback").env_remove("SVC_INSTALLER_DIR").dir(dir);
    let (run, _) = signal_at(&product, rollback(&folder), (Signal::SIGKILL, true), "swap-database.json");
    let back = format!("svc-pgrestore swap --run {} --back\n", id_of(&run));
    let says = || rollback(&folder).arg("--status").run().stdout.contains(&back).then_some(());
    wait::so("the tools of the killed run to end", says);
    once_free(|| rollback(Path::new("/")).arg("--resume")).ok();
    assert_back(&product, &before);
    status().exits(0, &["next: It was rolled back by the run "]);
}

#[test]
fn secrets_are_in_no_output_of_upgrade_and_rollback() {
    let (product, _) = installed("rbsecret");
    let conf = product.install_dir().join("conf/rbsecret.conf");
    fs::write(&conf, fs::read_to_string(&conf).unwrap() + "# the mail_password = S3CR-conf once\n").unwrap();
    // Each installer repeats what it is handed; that of 2.0.1 fails the first time.
    let fails = product.path("fails");
    fs::write(&fails, "").unwrap();
    let [old, new] = ["1.15.5", "2.0.1"].map(|version| {
        let real = product.installer(version);
        let does = format!(
            "echo \"licence ${{1#*=}}, $2\"; set -x; : \"$@\"\n[ {version} = 2.0.1 ] && rm '{}' 2>/dev/null && exit 1\nexec '{}'",
            fails.display(),
            real.display()
        );
        product.script(&format!("repeating/{}", id_of(&real)), &does)
    });
    product.hook("10-ok", "[ -n \"$SVC_LICENCE\" ]");
    let file = |name: &str, text: &str| {
        os::file(&product.path(name), text, 0o600, None).unwrap();
        product.path(name)
    };
    let uninstall = product.install_dir().join("bin/svc-uninstall");
    let uninstall = format!("true --password S3CR-uninstall https://u:S3CR/@cmd@h; '{}'", uninstall.display());
    let environment = file("environment", "MAIL_PASS=S3CR-file\nMAIL=S3CR-mail\n");
    let secret = file("secret", "S3CR-in-a-file\n");
    // Both roles of the database have the same password, and the repository a setting that is one.
    let (sql, admin) = (|sql: &str| product.host.postgres.sql("postgres", sql).unwrap(), "rbsecret_admin");
    sql("ALTER ROLE rbsecret PASSWORD 'S3CR-in-a-file'; DROP ROLE IF EXISTS rbsecret_admin");
    sql("CREATE ROLE rbsecret_admin SUPERUSER LOGIN PASSWORD 'S3CR-in-a-file'");
    product.host.postgres.pgpass(&product.path("pgpass"), "rbsecret", "S3CR-in-a-file").unwrap();
    let settings = json!({"location": product.repository_dir(), "compress": "true", "secret_key": "S3CR-in-a-file"});
    let repository = format!("/_snapshot/{}_backup", product.name);
    product.host.search.ask("PUT", &repository, Some(&json!({"type": "fs", "settings": settings}))).unwrap();
    let script = |name: &str| {
        let script = product.tool(name).arg("-v").args(["--installer-arg=--licence=S3CR-arg", "--installer-arg", "S3CR-bare"]);
        let script = script.talks().env("SVC_ENVIRONMENT_FILE", &environment).env("SVC_HOOKS_DIR", product.path("hooks"));
        let script = script.env("SVC_LICENCE", "S3CR-env").env("SVC_HOOK_TOKEN", "S3CR-hook");
        script.env("SVC_UNINSTALL", &uninstall)
    };
    let by_password = script("svc-upgrade").env("PGPASSWORD", "S3CR-in-a-file");
    let by_files = script("svc-upgrade").env("SVC_SEARCH_USER", "bob").env("SVC_SEARCH_PASSWORD_FILE", &secret);
    let by_files = by_files.env("SVC_DB_PASSWORD_FILE", &secret);
    let as_administrator = |tool: Tool| tool.env("SVC_PG_ADMIN_USER", admin).env("SVC_PG_ADMIN_PASSWORD_FILE", &secret);
    let by_key = as_administrator(script("svc-rollback").env("SVC_SEARCH_API_KEY_FILE", &secret));
    let by_token = as_administrator(script("svc-rollback").env("SVC_SEARCH_BEARER_FILE", &secret));
    let (trace, is_traced) = (product.path("trace"), kills::possible("command lines without secrets"));
    let run = |tool: Tool| if is_traced { traced(tool, &trace).run() } else { tool.run() };
    for ran in [
        run(by_password.args(["--uninstall", &uninstall]).arg(&new)).fails(1, "command_failed"),
        run(by_files.args(["--resume", "--rerun-installer"])).ok(),
        run(by_key.arg("--installer").arg(&old)).ok(),
        run(by_token.arg("--discard-previous")).ok().changed(),
    ] {
        ran.without(&["S3CR"]);
    }
    // The configuration and the dump are what a restore point is for.
    let content = |path: &Path| path.extension().is_some_and(|end| ["conf", "yaml", "sql"].iter().any(|one| end == *one));
    let mut files = 0;
    let all = [product.state_dir(), product.backup_dir()].into_iter().flat_map(|folder| os::files_below(&folder));
    for path in all.filter(|path| !content(path)) {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("S3CR")).collect();
        assert!(shown.is_empty(), "{}: {shown:#?}", path.display());
        files += 1;
    }
    assert!(files > 60, "{files} files");
    if !is_traced {
        return;
    }
    // What the operator's own commands are handed stands in their command lines, and in those of the scripts that hand it on.
    let names = [&old, &new].map(|installer| installer.file_name().unwrap().to_str().unwrap());
    let may = |program: &str| {
        let name = program.rsplit('/').next().unwrap();
        program == uninstall || names.contains(&name) || ["svc-upgrade", "svc-rollback", "svc-run"].contains(&name)
    };
    let seen = with_secret(&trace);
    let others: Vec<&Vec<String>> = seen.iter().filter(|words| !may(program_of(words))).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert!(seen.iter().any(|words| program_of(words) == uninstall), "{seen:#?}");
}

/// What a command line runs in the end, behind the programs that only start another.
fn program_of(words: &[String]) -> &str {
    let starts = |word: &str| {
        let name = word.rsplit('/').next().unwrap();
        ["env", "setsid", "bash", "sh", "SVC_LOCK_FD", "LC_ALL"].contains(&name)
            || word.starts_with('-')
            || word.starts_with("LC_ALL=")
    };
    words.iter().find(|word| !starts(word)).map_or("", String::as_str)
}

/// Runs a tool so that each command line that comes of it is added to a file, with its environment behind it.
fn traced(tool: Tool, file: &Path) -> Tool {
    let options = ["-f", "--seccomp-bpf", "-qq", "-A", "-v", "-s", "65536", "-e", "trace=execve", "-e", "signal=none", "-o"];
    tool.through("/usr/bin/strace", options.into_iter().chain([file.to_str().unwrap(), "--"]))
}

/// The command lines in such a file that have held a planted secret.
fn with_secret(file: &Path) -> BTreeSet<Vec<String>> {
    let text = fs::read_to_string(file).unwrap();
    let words = |line: &str| Some(line.split_once(", [")?.1.split("], [").next()?.to_owned());
    let lines = text.lines().filter_map(words).filter(|words| words.contains("S3CR"));
    lines.map(|words| words.split('"').skip(1).step_by(2).map(str::to_owned).collect()).collect()
}

#[test]
fn previous_data_is_swapped_back_by_printed_commands() {
    let (product, _, upgrade) = upgraded("rbkept");
    product.tool("svc-rollback").arg("--discard-previous").run().fails(4, "swap_not_found").unchanged();
    product.tool("svc-unit").arg("stop").run().ok();
    let newer = product.content().unwrap();
    let ran = product.tool("svc-rollback").run().ok().changed();
    let kept = &ran.result()["previous"];
    let named: Vec<&str> =
        ["indices", "databases"].iter().flat_map(|key| kept[key].as_array().unwrap()).map(|one| one.as_str().unwrap()).collect();
    assert_eq!(product.copies(), named.iter().map(|one| (*one).to_owned()).collect(), "{ran}");
    assert_eq!(ran.lines("discard_previous").len(), 2, "{ran}");

    // The content comes back first, and then the version that it belongs to.
    let typed_back = |ran: &Ran, newer: &Content| {
        let lines = ran.lines("swap_back");
        let (content, version) = lines.split_at(3);
        content.iter().for_each(|line| product.typed(line));
        assert_eq!(product.content().unwrap(), *newer);
        let mut started = String::new();
        for line in version {
            product.typed(line);
            // As an installer may do it, with the configuration that it ships.
            if line.ends_with("-2.0.1.run") {
                product.start();
                started = product.process();
            }
        }
        assert!(product.marker() == "2.0.1" && product.is_active() && product.process() != started);
    };
    typed_back(&ran, &newer);
    // The same if the restore point is not known as that of the upgrade.
    let copy = product.path("20260101t000000z-backup-manual");
    copy_folder(&point_of(&upgrade), &copy);
    let mut about = json_of(copy.join("restore-point.json"));
    about["id"] = json!(id_of(&copy));
    fs::write(copy.join("restore-point.json"), about.to_string()).unwrap();
    finalize(&copy);
    product.tool("svc-unit").arg("stop").run().ok();
    let newer = product.content().unwrap();
    product.tool("svc-rollback").arg("--discard-previous").run().ok().changed();
    // The setting names the file of the newer version: what was saved goes back to its own.
    let ran = product.tool("svc-rollback").arg(&copy).env("SVC_CONFIG_FILE", product.yaml()).run().ok().changed();
    let conf = product.install_dir().join("conf/rbkept.conf");
    assert_eq!(fs::read(conf).unwrap(), fs::read(copy.join("rbkept.conf")).unwrap());
    let lines = ran.lines("swap_back");
    assert_eq!(lines.iter().filter(|line| line.contains("svc-confsave restore")).count(), 1, "{ran}");
    typed_back(&ran, &newer);

    assert!(!product.copies().is_empty());
    let discard = || product.tool("svc-rollback").arg("--discard-previous");
    let planned = discard().arg("--dry-run").talks().run().ok().unchanged();
    assert_eq!(planned.lines("plan").len(), 2, "{planned}");
    // A setting that leads nowhere does not mean that there is nothing left.
    let lost = discard().env("SVC_SEARCH_USER", "x").env("SVC_SEARCH_PASSWORD_FILE", "/nowhere").run();
    lost.fails(2, "settings_invalid").unchanged();
    discard().run().ok().changed();
    assert_eq!(product.copies(), BTreeSet::new());
    discard().arg(ran.id()).run().ok().unchanged();
}

/// The run cannot be resumed, and says how its restore point is restored once more: with these options.
#[track_caller]
fn assert_begins_again(ran: &Ran, [before, after]: [&str; 2], point: &Path) {
    let point = format!("'{}'", point.display());
    let once_more = format!(
        "To restore it again:\n  svc-rollback {before}{point}{after}\nIf that is impossible, this undoes the swaps:\n  svc-unit stop\n"
    );
    assert!(ran.hint().starts_with(&once_more) && !ran.hint().contains("--resume"), "{ran}");
}

#[test]
fn rollback_is_not_resumed_on_data_swapped_back_or_used() {
    let (product, before, upgrade) = upgraded("rbused");
    let point = point_of(&upgrade);
    let rollback = |words: &[&str]| product.tool("svc-rollback").args(words.iter().copied());
    let fails = "case $* in clear*) exit 1 ;; esac";
    let cut = |words: &[&str]| rollback(words).stub(&product.path("stub"), "svc-version", fails).run().fails(1, "no_document");
    // Nothing is swapped yet, so there is nothing to swap back.
    let stays = rollback(&["--no-uninstall"]).stub(&product.path("stays"), "svc-unit", "case $* in stop*) exit 1 ;; esac");
    let stays = stays.run().fails(1, "no_document");
    assert!(stays.hint().contains("svc-rollback --resume") && !stays.hint().contains("swap"), "{stays}");
    // The lines of swap_back were typed in part: the old version must not be installed on the new data.
    // Neither by the host's other service; and what uninstalls it may be named later.
    let other = rollback(&["--resume"]).arg(stays.run_dir()).env("SVC_STATE_DIR", product.path("other")).run();
    assert!(other.status == 4 && other.text().contains("There is no run"), "{other}");
    let ran = cut(&["--resume", "--uninstall", "true"]);
    ran.lines("swap_back").iter().take(3).for_each(|line| product.typed(line));
    let shape = || product.host.postgres.sql(&product.database(), "SELECT shape FROM public.content_version").unwrap();
    let new = shape();
    assert_begins_again(&rollback(&["--resume"]).run().fails(3, "name_in_use"), ["--uninstall true ", ""], &point);
    let once_more = ["--no-uninstall ", ""];
    assert_eq!((product.marker(), shape()), ("2.0.1".to_owned(), new));
    // A boot has started the new version, which is still installed, on the restored data.
    let ran = cut(&["--no-uninstall", &id_of(&point)]);
    // A swap that a signal has ended is finished all the same, and its document is not ok.
    for swap in ["swap-search", "swap-database"] {
        let is_of = |file: &PathBuf| file.to_string_lossy().ends_with(&format!("-{swap}.json"));
        let document = os::files_below(&ran.run_dir()).into_iter().find(is_of).unwrap();
        let mut ended = json_of(&document);
        ended["ok"] = json!(false);
        fs::write(&document, ended.to_string()).unwrap();
    }
    product.host.systemd.control(&["start", &product.unit()]).unwrap();
    // Its start is a second of its own, or the swaps that are done again are not later than it.
    let started = std::time::Instant::now();
    wait::so("two seconds to pass", || (started.elapsed() > Duration::from_secs(2)).then_some(()));
    let used = rollback(&["--resume"]).run().fails(3, "service_state");
    assert_begins_again(&used, once_more, &point);
    assert_eq!(product.marker(), "2.0.1");
    rollback(&["--resume"]).run().fails(3, "service_state");
    // The same behind `clear`, which has no effect on what is installed.
    cut(&["--no-uninstall", "--installer-arg", "odd", &id_of(&point)]);
    let cleared = rollback(&["--resume"]).run().fails(2, "options_invalid");
    assert!(cleared.steps().contains(&"clear") && !product.install_dir().join("current-version").exists(), "{cleared}");
    product.host.systemd.control(&["start", &product.unit()]).unwrap();
    let used = rollback(&["--resume", "--installer-arg", "odd"]).run().fails(3, "service_state");
    assert_begins_again(&used, [once_more[0], " --installer-arg ARG"], &point);
    fs::write(product.install_dir().join("current-version"), "2.0.1\n").unwrap();
    // A socket or a supervisor starts it behind the swaps. It may have failed by the time somebody looks.
    let starts = format!("case $* in status*inactive*) systemctl --user start '{}' ;; esac", product.unit());
    let again = rollback(&["--no-uninstall", &id_of(&point)]);
    again.stub(&product.path("starts"), "svc-unit", &starts).run().fails(3, "service_state");
    assert_eq!(product.marker(), "2.0.1");
    let used = rollback(&["--resume"]).run().fails(3, "service_state");
    assert_begins_again(&used, once_more, &point);
    product.typed(used.hint().lines().nth(1).unwrap());
    assert_back(&product, &before);
}

#[test]
fn rollback_with_clones_needs_no_restore_point_and_ignores_them_once_staged() {
    let (product, before) = installed("rbclone");
    let upgrade = product.upgrade().arg("--clone").run().ok();
    assert_eq!(upgrade.lines("discard_previous").len(), 2, "{upgrade}");
    // Nothing lies between the last look at the unit and the installer, also with clones.
    let steps = upgrade.steps();
    let installer = steps.iter().position(|step| *step == "installer").unwrap();
    assert_eq!(steps[installer - 1], "still-stopped", "{steps:?}");
    // Cut behind the swaps, it needs what it has kept.
    let pid = product.path("pid").display().to_string();
    let hangs_once = "[ -e 'AT' ] && exit 1\necho $PPID $$ >'AT.partial'; mv 'AT.partial' 'AT'; exec sleep 600";
    let hook = product.hook("10-fails", &hangs_once.replace("AT", &pid));
    // What it installs adds nothing to the content before its configuration is back.
    let rollback = || product.tool("svc-rollback").env("SVC_HOOKS_DIR", product.path("hooks")).env("SVC_INTERVAL_MS", "0");
    let script = rollback().spawn();
    let pids = wait::so("the hook to be running", || fs::read_to_string(&pid).ok());
    // As if the host had stopped: the script, the hook, and what waits for it.
    script.signal_group(Signal::SIGKILL);
    script.wait().exits(137, &[]);
    for pid in pids.split_whitespace() {
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
    // A boot has started it on the configuration that the installer ships.
    product.start();
    let booted = product.process();
    let unseen = once_free(|| rollback().arg("--resume")).fails(3, "outcome_unknown").changed();
    assert_ne!(product.process(), booted);
    unseen.error_has(&["--rerun-installer"]);
    assert!(product.is_active() && product.marker() == "1.15.5", "a hook whose outcome is unknown keeps the service down");
    let failed = rollback().args(["--resume", "--rerun-installer"]).run().fails(1, "command_failed");
    assert!(failed.doc()["error"]["message"].as_str().unwrap().contains("hook-10-fails"), "{failed}");
    assert!(product.is_active() && product.marker() == "1.15.5", "a hook that fails keeps the service down");
    rollback().arg("--discard-previous").run().refused("run_unfinished");
    fs::remove_file(&hook).unwrap();
    // By the commands of swap_back the new version is back: there is nothing to resume.
    let marker = product.install_dir().join("current-version");
    fs::write(&marker, "2.0.1\n").unwrap();
    let newer = rollback().arg("--resume").run().fails(7, "content_differs").error_has(&["The step still-installed failed"]);
    assert_begins_again(&newer, ["", ""], &point_of(&upgrade));
    fs::write(&marker, "1.15.5\n").unwrap();
    // Whoever fixes it may stop the service meanwhile.
    product.tool("svc-unit").arg("stop").run().ok();
    // What it replaced is kept under the name of the upgrade, whose copies these were.
    let ran = rollback().arg("--resume").run().ok().has(&json!({"clones": true, "previous/run": upgrade.id()}));
    assert!(product.is_active(), "it has ended well, and the service is down");
    assert!(!ran.steps().iter().any(|step| step.starts_with("stage-")), "{ran}");
    assert_back(&product, &before);

    // The copies are live now, and were written to: once more, the restore point restores everything.
    product.host.postgres.sql(&product.database(), "DELETE FROM items").unwrap();
    let again = rollback().arg(point_of(&upgrade).join("")).run().ok().changed().has(&json!({"clones": false}));
    // Which upgrade that takes back is known, however the point is named.
    assert!(again.result()["swap_back"].to_string().contains("svc-version clear"), "{again}");
    assert_back(&product, &before);
    [&ran, &again].into_iter().flat_map(|ran| ran.lines("discard_previous")).for_each(|command| product.typed(command));
    assert_eq!(product.copies(), BTreeSet::new());
    assert_back(&product, &before);

    product.upgrade().arg("--clone").run().ok();
    // As if the cluster were busy for a moment.
    let away = "case $* in *'--unused'*) exit 5 ;; esac";
    let rollback = product.tool("svc-rollback").stub(&product.path("stub"), "svc-snap", away);
    signal_at(&product, rollback, (Signal::SIGKILL, true), "swap-search.started");
    let ran = once_free(|| product.tool("svc-rollback").arg("--resume")).ok();
    assert_eq!((&ran.result()["clones"], &ran.result()["previous"]["run"]), (&false.into(), &ran.id().into()), "{ran}");
    assert_back(&product, &before);
}

#[test]
fn discard_current_is_asked_before_staging() {
    let (product, before, upgrade) = upgraded("rbdiscard");
    // As a broken upgrade may leave one.
    product.host.search.ask("PUT", "/rbdiscard-lost?wait_for_active_shards=0", Some(&unallocatable())).unwrap();
    let running = product.process();
    // Changed after the upgrade, in a layout that the version before does not have.
    let text = fs::read_to_string(product.yaml()).unwrap();
    assert!(text.contains("display_name: \"Sample service\""), "{text}");
    fs::write(product.yaml(), text.replace("Sample service", "Our service")).unwrap();
    // Whoever tried another upgrade since, which ended before its installer, may have that one in mind.
    let attempt = product.tool("svc-upgrade").arg("/not/there.run").run().unchanged();
    let refused = product.tool("svc-rollback").run().refused("not_resumable");
    assert!(refused.hint().contains(attempt.id()), "{refused}");
    assert!(refused.hint().ends_with(&format!("svc-rollback {}", upgrade.id())), "{refused}");
    let rollback = || product.tool("svc-rollback").arg(upgrade.id());
    // Whether there is a unit is not known.
    let unknown = rollback().stub(&product.path("stub"), "svc-unit", "exit 5").run().fails(5, "no_document");
    assert!(!unknown.doc()["warnings"].to_string().contains("unit_not_found"), "{unknown}");
    // The question comes before the staging.
    let refused = rollback().run().refused("indices_red");
    assert!(refused.hint().contains("--discard-current"), "{refused}");
    assert!(!refused.steps().iter().any(|step| step.starts_with("stage-")), "{refused}");
    assert_eq!((product.process(), product.marker()), (running, "2.0.1".to_owned()));

    let (go, real) = (product.path("go"), product.installer("1.15.5"));
    let does = format!("[ -e '{}' ] && exec '{}'\nexit 1", go.display(), real.display());
    let installer = product.path("odd/rbdiscard-1.15.5.run");
    let again = || product.tool("svc-rollback").arg("--resume");
    // One that the system does not take, which nobody can see before.
    os::write_program(&installer, "\x7fELF\0").unwrap();
    let not_begun = rollback().arg("--discard-current").arg("--installer").arg(&installer).run();
    assert!(not_begun.hint().contains(" --installer FILE") && !not_begun.hint().contains("rerun"), "{not_begun}");
    not_begun.fails(1, "failed").changed();
    let installer = product.script("odd/rbdiscard-1.15.5.run", &does);
    again().arg("--installer").arg(installer).run().fails(1, "command_failed");
    again().run().refused("command_failed");
    fs::write(go, "").unwrap();
    let ran = again().arg("--rerun-installer").run().review("content_differs");
    assert_eq!(ran.lines("discard_previous").len(), 0);
    product.tool("svc-rollback").arg("--discard-previous").run().fails(4, "swap_not_found").unchanged();
    assert_eq!(product.copies(), BTreeSet::new());
    assert_back(&product, &before);
}

#[test]
fn yaml_comes_back_byte_for_byte_and_later_change_is_carried_by_printed_command() {
    let product = Product::new("rbyaml").unwrap();
    // From now on 1.15.5 is the release whose configuration is `config/NAME/NAME.yaml`.
    os::copy_program(&product.path("installers/yaml/svc-1.15.5.run"), &product.installer("1.15.5")).unwrap();
    product.run(&product.installer("1.15.5")).unwrap();
    let yaml = product.yaml();
    let text = || fs::read_to_string(&yaml).unwrap();
    let change = |from: &str, to: &str| {
        assert!(text().contains(from), "{}", text());
        fs::write(&yaml, text().replace(from, to)).unwrap();
    };
    // The service adds nothing then, which the shipped file would have it do.
    change("interval_ms: 25", "interval_ms: 0");
    let mine = text();
    // What parsers refuse: a tab, and a second document.
    let odd = mine.clone() + "log:\n\tlevel: debug\n---\nsecond: document\n";
    fs::write(&yaml, &odd).unwrap();
    product.seed(100).unwrap();
    product.tool("svc-setup-snapshots").run().ok();
    product.start();
    let before = product.content().unwrap();
    product.upgrade().run().ok();
    let ready = Gate::saying(http("200 OK", "text/plain", "ready"));
    let url = format!("{}/", ready.url());
    let rollback = || product.tool("svc-rollback").env("SVC_READY_URL", &url);
    // It could not be started otherwise.
    rollback().env("SVC_READY_CA", "/nonexistent").run().fails(2, "settings_invalid").unchanged();
    let ran = rollback().run().ok().changed();
    let (log, waits) = (fs::read_to_string(ran.run_dir().join("log")).unwrap(), format!(" --ready-url {url}"));
    assert!(log.lines().any(|line| line.contains(": svc-unit start --always --from ") && line.ends_with(&waits)), "{log}");
    assert_eq!(text(), odd);
    assert_content_back(&product, &before);

    fs::write(&yaml, &mine).unwrap();
    product.upgrade().run().ok();
    change("Sample service", "Our service");
    let ran = product.tool("svc-rollback").run().review("content_differs");
    assert_eq!(text(), mine, "the configuration of the restore point comes back");
    let commands = ran.lines("carry_configuration");
    assert_eq!(commands.len(), 1, "{ran}");
    product.typed(commands[0]);
    assert_eq!(text(), mine.replace("Sample service", "Our service"));
}
