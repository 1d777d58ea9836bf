//! A new content for a file in use: whole or not at all, its rights kept, what was there before kept beside it.

use std::io::Write;

use svc_step::file::{Existing, Previous, WholeFile};
use svc_step::{Call, Failure};

use crate::content::Content;

/// Puts `bytes` in the place of `old`, which is kept as `previous`. Nothing is altered on failure.
pub(crate) fn replace(call: &Call, old: &Content, bytes: &[u8], previous: &Previous) -> Result<(), Failure> {
    call.check()?;
    let mut file = WholeFile::create(&old.path, 0o600)?;
    file.write_all(bytes).map_err(|error| Failure::io("write the configuration", &old.path, &error))?;
    let now = Content::read_no_link("read the configuration", &old.path)?;
    if now.bytes != old.bytes {
        return Err(Failure::refused(
            "config_changed_meanwhile",
            format!("{} was changed while this call ran.", old.path.display()),
        )
        .hint("Find out who writes to it, then run the same command again."));
    }
    previous.keep(&old.path, &old.bytes)?;
    // From here on there is a file more, at least.
    call.effects().happened();
    if let Err(failure) = file.publish(Existing::ReplaceInUse) {
        let untouched = Content::read_no_link("read the configuration", &old.path).is_ok_and(|now| now.bytes == old.bytes);
        if untouched {
            previous.undo();
            call.effects().undone();
        }
        return Err(failure);
    }
    let now = Content::read_no_link("read the configuration back", &old.path)?;
    if now.bytes == bytes { Ok(()) } else { Err(not_as_written(old)) }
}

/// Where a file is kept that the operator's takes the place of: beside it, as package managers do.
pub(crate) fn shipped(old: &Content) -> Result<Previous, Failure> {
    Previous::plan(&old.path, &old.bytes, |number| match number {
        1 => ".svc-new".to_owned(),
        more => format!(".svc-new.{more}"),
    })
}

fn not_as_written(old: &Content) -> Failure {
    Failure::failed("config_not_as_written", format!("{} is not as it was written a moment ago.", old.path.display()))
        .hint("Find out who writes to it; the file before is beside it.")
}
