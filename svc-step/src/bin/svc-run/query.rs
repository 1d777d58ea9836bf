//! What the script asks about the documents of a run: files alone, no supervisor is needed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use svc_step::Failure;
use svc_step::journal::{self, Journal};
use svc_step::reporter::shell_quoted;

/// The run of a query: the named one, or the one that the script runs in.
/// Errors: there is none (4).
pub fn journal(run: Option<&str>) -> Result<Journal, Failure> {
    let own = || std::env::var("SVC_RUN_DIR").ok();
    let named = run.map(str::to_owned).or_else(own).ok_or_else(|| {
        Failure::usage("options_invalid", "No run is named, and the command is not inside of one.").hint("Name it: --run RUN")
    })?;
    journal::named(&state_dir(), &named).ok_or_else(|| not_found(&state_dir(), &format!(" {named}")))
}

/// Where this user may not look for runs.
pub fn unreadable(state_dir: &Path) -> Option<Failure> {
    let folder = state_dir.join("runs");
    let error = std::fs::read_dir(&folder).err().filter(|error| error.kind() == ErrorKind::PermissionDenied)?;
    let failure = Failure::refused("permission_denied", format!("The directory {} cannot be read.", folder.display()));
    Some(failure.hint("Run the command as root.").cause(error.to_string()))
}

/// There is no such run, or this user may not look for it; `which` is empty, or says with a blank before it which one.
pub fn not_found(state_dir: &Path, which: &str) -> Failure {
    if let Some(failure) = unreadable(state_dir) {
        return failure;
    }
    let folder = state_dir.join("runs").display().to_string();
    Failure::not_found("file_not_found", format!("There is no run{which} in {folder}."))
        .hint(format!("The runs there are, if a script has run yet:\n  {}", shell_quoted(&["ls", &folder])))
}

pub fn state_dir() -> PathBuf {
    svc_step::settings::setting("SVC_STATE_DIR").into()
}

/// The file of the newest document of a step. In a dry run a step that was only planned has none, and the name stands for it that the
/// planned line writes to.
/// Errors: the step has left none (4).
pub fn document(run: &Journal, step: &str, dry_run: bool) -> Result<PathBuf, Failure> {
    // A tool that has outlived its supervisor has left it under its first name.
    let newest = run.attempts_of(step).into_iter().rfind(|one| one.document.is_some());
    match newest {
        Some(one) => Ok(one.document_path()),
        None if dry_run => Ok(PathBuf::from(format!("{step}.json"))),
        None => {
            Err(Failure::not_found("file_not_found", format!("The step {step} has left no document in {}.", run.dir().display()))
                .hint(format!("svc-run status {}", run.id())))
        }
    }
}

pub fn is_dry() -> bool {
    std::env::var_os("SVC_DRY_RUN").is_some()
}

/// What stands at a path such as `.result.path` of the document of a step; of a list (`.result.hops[].installer`) a line each. Nothing for
/// null.
/// Errors: the step has left no document, or nothing stands there (4).
pub fn value(run: &Journal, step: &str, path: &str) -> Result<Vec<String>, Failure> {
    let file = document(run, step, is_dry())?;
    let document = match std::fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or(Value::Null),
        Err(_) if is_dry() => return Ok(vec![format!("{step}{path}")]),
        Err(error) => return Err(Failure::io("read the document of the step", &file, &error)),
    };
    let mut found = vec![&document];
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let (key, each) = key.strip_suffix("[]").map_or((key, false), |key| (key, true));
        found = found.into_iter().filter_map(|value| value.get(key)).collect();
        if each {
            found = found.into_iter().filter_map(Value::as_array).flatten().collect();
        }
    }
    if found.is_empty() && !path.contains("[]") {
        return Err(absent(&file, path));
    }
    let text = found.into_iter().filter(|value| !value.is_null());
    Ok(text.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect())
}

fn absent(file: &Path, path: &str) -> Failure {
    Failure::not_found("options_invalid", format!("{} has no {path}.", file.display()))
        .hint("The page of the tool has its fields.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::Made;

    #[test]
    fn partial_document_of_orphaned_tool_is_found() {
        let made = Made::new("svc-upgrade");
        made.step("01-dump", "step", &json!({"result": {"path": "/d.sql"}}));
        let run = made.journal();
        let file = |name: &str| run.dir().join(name);
        assert_eq!(document(&run, "dump", false).unwrap(), file("01-dump.json"));
        std::fs::rename(file("01-dump.json"), file("01-dump.json.partial")).unwrap();
        assert_eq!(document(&run, "dump", false).unwrap(), file("01-dump.json.partial"));
        assert_eq!(value(&run, "dump", ".result.path").unwrap(), ["/d.sql"]);
    }
}
