//! The recipes of `docs/recipes.md` that one host is enough for, run as they stand there. (The others: `snap/recipes.rs`.)

use svc_tests::journey::prelude::*;

/// Runs a recipe in the product's own folder `documents`; what it printed.
fn recipe(product: &Product, name: &str, more: &[(&str, String)]) -> String {
    let dir = product.path("documents");
    fs::create_dir_all(&dir).unwrap();
    let env = [product.env(), svc_tests::host::texts(more)].concat();
    let commands = page::recipe("docs/recipes.md", name).unwrap();
    page::bash(&commands, &env, &dir).unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

#[test]
fn recipes_page_commands_upgrade_roll_back_and_inspect() {
    let (product, before) = still("rchand");
    let text = |path: PathBuf| path.display().to_string();
    recipe(&product, "upgrade-by-hand", &[("INSTALLER", text(product.installer("2.0.1")))]);
    assert!(product.marker() == "2.0.1" && product.is_active());
    recipe(&product, "back-by-hand", &[("PREVIOUS_INSTALLER", text(product.installer("1.15.5")))]);
    assert_back(&product, &before);
    assert!(!product.copies().is_empty(), "nothing is kept");
    recipe(&product, "back-by-hand-end", &[]);
    assert_eq!(product.copies(), BTreeSet::new());

    product.tool("svc-unit").arg("stop").run().ok();
    let point = point_of(&product.tool("svc-backup").run().ok());
    let said = recipe(&product, "newest-point", &[]);
    assert!(said.contains("items\t"), "{said}");
    let looked = recipe(&product, "inspect", &[("POINT", text(point.clone()))]);
    assert!(looked.contains("\tsvc-staged-") && looked.contains("rchand_db_staged_"), "{looked}");
    let piped = recipe(&product, "pipes", &[]);
    assert!(piped.contains("_staged_") && piped.contains("\"removed\""), "{piped}");
    for name in ["one-database", "one-search-database"] {
        recipe(&product, name, &[("POINT", text(point.clone()))]);
    }
    assert_eq!(product.copies(), BTreeSet::new());
    assert_eq!(product.content().unwrap(), before);
}

#[test]
fn killed_own_run_is_undone_before_commit_else_resumed() {
    let (product, _) = still("rcown");
    recipe(&product, "my-own-run", &[]);
    let script = product.path("documents/my-own-run");
    let own = || Tool::program(&script).envs(product.env()).env("SVC_LIB", root().join("scripts/lib").display().to_string());
    // The supervisor is killed alone, before the commit: the next call of any script starts the service again first.
    signal_at(&product, own(), (Signal::SIGKILL, false), "stop.json");
    let ended = once_free(|| own().arg("--resume")).fails(3, "not_resumable").changed();
    ended.error_has(&["ended before its point of no return: nothing is left to resume."]);
    assert!(product.is_active());
    // After it: it is resumed.
    let (run, _) = signal_at(&product, own(), (Signal::SIGKILL, true), "start.started");
    // A tool that has outlived it ends by itself.
    let status = wait::so("the tools of the killed run to end", || {
        Some(product.tool("svc-run").arg("status").run()).filter(|status| !status.stdout.contains("It is running."))
    });
    let to_continue = format!("\n  '{}' --resume {}\n", script.display(), id_of(&run));
    assert!(status.stdout.contains(&to_continue), "{status}");
    let ran = once_free(|| own().arg("--resume")).ok();
    let snapshots = ran.steps().into_iter().filter(|step| *step == "snapshot").count();
    assert_eq!(snapshots, 1, "{ran}");
    assert!(product.is_active());
}
