//! `--resume`: the upgrade and the rollback are killed with all that they started, at every step, and gone on with.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use svc_tests::journey::{assert_back, installed, newest_run, point_of};
use svc_tests::product::{Content, Product};
use svc_tests::tool::{Ran, Tool};
use svc_tests::wait;

const A_WHILE: Duration = Duration::from_secs(120);

/// Where a script is killed: as soon as this file of its journal is there, `dump.started` or `dump.json`.
type Point = &'static str;

/// Kills a script with its whole process group at a point of its journal, or lets it end where it never comes there.
fn kill_at(product: &Product, tool: Tool, point: Point) -> PathBuf {
    let known = runs(product);
    let mut script = tool.spawn();
    wait::until(point, A_WHILE, || {
        let new = runs(product).into_iter().find(|run| !known.contains(run));
        (new.is_some_and(|run| journal(&run).iter().any(|name| name.get(3..) == Some(point))) || !script.is_running())
            .then_some(())
    })
    .unwrap();
    if script.is_running() {
        script.signal_group(Signal::SIGKILL);
    }
    let ran = script.wait();
    assert_eq!(ran.status, 137, "it had ended before {point}\n{ran}");
    runs(product).into_iter().find(|run| !known.contains(run)).unwrap()
}

fn runs(product: &Product) -> Vec<PathBuf> {
    let mut runs: Vec<PathBuf> =
        fs::read_dir(product.state_dir().join("runs")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    runs.sort();
    runs
}

fn journal(run: &Path) -> Vec<String> {
    fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn has(run: &Path, what: &str) -> bool {
    journal(run).iter().any(|name| name.get(3..) == Some(what))
}

/// Goes on with the last run; while its installer is still at work, that is refused with 8, and is the only thing to say.
fn resume(product: &Product, script: &str) -> Ran {
    wait::until("the run to be free to go on with", A_WHILE, || {
        let ran = product.tool(script).arg("--resume").run();
        if ran.status == 8 {
            assert!(["foreign_at_work", "locked"].contains(&ran.doc()["error"]["code"].as_str().unwrap()), "{ran}");
            return None;
        }
        Some(ran)
    })
    .unwrap()
}

/// No step has had its effect twice, and the installer ran once.
fn assert_nothing_twice(run: &Path) {
    let mut effects: BTreeMap<String, u32> = BTreeMap::new();
    for name in journal(run) {
        let Some(files) = name.strip_suffix(".started") else { continue };
        let kind = fs::read_to_string(run.join(&name)).unwrap();
        let document: Value = fs::read_to_string(run.join(format!("{files}.json")))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let step = files[3..].split('.').next().unwrap().to_owned();
        let began = run.join(format!("{files}.out")).exists();
        if (kind.trim() == "foreign" && began) || (kind.trim() == "step" && document["changed"] == true) {
            *effects.entry(step).or_default() += 1;
        }
    }
    assert!(effects.values().all(|&times| times == 1), "{}: {effects:?}", run.display());
}

fn status(product: &Product, script: &str, wanted: &str) {
    let ran = product.tool(script).arg("--status").run();
    assert!(ran.status == 0 && ran.stdout.contains(wanted), "`{wanted}` is not in\n{}{}", ran.stdout, ran.stderr);
}

/// Upgrades, killed at a point, and brings the upgrade to its end as an operator would.
fn upgrade_killed_at(product: &Product, point: Point) {
    let upgrade = || product.tool("svc-upgrade").arg(product.installer("2.0.1"));
    let run = kill_at(product, upgrade(), point);
    if has(&run, "installer.started") {
        let ran = resume(product, "svc-upgrade").ok();
        assert_eq!(ran.doc()["run_id"], run.file_name().unwrap().to_string_lossy().as_ref());
        assert!(ran.result()["downtime_ms"].is_u64(), "{ran}");
    } else {
        status(product, "svc-upgrade", "Type the same again: svc-upgrade");
        let ran =
            wait::until("the tools of the killed run to end", A_WHILE, || Some(upgrade().run()).filter(|ran| ran.status != 8));
        let point = point_of(&ran.unwrap().ok());
        let points: Vec<PathBuf> = fs::read_dir(product.backup_dir()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(points.iter().all(|one| *one == point || one.join("SHA256SUMS").exists()), "a half restore point is left");
    }
    assert_nothing_twice(&newest_run(product));
    assert_eq!(product.marker(), "2.0.1");
    assert!(product.is_active());
    status(product, "svc-upgrade", "It has ended well.");
}

/// Rolls back, killed at a point, and goes on with it.
fn rollback_killed_at(product: &Product, before: &Content, point: Point) {
    let run = kill_at(product, product.tool("svc-rollback"), point);
    wait::until("its uninstaller or installer to end", A_WHILE, || {
        let ran = product.tool("svc-rollback").arg("--status").run();
        ran.stdout.contains("svc-rollback --resume").then_some(())
    })
    .unwrap();
    if has(&run, "stop.started") {
        let refused = wait::until("the tools of the killed run to end", A_WHILE, || {
            Some(product.tool("svc-rollback").run()).filter(|ran| ran.status != 8)
        });
        refused.unwrap().refused("rollback_unfinished");
        product.tool("svc-rollback").run().refused("rollback_unfinished");
    }
    resume(product, "svc-rollback").ok();
    assert_nothing_twice(&run);
    assert_back(product, before);
}

/// One way there and one way back, each killed once.
fn there_and_back(name: &str, points: &[(Point, Point)]) {
    let (product, before) = installed(name);
    product.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
    for (there, back) in points {
        upgrade_killed_at(&product, there);
        rollback_killed_at(&product, &before, back);
    }
}

#[test]
fn killed_during_the_dump_and_during_the_staging_nothing_is_lost() {
    there_and_back("redump", &[("dump.started", "stage-database.started")]);
}

#[test]
fn killed_at_the_installer_and_between_the_swaps_nothing_is_lost() {
    there_and_back("reinst", &[("installer.started", "swap-search.json")]);
}

#[test]
fn killed_while_it_starts_and_after_the_uninstaller_nothing_is_lost() {
    there_and_back("restart", &[("start.started", "uninstall.json")]);
}

#[test]
fn an_upgrade_and_a_rollback_killed_at_any_step_lose_nothing() {
    if !svc_tests::deep() {
        return svc_tests::skip("a kill at every step of the upgrade and of the rollback: it takes many minutes, --deep");
    }
    // Every step that a run of each has, from its start and from its end on.
    let (product, before) = installed("reall");
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().ok();
    let back = product.tool("svc-rollback").run().ok();
    let points = |ran: &Ran| -> Vec<Point> {
        let run = PathBuf::from(ran.result()["run_dir"].as_str().unwrap());
        let mut names = journal(&run);
        names.sort();
        // After the last document of a script nothing is left to kill.
        let last = names.iter().rfind(|name| name.ends_with(".started")).unwrap().replace(".started", ".json");
        let wanted = names
            .iter()
            .filter(|name| name.ends_with(".started") || (name.ends_with(".json") && name[..1].parse::<u8>().is_ok()));
        wanted.filter(|name| **name != last).map(|name| &*Box::leak(name[3..].to_owned().into_boxed_str())).collect()
    };
    let (there, back) = (points(&upgrade), points(&back));
    assert_back(&product, &before);
    // The last first, since they alter the most.
    for number in (0..there.len().max(back.len())).rev() {
        let (there, back) = (there[number % there.len()], back[number % back.len()]);
        eprintln!("killed at {there} and at {back}");
        upgrade_killed_at(&product, there);
        rollback_killed_at(&product, &before, back);
    }
}

/// An installer that waits, with its process id in `pid`, as long as there is no file `go`, and is that of 2.0.1 then.
fn waiting_installer(product: &Product) -> PathBuf {
    let path = product.path("odd").join(format!("{}-2.0.1.run", product.name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let does = format!(
        "#!/bin/sh\n[ -e '{go}' ] && exec '{real}'\necho $PPID $$ >'{pid}.partial'; mv '{pid}.partial' '{pid}'\nexec sleep 600\n",
        go = product.path("go").display(),
        real = product.installer("2.0.1").display(),
        pid = product.path("pid").display()
    );
    fs::write(&path, does).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn an_installer_whose_end_nobody_saw_is_not_run_again_by_itself() {
    let (product, _) = installed("reunknown");
    let installer = waiting_installer(&product);
    let script = product.tool("svc-upgrade").arg(&installer).spawn();
    let pids = wait::until("the installer to be at work", A_WHILE, || fs::read_to_string(product.path("pid")).ok()).unwrap();

    status(&product, "svc-upgrade", "It is at work.");
    product.tool("svc-upgrade").arg(&installer).run().fails(8, "locked").unchanged();
    product.tool("svc-upgrade").arg("--resume").run().fails(8, "locked");
    script.signal_group(Signal::SIGKILL);
    assert_eq!(script.wait().status, 137);
    status(&product, "svc-upgrade", "a command that it has started is still at work");
    product.tool("svc-upgrade").arg("--resume").run().fails(8, "foreign_at_work");

    // As where the host stops: the installer, and what waits for it.
    for pid in pids.split_whitespace() {
        kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).unwrap();
    }
    let unknown = resume(&product, "svc-upgrade").refused("end_unknown");
    let hint = unknown.doc()["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("svc-rollback") && hint.contains("--rerun-installer"), "{unknown}");
    fs::write(product.path("go"), "").unwrap();
    product.tool("svc-upgrade").args(["--resume", "--rerun-installer"]).run().ok();
    assert_eq!(product.marker(), "2.0.1");
    product.tool("svc-upgrade").arg("--resume").run().refused("run_finished");
}

#[test]
fn an_installer_that_fails_is_rolled_back_by_itself_where_that_was_asked_for() {
    let (product, before) = installed("reauto");
    let ran = product.tool("svc-upgrade").arg("--auto-rollback").arg(product.failing_installer()).run();
    let ran = ran.fails(1, "command_failed").changed();
    assert!(ran.doc()["error"]["hint"].as_str().unwrap().starts_with("It was rolled back: 1.15.5 runs again."), "{ran}");
    assert_back(&product, &before);
    product.tool("svc-upgrade").arg("--resume").run().refused("rolled_back");
}

#[test]
fn an_installer_that_has_failed_is_run_again_only_when_that_is_said() {
    let (product, _) = installed("refailed");
    product.tool("svc-upgrade").arg(product.failing_installer()).run().fails(1, "command_failed");
    product.tool("svc-upgrade").arg("--resume").run().refused("installer_failed");
    status(&product, "svc-upgrade", "svc-rollback");
    product.tool("svc-upgrade").args(["--resume", "--rerun-installer"]).run().fails(1, "command_failed");
    let run = newest_run(&product);
    assert!(has(&run, "installer.started") && has(&run, "installer.2.json"), "{:?}", journal(&run));
    // A restore point of what it has left would be none to go back to.
    product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().refused("run_unfinished");
}
