//! The file that was there before, kept beside the one that takes its place.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::{Existing, beside, exists, open_no_link, sync_folder_of, write_complete};
use crate::failure::Failure;

/// Where the previous file of a replacement is kept.
#[derive(Debug)]
pub struct Previous {
    /// The name that it gets.
    pub path: PathBuf,
    /// It is there already, kept by a call that was interrupted.
    done: bool,
}

impl Previous {
    /// Finds the first name, of those that `suffix` makes of 1, 2, …, that is free or holds just `bytes`, the content of the file at
    /// `path`.
    ///
    /// # Errors
    /// All names are taken (3), or the directory cannot be read.
    pub fn plan(path: &Path, bytes: &[u8], suffix: impl Fn(usize) -> String) -> Result<Self, Failure> {
        for number in 1..10_000 {
            let kept = beside(path, &suffix(number));
            match fs::symlink_metadata(&kept) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self { path: kept, done: false }),
                Err(error) => return Err(Failure::io("inspect a previous file", &kept, &error)),
                Ok(_) if holds(&kept, bytes) => return Ok(Self { path: kept, done: true }),
                Ok(_) => {}
            }
        }
        Err(Failure::refused("name_in_use", format!("Too many previous files are beside {}.", path.display()))
            .hint("Remove those that nobody needs."))
    }

    /// The same with this suffix, and behind it 2, …
    ///
    /// # Errors
    /// As [`Previous::plan`].
    pub fn plan_named(path: &Path, bytes: &[u8], suffix: &str) -> Result<Self, Failure> {
        Self::plan(path, bytes, |number| if number == 1 { suffix.to_owned() } else { format!("{suffix}.{number}") })
    }

    /// Gives the file at `path` its second name, so that it keeps its rights. The name that it has stays until another file takes it:
    /// at no moment is there none. Where it can have no second name, a private copy of `bytes` is made.
    ///
    /// # Errors
    /// The name was taken meanwhile (3), or the disk does not take it (1).
    pub fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        match fs::hard_link(path, &self.path) {
            Ok(()) => sync_folder_of(&self.path).inspect_err(|_| self.undo()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(&self.path)),
            // Some file systems have no second names, and none has them across two.
            Err(_) => write_complete(&self.path, bytes, 0o600, Existing::Keep),
        }
    }

    /// Takes the second name away again, if this call gave it.
    pub fn undo(&self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// As documents have it.
    pub fn display(&self) -> String {
        self.path.display().to_string()
    }
}

fn holds(path: &Path, bytes: &[u8]) -> bool {
    let Ok(file) = open_no_link("inspect a previous file", path) else { return false };
    let mut found = Vec::new();
    file.take(bytes.len() as u64 + 1).read_to_end(&mut found).is_ok() && found == bytes
}
