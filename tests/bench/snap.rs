//! svc-snap beside `curl`, on a server of the benchmark's own in a throw-away host.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use svc_tests::host::{Host, OwnSearch};
use svc_tests::sandbox::Sandbox;
use svc_tests::{download, http, os};

use crate::Frame;
use crate::measure::{Line, Scratch, fill_index, machine, megabytes, search, search_server, seconds};
use crate::report::{Point, Report, median};

/// What can be measured by itself: a call that changes nothing; clients that search while a restore swaps; create and restore without
/// the servers' throttle, beside curl and a copy; the same at the server's own rate, beside curl; Elasticsearch Curator; many snapshots
/// listed and pruned; many indices staged and swapped.
const PARTS: [&str; 7] = ["list", "searches", "unlimited", "equal", "curator", "snapshots", "indices"];

/// What is measured, and on how much.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many MB are saved and restored; half of it without a throttle
    #[arg(long, default_value_t = 300)]
    megabytes: usize,
    /// At how many snapshots the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "500,1000,2000")]
    snapshots: Vec<usize>,
    /// At how many indices the growth is measured
    #[arg(long, value_delimiter = ',', default_value = "250,500,1000")]
    indices: Vec<usize>,
    #[command(flatten)]
    frame: Frame,
}

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let (host, pairs) = (Host::shared()?, arguments.frame.pairs(10));
    let new = || Ground::new(&host, &host.search.key);
    let ground = new()?;
    let described = format!("{}; {}", machine(&ground.sandbox.search.data_dir)?, search(&ground.sandbox.search));
    arguments.frame.measure(&PARTS, described, |report, wanted| {
        if wanted("list") {
            list(&ground, report, pairs * 10)?;
        }
        if wanted("searches") {
            searches(&ground, report)?;
        }
        let megabytes = arguments.megabytes;
        for (is_limited, count, megabytes) in [(false, 4, megabytes / 2), (true, 3, megabytes)] {
            if wanted(["unlimited", "equal"][usize::from(is_limited)]) {
                let indices = ground.fill(count, megabytes);
                create_and_restore(&ground, report, pairs, is_limited, &indices.join(","))?;
                indices.iter().for_each(|index| ground.remove(&format!("/{index}")));
            }
        }
        drop(ground);
        if wanted("curator") {
            curator(&Ground::new(&host, CURATOR_SERVER)?, report, pairs, arguments.megabytes / 3)?;
        }
        if wanted("snapshots") {
            many_snapshots(&new()?, report, &arguments.snapshots)?;
        }
        if wanted("indices") {
            many_indices(&new()?, report, &arguments.indices)?;
        }
        Ok(())
    })
}

/// A server of the benchmark's own, with the options that a real one has, and a part of it.
struct Ground {
    // Dropped in this order: what is in the server, then the server.
    sandbox: Sandbox,
    _server: OwnSearch,
    scratch: Scratch,
}

impl Ground {
    /// Starts a server with a repository as the procedure has it (2.1).
    fn new(host: &Host, key: &str) -> Result<Self> {
        let server = search_server(host, key, &[("cluster.max_shards_per_node", "20000")])?;
        let sandbox = Sandbox::on(server.server.clone(), "bench").registered(&[("compress", "true")]);
        // The whole server is its scope: of a server that is not the service's alone it leaves the throttle on restores as it is.
        let scratch = Scratch::new(vec![
            ("SVC_SEARCH_URL", server.url.clone()),
            ("SVC_REPOSITORY", sandbox.prefix.clone()),
            ("SVC_INDICES", "*".to_owned()),
            ("SVC_STATE_DIR", sandbox.state.path().display().to_string()),
        ])?;
        Ok(Self { sandbox, _server: server, scratch })
    }

    /// `curl` as the procedure has it.
    fn curl(&self, method: &str, path: &str, body: Option<Value>) -> String {
        let body = body.map(|body| format!(" -H 'Content-Type: application/json' -d '{body}'")).unwrap_or_default();
        format!("curl -sS -f --noproxy '*' -X {method} '{}{path}'{body}", self.sandbox.search.url)
    }

