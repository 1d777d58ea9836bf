//! What is measured on: a server of the benchmark's own, with the Java compiler that a real one has, and what is in it.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use svc_tests::host::{Host, OwnSearch};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::Settings;
use svc_tests::tool;
use tempfile::TempDir;

use crate::machine;
use crate::measure::{Line, read};

/// The tests' servers have little memory and only the quick compiler, since they live for minutes. Later options win.
const JVM_OPTIONS: &str = "-Xms1g\n-Xmx1g\n-XX:TieredStopAtLevel=4\n";

/// A server, a part of it, and a folder for what the measured commands print.
pub struct Ground {
    // Dropped in this order: what is in the server, then the server.
    pub sandbox: Sandbox,
    _server: OwnSearch,
    scratch: TempDir,
}

impl Ground {
    /// Starts a server with a repository as the procedure has it (2.1).
    pub fn new(host: &Host, key: &str) -> Result<Self> {
        let extra = vec![("cluster.max_shards_per_node".to_owned(), "20000".to_owned())];
        let server = host.prepare_search_server(key, &Settings { extra, ..Settings::default() })?;
        fs::write(server.config_dir.join("jvm.options.d/zz-bench.options"), JVM_OPTIONS)?;
        server.search.start(&host.systemd)?;
        let sandbox = Sandbox::on(server.search.clone(), "bench").registered(&[("compress", "true")]);
        Ok(Self { sandbox, _server: server, scratch: tempfile::tempdir()? })
    }

    /// `svc-snap` with the sandbox's settings, and with the whole server as its scope: of a server that is not the service's alone
    /// it leaves the throttle on restores as it is.
    pub fn snap(&self, args: &[&str]) -> Line {
        let program = tool::bin_dir().join("svc-snap");
        Line::new([program.into_os_string()].into_iter().chain(args.iter().map(Into::into)))
            .env("SVC_SEARCH_URL", &self.sandbox.search.url)
            .env("SVC_REPOSITORY", &self.sandbox.prefix)
            .env("SVC_INDICES", "*")
            .env("SVC_STATE_DIR", self.sandbox.state.path())
    }

    /// `curl` as the procedure has it.
    pub fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> Line {
        Line::new(self.curl_words(method, path, body))
    }

    /// The words of such a call, for a shell that has two of them.
    pub fn curl_words(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<String> {
        let url = format!("{}{path}", self.sandbox.search.url);
        let mut words = ["curl", "-sS", "-f", "--noproxy", "*", "-X", method, &url].map(str::to_owned).to_vec();
        if let Some(body) = body {
            words.extend(["-H", "Content-Type: application/json", "-d", &body.to_string()].map(str::to_owned));
        }
        words
    }

    /// Where a measured command's output goes.
    pub fn output(&self) -> PathBuf {
        self.scratch.path().join("output")
    }

    /// What it printed, as JSON.
    pub fn printed(&self) -> Result<Value> {
        read(&self.output())
    }

    /// A file or folder of the benchmark's own.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The path of a snapshot, or of what is below it.
    pub fn snapshot(&self, name: &str) -> String {
        format!("/_snapshot/{}/{name}", self.sandbox.prefix)
    }

    /// Fills `count` indices with so many MB that cannot be compressed in all, in one segment a shard each: nothing is merged
    /// while something is measured. Gives their names.
    pub fn fill(&self, count: usize, megabytes: usize) -> Vec<String> {
        let names: Vec<String> = (0..count).map(|n| self.sandbox.noise(&format!("big{n}"), megabytes * 10 / count)).collect();
        for name in &names {
            self.sandbox.ask("POST", &format!("/{name}/_forcemerge?max_num_segments=1"), None);
            self.sandbox.ask("POST", &format!("/{name}/_flush"), None);
        }
        names
    }

    /// Takes a snapshot of the sandbox's indices by the server's own call, with the mark that `svc-snap create` makes.
    pub fn take_small(&self, name: &str, indices: &str) {
        let mark = json!({"run_id": "20260101t000000z-bench", "kind": "nightly"});
        let body = json!({"indices": indices, "include_global_state": false,
            "metadata": {"taken_by": "bench", "taken_because": "nightly", "svc_tools": mark}});
        self.sandbox.ask("PUT", &format!("{}?wait_for_completion=true", self.snapshot(name)), Some(body));
    }

    /// The machine and the server, as a report names them.
    pub fn described(&self) -> Result<String> {
        let search = &self.sandbox.search;
        let machine = machine::described(&search.data_dir)?;
        Ok(format!("{machine}; {} {} with 1 GB of heap", search.product, search.version))
    }
}
