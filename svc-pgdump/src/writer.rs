//! The writer of a dump: hashes, compresses and writes the SQL, and syncs it while more is coming, so that little is left for the
//! last sync. It has its own thread, so that pg_dump waits neither for it nor for the check of the SQL.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use sha2::{Digest, Sha256};
use svc_step::file;

use crate::compression::{Compression, Packed, Packer};

/// How many pieces wait at most: memory does not grow where the disk is slow.
const WAITING: usize = 8;
/// A sync begins after so many bytes, unless the one before is still running.
const SYNC_EVERY: usize = 128 << 20;

pub(crate) struct Writer {
    pieces: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<Written>>,
}

pub(crate) struct Written {
    /// The SHA-256 of the SQL, in hex.
    pub(crate) text_sha256: String,
    /// The file, if it is compressed; else it is the SQL.
    pub(crate) packed: Option<Packed>,
}

impl Writer {
    pub(crate) fn start(file: &File, compression: Option<Compression>) -> io::Result<Self> {
        let mut file = BackgroundSync::start(file)?;
        let (send, receive) = sync_channel(WAITING);
        let thread = thread::Builder::new().spawn(move || {
            let written = write(&receive, &mut file, compression);
            // A sync that failed has the better reason.
            file.finish().and(written)
        })?;
        Ok(Self { pieces: send, thread })
    }

    /// `false` if nothing more is taken; [`Writer::finish`] says why.
    pub(crate) fn take(&self, piece: Vec<u8>) -> bool {
        self.pieces.send(piece).is_ok()
    }

    pub(crate) fn finish(self) -> io::Result<Written> {
        drop(self.pieces);
        joined(self.thread)
    }
}

fn write(pieces: &Receiver<Vec<u8>>, file: &mut impl Write, compression: Option<Compression>) -> io::Result<Written> {
    let Some(compression) = compression else {
        return Ok(Written { text_sha256: write_hashed(pieces, file)?, packed: None });
    };
    let mut packer = Packer::new(compression, file)?;
    let text_sha256 = write_hashed(pieces, &mut packer)?;
    Ok(Written { text_sha256, packed: Some(packer.finish()?) })
}

fn write_hashed(pieces: &Receiver<Vec<u8>>, mut out: impl Write) -> io::Result<String> {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update(&piece);
        out.write_all(&piece)?;
    }
    Ok(file::hex(&hash.finalize()))
}

fn joined<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

struct BackgroundSync {
    file: File,
    unsynced: usize,
    ask: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl BackgroundSync {
    fn start(file: &File) -> io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let synced = file.try_clone()?;
        let thread = thread::Builder::new().spawn(move || asked.into_iter().try_for_each(|()| synced.sync_data()))?;
        Ok(Self { file: file.try_clone()?, unsynced: 0, ask, thread })
    }

    /// The last sync is the caller's. A failed one must not be lost: the system reports it once only.
    fn finish(self) -> io::Result<()> {
        drop(self.ask);
        joined(self.thread)
    }
}

impl Write for BackgroundSync {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= SYNC_EVERY && self.ask.try_send(()).is_ok() {
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_fails_while_more_is_written_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        let mut sync = BackgroundSync::start(&file).unwrap();
        let piece = vec![7; 1 << 20];
        (0..130).for_each(|_| sync.write_all(&piece).unwrap());
        sync.finish().unwrap();
        assert_eq!(io::Seek::stream_position(&mut file).unwrap(), 130 << 20);
        // A socket cannot be synced.
        let (_reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut sync = BackgroundSync::start(&File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        sync.unsynced = SYNC_EVERY;
        sync.write_all(b"more").unwrap();
        sync.finish().unwrap_err();
    }
}
