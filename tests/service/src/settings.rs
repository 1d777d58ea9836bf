//! Where the two databases are: from the installer's environment, or from an installation's configuration.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow};

use crate::releases::Refusal;

pub struct Settings {
    /// The service's name; its indices and aliases are named after it.
    pub name: String,
    pub database: String,
    pub role: String,
    /// The relational server's host, or the folder of its socket.
    pub pg_host: String,
    pub pg_port: u16,
    /// A file in libpq's form that holds the password of the service's user, if it needs one.
    pub pg_password_file: Option<PathBuf>,
    pub search_url: String,
    /// How long the service waits between two items.
    pub interval: Duration,
    /// The port of the ready listener; 0 for none.
    pub ready_port: u16,
}

impl Settings {
    /// Reads the environment, as the installers do.
    pub fn from_environment() -> anyhow::Result<Self> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let name = variable("SVC_NAME").unwrap_or_else(|| "svc".to_owned());
        let home_file = variable("HOME").map(|home| Path::new(&home).join(".pgpass")).filter(|file| file.exists());
        Ok(Self {
            database: variable("SAMPLE_DATABASE").unwrap_or_else(|| format!("{name}_db")),
            role: variable("SAMPLE_ROLE").unwrap_or_else(|| name.clone()),
            name,
            pg_host: variable("PGHOST").unwrap_or_else(|| "localhost".to_owned()),
            pg_port: number("PGPORT", variable("PGPORT"), 5432)?,
            pg_password_file: variable("PGPASSFILE").map(PathBuf::from).or(home_file),
            search_url: variable("SVC_SEARCH_URL").unwrap_or_else(|| "http://localhost:9200".to_owned()),
            interval: Duration::ZERO,
            ready_port: 0,
        })
    }

    /// Reads the configuration of an installation, as the service does.
    pub fn of_installation(install_dir: &Path) -> anyhow::Result<Self> {
        let values = configuration(install_dir)?;
        let text = |key: &str| values.get(key).filter(|value| !value.is_empty()).cloned();
        let needed = |key: &str| text(key).ok_or_else(|| anyhow!("the configuration has no value for {key}"));
        let installed = fs::read_to_string(install_dir.join("libexec/installation.env")).unwrap_or_default();
        let as_installed = |key: &str| {
            let value = installed.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            value.map(str::to_owned).ok_or_else(|| anyhow!("the installation does not name {key}"))
        };
        Ok(Self {
            name: needed("service.name")?,
            database: as_installed("SAMPLE_DATABASE")?,
            role: as_installed("SAMPLE_ROLE")?,
            pg_host: needed("database.host")?,
            pg_port: number("database.port", text("database.port"), 5432)?,
            pg_password_file: text("database.password_file").map(PathBuf::from),
            search_url: needed("search.url")?,
            interval: Duration::from_millis(number("writer.interval_ms", text("writer.interval_ms"), 250)?),
            ready_port: number("listen.ready_port", text("listen.ready_port"), 0)?,
        })
    }

    /// How to connect to the service's database as the service's user.
    pub fn postgres(&self) -> anyhow::Result<postgres::Config> {
        let mut config = postgres::Config::new();
        config.host(&self.pg_host).port(self.pg_port).dbname(&self.database).user(&self.role);
        config.application_name("svc-sample").connect_timeout(Duration::from_secs(5));
        config.tcp_user_timeout(Duration::from_secs(10));
        if let Some(file) = &self.pg_password_file {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read the password file {}", file.display()))?;
            let wanted = [&self.pg_host, &self.pg_port.to_string(), &self.database, &self.role];
            if let Some(password) = password(&text, wanted) {
                config.password(password);
            }
        }
        Ok(config)
    }
}

fn number<N: FromStr>(name: &str, text: Option<String>, default: N) -> anyhow::Result<N> {
    text.map_or(Ok(default), |text| text.parse().map_err(|_| anyhow!("the value of {name} is no number that fits: {text:?}")))
}

