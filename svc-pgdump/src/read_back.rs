//! A file that is read back while more is being written to it, so that its proof is there soon after its last byte.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use sha2::{Digest, Sha256};
use svc_step::file;

/// How much is read at a time.
const PIECE: usize = 1 << 20;

/// Writes to what is behind it, and has a thread that reads the same bytes back from the file, and hashes them.
pub(crate) struct ReadBack<W> {
    behind: W,
    written: Sender<usize>,
    thread: JoinHandle<io::Result<String>>,
}

impl<W: Write> ReadBack<W> {
    /// What `behind` is given is in `file` as soon as it has taken it, from the file's beginning on.
    pub(crate) fn start(file: &File, behind: W) -> io::Result<Self> {
        let (written, more) = channel();
        let file = file.try_clone()?;
        let thread = thread::Builder::new().spawn(move || digest(&file, &more))?;
        Ok(Self { behind, written, thread })
    }

    /// All of it was written: what is behind, and the SHA-256, in hex, of what the file gave back.
    ///
    /// # Errors
    /// The file could not be read, or ended too early.
    pub(crate) fn finish(self) -> (W, io::Result<String>) {
        drop(self.written);
        let read = self.thread.join();
        (self.behind, read.unwrap_or_else(|_| Err(io::Error::other("a thread of the step ended by a fault of ours"))))
    }
}

impl<W: Write> Write for ReadBack<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = self.behind.write(bytes)?;
        // Where nobody takes it any more, the reading has failed, and `finish` says why.
        self.written.send(size).map(|()| size).map_err(|_| io::Error::other("the file cannot be read back"))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.behind.flush()
    }
}

fn digest(file: &File, written: &Receiver<usize>) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    for mut size in written {
        while size > 0 {
            let part = piece.get_mut(..size.min(PIECE)).unwrap_or_default();
            file.read_exact_at(part, at)?;
            hash.update(&*part);
            at += part.len() as u64;
            size -= part.len();
        }
    }
    Ok(file::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose disk does not keep what it took.
    struct Forgetful(File);

    impl Write for Forgetful {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut other = bytes.to_vec();
            other[0] ^= 1;
            self.0.write_all(&other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A file that loses the end of what it took.
    struct Short(File);

    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write_all(&bytes[1..])?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn read_back<W: Write>(behind: impl Fn(File) -> W) -> (String, io::Result<String>) {
        let file = tempfile::tempfile().unwrap();
        let mut out = ReadBack::start(&file, behind(file.try_clone().unwrap())).unwrap();
        let mut hash = Sha256::new();
        for n in 0..5_usize {
            let bytes = vec![u8::try_from(n).unwrap(); (1 + n) * 700_000];
            hash.update(&bytes);
            // Once the reading has failed, nothing more is taken.
            if out.write_all(&bytes).is_err() {
                break;
            }
        }
        (file::hex(&hash.finalize()), out.finish().1)
    }

    #[test]
    fn what_was_kept_gives_the_same_hash() {
        let (written, read) = read_back(|file| file);
        assert_eq!(read.unwrap(), written);
    }

    #[test]
    fn what_was_not_kept_does_not() {
        let (written, read) = read_back(Forgetful);
        assert_ne!(read.unwrap(), written);
        let (_, read) = read_back(Short);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
