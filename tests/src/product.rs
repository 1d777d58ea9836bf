//! A sample service of a test's own: its database, its installation directory, its installers, and the settings that the
//! scripts need for it. Its name keeps it apart from those of other tests on the same host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::content::{self, Index};
use crate::host::{Host, texts};
use crate::tool::{Ran, Tool, root, search_path};
use crate::{download, os};

/// The releases of the sample service, the failing one apart.
const RELEASES: [&str; 3] = ["1.14.2", "1.15.5", "2.0.1"];

pub struct Product {
    pub host: Host,
    pub name: String,
    folder: TempDir,
}

#[derive(Debug, PartialEq)]
pub struct Content {
    pub dump: String,
    /// Every index with its documents, mappings and aliases; hidden ones too.
    pub indices: BTreeMap<String, Index>,
}

impl Product {
    /// A product that is not installed yet; its database and role are there, its installers lie in a folder.
    pub fn new(name: &str) -> Result<Self> {
        Self::on(Host::shared()?, name)
    }

    /// The same, on a host with other servers.
    pub fn on(host: Host, name: &str) -> Result<Self> {
        // A space in every path: whatever forgets to quote one is seen at once.
        let folder =
            tempfile::Builder::new().prefix(&format!("svc {name} ")).tempdir_in(host.dir.parent().unwrap_or(&host.dir))?;
        os::chmod(folder.path(), 0o755);
        let product = Self { host, name: name.to_owned(), folder };
        product.host.postgres.create_role(name, "pass:word")?;
        product.host.postgres.create_database(&product.database(), name)?;
        product.host.postgres.pgpass(&product.path("pgpass"), name, "pass:word")?;
        product.lay_installers()?;
        Ok(product)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn database(&self) -> String {
        format!("{}_db", self.name)
    }

    pub fn unit(&self) -> String {
        format!("{}.service", self.name)
    }

    pub fn install_dir(&self) -> PathBuf {
        self.path("installed here")
    }

    pub fn installer(&self, version: &str) -> PathBuf {
        self.path("installers").join(format!("{}-{version}.run", self.name))
    }

    /// The installer of 2.0.1 that fails half-way through its migration.
    pub fn failing_installer(&self) -> PathBuf {
        self.path("installers/failing").join(format!("{}-2.0.1.run", self.name))
    }

    pub fn yaml(&self) -> PathBuf {
        self.install_dir().join("config").join(&self.name).join(format!("{}.yaml", self.name))
    }

    pub fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    pub fn backup_dir(&self) -> PathBuf {
        self.path("backups")
    }

    pub fn repository_dir(&self) -> PathBuf {
        self.host.search.repo_root.join(format!("{}_repo", self.name))
    }

    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        let mut env = self.host.env();
        env.retain(|(key, _)| key != "SVC_PG_UNIT");
        let own = [
            ("SVC_NAME", self.name.clone()),
            ("SVC_UNIT", format!("user:{}", self.unit())),
            ("SVC_UNIT_SCOPE", "user".to_owned()),
            ("SVC_INDICES", format!("{}-*", self.name)),
            ("SVC_REPOSITORY", format!("{}_backup", self.name)),
            ("SVC_BACKUP_REPO", text(&self.repository_dir())),
            ("SVC_INSTALL_DIR", text(&self.install_dir())),
            ("SVC_INSTALLER_DIR", text(&self.path("installers"))),
            ("SVC_RELEASES", text(&self.path("installers"))),
            ("SVC_UNINSTALL", format!("'{}'", text(&self.install_dir().join("bin/svc-uninstall")))),
            ("SVC_STATE_DIR", text(&self.state_dir())),
            ("SVC_BACKUP_DIR", text(&self.backup_dir())),
            ("SVC_INTERVAL_MS", "25".to_owned()),
            ("PGUSER", self.name.clone()),
            ("PGPASSFILE", text(&self.path("pgpass"))),
        ];
        env.extend(texts(&own));
        // The later of two of one name is the product's own.
        BTreeMap::from_iter(env).into_iter().collect()
    }