    fn delete(&self, snapshot: &str) -> String {
        self.curl("DELETE", &self.snapshot(snapshot), None)
    }

    /// The path of a snapshot, or of what is below it.
    fn snapshot(&self, name: &str) -> String {
        format!("/_snapshot/{}/{name}", self.sandbox.prefix)
    }

    fn remove(&self, path: &str) {
        self.sandbox.ask("DELETE", path, None);
    }

    /// Fills `count` indices with so many MB that cannot be compressed in all, in one segment a shard each: nothing is merged
    /// while something is measured. Gives their names.
    fn fill(&self, count: usize, megabytes: usize) -> Vec<String> {
        let fill = |n| {
            let name = self.sandbox.noise(&format!("big{n}"), 0);
            fill_index(&self.sandbox, &name, megabytes * 10 / count);
            name
        };
        (0..count).map(fill).collect()
    }

    /// Takes a snapshot of the sandbox's indices by the server's own call, with the mark that `svc-snap create` makes.
    fn take_small(&self, name: &str, indices: &str) -> String {
        let mark = json!({"run_id": "20260101t000000z-bench", "kind": "nightly"});
        let body = json!({"indices": indices, "include_global_state": false,
            "metadata": {"taken_by": "bench", "taken_because": "nightly", "svc_tools": mark}});
        self.curl("PUT", &format!("{}?wait_for_completion=true", self.snapshot(name)), Some(body))
    }

    /// Measures one beside the other, and gives our seconds.
    fn beside(
        &self,
        report: &mut Report,
        (what, against): (&str, &str),
        target: Option<f64>,
        pairs: usize,
        sides: [&Line; 2],
    ) -> Result<Vec<f64>> {
        let [ours, theirs] = self.scratch.in_turn(pairs, sides)?.map(|costs| seconds(&costs));
        report.ratio(what, against, target, (&ours, &theirs));
        Ok(ours)
    }
}

/// What a snapshot of ours must be.
const SUCCESS: &str = ".result.snapshot.state == \"SUCCESS\"";

fn line(timed: impl Into<String>, holds: &str, after: impl Into<String>) -> Line {
    // What the last thing measured left in the page cache is written, so that this one does not pay for it.
    Line { before: "sync".to_owned(), timed: timed.into(), holds: holds.to_owned(), after: after.into() }
}

/// `list` of a few snapshots beside `curl` asking for the same: what the tool itself costs. So short a call is measured more often.
fn list(ground: &Ground, report: &mut Report, pairs: usize) -> Result<()> {
    let index = ground.sandbox.simple("listed", 3);
    (0..3).try_for_each(|n| ground.scratch.call(&ground.take_small(&format!("listed{n}"), &index)).map(drop))?;
    let of = |timed: String| Line { timed, ..Line::default() };
    let (ours, theirs) = (of("svc-snap list".to_owned()), of(ground.curl("GET", &ground.snapshot("_all"), None)));
    // A server that has just started answers slowly.
    ground.scratch.in_turn(pairs, [&ours, &theirs])?;
    let what = ("`list`", "`curl …/_snapshot/<repository>/_all`");
    ground.beside(report, what, Some(1.05), pairs, [&ours, &theirs])?;
    report.quantity("`list`, MB of memory", megabytes([&ground.scratch.run(&ours)?]), 12.0, 1);
    (0..3).for_each(|n| ground.remove(&ground.snapshot(&format!("listed{n}"))));
    ground.remove(&format!("/{index}"));
    Ok(())
}

