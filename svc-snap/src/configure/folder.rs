//! The repository's folder (procedure, 4.1 step 1): there, owned by the server's user, and reachable for it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use nix::unistd::{geteuid, getgrouplist};
use svc_step::action::Action;
use svc_step::user::OsUser;
use svc_step::{Call, Failure};

/// The folder and its user.
#[derive(Debug)]
pub(crate) struct Folder<'a> {
    pub path: &'a Path,
    pub user: &'a OsUser,
}

/// What has to be done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Todo {
    /// Parents that are not there yet, outermost first, and then the folder itself.
    make: Vec<PathBuf>,
    /// What in it is another user's.
    chown: Vec<PathBuf>,
}

impl Folder<'_> {
    /// Looks at it and at its parents.
    ///
    /// # Errors
    /// It is directly under /tmp, no folder, or below one that the user cannot pass (3).
    pub(crate) fn look(&self) -> Result<Todo, Failure> {
        if self.path.parent().is_none() || self.path.parent() == Some(Path::new("/tmp")) {
            return Err(Failure::refused("location_under_tmp", format!("{} is no place for backups.", self.path.display()))
                .hint("/tmp is emptied when the machine starts, and services may have one of their own; name a folder such as /var/backups/search/backup_repo."));
        }
        let mut make: Vec<PathBuf> = Vec::new();
        for folder in self.path.ancestors() {
            match fs::metadata(folder) {
                Ok(meta) if !meta.is_dir() => return Err(no_folder(folder)),
                Ok(meta) if folder != self.path && !self.may_pass(&meta) => return Err(self.closed(folder)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => make.insert(0, folder.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(Failure::io("look at the repository's folder", folder, &error)),
            }
        }
        let mut chown = Vec::new();
        if make.is_empty() {
            self.find_others(self.path, &mut chown)?;
        } else {
            chown.push(self.path.to_owned());
        }
        Ok(Todo { make, chown })
    }

    /// The rights that the kernel would find, by the permission bits.
    fn may_pass(&self, meta: &fs::Metadata) -> bool {
        let bit = if self.user.uid.is_root() {
            return true;
        } else if meta.uid() == self.user.uid.as_raw() {
            0o100
        } else if self.groups().contains(&meta.gid()) {
            0o010
        } else {
            0o001
        };
        meta.mode() & bit != 0
    }

    fn groups(&self) -> BTreeSet<u32> {
        let name = CString::new(self.user.name.as_str()).unwrap_or_default();
        let groups = getgrouplist(&name, self.user.gid).unwrap_or_default();
        groups.into_iter().chain([self.user.gid]).map(nix::unistd::Gid::as_raw).collect()
    }

    fn closed(&self, folder: &Path) -> Failure {
        Failure::refused(
            "folder_not_passable",
            format!("The user {} cannot pass {}, so it would not reach the repository.", self.user.name, folder.display()),
        )
        .hint(format!("Open it (chmod o+x {}), or name a folder elsewhere with --location.", folder.display()))
    }

    /// What is another user's, the folder itself and a link as such among it.
    fn find_others(&self, path: &Path, others: &mut Vec<PathBuf>) -> Result<(), Failure> {
        let fault = |error: io::Error| Failure::io("look through the repository's folder", path, &error);
        let meta = fs::symlink_metadata(path).map_err(fault)?;
        if meta.uid() != self.user.uid.as_raw() {
            others.push(path.to_owned());
        }
        if meta.is_dir() {
            for entry in fs::read_dir(path).map_err(fault)? {
                self.find_others(&entry.map_err(fault)?.path(), others)?;
            }
        }
        Ok(())
    }

    /// What [`Folder::act`] does.
    pub(crate) fn plan(&self, todo: &Todo) -> Vec<Action> {
        let mut plan: Vec<Action> = todo.make.iter().map(|folder| Action::file(folder, "create the folder")).collect();
        if !todo.chown.is_empty() {
            plan.push(Action::file(self.path, format!("chown to {}, with all that is in it", self.user.name)));
        }
        plan
    }

    /// Makes it so.
    ///
    /// # Errors
    /// No rights (3), or the disk does not take it (1).
    pub(crate) fn act(&self, call: &Call, todo: &Todo) -> Result<(), Failure> {
        for folder in &todo.make {
            // Parents are for everybody to pass; the repository itself is for its owner.
            let mode = if folder == self.path { 0o750 } else { 0o755 };
            match fs::DirBuilder::new().mode(mode).create(folder) {
                Ok(()) => {
                    call.effects().happened();
                    // The caller's umask would close a parent to the server (scripts have 077).
                    fs::set_permissions(folder, fs::Permissions::from_mode(mode))
                        .map_err(|error| Failure::io("open the folder", folder, &error))?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::io("create the repository's folder", folder, &error)),
            }
        }
        for path in &todo.chown {
            lchown(path, Some(self.user.uid.as_raw()), Some(self.user.gid.as_raw()))
                .map_err(|error| Failure::io("give the repository's folder to the server's user", path, &error))?;
            call.effects().happened();
        }
        Ok(())
    }
}

/// Only root can give files away.
///
/// # Errors
/// This is neither root nor that user (3).
pub(crate) fn check_rights(user: &OsUser) -> Result<(), Failure> {
    if geteuid().is_root() || user.is_current() {
        return Ok(());
    }
    Err(Failure::refused("not_root", format!("Only root can give a folder to the user {}.", user.name))
        .hint("Run the command with sudo."))
}

fn no_folder(path: &Path) -> Failure {
    Failure::refused("location_no_folder", format!("{} is no folder.", path.display()))
        .hint("Name another place with --location.")
}
