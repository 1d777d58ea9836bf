//! The search database of the throw-away host: six real distributions, each started with folders of its own.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use anyhow::{Context, Result};
use nix::unistd::User;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::{Host, OwnSearch, texts};
use crate::systemd::Systemd;
use crate::{download, http, java, os};

/// Whom the servers run as; they refuse to run as root.
pub const OS_USER: &str = "svc-search";

/// For a server that lives for minutes on a machine that runs several: no compiler whose work is not worth its while, no threads of a
/// parallel collector, no memory touched before it is used, no verification of the vendor's own classes. They halve what its start
/// computes.
const JVM_OPTIONS: &str = "-Xms512m\n-Xmx512m\n-XX:TieredStopAtLevel=1\n-XX:-UseG1GC\n-XX:+UseSerialGC\n-XX:-AlwaysPreTouch\n\
    -XX:+UnlockDiagnosticVMOptions\n-XX:-BytecodeVerificationRemote\n";

/// Which family a server is of; the two differ in names of files and variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Product {
    OpenSearch,
    Elasticsearch,
}

impl fmt::Display for Product {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format!("{self:?}").to_lowercase())
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Distribution {
    /// What tests and command lines call it.
    pub key: &'static str,
    pub product: Product,
    pub version: &'static str,
    /// The oldest Java it starts on.
    java: u32,
}

impl Distribution {
    const fn new(key: &'static str, product: Product, version: &'static str, java: u32) -> Self {
        Self { key, product, version, java }
    }

    pub fn java(&self) -> Result<PathBuf> {
        java::at_least(self.java)
    }

    /// The unpacked distribution, as Maven Central has it.
    pub fn home(&self) -> Result<PathBuf> {
        let product = self.product;
        download::maven(&format!("org.{product}.distribution.integ-test-zip:{product}:{}:zip", self.version))
    }

    /// Puts it and its Java into the cache.
    pub fn fetch(&self) -> Result<()> {
        self.home()?;
        self.java().map(drop)
    }

    /// A copy of it with a plugin, which `install` puts there.
    pub fn with_plugin(&self, name: &str, install: impl FnOnce(&Self, &Path) -> Result<()>) -> Result<PathBuf> {
        download::cached(&format!("{}-{}-{name}", self.product, self.version), |folder| {
            os::run(Command::new("cp").arg("-r").arg(self.home()?.join(".")).arg(folder))?;
            install(self, folder)?;
            download::readable(folder)
        })
    }
}

/// The default first.
pub const DISTRIBUTIONS: [Distribution; 6] = [
    Distribution::new("opensearch-2", Product::OpenSearch, "2.19.3", 17),
    Distribution::new("opensearch-3", Product::OpenSearch, "3.8.0", 21),
    Distribution::new("opensearch-1", Product::OpenSearch, "1.3.20", 17),
    Distribution::new("elasticsearch-7", Product::Elasticsearch, "7.17.29", 17),
    Distribution::new("elasticsearch-8", Product::Elasticsearch, "8.19.0", 17),
    Distribution::new("elasticsearch-9", Product::Elasticsearch, "9.2.0", 21),
];

pub fn distribution(key: &str) -> Result<&'static Distribution> {
    let keys = || DISTRIBUTIONS.map(|one| one.key).join(", ");
    DISTRIBUTIONS.iter().find(|one| one.key == key).with_context(|| format!("no search database {key}; there are {}", keys()))
}

/// What a server is started with.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Leaves out `path.repo`, which names the folder of the repositories from the start. Without it the server is as the vendor
    /// installs it, and the one-time configuration step has still to be done.
    pub no_path_repo: bool,
    /// Further settings; one of the names written here replaces the host's own, and `discovery.seed_hosts` the setting that
    /// makes it a cluster of one.
    pub extra: Vec<(String, String)>,
    /// What `curl` needs to be let in, such as `-u NAME:PASSWORD` or `--cacert FILE`, if the settings turn on TLS.
    pub curl: Vec<String>,
    /// Whom it runs as, if it is not [`OS_USER`]; the user is made if there is none.
    pub os_user: Option<&'static str>,
    /// The ports for HTTP and for other nodes; `None` finds free ones.
    pub ports: Option<[u16; 2]>,
    /// The folder in which repositories have their folders, if it is there already; `None` makes one.
    pub repo_root: Option<PathBuf>,
    /// The unpacked distribution, if it is another than the vendor's as it comes: one with a plugin.
    pub home: Option<PathBuf>,
}

