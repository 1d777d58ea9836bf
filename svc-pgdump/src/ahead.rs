//! A file whose bytes go to the disk while more are still coming, so that little is left for the last sync.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// After so many bytes the disk is asked for them, unless it is still at those before.
const STEP: usize = 128 << 20;

/// Writes to a file, from where it stands, and has a thread that syncs what was written.
pub(crate) struct Ahead {
    file: File,
    unsynced: usize,
    ask: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Ahead {
    pub(crate) fn start(file: &File) -> io::Result<Self> {
        let (ask, asked) = sync_channel(1);
        let synced = file.try_clone()?;
        let thread = thread::Builder::new().spawn(move || asked.into_iter().try_for_each(|()| synced.sync_data()))?;
        Ok(Self { file: file.try_clone()?, unsynced: 0, ask, thread })
    }

    /// All of it was written. The last sync is the caller's.
    ///
    /// # Errors
    /// The disk did not take what was written: the system says that once, and the last sync would know nothing of it.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.ask);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the step ended by a fault of ours")))
    }
}

impl Write for Ahead {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= STEP && self.ask.try_send(()).is_ok() {
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
    fn what_is_written_is_there_and_a_disk_that_fails_is_told_of() {
        let mut file = tempfile::tempfile().unwrap();
        let mut ahead = Ahead::start(&file).unwrap();
        let piece = vec![7; 1 << 20];
        for _ in 0..130 {
            ahead.write_all(&piece).unwrap();
        }
        ahead.finish().unwrap();
        let mut read = Vec::new();
        io::Seek::rewind(&mut file).unwrap();
        io::Read::read_to_end(&mut file, &mut read).unwrap();
        assert!(read.len() == 130 << 20 && read.iter().all(|byte| *byte == 7));

        // What cannot be synced at all stands for a disk that gives up.
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ahead = Ahead::start(&File::from(std::os::fd::OwnedFd::from(writer))).unwrap();
        ahead.unsynced = STEP;
        ahead.write_all(b"more").unwrap();
        ahead.finish().unwrap_err();
        drop(reader);
    }
}
