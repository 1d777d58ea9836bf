//! A new content for a file in use: whole or not at all, its rights kept, what was there before kept beside it.

use std::io::Write;
use std::path::Path;

use svc_step::file::{Existing, Previous, WholeFile};
use svc_step::{Call, Failure};

use crate::content::Content;

/// Puts `bytes` in the place of `old`, which is kept as `previous`. Nothing is altered on failure.
pub(crate) fn replace(call: &Call, old: &Content, bytes: &[u8], previous: &Previous) -> Result<(), Failure> {
    call.check()?;
    let mut file = WholeFile::create(&old.path, 0o600)?;
    file.write_all(bytes).map_err(|error| Failure::io("write the configuration", &old.path, &error))?;
    put(call, &old.path, Some(old), Some(previous), || file.publish(Existing::ReplaceInUse))?;
    let now = Content::read_no_link("read the configuration back", &old.path)?;
    if now.bytes == bytes { Ok(()) } else { Err(not_as_written(&old.path)) }
}

/// Has `publish` put a file at `path`, where `old` is, or nothing, which must be so still. Nothing is altered on failure.
pub(crate) fn put(
    call: &Call,
    path: &Path,
    old: Option<&Content>,
    previous: Option<&Previous>,
    publish: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let untouched = || match old {
        Some(old) => Content::read_no_link("read the configuration", path).map(|now| now.bytes == old.bytes),
        None => Ok(!path.exists()),
    };
    if !untouched()? {
        return Err(Failure::refused("config_changed_meanwhile", format!("{} was changed while this call ran.", path.display()))
            .hint("Find out who writes to it, then run the same command again."));
    }
    if let (Some(previous), Some(old)) = (previous, old) {
        previous.keep(path, &old.bytes)?;
    }
    // From here on there is a file more, at least.
    call.effects().happened();
    publish().inspect_err(|_| {
        if untouched().unwrap_or(false) {
            if let Some(previous) = previous {
                previous.undo();
            }
            call.effects().undone();
        }
    })
}

/// Where a file is kept that the operator's takes the place of: beside it, as package managers do.
pub(crate) fn shipped(old: &Content) -> Result<Previous, Failure> {
    Previous::plan(&old.path, &old.bytes, |number| match number {
        1 => ".svc-new".to_owned(),
        more => format!(".svc-new.{more}"),
    })
}

pub(crate) fn not_as_written(path: &Path) -> Failure {
    Failure::failed("config_not_as_written", format!("{} is not as it was written a moment ago.", path.display()))
        .hint("Find out who writes to it; the file before is beside it.")
}
