//! Links that somebody may have planted on the way to a file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use svc_step::{Failure, file};

/// Refuses a path that leads through another user's link in a folder where anybody can put one: it leads where that user likes.
/// The last part of the path is judged too.
///
/// # Errors
/// It does (3).
pub(crate) fn refuse_links(path: &Path) -> Result<(), Failure> {
    let is_planted = |part: &&Path| {
        let owner = fs::symlink_metadata(part).ok().filter(|meta| meta.is_symlink()).map(|meta| meta.uid());
        let is_foreign = owner.is_some_and(|uid| uid != 0 && uid != geteuid().as_raw());
        is_foreign && fs::metadata(file::folder_of(part)).is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0)
    };
    // Without a slash at its end, which would lead through the link.
    let path: PathBuf = path.components().collect();
    let Some(link) = path.ancestors().find(is_planted) else { return Ok(()) };
    Err(Failure::refused(
        "foreign_link",
        format!("{} is another user's link and lies where anybody can put one.", link.display()),
    )
    .hint("Look at it with ls -l; remove it if nobody can say why it is there, or name the folder that it leads to."))
}
