//! `svc-rehearse`, and `svc-upgrade --rehearse`, with the sample service on real servers: a restore point is restored beside
//! the live data, verified, and removed again, whatever happens meanwhile.

use svc_tests::journey::prelude::*;

/// Every copy that lies staged beside the live data, and every note of one.
fn traces(product: &Product) -> Vec<String> {
    let staged = product.copies().into_iter().filter(|name| name.contains("staged"));
    let notes = names_in(&product.state_dir().join("swaps"));
    staged.chain(notes.into_iter().filter(|name| name.contains("-rehearse."))).collect()
}

fn assert_no_trace(product: &Product) {
    assert_eq!(traces(product), Vec::<String>::new());
}

fn rehearse(product: &Product) -> Tool {
    product.tool("svc-rehearse")
}

/// Rehearses while a client writes through an alias of the live data; gives how many of its writes there were, none of them
/// refused.
fn while_a_client_writes(product: &Product, alias: &str, tool: Tool) -> (Ran, u64) {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !ended.load(Ordering::SeqCst) {
                let body = json!({"n": written});
                product.host.search.ask("POST", &format!("/{alias}/_doc?refresh=true"), Some(&body)).unwrap();
                written += 1;
            }
            written
        });
        let stopping = Stopping(&ended);
        let ran = tool.run();
        drop(stopping);
        (ran, writer.join().unwrap())
    })
}

#[test]
fn rehearsal_verifies_newest_valid_point_without_trace() {
    let (product, _) = still("rhgood");
    let (index, alias) = ("/rhgood-probe-1", "rhgood-probe");
    product.host.search.ask("PUT", index, Some(&json!({"aliases": {alias: {}}}))).unwrap();
    rehearse(&product).run().fails(4, "point_not_found").unchanged();
    let planned = rehearse(&product).args(["--or-backup", "--dry-run"]).talks().run().ok().unchanged();
    assert!(planned.lines("plan").iter().any(|line| line.starts_with("svc-backup ")), "{planned}");
    let point = point_of(&product.tool("svc-backup").args(["--kind", "nightly"]).run().ok());
    // Newer ones, none of them good.
    let later = |name: &str| {
        copy_folder(&point, &point.with_file_name(name));
        point.with_file_name(name)
    };
    let half = later("20990101t000000z-backup-nightly");
    fs::remove_file(half.join("SHA256SUMS")).unwrap();
    let damaged = later("20990102t000000z-backup-nightly");
    damage::flip_a_byte(&damaged.join("version.json")).unwrap();
    let before = product.content().unwrap();
    let process = product.process();

    let (ran, written) = while_a_client_writes(&product, alias, rehearse(&product));
    let ran = ran.ok().unchanged().warns("not_quiesced");
    assert_no_trace(&product);
    assert_eq!(product.process(), process);
    let mut now = product.content().unwrap();
    assert_eq!(now.indices["rhgood-probe-1"].documents.len() as u64, written);
    now.indices.insert("rhgood-probe-1".to_owned(), before.indices["rhgood-probe-1"].clone());
    assert_eq!(now, before, "the live data is not as before");

    assert_eq!(point_of(&ran), point);
    let ran = ran.has(&json!({"rehearsal/kind": "nightly", "rehearsal/quiesced": false, "rehearsal/version": "1.15.5"}));
    let rows = &json_of(point.join("pgdump.json"))["result"]["rows_count"];
    let ran = ran.has(&json!({"rehearsal/counts_verified": true, "rehearsal/rows_count": rows}));
    assert!(ran.result()["rehearsal"]["docs_count"].as_u64() > Some(0), "{ran}");
    // Nobody has rolled back here: what that takes is not known, and is not made up.
    ran.has(&json!({"rehearsal/downtime_ms": null}));

    // Whoever sits at a terminal reads it.
    let mut terminal = Terminal::open(&product, "svc-rehearse", &[]);
    terminal.wait_for("svc-rehearse: verified: ");
    terminal.wait();
    assert_no_trace(&product);

    let dry = rehearse(&product).arg("--dry-run").talks().run().ok().unchanged();
    for wanted in ["svc-snap stage", "svc-pgrestore stage", "svc-snap discard", "svc-pgrestore discard"] {
        assert!(dry.lines("plan").iter().any(|line| line.starts_with(wanted)), "{wanted} is not in\n{dry}");
    }
    assert_no_trace(&product);
    product.type_plan(&dry);
    assert_no_trace(&product);

    // What replicates the live database is in the way of a rollback, which is told, and of no rehearsal.
    let subscribed = |sql: &str| product.host.postgres.sql(&product.database(), sql).unwrap();
    subscribed("CREATE SUBSCRIPTION rhgood CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false, slot_name = NONE)");
    rehearse(&product).run().ok().unchanged().warns("not_swappable");
    subscribed("DROP SUBSCRIPTION rhgood");
    assert_no_trace(&product);

    let (_, ran) = signal_at(&product, rehearse(&product), (Signal::SIGTERM, true), "swap-search-possible.started");
    ran.fails(143, "interrupted");
    assert_no_trace(&product);

    let moved = product.path("elsewhere").join(id_of(&point));
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(&point, &moved).unwrap();
    rehearse(&product).arg(&moved).run().ok().unchanged();
    assert_no_trace(&product);
}

