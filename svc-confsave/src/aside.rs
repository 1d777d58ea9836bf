//! The file that was there before, kept beside the one that takes its place.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use svc_step::Failure;
use svc_step::file::{self, Existing};

use crate::content::Content;
use crate::layout::present;

/// Where a file is to be kept.
#[derive(Debug)]
pub(crate) struct Aside {
    pub path: PathBuf,
    /// It is there already, kept by a call that was cut.
    done: bool,
}

impl Aside {
    /// Finds the first name, of those that `name` makes of 1, 2, …, that is free or holds just this content.
    pub(crate) fn plan(content: &Content, name: impl Fn(usize) -> String) -> Result<Self, Failure> {
        for number in 1..10_000 {
            let path = file::beside(&content.path, &name(number));
            if !present(&path)? {
                return Ok(Self { path, done: false });
            }
            let kept = Content::read_no_link("look at a kept file", &path);
            if kept.is_ok_and(|kept| kept.bytes == content.bytes) {
                return Ok(Self { path, done: true });
            }
        }
        Err(Failure::refused("too_many_kept", format!("Too many former files are kept beside {}.", content.path.display()))
            .hint("Remove those that nobody needs."))
    }

    /// Gives the file its second name. The one that it has stays until another file takes it, so that at no moment there is
    /// none.
    pub(crate) fn keep(&self, content: &Content) -> Result<(), Failure> {
        if self.done {
            return Ok(());
        }
        match fs::hard_link(&content.path, &self.path) {
            Ok(()) => file::sync_folder_of(&self.path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(file::exists(&self.path)),
            // Some file systems have no second names.
            Err(_) => file::write_whole(&self.path, &content.bytes, 0o600, Existing::Keep),
        }
    }

    /// Takes the second name away again, where this call gave it.
    pub(crate) fn undo(&self) {
        if !self.done {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// As documents have it.
    pub(crate) fn display(&self) -> String {
        self.path.display().to_string()
    }
}
