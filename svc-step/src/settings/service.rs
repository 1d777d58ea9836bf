//! The settings of the service with their defaults, as a run hands them to its script.

use std::path::{Component, Path, PathBuf};

use super::{default_of, table, variable};

/// What a run records besides the settings of the table.
const OTHERS: [&str; 7] = ["SVC_ENVIRONMENT_FILE", "SVC_RUN_ID", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSFILE"];

/// What a run hands to its script, and records, although nobody has set it: what scripts read, and what an undo must find as it was, even
/// if it was set meanwhile.
const HANDED: &str = "SVC_NAME SVC_INSTALL_DIR SVC_UNIT SVC_DATABASE SVC_DB_USER SVC_REPOSITORY SVC_STATE_DIR SVC_BACKUP_DIR \
    SVC_HOOKS_DIR";

/// The settings that a run records: those of the service, and where its databases are. None of them is a secret.
pub fn known() -> impl Iterator<Item = &'static str> {
    table::all().map(|setting| setting.name).chain(OTHERS)
}

/// Where programs of administrators are; cron's `PATH` lacks most of them.
const FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Names and values of the settings that have a default, and a `PATH` with the usual directories. `SVC_STATE_DIR` and `SVC_BACKUP_DIR`
/// are absolute, since a rollback may be started from another directory than the upgrade was.
///
/// To be called after [`super::load`].
pub fn service_settings() -> Vec<(String, String)> {
    let product = product();
    let mut settings: Vec<(String, String)> =
        HANDED.split(' ').map(|name| (name.to_owned(), variable(name).unwrap_or_else(|| default_of(name, &product)))).collect();
    for (_, value) in settings.iter_mut().filter(|(name, _)| matches!(name.as_str(), "SVC_STATE_DIR" | "SVC_BACKUP_DIR")) {
        *value = resolved(Path::new(&value)).display().to_string();
    }
    settings.push(("PATH".to_owned(), completed(&variable("PATH").unwrap_or_default())));
    settings
}

/// The product's name.
pub fn product() -> String {
    variable("SVC_NAME").unwrap_or_else(|| default_of("SVC_NAME", ""))
}

/// A setting as a run has it: of the environment or the settings file, or its default; empty if it has none.
///
/// To be called after [`super::load`].
pub fn setting(name: &str) -> String {
    let handed = service_settings().into_iter().find(|(other, _)| other == name).map(|(_, value)| value);
    handed.or_else(|| variable(name)).unwrap_or_else(|| default_of(name, &product()))
}

/// The path with the usual directories at its end, and without the working directory.
fn completed(path: &str) -> String {
    let mut folders: Vec<&str> = path.split(':').filter(|folder| !matches!(*folder, "" | ".")).collect();
    let lacking: Vec<&str> = FOLDERS.into_iter().filter(|folder| !folders.contains(folder)).collect();
    folders.extend(lacking);
    folders.join(":")
}

/// The path without links, `.` and `..`, as far as it exists (`realpath -m`).
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut resolved = PathBuf::from("/");
    for part in absolute.components() {
        match part {
            Component::Normal(name) => {
                resolved.push(name);
                resolved = resolved.canonicalize().unwrap_or(resolved);
            }
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_completed_without_working_directory() {
        assert_eq!(completed(":/x:.:/usr/bin:"), "/x:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin");
    }

    #[test]
    fn existing_part_of_path_is_resolved_through_symlinks() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        assert_eq!(resolved(&dir.path().join("link/bin/../not there")), Path::new("/usr/not there"));
    }
}
