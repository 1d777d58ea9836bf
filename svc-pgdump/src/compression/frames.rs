//! Decompressing: the text of a file, frame by frame, and where each frame begins.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::GzDecoder;
use sha2::{Digest, Sha256};
use svc_step::file;
use zstd::stream::read::Decoder;

use super::Compression;

/// How much of a file is read at once.
const CHUNK: usize = 256 * 1024;
/// Frames that are smaller than this are taken together with the next ones, or a file of tiny ones would fill the memory with
/// their places.
const SMALLEST: u64 = 256 * 1024;

/// A file from some place on, whoever else reads it.
#[derive(Debug)]
pub(crate) struct Onward<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> Onward<'a> {
    pub(crate) const fn from(file: &'a File, at: u64) -> Self {
        Self { file, at }
    }
}

impl Read for Onward<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.file.read_at(buffer, self.at)?;
        self.at += size as u64;
        Ok(size)
    }
}

/// What passes by is counted and hashed.
struct Tally<'a> {
    input: BufReader<Onward<'a>>,
    hash: Option<Sha256>,
    at: u64,
}

impl Read for Tally<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.fill_buf()?.read(buffer)?;
        self.consume(size);
        Ok(size)
    }
}

impl BufRead for Tally<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, size: usize) {
        if let Some(hash) = &mut self.hash {
            hash.update(self.input.buffer().get(..size).unwrap_or_default());
        }
        self.at += size as u64;
        self.input.consume(size);
    }
}

/// Where a frame begins, in the text and in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) text: u64,
    pub(crate) file: u64,
}

/// The text of a compressed file.
pub(crate) struct Frames<'a> {
    compression: Compression,
    state: State<'a>,
    text: u64,
    starts: Vec<Start>,
}

enum State<'a> {
    Between(Tally<'a>),
    Zstd(Decoder<'static, Tally<'a>>),
    Gzip(Box<GzDecoder<Tally<'a>>>),
    /// A decoder could not be had.
    Lost,
}

impl<'a> Frames<'a> {
    /// The text of the frames from that place of the file on; the file is hashed on the way where that is wanted.
    pub(crate) fn from(compression: Compression, file: &'a File, at: u64, hashed: bool) -> Self {
        let input = BufReader::with_capacity(CHUNK, Onward::from(file, at));
        let tally = Tally { input, hash: hashed.then(Sha256::new), at };
        Self { compression, state: State::Between(tally), text: 0, starts: Vec::new() }
    }

    /// Reads the rest of the file, whatever it holds; its size, its hash and where its frames begin.
    pub(crate) fn finish(self) -> io::Result<(u64, String, Vec<Start>)> {
        let mut tally = match self.state {
            State::Between(tally) => tally,
            State::Zstd(decoder) => decoder.finish(),
            State::Gzip(decoder) => decoder.into_inner(),
            State::Lost => return Err(io::ErrorKind::OutOfMemory.into()),
        };
        io::copy(&mut tally, &mut io::sink())?;
        let hash = tally.hash.map(|hash| file::hex(&hash.finalize()));
        Ok((tally.at, hash.unwrap_or_default(), self.starts))
    }

    fn begin(&mut self, tally: Tally<'a>) -> io::Result<()> {
        let start = Start { text: self.text, file: tally.at };
        if self.starts.last().is_none_or(|last| start.text - last.text >= SMALLEST) {
            self.starts.push(start);
        }
        self.state = match self.compression {
            Compression::Zstd => State::Zstd(Decoder::with_buffer(tally)?.single_frame()),
            Compression::Gzip => State::Gzip(Box::new(GzDecoder::new(tally))),
        };
        Ok(())
    }
}

impl Read for Frames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = match &mut self.state {
                State::Between(tally) => {
                    if tally.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    0
                }
                State::Zstd(decoder) => decoder.read(buffer)?,
                State::Gzip(decoder) => decoder.read(buffer)?,
                State::Lost => return Err(io::ErrorKind::OutOfMemory.into()),
            };
            if size > 0 || buffer.is_empty() {
                self.text += size as u64;
                return Ok(size);
            }
            match std::mem::replace(&mut self.state, State::Lost) {
                State::Between(tally) => self.begin(tally)?,
                State::Zstd(decoder) => self.state = State::Between(decoder.finish()),
                State::Gzip(decoder) => self.state = State::Between(decoder.into_inner()),
                State::Lost => {}
            }
        }
    }
}
