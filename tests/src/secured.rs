//! Search databases with their security on: TLS by an authority of the test's own, users, roles and tokens in files.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

use crate::download::maven_file;
use crate::host::{Host, OwnSearch};
use crate::os;
use crate::search::{self, OS_USER, Settings};
use crate::tool::root;

/// The password of every user here. No other word in a test's files has `s3cret` in it.
pub const PASSWORD: &str = "s3cret-of-the-test";
const HASH: &str = "$2a$04$abcdefghijklmnopqrstuud3F16mdEjBS0XjkfCARt.Mz1Ksy9lvq";
/// A user who may do everything; the test's own requests are hers.
pub const ADMIN: &str = "tester";
/// A user with the role of the tool's page.
pub const LEAST: &str = "svc";
/// A user with that role and what it says of `--rate-limit`.
pub const RATED: &str = "svc-rated";
/// A user with the role of [`LEAST`], but without rights on the names of copies.
pub const NARROW: &str = "svc-narrow";
/// A user who may do next to nothing.
pub const NOBODY: &str = "nobody";
/// The name in the client certificate of [`LEAST`].
const CLIENT: &str = "svc";
/// The plugin that is OpenSearch's security.
const PLUGIN: &str = "org.opensearch.plugin:opensearch-security:2.19.3.0:zip";

/// An authority, and what it signs, in a folder of its own; private keys are their owner's.
pub struct Authority {
    dir: TempDir,
}

impl Authority {
    pub fn new() -> Result<Self> {
        let dir = tempfile::tempdir_in("/var/tmp")?;
        os::chmod(dir.path(), 0o755);
        let this = Self { dir };
        this.openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem")?;
        Ok(this)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Writes a file that is its owner's alone, and gives its path.
    pub fn secret(&self, name: &str, text: &str) -> String {
        os::file(&self.file(name), text, 0o600, None).expect("the folder is the test's own");
        self.path(name)
    }

    /// A key (`<name>.key`) and a certificate (`<name>.pem`) for a subject; `san` is what `subjectAltName` says.
    pub fn issue(&self, name: &str, subject: &str, san: &str) -> Result<()> {
        self.openssl(&format!("req -newkey rsa:2048 -nodes -subj /CN={subject} -keyout {name}.key -out {name}.csr"))?;
        self.sign(name, name, san, 2)
    }

    /// A further certificate (`<as_name>.pem`) for the key of that name, valid for so many days from now; a negative number is one
    /// that has expired so many days ago.
    pub fn sign(&self, name: &str, as_name: &str, san: &str, days: i64) -> Result<()> {
        let time = |days| (Timestamp::now() + SignedDuration::from_hours(24 * days)).strftime("%Y%m%d%H%M%SZ").to_string();
        let (start, end) = (time(-30), time(days));
        let config = format!(
            "[ca]\ndefault_ca = here\n[here]\ndatabase = index.txt\nnew_certs_dir = .\nrand_serial = yes\ncertificate = ca.pem\n\
             private_key = ca.key\ndefault_md = sha256\npolicy = any\nx509_extensions = leaf\n[any]\ncommonName = supplied\n\
             [leaf]\nsubjectAltName = {san}\nextendedKeyUsage = serverAuth,clientAuth\n"
        );
        fs::write(self.file("ca.cnf"), config)?;
        fs::write(self.file("index.txt"), "")?;
        self.openssl(&format!(
            "ca -batch -notext -config ca.cnf -in {name}.csr -out {as_name}.pem -startdate {start} -enddate {end}"
        ))
    }

    /// Runs `openssl` in its folder, with arguments that hold no space.
    pub fn openssl(&self, arguments: &str) -> Result<()> {
        os::run(Command::new("openssl").current_dir(self.dir.path()).args(arguments.split(' '))).map(drop)
    }
}

/// A server with its security on, of the test's own.
pub struct Secured {
    pub own: OwnSearch,
    /// Who signed its certificate, and that of the client ([`CLIENT`]: `client.pem`, `client.key`).
    pub authority: Authority,
    curl: Vec<String>,
}

impl Deref for Secured {
    type Target = OwnSearch;

