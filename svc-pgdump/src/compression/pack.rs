//! Compressing: text in, frames out.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use svc_step::file;
use zstd::zstd_safe::{CParameter, compress_bound};

use super::{Compression, FRAME, Packed};

/// Zstandard's own default.
const ZSTD_LEVEL: i32 = 3;
/// Less than its default, since it is the slow one of the two anyway, and pg_dump is not to wait for it.
const GZIP_LEVEL: u32 = 3;

/// Compresses what is written to it into `out`.
pub(crate) struct Packer<W> {
    out: W,
    compression: Compression,
    encoder: Encoder,
    text: Vec<u8>,
    frame: Vec<u8>,
    hash: Sha256,
    size: u64,
}

enum Encoder {
    Zstd(Box<zstd::bulk::Compressor<'static>>),
    Gzip,
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(compression: Compression, out: W) -> io::Result<Self> {
        let encoder = match compression {
            Compression::Zstd => {
                let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
                compressor.set_parameter(CParameter::ChecksumFlag(true))?;
                Encoder::Zstd(Box::new(compressor))
            }
            Compression::Gzip => Encoder::Gzip,
        };
        let text = Vec::with_capacity(FRAME);
        Ok(Self { out, compression, encoder, text, frame: Vec::new(), hash: Sha256::new(), size: 0 })
    }

    /// All text was written; the last frame goes out.
    pub(crate) fn finish(mut self) -> io::Result<Packed> {
        self.frame()?;
        self.out.flush()?;
        Ok(Packed { compression: self.compression, size_bytes: self.size, sha256: file::hex(&self.hash.finalize()) })
    }

    fn frame(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.frame.clear();
        match &mut self.encoder {
            Encoder::Zstd(compressor) => {
                self.frame.reserve(compress_bound(self.text.len()));
                compressor.compress_to_buffer(&self.text, &mut self.frame)?;
            }
            Encoder::Gzip => {
                let mut encoder = GzEncoder::new(std::mem::take(&mut self.frame), flate2::Compression::new(GZIP_LEVEL));
                encoder.write_all(&self.text)?;
                self.frame = encoder.finish()?;
            }
        }
        self.text.clear();
        self.hash.update(&self.frame);
        self.size += self.frame.len() as u64;
        self.out.write_all(&self.frame)
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (taken, _) = bytes.split_at_checked(FRAME - self.text.len()).unwrap_or((bytes, &[]));
        self.text.extend_from_slice(taken);
        if self.text.len() == FRAME {
            self.frame()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
