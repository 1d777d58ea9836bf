//! A few hundred MB saved and brought back, beside the procedure's own commands and beside a plain copy.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::ground::Ground;
use crate::measure::{Line, settle_disk};
use crate::report::Report;
use crate::sample::Sample;

/// The throttle of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Ours without a throttle, the other as the server has it.
    Unlimited,
    /// Both as the server has it.
    Equal,
}

impl Rate {
    fn args(self) -> &'static [&'static str] {
        match self {
            Self::Unlimited => &["--rate-limit", "none"],
            Self::Equal => &[],
        }
    }

    /// What was measured is what was asked for: where a throttle must be left as it is, the tool goes on with a warning.
    fn ensure_used(self, printed: &Value) -> Result<()> {
        let used = printed.pointer("/result/throttle/set").is_some_and(|set| !set.is_null());
        ensure!(used == (self == Self::Unlimited), "the rate is not as it was asked for: {}", printed["warnings"]);
        Ok(())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unlimited => " --rate-limit none",
            Self::Equal => "",
        }
    }
}

/// `create` beside `curl`, each into a repository that holds nothing of it yet.
pub fn create(ground: &Ground, report: &mut Report, pairs: usize, rate: Rate) -> Result<()> {
    let copies = std::cell::RefCell::new(Vec::new());
    let ours = |copied: bool| {
        settle_disk();
        let seconds = ground.snap(&[&["create", "ours"], rate.args()].concat()).time(&ground.output())?;
        let printed = ground.printed()?;
        ensure!(printed["result"]["snapshot"]["state"] == "SUCCESS", "ours is no SUCCESS");
        rate.ensure_used(&printed)?;
        if copied {
            copies.borrow_mut().push(copy(ground)?);
        }
        forget(ground, "ours");
        Ok(seconds)
    };
    let theirs = || {
        settle_disk();
        let body = json!({"indices": format!("{}-*", ground.sandbox.prefix), "ignore_unavailable": true,
            "include_global_state": true, "metadata": {"taken_by": "bench", "taken_because": "bench"}});
        let path = format!("{}?wait_for_completion=true", ground.snapshot("theirs"));
        let seconds = ground.curl("PUT", &path, Some(&body)).time(&ground.output())?;
        ensure!(ground.printed()?["snapshot"]["state"] == "SUCCESS", "theirs is no SUCCESS");
        forget(ground, "theirs");
        Ok(seconds)
    };
    // Nobody's first call is measured: the server's compiler warms up.
    ours(false)?;
    let sample = Sample::take(pairs, || ours(rate == Rate::Unlimited), theirs)?;
    let (what, target) = (format!("`create{}`", rate.name()), if rate == Rate::Unlimited { 0.20 } else { 1.05 });
    report.ratio(&what, "`curl …?wait_for_completion=true`", Some(target), &sample);
    if rate == Rate::Unlimited {
        report.ratio(&what, "`cp -r` and `sync`", None, &Sample { ours: sample.ours, theirs: copies.into_inner() });
    }
    Ok(())
}

/// `restore` (stage, prove, swap) beside deleting and `curl …/_restore`.
pub fn restore(ground: &Ground, report: &mut Report, pairs: usize, rate: Rate, indices: &[String]) -> Result<()> {
    ground.sandbox.create("base");
    let mut round = 0;
    let mut ours = || {
        settle_disk();
        round += 1;
        let run = format!("20260101t000000z-bench-{}-{round}", rate.name().len());
        let args = [&["restore", "base", "--run-id", &run], rate.args()].concat();
        let seconds = ground.snap(&args).time(&ground.output())?;
        let printed = ground.printed()?;
        ensure!(printed["ok"] == true, "ours is not ok");
        rate.ensure_used(&printed)?;
        ground.sandbox.run(&["discard", "--run", &run]).ok();
        Ok(seconds)
    };
    let theirs = || {
        settle_disk();
        let body = json!({"indices": indices.join(","), "include_global_state": false});
        let restore = format!("{}/_restore?wait_for_completion=true", ground.snapshot("base"));
        let calls = [
            ground.curl_words("DELETE", &format!("/{}", indices.join(",")), None),
            ground.curl_words("POST", &restore, Some(&body)),
        ];
        let [delete, restore] = calls.map(|words| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
        // Two calls, as an operator types them; the last one's answer is what is printed.
        Line::new(["sh".to_owned(), "-c".to_owned(), format!("{delete} >&2 && {restore}")]).time(&ground.output()).and_then(
            |seconds| {
                let shards = &ground.printed()?["snapshot"]["shards"];
                ensure!(shards["failed"] == 0 && shards["total"] != 0, "theirs failed");
                Ok(seconds)
            },
        )
    };
    ours()?;
    let mut copies = Vec::new();
    let sample = Sample::take(
        pairs,
        || {
            let seconds = ours()?;
            if rate == Rate::Unlimited {
                copies.push(copy(ground)?);
            }
            Ok(seconds)
        },
        theirs,
    )?;
    let (what, target) = (format!("`restore{}`", rate.name()), if rate == Rate::Unlimited { 0.25 } else { 1.15 });
    report.ratio(&what, "`DELETE` and `curl …/_restore?wait_for_completion=true`", Some(target), &sample);
    if rate == Rate::Unlimited {
        report.ratio(&what, "`cp -r` and `sync`", None, &Sample { ours: sample.ours, theirs: copies });
    }
    forget(ground, "base");
    Ok(())
}

/// Copies the repository, which holds the bytes of one snapshot, within its file system.
fn copy(ground: &Ground) -> Result<f64> {
    let from = ground.sandbox.location();
    let to = from.with_extension("copy");
    settle_disk();
    let script = format!("cp -r {} {} && sync", quoted(&from.display().to_string()), quoted(&to.display().to_string()));
    let seconds = Line::new(["sh", "-c", &script]).time(&ground.output())?;
    fs::remove_dir_all(&to)?;
    Ok(seconds)
}

fn forget(ground: &Ground, snapshot: &str) {
    ground.sandbox.ask("DELETE", &ground.snapshot(snapshot), None);
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
