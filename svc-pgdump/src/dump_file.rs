//! A dump's file, opened once: what is examined is what is loaded, whatever becomes of its name.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use svc_step::reporter::shell_quoted;
use svc_step::work::joined;
use svc_step::{Call, Failure, file};

use crate::check::lexer::Unit;
use crate::check::{Dump, Examiner};
use crate::compression::{CompressedFile, Compression, FrameIndex, FrameReader};

/// How much of a dump's text is examined at once.
const CHUNK: usize = 256 * 1024;
/// How many such pieces wait at most.
const WAITING: usize = 8;

#[derive(Debug)]
pub struct DumpFile {
    path: PathBuf,
    file: File,
    opened: Stamp,
    compression: Option<Compression>,
    /// Where the frames of a compressed one are, once it was examined.
    frames: OnceLock<FrameIndex>,
}

/// What tells that a file was written to: its size and the time of its last change.
type Stamp = (u64, Option<SystemTime>);

impl DumpFile {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let action = "read the dump";
        let fault = |error: io::Error| Failure::io(action, path, &error);
        let file = file::open_regular(action, path).map_err(|failure| match failure.code.as_str() {
            "file_invalid" => failure.hint("Name the file that svc-pgdump wrote."),
            _ => failure,
        })?;
        let opened = stamp(&file).map_err(fault)?;
        let mut start = [0; 4];
        let size = file.read_at(&mut start, 0).map_err(fault)?;
        let compression = Compression::of_start(start.get(..size).unwrap_or_default());
        Ok(Self { path: path.to_owned(), file, opened, compression, frames: OnceLock::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses (3) one that is compressed in one piece, after it was examined: its text can be read from the beginning only.
    pub fn require_frames(&self) -> Result<(), Failure> {
        let Some(compression) = self.compression.filter(|_| !self.frames.get().is_some_and(FrameIndex::are_short)) else {
            return Ok(());
        };
        let (program, suffix) = if compression == Compression::Gzip { ("gzip", ".gz") } else { ("zstd", ".zst") };
        let path = self.path.display().to_string();
        // Beside its properties, if it has its usual name.
        let plain = path.strip_suffix(suffix).map_or_else(|| format!("{path}.plain.sql"), str::to_owned);
        let [packed, plain] = [&path, &plain].map(|path| shell_quoted(&[path]));
        let message = format!("{path} is compressed in one piece, and cannot be loaded over several connections.");
        Err(Failure::refused("file_invalid", message)
            .hint(format!("Decompress it, and restore the result: (set -C; umask 077; {program} -dc {packed} > {plain})")))
    }

    /// Fills the buffer with text from that place on, after it was examined.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = match self.frames.get() {
                Some(frames) => frames.read_at(&self.file, buffer, at),
                None => self.file.read_at(buffer, at),
            };
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = buffer.get_mut(read..).unwrap_or_default();
                    at += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads it through, once; `take` is given the units too. Reading with decompressing has its own thread, and so has hashing. An
    /// incomplete dump is no failure here: [`Dump::reason`] tells.
    pub fn examine(&self, call: &Call, take: &mut impl FnMut(&Unit<'_>)) -> Result<Dump, Failure> {
        let (size, _) = self.opened;
        // The size of the SQL in a compressed file is not known yet.
        let total = if self.compression.is_some() { 0 } else { size };
        let progress = call.progress("verify", svc_step::Unit::Bytes);
        let mut examiner = Examiner::default();
        let (send, pieces) = sync_channel(WAITING);
        let (read, sha256) = thread::scope(|scope| {
            let (hash, hashed) = sync_channel::<SharedChunk>(WAITING);
            let hasher = scope.spawn(move || sha256(hashed));
            let reader = scope.spawn(move || self.read_through(&[send, hash]));
            // If this ends early, so does the reader, whose pieces are not taken.
            for piece in pieces {
                call.check()?;
                examiner.feed(&piece, take);
                progress.set(examiner.size_bytes(), total, None);
            }
            Ok::<_, Failure>((joined(reader)?, joined(hasher)?))
        })?;
        let (damage, compressed) = read.map_err(|error| Failure::io("read the dump", &self.path, &error))?;
        let mut dump = examiner.finish(sha256);
        if let Some(damage) = damage {
            dump.reason = Some(damage);
        }
        dump.compressed = compressed;
        Ok(dump)
    }

    /// What is wrong with its compression, as a clause; and the compressed file.
    fn read_through(&self, takers: &[SyncSender<SharedChunk>]) -> io::Result<(Option<String>, Option<CompressedFile>)> {
        let mut text = FrameReader::from(self.compression, &self.file, 0, self.compression.is_some());
        let mut size = 0;
        let damage = loop {
            let mut piece = Vec::with_capacity(CHUNK);
            let read = text.by_ref().take(CHUNK as u64).read_to_end(&mut piece);
            // What comes before a fault counts too.
            if !piece.is_empty() {
                size += piece.len() as u64;
                let piece = Arc::new(piece);
                let taken = takers.iter().try_for_each(|taker| taker.send(Arc::clone(&piece)));
                taken.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
            }
            match read {
                Ok(0) => break None,
                Ok(_) => {}
                // The disk, not the compression.
                Err(error) if error.raw_os_error().is_some() => return Err(error),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    break Some("it is cut: its compressed data ends too early".to_owned());
                }
                Err(error) => break Some(format!("its compressed data is damaged ({error})")),
            }
        };
        let Some(compression) = self.compression else { return Ok((None, None)) };
        let (size_bytes, sha256, starts) = text.finish()?;
        let _ = self.frames.set(FrameIndex::new(compression, starts, size));
        Ok((damage, Some(CompressedFile { compression, size_bytes, sha256 })))
    }

    /// Refuses (7) a file that was written to since it was opened: what was loaded may not be what was examined.
    pub fn unchanged(&self) -> Result<(), Failure> {
        if stamp(&self.file).is_ok_and(|now| now == self.opened) {
            return Ok(());
        }
        Err(Failure::invalid("dump_invalid", format!("{} was written to while it was loaded.", self.path.display()))
            .hint("Stop what writes to the dump, and run the same command again."))
    }
}

/// A piece of text for several threads.
type SharedChunk = Arc<Vec<u8>>;

fn sha256(pieces: Receiver<SharedChunk>) -> String {
    let mut hash = Sha256::new();
    pieces.into_iter().for_each(|piece| hash.update(&*piece));
    file::hex(&hash.finalize())
}

fn stamp(file: &File) -> io::Result<Stamp> {
    let meta = file.metadata()?;
    Ok((meta.len(), meta.modified().ok()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn read_ends_with_broken_pipe_if_receiver_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let text = "-- many words\n".repeat(100_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
        for bytes in [text.clone().into_bytes(), gzip.finish().unwrap(), zstd] {
            let path = dir.path().join("dump");
            std::fs::write(&path, bytes).unwrap();
            let (send, pieces) = sync_channel(WAITING);
            drop(pieces);
            let read = DumpFile::open(&path).unwrap().read_through(&[send]).map(|_| ()).unwrap_err();
            assert_eq!(read.kind(), ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn text_before_damage_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump");
        let line = "-- a line of many words\n";
        let mut bytes = zstd::encode_all(line.repeat(20_000).as_bytes(), 1).unwrap();
        bytes.extend_from_slice(b"no frame");
        std::fs::write(&path, bytes).unwrap();
        let (send, pieces) = sync_channel(WAITING);
        let (damage, _) = DumpFile::open(&path).unwrap().read_through(&[send]).unwrap();
        assert!(damage.unwrap().contains("damaged"));
        assert_eq!(pieces.into_iter().map(|piece| piece.len()).sum::<usize>(), 20_000 * line.len());
    }
}
