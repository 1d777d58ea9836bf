//! A script that is cut off at a chosen point of its journal.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use svc_tests::journey::runs;
use svc_tests::product::Product;
use svc_tests::tool::{Ran, Spawned, Tool};
use svc_tests::wait;

/// How long a test waits for what it has caused.
pub const A_WHILE: Duration = Duration::from_secs(180);

/// In what way a script is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `kill -9` of its process group: the tools that it has started die too.
    Killed,
    /// `kill -9` of the script alone: its tools go on.
    Alone,
    /// A signal to the script alone, which sends it on.
    Asked(Signal),
    /// A signal to its process group, as a terminal sends it.
    Hung(Signal),
    /// The disk of a folder is full from then on, and has room again when the script has ended.
    Full(&'static Path),
    /// The same, and there is no room for another file, as on a full XFS.
    Crowded(&'static Path),
}

impl How {
    /// Whether the script has the time to end in order.
    pub fn in_order(self) -> bool {
        !matches!(self, Self::Killed | Self::Alone)
    }

    fn ended_so(self, status: i32) -> bool {
        match self {
            Self::Killed | Self::Alone => status == 128 + Signal::SIGKILL as i32,
            Self::Asked(signal) | Self::Hung(signal) => status == 128 + signal as i32,
            Self::Full(_) | Self::Crowded(_) => ![0, 8, 9].contains(&status),
        }
    }

    /// The folder whose disk is full.
    pub fn fills(self) -> Option<&'static Path> {
        match self {
            Self::Full(folder) | Self::Crowded(folder) => Some(folder),
            _ => None,
        }
    }
}

/// What is left of a script that was cut off.
#[derive(Debug)]
pub struct Cut {
    /// The run directory that came to the point.
    pub run: PathBuf,
    /// The point: `dump.started` or `dump.json`.
    pub point: String,
}

/// Runs a script and cuts it off as soon as its journal, or that of a script that it calls, comes to a point that `wanted` likes
/// (by its run directory and its name). The error is how it ended where it was not cut off.
pub fn cut(product: &Product, tool: Tool, how: How, mut wanted: impl FnMut(&Path, &str) -> bool) -> Result<Cut, Box<Ran>> {
    let before: BTreeSet<PathBuf> = entries(product).collect();
    let mut script = tool.may_be_killed().spawn();
    let found = wait::until("the script to come to the point, or to its end", A_WHILE, || {
        let ended = !script.is_running();
        // In the order of the journal, where several came at once.
        let new: BTreeSet<PathBuf> = entries(product).filter(|path| !before.contains(path)).collect();
        let mut found = new.iter().filter_map(|path| Some((path.parent()?.to_owned(), point(path)?)));
        let found = found.find(|(run, point)| wanted(run, point));
        (found.is_some() || ended).then_some(found)
    })
    .unwrap();
    if found.is_some() && script.is_running() {
        match how {
            How::Killed => script.signal_group(Signal::SIGKILL),
            How::Alone => script.signal(Signal::SIGKILL),
            How::Asked(signal) => script.signal(signal),
            How::Hung(signal) => script.signal_group(signal),
            How::Full(folder) => held(&script, || fill(folder, 0)),
            How::Crowded(folder) => held(&script, || fill(folder, usize::MAX)),
        }
    }
    let ran = script.wait();
    if let Some(folder) = how.fills() {
        let _ = fs::remove_dir_all(folder.join(FILLER));
    }
    match found {
        Some((run, point)) if how.ended_so(ran.status) => Ok(Cut { run, point }),
        _ => Err(Box::new(ran)),
    }
}

/// Does something while a script and its tools stand still: filling a disk takes longer than some steps, which the script would have
/// passed by then.
fn held(script: &Spawned, does: impl FnOnce()) {
    script.signal_group(Signal::SIGSTOP);
    does();
    script.signal_group(Signal::SIGCONT);
}

/// What fills a disk.
const FILLER: &str = "filler";

/// Fills the disk of a folder to its last block, and with so many files more.
fn fill(folder: &Path, files: usize) {
    let folder = folder.join(FILLER);
    fs::create_dir(&folder).unwrap();
    let mut filler = File::create(folder.join("blocks")).unwrap();
    for block in [vec![0; 1 << 20], vec![0; 1 << 12], vec![0]] {
        while filler.write_all(&block).is_ok() {}
    }
    (0..files).map_while(|number| File::create(folder.join(number.to_string())).ok()).for_each(drop);
}

/// All files of all runs.
fn entries(product: &Product) -> impl Iterator<Item = PathBuf> + use<> {
    runs(product).into_iter().flat_map(|run| fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path()))
}

/// `12-dump.2.json` is the point `dump.json`.
fn point(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (number, rest) = name.split_once('-')?;
    number.parse::<u8>().ok()?;
    let (step, ending) = rest.rsplit_once('.')?;
    let step = step.split('.').next()?;
    ["started", "json"].contains(&ending).then(|| format!("{step}.{ending}"))
}

/// The points of a run, in the order in which its steps were begun.
pub fn points(run: &Path) -> Vec<String> {
    let mut names: Vec<PathBuf> = fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    // `.started` comes before `.json`.
    names.sort_by_key(|path| (path.file_stem().map(ToOwned::to_owned), path.extension() != Some("started".as_ref())));
    names.iter().filter_map(|path| point(path)).collect()
}

/// Whether a run has come to a point.
pub fn has(run: &Path, wanted: &str) -> bool {
    points(run).iter().any(|point| point == wanted)
}
