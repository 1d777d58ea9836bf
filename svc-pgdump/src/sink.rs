//! Where the text of a dump goes: hashed, compressed where that is wanted, and written, by a thread of its own beside the one
//! that examines it, so that neither keeps pg_dump waiting.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use sha2::{Digest, Sha256};
use svc_step::file;

use crate::ahead::Ahead;
use crate::compression::{Compression, Packed, Packer};
use crate::read_back::ReadBack;

/// How many pieces wait at most: memory does not grow where the disk is slow.
const WAITING: usize = 8;

/// A file that takes a dump's text.
pub(crate) struct Sink {
    pieces: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<Written>>,
}

/// What was written.
pub(crate) struct Written {
    /// The SHA-256 of the text, in hex.
    pub(crate) text_sha256: String,
    /// The file, where it is compressed; else it is the text.
    pub(crate) packed: Option<Packed>,
    /// The SHA-256 of what the file gave back, in hex, where it was to be read back.
    pub(crate) read_back: Option<String>,
}

impl Written {
    /// Whether the file gave back what was written to it; nobody knows better where it was not to be read back.
    pub(crate) fn is_kept(&self) -> bool {
        let sha256 = self.packed.as_ref().map_or(&self.text_sha256, |packed| &packed.sha256);
        self.read_back.as_ref().is_none_or(|read| read == sha256)
    }
}

impl Sink {
    /// Writes to that file, which is empty; `read_back`: and reads it again meanwhile.
    pub(crate) fn start(file: &File, compression: Option<Compression>, read_back: bool) -> io::Result<Self> {
        let mut ahead = Ahead::start(file)?;
        let (send, receive) = sync_channel(WAITING);
        let start = thread::Builder::new();
        let thread = if read_back {
            let mut out = ReadBack::start(file, ahead)?;
            start.spawn(move || {
                let written = write(&receive, &mut out, compression);
                let (ahead, read) = out.finish();
                ahead.finish()?;
                let read_back = Some(read?);
                Ok(Written { read_back, ..written? })
            })?
        } else {
            start.spawn(move || {
                let written = write(&receive, &mut ahead, compression);
                // Why the disk took no more, it says here.
                ahead.finish().and(written)
            })?
        };
        Ok(Self { pieces: send, thread })
    }

    /// The next text; `false` where nothing more is taken, and [`Sink::finish`] says why.
    pub(crate) fn take(&self, piece: Vec<u8>) -> bool {
        self.pieces.send(piece).is_ok()
    }

    /// All of it was given.
    ///
    /// # Errors
    /// The disk did not take it.
    pub(crate) fn finish(self) -> io::Result<Written> {
        drop(self.pieces);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the step ended by a fault of ours")))
    }
}

fn write(pieces: &Receiver<Vec<u8>>, file: &mut impl Write, compression: Option<Compression>) -> io::Result<Written> {
    let Some(compression) = compression else {
        return Ok(Written { text_sha256: drain(pieces, file)?, packed: None, read_back: None });
    };
    let mut packer = Packer::new(compression, file)?;
    let text_sha256 = drain(pieces, &mut packer)?;
    Ok(Written { text_sha256, packed: Some(packer.finish()?), read_back: None })
}

/// Writes what comes, and gives its hash.
fn drain(pieces: &Receiver<Vec<u8>>, mut out: impl Write) -> io::Result<String> {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(&piece);
        out.write_all(&piece)?;
    }
    Ok(file::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_gives_back_something_else_is_not_kept() {
        for compression in [None, Some(Compression::Zstd), Some(Compression::Gzip)] {
            let file = tempfile::tempfile().unwrap();
            let sink = Sink::start(&file, compression, true).unwrap();
            for n in 0..40 {
                assert!(sink.take(vec![n; 100_000]));
            }
            let mut written = sink.finish().unwrap();
            assert!(written.read_back.is_some() && written.is_kept());
            written.read_back = Some(file::hex(&Sha256::digest("something else")));
            assert!(!written.is_kept());
        }
    }
}
