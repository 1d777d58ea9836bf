//! svc-snap beside `curl`, on a server of the benchmark's own in a throw-away host.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use svc_tests::host::{Host, OwnSearch};
use svc_tests::sandbox::Sandbox;
use svc_tests::search::{BENCHMARK_JVM_OPTIONS, Settings};
use svc_tests::{download, http, os};

use crate::Frame;
use crate::measure::{Line, Scratch, in_turn, machine, settle_disk};
use crate::report::{Point, Report, median};

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// A call that changes nothing
    List,
    /// Clients that search while a restore swaps
    Searches,
    /// Create and restore without the servers' throttle, beside curl and a copy
    Unlimited,
    /// Create and restore at the server's own rate, beside curl
    Equal,
    /// Elasticsearch Curator
    Curator,
    /// Many snapshots listed and pruned
    Snapshots,
    /// Many indices staged and swapped
    Indices,
}

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
    frame: Frame<Part>,
}

/// Measures; what missed its target.
pub fn run(arguments: &Arguments) -> Result<Vec<String>> {
    let (host, pairs) = (Host::shared()?, arguments.frame.pairs(10)?);
    let new = || Ground::new(&host, &host.search.key);
    let ground = new()?;
    arguments.frame.measure(ground.described()?, |report, wanted| {
        if wanted(Part::List) {
            list(&ground, report, pairs * 10)?;
        }
        if wanted(Part::Searches) {
            searches(&ground, report)?;
        }
        let megabytes = arguments.megabytes;
        for (part, rate, count, megabytes) in
            [(Part::Unlimited, Rate::Unlimited, 4, megabytes / 2), (Part::Equal, Rate::Equal, 3, megabytes)]
        {
            if wanted(part) {
                let indices = ground.fill(count, megabytes);
                create(&ground, report, pairs, rate)?;
                restore(&ground, report, pairs, rate, &indices)?;
                indices.iter().for_each(|index| ground.remove(&format!("/{index}")));
            }
        }
        drop(ground);
        if wanted(Part::Curator) {
            curator(&Ground::new(&host, CURATOR_SERVER)?, report, pairs, arguments.megabytes / 3)?;
        }
        if wanted(Part::Snapshots) {
            many_snapshots(&new()?, report, &arguments.snapshots)?;
        }
        if wanted(Part::Indices) {
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
        let extra = vec![("cluster.max_shards_per_node".to_owned(), "20000".to_owned())];
        let server = host.prepare_search_server(key, &Settings { extra, ..Settings::default() })?;
        fs::write(server.config_dir.join("jvm.options.d/zz-bench.options"), BENCHMARK_JVM_OPTIONS)?;
        server.search.start(&host.systemd)?;
        let sandbox = Sandbox::on(server.search.clone(), "bench").registered(&[("compress", "true")]);
        Ok(Self { sandbox, _server: server, scratch: Scratch(tempfile::tempdir()?) })
    }

    /// `svc-snap` with the sandbox's settings, and with the whole server as its scope: of a server that is not the service's alone
    /// it leaves the throttle on restores as it is.
    fn snap(&self, args: &[&str]) -> Line {
        Line::tool("svc-snap", args)
            .env("SVC_SEARCH_URL", &self.sandbox.search.url)
            .env("SVC_REPOSITORY", &self.sandbox.prefix)
            .env("SVC_INDICES", "*")
            .env("SVC_STATE_DIR", self.sandbox.state.path())
    }

    /// `curl` as the procedure has it.
    fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<String> {
        let url = format!("{}{path}", self.sandbox.search.url);
        let mut words = ["curl", "-sS", "-f", "--noproxy", "*", "-X", method, &url].map(str::to_owned).to_vec();
        if let Some(body) = body {
            words.extend(["-H", "Content-Type: application/json", "-d", &body.to_string()].map(str::to_owned));
        }
        words
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
        let names: Vec<String> = (0..count).map(|n| self.sandbox.noise(&format!("big{n}"), megabytes * 10 / count)).collect();
        for name in &names {
            self.sandbox.ask("POST", &format!("/{name}/_forcemerge?max_num_segments=1"), None);
            self.sandbox.ask("POST", &format!("/{name}/_flush"), None);
        }
        names
    }

    /// Takes a snapshot of the sandbox's indices by the server's own call, with the mark that `svc-snap create` makes.
    fn take_small(&self, name: &str, indices: &str) {
        let mark = json!({"run_id": "20260101t000000z-bench", "kind": "nightly"});
        let body = json!({"indices": indices, "include_global_state": false,
            "metadata": {"taken_by": "bench", "taken_because": "nightly", "svc_tools": mark}});
        self.sandbox.ask("PUT", &format!("{}?wait_for_completion=true", self.snapshot(name)), Some(body));
    }

    /// Copies the repository, with the bytes of one snapshot in it, within its file system.
    fn copies(&self, pairs: usize) -> Result<Vec<f64>> {
        self.sandbox.create("copied");
        let from = self.sandbox.location();
        let to = from.with_extension("copy");
        let words = ["cp".into(), "-r".into(), from.display().to_string(), to.display().to_string()];
        let copy = || {
            settle_disk();
            let seconds = self.scratch.time(&shell([words.to_vec()], " && sync"))?;
            fs::remove_dir_all(&to)?;
            Ok(seconds)
        };
        let copied = (0..pairs).map(|_| copy()).collect();
        self.remove(&self.snapshot("copied"));
        copied
    }

    /// The machine and the server, as a report names them.
    fn described(&self) -> Result<String> {
        let search = &self.sandbox.search;
        Ok(format!("{}; {} {} with 1 GB of heap", machine(&search.data_dir)?, search.product, search.version))
    }
}

/// Commands one after the other, as an operator types them; the output is the last one's.
fn shell(commands: impl IntoIterator<Item = Vec<String>>, end: &str) -> Line {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    let typed: Vec<String> = commands.into_iter().map(|words| words.iter().map(quoted).collect::<Vec<_>>().join(" ")).collect();
    Line::new(["sh".to_owned(), "-c".to_owned(), typed.join(" >&2 && ") + end])
}

/// `list` of a few snapshots beside `curl` asking for the same: what the tool itself costs. So short a call is measured more often.
fn list(ground: &Ground, report: &mut Report, pairs: usize) -> Result<()> {
    let index = ground.sandbox.simple("listed", 3);
    (0..3).for_each(|n| ground.take_small(&format!("listed{n}"), &index));
    let (ours, theirs) = (ground.snap(&["list"]), Line::new(ground.curl("GET", &ground.snapshot("_all"), None)));
    let sample = || in_turn(pairs, [&mut || ground.scratch.time(&ours), &mut || ground.scratch.time(&theirs)]);
    // A server that has just started answers slowly.
    sample()?;
    let [by_us, by_curl] = sample()?;
    report.ratio("`list`", "`curl …/_snapshot/<repository>/_all`", Some(1.05), (&by_us, &by_curl));
    report.quantity("`list`, MB of memory", ground.scratch.weigh(&ours)?.memory_bytes as f64 / 1e6, 12.0, 1);
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
    ground.scratch.time(&ground.snap(&["create", "gap"]))?;
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
            let restored = ground.scratch.time(&ground.snap(&["restore", "gap", "--run-id", &run]));
            stop.store(true, Ordering::SeqCst);
            restored
        })?;
        ensure!(ground.scratch.printed()?["ok"] == true, "the restore failed");
        gaps.push(longest.into_inner().unwrap_or_default().as_secs_f64());
        ground.scratch.time(&ground.snap(&["discard", "--run", &run]))?;
    }
    indices.iter().for_each(|index| ground.remove(&format!("/{index}")));
    let what = "`restore` of 10 indices: seconds at a stretch in which searches by their alias fail";
    // What clients that try again do not notice.
    report.quantity(what, median(&gaps), 1.0, ROUNDS);
    Ok(())
}