    fn deref(&self) -> &OwnSearch {
        &self.own
    }
}

impl Secured {
    /// A server with the authority's files in its configuration, not started yet. Its clients may have to show a certificate.
    fn prepared(host: &Host, key: &str, (extra, home): (Vec<(String, String)>, Option<PathBuf>), shows: bool) -> Result<Self> {
        let authority = Authority::new()?;
        authority.issue("server", "server", "IP:127.0.0.1,DNS:search.test")?;
        authority.issue("client", CLIENT, "DNS:client.test")?;
        let mut curl = vec!["--cacert".to_owned(), authority.path("ca.pem"), "-u".to_owned(), format!("{ADMIN}:{PASSWORD}")];
        if shows {
            curl.extend(["--cert".to_owned(), authority.path("client.pem"), "--key".to_owned(), authority.path("client.key")]);
        }
        let settings = Settings { extra, home, curl: curl.clone(), ..Settings::default() };
        let this = Self { own: host.prepare_search_server(key, &settings)?, authority, curl };
        for name in ["server.key", "server.pem", "ca.pem"] {
            this.lay(name, name)?;
        }
        Ok(this)
    }

    /// Elasticsearch 8 with its own security: users and roles in files, and a client certificate that everybody must show.
    pub fn elasticsearch(host: &Host) -> Result<Self> {
        let settings = [
            ("enabled", "true"),
            ("autoconfiguration.enabled", "false"),
            ("http.ssl.enabled", "true"),
            ("http.ssl.key", "server.key"),
            ("http.ssl.certificate", "server.pem"),
            ("http.ssl.certificate_authorities", "ca.pem"),
            ("http.ssl.client_authentication", "required"),
        ];
        let settings = settings.map(|(name, value)| (format!("xpack.security.{name}"), value.to_owned()));
        let this = Self::prepared(host, "elasticsearch-8", (settings.into(), None), true)?;
        let users = [ADMIN, LEAST, RATED, NARROW, NOBODY].map(|user| format!("{user}:{HASH}\n")).concat();
        this.config("users", &users)?;
        this.config(
            "users_roles",
            &format!("superuser:{ADMIN}\nsvc_snap:{LEAST}\nsvc_snap_rate:{RATED}\nsvc_snap_narrow:{NARROW}\n"),
        )?;
        this.config("roles.yml", &roles("elasticsearch")?)?;
        Ok(this)
    }

    /// OpenSearch 2 with its security plugin: who shows a client certificate is let in by it, others by a password.
    pub fn opensearch(host: &Host) -> Result<Self> {
        let setting = |name: &str, value: &str| (format!("plugins.security.{name}"), value.to_owned());
        let mut extra = vec![
            setting("allow_default_init_securityindex", "true"),
            setting("authcz.admin_dn", "[\"CN=none\"]"),
            setting("ssl.transport.enforce_hostname_verification", "false"),
            setting("ssl.http.enabled", "true"),
            setting("ssl.http.clientauth_mode", "OPTIONAL"),
        ];
        for layer in ["http", "transport"] {
            for (name, file) in [("pemcert", "server.pem"), ("pemkey", "server.key"), ("pemtrustedcas", "ca.pem")] {
                extra.push(setting(&format!("ssl.{layer}.{name}_filepath"), file));
            }
        }
        let this = Self::prepared(host, "opensearch-2", (extra, Some(opensearch_with_security()?)), false)?;
        let user = os::system_user(OS_USER)?;
        os::folder(&this.config_dir.join("opensearch-security"), 0o750, Some(&user))?;
        for entry in fs::read_dir(this.home.join("config/opensearch-security"))?.flatten() {
            let name = format!("opensearch-security/{}", entry.file_name().to_string_lossy());
            this.config(&name, &fs::read_to_string(entry.path())?)?;
        }
        let meta = |kind: &str| format!("_meta:\n  type: {kind}\n  config_version: 2\n");
        let users = [ADMIN, LEAST, RATED, NARROW, NOBODY].map(|user| format!("{user}:\n  hash: \"{HASH}\"\n")).concat();
        this.config("opensearch-security/internal_users.yml", &format!("{}{users}", meta("internalusers")))?;
        this.config("opensearch-security/roles.yml", &format!("{}{}", meta("roles"), roles("opensearch")?))?;
        let of = [("all_access", ADMIN), ("svc_snap", LEAST), ("svc_snap_rate", RATED), ("svc_snap_narrow", NARROW)];
        let mapping = of.map(|(role, user)| format!("{role}:\n  users: [{user}]\n")).concat();
        this.config("opensearch-security/roles_mapping.yml", &format!("{}{mapping}", meta("rolesmapping")))?;
        this.config("opensearch-security/config.yml", &format!("{}{AUTHENTICATION}", meta("config")))?;
        Ok(this)
    }

