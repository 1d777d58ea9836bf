//! A new content for a file in use: whole or not at all, owner and mode kept, what was there before kept beside it.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use nix::unistd::{getegid, geteuid};
use svc_step::file::{Existing, WholeFile};
use svc_step::{Call, Failure};

use crate::aside::Aside;
use crate::content::Content;

/// Puts `bytes` in the place of `old`, which is kept as `aside`. Nothing is altered on failure.
pub(crate) fn replace(call: &Call, old: &Content, bytes: &[u8], aside: &Aside) -> Result<(), Failure> {
    call.check()?;
    let mut file = WholeFile::create(&old.path, 0o600)?;
    file.write_all(bytes).map_err(|error| Failure::io("write the configuration", &old.path, &error))?;
    keep_owner(&mut file, old)?;
    let now = Content::read_no_link("read the configuration", &old.path)?;
    if now.bytes != old.bytes {
        return Err(Failure::refused(
            "config_changed_meanwhile",
            format!("{} was changed while this call ran.", old.path.display()),
        )
        .hint("Find out who writes to it, then run the same command again."));
    }
    aside.keep(old)?;
    // From here on there is a file more, at least.
    call.effects().happened();
    if let Err(failure) = file.publish(Existing::Replace) {
        let untouched = Content::read_no_link("read the configuration", &old.path).is_ok_and(|now| now.bytes == old.bytes);
        if untouched {
            aside.undo();
            call.effects().undone();
        }
        return Err(failure);
    }
    let now = Content::read_no_link("read the configuration back", &old.path)?;
    if now.bytes == bytes { Ok(()) } else { Err(not_as_written(old)) }
}

fn keep_owner(file: &mut WholeFile, old: &Content) -> Result<(), Failure> {
    let (uid, gid) = (old.meta.uid(), old.meta.gid());
    let path = old.path.clone();
    if uid != geteuid().as_raw() || gid != getegid().as_raw() {
        fchown(&*file.file(), Some(uid), Some(gid)).map_err(|error| {
            Failure::refused("owner_not_kept", format!("The new {} could not be given to its present owner.", path.display()))
                .hint("Run the command as root (sudo), or as the owner of that file.")
                .cause(error.to_string())
        })?;
    }
    let mode = Permissions::from_mode(old.mode());
    file.file().set_permissions(mode).map_err(|error| Failure::io("set the mode", &path, &error))
}

fn not_as_written(old: &Content) -> Failure {
    Failure::failed("config_not_as_written", format!("{} is not as it was written a moment ago.", old.path.display()))
        .hint("Find out who writes to it; the file before is beside it.")
}
