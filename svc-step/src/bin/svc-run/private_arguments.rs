//! Arguments of an installer that no file may hold, even if the installer prints them.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use svc_step::redact::without_arguments;

/// What stands in a file from which the arguments cannot be taken out.
pub const REMOVED: &str = "What it printed was removed: the arguments that are written nowhere could not be taken out of it.\n";

/// Takes the arguments out of a file, in place: what still writes at its end continues, and the disk space that is kept for the
/// file stays. The caller makes it durable.
pub fn hide(path: &Path, arguments: &[Vec<u8>]) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let shown = without_arguments(&text, arguments);
    if shown != text {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&shown)?;
        file.set_len(shown.len() as u64)?;
    }
    Ok(())
}
