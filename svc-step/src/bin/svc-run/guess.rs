//! What this host looks like, as settings: units, directories, ports and configuration files, each guess with its reason. It only reads, and
//! an operator reads it before it is written anywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::geteuid;
use svc_step::file::{self, Existing};
use svc_step::settings::{default_of, environment_file, table};
use svc_step::{Failure, settings};

/// Where units are, the administrator's first.
const UNITS: [&str; 4] = ["/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/lib/systemd/system"];
/// Where installers are on most hosts.
const INSTALLERS: [&str; 5] = ["/srv/installers", "/srv", "/opt/installers", "/var/lib/installers", "/root"];

/// A setting and why.
struct Guess {
    name: &'static str,
    value: String,
    why: String,
}

/// A host, seen from its root directory.
struct Host<'a> {
    root: &'a Path,
    /// Databases and their owners.
    databases: Vec<(String, String)>,
    guesses: Vec<Guess>,
}

/// The settings that this host seems to need, as lines of the settings file; `write` puts them into it.
/// Errors: the file has settings already (3, `name_in_use`), or cannot be written.
pub fn guess(write: bool) -> Result<Vec<String>, Failure> {
    let mut host = Host { root: Path::new("/"), databases: databases(), guesses: Vec::new() };
    host.inspect();
    let mut lines = host.lines();
    if !geteuid().is_root() {
        lines.insert(0, "# Not as root: what only root may read was not seen.".to_owned());
    }
    if write {
        let path = environment_file();
        let there = fs::read_to_string(&path).unwrap_or_default();
        if there.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
            return Err(Failure::refused("name_in_use", format!("{} has settings already.", path.display()))
                .hint("Compare them with what is proposed:\n  svc-setup-snapshots --guess"));
        }
        let product = host.value("SVC_NAME").unwrap_or_else(|| default_of("SVC_NAME", ""));
        let text = format!("{}\n{}", lines.join("\n"), table::file(&product));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::io("make the directory of the settings", folder, &error))?;
        }
        file::write_complete(&path, text.as_bytes(), 0o644, Existing::ReplaceInUse)?;
    }
    Ok(lines)
}