/// The password of the first line that fits, `host:port:database:user:password`, with `\:` and `\\` for these characters.
fn password(text: &str, wanted: [&String; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = vec![String::new()];
        let mut characters = line.chars();
        while let Some(c) = characters.next() {
            match (c, fields.len()) {
                (':', 1..=4) => fields.push(String::new()),
                ('\\', _) => fields.last_mut()?.extend(characters.next()),
                _ => fields.last_mut()?.push(c),
            }
        }
        let fits = wanted.iter().zip(&fields).all(|(want, field)| field == "*" || field == *want);
        if fits && fields.len() == 5 { fields.pop() } else { None }
    })
}

/// The newer layout's `config/<name>/<name>.yaml`, else `etc/<name>.yaml`, else the older layout's `conf/<name>.conf`, by
/// `section.key`. The name is whatever product is installed there.
fn configuration(install_dir: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let newer = entries(install_dir.join("config")).flat_map(entries).chain(entries(install_dir.join("etc")));
    let older = entries(install_dir.join("conf"));
    let is = |path: &PathBuf, extension: &str| path.extension().is_some_and(|found| found == extension);
    let file = newer.filter(|path| is(path, "yaml")).chain(older.filter(|path| is(path, "conf"))).next();
    let file = file.ok_or_else(|| Refusal::because(format!("There is no configuration in {}.", install_dir.display())))?;
    let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(values(&String::from_utf8_lossy(&bytes)))
}

/// Reads as much of both formats as the shipped files and an operator's edits of them need: `[section]` and `key = value`, or a
/// `section:` and its own keys, whose last value counts.
fn values(text: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut section = String::new();
    // Deeper keys are none of this program's.
    let mut depth = None;
    for line in text.lines() {
        let entry = line.trim();
        if entry.is_empty() || entry.starts_with(['#', ';', '-']) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if let Some(name) = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
        } else if let Some((key, value)) = entry.split_once(" = ") {
            values.insert(format!("{section}.{}", key.trim()), value.trim().to_owned());
        } else if let Some((key, value)) = entry.split_once(':') {
            if indent == 0 {
                (section, depth) = (key.to_owned(), None);
            } else if *depth.get_or_insert(indent) == indent {
                values.insert(format!("{section}.{}", key.trim()), scalar(value.trim()));
            }
        }
    }
    values
}

/// The text of a YAML scalar on one line: unquoted, and without the comment behind it.
fn scalar(raw: &str) -> String {
    let mut rest = raw.chars().peekable();
    let Some(quote) = rest.next_if(|c| ['\'', '"'].contains(c)) else {
        return raw.split(" #").next().unwrap_or_default().trim_end().to_owned();
    };
    let mut text = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' if quote == '"' => text.extend(rest.next()),
            _ if c == quote && (quote == '"' || rest.next_if_eq(&quote).is_none()) => break,
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_read_to_the_same_keys_without_quotes_and_comments() {
        let conf = values("# c\n[database]\nhost = db one\n; c\nport = 5432\n");
        let yaml = values("database:\n  host: 'db one'  # c\n  port: 5432 # c\n  pool:\n    port: 1\n  list:\n    - a: b\n");
        assert_eq!(conf["database.host"], yaml["database.host"]);
        assert_eq!(conf["database.port"], yaml["database.port"]);
        assert_eq!(scalar("'it''s # one'"), "it's # one");
        assert_eq!(scalar(r#""a \"b\" c" # d"#), r#"a "b" c"#);
    }

    #[test]
    fn the_password_is_that_of_the_line_that_fits() {
        let wanted = ["h", "1", "d:b", "u"].map(str::to_owned);
        let text = "# c\nh:1:other:u:no\n*:*:d\\:b:u:p\\:w\\\\\n";
        assert_eq!(password(text, [&wanted[0], &wanted[1], &wanted[2], &wanted[3]]).as_deref(), Some("p:w\\"));
    }
}