/// The throttle of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rate {
    /// Ours without a throttle, the other as the server has it.
    Unlimited,
    /// Both as the server has it.
    Equal,
}

impl Rate {
    fn args(self) -> &'static [&'static str] {
        if self == Self::Unlimited { &["--rate-limit", "none"] } else { &[] }
    }

    /// What was measured is what was meant: where a throttle must be left as it is, the tool continues with a warning.
    fn ensure_used(self, printed: &Value) -> Result<()> {
        ensure!(printed["ok"] == true, "ours is not ok: {printed}");
        let used = printed.pointer("/result/throttle/set").is_some_and(|set| !set.is_null());
        ensure!(used == (self == Self::Unlimited), "the rate is not as it was meant: {}", printed["warnings"]);
        Ok(())
    }

    /// Measures a step beside `theirs`, and beside a copy where nothing limits it. Nobody's first call is measured: the server's
    /// compiler warms up.
    fn measure(
        self,
        (ground, report, pairs): (&Ground, &mut Report, usize),
        (step, against, targets): (&str, &str, [f64; 2]),
        ours: &mut dyn FnMut() -> Result<f64>,
        theirs: &mut dyn FnMut() -> Result<f64>,
    ) -> Result<()> {
        let what = format!("`{}`", [&[step], self.args()].concat().join(" "));
        ours()?;
        let [ours, theirs] = in_turn(pairs, [ours, theirs])?;
        report.ratio(&what, against, Some(targets[usize::from(self == Self::Equal)]), (&ours, &theirs));
        if self == Self::Unlimited {
            report.ratio(&what, "`cp -r` and `sync`", None, (&ours, &ground.copies(pairs)?));
        }
        Ok(())
    }
}