    /// The lines of a settings file with the product's settings, these changed; what only the sample installer or the
    /// throw-away host reads is not among them.
    pub fn settings_file(&self, changed: &[(&str, &str)]) -> String {
        let settings = BTreeMap::from_iter(self.env().into_iter().chain(texts(changed)));
        let is_setting = |name: &str| {
            !["SVC_INTERVAL_MS", "SVC_UNIT_SCOPE", "SVC_TESTHOST", "SVC_ENVIRONMENT_FILE", "SVC_HOOKS_DIR"].contains(&name)
        };
        settings.iter().filter(|(name, _)| is_setting(name)).map(|(name, value)| format!("{name}=\"{value}\"\n")).collect()
    }

    pub fn tool(&self, name: &str) -> Tool {
        // What an installer that was killed has left in /tmp has the name that another one takes.
        Tool::new(name).envs(self.env()).env("TMPDIR", self.folder.path())
    }

    pub fn upgrade(&self) -> Tool {
        self.tool("svc-upgrade").arg(self.installer("2.0.1"))
    }

    pub fn start(&self) {
        self.tool("svc-unit").args(["start", "--settle", "300ms"]).run().ok();
    }

    pub fn script(&self, name: &str, does: &str) -> PathBuf {
        os::write_program(self.path(name), format!("#!/bin/sh\n{does}\n")).expect("a script can be written");
        self.path(name)
    }

    /// An installer of 2.0.1 that does this.
    pub fn installer_that(&self, does: &str) -> PathBuf {
        self.script(&format!("odd/{}-2.0.1.run", self.name), does)
    }

    /// A hook for what comes behind the installer, if `SVC_HOOKS_DIR` is the folder `hooks`.
    pub fn hook(&self, name: &str, does: &str) -> PathBuf {
        self.script(&format!("hooks/post-install/{name}"), does)
    }

    pub fn snapshots(&self) -> Vec<String> {
        self.tool("svc-snap").arg("list").run().ok().texts("snapshots", "name")
    }

    /// What is kept and staged of it beside the live data, in both databases.
    pub fn copies(&self) -> BTreeSet<String> {
        let indices = self.indices().unwrap().into_iter().filter(|name| name.starts_with("svc-"));
        indices.chain(self.host.postgres.databases(&format!("{}_", self.database())).unwrap()).collect()
    }

    /// Its own indices, and the copies that a rollback staged or kept.
    fn indices(&self) -> Result<Vec<String>> {
        let all = self.host.search.ask("GET", "/_cat/indices?format=json&expand_wildcards=all", None)?;
        let own = format!("{}-", self.name);
        let is_ours = |name: &&str| name.starts_with(&own) || name.starts_with("svc-") && name.contains(&format!("-{own}"));
        let names = all.as_array().into_iter().flatten().filter_map(|index| index["index"].as_str());
        Ok(names.filter(is_ours).map(str::to_owned).collect())
    }

