//! A dump's file, opened once: what is examined is what is loaded, whatever becomes of its name.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use svc_step::progress::Unit;
use svc_step::{Call, Failure, file};

use crate::lexer::Piece;
use crate::whole::{Dump, Examiner};

/// How much of a file is read at once.
const CHUNK: usize = 256 * 1024;

/// A dump that is open for reading.
#[derive(Debug)]
pub struct DumpFile {
    path: PathBuf,
    file: File,
    opened: Stamp,
}

/// What tells that a file was written to: its size and the time of its last change.
type Stamp = (u64, Option<SystemTime>);

impl DumpFile {
    /// Opens it with the rights that the process has at this moment.
    ///
    /// # Errors
    /// It is not there (4), cannot be read or is no regular file (3).
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let action = "read the dump";
        let file = file::open_regular(action, path).map_err(|failure| match failure.code.as_str() {
            "not_a_regular_file" => failure.hint("Name the file that svc-pgdump wrote."),
            _ => failure,
        })?;
        let opened = stamp(&file).map_err(|error| Failure::io(action, path, &error))?;
        Ok(Self { path: path.to_owned(), file, opened })
    }

    /// Its path, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file; where it stands is nobody's promise, so whoever reads it goes to its start first.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Reads it through, once. A dump that is not whole is no failure here: [`Dump::reason`] says it.
    ///
    /// # Errors
    /// It cannot be read, a signal, or the end of the time limit.
    pub fn examine(&self, call: &Call) -> Result<Dump, Failure> {
        self.examine_beside(call, &mut |_| ())
    }

    /// The same; `beside` is given the pieces too.
    ///
    /// # Errors
    /// As [`DumpFile::examine`].
    pub fn examine_beside(&self, call: &Call, beside: &mut impl FnMut(Piece<'_>)) -> Result<Dump, Failure> {
        let (size, _) = self.opened;
        let progress = call.progress("verify", Unit::Bytes);
        let mut examiner = Examiner::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            call.check()?;
            match (&self.file).read(&mut chunk) {
                Ok(0) => return Ok(examiner.finish()),
                Ok(read) => examiner.feed_beside(chunk.get(..read).unwrap_or_default(), beside),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::io("read the dump", &self.path, &error)),
            }
            progress.set(examiner.size_bytes(), size);
        }
    }

    /// Nobody wrote to the file since it was opened: what was loaded is what was examined.
    ///
    /// # Errors
    /// Somebody did (7).
    pub fn unaltered(&self) -> Result<(), Failure> {
        if stamp(&self.file).is_ok_and(|now| now == self.opened) {
            return Ok(());
        }
        Err(Failure::invalid("dump_altered", format!("{} was written to while it was loaded.", self.path.display()))
            .hint("Let nobody write to the dump, and run the same command again."))
    }
}

fn stamp(file: &File) -> std::io::Result<Stamp> {
    let meta = file.metadata()?;
    Ok((meta.len(), meta.modified().ok()))
}