#[test]
fn failed_rehearsal_ends_upgrade_before_stop() {
    let (product, before) = still("rhup");
    // The installer of the present version lies beside the new one, and nowhere else.
    let upgrade = || product.upgrade().arg("--rehearse").env_remove("SVC_INSTALLER_DIR").dir(product.path(""));
    let process = product.process();

    // No restore point is there, so one is made; killed when both databases are staged.
    let (cut, _) = signal_at(&product, upgrade(), (Signal::SIGKILL, true), "swap-search-possible.started");
    assert!(traces(&product).len() > 2, "nothing is left, so this shows nothing");
    assert_eq!(product.process(), process);
    let dry = once_free(|| rehearse(&product).arg("--dry-run").talks()).ok().unchanged();
    let discards = ["--run ", "--from stage-search.json "].map(|of| {
        let discards = format!("svc-snap discard {of}");
        dry.lines("plan").iter().position(|line| line.starts_with(&discards))
    });
    let [left, own] = discards.map(|at| at.unwrap_or_else(|| panic!("{dry}")));
    assert!(left < own, "what the killed one has left is discarded first\n{dry}");
    let said = ["first undoes what the run has left:", "  svc-run recover\n"];
    rehearse(&product).arg("--status").run().exits(0, &said);
    let ran = once_free(upgrade).ok().warns("run_recovered");
    assert!(ran.stdout.contains(&format!("The unfinished run {} was undone first.", id_of(&cut))), "{ran}");
    assert!(!ran.steps().contains(&"rehearsal-backup"), "the one that was made is young\n{ran}");
    assert_eq!(ran.result()["rehearsal"]["version"], "1.15.5", "{ran}");
    assert!(!ran.doc()["warnings"].to_string().contains("file_not_found"), "{ran}");
    assert_no_trace(&product);

    // It takes the installer that the upgrade had found.
    let back = product.tool("svc-rollback").env_remove("SVC_INSTALLER_DIR").run().ok();
    assert_back(&product, &before);
    // Now it is known what a rollback takes, and the newest point is the quiesced one of the upgrade.
    let ran = rehearse(&product).run().ok().unchanged();
    let found = &ran.result()["rehearsal"];
    assert_eq!((&found["kind"], &found["quiesced"]), (&json!("upgrade"), &json!(true)), "{ran}");
    assert_eq!(found["downtime_ms"], back.result()["downtime_ms"], "{ran}");
    assert!(found["downtime_ms"].as_u64().unwrap() > 0 && found["staging_ms"].as_u64().unwrap() > 0, "{ran}");

    damage::flip_a_blob(&product.repository_dir()).unwrap();
    let process = product.process();
    let ran = upgrade().run().fails(7, "snapshot_invalid").unchanged();
    assert!(ran.hint().starts_with("Nothing was changed."), "{ran}");
    assert!(!ran.steps().contains(&"stop") && !ran.steps().contains(&"warm-snapshot"), "{ran}");
    assert_eq!(product.process(), process);
    assert_no_trace(&product);
    assert_back(&product, &before);
}
