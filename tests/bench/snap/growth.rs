//! How it grows: many snapshots listed and pruned, many indices staged and swapped.

use std::thread;

use anyhow::{Result, ensure};
use serde_json::json;

use super::ground::Ground;
use crate::measure::{Cost, Line};
use crate::report::{Growth, Point, Report};

/// How many snapshots one prune removes, whatever their number: what a night's prune comes to.
const PRUNED: usize = 20;
/// How many requests the benchmark's own preparations have under way.
const HANDS: usize = 4;

/// A repository of so many snapshots, listed and pruned.
pub fn snapshots(ground: &Ground, report: &mut Report, sizes: &[usize]) -> Result<()> {
    let index = ground.sandbox.simple("small", 3);
    let (mut listed, mut pruned, mut made) = (Vec::new(), Vec::new(), 0);
    let output = ground.output();
    for &size in sizes {
        let there = ground.sandbox.snapshots().len();
        let names: Vec<String> = (0..size - there).map(|n| format!("many-{:06}", made + n)).collect();
        made += names.len();
        in_turn(&names, |name| ground.take_small(name, &index));
        eprintln!("{size} snapshots");
        let curl = ground.curl("GET", &ground.snapshot("_all"), None).time(&output)?;
        listed.push(point(size, ground.snap(&["list"]).weigh(&output)?, Some(curl)));
        let kept = (size - PRUNED).to_string();
        let cost = ground.snap(&["prune", "--max-count", &kept, "--min-count", "7"]).weigh(&output)?;
        let left = ground.sandbox.snapshots().len();
        ensure!(left == size - PRUNED, "the prune left {left} of {size} snapshots");
        // As many by curl, one by one as well.
        let all = ground.sandbox.snapshots();
        let oldest: Vec<String> =
            all.iter().take(PRUNED).map(|one| one["snapshot"].as_str().unwrap_or_default().to_owned()).collect();
        let deletes: Vec<String> =
            oldest.iter().map(|name| ground.curl_words("DELETE", &ground.snapshot(name), None).join(" ")).collect();
        let script = deletes.join(" && ").replace(" * ", " '*' ");
        let curl = Line::new(["sh", "-c", &script]).time(&output)?;
        pruned.push(point(size, cost, Some(curl)));
    }
    add(report, "`list` of n snapshots", listed);
    add(report, &format!("`prune` of {PRUNED} of n snapshots"), pruned);
    Ok(())
}

/// So many small indices, staged and swapped.
pub fn indices(ground: &Ground, report: &mut Report, sizes: &[usize]) -> Result<()> {
    let steps = ["create", "stage", "swap", "discard"];
    let mut points: [Vec<Point>; 4] = Default::default();
    let output = ground.output();
    let mut there = 0;
    for &size in sizes {
        let numbers: Vec<usize> = (there..size).collect();
        there = size;
        in_turn(&numbers, |n| {
            let name = ground.sandbox.index(
                &format!("many{n:06}"),
                json!({"settings": {"number_of_shards": 1, "number_of_replicas": 0}, "aliases": {ground.sandbox.name("all"): {}}}),
            );
            ground.sandbox.fill(&name, 0, 2);
        });
        eprintln!("{size} indices");
        let (snapshot, run) = (format!("size{size}"), format!("20260101t000000z-many-{size}"));
        let document = ground.scratch("created.json");
        for (step, points) in steps.iter().zip(&mut points) {
            let given = document.display().to_string();
            let args = match *step {
                "create" => vec!["create", &snapshot],
                "stage" => vec!["stage", "--from", &given, "--run-id", &run],
                step => vec![step, "--run", &run],
            };
            let cost = ground.snap(&args).weigh(&output)?;
            if *step == "create" {
                std::fs::copy(&output, &document)?;
            }
            eprintln!("{step}: {cost:?}");
            points.push(point(size, cost, None));
        }
        ground.sandbox.ask("DELETE", &ground.snapshot(&snapshot), None);
    }
    for (step, points) in steps.iter().zip(points) {
        add(report, &format!("`{step}` of n small indices"), points);
    }
    Ok(())
}

fn point(size: usize, cost: Cost, curl_seconds: Option<f64>) -> Point {
    Point { size, seconds: cost.seconds, cpu_seconds: cost.cpu_seconds, memory_bytes: cost.memory_bytes, curl_seconds }
}

fn add(report: &mut Report, what: &str, points: Vec<Point>) {
    report.growth(Growth::of(what.to_owned(), points));
}

/// Does something for each, a few at once: the server's work is what it waits for.
fn in_turn<T: Sync>(all: &[T], one: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        for hand in 0..HANDS {
            let one = &one;
            scope.spawn(move || all.iter().skip(hand).step_by(HANDS).for_each(one));
        }
    });
}
