//! A script that is interrupted at a chosen point of its journal.

use std::fs::File;
use std::io::Write;

use svc_tests::journey::prelude::*;

use crate::journey::is_committed;
use crate::power;

/// In what way a script is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `kill -9` of its process group: the tools that it has started die too.
    Killed,
    /// `kill -9` of the supervisor alone: its tools continue.
    Alone,
    /// `kill -9` of the script alone: its supervisor ends what it has begun.
    Script,
    /// The host loses its power: everything dies at once, and the journals and restore points are what was synced of them.
    Lost,
    /// A signal to the script alone, which sends it on.
    Asked(Signal),
    /// A signal to its process group, as a terminal sends it.
    Hung(Signal),
    /// The disk of a folder is full from then on, and has space again when the script has ended.
    Full(&'static Path),
}

impl How {
    /// Whether the script has the time to end in order.
    pub fn in_order(self) -> bool {
        !matches!(self, Self::Killed | Self::Alone | Self::Lost)
    }

    fn ended_so(self, status: i32) -> bool {
        match self {
            Self::Killed | Self::Alone | Self::Lost => status == 128 + Signal::SIGKILL as i32,
            Self::Asked(signal) | Self::Hung(signal) => status == 128 + signal as i32,
            Self::Script | Self::Full(_) => ![0, 8, 9].contains(&status),
        }
    }

    fn fill(self) {
        let Some(folder) = self.fills().map(|folder| folder.join(FILLER)) else { return };
        fs::create_dir_all(&folder).unwrap();
        let mut filler = File::options().create(true).append(true).open(folder.join("blocks")).unwrap();
        for block in [vec![0; 1 << 20], vec![0; 1 << 12], vec![0]] {
            while filler.write_all(&block).is_ok() {}
        }
    }

    /// The folder whose disk is full.
    pub fn fills(self) -> Option<&'static Path> {
        match self {
            Self::Full(folder) => Some(folder),
            _ => None,
        }
    }
}

/// What is left of a script that was interrupted.
pub struct Cut {
    /// The run directory that came to the point.
    pub run: PathBuf,
    /// The point: `dump.started` or `dump.json`.
    pub point: String,
    /// It was interrupted while it undid what an earlier run had left.
    pub recovering: bool,
}

/// Runs a script and interrupts it as soon as its journal, or that of a script that it calls, comes to a point that `wanted` likes
/// (by its run directory and its name). The error is how it ended if it was not interrupted.
pub fn cut(product: &Product, tool: Tool, how: How, mut wanted: impl FnMut(&Path, &str) -> bool) -> Result<Cut, Box<Ran>> {
    let before: BTreeSet<PathBuf> = entries(product).collect();
    let known = runs(product);
    let mut script = tool.spawn();
    let probe = || {
        let ended = !script.is_running();
        let mut new: Vec<PathBuf> = entries(product).filter(|path| !before.contains(path)).collect();
        // Several requests may have come together.
        in_order(&mut new);
        let mut found = new.iter().filter_map(|path| Some((path.parent()?.to_owned(), point(path)?)));
        let found = found.find(|(run, point)| wanted(run, point));
        (found.is_some() || ended).then_some(found)
    };
    let found = wait::promptly("the script to come to the point, or to its end", wait::HANG, probe).unwrap();
    if found.is_some() && script.is_running() {
        match how {
            How::Killed | How::Lost => script.signal_group(Signal::SIGKILL),
            How::Alone => script.signal(Signal::SIGKILL),
            // One that has ended by itself meanwhile was interrupted too late.
            How::Script => {
                let _ = os::child(script.pid(), "bash").map(|bash| kill(bash, Signal::SIGKILL));
            }
            How::Asked(signal) => script.signal(signal),
            How::Hung(signal) => script.signal_group(signal),
            How::Full(_) => {
                // Filling it takes longer than some steps, which the script would have passed by then.
                script.signal_group(Signal::SIGSTOP);
                how.fill();
                script.signal_group(Signal::SIGCONT);
            }
        }
        if how.fills().is_some() {
            // It stays full: what ends gives back space that it had taken, in which the script would come a long way.
            wait::so("the script to end", || {
                how.fill();
                (!script.is_running()).then_some(())
            });
        }
    }
    let mut ran = script.wait();
    if how == How::Lost && found.is_some() {
        power::lose(product);
    }
    if let Some(folder) = how.fills() {
        let _ = fs::remove_dir_all(folder.join(FILLER));
    }
    let mut new = entries(product).filter(|path| ran.status == 128 + Signal::SIGKILL as i32 && !before.contains(path));
    if let Some(document) = new.find_map(|path| ended_well(&path)) {
        // It was killed when nothing was left but its exit.
        (ran.status, ran.document) = (0, Some(document));
    }
    match found {
        Some((run, point)) if how.ended_so(ran.status) => {
            Ok(Cut { recovering: known.contains(&run) && !is_committed(&run), run, point })
        }
        _ => Err(Box::new(ran)),
    }
}

const FILLER: &str = "filler";

fn entries(product: &Product) -> impl Iterator<Item = PathBuf> + use<> {
    runs(product).into_iter().flat_map(|run| fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path()))
}

/// The last document of a run that no other run has called, if it ended well.
fn ended_well(path: &Path) -> Option<Value> {
    let read = |path: &Path| serde_json::from_str::<Value>(&fs::read_to_string(path).ok()?).ok();
    let is_last = path.file_name()?.to_str()?.starts_with("document");
    let document = read(path).filter(|document| is_last && document["ok"] == true)?;
    read(&path.with_file_name("plan.json"))?["parent"].is_null().then_some(document)
}

/// What a step writes, in this order; an exit status is an external command's.
const ENDINGS: [&str; 3] = ["started", "rc", "json"];

/// `12-dump.2.json` is the point `dump.json`.
fn point(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (number, rest) = name.split_once('-')?;
    number.parse::<u8>().ok()?;
    let (step, ending) = rest.rsplit_once('.')?;
    let step = step.split('.').next()?;
    ENDINGS.contains(&ending).then(|| format!("{step}.{ending}"))
}

/// Sorts the files of runs as their journals were written.
fn in_order(files: &mut [PathBuf]) {
    files.sort_by_key(|path| {
        (path.with_extension(""), ENDINGS.iter().position(|ending| path.extension() == Some(ending.as_ref())))
    });
}

pub fn has(run: &Path, wanted: &str) -> bool {
    fs::read_dir(run).into_iter().flatten().flatten().any(|entry| point(&entry.path()).as_deref() == Some(wanted))
}

/// The first time that it comes to each of these, one after the other.
pub fn in_turn<'a>(wanted: &'a [&str]) -> impl FnMut(&str) -> bool + use<'a> {
    let mut left = wanted.iter().peekable();
    move |point| left.next_if(|wanted| **wanted == point).is_some()
}