/// A restore of ten indices while clients search them by their alias: how long the searches fail.
fn searches(ground: &Ground, report: &mut Report) -> Result<()> {
    const ROUNDS: usize = 5;
    let alias = ground.sandbox.name("alias");
    let settings = json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {}}});
    let indices: Vec<String> = (0..10).map(|n| ground.sandbox.index(&format!("i{n}"), settings.clone())).collect();
    indices.iter().for_each(|index| ground.sandbox.fill(index, 0, 20));
    ground.scratch.call("svc-snap create gap")?;
    let url = format!("{}/{alias}/_search", ground.sandbox.search.url);
    let mut gaps = Vec::new();
    for round in 0..ROUNDS {
        let run = format!("20260101t000000z-gap-{round}");
        let (stop, longest) = (AtomicBool::new(false), Mutex::new(Duration::ZERO));
        let search = || {
            let mut last = Instant::now();
            while !stop.load(Ordering::SeqCst) {
                let answered = http::request("GET", &url, None);
                if answered.is_ok_and(|(status, answer)| status == 200 && answer["_shards"]["failed"] == 0) {
                    last = Instant::now();
                } else if let Ok(mut longest) = longest.lock() {
                    *longest = longest.max(last.elapsed());
                }
                thread::sleep(Duration::from_millis(5));
            }
        };
        thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(search)));
            let restored = ground.scratch.call(&format!("svc-snap restore gap --run-id {run}"));
            stop.store(true, Ordering::SeqCst);
            restored
        })?;
        ground.scratch.ok()?;
        gaps.push(longest.into_inner().unwrap_or_default().as_secs_f64());
        ground.scratch.call(&format!("svc-snap discard --run {run}"))?;
    }
    indices.iter().for_each(|index| ground.remove(&format!("/{index}")));
    let what = "`restore` of 10 indices: seconds at a stretch in which searches by their alias fail";
    // What clients that try again do not notice.
    report.quantity(what, median(&gaps), 1.0, ROUNDS);
    Ok(())
}

/// `create` beside `curl`, each into a repository that holds nothing of it yet; and `restore` (stage, verify, swap) beside deleting and
/// `curl …/_restore`. Ours without a throttle, the other as the server has it, and beside a copy within the repository's file system;
/// or both as the server has it.
fn create_and_restore(ground: &Ground, report: &mut Report, pairs: usize, is_limited: bool, indices: &str) -> Result<()> {
    let options = if is_limited { "" } else { " --rate-limit none" };
    // What was measured is what was meant: where a throttle must be left as it is, the tool continues with a warning.
    let rate = format!(".ok and (.result.throttle.set == null) == {is_limited}");
    let waits = |path: &str| format!("{}?wait_for_completion=true", ground.snapshot(path));
    let body = json!({"indices": format!("{}-*", ground.sandbox.prefix), "ignore_unavailable": true,
        "include_global_state": true, "metadata": {"taken_by": "bench", "taken_because": "bench"}});
    let create = [
        line(format!("svc-snap create ours{options}"), &format!("{rate} and {SUCCESS}"), ground.delete("ours")),
        line(ground.curl("PUT", &waits("theirs"), Some(body)), ".snapshot.state == \"SUCCESS\"", ground.delete("theirs")),
    ];
    let run = format!("20260101t000000z-bench-{}-%N", options.len());
    let delete = ground.curl("DELETE", &format!("/{indices}"), None);
    let post = ground.curl("POST", &waits("base/_restore"), Some(json!({"indices": indices, "include_global_state": false})));
    let restore = [
        line(format!("svc-snap restore base --run-id {run}{options}"), &rate, format!("svc-snap discard --run {run}")),
        line(format!("{delete} >&2 && {post}"), ".snapshot.shards | .failed == 0 and .total != 0", ""),
    ];
    let from = ground.sandbox.location();
    let copy = line(format!("cp -r '{0}' '{0}.copy' && sync", from.display()), "", format!("rm -r '{}.copy'", from.display()));
    for (step, against, [ours, theirs], targets) in [
        ("create", "`curl …?wait_for_completion=true`", create, [0.20, 1.05]),
        ("restore", "`DELETE` and `curl …/_restore?wait_for_completion=true`", restore, [0.30, 1.15]),
    ] {
        let what = format!("`{step}{options}`");
        // Nobody's first call is measured: the server's compiler warms up.
        ground.scratch.run(&ours)?;
        let ours = ground.beside(report, (&what, against), Some(targets[usize::from(is_limited)]), pairs, [&ours, &theirs])?;
        if step == "create" {
            ground.sandbox.create("base");
        }
        if !is_limited {
            let [copied] = ground.scratch.in_turn(pairs, [&copy])?;
            report.ratio(&what, "`cp -r` and `sync`", None, (&ours, &seconds(&copied)));
        }
    }
    ground.remove(&ground.snapshot("base"));
    Ok(())
}