/// `create` beside `curl`, each into a repository that holds nothing of it yet.
fn create(ground: &Ground, report: &mut Report, pairs: usize, rate: Rate) -> Result<()> {
    let mut ours = || {
        settle_disk();
        let seconds = ground.scratch.time(&ground.snap(&[&["create", "ours"], rate.args()].concat()))?;
        let printed = ground.scratch.printed()?;
        ensure!(printed["result"]["snapshot"]["state"] == "SUCCESS", "ours is no SUCCESS");
        rate.ensure_used(&printed)?;
        ground.remove(&ground.snapshot("ours"));
        Ok(seconds)
    };
    let mut theirs = || {
        settle_disk();
        let body = json!({"indices": format!("{}-*", ground.sandbox.prefix), "ignore_unavailable": true,
            "include_global_state": true, "metadata": {"taken_by": "bench", "taken_because": "bench"}});
        let path = format!("{}?wait_for_completion=true", ground.snapshot("theirs"));
        let seconds = ground.scratch.time(&Line::new(ground.curl("PUT", &path, Some(&body))))?;
        ensure!(ground.scratch.printed()?["snapshot"]["state"] == "SUCCESS", "theirs is no SUCCESS");
        ground.remove(&ground.snapshot("theirs"));
        Ok(seconds)
    };
    let what = ("create", "`curl …?wait_for_completion=true`", [0.20, 1.05]);
    rate.measure((ground, report, pairs), what, &mut ours, &mut theirs)
}

