//! A sample service on its way: installed, upgraded, and back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::product::{Content, Product};
use crate::tool::Ran;

/// 1.15.5 with items, customised, quiet; and all that it holds.
pub fn installed(name: &str) -> (Product, Content) {
    let product = Product::new(name).unwrap();
    let content = product.install_still("1.15.5", 400).unwrap();
    (product, content)
}

/// Upgraded to 2.0.1, which runs and writes.
pub fn upgraded(name: &str) -> (Product, Content, Ran) {
    let (product, before) = installed(name);
    let upgrade = product.tool("svc-upgrade").arg(product.installer("2.0.1")).run().ok();
    assert_ne!(product.content().unwrap(), before, "the upgrade has altered nothing, so there is nothing to see");
    (product, before, upgrade)
}

/// The directory of the newest run of any script.
pub fn newest_run(product: &Product) -> PathBuf {
    let entries = fs::read_dir(product.state_dir().join("runs")).unwrap();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    runs.pop().expect("there is a run")
}

/// The restore point that a script made.
pub fn point_of(ran: &Ran) -> PathBuf {
    PathBuf::from(ran.result()["restore_point"].as_str().unwrap())
}

/// Writes the sums of a restore point anew, after a test has altered it.
pub fn seal(point: &Path) {
    let sums =
        "find . -type f ! -name 'SHA256SUMS*' -print0 | xargs -0 sha256sum >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS";
    assert!(Command::new("bash").args(["-c", sums]).current_dir(point).status().unwrap().success());
}

/// The service is back: content, version, customised values, running.
pub fn assert_back(product: &Product, before: &Content) {
    let now = product.content().unwrap();
    assert_eq!(now.dump, before.dump, "the relational database is not as before");
    assert_eq!(now.indices.keys().collect::<Vec<_>>(), before.indices.keys().collect::<Vec<_>>());
    assert_eq!(now.indices, before.indices, "the search database is not as before");
    assert_eq!(product.marker(), "1.15.5");
    assert!(product.is_active());
    let conf = fs::read_to_string(product.install_dir().join(format!("conf/{}.conf", product.name))).unwrap();
    assert!(conf.contains("interval_ms = 0\n") && conf.contains("bulk_size = 750\n"), "{conf}");
}
