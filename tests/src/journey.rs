//! A sample service on its way: installed, upgraded, and back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::product::{Content, Product};
use crate::tool::{Ran, Tool};
use crate::{os, wait};

/// What nearly every test of the scripts uses.
pub mod prelude {
    pub use std::os::unix::fs::symlink;
    pub use std::process::Stdio;

    pub use nix::sys::signal::kill;
    pub use nix::unistd::Pid;

    pub use super::*;
    pub use crate::bare::{self, Bare};
    pub use crate::disk::while_mounted;
    pub use crate::prelude::*;
    pub use crate::product::{Content, Product};
    pub use crate::search;
    pub use crate::terminal::Terminal;
    pub use crate::tool::{bin_dir, root, search_path};
}

/// What nothing answers at.
pub const DOWN: (&str, &str) = ("SVC_SEARCH_URL", "http://127.0.0.1:9");

/// 1.15.5, which runs and writes.
pub fn running(name: &str) -> Product {
    let product = Product::new(name).unwrap();
    product.install("1.15.5", 50).unwrap();
    product
}

/// 1.15.5 with items, customised, quiet; and all that it holds.
pub fn installed(name: &str) -> (Product, Content) {
    let product = Product::new(name).unwrap();
    let content = product.install_still("1.15.5", 400).unwrap();
    (product, content)
}

/// The same, and it runs, without writing anything.
pub fn still(name: &str) -> (Product, Content) {
    let (product, content) = installed(name);
    product.start();
    (product, content)
}

/// Upgraded to 2.0.1, which runs and writes.
pub fn upgraded(name: &str) -> (Product, Content, Ran) {
    let (product, before) = installed(name);
    let upgrade = product.upgrade().run().ok();
    assert_ne!(product.content().unwrap(), before, "the upgrade has changed nothing, so there is nothing to see");
    (product, before, upgrade)
}

/// The directories of all runs of any script, the oldest first.
pub fn runs(product: &Product) -> Vec<PathBuf> {
    let entries = fs::read_dir(product.state_dir().join("runs")).into_iter().flatten().flatten();
    // One that is being made has a name with a dot.
    let is_run = |path: &PathBuf| !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.');
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_run).collect();
    runs.sort();
    runs
}

/// The last document of the newest run of that kind.
#[track_caller]
pub fn document_of(product: &Product, kind: &str) -> Value {
    let run = runs(product).into_iter().rfind(|run| run.to_string_lossy().ends_with(kind));
    json_of(run.unwrap_or_else(|| panic!("there is no run {kind}")).join("document.json"))
}

pub fn newest_run(product: &Product) -> PathBuf {
    runs(product).pop().expect("there is a run")
}

/// What lies in a folder, such as the journal in a run directory; the folder need not be there.
pub fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[track_caller]
pub fn json_of(file: impl AsRef<Path>) -> Value {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.as_ref().display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The last part of a path: the ID of a run or of a restore point.
pub fn id_of(path: &Path) -> String {
    path.file_name().expect("a path that ends in a name").to_string_lossy().into_owned()
}

/// How much lies in a folder, which need not be there.
pub fn count_in(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

pub fn copy_folder(from: &Path, to: &Path) {
    os::run(Command::new("cp").arg("-aT").args([from, to])).unwrap();
}

/// Sends a signal to a script, with its whole process group or to it alone, as soon as the journal of a run that it has begun
/// (itself or by another script) has this file, `dump.started` or `dump.json`. Gives that run, and what came of the script.
#[track_caller]
pub fn signal_at(product: &Product, tool: Tool, signal: (Signal, bool), point: &str) -> (PathBuf, Ran) {
    let known = runs(product);
    let is_there = |run: &PathBuf| !known.contains(run) && names_in(run).iter().any(|name| name.get(3..) == Some(point));
    let mut found = None;
    let ran = tool.spawn().interrupted(point, signal, |_| {
        found = runs(product).into_iter().find(is_there);
        found.is_some()
    });
    let run = found.unwrap_or_else(|| panic!("it had ended before {point}\n{ran}"));
    assert_eq!(ran.status, 128 + signal.0 as i32, "it had ended when {point} was seen\n{ran}");
    (run, ran)
}

/// What comes of a script once the tools that a script which was killed has left behind have ended.
#[track_caller]
pub fn once_free(tool: impl Fn() -> Tool) -> Ran {
    wait::so("the tools of the killed run to end", || Some(tool().run()).filter(|ran| ran.status != 8))
}

pub fn point_of(ran: &Ran) -> PathBuf {
    PathBuf::from(ran.result()["restore_point"].as_str().unwrap())
}

/// Writes the sums of a restore point again, after a test has changed it.
pub fn finalize(point: &Path) {
    let sums =
        "find . -type f ! -name 'SHA256SUMS*' -print0 | xargs -0 sha256sum >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS";
    assert!(Command::new("bash").args(["-c", sums]).current_dir(point).status().unwrap().success());
}

/// The service is back: content, version, customised values, running.
pub fn assert_back(product: &Product, before: &Content) {
    assert_content_back(product, before);
    let conf = fs::read_to_string(product.install_dir().join(format!("conf/{}.conf", product.name))).unwrap();
    assert!(conf.contains("interval_ms = 0\n") && conf.contains("bulk_size = 750\n"), "{conf}");
}

pub fn assert_content_back(product: &Product, before: &Content) {
    let now = product.content().unwrap();
    assert_eq!(now.dump, before.dump, "PostgreSQL is not as before");
    assert_eq!(now.indices.keys().collect::<Vec<_>>(), before.indices.keys().collect::<Vec<_>>());
    assert_eq!(now.indices, before.indices, "the search database is not as before");
    assert_eq!(product.marker(), "1.15.5");
    assert!(product.is_active());
}
