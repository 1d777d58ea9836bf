//! Elasticsearch Curator, the tool that did this before: snapshots taken and old ones removed by both, at the server's own rate.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use svc_tests::{download, os};

use super::ground::Ground;
use crate::measure::{Line, settle_disk};
use crate::report::Report;
use crate::sample::Sample;

/// The last one for Elasticsearch 7. Those for 8 ask `GET /`, which the vendors' bare distributions of 8 do not answer.
const PACKAGE: &str = "elasticsearch-curator==7.0.1";
/// The server that it supports.
pub const SERVER: &str = "elasticsearch-7";
/// How many snapshots are kept, and how many are too many.
const KEPT: usize = 20;
const TOO_MANY: usize = 10;

/// Takes snapshots and prunes them in turn.
pub fn compare(ground: &Ground, report: &mut Report, pairs: usize, megabytes: usize) -> Result<()> {
    let curator = Curator::install(ground)?;
    let indices = ground.fill(2, megabytes);
    let run = |name: &str| {
        let remove = || drop(ground.sandbox.ask("DELETE", &ground.snapshot(name), None));
        let line = if name == "ours" { ground.snap(&["create", name]) } else { curator.line("create", &curator.create(name))? };
        settle_disk();
        let seconds = line.time(&ground.output())?;
        let found = ground.sandbox.ask("GET", &ground.snapshot(name), None);
        ensure!(found["snapshots"][0]["state"] == "SUCCESS", "{name} is no SUCCESS: {found}");
        remove();
        Ok(seconds)
    };
    let sample = Sample::take(pairs, || run("ours"), || run("theirs"))?;
    report.ratio("`create`", "Curator, action `snapshot`, `wait_interval: 1`", None, &sample);
    indices.iter().for_each(|index| drop(ground.sandbox.ask("DELETE", &format!("/{index}"), None)));

    let index = ground.sandbox.simple("small", 3);
    let number = std::cell::Cell::new(0_usize);
    let refill = || {
        let there = ground.sandbox.snapshots().len();
        for _ in there..KEPT + TOO_MANY {
            number.set(number.get() + 1);
            ground.take_small(&format!("nightly-{:06}", number.get()), &index);
        }
    };
    let prune = |line: Line| {
        refill();
        let seconds = line.time(&ground.output())?;
        let left = ground.sandbox.snapshots().len();
        ensure!(left == KEPT, "{left} snapshots were kept, not {KEPT}");
        Ok(seconds)
    };
    let ours = ground.snap(&["prune", "--max-count", &KEPT.to_string(), "--min-count", "7"]);
    let theirs = curator.line("prune", &curator.prune())?;
    let sample = Sample::take(pairs, || prune(ours.clone()), || prune(theirs.clone()))?;
    report.ratio(&format!("`prune` of {TOO_MANY} snapshots"), "Curator, action `delete_snapshots`", None, &sample);
    Ok(())
}

/// An installed Curator, set up for the ground's server.
struct Curator<'a> {
    program: PathBuf,
    ground: &'a Ground,
}

impl<'a> Curator<'a> {
    /// Installs it into the cache, once.
    fn install(ground: &'a Ground) -> Result<Self> {
        // A virtual environment knows its own path, so it is made where it stays.
        let folder = download::cache()?.join(PACKAGE.replace("==", "-"));
        let ready = folder.join("ready");
        if !ready.exists() {
            let _ = fs::remove_dir_all(&folder);
            os::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            os::run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", PACKAGE]))
                .with_context(|| format!("cannot install {PACKAGE} from PyPI"))?;
            fs::write(&ready, "")?;
        }
        Ok(Self { program: folder.join("bin/curator"), ground })
    }

    fn line(&self, name: &str, action: &Value) -> Result<Line> {
        let (host, port) = self.ground.sandbox.search.url.trim_start_matches("http://").split_once(':').context("no port")?;
        let client = json!({"client": {"hosts": [host], "port": port.parse::<u16>()?, "timeout": 300},
            "logging": {"loglevel": "ERROR"}});
        // JSON is YAML.
        let (config, actions) = (self.ground.scratch("curator.yml"), self.ground.scratch(&format!("curator-{name}.yml")));
        fs::write(&config, client.to_string())?;
        fs::write(&actions, json!({"actions": {"1": action}}).to_string())?;
        Ok(Line::new([self.program.clone(), "--config".into(), config, actions]))
    }

    /// Its shortest pause between two looks.
    fn create(&self, name: &str) -> Value {
        let prefix = &self.ground.sandbox.prefix;
        json!({"action": "snapshot", "options": {"repository": prefix, "name": name, "include_global_state": true,
                "wait_for_completion": true, "wait_interval": 1, "max_wait": 600},
            "filters": [{"filtertype": "pattern", "kind": "prefix", "value": prefix}]})
    }

    fn prune(&self) -> Value {
        json!({"action": "delete_snapshots", "options": {"repository": self.ground.sandbox.prefix, "retry_count": 1},
            "filters": [{"filtertype": "pattern", "kind": "prefix", "value": "nightly-"},
                {"filtertype": "count", "count": KEPT, "use_age": true, "source": "creation_date"}]})
    }
}
