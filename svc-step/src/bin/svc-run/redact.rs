//! Arguments that are written nowhere are taken out of what a command printed.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use svc_step::line_secrets::without_words;

/// Takes these words out of a file, in place: whoever still appends to it goes on doing so.
///
/// # Errors
/// The file cannot be read or written.
pub fn hide(path: &Path, words: &[Vec<u8>]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let shown = without_words(&text, words);
    if shown != text {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&shown)?;
        file.set_len(shown.len() as u64)?;
        file.sync_all()?;
    }
    Ok(())
}