/// `restore` (stage, verify, swap) beside deleting and `curl …/_restore`.
fn restore(ground: &Ground, report: &mut Report, pairs: usize, rate: Rate, indices: &[String]) -> Result<()> {
    ground.sandbox.create("base");
    let mut round = 0;
    let mut ours = || {
        settle_disk();
        round += 1;
        let run = format!("20260101t000000z-bench-{}-{round}", rate.args().len());
        let args = [&["restore", "base", "--run-id", &run], rate.args()].concat();
        let seconds = ground.scratch.time(&ground.snap(&args))?;
        rate.ensure_used(&ground.scratch.printed()?)?;
        ground.sandbox.run(&["discard", "--run", &run]).ok();
        Ok(seconds)
    };
    let mut theirs = || {
        settle_disk();
        let body = json!({"indices": indices.join(","), "include_global_state": false});
        let path = format!("{}/_restore?wait_for_completion=true", ground.snapshot("base"));
        let delete = ground.curl("DELETE", &format!("/{}", indices.join(",")), None);
        let seconds = ground.scratch.time(&shell([delete, ground.curl("POST", &path, Some(&body))], ""))?;
        let shards = &ground.scratch.printed()?["snapshot"]["shards"];
        ensure!(shards["failed"] == 0 && shards["total"] != 0, "theirs failed");
        Ok(seconds)
    };
    let what = ("restore", "`DELETE` and `curl …/_restore?wait_for_completion=true`", [0.30, 1.15]);
    rate.measure((ground, report, pairs), what, &mut ours, &mut theirs)?;
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
    let line = |name: &str, action: &Value| -> Result<Line> {
        let actions = ground.scratch.file(name);
        fs::write(&actions, json!({"actions": {"1": action}}).to_string())?;
        Ok(Line::new([program.clone(), "--config".into(), ground.scratch.file("curator.yml"), actions]))
    };
    // Its shortest pause between two looks.
    let theirs = json!({"action": "snapshot", "options": {"repository": prefix, "name": "theirs", "include_global_state": true,
            "wait_for_completion": true, "wait_interval": 1, "max_wait": 600},
        "filters": [{"filtertype": "pattern", "kind": "prefix", "value": prefix}]});
    let indices = ground.fill(2, megabytes);
    let create = |name: &str, line: &Line| {
        settle_disk();
        let seconds = ground.scratch.time(line)?;
        let found = ground.sandbox.ask("GET", &ground.snapshot(name), None);
        ensure!(found["snapshots"][0]["state"] == "SUCCESS", "{name} is no SUCCESS: {found}");
        ground.remove(&ground.snapshot(name));
        Ok(seconds)
    };
    let by_curator = line("create.yml", &theirs)?;
    let by_us = ground.snap(&["create", "ours"]);
    let [ours, theirs] = in_turn(pairs, [&mut || create("ours", &by_us), &mut || create("theirs", &by_curator)])?;
    report.ratio("`create`", "Curator, action `snapshot`, `wait_interval: 1`", None, (&ours, &theirs));
    indices.iter().for_each(|index| ground.remove(&format!("/{index}")));

    let index = ground.sandbox.simple("small", 3);
    let number = Cell::new(0_usize);
    let prune = |line: &Line| {
        for _ in ground.sandbox.snapshots().len()..KEPT + TOO_MANY {
            number.set(number.get() + 1);
            ground.take_small(&format!("nightly-{:06}", number.get()), &index);
        }
        let seconds = ground.scratch.time(line)?;
        let left = ground.sandbox.snapshots().len();
        ensure!(left == KEPT, "{left} snapshots were kept, not {KEPT}");
        Ok(seconds)
    };
    let by_us = ground.snap(&["prune", "--max-count", &KEPT.to_string(), "--min-count", "7"]);
    let theirs = json!({"action": "delete_snapshots", "options": {"repository": prefix, "retry_count": 1},
        "filters": [{"filtertype": "pattern", "kind": "prefix", "value": "nightly-"},
            {"filtertype": "count", "count": KEPT, "use_age": true, "source": "creation_date"}]});
    let by_curator = line("prune.yml", &theirs)?;
    let [ours, theirs] = in_turn(pairs, [&mut || prune(&by_us), &mut || prune(&by_curator)])?;
    report.ratio(&format!("`prune` of {TOO_MANY} snapshots"), "Curator, action `delete_snapshots`", None, (&ours, &theirs));
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
        some_at_once(made..made + missing, |n| ground.take_small(&format!("many-{n:06}"), &index));
        made += missing;
        eprintln!("{size} snapshots");
        let curl = scratch.time(&Line::new(ground.curl("GET", &ground.snapshot("_all"), None)))?;
        listed.push(Point { size, cost: scratch.weigh(&ground.snap(&["list"]))?, curl_seconds: Some(curl) });
        let kept = (size - PRUNED).to_string();
        let cost = scratch.weigh(&ground.snap(&["prune", "--max-count", &kept, "--min-count", "7"]))?;
        let left = ground.sandbox.snapshots();
        ensure!(left.len() == size - PRUNED, "the prune left {} of {size} snapshots", left.len());
        // As many by curl, one by one as well.
        let oldest = left.iter().take(PRUNED).filter_map(|one| one["snapshot"].as_str());
        let deletes = oldest.map(|name| ground.curl("DELETE", &ground.snapshot(name), None));
        pruned.push(Point { size, cost, curl_seconds: Some(scratch.time(&shell(deletes, ""))?) });
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
        some_at_once(there..size, |n| {
            let settings = json!({"number_of_shards": 1, "number_of_replicas": 0});
            let body = json!({"settings": settings, "aliases": {ground.sandbox.name("all"): {}}});
            let name = ground.sandbox.index(&format!("many{n:06}"), body);
            ground.sandbox.fill(&name, 0, 2);
        });
        there = size;
        eprintln!("{size} indices");
        let (snapshot, run) = (format!("size{size}"), format!("20260101t000000z-many-{size}"));
        let mut created = String::new();
        for (step, points) in steps.iter().zip(&mut points) {
            let args = match *step {
                "create" => vec!["create", &snapshot],
                "stage" => vec!["stage", "--from", &created, "--run-id", &run],
                step => vec![step, "--run", &run],
            };
            let cost = ground.scratch.weigh(&ground.snap(&args))?;
            eprintln!("{step}: {cost:?}");
            points.push(Point { size, cost, curl_seconds: None });
            if *step == "create" {
                created = ground.scratch.keep("created.json")?;
            }
        }
        ground.remove(&ground.snapshot(&snapshot));
    }
    steps.iter().zip(points).for_each(|(step, points)| report.growth(&format!("`{step}` of n small indices"), &points));
    Ok(())
}

/// Does something for each number, four at once: the server's work is what it waits for.
fn some_at_once(numbers: std::ops::Range<usize>, one: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for hand in 0..4 {
            let (one, numbers) = (&one, numbers.clone());
            scope.spawn(move || numbers.skip(hand).step_by(4).for_each(one));
        }
    });
}
