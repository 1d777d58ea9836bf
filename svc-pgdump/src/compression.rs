//! Compressed dumps: the methods, and how a file tells that it is compressed.
//!
//! What is written here is a row of frames (zstd) or members (gzip), each of so much text, whole in itself and with a checksum of
//! its own. Both formats allow it, and every reader of them takes it for one file; but a dump that is made so can be read from
//! any place on, which loading over several connections needs.

mod frames;
mod pack;
mod segments;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use frames::{Frames, Onward, Start};
pub(crate) use pack::Packer;
pub(crate) use segments::Segments;

/// How much text is compressed as one piece: enough that little of the compression is lost, and little enough that reading a
/// small table in the middle of a dump costs a millisecond.
const FRAME: usize = 1024 * 1024;

/// How a dump is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Zstandard: quick, and small
    Zstd,
    /// Gzip: for readers that know nothing else; slower
    Gzip,
}

/// A compressed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// How it is compressed.
    pub compression: Compression,
    /// The size of the file.
    pub size_bytes: u64,
    /// The SHA-256 of the file, in hex.
    pub sha256: String,
}

impl Compression {
    /// What is added to the name of a plain dump.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// By the first four bytes of a file, whatever it is called.
    #[must_use]
    pub const fn of_start(start: &[u8]) -> Option<Self> {
        match start {
            // The second one is a frame that is to be passed over, as some compressors begin with.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
