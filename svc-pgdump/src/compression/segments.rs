//! A compressed dump read at any place: the frame that holds it is decompressed, and kept for a while.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Compression, Frames, Start};

/// A file with a frame of more text than this is read from its beginning only.
const LONGEST: u64 = 8 * 1024 * 1024;
/// How many frames beyond one for each core are kept.
const KEPT: usize = 4;

/// Where the frames of a file begin, and the text of the last ones that were asked for.
#[derive(Debug)]
pub(crate) struct Segments {
    compression: Compression,
    starts: Vec<Start>,
    /// The size of the text.
    size: u64,
    kept: Mutex<VecDeque<(usize, Arc<Vec<u8>>)>>,
    room: usize,
}

impl Segments {
    pub(crate) fn new(compression: Compression, starts: Vec<Start>, size: u64) -> Self {
        let room = std::thread::available_parallelism().map_or(1, usize::from) + KEPT;
        Self { compression, starts, size, kept: Mutex::default(), room }
    }

    /// Whether no frame is longer than what is worth being decompressed for one place in it.
    pub(crate) fn are_short(&self) -> bool {
        let ends = self.starts.iter().skip(1).map(|start| start.text).chain([self.size]);
        self.starts.iter().zip(ends).all(|(start, end)| end - start.text <= LONGEST)
    }

    /// Reads text at a place, as much as is at hand there; 0 at the end.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it was.
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
        let found = self.kept().iter().find(|(kept, _)| *kept == number).map(|(_, text)| Arc::clone(text));
        if let Some(text) = found {
            return Ok(text);
        }
        // Two threads may decompress the same one, which is better than one of them waiting for another frame's.
        let end = self.starts.get(number + 1).map_or(self.size, |next| next.text);
        let mut text = vec![0; usize::try_from(end - start.text).unwrap_or_default()];
        Frames::from(self.compression, file, start.file, false).read_exact(&mut text)?;
        let text = Arc::new(text);
        let mut kept = self.kept();
        kept.push_back((number, Arc::clone(&text)));
        if kept.len() > self.room {
            kept.pop_front();
        }
        Ok(text)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<(usize, Arc<Vec<u8>>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