/// Starts a server of a test's own, of the host's distribution and with these settings besides the host's.
pub fn own_server(extra: &[(&str, &str)]) -> OwnSearch {
    let host = Host::shared().expect("a host");
    host.search_server(&host.search.key, &Settings { extra: texts(extra), ..Settings::default() })
        .expect("a server of the test's own")
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Search {
    /// Which of the six, such as `opensearch-2`.
    pub key: String,
    pub product: Product,
    pub version: String,
    /// The address, without a slash at its end.
    pub url: String,
    pub unit: String,
    pub config_file: PathBuf,
    pub config_dir: PathBuf,
    pub home: PathBuf,
    java_home: PathBuf,
    /// The folder in which repositories have their folders. It is the server's own and its
    /// `path.repo`, so that every folder below it can be registered; with [`Settings::no_path_repo`] it is root's.
    pub repo_root: PathBuf,
    pub data_dir: PathBuf,
    pub log_dir: PathBuf,
    pub os_user: String,
}

impl Search {
    /// Makes the folders, the configuration and the unit of a server in a new folder, and does not start it.
    pub fn prepare(distribution: &Distribution, dir: &Path, unit: &str, settings: &Settings, systemd: &Systemd) -> Result<Self> {
        let user = os::system_user(settings.os_user.unwrap_or(OS_USER))?;
        let scheme = if settings.curl.is_empty() { "http" } else { "https" };
        let ports = match settings.ports {
            Some(ports) => ports.to_vec(),
            None => os::free_ports(2)?,
        };
        let product = distribution.product;
        let this = Self {
            key: distribution.key.to_owned(),
            product,
            version: distribution.version.to_owned(),
            url: format!("{scheme}://127.0.0.1:{}", ports[0]),
            unit: unit.to_owned(),
            config_dir: dir.join("config"),
            config_file: dir.join(format!("config/{product}.yml")),
            home: settings.home.clone().map_or_else(|| distribution.home(), Ok)?,
            java_home: distribution.java()?,
            repo_root: settings.repo_root.clone().unwrap_or_else(|| dir.join("backups")),
            data_dir: dir.join("data"),
            log_dir: dir.join("logs"),
            os_user: user.name.clone(),
        };
        os::folder(dir, 0o755, None)?;
        for folder in [&this.config_dir, &this.data_dir, &this.log_dir, &dir.join("tmp")] {
            os::folder(folder, 0o750, Some(&user))?;
        }
        if settings.repo_root.is_none() {
            os::folder(&this.repo_root, 0o755, (!settings.no_path_repo).then_some(&user))?;
        }
        this.write_configuration(&user, &ports, settings)?;
        os::file(&dir.join("ready"), &this.ready_script(settings), 0o755, None)?;
        systemd.install(unit, &this.unit_file(dir, settings))?;
        Ok(this)
    }

    /// Starts the server and waits until it has a cluster to work in; a failure carries the end of its log.
    pub fn start(&self, systemd: &Systemd) -> Result<()> {
        systemd.start(&self.unit).with_context(|| {
            let log = os::tail(&self.log_dir.join("output.log"), 40);
            format!("{} {} did not start; the end of its log:\n{log}", self.product, self.version)
        })
    }

    /// Sends a request of the test's own; `path` starts with a slash. Fails unless the status is 2xx.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        http::expect(method, &format!("{}{path}", self.url), body)
    }

    /// The same, if an HTTP error is an answer.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        http::request(method, &format!("{}{path}", self.url), body)
    }

    /// One of the distribution's own programs, such as `elasticsearch-users`, as the server's user with the server's folders.
    pub fn program(&self, name: &str) -> Command {
        let mut command = os::command_as(&self.os_user, self.home.join("bin").join(name));
        command.envs(self.env());
        command
    }

    fn env(&self) -> Vec<(String, String)> {
        let prefix = match self.product {
            Product::OpenSearch => "OPENSEARCH",
            Product::Elasticsearch => "ES",
        };
        let tmp = self.config_dir.with_file_name("tmp").display().to_string();
        vec![
            (format!("{prefix}_JAVA_HOME"), self.java_home.display().to_string()),
            (format!("{prefix}_PATH_CONF"), self.config_dir.display().to_string()),
            // Without these two, each start leaves folders in /tmp that nobody takes away: the server, and the launcher of
            // Elasticsearch 8 and 9.
            (format!("{prefix}_TMPDIR"), tmp.clone()),
            ("CLI_JAVA_OPTS".to_owned(), format!("-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={tmp}")),
        ]
    }

    fn write_configuration(&self, user: &User, ports: &[u16], settings: &Settings) -> Result<()> {
        let vendor = self.home.join("config");
        for entry in fs::read_dir(&vendor).with_context(|| format!("no folder {}", vendor.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let mut text = fs::read_to_string(entry.path())?;
                if entry.file_name() == "jvm.options" {
                    // Without what keeps Java from starting here: a log in `logs/`, which is relative to where it was started, and a
                    // module that a cut-down Java does not have.
                    let text_here = text.replace("logs/", &format!("{}/", self.log_dir.display()));
                    let is_possible = |line: &&str| !line.contains("--add-modules=jdk.incubator.vector");
                    text = text_here.lines().filter(is_possible).flat_map(|line| [line, "\n"]).collect();
                }
                os::file(&self.config_dir.join(entry.file_name()), &text, 0o660, Some(user))?;
            }
        }
        os::folder(&self.config_dir.join("jvm.options.d"), 0o750, Some(user))?;
        os::file(&self.config_dir.join("jvm.options.d/host.options"), JVM_OPTIONS, 0o640, Some(user))?;
        // As the vendors' packages have it: root's, and the server may read it.
        os::file(&self.config_file, &self.settings_file(&vendor, ports, settings)?, 0o660, None)?;
        chown(&self.config_file, None, Some(user.gid.as_raw()))?;
        Ok(())
    }

    /// The vendor's file, all comments, with the host's settings at its end: what a tool that edits it has to cope with.
    fn settings_file(&self, vendor: &Path, ports: &[u16], settings: &Settings) -> Result<String> {
        let sets = |name: &str| settings.extra.iter().any(|(other, _)| other == name);
        let path_repo = format!("[\"{}\"]", self.repo_root.display());
        let own = [
            (true, "cluster.name", format!("svc-{}", self.key)),
            (true, "node.name", "svc-1".to_owned()),
            (!sets("discovery.seed_hosts"), "discovery.type", "single-node".to_owned()),
            (true, "network.host", "127.0.0.1".to_owned()),
            (true, "http.port", ports[0].to_string()),
            (true, "transport.port", ports[1].to_string()),
            (true, "path.data", self.data_dir.display().to_string()),
            (true, "path.logs", self.log_dir.display().to_string()),
            // The tests' machine may be fuller than a server likes; a test of that sets the watermarks itself.
            (true, "cluster.routing.allocation.disk.threshold_enabled", "false".to_owned()),
            // Each check of its disks takes off every block `read_only_allow_delete`, whoever has set it (on Elasticsearch).
            (true, "cluster.info.update.interval", "24h".to_owned()),
            // What this collector has not freed yet is no reason to refuse a request (429).
            (true, "indices.breaker.total.use_real_memory", "false".to_owned()),
            (!settings.no_path_repo, "path.repo", path_repo),
            (self.product == Product::Elasticsearch, "xpack.security.enabled", "false".to_owned()),
        ];
        let own = own.into_iter().filter(|(is_set, name, _)| *is_set && !sets(name));
        let lines = own.map(|(_, name, value)| format!("{name}: {value}\n"));
        let extra = settings.extra.iter().map(|(name, value)| format!("{name}: {value}\n"));
        let text = fs::read_to_string(vendor.join(self.config_file.file_name().unwrap_or_default()))?;
        Ok([text].into_iter().chain(lines).chain(extra).collect())
    }

    fn unit_file(&self, dir: &Path, settings: &Settings) -> String {
        let run_as = os::run_as(&self.os_user).join(" ");
        let env: String = self.env().iter().map(|(name, value)| format!("Environment=\"{name}={value}\"\n")).collect();
        let (product, version, home, dir, log) =
            (self.product, &self.version, self.home.display(), dir.display(), self.log_dir.display());
        let limit = crate::wait::HANG.as_secs();
        // In a folder of several servers, each of them may change what another one wrote.
        let umask = if settings.repo_root.is_some() { "UMask=0000\n" } else { "" };
        // 143 is how Java leaves when it is asked to.
        format!(
            "[Unit]\nDescription={product} {version} of the throw-away host\n\n[Service]\nType=simple\n{umask}{env}\
             WorkingDirectory={dir}\nExecStart=/usr/bin/setpriv {run_as} {home}/bin/{product}\nExecStartPost={dir}/ready\n\
             KillMode=mixed\nSuccessExitStatus=143\nTimeoutStartSec={limit}\nTimeoutStopSec=60\nLimitNOFILE=65535\n\
             StandardOutput=append:{log}/output.log\nStandardError=append:{log}/output.log\n"
        )
    }

    /// What makes `systemctl start` return when the server answers, and not earlier.
    fn ready_script(&self, settings: &Settings) -> String {
        let curl: String = settings.curl.iter().map(|word| format!("'{}' ", word.replace('\'', "'\\''"))).collect();
        format!(
            "#!/bin/sh\nuntil curl -fs --noproxy '*' -m 10 -o /dev/null {curl}'{}/_cluster/health?wait_for_status=yellow&timeout=5s'\n\
             do\n  kill -0 \"$MAINPID\" || exit 1\n  sleep 0.2\ndone\n",
            self.url
        )
    }
}
