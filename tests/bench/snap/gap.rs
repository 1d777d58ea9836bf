//! How long searches by an alias fail while what it stands for is swapped.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use svc_tests::http;

use super::ground::Ground;
use crate::report::{Ratio, Report};
use crate::sample::median;

const INDICES: usize = 10;
const READERS: usize = 3;
const ROUNDS: usize = 5;
/// What clients that try again do not notice, in seconds.
const TARGET: f64 = 1.0;

/// A restore of ten indices while clients search them by their alias.
pub fn searches(ground: &Ground, report: &mut Report) -> Result<()> {
    let alias = ground.sandbox.name("alias");
    let settings = json!({"settings": {"number_of_replicas": 0}, "aliases": {&alias: {}}});
    let indices: Vec<String> = (0..INDICES).map(|n| ground.sandbox.index(&format!("i{n}"), settings.clone())).collect();
    indices.iter().for_each(|index| ground.sandbox.fill(index, 0, 20));
    let output = ground.output();
    ground.snap(&["create", "gap"]).time(&output)?;
    let mut gaps = Vec::new();
    for round in 0..ROUNDS {
        let run = format!("20260101t000000z-gap-{round}");
        let (stop, longest) = (AtomicBool::new(false), Mutex::new(Duration::ZERO));
        thread::scope(|scope| {
            (0..READERS).for_each(|_| {
                drop(scope.spawn(|| read(&format!("{}/{alias}/_search", ground.sandbox.search.url), &stop, &longest)))
            });
            let restored = ground.snap(&["restore", "gap", "--run-id", &run]).time(&output);
            stop.store(true, Ordering::SeqCst);
            restored
        })?;
        ensure!(ground.printed()?["ok"] == true, "the restore failed");
        gaps.push(longest.into_inner().unwrap_or_default().as_secs_f64());
        ground.snap(&["discard", "--run", &run]).time(&output)?;
    }
    indices.iter().for_each(|index| drop(ground.sandbox.ask("DELETE", &format!("/{index}"), None)));
    report.add(Ratio {
        what: format!("`restore` of {INDICES} indices: seconds at a stretch in which searches by their alias fail"),
        against: "–".to_owned(),
        ratio: median(gaps),
        target: Some(TARGET),
        pairs: ROUNDS,
        ours_seconds: 0.0,
        theirs_seconds: 0.0,
    });
    Ok(())
}

/// Searches until it is to stop.
fn read(url: &str, stop: &AtomicBool, longest: &Mutex<Duration>) {
    let mut last = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let answered = http::request("GET", url, None);
        if answered.is_ok_and(|(status, answer)| status == 200 && answer["_shards"]["failed"] == 0) {
            last = Instant::now();
        } else if let Ok(mut longest) = longest.lock() {
            *longest = longest.max(last.elapsed());
        }
        thread::sleep(Duration::from_millis(5));
    }
}
