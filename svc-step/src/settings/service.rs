//! The settings of the service with their defaults, as a run hands them to its script.

use std::path::{Component, Path, PathBuf};

use super::{database_of, unit_of, variable};

/// The settings that a run records: those of the service, and where its databases are. None of them is a secret.
pub const KNOWN: &[&str] = &[
    "SVC_NAME",
    "SVC_INSTALL_DIR",
    "SVC_UNIT",
    "SVC_DATABASE",
    "SVC_DB_USER",
    "SVC_DB_HOST",
    "SVC_DB_PORT",
    "SVC_DB_PASSWORD_FILE",
    "SVC_DB_AS",
    "SVC_CONFIG_FILE",
    "SVC_INSTALLER_DIR",
    "SVC_RELEASES",
    "SVC_UNINSTALL",
    "SVC_HOOKS_DIR",
    "SVC_ENVIRONMENT_FILE",
    "SVC_RUN_ID",
    "SVC_TIMEOUT",
    "SVC_REPOSITORY",
    "SVC_INDICES",
    "SVC_BACKUP_REPO",
    "SVC_STATE_DIR",
    "SVC_BACKUP_DIR",
    "SVC_KEEP_RUNS",
    "SVC_KEEP_MAX_AGE",
    "SVC_KEEP_MAX_COUNT",
    "SVC_KEEP_MIN_COUNT",
    "SVC_SEARCH_URL",
    "SVC_SEARCH_USER",
    "SVC_SEARCH_PASSWORD_FILE",
    "SVC_SEARCH_API_KEY_FILE",
    "SVC_SEARCH_BEARER_FILE",
    "SVC_SEARCH_CA",
    "SVC_SEARCH_CLIENT_CERT",
    "SVC_SEARCH_CLIENT_KEY",
    "SVC_SEARCH_INSECURE",
    "SVC_SEARCH_RATE",
    "SVC_SEARCH_UNIT",
    "SVC_SEARCH_CONFIG",
    "SVC_SEARCH_OS_USER",
    "SVC_PG_UNIT",
    "SVC_PG_ADMIN",
    "SVC_PG_ADMIN_USER",
    "SVC_PG_ADMIN_PASSWORD_FILE",
    "PGHOST",
    "PGPORT",
    "PGUSER",
    "PGDATABASE",
    "PGPASSFILE",
];

/// Where programs of administrators are; cron's `PATH` lacks most of them.
const FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Names and values of the settings that have a default, and a `PATH` with the usual folders. `SVC_STATE_DIR` and `SVC_BACKUP_DIR`
/// are absolute, since a rollback may be started from another folder than the upgrade was.
///
/// To be called after [`super::load`].
#[must_use]
pub fn service_settings() -> Vec<(String, String)> {
    settings_of(variable)
}

fn settings_of(variable: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let name = variable("SVC_NAME").unwrap_or_else(|| "svc".to_owned());
    let defaults = [
        ("SVC_NAME", name.clone()),
        ("SVC_INSTALL_DIR", format!("/opt/{name}")),
        ("SVC_UNIT", unit_of(&name)),
        ("SVC_DATABASE", database_of(&name)),
        ("SVC_DB_USER", name.clone()),
        ("SVC_REPOSITORY", "my_backup".to_owned()),
        ("SVC_STATE_DIR", "/var/lib/svc-tools".to_owned()),
        ("SVC_BACKUP_DIR", format!("/var/backups/{name}")),
        ("SVC_HOOKS_DIR", "/etc/svc-tools/hooks.d".to_owned()),
        ("PATH", String::new()),
    ];
    let settings = defaults.map(|(name, default)| {
        let value = variable(name).unwrap_or(default);
        let value = match name {
            "SVC_STATE_DIR" | "SVC_BACKUP_DIR" => resolved(Path::new(&value)).display().to_string(),
            "PATH" => completed(&value),
            _ => value,
        };
        (name.to_owned(), value)
    });
    settings.into()
}

/// The path with the usual folders at its end, and without the working directory.
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

    fn settings(set: &[(&str, &str)]) -> Vec<String> {
        let variable = |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        settings_of(variable).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn what_is_not_set_is_derived_from_the_name() {
        let all = settings(&[("SVC_NAME", "app"), ("SVC_UNIT", "other.service"), ("SVC_STATE_DIR", "/proc/../nowhere/./x/../y")]);
        let wanted = [
            "SVC_NAME=app",
            "SVC_INSTALL_DIR=/opt/app",
            "SVC_UNIT=other.service",
            "SVC_DATABASE=app_db",
            "SVC_DB_USER=app",
            "SVC_REPOSITORY=my_backup",
            "SVC_STATE_DIR=/nowhere/y",
            "SVC_BACKUP_DIR=/var/backups/app",
            "SVC_HOOKS_DIR=/etc/svc-tools/hooks.d",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ];
        assert_eq!(all, wanted);
        assert!(settings(&[]).contains(&"SVC_DATABASE=svc_db".to_owned()));
    }

    #[test]
    fn a_short_path_is_completed_and_the_working_directory_left_out_of_it() {
        assert_eq!(completed(":/x:.:/usr/bin:"), "/x:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin");
    }

    #[test]
    fn a_path_is_resolved_through_its_links_as_far_as_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        assert_eq!(resolved(&dir.path().join("link/bin/../not there")), Path::new("/usr/not there"));
    }
}
