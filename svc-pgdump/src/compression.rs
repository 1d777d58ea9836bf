//! Compressed dumps: the methods, and how a file tells that it is compressed.
//!
//! What is written here is a row of frames (zstd) or members (gzip), each of so much text, complete in itself and with a checksum of
//! its own. Both formats allow it, and every reader of them takes it for one file; but a dump that is made so can be read from
//! any place on, which loading over several connections needs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use svc_step::file;
use zstd::stream::read::Decoder;

/// How much text is compressed as one piece: enough that little of the compression is lost, and little enough that reading a
/// small table in the middle of a dump costs a millisecond.
const FRAME: usize = 1024 * 1024;

/// How a dump is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "svc-pgdump.Compression")]
pub enum Compression {
    /// Zstandard: quick, and small
    Zstd,
    /// Gzip: for readers that know nothing else; slower
    Gzip,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedFile {
    pub compression: Compression,
    pub size_bytes: u64,
    pub sha256: String,
}

impl Compression {
    /// What is added to the name of a plain dump.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// By the first four bytes of a file, whatever it is called.
    pub const fn of_start(start: &[u8]) -> Option<Self> {
        match start {
            // The second one is a frame that is to be passed over, as some compressors begin with.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            _ => None,
        }
    }
}

/// Zstandard's own default.
const ZSTD_LEVEL: i32 = 3;
/// Less than its default, since it is the slow one of the two anyway, and pg_dump is not to wait for it.
const GZIP_LEVEL: u32 = 3;

/// After so many bytes their way to the disk begins.
const WRITE_BACK: u64 = 8 << 20;

/// Hashes SQL, and writes it into a file: as it is, or compressed.
pub(crate) struct CompressingWriter<'a> {
    file: &'a File,
    compression: Option<Compression>,
    text_hash: Sha256,
    text: Vec<u8>,
    hash: Sha256,
    size: u64,
    /// What of it is on its way to the disk.
    begun: u64,
}

impl<'a> CompressingWriter<'a> {
    pub(crate) fn new(compression: Option<Compression>, file: &'a File) -> Self {
        Self { file, compression, text_hash: Sha256::new(), text: Vec::new(), hash: Sha256::new(), size: 0, begun: 0 }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.text_hash.update(bytes);
        let Some(compression) = self.compression else { return self.put(bytes) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, after) = rest.split_at_checked(FRAME - self.text.len()).unwrap_or((rest, &[]));
            self.text.extend_from_slice(taken);
            if self.text.len() == FRAME {
                self.frame(compression)?;
            }
            rest = after;
        }
        Ok(())
    }

    /// All text was written; the last frame goes out. Gives the SHA-256 of the SQL, and the file if it is compressed: else it is the SQL.
    pub(crate) fn finish(mut self) -> io::Result<(String, Option<CompressedFile>)> {
        if let Some(compression) = self.compression.filter(|_| !self.text.is_empty()) {
            self.frame(compression)?;
        }
        let sha256 = file::hex(&self.hash.finalize());
        let compressed = self.compression.map(|compression| CompressedFile { compression, size_bytes: self.size, sha256 });
        Ok((file::hex(&self.text_hash.finalize()), compressed))
    }

    fn frame(&mut self, compression: Compression) -> io::Result<()> {
        let frame = match compression {
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                encoder.set_pledged_src_size(Some(self.text.len() as u64))?;
                encoder.write_all(&self.text)?;
                encoder.finish()?
            }
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
                encoder.write_all(&self.text)?;
                encoder.finish()?
            }
        };
        self.text.clear();
        self.hash.update(&frame);
        self.put(&frame)
    }

    /// Lets the system write to the disk while more is coming, so that little is left for the sync at the end, which reports every
    /// fault.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        if let (true, Ok(at)) = (self.size - self.begun >= WRITE_BACK, i64::try_from(self.begun)) {
            // The system begins to write what the advice names (to the end of the file), and drops only what was written long ago.
            let _ = posix_fadvise(self.file, at, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
            self.begun = self.size;
        }
        Ok(())
    }
}

/// How much of a file is read at once.
const CHUNK: usize = 256 * 1024;
/// Frames that are smaller than this are taken together with the next ones, or a file of tiny ones would fill the memory with
/// their places.
const SMALLEST: u64 = 256 * 1024;

/// A file from some place on, whoever else reads it; it is hashed on the way if that is wanted.
#[derive(Debug)]
struct HashingReader<'a> {
    file: &'a File,
    at: u64,
    hash: Option<Sha256>,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.file.read_at(buffer, self.at)?;
        self.at += size as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(buffer.get(..size).unwrap_or_default());
        }
        Ok(size)
    }
}

/// Where a frame begins, in the text and in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) text: u64,
    pub(crate) file: u64,
}

/// The text of a file.
pub(crate) struct FrameReader<'a> {
    /// `None`: it is plain.
    compression: Option<Compression>,
    state: State<'a>,
    text: u64,
    starts: Vec<Start>,
}

type Input<'a> = BufReader<HashingReader<'a>>;

