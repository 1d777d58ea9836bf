//! The writer of a dump: hashes, compresses and writes the SQL. It has its own thread, so that pg_dump waits neither for it nor for the
//! check of the SQL.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::compression::{CompressedFile, CompressingWriter, Compression};

/// After so many bytes their way to the disk begins.
const WRITE_BACK: i64 = 8 << 20;

pub(crate) fn write(
    pieces: Receiver<Vec<u8>>,
    file: &File,
    compression: Option<Compression>,
) -> io::Result<(String, Option<CompressedFile>)> {
    let mut writer = CompressingWriter::new(compression, WriteBack { file, begun: 0, written: 0 });
    pieces.into_iter().try_for_each(|piece| writer.write(&piece))?;
    writer.finish()
}

/// Lets the system write to the disk while more is coming, so that little is left for the sync at the end, which reports every fault.
struct WriteBack<'a> {
    file: &'a File,
    begun: i64,
    written: i64,
}

impl Write for WriteBack<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = self.file.write(bytes)?;
        self.written += i64::try_from(size).unwrap_or_default();
        let unwritten = self.written - self.begun;
        if unwritten >= WRITE_BACK {
            // The system begins to write what the advice names, and drops only what was written long ago.
            let _ = posix_fadvise(self.file, self.begun, unwritten, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
            self.begun = self.written;
        }
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
