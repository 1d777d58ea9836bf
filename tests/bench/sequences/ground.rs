//! What is measured on: the sample service with servers of its own, whose disk is waited for, and what is in them.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use svc_tests::host::{Host, OwnPostgres, OwnSearch};
use svc_tests::product::Product;
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{BENCHMARK_JVM_OPTIONS, Settings};
use svc_tests::tool::{Tool, search_path};

use crate::measure::{Line, Scratch, machine, settle_disk};
use crate::pg::durable;
use crate::rows;

/// The service's name, which is also that of its role.
const NAME: &str = "svc";
/// What is installed when something is measured, and what it is upgraded to.
pub const BEFORE: &str = "1.15.5";
pub const AFTER: &str = "2.0.1";
/// In how many indices the documents are: one of them is a fifth.
const INDICES: usize = 5;

/// The service, its servers, and a folder for what the measured commands print.
pub struct Ground {
    // Dropped in this order: what is in the servers, then the servers.
    pub product: Product,
    search: OwnSearch,
    pub postgres: OwnPostgres,
    pub scratch: Scratch,
}

impl Ground {
    /// Starts the servers, installs the service, and starts it. Its repository is empty.
    pub fn new() -> Result<Self> {
        let mut host = Host::shared()?;
        let search = host.prepare_search_server(&host.search.key, &Settings::default())?;
        fs::write(search.config_dir.join("jvm.options.d/zz-bench.options"), BENCHMARK_JVM_OPTIONS)?;
        search.search.start(&host.systemd)?;
        let postgres = durable(&host)?;
        (host.search, host.postgres) = (search.search.clone(), postgres.postgres.clone());
        let product = Product::on(host, NAME)?;
        product.install(BEFORE, 400)?;
        Ok(Self { product, search, postgres, scratch: Scratch(tempfile::tempdir_in("/var/tmp")?) })
    }

    /// A tool or a script with the service's settings; the search database is its alone.
    pub fn tool(&self, name: &str) -> Tool {
        self.product.tool(name).envs(self.own_env()).limit(Duration::from_secs(1800))
    }

    /// A command that is measured, with the same settings.
    pub fn line(&self, words: &[&str]) -> Line {
        let env = self.product.env().into_iter().chain(self.own_env());
        let line = Line::new(words.iter().copied()).env("PATH", search_path([]));
        env.fold(line, |line, (name, value)| line.env(&name, value))
    }

    fn own_env(&self) -> [(String, String); 2] {
        [("SVC_INDICES".to_owned(), "*".to_owned()), ("SVC_PG_UNIT".to_owned(), format!("user:{}", self.postgres.unit))]
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.search.url)
    }

    /// The path of the service's repository, or of what is below it.
    pub fn repository(&self, below: &str) -> String {
        format!("/_snapshot/{NAME}_backup{below}")
    }

    /// Makes the databases hold about so many MB, beside the items of the service, which its installers rewrite.
    pub fn fill(&self, documents: usize, rows: usize) -> Result<()> {
        (0..INDICES).try_for_each(|number| self.fill_index(number, documents))?;
        rows::fill(&self.product.host.postgres, &self.product.database(), &["public".to_owned()], rows)?;
        eprintln!("{documents} MB of documents, {rows} MB of rows");
        Ok(())
    }

    /// Writes a fifth of the documents again.
    pub fn change_a_fifth(&self, documents: usize) -> Result<()> {
        self.fill_index(0, documents)
    }

    /// In one segment: nothing is merged while something is measured.
    fn fill_index(&self, number: usize, documents: usize) -> Result<()> {
        let name = format!("{NAME}-archive-{number}");
        let _ = self.search.request("DELETE", &format!("/{name}"), None)?;
        let body = json!({"settings": {"number_of_shards": 1, "number_of_replicas": 0},
            "mappings": {"properties": {"t": {"type": "keyword", "index": false, "doc_values": false}}}});
        self.search.ask("PUT", &format!("/{name}"), Some(&body))?;
        // Ten documents to the MB.
        Sandbox::on(self.search.search.clone(), "bench").fill_noise(&name, documents * 10 / INDICES);
        self.search.ask("POST", &format!("/{name}/_forcemerge?max_num_segments=1"), None)?;
        self.search.ask("POST", &format!("/{name}/_flush"), None).map(drop)
    }

    /// Writes all that the servers and the system have not written yet, so that what is measured next does not pay for it.
    pub fn settle(&self) -> Result<()> {
        self.postgres.sql("postgres", "CHECKPOINT")?;
        settle_disk();
        Ok(())
    }

    /// Removes what the last runs have left: snapshots, but for one that stays, restore points, and journals.
    pub fn remove_runs(&self, stays: Option<&str>) -> Result<()> {
        let all = self.search.ask("GET", &self.repository("/_all"), None)?;
        let snapshots = all["snapshots"].as_array().context("no list of snapshots")?;
        for name in snapshots.iter().filter_map(|one| one["snapshot"].as_str()).filter(|name| stays != Some(name)) {
            self.search.ask("DELETE", &self.repository(&format!("/{name}")), None)?;
        }
        let folders = [self.product.backup_dir(), self.product.state_dir()];
        folders.iter().filter(|folder| folder.exists()).try_for_each(fs::remove_dir_all)?;
        Ok(())
    }

    /// The machine and the servers, as a report names them.
    pub fn described(&self) -> Result<String> {
        let version = self.postgres.sql("postgres", "SELECT current_setting('server_version')")?;
        Ok(format!(
            "{}; {} {} with 1 GB of heap; PostgreSQL {version} as Debian sets it up (128 MB of shared buffers, fsync on)",
            machine(&self.search.data_dir)?,
            self.search.product,
            self.search.version
        ))
    }
}
