//! What the threads of a load share: the dump's file, how far they are, and whether one of them has failed.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use svc_pgdump::DumpFile;
use svc_step::Failure;
use svc_step::progress::Progress;

use super::super::Load;
use super::super::plan::Span;

/// How much of the dump is read at once.
pub(super) const CHUNK: usize = 256 * 1024;

pub(super) struct Work<'a> {
    dump: &'a DumpFile,
    /// `server_version_num`.
    pub(super) server: u32,
    total: u64,
    done: AtomicU64,
    rows: AtomicU64,
    started: Instant,
    progress: &'a Progress,
    failed: AtomicBool,
}

impl<'a> Work<'a> {
    pub(super) fn new(load: &Load<'a>, progress: &'a Progress) -> Self {
        Self {
            dump: load.dump,
            server: load.server,
            total: load.size_bytes,
            done: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            started: Instant::now(),
            progress,
            failed: AtomicBool::new(false),
        }
    }

    /// Whether a thread has failed, so that the others work for nothing.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// A thread has failed; the first one to say so is the one whose reason counts.
    pub(super) fn fail(&self) -> bool {
        !self.failed.swap(true, Ordering::SeqCst)
    }

    pub(super) fn at(&self, what: &str) {
        if self.progress.is_shown() {
            let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
            let rate = self.rows.load(Ordering::Relaxed).saturating_mul(1000) / millis;
            self.progress.at(&format!("{what}, {rate} rows/s"));
        }
    }

    pub(super) fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.progress.set(done, self.total);
    }

    pub(super) fn rows_sent(&self, rows: &[u8], what: &str) {
        if self.progress.is_shown() {
            self.rows.fetch_add(memchr::memchr_iter(b'\n', rows).count() as u64, Ordering::Relaxed);
            self.at(what);
        }
        self.advance(rows.len() as u64);
    }

    /// Hands a part of the dump over in pieces.
    pub(super) fn read<E: From<Unread>>(
        &self,
        span: Span,
        chunk: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        chunk.resize(CHUNK, 0);
        let mut at = span.at.byte;
        let end = at + span.size;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let buffer = chunk.get_mut(..wanted).unwrap_or_default();
            let read = match self.dump.read_text_at(buffer, at) {
                Ok(0) => return Err(Unread(io::ErrorKind::UnexpectedEof.into()).into()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Unread(error).into()),
            };
            take(buffer.get(..read).unwrap_or_default())?;
            at += read as u64;
        }
        Ok(())
    }

    pub(super) fn text(&self, span: Span) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        self.read(span, &mut Vec::new(), |piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), Unread>(())
        })?;
        text(bytes)
    }
}

/// The statement that these bytes are; they were when the dump was examined.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| Unread(io::Error::new(io::ErrorKind::InvalidData, error)).into())
}

/// The dump's file cannot be read, or is not what it was.
#[derive(Debug)]
pub(super) struct Unread(io::Error);

impl From<Unread> for Failure {
    fn from(Unread(error): Unread) -> Self {
        super::super::unreadable(&error)
    }
}
