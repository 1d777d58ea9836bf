//! One test's own indices, repository and state on a search database, and `svc-snap` set up for them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, process};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::content::{self, Index};
use crate::host::{Host, texts};
use crate::http;
use crate::proxy::Gate;
use crate::random::Random;
use crate::search::Search;
use crate::tool::{Ran, Spawned, Tool};
use crate::wait;

/// A restore of what is live, in place.
pub const CLOSE: [&str; 4] = ["restore", "--in-place", "--on-conflict", "close"];
pub const DELETE: [&str; 4] = ["restore", "--in-place", "--on-conflict", "delete"];
/// What a server says to somebody who may not, and to a request that fails for a reason of its own.
pub const DENIED: (u16, &str, &str) = (403, "security_exception", "no permissions");
pub const MISHAP: (u16, &str, &str) = (400, "illegal_argument_exception", "a mishap");

/// The `n`th run of a test that tells several apart.
pub fn run_id(n: usize) -> String {
    format!("20261120t02{n:04}z-test")
}

/// The body that makes an index which no node may hold.
pub fn unallocatable() -> Value {
    json!({"settings": {"index.routing.allocation.require._name": "nobody", "number_of_replicas": 0}})
}

/// The test's own part of a search database. Everything in it has a name that starts with (or, for copies, holds) its prefix,
/// and is gone when it is dropped.
pub struct Sandbox {
    pub search: Search,
    /// What every name starts with; also the repository's name.
    pub prefix: String,
    pub state: TempDir,
}

impl Sandbox {
    /// On the shared server, with a repository.
    pub fn new(name: &str) -> Self {
        Self::on(Host::shared().unwrap().search, name).registered(&[])
    }

    /// On the shared server, with a repository that is throttled at so many bytes a second, and 2 MB, 20 documents, to be saved,
    /// which takes five seconds and more at 400kb. A server with two cores saves one shard at a time: tests wait for each other.
    pub fn at_rate(name: &str, rate: &str) -> Self {
        let sandbox = Self::on(Host::shared().unwrap().search, name).registered(&[("max_snapshot_bytes_per_sec", rate)]);
        sandbox.noise("docs", 20);
        sandbox
    }

    /// On a server, without a repository.
    pub fn on(search: Search, name: &str) -> Self {
        Self { search, prefix: format!("sb-{name}-{}", process::id()), state: tempfile::tempdir().unwrap() }
    }

    #[must_use]
    pub fn registered(self, settings: &[(&str, &str)]) -> Self {
        let mut all: BTreeMap<&str, String> = settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        all.insert("location", self.location().display().to_string());
        self.ask("PUT", &format!("/_snapshot/{}", self.prefix), Some(json!({"type": "fs", "settings": all})));
        self
    }

    pub fn location(&self) -> PathBuf {
        self.search.repo_root.join(&self.prefix)
    }

