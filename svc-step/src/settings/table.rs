//! Every setting, with its default and what it means: the one source of `--help`, of `/etc/svc-tools/environment` as it is
//! installed, and of `docs/configuration.md`.

use std::fmt::Write;

/// A setting of the settings file or the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The variable.
    pub name: &'static str,
    /// Its value if it is not set.
    pub default: Unset,
    /// One sentence, without a full stop.
    pub help: &'static str,
    /// Whether it is a directory or a file: absolute in the settings file, since a command means the same by hand and by cron.
    pub is_path: bool,
}

/// The value of a setting that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unset {
    /// Nothing.
    Nothing,
    /// This value; `NAME` in it is the product's name.
    Is(&'static str),
    /// Found by other means, in words.
    By(&'static str),
}

/// Settings of one subject.
type Group = (&'static str, &'static [Setting]);

const fn of(name: &'static str, default: Unset, help: &'static str) -> Setting {
    Setting { name, default, help, is_path: false }
}

const fn path(name: &'static str, default: Unset, help: &'static str) -> Setting {
    Setting { is_path: true, ..of(name, default, help) }
}

use Unset::{By, Is, Nothing};

/// A line a setting: whether it is a path, its name, its default, and what it means.
macro_rules! groups {
    ($($title:literal { $($kind:ident $name:ident $default:expr, $help:literal;)* })*) => {
        &[$(($title, &[$($kind(stringify!($name), $default, $help)),*])),*]
    };
}

/// The settings by subject, in the order in which somebody sets up a host.
const GROUPS: &[Group] = groups! {
    "The product" {
        of SVC_NAME Is("svc"), "The product's name, from which unit, database, database user and directories are derived";
        path SVC_INSTALL_DIR Is("/opt/NAME"), "The installation directory";
        of SVC_UNIT Is("NAME.service"), "The product's unit; the prefix user: means the user manager";
        of SVC_READY_URL Nothing,
            "The URL that answers with a 2xx status as soon as the product works: the start in a script waits for it (by hand: \
            svc-unit start --ready-url)";
        path SVC_READY_CA Nothing, "The file with the certificate authority of that URL";
        of SVC_READY_TCP Nothing,
            "HOST:PORT, where the product accepts connections as soon as it works; as SVC_READY_URL (--ready-tcp)";
        path SVC_CONFIG_FILE Nothing, "The configuration file, if it is at the path of neither layout";
        path SVC_INSTALLER_DIR Nothing, "The directory of installers";
        path SVC_RELEASES Nothing, "All releases there are: a file with a version a line, or a directory of installers";
        of SVC_UNINSTALL Nothing, "The command that uninstalls the product";
        path SVC_HOOKS_DIR Is("/etc/svc-tools/hooks.d"), "The directory of the hooks: post-install and on-failure";
    }
    "Backups" {
        path SVC_BACKUP_DIR Is("/var/backups/NAME"), "The directory of the restore points";
        of SVC_KEEP_MAX_AGE Is("30d"),
            "Maximum age of a nightly backup (of other kinds: --kind): 30d, 4w, 36h; none: no limit; SVC_KEEP_MIN_COUNT are always \
            kept";
        of SVC_KEEP_MAX_COUNT Is("30"),
            "Maximum number of nightly backups (of other kinds: --kind), whatever their age; the oldest are removed; none: no limit";
        of SVC_KEEP_MIN_COUNT Is("7"),
            "Minimum number of nightly backups (of other kinds: --kind) to keep, whatever their age";
        of SVC_NIGHTLY_QUIESCE Is("no"), "Whether svc-nightly stops the service while both databases are backed up: yes or no";
        of SVC_DUMP_COMPRESS Nothing, "How the scripts compress the dump: zstd or gzip; its file keeps its name";
        of SVC_OFFSITE Nothing,
            "The restic repository that svc-offsite copies restore points to (sftp:backup@host:/srv/svc, s3:…, rest:…)";
        path SVC_OFFSITE_PASSWORD_FILE Nothing, "A file (mode 600) that holds the password of the restic repository";
        of SVC_OFFSITE_KEEP Nothing,
            "Which copies of nightly restore points stay: options of restic forget (--keep-daily 14 --keep-weekly 8); else all";
        of SVC_OFFSITE_TIMEOUT Is("20h"),
            "How long a copy may take before it is given up; the next one continues with what was copied";
    }
    "Runs" {
        path SVC_STATE_DIR Is("/var/lib/svc-tools"),
            "The directory of the run directories, of the locks and of the records of swaps; each product has one of its own";
        of SVC_KEEP_RUNS Is("90d"),
            "Remove run directories that are not needed and were not written to for this long; none: keep all";
        path SVC_METRICS_FILE Nothing,
            "A file NAME.prom in the directory of node_exporter's textfile collector, which every run writes";
        of SVC_TIMEOUT Nothing, "Give up after this long (90s, 5m, 1h30m)";
    }
    "The cluster: Elasticsearch or OpenSearch" {
        of SVC_SEARCH_URL Is("http://127.0.0.1:9200"), "The address of the cluster";
        of SVC_REPOSITORY Is("my_backup"), "The snapshot repository's name";
        path SVC_BACKUP_REPO Nothing, "The repository's directory, as every node of the cluster sees it";
        of SVC_INDICES Is("*"),
            "The service's own indices: patterns, comma separated; * says that the cluster is the service's alone";
        of SVC_SEARCH_UNIT Nothing, "The unit of the cluster";
        path SVC_SEARCH_CONFIG By("the one of /etc/elasticsearch or /etc/opensearch that is there"),
            "The cluster's configuration file";
        of SVC_SEARCH_OS_USER By("elasticsearch or opensearch, by the configuration file's name"), "The OS user that the cluster runs as";
        of SVC_SEARCH_USER Nothing, "The user of basic authentication";
        path SVC_SEARCH_PASSWORD_FILE Nothing, "A file (mode 600) whose first line is the user's password";
        path SVC_SEARCH_API_KEY_FILE Nothing, "A file (mode 600) whose first line is an API key: as `id:key`, or encoded";
        path SVC_SEARCH_BEARER_FILE Nothing, "A file (mode 600) whose first line is a bearer token";
        path SVC_SEARCH_CA Nothing, "The CA certificates (PEM) that are trusted instead of the public ones";
        path SVC_SEARCH_CLIENT_CERT Nothing,
            "A certificate (PEM) to show to the server, with its chain; alone or beside other credentials";
        path SVC_SEARCH_CLIENT_KEY Nothing,
            "The private key (PEM, mode 600) of the client's certificate, if its file does not hold it";
        of SVC_SEARCH_INSECURE Is("false"),
            "Accept any certificate of the server. Insecure: whoever is in between can read and change everything";
        of SVC_RATE_LIMIT Is("server"),
            "Throttle of snapshots and restores: none, SIZE a second (100mb), or server: the cluster's own (if this is not set \
            and SVC_INDICES is *, a script takes none while the service is stopped and while a rollback stages)";
    }
    "PostgreSQL" {
        of SVC_DATABASE Is("NAME_db"), "The product's database";
        of SVC_DB_USER Is("NAME"), "The product's database user, who owns it";
        of SVC_DB_HOST By("PGHOST, else /var/run/postgresql"), "The server's host, or the directory of its socket";
        of SVC_DB_PORT By("PGPORT, else 5432"), "The server's port";
        path SVC_DB_PASSWORD_FILE By("PGPASSFILE, else ~/.pgpass, by libpq's rules"),
            "A file (mode 600) whose first line is the database user's password";
        of SVC_DB_AS Nothing, "Connect as this user of the host, over the socket (peer authentication; needs root)";
        of SVC_PG_UNIT Nothing, "The unit of PostgreSQL, which a rollback restarts";
        of SVC_PG_ADMIN By("postgres when root"),
            "Become this user of the host for an administrator's work, and connect over the socket";
        of SVC_PG_ADMIN_USER Nothing, "Connect as this administrator with a password instead";
        path SVC_PG_ADMIN_PASSWORD_FILE Nothing, "Read the administrator's password from the first line of this file";
    }
};

/// Every setting.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    GROUPS.iter().flat_map(|(_, settings)| settings.iter())
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.name == name)
}