    /// A line as an operator types it, with these settings; it must end well.
    #[track_caller]
    pub fn typed(&self, line: &str) {
        let out = self.type_in(line, Path::new("/"));
        assert!(out.status.success(), "`{line}` ended with {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    }

    /// The lines that a dry run has printed, typed one after the other in an empty folder, which is given back; each must end well,
    /// but that one of the two layouts of the configuration is not there, nor the unit once it is uninstalled.
    #[track_caller]
    pub fn type_plan(&self, dry_run: &Ran) -> PathBuf {
        let folder = self.path("an empty folder");
        fs::create_dir(&folder).expect("it is the first plan");
        for line in dry_run.result()["plan"].as_array().expect("a dry run has a plan") {
            let line = line.as_str().expect("a plan is lines");
            let out = self.type_in(line, &folder);
            let may_be_absent = line.contains(" --layout ") || line.contains("svc-unit status --expect inactive");
            let absent = out.status.code() == Some(4) && may_be_absent;
            assert!(absent || out.status.success(), "`{line}`: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
        }
        folder
    }

    fn type_in(&self, line: &str, folder: &Path) -> Output {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).current_dir(folder).envs(self.env()).env("PATH", search_path([root().join("scripts")]));
        // Others use the server that a rollback would restart.
        bash.env_remove("SVC_PG_UNIT");
        bash.stdin(Stdio::null()).output().expect("bash is there")
    }

    /// Runs an installer (or another program of the product's) as an operator would.
    pub fn run(&self, program: &Path) -> Result<()> {
        let mut command = Command::new(program);
        command.envs(self.env()).env("TMPDIR", self.folder.path()).stdin(Stdio::null());
        os::run(&mut command).map(drop)
    }

    /// Installs a release, writes `items` items, starts the unit, and sets the repository up.
    pub fn install(&self, version: &str, items: u32) -> Result<()> {
        self.run(&self.installer(version))?;
        self.begin(items)
    }

    fn begin(&self, items: u32) -> Result<()> {
        self.seed(items)?;
        self.tool("svc-setup-snapshots").run().ok();
        self.start();
        Ok(())
    }

    /// Installs a 1.x release whose service adds nothing while it runs, so that what both databases hold can be compared to the
    /// last byte; customised, seeded, the repository set up, and the unit stopped after a first run.
    pub fn install_still(&self, version: &str, items: u32) -> Result<Content> {
        self.run(&self.installer(version))?;
        // As an operator would with an editor.
        let conf = self.install_dir().join("conf").join(format!("{}.conf", self.name));
        let customise = "s/^interval_ms = .*/interval_ms = 0/; s/^bulk_size = .*/bulk_size = 750/";
        os::run(Command::new("sed").args(["-i", customise]).arg(&conf))?;
        let text = fs::read_to_string(&conf)?;
        ensure!(
            ["\ninterval_ms = 0\n", "\nbulk_size = 750\n"].iter().all(|line| text.contains(line)),
            "{} lacks a key",
            conf.display()
        );
        self.begin(items)?;
        self.tool("svc-unit").arg("stop").run().ok();
        self.content()
    }

    pub fn seed(&self, items: u32) -> Result<()> {
        let mut sample = Command::new(root().join("tests/service/svc-sample"));
        os::run(sample.args(["seed", "--items", &items.to_string()]).envs(self.env())).map(drop)
    }

    pub fn marker(&self) -> String {
        fs::read_to_string(self.install_dir().join("current-version")).unwrap_or_default().trim().to_owned()
    }

    pub fn is_active(&self) -> bool {
        self.host.systemd.is_active(&self.unit())
    }

    /// The process of its unit: another one after each start.
    pub fn process(&self) -> String {
        self.host.systemd.property(&self.unit(), "MainPID").unwrap()
    }

    pub fn content(&self) -> Result<Content> {
        let indices = content::documents(&self.host.search.url, &format!("{}-*", self.name))?;
        Ok(Content { dump: content::postgres_dump(&self.host.postgres, &self.database())?, indices })
    }

    /// The installers are built once for a host, and copied under the product's own name.
    fn lay_installers(&self) -> Result<()> {
        let built = download::once(&self.host.dir, "installers", |folder| {
            let mut build = Command::new(root().join("tests/service/build-installers"));
            os::run(build.arg(folder)).map(drop)
        })?;
        for folder in ["installers/failing", "installers/yaml"] {
            fs::create_dir_all(self.path(folder))?;
        }
        for release in RELEASES {
            os::copy_program(&built.join(format!("svc-{release}.run")), &self.installer(release))?;
        }
        os::copy_program(&built.join("failing/svc-2.0.1.run"), &self.failing_installer())?;
        os::copy_program(&built.join("yaml/svc-1.15.5.run"), &self.path("installers/yaml/svc-1.15.5.run"))
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let _ = self.host.systemd.stop(&self.unit());
        let _ = self.host.systemd.remove(&self.unit());
        let _ = self.host.postgres.drop_database(&self.database());
        for name in self.indices().unwrap_or_default() {
            let _ = self.host.search.ask("DELETE", &format!("/{name}"), None);
        }
        // Snapshots of a run before would lie beside those of the next one.
        let _ = self.host.search.ask("DELETE", &format!("/_snapshot/{}_backup", self.name), None);
        let _ = fs::remove_dir_all(self.repository_dir());
        for kept in self.host.postgres.databases(&format!("{}_", self.database())).unwrap_or_default() {
            let _ = self.host.postgres.drop_database(&kept);
        }
        let _ = self.host.postgres.sql("postgres", &format!("DROP ROLE IF EXISTS \"{}\"", self.name));
    }
}