/// The last one for Elasticsearch 7. Those for 8 ask `GET /`, which the vendors' bare distributions of 8 do not answer.
const CURATOR: &str = "elasticsearch-curator==7.0.1";
/// The server that it supports.
const CURATOR_SERVER: &str = "elasticsearch-7";

/// Elasticsearch Curator, the tool that did this before: snapshots taken and pruned by both in turn, at the server's own rate.
fn curator(ground: &Ground, report: &mut Report, pairs: usize, megabytes: usize) -> Result<()> {
    /// How many snapshots are kept, and how many are too many.
    const KEPT: usize = 20;
    const TOO_MANY: usize = 10;
    let program = install_curator()?;
    let prefix = &ground.sandbox.prefix;
    let (host, port) = ground.sandbox.search.url.trim_start_matches("http://").split_once(':').context("no port")?;
    // JSON is YAML.
    let client =
        json!({"client": {"hosts": [host], "port": port.parse::<u16>()?, "timeout": 300}, "logging": {"loglevel": "ERROR"}});
    fs::write(ground.scratch.file("curator.yml"), client.to_string())?;
    let by_curator = |name: &str, action: &Value| -> Result<String> {
        fs::write(ground.scratch.file(name), json!({"actions": {"1": action}}).to_string())?;
        Ok(format!("'{}' --config curator.yml {name}", program.display()))
    };
    // Its shortest pause between two looks.
    let theirs = json!({"action": "snapshot", "options": {"repository": prefix, "name": "theirs", "include_global_state": true,
            "wait_for_completion": true, "wait_interval": 1, "max_wait": 600},
        "filters": [{"filtertype": "pattern", "kind": "prefix", "value": prefix}]});
    let indices = ground.fill(2, megabytes);
    let ours = line("svc-snap create ours", SUCCESS, ground.delete("ours"));
    let is_there = ground.curl("GET", &ground.snapshot("theirs"), None) + " | jq -e '.snapshots[0].state == \"SUCCESS\"' && ";
    let theirs = line(by_curator("create.yml", &theirs)?, "", is_there + &ground.delete("theirs"));
    let what = ("`create`", "Curator, action `snapshot`, `wait_interval: 1`");
    ground.beside(report, what, None, pairs, [&ours, &theirs])?;
    indices.iter().for_each(|index| ground.remove(&format!("/{index}")));

    let index = ground.sandbox.simple("small", 3);
    // What is there, and as many more as are missing.
    let count = ground.curl("GET", &ground.snapshot("_all"), None) + " | jq '.snapshots | length'";
    let more = ground.take_small("nightly-'$(printf %06d%02d %N $n)'", &index);
    let before = format!("for n in $(seq $({count}) {}); do {more}; done", KEPT + TOO_MANY - 1);
    let prune =
        |timed: String| Line { before: before.clone(), timed, after: format!("test $({count}) = {KEPT}"), ..Line::default() };
    let theirs = json!({"action": "delete_snapshots", "options": {"repository": prefix, "retry_count": 1},
        "filters": [{"filtertype": "pattern", "kind": "prefix", "value": "nightly-"},
            {"filtertype": "count", "count": KEPT, "use_age": true, "source": "creation_date"}]});
    let ours = prune(format!("svc-snap prune --max-count {KEPT} --min-count 7"));
    let what = (format!("`prune` of {TOO_MANY} snapshots"), "Curator, action `delete_snapshots`");
    ground.beside(report, (&what.0, what.1), None, pairs, [&ours, &prune(by_curator("prune.yml", &theirs)?)])?;
    Ok(())
}