impl Setting {
    /// Its value if it is not set, for a product of that name.
    pub fn default_for(&self, product: &str) -> Option<String> {
        match self.default {
            Is(text) => Some(text.replace("NAME", product)),
            By(_) | Nothing => None,
        }
    }

    /// What it means and its default, for people.
    fn sentence(&self) -> String {
        match self.default {
            By(way) => format!("{}; default: {way}", self.help),
            Is(_) | Nothing => self.help.to_owned(),
        }
    }

    /// As [`Setting::sentence`], if the default is not shown beside it.
    pub(crate) fn help(&self, shows_default: bool) -> String {
        match self.default {
            Is(text) if !shows_default => format!("{}; default: {text}", self.help),
            _ => self.sentence(),
        }
    }
}

/// The settings file as it is installed: every setting, as a comment, with its default for that product.
pub fn file(product: &str) -> String {
    let mut text = "# The settings of this host. Every tool and script reads them; a variable of the environment wins.\n\
        # Lines KEY=value, a comment on a line of its own: nothing in a value is expanded. What is not set has the value that stands here.\n"
        .to_owned();
    for (title, settings) in GROUPS {
        let _ = write!(text, "\n## {title}\n");
        for setting in *settings {
            let _ = write!(
                text,
                "\n# {}.\n#{}={}\n",
                setting.sentence(),
                setting.name,
                setting.default_for(product).unwrap_or_default()
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// `docs/configuration.md`.
    fn page() -> String {
        let mut text = "# Settings\n\nEach is a line `KEY=value` of `/etc/svc-tools/environment` (or of the file that `SVC_ENVIRONMENT_FILE` names), a variable of the \
            environment, which wins, or an option of a tool, which wins over both. In the file, a comment is a line of its own; a \
            name of `SVC_` that is not a setting and a path that is not absolute are refused. `svc-run setting NAME` prints the value on this \
            host, and without NAME the file with every default; `svc-setup-snapshots --guess`, as root, proposes what to set on this host. `NAME` is the product's name.\n"
            .to_owned();
        for (title, settings) in GROUPS {
            let _ = write!(text, "\n## {title}\n\n| setting | default | |\n|---|---|---|\n");
            for setting in *settings {
                let default = match setting.default {
                    Is(value) => format!("`{value}`"),
                    By(way) => way.to_owned(),
                    Nothing => String::new(),
                };
                let _ = writeln!(text, "| `{}` | {default} | {} |", setting.name, setting.help);
            }
        }
        text
    }

    /// `SVC_UPDATE_PAGES=1` writes it again.
    #[test]
    fn configuration_page_matches_settings_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
        if std::env::var_os("SVC_UPDATE_PAGES").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page(), "SVC_UPDATE_PAGES=1 writes it");
    }

    #[test]
    fn installed_settings_file_sets_nothing() {
        let text = file("acme");
        assert_eq!(text.lines().find(|line| !line.is_empty() && !line.starts_with('#')), None);
        for line in ["#SVC_UNIT=acme.service", "#SVC_DATABASE=acme_db", "#SVC_UNINSTALL=", "#SVC_REPOSITORY=my_backup"] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        let names: std::collections::BTreeSet<&str> = all().map(|setting| setting.name).collect();
        assert_eq!(names.len(), all().count());
    }
}
