//! The hooks of an event: `$SVC_HOOKS_DIR/<event>/*`. They run as root, so they and their folders belong to the caller, and nobody else can
//! write to them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use svc_step::Failure;

/// The hooks, in the order of their names.
///
/// # Errors
/// Others can write to one (3 `hook_unsafe`), or two have the same name as steps (3 `hooks_alike`).
pub fn of(folder: &Path, event: &str) -> Result<Vec<PathBuf>, Failure> {
    let event = folder.join(event);
    let mut hooks: Vec<PathBuf> = fs::read_dir(&event).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    hooks.retain(|hook| fs::metadata(hook).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0));
    hooks.sort();
    for hook in &hooks {
        [hook.as_path(), event.as_path(), folder].into_iter().try_for_each(|path| refuse_unsafe(hook, path))?;
    }
    let names: Vec<String> = hooks.iter().map(|hook| step_of(hook)).collect();
    for (number, name) in names.iter().enumerate() {
        if names.iter().take(number).any(|other| other == name) {
            return Err(Failure::refused(
                "hooks_alike",
                format!("Two hooks in {} would both be the step {name}.", event.display()),
            )
            .hint("Rename one of the two: steps are told apart by letters, digits, - and _."));
        }
    }
    Ok(hooks)
}

fn refuse_unsafe(hook: &Path, path: &Path) -> Result<(), Failure> {
    let data = fs::metadata(path).map_err(|error| Failure::io("look at the hook", path, &error))?;
    if data.uid() == nix::unistd::Uid::effective().as_raw() && data.mode() & 0o022 == 0 {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::refused(
        "hook_unsafe",
        format!("The hook {} is not run: others can write to {shown}, or it is not yours.", hook.display()),
    )
    .hint(format!("chown {} '{shown}' && chmod go-w '{shown}'", nix::unistd::Uid::effective())))
}

/// The step that a hook is: a step's name has no dots.
pub fn step_of(hook: &Path) -> String {
    let name = hook.file_name().unwrap_or_default().to_string_lossy();
    let plain = |one: char| if one.is_ascii_alphanumeric() || one == '-' || one == '_' { one } else { '-' };
    format!("hook-{}", name.chars().map(plain).collect::<String>())
}
