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
}

impl Sink {
    /// Writes to that file, from where it stands.
    pub(crate) fn start(file: &File, compression: Option<Compression>) -> io::Result<Self> {
        let mut file = Ahead::start(file)?;
        let (send, receive) = sync_channel(WAITING);
        let thread = thread::Builder::new().spawn(move || {
            let written = write(&receive, &mut file, compression);
            // Why the disk took no more, it says here.
            file.finish().and(written)
        })?;
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

fn write(pieces: &Receiver<Vec<u8>>, file: &mut Ahead, compression: Option<Compression>) -> io::Result<Written> {
    let Some(compression) = compression else {
        return Ok(Written { text_sha256: drain(pieces, file)?, packed: None });
    };
    let mut packer = Packer::new(compression, file)?;
    let text_sha256 = drain(pieces, &mut packer)?;
    Ok(Written { text_sha256, packed: Some(packer.finish()?) })
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