enum State<'a> {
    Between(Input<'a>),
    Zstd(Decoder<'static, Input<'a>>),
    Gzip(Box<GzDecoder<Input<'a>>>),
    Lost,
}

impl<'a> FrameReader<'a> {
    /// The text of the frames from that place of the file on.
    pub(crate) fn from(compression: Option<Compression>, file: &'a File, at: u64, hashed: bool) -> Self {
        let reader = HashingReader { file, at, hash: hashed.then(Sha256::new) };
        let state = State::Between(BufReader::with_capacity(CHUNK, reader));
        Self { compression, state, text: 0, starts: Vec::new() }
    }

    /// Reads the rest of the file, whatever it holds; its size, its hash and where its frames begin.
    pub(crate) fn finish(self) -> io::Result<(u64, String, Vec<Start>)> {
        let input = match self.state {
            State::Between(input) => input,
            State::Zstd(decoder) => decoder.finish(),
            State::Gzip(decoder) => decoder.into_inner(),
            State::Lost => return Err(io::ErrorKind::OutOfMemory.into()),
        };
        let mut rest = input.into_inner();
        io::copy(&mut rest, &mut io::sink())?;
        let hash = rest.hash.map(|hash| file::hex(&hash.finalize()));
        Ok((rest.at, hash.unwrap_or_default(), self.starts))
    }

    fn begin(&mut self, compression: Compression, input: Input<'a>) -> io::Result<State<'a>> {
        let start = Start { text: self.text, file: input.get_ref().at - input.buffer().len() as u64 };
        if self.starts.last().is_none_or(|last| start.text - last.text >= SMALLEST) {
            self.starts.push(start);
        }
        Ok(match compression {
            Compression::Zstd => State::Zstd(Decoder::with_buffer(input)?.single_frame()),
            Compression::Gzip => State::Gzip(Box::new(GzDecoder::new(input))),
        })
    }
}

impl Read for FrameReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = match (&mut self.state, self.compression) {
                (State::Between(input), None) => return input.read(buffer),
                (State::Between(input), Some(_)) => {
                    if input.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    0
                }
                (State::Zstd(decoder), _) => decoder.read(buffer)?,
                (State::Gzip(decoder), _) => decoder.read(buffer)?,
                (State::Lost, _) => return Err(io::ErrorKind::OutOfMemory.into()),
            };
            if size > 0 || buffer.is_empty() {
                self.text += size as u64;
                return Ok(size);
            }
            self.state = match (std::mem::replace(&mut self.state, State::Lost), self.compression) {
                (State::Between(input), Some(compression)) => self.begin(compression, input)?,
                (State::Zstd(decoder), _) => State::Between(decoder.finish()),
                (State::Gzip(decoder), _) => State::Between(decoder.into_inner()),
                (other, _) => other,
            };
        }
    }
}

/// A frame of more text than this is not worth being decompressed for one place in it.
const LONGEST_FRAME: u64 = 8 * 1024 * 1024;
/// How many frames beyond one for each core are cached.
const CACHED: usize = 4;

/// Where the frames of a file begin, and the text of the last ones that were asked for.
#[derive(Debug)]
pub(crate) struct FrameIndex {
    compression: Compression,
    starts: Vec<Start>,
    size: u64,
    cached: Mutex<VecDeque<(usize, Arc<Vec<u8>>)>>,
}

impl FrameIndex {
    pub(crate) fn new(compression: Compression, starts: Vec<Start>, size: u64) -> Self {
        Self { compression, starts, size, cached: Mutex::default() }
    }

    pub(crate) fn are_short(&self) -> bool {
        let ends = self.starts.iter().skip(1).map(|start| start.text).chain([self.size]);
        self.starts.iter().zip(ends).all(|(start, end)| end - start.text <= LONGEST_FRAME)
    }

    /// Reads text at a place, as much as is at hand there; 0 at the end.
    pub(crate) fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.size {
            return Ok(0);
        }
        let number = self.starts.partition_point(|start| start.text <= at).saturating_sub(1);
        let Some(start) = self.starts.get(number) else { return Ok(0) };
        let text = self.text(file, number, *start)?;
        let offset = usize::try_from(at - start.text).unwrap_or(usize::MAX);
        let mut rest = text.get(offset..).unwrap_or_default();
        rest.read(buffer)
    }

    fn text(&self, file: &File, number: usize, start: Start) -> io::Result<Arc<Vec<u8>>> {
        let found = self.cached().iter().find(|(cached, _)| *cached == number).map(|(_, text)| Arc::clone(text));
        if let Some(text) = found {
            return Ok(text);
        }
        // Two threads may decompress the same one, which is better than one of them waiting for another frame's.
        let end = self.starts.get(number + 1).map_or(self.size, |next| next.text);
        let mut text = vec![0; usize::try_from(end - start.text).unwrap_or_default()];
        FrameReader::from(Some(self.compression), file, start.file, false).read_exact(&mut text)?;
        let text = Arc::new(text);
        let mut cached = self.cached();
        cached.push_back((number, Arc::clone(&text)));
        if cached.len() > CACHED + std::thread::available_parallelism().map_or(1, usize::from) {
            cached.pop_front();
        }
        Ok(text)
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, VecDeque<(usize, Arc<Vec<u8>>)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
