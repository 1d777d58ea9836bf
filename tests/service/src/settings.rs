//! Where the two databases are: from the installer's environment, or from an installation's configuration.

use std::env::{self, VarError};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::conf;
use crate::pgpass;

/// All that the program wants to know.
pub struct Settings {
    /// The service's name; its indices and aliases are named after it.
    pub name: String,
    /// Its database.
    pub database: String,
    /// Its database user.
    pub role: String,
    /// The relational server's host, or the folder of its socket.
    pub pg_host: String,
    /// The relational server's port.
    pub pg_port: u16,
    /// A file in libpq's form that holds the password of the service's user, if it needs one.
    pub pg_password_file: Option<PathBuf>,
    /// The search database's address.
    pub search_url: String,
    /// The search database's user, if it wants one.
    pub search_user: Option<String>,
    /// The file with that user's password.
    pub search_password_file: Option<PathBuf>,
    /// Certificates that the search database's own is to be checked with, instead of the usual ones.
    pub search_ca_file: Option<PathBuf>,
    /// How long the service waits between two items.
    pub interval: Duration,
    /// The port of the ready listener; 0 for none.
    pub ready_port: u16,
}

impl Settings {
    /// Reads the environment, as the installers do.
    ///
    /// # Errors
    /// A variable that is no text, or a port that is no number.
    pub fn from_environment() -> anyhow::Result<Self> {
        let name = variable("SVC_NAME")?.unwrap_or_else(|| "svc".to_owned());
        let home_file = variable("HOME")?.map(|home| Path::new(&home).join(".pgpass")).filter(|file| file.exists());
        Ok(Self {
            database: variable("SAMPLE_DATABASE")?.unwrap_or_else(|| format!("{name}_db")),
            role: variable("SAMPLE_ROLE")?.unwrap_or_else(|| name.clone()),
            name,
            pg_host: variable("PGHOST")?.unwrap_or_else(|| "localhost".to_owned()),
            pg_port: number("PGPORT", variable("PGPORT")?.as_deref(), 5432)?,
            pg_password_file: variable("PGPASSFILE")?.map(PathBuf::from).or(home_file),
            search_url: variable("SVC_SEARCH_URL")?.unwrap_or_else(|| "http://localhost:9200".to_owned()),
            search_user: variable("SVC_SEARCH_USER")?,
            search_password_file: variable("SVC_SEARCH_PASSWORD_FILE")?.map(PathBuf::from),
            search_ca_file: variable("SVC_SEARCH_CA")?.map(PathBuf::from),
            interval: Duration::ZERO,
            ready_port: 0,
        })
    }

    /// Reads the configuration of an installation, as the service does.
    ///
    /// # Errors
    /// No or an unreadable configuration, a missing key, a number that is none.
    pub fn of_installation(install_dir: &Path) -> anyhow::Result<Self> {
        let values = conf::read(install_dir)?;
        let text = |key: &str| values.get(key).filter(|value| !value.is_empty()).cloned();
        let needed = |key: &str| text(key).ok_or_else(|| anyhow!("the configuration has no value for {key}"));
        let installed = fs::read_to_string(install_dir.join("libexec/installation.env")).unwrap_or_default();
        let as_installed = |key: &str| {
            let value = installed.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            value.map(str::to_owned).ok_or_else(|| anyhow!("the installation does not say {key}"))
        };
        Ok(Self {
            name: needed("service.name")?,
            database: as_installed("SAMPLE_DATABASE")?,
            role: as_installed("SAMPLE_ROLE")?,
            pg_host: needed("database.host")?,
            pg_port: number("database.port", text("database.port").as_deref(), 5432)?,
            pg_password_file: text("database.password_file").map(PathBuf::from),
            search_url: needed("search.url")?,
            search_user: text("search.user"),
            search_password_file: text("search.password_file").map(PathBuf::from),
            search_ca_file: text("search.ca_file").map(PathBuf::from),
            interval: Duration::from_millis(number("writer.interval_ms", text("writer.interval_ms").as_deref(), 250)?),
            ready_port: number("listen.ready_port", text("listen.ready_port").as_deref(), 0)?,
        })
    }

    /// How to connect to the service's database as the service's user.
    ///
    /// # Errors
    /// A password file that cannot be read.
    pub fn postgres(&self) -> anyhow::Result<postgres::Config> {
        let mut config = postgres::Config::new();
        config.host(&self.pg_host).port(self.pg_port).dbname(&self.database).user(&self.role);
        config.application_name("svc-sample").connect_timeout(Duration::from_secs(5));
        config.tcp_user_timeout(Duration::from_secs(10));
        if let Some(file) = &self.pg_password_file
            && let Some(password) = pgpass::find(file, &self.pg_host, self.pg_port, &self.database, &self.role)?
        {
            config.password(password);
        }
        Ok(config)
    }

    /// The `Authorization` header for the search database, if a user is set.
    ///
    /// # Errors
    /// A password file that cannot be read.
    pub fn search_authorization(&self) -> anyhow::Result<Option<String>> {
        let (Some(user), Some(file)) = (&self.search_user, &self.search_password_file) else { return Ok(None) };
        let password = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let pair = format!("{user}:{}", password.trim_end_matches('\n'));
        Ok(Some(format!("Basic {}", BASE64_STANDARD.encode(pair))))
    }
}

fn variable(name: &str) -> anyhow::Result<Option<String>> {
    match env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(anyhow!("the variable {name} is no UTF-8 text")),
    }
}

fn number<N: FromStr>(name: &str, text: Option<&str>, default: N) -> anyhow::Result<N> {
    match text {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| anyhow!("the value of {name} is no number that fits: {text:?}")),
    }
}