    pub fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.prefix)
    }

    pub fn tool(&self, args: &[&str]) -> Tool {
        Tool::new("svc-snap").envs(self.env()).args(args)
    }

    pub fn env(&self) -> Vec<(String, String)> {
        texts(&[
            ("SVC_SEARCH_URL", self.search.url.clone()),
            ("SVC_REPOSITORY", self.prefix.clone()),
            ("SVC_INDICES", format!("{}-*", self.prefix)),
            ("SVC_STATE_DIR", self.state.path().display().to_string()),
        ])
    }

    /// The tool on another host, which has a state of its own.
    pub fn elsewhere(&self, tool: Tool) -> Tool {
        tool.env("SVC_STATE_DIR", self.state.path().join("elsewhere"))
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.tool(args).run()
    }

    /// Runs a step that continues from the document of another.
    pub fn from(&self, args: &[&str], document: &Ran) -> Ran {
        self.resuming(args, document).run()
    }

    pub fn from_text(&self, args: &[&str], document: &str) -> Ran {
        self.tool(args).args(["--from", "-"]).stdin(document).run()
    }

    /// Takes away what this host has captured of snapshots, as if another host had taken them.
    pub fn remove_state(&self) {
        fs::remove_dir_all(self.state.path().join("snapshots")).unwrap();
    }

    pub fn create(&self, snapshot: &str) -> Ran {
        self.run(&["create", snapshot]).ok()
    }

    /// Starts a create that takes its time, waits until it is under way, and gives the snapshot's `uuid`.
    pub fn begun(&self, tool: Tool, name: &str) -> (Spawned, String) {
        let spawned = tool.spawn();
        (spawned, self.appears(name))
    }

    /// Waits until the server shows the snapshot under way, and gives its `uuid`.
    pub fn appears(&self, name: &str) -> String {
        wait::so("the snapshot", || {
            let (_, answer) = self.search.request("GET", &format!("/_snapshot/{}/{name}", self.prefix), None).ok()?;
            let snapshot = &answer["snapshots"][0];
            (snapshot["state"] == "IN_PROGRESS").then(|| snapshot["uuid"].as_str().unwrap().to_owned())
        })
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        self.search.ask(method, path, body.as_ref()).unwrap()
    }

    pub fn index(&self, suffix: &str, body: Value) -> String {
        let name = self.name(suffix);
        self.ask("PUT", &format!("/{name}"), Some(body));
        name
    }

    /// Takes a snapshot as somebody else does, with such a request.
    pub fn taken(&self, name: &str, body: Value) -> Value {
        self.ask("PUT", &format!("/_snapshot/{}/{name}?wait_for_completion=true", self.prefix), Some(body))
    }

    pub fn set(&self, index: &str, settings: Value) {
        self.ask("PUT", &format!("/{index}/_settings"), Some(settings));
    }

    /// Sets a persistent setting of the cluster.
    pub fn set_cluster(&self, name: &str, value: Value) {
        self.ask("PUT", "/_cluster/settings", Some(json!({"persistent": {name: value}})));
    }

    /// Sets how much disk space is to be free: below the high watermark, and below the flood stage.
    pub fn watermarks(&self, high: &str, flood_stage: &str) {
        let all = [("low", high), ("high", high), ("flood_stage", flood_stage)];
        let all = all.map(|(name, free)| (format!("cluster.routing.allocation.disk.watermark.{name}"), json!(free)));
        self.ask("PUT", "/_cluster/settings", Some(json!({"persistent": Value::from_iter(all)})));
    }

    pub fn delete(&self, index: &str) {
        self.ask("DELETE", &format!("/{index}"), None);
    }

    /// How many shards count against the limit of the cluster.
    pub fn shards(&self) -> u64 {
        let health = self.ask("GET", "/_cluster/health", None);
        ["active_shards", "initializing_shards", "unassigned_shards"].map(|key| health[key].as_u64().unwrap()).iter().sum()
    }

    pub fn uuid(&self, index: &str) -> Value {
        self.ask("GET", &format!("/{index}/_settings?flat_settings=true"), None)[index]["settings"]["index.uuid"].clone()
    }

    pub fn repository(&self) -> Value {
        self.ask("GET", &format!("/_snapshot/{}", self.prefix), None)[&self.prefix]["settings"].clone()
    }

    /// Makes an index without replicas that is the write index of an alias, and gives its name.
    pub fn written_through(&self, alias: &str, suffix: &str) -> String {
        self.index(suffix, json!({"settings": {"number_of_replicas": 0}, "aliases": {alias: {"is_write_index": true}}}))
    }

    /// Makes a data stream of that name, by its index template and five documents: `_data_stream` may not be served.
    pub fn stream<'a>(&self, name: &'a str, data_stream: Value) -> &'a str {
        let template = json!({"index_patterns": [name], "data_stream": data_stream, "priority": 500,
            "template": {"settings": {"number_of_replicas": 1}}});
        self.ask("PUT", &format!("/_index_template/{}", name.trim_start_matches('.')), Some(template));
        self.fill_stream(name, 0, 5);
        name
    }

    pub fn fill_stream(&self, stream: &str, from: usize, to: usize) {
        for n in from..to {
            let document = json!({"@timestamp": "2026-11-20T00:00:00Z", "n": n});
            self.ask("POST", &format!("/{stream}/_doc?refresh=true"), Some(document));
        }
    }

    /// Makes an index of so many documents without replicas, and gives its name.
    pub fn simple(&self, suffix: &str, docs: usize) -> String {
        let name = self.index(suffix, json!({"settings": {"number_of_replicas": 0}}));
        self.fill(&name, 0, docs);
        name
    }

    /// Makes an index whose shard is nowhere, and gives its name; the cluster is red while it is there.
    pub fn red(&self, suffix: &str) -> String {
        let name = self.name(suffix);
        self.ask("PUT", &format!("/{name}?wait_for_active_shards=0"), Some(unallocatable()));
        name
    }

    /// Writes the documents `from..to` into an index of the sandbox, by its full name.
    pub fn fill(&self, index: &str, from: usize, to: usize) {
        let lines: String = (from..to)
            .map(|n| format!("{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"k\":{}}}\n", n % 3))
            .collect();
        http::bulk(&self.search.url, &lines).unwrap();
    }

    /// Makes an index of so many documents of 100 KB that cannot be compressed, and gives its name.
    pub fn noise(&self, suffix: &str, count: usize) -> String {
        let properties = json!({"t": {"type": "keyword", "index": false, "doc_values": false}});
        let name = self.index(suffix, json!({"settings": {"number_of_replicas": 0}, "mappings": {"properties": properties}}));
        self.fill_noise(&name, count);
        name
    }

    /// Writes so many documents of 100 KB that cannot be compressed into an index, by its full name.
    pub fn fill_noise(&self, index: &str, count: usize) {
        let mut random = Random::with_seed(1);
        let mut text = || -> String { (0..100_000).map(|_| random.lowercase()).collect() };
        // A request of more than 100 MB is refused.
        for part in (0..count).collect::<Vec<_>>().chunks(200) {
            let lines: String = part.iter().map(|_| format!("{{\"index\":{{}}}}\n{{\"t\":\"{}\"}}\n", text())).collect();
            http::bulk(&format!("{}/{index}", self.search.url), &lines).unwrap();
        }
    }

    /// Every index whose name holds the prefix, hidden ones and our own copies too.
    pub fn names(&self) -> Vec<String> {
        let all = self.ask("GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", None);
        let names = all.as_array().unwrap().iter().map(|one| one["index"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.filter(|name| name.contains(&self.prefix)).collect();
        names.sort();
        names
    }

    pub fn copies(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| name.starts_with("svc-")).collect()
    }

    /// Puts a block on an index (`on`), such as `read_only`, or takes it off.
    pub fn block(&self, index: &str, block: &str, on: bool) {
        let value = if on { json!(true) } else { Value::Null };
        self.set(index, json!({format!("index.blocks.{block}"): value}));
    }

    /// The blocks that an index has, in the order of their names.
    pub fn blocks(&self, index: &str) -> Vec<String> {
        let all = self.ask("GET", &format!("/{index}/_settings?flat_settings=true"), None);
        let settings = all[index]["settings"].as_object().unwrap().iter().filter(|(_, value)| *value == "true");
        settings.filter_map(|(name, _)| Some(name.strip_prefix("index.blocks.")?.to_owned())).collect()
    }

    pub fn count(&self, index: &str) -> u64 {
        self.ask("POST", &format!("/{index}/_refresh"), None);
        self.ask("GET", &format!("/{index}/_count"), None)["count"].as_u64().unwrap()
    }

    pub fn content(&self) -> BTreeMap<String, (Index, Value)> {
        let live = self.names().into_iter().filter(|name| !name.starts_with("svc-"));
        let content = |name: &str| content::documents(&self.search.url, name).unwrap().remove(name).unwrap();
        live.map(|name| (name.clone(), (content(&name), self.settings(&name)))).collect()
    }

    /// The settings that an operator relies on.
    pub fn settings(&self, index: &str) -> Value {
        let all = self.ask("GET", &format!("/{index}/_settings?flat_settings=true"), None);
        let settings = &all[index]["settings"];
        let or = |name: &str, default: &str| settings[name].as_str().unwrap_or(default).to_owned();
        json!({"replicas": or("index.number_of_replicas", ""), "auto": or("index.auto_expand_replicas", "false"),
            "hidden": or("index.hidden", "false"), "block": or("index.blocks.write", "false"), "read_only": or("index.verified_read_only", "false"),
            "shards": or("index.number_of_shards", "")})
    }

    pub fn snapshots(&self) -> Vec<Value> {
        self.ask("GET", &format!("/_snapshot/{}/_all", self.prefix), None)["snapshots"].as_array().unwrap().clone()
    }

    /// Asks the server to remove all that is still there, and gives what was; nothing if it does not answer any more.
    fn remove(&self) -> Vec<String> {
        // A test that fails must not fail a second time here, nor if its server is gone.
        let request = |method: &str, path: &str| self.search.request(method, path, None).unwrap_or_default();
        let repository = format!("/_snapshot/{}", self.prefix);
        let mut found = Vec::new();
        if request("GET", &repository).0 == 200 {
            found.push(format!("the repository {}", self.prefix));
            // Its folder goes with what has been saved; what is being saved keeps it registered.
            for snapshot in request("GET", &format!("{repository}/_current")).1["snapshots"].as_array().into_iter().flatten() {
                request("DELETE", &format!("{repository}/{}", snapshot["snapshot"].as_str().unwrap_or_default()));
            }
            request("DELETE", &repository);
        }
        let all = request("GET", "/_resolve/index/*?expand_wildcards=all").1;
        let named = |key: &str| {
            let names = all[key].as_array().into_iter().flatten().filter_map(|one| Some(one["name"].as_str()?.to_owned()));
            names.filter(|name| name.contains(&self.prefix)).collect::<Vec<_>>()
        };
        let (mut streams, mut indices) = (named("data_streams"), named("indices"));
        // Elasticsearch without its module serves no such request: what is in the way there goes with its server.
        if streams.iter().any(|stream| [400, 405].contains(&request("DELETE", &format!("/_data_stream/{stream}")).0)) {
            streams.clear();
            indices.retain(|index| !index.starts_with(".ds-"));
        }
        request("DELETE", &format!("/_index_template/{}*", self.prefix));
        for index in &indices {
            // The servers take these blocks off one by one, and let no index go that has one.
            if request("DELETE", &format!("/{index}")).0 == 403 {
                for block in ["index.blocks.metadata", "index.blocks.read_only"] {
                    let _ = self.search.request("PUT", &format!("/{index}/_settings"), Some(&json!({block: null})));
                }
                request("DELETE", &format!("/{index}"));
            }
        }
        found.into_iter().chain(streams).chain(indices).collect()
    }

    /// On the shared server, with ten documents in an index, a snapshot of it (`s1`), and five documents more since. Gives the name of
    /// the index and the snapshot's document too.
    pub fn saved(name: &str) -> (Self, String, Ran) {
        let sandbox = Self::new(name);
        let docs = sandbox.simple("docs", 10);
        let created = sandbox.create("s1");
        sandbox.fill(&docs, 10, 15);
        (sandbox, docs, created)
    }

    /// The same, with what is staged of it, which is the last of the four.
    pub fn staged(name: &str) -> (Self, String, Ran, Ran) {
        let (sandbox, docs, created) = Self::saved(name);
        let staged = sandbox.from(&["stage"], &created).ok();
        (sandbox, docs, created, staged)
    }

    pub fn gate(&self) -> Gate {
        Gate::to(&self.search.url).expect("a port is free")
    }

    pub fn resuming(&self, args: &[&str], document: &Ran) -> Tool {
        self.tool(args).args(["--from", "-"]).stdin(document.text())
    }
}

/// Makes a call with a time limit of so many seconds that must not be over before the call has come to where it is to be seen: on a
/// slow machine it is (`None`), and the call is made again with a longer one.
pub fn limited<T>(call: impl FnMut(u64) -> Option<T>) -> T {
    [5, 60, 300].into_iter().find_map(call).expect("it comes there within minutes")
}

/// Tells threads to end, in whichever way their test ends: else its scope would wait for them.
pub struct Stopping<'a>(pub &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let mut left = Vec::new();
        let gone = wait::gone(wait::HANG, || {
            left = self.remove();
            left.is_empty()
        });
        let _ = fs::remove_dir_all(self.location());
        if !gone {
            eprintln!("the sandbox {} is still on the server: {left:?}", self.prefix);
        }
    }
}