    /// A request of the test's own, as [`ADMIN`]; its answer, whatever its status.
    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", "-X", method]).args(&self.curl);
        if let Some(body) = body {
            curl.args(["-H", "content-type: application/json", "-d", &body.to_string()]);
        }
        let text = os::run(curl.arg(format!("{}{path}", self.url)))?;
        serde_json::from_str(&text).with_context(|| format!("{method} {path}: {text}"))
    }

    fn config(&self, name: &str, text: &str) -> Result<()> {
        os::file(&self.config_dir.join(name), text, 0o640, Some(&os::system_user(OS_USER)?))
    }

    /// Lays a file of the authority's folder into its configuration.
    pub fn lay(&self, name: &str, as_name: &str) -> Result<()> {
        self.config(as_name, &fs::read_to_string(self.authority.file(name))?)
    }
}

/// The plugin's ways to find out who calls: a certificate's name first, then a password.
const AUTHENTICATION: &str = r#"
config: {dynamic: {http: {anonymous_auth_enabled: false}, authc: {
  certificate: {http_enabled: true, order: 0, authentication_backend: {type: noop},
    http_authenticator: {type: clientcert, challenge: false, config: {username_attribute: cn}}},
  password: {http_enabled: true, order: 1, authentication_backend: {type: internal},
    http_authenticator: {type: basic, challenge: true}}}}}
"#;

/// The role that the tool's page shows; the same with the right that stands there for `--rate-limit`, and without those on copies.
fn roles(product: &str) -> Result<String> {
    const RIGHT: &str = "- cluster:admin/settings/update";
    let file = root().join(format!("svc-snap/roles/{product}.yml"));
    let role = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let rated = role.replace(&format!("# {RIGHT}"), RIGHT).replace("svc_snap:", "svc_snap_rate:");
    let copies = r#", "svc-staged-*", "svc-before-*", "svc-replaced-*", "svc-swapping-*", "svc-clone-*""#;
    let narrow = role.replace(copies, "").replace("svc_snap:", "svc_snap_narrow:");
    Ok(format!("{role}{rated}{narrow}"))
}

/// The distribution of OpenSearch 2 with the plugin, installed by its own program into a copy.
fn opensearch_with_security() -> Result<PathBuf> {
    search::distribution("opensearch-2")?.with_plugin("security", |distribution, folder| {
        let fetched = tempfile::tempdir()?;
        let plugin = maven_file(PLUGIN, fetched.path())?;
        let mut install = Command::new(folder.join("bin/opensearch-plugin"));
        install.args(["install", "--batch"]).arg(format!("file://{}", plugin.display()));
        os::run(install.env("OPENSEARCH_JAVA_HOME", distribution.java()?)).map(drop)
    })
}
