//! Where the two databases are: from the installer's environment, or from an installation's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::releases::Refusal;

pub struct Settings {
    /// The service's name; its indices and aliases are named after it.
    pub name: String,
    pub search_url: String,
    /// How long the service waits between two items.
    pub interval: Duration,
    database: String,
    role: String,
    /// The relational server's host, or the folder of its socket.
    pg_host: String,
    pg_port: u16,
    /// A file in libpq's form that holds the password of the service's user, if it needs one.
    pg_password_file: String,
}

impl Settings {
    /// Reads the environment, as the installers do.
    pub fn from_environment() -> Result<Self> {
        Self::of(|variable, _| env::var(variable).ok())
    }

    /// Reads the configuration of an installation, as the service does.
    pub fn of_installation(install_dir: &Path) -> Result<Self> {
        let configured = configuration(install_dir)?;
        let installed = fs::read_to_string(install_dir.join("libexec/installation.env"))?;
        let installed: BTreeMap<&str, &str> = installed.lines().filter_map(|line| line.split_once('=')).collect();
        Self::of(|variable, key| configured.get(key).cloned().or_else(|| installed.get(variable).map(|&value| value.to_owned())))
    }

    /// By what each has for a variable, or for a key of the configuration.
    fn of(value: impl Fn(&str, &str) -> Option<String>) -> Result<Self> {
        let text = |variable: &str, key: &str, default: &str| {
            value(variable, key).filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
        };
        fn number<N: FromStr<Err: std::error::Error + Send + Sync + 'static>>(text: &str) -> Result<N> {
            text.parse().with_context(|| format!("no number that fits: {text:?}"))
        }
        let name = text("SVC_NAME", "service.name", "svc");
        Ok(Self {
            database: text("SAMPLE_DATABASE", "", &format!("{name}_db")),
            role: text("SAMPLE_ROLE", "", &name),
            name,
            search_url: text("SVC_SEARCH_URL", "search.url", "http://localhost:9200"),
            interval: Duration::from_millis(number(&text("SVC_INTERVAL_MS", "writer.interval_ms", "250"))?),
            pg_host: text("PGHOST", "database.host", "localhost"),
            pg_port: number(&text("PGPORT", "database.port", "5432"))?,
            pg_password_file: text("PGPASSFILE", "database.password_file", ""),
        })
    }

    /// Connects to the service's database as the service's user.
    pub fn connect(&self) -> Result<postgres::Client> {
        let mut config = postgres::Config::new();
        config.host(&self.pg_host).port(self.pg_port).dbname(&self.database).user(&self.role);
        config.application_name("svc-sample").connect_timeout(Duration::from_secs(5));
        config.tcp_user_timeout(Duration::from_secs(10));
        if !self.pg_password_file.is_empty() {
            let file = &self.pg_password_file;
            let text = fs::read_to_string(file).with_context(|| format!("cannot read the password file {file}"))?;
            let role = format!(":{}:", self.role);
            let escaped = text.lines().find_map(|line| Some(line.split_once(&role)?.1));
            escaped.map(|escaped| config.password(escaped.replace("\\:", ":").replace("\\\\", "\\")));
        }
        config
            .connect(postgres::NoTls)
            .with_context(|| format!("no connection to the database at {}:{}", self.pg_host, self.pg_port))
    }
}

/// The newer layout's `config/<name>/<name>.yaml`, else `etc/<name>.yaml`, else the older layout's `conf/<name>.conf`, by
/// `section.key`. The name is whatever product is installed there.
fn configuration(install_dir: &Path) -> Result<BTreeMap<String, String>> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let newer = entries(install_dir.join("config")).flat_map(entries).chain(entries(install_dir.join("etc")));
    let older = entries(install_dir.join("conf"));
    let is = |path: &PathBuf, extension: &str| path.extension().is_some_and(|found| found == extension);
    let file = newer.filter(|path| is(path, "yaml")).chain(older.filter(|path| is(path, "conf"))).next();
    let file = file.ok_or_else(|| Refusal::because(format!("There is no configuration in {}.", install_dir.display())))?;
    let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(values(&String::from_utf8_lossy(&bytes)))
}

/// As much of both formats as the shipped files and an operator's edits of them need: `[section]` and `key = value`, or a `section:`
/// and its keys, two spaces deep; a key's last value counts.
fn values(text: &str) -> BTreeMap<String, String> {
    let (mut values, mut section) = (BTreeMap::new(), "");
    for line in text.lines() {
        let of_yaml =
            line.strip_prefix("  ").filter(|entry| !entry.starts_with([' ', '#'])).and_then(|entry| entry.split_once(':'));
        if let Some((key, value)) = of_yaml.or_else(|| line.split_once(" = ")) {
            let value = value.split(" #").next().unwrap_or_default().trim();
            let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
            values.insert(format!("{section}.{key}"), quoted.unwrap_or(value).replace("''", "'"));
        } else if let Some(name) = line.strip_suffix(':').or_else(|| line.strip_prefix('[')?.strip_suffix(']')) {
            section = name;
        }
    }
    values
}