impl Host<'_> {
    fn inspect(&mut self) {
        self.product();
        self.search();
        self.postgres();
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref()))
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    /// The entries of a directory, by their paths on the host.
    fn entries(&self, folder: impl AsRef<Path>) -> Vec<PathBuf> {
        let folder = folder.as_ref();
        let mut names: Vec<_> =
            fs::read_dir(self.at(folder)).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    fn value(&self, name: &str) -> Option<String> {
        self.guesses.iter().find(|guess| guess.name == name).map(|guess| guess.value.clone())
    }

    /// Adds a guess, unless it is the default.
    fn say(&mut self, name: &'static str, value: impl ToString, why: impl Into<String>) {
        let product = self.value("SVC_NAME").unwrap_or_else(|| default_of("SVC_NAME", ""));
        let value = value.to_string();
        if value != default_of(name, &product) {
            self.guesses.push(Guess { name, value, why: why.into() });
        }
    }

    /// The product is what has a version marker (procedure, 2.5).
    fn product(&mut self) {
        let is_product = |folder: &PathBuf| self.at(folder.join("current-version")).is_file() && is_name(&file_name(folder));
        let installed: Vec<PathBuf> = self.entries("/opt").into_iter().filter(is_product).collect();
        let (folder, name) = match (installed.as_slice(), self.installers(is_name)) {
            ([one], _) => (Some(one.clone()), file_name(one)),
            ([], Some((_, name))) => (None, name),
            _ => return,
        };
        if let Some(folder) = &folder {
            self.say("SVC_NAME", &name, format!("{} has a version marker", folder.display()));
        } else {
            self.say("SVC_NAME", &name, "the installers have this name");
        }
        if let Some((folder, _)) = self.installers(|one| one == name) {
            self.say("SVC_INSTALLER_DIR", folder.display(), format!("{name}-X.Y.Z.run are there"));
        }
        if let Some(folder) = folder {
            self.parts(&folder, &name);
        }
        let owned = |wanted: &str| self.databases.iter().find(|(database, _)| database == wanted).cloned();
        if let Some((database, owner)) = owned(&default_of("SVC_DATABASE", &name)).or_else(|| owned(&name)) {
            self.say("SVC_DATABASE", &database, format!("PostgreSQL has a database {database}"));
            self.say("SVC_DB_USER", &owner, format!("{owner} owns it"));
        }
    }

    /// A directory that holds a product's installers, and its name.
    fn installers(&self, is_wanted: impl Fn(&str) -> bool) -> Option<(PathBuf, String)> {
        INSTALLERS.iter().find_map(|folder| {
            let found = self.entries(folder).into_iter().find_map(|path| {
                let name = path.file_name()?.to_str()?.strip_suffix(".run")?.to_owned();
                let (name, version) = name.rsplit_once('-')?;
                let is_version = version.split('.').filter(|part| part.parse::<u32>().is_ok()).count() == 3;
                (is_version && is_wanted(name)).then(|| name.to_owned())
            })?;
            Some((PathBuf::from(folder), found))
        })
    }

    /// Unit, uninstaller and configuration of the product in its directory.
    fn parts(&mut self, folder: &Path, name: &str) {
        let begins = format!("{}/", folder.display());
        let runs_it = |text: &str| text.lines().any(|line| line.starts_with("ExecStart=") && line.contains(&begins));
        let units = self.units();
        let has_usual = units.iter().any(|unit| file_name(unit) == default_of("SVC_UNIT", name));
        let mut running: Vec<&PathBuf> = units.iter().filter(|unit| self.text(unit).is_some_and(|text| runs_it(&text))).collect();
        // One of the same name overrides one of a package.
        running.dedup_by_key(|unit| file_name(unit));
        // Of several, an operator knows which is the service.
        if let [unit] = running[..]
            && !has_usual
        {
            self.say("SVC_UNIT", file_name(unit), format!("{} starts a program in {}", unit.display(), folder.display()));
        }
        let programs = self.entries(folder.join("bin"));
        let uninstallers: Vec<_> = programs.into_iter().filter(|path| file_name(path).contains("uninstall")).collect();
        if let [path] = uninstallers.as_slice() {
            self.say("SVC_UNINSTALL", path.display(), "that is its name");
        }
        let is_usual = |path: &str| self.at(folder.join(path)).is_file();
        if !is_usual(&format!("config/{name}/{name}.yaml")) && !is_usual(&format!("conf/{name}.conf")) {
            let places = ["etc", "config", "conf"].map(|place| folder.join(place));
            let found = places.iter().flat_map(|place| self.entries(place)).find(|path| {
                path.file_stem().is_some_and(|stem| stem == name)
                    && path.extension().is_some_and(|kind| kind == "yaml" || kind == "conf")
            });
            if let Some(path) = found {
                self.say("SVC_CONFIG_FILE", path.display(), "it is at neither of the usual places");
            }
        }
    }

    fn units(&self) -> Vec<PathBuf> {
        let all = UNITS.iter().flat_map(|folder| self.entries(folder));
        all.filter(|path| path.extension().is_some_and(|kind| kind == "service")).collect()
    }

    /// The cluster: its unit, and what its configuration says.
    fn search(&mut self) {
        for engine in ["opensearch", "elasticsearch"] {
            let path = format!("/etc/{engine}/{engine}.yml");
            let Some(text) = self.text(&path) else { continue };
            if let Some(unit) = self.units().into_iter().find(|unit| file_name(unit) == format!("{engine}.service")) {
                self.say("SVC_SEARCH_UNIT", file_name(&unit), format!("{} is there", unit.display()));
                let user = self.text(&unit).and_then(|text| setting_of(&text, "User=")).filter(|user| user != engine);
                if let Some(user) = user {
                    self.say("SVC_SEARCH_OS_USER", &user, format!("{} says so", unit.display()));
                }
            }
            let port = setting_of(&text, "http.port:").unwrap_or_else(|| "9200".to_owned());
            let host = setting_of(&text, "network.host:").filter(|host| host.contains("::1")).map_or("127.0.0.1", |_| "[::1]");
            let scheme = if speaks_tls(&text) { "https" } else { "http" };
            self.say("SVC_SEARCH_URL", format!("{scheme}://{host}:{port}"), format!("{path} says so"));
            let listed = setting_of(&text, "path.repo:").map(|value| value.trim_matches(['[', ']', '"', '\'', ' ']).to_owned());
            let first = listed.as_deref().and_then(|list| list.split([',', '"']).next()).filter(|one| one.starts_with('/'));
            match first {
                Some(folder) => self.say("SVC_BACKUP_REPO", folder, format!("{path} has it as path.repo")),
                None => self.say(
                    "SVC_BACKUP_REPO",
                    format!("/var/backups/{engine}"),
                    "a directory for the snapshots; choose a disk with enough space",
                ),
            }
            return;
        }
    }

    /// PostgreSQL's cluster, as Debian's packages lay it (pg_lsclusters).
    fn postgres(&mut self) {
        let clusters: Vec<PathBuf> = self.entries("/etc/postgresql").iter().flat_map(|version| self.entries(version)).collect();
        let [cluster] = clusters.as_slice() else { return };
        let version = cluster.parent().map(file_name).unwrap_or_default();
        let unit = format!("postgresql@{version}-{}.service", file_name(cluster));
        self.say("SVC_PG_UNIT", unit, format!("{} is the only cluster", cluster.display()));
        let conf = self.text(cluster.join("postgresql.conf")).unwrap_or_default();
        if let Some(port) = setting_of(&conf, "port =").or_else(|| setting_of(&conf, "port=")).filter(|port| port != "5432") {
            self.say("SVC_DB_PORT", port, format!("{}/postgresql.conf has it", cluster.display()));
        }
        let hba = self.text(cluster.join("pg_hba.conf")).unwrap_or_default();
        let is_peer = |line: &str| line.split_whitespace().collect::<Vec<_>>() == ["local", "all", "all", "peer"];
        if hba.lines().any(is_peer) {
            self.say(
                "SVC_DB_AS",
                "postgres",
                format!("{}/pg_hba.conf lets users of the host in by their name (peer)", cluster.display()),
            );
        }
    }

    fn lines(&self) -> Vec<String> {
        if self.guesses.is_empty() {
            return vec!["# Nothing was found on this host that differs from the defaults.".to_owned()];
        }
        // The file takes what is within one pair of quotes as it stands.
        let is_plain = |value: &str| value.contains('\'') || !value.contains([' ', '$', '"']);
        let quoted = |value: &str| if is_plain(value) { value.to_owned() } else { format!("'{value}'") };
        let line = |guess: &Guess| [format!("# {}", guess.why), format!("{}={}", guess.name, quoted(&guess.value))];
        self.guesses.iter().flat_map(line).collect()
    }
}

