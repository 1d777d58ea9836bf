//! The writer of a dump: hashes, compresses and writes the SQL, and syncs it while more is coming, so that little is left for the
//! last sync. It has its own thread, so that pg_dump waits neither for it nor for the check of the SQL.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use crate::compression::{CompressedFile, CompressingWriter, Compression};

/// A sync begins after so many bytes, unless the one before is still running.
const SYNC_EVERY: usize = 128 << 20;

pub(crate) fn write(
    pieces: Receiver<Vec<u8>>,
    file: &File,
    compression: Option<Compression>,
) -> io::Result<(String, Option<CompressedFile>)> {
    synced(file, |file| {
        let mut writer = CompressingWriter::new(compression, file);
        pieces.into_iter().try_for_each(|piece| writer.write(&piece))?;
        writer.finish()
    })
}

/// The last sync is the caller's. One that fails must not be lost: the system reports it once only.
fn synced<T>(file: &File, write: impl FnOnce(BackgroundSync<'_>) -> io::Result<T>) -> io::Result<T> {
    thread::scope(|scope| {
        let (ask, asked) = sync_channel(1);
        let syncing = scope.spawn(move || asked.into_iter().try_for_each(|()| file.sync_data()));
        let written = write(BackgroundSync { file, unsynced: 0, ask });
        let synced = syncing.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        // A sync that failed has the better reason.
        synced.and(written)
    })
}

struct BackgroundSync<'a> {
    file: &'a File,
    unsynced: usize,
    ask: SyncSender<()>,
}

impl Write for BackgroundSync<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= SYNC_EVERY {
            match self.ask.try_send(()) {
                Ok(()) => self.unsynced = 0,
                Err(TrySendError::Full(())) => {}
                // A sync has failed, so that nothing more need be written.
                Err(TrySendError::Disconnected(())) => return Err(io::ErrorKind::BrokenPipe.into()),
            }
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
        let piece = vec![7; 1 << 20];
        synced(&file, |mut sync| (0..130).try_for_each(|_| sync.write_all(&piece))).unwrap();
        assert_eq!(io::Seek::stream_position(&mut file).unwrap(), 130 << 20);
        // A socket cannot be synced.
        let (_reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = File::from(std::os::fd::OwnedFd::from(writer));
        let mut written = 0;
        let failed = synced(&socket, |mut sync| {
            while written < 1000 {
                sync.unsynced = SYNC_EVERY;
                sync.write_all(b"m")?;
                written += 1;
                thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(())
        });
        assert!(failed.is_err() && written < 1000, "{written} more were written");
    }
}
