//! A cluster of three nodes on loopback, with one folder of repositories that all of them share.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::host::{Host, OwnSearch, texts};
use crate::search::{OS_USER, Product, Search, Settings, distribution};
use crate::systemd::Systemd;
use crate::{os, wait};

/// The third node runs as a user of its own, so that a folder can be closed to it alone.
const OTHER_USER: &str = "svc-search-3";

/// Where nodes are named that may not become the manager.
const EXCLUSIONS: &str = "/_cluster/voting_config_exclusions";

/// Three nodes; they are gone when it is dropped. The first one is the elected manager whenever the cluster is complete, and all
/// of them hold data. What one of them writes into a repository the others can change, unless a test closes its folder.
pub struct Cluster {
    nodes: Vec<OwnSearch>,
    systemd: Systemd,
    /// The folder of the repositories, which outlives the nodes.
    _repos: TempDir,
}

/// The cluster of this process, shared by its tests and gone with the last of them.
static SHARED: Mutex<Weak<Mutex<Cluster>>> = Mutex::new(Weak::new());

impl Cluster {
    /// The shared cluster, started by the first test that wants it; of the same product and version as the host's server.
    pub fn shared() -> Result<Arc<Mutex<Self>>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = shared.upgrade() {
            return Ok(cluster);
        }
        let host = Host::shared()?;
        let cluster = Arc::new(Mutex::new(Self::start(&host, &host.search.key)?));
        *shared = Arc::downgrade(&cluster);
        Ok(cluster)
    }

    /// The cluster for one test alone, complete: what the test before has stopped is started again.
    pub fn take(shared: &Mutex<Self>) -> Result<MutexGuard<'_, Self>> {
        let cluster = shared.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.ensure_complete()?;
        Ok(cluster)
    }

    fn start(host: &Host, key: &str) -> Result<Self> {
        let distribution = distribution(key)?;
        let repos = tempfile::Builder::new().prefix("repos-").tempdir_in(host.dir.join("own"))?;
        os::folder(repos.path(), 0o777, Some(&os::system_user(OS_USER)?))?;
        let ports = os::free_ports(6)?;
        let initial = match (distribution.product, distribution.version.split('.').next()) {
            (Product::Elasticsearch, _) | (_, Some("1")) => "cluster.initial_master_nodes",
            _ => "cluster.initial_cluster_manager_nodes",
        };
        let seeds: Vec<String> = ports[3..].iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let nodes = (0..3).map(|number| {
            let extra = [
                ("cluster.name", format!("cluster-{}", ports[0])),
                ("node.name", format!("svc-{}", number + 1)),
                ("discovery.seed_hosts", format!("[{}]", seeds.join(", "))),
                (initial, "[\"svc-1\"]".to_owned()),
            ];
            let settings = Settings {
                extra: texts(&extra),
                os_user: (number == 2).then_some(OTHER_USER),
                ports: Some([ports[number], ports[number + 3]]),
                repo_root: Some(repos.path().to_owned()),
                ..Settings::default()
            };
            let node = host.prepare_search_server(key, &settings)?;
            fs::write(node.config_dir.join("jvm.options.d/small.options"), "-Xms256m\n-Xmx256m\n")?;
            Ok(node)
        });
        let cluster = Self { nodes: nodes.collect::<Result<_>>()?, systemd: host.systemd.clone(), _repos: repos };
        cluster.ensure_complete()?;
        Ok(cluster)
    }

    pub fn node(&self, number: usize) -> &Search {
        &self.nodes[number - 1]
    }

    pub fn kill(&self, number: usize) -> Result<()> {
        self.systemd.kill(&self.node(number).unit)
    }

    pub fn stop(&self, number: usize) -> Result<()> {
        self.systemd.stop(&self.node(number).unit)
    }

    /// Starts what does not run, and waits until all three are one cluster and no shard is on its way.
    pub fn ensure_complete(&self) -> Result<()> {
        let down: Vec<_> = self.nodes.iter().filter(|node| !self.systemd.is_active(&node.unit)).collect();
        // At once: a node needs others for a manager.
        down.iter().try_for_each(|node| self.systemd.control(&["start", "--no-block", &node.unit]))?;
        down.iter().try_for_each(|node| node.start(&self.systemd))?;
        let health = wait::until("three nodes in one cluster", wait::HANG, || {
            let path = "/_cluster/health?wait_for_nodes=3&wait_for_no_relocating_shards=true&wait_for_no_initializing_shards=true&timeout=10s";
            self.node(1).ask("GET", path, None).ok()
        })?;
        ensure!(health["number_of_nodes"] == 3, "{health}");
        self.elect_first()
    }

    pub fn manager(&self, number: usize) -> Result<String> {
        let state =
            self.node(number).ask("GET", "/_cluster/state/master_node,nodes?filter_path=master_node,nodes.*.name", None)?;
        let id = state["master_node"].as_str().context("no manager")?;
        Ok(state["nodes"][id]["name"].as_str().context("no such node")?.to_owned())
    }

    /// Makes the first node the manager again, which it may have lost by being stopped.
    fn elect_first(&self) -> Result<()> {
        if self.manager(1)? == "svc-1" {
            return Ok(());
        }
        self.node(1).ask("POST", &format!("{EXCLUSIONS}?node_names=svc-2,svc-3"), None)?;
        let elected =
            wait::until("the election of the first node", wait::HANG, || (self.manager(1).ok()? == "svc-1").then_some(()));
        self.node(1).ask("DELETE", &format!("{EXCLUSIONS}?wait_for_removal=false"), None)?;
        elected
    }
}