/// Whether the tools take it as the name of a product.
fn is_name(name: &str) -> bool {
    settings::name(name).is_ok()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What stands behind a word at the beginning of a line, the last such line, without a comment.
fn setting_of(text: &str, word: &str) -> Option<String> {
    let found = text.lines().rev().find_map(|line| line.trim().strip_prefix(word))?;
    let value = found.split('#').next()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Whether a cluster's configuration has TLS for its clients, in one line, or as Elasticsearch's packages write it.
fn speaks_tls(text: &str) -> bool {
    let mut within = false;
    text.lines().any(|line| {
        within = line.trim_end() == "xpack.security.http.ssl:" || (within && line.starts_with([' ', '\t']));
        let on = ["xpack.security.http.ssl.enabled: true", "plugins.security.ssl.http.enabled: true"].contains(&line.trim());
        on || (within && line.trim() == "enabled: true")
    })
}

/// The databases of the local PostgreSQL with their owners, if this user may ask for them.
fn databases() -> Vec<(String, String)> {
    let admin = settings::variable("SVC_PG_ADMIN").unwrap_or_else(|| "postgres".to_owned());
    let sql = "SELECT datname, pg_get_userbyid(datdba) FROM pg_database WHERE NOT datistemplate";
    let said = Command::new("runuser").args(["-u", &admin, "--", "psql", "-XAtc", sql]).current_dir("/").output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('|')).map(|(name, owner)| (name.to_owned(), owner.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root directory with these files.
    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn inspected_host_gives_settings_without_defaults() {
        let dir = with(&[
            ("opt/acme/current-version", "1.0.0"),
            ("opt/acme/bin/acme-uninstall", ""),
            ("opt/acme/etc/acme.yaml", ""),
            ("srv/installers/acme-3.4.5.run", ""),
            ("lib/systemd/system/acme-server.service", "[Service]\nExecStart=/opt/acme/bin/acme serve\n"),
            ("lib/systemd/system/opensearch.service", "[Service]\nUser=search\n"),
            // What is no product's, and what is of another one.
            ("opt/Other/current-version", "1.0.0"),
            ("srv/NVIDIA-Linux-x86_64-535.104.05.run", ""),
            (
                "etc/opensearch/opensearch.yml",
                "#http.port: 9200\nhttp.port: 19200 # ours\npath.repo: [\"/mnt/snapshots\", \"/other\"]\n",
            ),
            ("etc/postgresql/15/main/postgresql.conf", "#port = 1\nport = 5433\t\t# (change requires restart)\n"),
            ("etc/postgresql/15/main/pg_hba.conf", "local   all             all                                     peer\n"),
        ]);
        let databases = vec![("postgres".to_owned(), "postgres".to_owned()), ("acme".to_owned(), "acme_app".to_owned())];
        let mut host = Host { root: dir.path(), databases, guesses: Vec::new() };
        host.inspect();
        let lines: Vec<String> = host.lines().into_iter().filter(|line| !line.starts_with('#')).collect();
        let wanted = [
            "SVC_NAME=acme",
            "SVC_INSTALLER_DIR=/srv/installers",
            "SVC_UNIT=acme-server.service",
            "SVC_UNINSTALL=/opt/acme/bin/acme-uninstall",
            "SVC_CONFIG_FILE=/opt/acme/etc/acme.yaml",
            "SVC_DATABASE=acme",
            "SVC_DB_USER=acme_app",
            "SVC_SEARCH_UNIT=opensearch.service",
            "SVC_SEARCH_OS_USER=search",
            "SVC_SEARCH_URL=http://127.0.0.1:19200",
            "SVC_BACKUP_REPO=/mnt/snapshots",
            "SVC_PG_UNIT=postgresql@15-main.service",
            "SVC_DB_PORT=5433",
            "SVC_DB_AS=postgres",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(host.lines().len(), 2 * wanted.len(), "a reason each");
    }

    #[test]
    fn unit_and_uninstaller_are_guessed_only_if_there_is_one() {
        let dir = with(&[
            ("opt/acme/current-version", "1.0.0"),
            ("opt/acme/bin/acme-uninstall", ""),
            ("opt/acme/bin/acme-plugin-uninstall", ""),
            ("etc/systemd/system/acme-cleanup.service", "[Service]\nExecStart=/opt/acme/bin/acme clean\n"),
            ("lib/systemd/system/acme.service", "[Service]\nExecStart=/opt/acme/bin/acme serve\n"),
        ]);
        let mut host = Host { root: dir.path(), databases: Vec::new(), guesses: Vec::new() };
        host.inspect();
        assert_eq!(host.lines()[1..], ["SVC_NAME=acme"]);
    }

    #[test]
    fn cluster_tls_is_detected_from_configuration() {
        for text in [
            "a: 1\nxpack.security.http.ssl:\n  keystore.path: x\n  enabled: true\n",
            "plugins.security.ssl.http.enabled: true",
            "xpack.security.http.ssl.enabled: true\n",
        ] {
            assert!(speaks_tls(text), "{text}");
        }
        for text in ["", "xpack.security.http.ssl:\nother:\n  enabled: true\n", "#xpack.security.http.ssl.enabled: true"] {
            assert!(!speaks_tls(text), "{text}");
        }
    }

    #[test]
    fn empty_host_gives_no_settings() {
        let dir = tempfile::tempdir().unwrap();
        let mut host = Host { root: dir.path(), databases: Vec::new(), guesses: Vec::new() };
        host.inspect();
        assert_eq!(host.lines(), ["# Nothing was found on this host that differs from the defaults."]);
    }
}