/// Installs it into the cache, once. A virtual environment knows its own path, so it is made where it stays.
fn install_curator() -> Result<PathBuf> {
    let folder = download::cache()?.join(CURATOR.replace("==", "-"));
    let ready = folder.join("ready");
    if !ready.exists() {
        let _ = fs::remove_dir_all(&folder);
        os::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        os::run(Command::new(folder.join("bin/pip")).args(["install", "--quiet", CURATOR]))
            .with_context(|| format!("cannot install {CURATOR} from PyPI"))?;
        fs::write(&ready, "")?;
    }
    Ok(folder.join("bin/curator"))
}

/// A repository of so many snapshots, listed and pruned.
fn many_snapshots(ground: &Ground, report: &mut Report, sizes: &[usize]) -> Result<()> {
    /// What a night's prune comes to.
    const PRUNED: usize = 20;
    let index = ground.sandbox.simple("small", 3);
    let (mut listed, mut pruned, mut made) = (Vec::new(), Vec::new(), 0);
    let scratch = &ground.scratch;
    for &size in sizes {
        let missing = size - ground.sandbox.snapshots().len();
        // Four at once: the server's work is what it waits for.
        fs::write(scratch.file("take"), ground.take_small("many-'$1'", &index))?;
        let timed = format!("seq -f %06.0f {made} {} | xargs -n 1 -P 4 sh -e take > /dev/null", made + missing - 1);
        scratch.run(&Line { timed, ..Line::default() })?;
        made += missing;
        eprintln!("{size} snapshots");
        let curl = scratch.call(&ground.curl("GET", &ground.snapshot("_all"), None))?.seconds;
        listed.push((size, scratch.call("svc-snap list")?, Some(curl)));
        let cost = scratch.call(&format!("svc-snap prune --max-count {} --min-count 7", size - PRUNED))?;
        let left = ground.sandbox.snapshots();
        ensure!(left.len() == size - PRUNED, "the prune left {} of {size} snapshots", left.len());
        // As many by curl, one by one as well.
        let oldest = left.iter().take(PRUNED).filter_map(|one| one["snapshot"].as_str());
        let deletes: Vec<String> = oldest.map(|name| ground.delete(name)).collect();
        let curl = scratch.run(&Line { timed: deletes.join(" && "), ..Line::default() })?.seconds;
        pruned.push((size, cost, Some(curl)));
    }
    report.growth("`list` of n snapshots", &listed);
    report.growth(&format!("`prune` of {PRUNED} of n snapshots"), &pruned);
    Ok(())
}

/// So many small indices, staged and swapped.
fn many_indices(ground: &Ground, report: &mut Report, sizes: &[usize]) -> Result<()> {
    let steps = ["create", "stage", "swap", "discard"];
    let mut points: [Vec<Point>; 4] = Default::default();
    let mut there = 0;
    for &size in sizes {
        for n in there..size {
            let settings = json!({"number_of_shards": 1, "number_of_replicas": 0});
            let body = json!({"settings": settings, "aliases": {ground.sandbox.name("all"): {}}});
            ground.sandbox.fill(&ground.sandbox.index(&format!("many{n:06}"), body), 0, 2);
        }
        there = size;
        eprintln!("{size} indices");
        let (snapshot, run) = (format!("size{size}"), format!("20260101t000000z-many-{size}"));
        let stage = format!("stage --from created.json --run-id {run}");
        for (line, points) in [format!("create {snapshot}"), stage, format!("swap --run {run}"), format!("discard --run {run}")]
            .iter()
            .zip(&mut points)
        {
            let cost = ground.scratch.call(&format!("svc-snap {line}"))?;
            eprintln!("{line}: {cost:?}");
            points.push((size, cost, None));
            if line.starts_with("create") {
                ground.scratch.keep("created.json")?;
            }
        }
        ground.remove(&ground.snapshot(&snapshot));
    }
    steps.iter().zip(points).for_each(|(step, points)| report.growth(&format!("`{step}` of n small indices"), &points));
    Ok(())
}
