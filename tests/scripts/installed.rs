//! The product installed as `docs/install.md` says of a checkout, and started as root types it, and as cron starts it: with nothing in the
//! environment, and all settings in `/etc/svc-tools/environment`.

use std::fs;
use std::process::Output;

use serde_json::Value;
use svc_tests::host::Host;
use svc_tests::installed::Installed;
use svc_tests::journey::{assert_back, count_in, json_of, runs};
use svc_tests::product::Product;
use svc_tests::tool::root;

/// The document of a run that ended well.
#[track_caller]
fn document(ran: &Output) -> Value {
    assert!(ran.status.success(), "{ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The line of a page's transcript that begins so.
fn shown(page: &str, begin: &str) -> String {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("# ").filter(|line| line.starts_with(begin)));
    line.unwrap_or_else(|| panic!("{page} has no {begin}")).split("  ").next().unwrap().to_owned()
}

/// The nights that have ended, with their documents.
fn nights(product: &Product) -> Vec<Value> {
    let nights = runs(product).into_iter().map(|run| run.join("document.json"));
    nights.filter(|document| document.exists() && document.to_string_lossy().contains("z-nightly/")).map(json_of).collect()
}

#[test]
fn installed_tools_run_cron_jobs_upgrade_and_rollback() {
    let mut host = Host::shared().unwrap();
    // A rollback restarts it, so it is nobody else's.
    let own = host.postgres_server().unwrap();
    host.postgres = own.server.clone();
    let product = Product::on(host, "readme").unwrap();
    let before = product.install_still("1.15.5", 400).unwrap();
    product.start();
    let changed = [("SVC_RELEASES", ""), ("SVC_PG_UNIT", &*format!("user:{}", own.unit))];
    let installed = Installed::new(&product.path("machine"), &product, &changed).unwrap();

    for job in ["svc-nightly", "svc-rehearse"] {
        let ran = installed.by_cron("/usr/local/share/doc/svc-tools/docs/backups.md", job).unwrap();
        assert!(ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    }
    let nights = nights(&product);
    assert!(nights.len() == 1 && nights[0]["ok"] == true && count_in(&product.backup_dir()) == 1, "{nights:#?}");
    let rehearsed: Value = serde_json::from_str(&installed.file("/var/log/svc-rehearse.json").unwrap()).unwrap();
    assert_eq!((&rehearsed["ok"], &rehearsed["result"]["rehearsal"]["kind"]), (&true.into(), &"nightly".into()));

    let postgres = || product.host.systemd.property(&own.unit, "MainPID").unwrap();
    let here = format!("'{}'", product.installer("2.0.1").display());
    let upgrade = shown("README.md", "svc-upgrade").replace("/srv/installers/svc-2.0.1.run", &here);
    assert!(upgrade.contains(&here), "{upgrade}");
    let ran = document(&installed.typed(&upgrade).unwrap());
    assert_eq!((product.marker(), &ran["changed"]), ("2.0.1".to_owned(), &Value::Bool(true)), "{ran:#}");
    let process = postgres();
    let back = installed.typed(&shown("README.md", "svc-rollback")).unwrap();
    let said = String::from_utf8_lossy(&back.stderr).into_owned();
    let ran = document(&back);
    assert_back(&product, &before);
    // 9.3 step 2: the swapped database's server is restarted.
    assert!(said.contains("svc-rollback: restart-database: ok, changed"), "{said}");
    assert_ne!(postgres(), process, "{ran:#}");
}
