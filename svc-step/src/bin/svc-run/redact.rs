//! Words that may stand in no file: the arguments of an installer, even if the installer repeats them.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use svc_step::line_secrets::without_words;

/// What stands in a file from which the words cannot be taken out.
pub const REMOVED: &str = "What it printed was removed: the arguments that are written nowhere could not be taken out of it.\n";

/// Takes the words out of a file, in place: what still writes at its end continues, and the disk space that is kept for the
/// file stays. The caller makes it durable.
pub fn hide(path: &Path, words: &[Vec<u8>]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let shown = without_words(&text, words);
    if shown != text {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&shown)?;
        file.set_len(shown.len() as u64)?;
    }
    Ok(())
}
