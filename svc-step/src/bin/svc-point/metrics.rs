//! `metrics`: what a monitoring system watches, in Prometheus's text format, for node_exporter's textfile collector.

// Inexact only for petabytes, and after a quarter of a million years.
#![allow(clippy::cast_precision_loss)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use svc_step::call::{Call, Finished};
use svc_step::file::{self, Existing};
use svc_step::{Failure, StepResult};

use crate::last::{self, LastRehearsal, Verdict};
use crate::point::{self, BackupDir, Point, State};

/// Whoever may read the directory of the collector may read them.
const MODE: u32 = 0o644;

/// Arguments of `svc-point metrics`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: what is written; then into the directory of node_exporter's textfile collector
  svc-point metrics --output -
  svc-point metrics --output /var/lib/prometheus/node-exporter/svc.prom

The file is replaced as a whole, and the document is printed; without a file the text is.")]
pub struct MetricsArgs {
    /// The file, readable by everybody; -: stdout
    #[arg(long, value_name = "FILE", env = "SVC_METRICS_FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    dir: BackupDir,
}

/// What was written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Metrics {
    /// The file; `null` if it was stdout.
    pub output: Option<String>,
    /// How many values were written.
    pub samples_count: usize,
}

pub(crate) fn print(args: &MetricsArgs, call: &Call) -> Finished {
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let mut text = None;
    let mut finished = call.step("metrics", false, |call| {
        let exposition = Exposition::of(args, call)?;
        let samples_count = exposition.samples();
        match output {
            Some(path) => write_file(path, &exposition.text(), samples_count),
            None => {
                text = Some(exposition.text());
                Ok(Metrics { output: None, samples_count })
            }
        }
    });
    finished.text = text;
    finished
}

/// A report, as the document is: it counts as no change of anything.
fn write_file(path: &Path, text: &str, samples_count: usize) -> StepResult<Metrics> {
    let path = file::absolute(path)?;
    file::write_complete(&path, text.as_bytes(), MODE, Existing::Replace)?;
    Ok(Metrics { output: Some(path.display().to_string()), samples_count })
}

/// Labels and value of a sample.
type Sample = (Vec<(&'static str, String)>, f64);

/// A metric: name, help, and its samples. All are gauges.
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// The metrics of a service.
struct Exposition {
    service: String,
    families: Vec<Family>,
}

impl Exposition {
    fn of(args: &MetricsArgs, call: &Call) -> Result<Self, Failure> {
        let points = point::survey(call, &args.dir, false)?;
        let mut all = Self { service: args.dir.service().to_owned(), families: Vec::new() };
        all.add_points(&points);
        all.add_rehearsal(last::rehearsal(call.state_dir()));
        // An invalid record must not hide the other metrics.
        let copy = last::offsite_copy(call.state_dir()).unwrap_or_else(|failure| {
            call.review(&failure.code, failure.message);
            None
        });
        let help = "When the restore point of the last off-site copy was made.";
        all.single("svc_offsite_copy_timestamp_seconds", help, copy.map(|copy| timestamp(copy.made_at)));
        let downtime = last::downtime(call.state_dir(), "svc-upgrade").map(seconds);
        all.single("svc_upgrade_downtime_seconds", "How long the service was down in the last upgrade.", downtime);
        let unfinished = last::unfinished(call.state_dir()) as f64;
        let help = "Runs that did not end well and are to be resumed, undone or repaired.";
        all.single("svc_unfinished_runs", help, Some(unfinished));
        Ok(all)
    }

    fn add_points(&mut self, points: &[Point]) {
        let valid = points.iter().filter(|point| point.state == State::Valid);
        let mut newest = BTreeMap::new();
        for point in valid {
            newest.insert((point.kind.clone().unwrap_or_default(), point.quiesced == Some(true)), point);
        }
        let mut add = |name, help, value: &dyn Fn(&Point) -> f64| {
            let labels = |kind: &String, quiesced: &bool| vec![("kind", kind.clone()), ("quiesced", quiesced.to_string())];
            let samples = newest.iter().map(|((kind, quiesced), point)| (labels(kind, quiesced), value(point)));
            self.families.push(Family { name, help, samples: samples.collect() });
        };
        let help = "When the newest valid restore point was made, by kind and whether the service was stopped meanwhile.";
        add("svc_restore_point_timestamp_seconds", help, &|point| timestamp(point.made));
        add("svc_restore_point_size_bytes", "The size of the newest valid restore point.", &|point| point.size_bytes as f64);
    }

    fn add_rehearsal(&mut self, last: Option<LastRehearsal>) {
        let begun = last.as_ref().map(|last| timestamp(last.begun));
        let duration = last.as_ref().and_then(|last| last.duration_ms.map(seconds));
        self.single("svc_rehearsal_timestamp_seconds", "When the last rehearsal of a rollback began.", begun);
        self.single("svc_rehearsal_duration_seconds", "How long the last rehearsal took.", duration);
        let help = "What the last rehearsal has found: 1 for that verdict, 0 for the others.";
        let name = |verdict: Verdict| json!(verdict).as_str().unwrap_or_default().to_owned();
        let of_verdict = |verdict, found| (vec![("verdict", name(verdict))], f64::from(u8::from(verdict == found)));
        let samples = last.iter().flat_map(|last| Verdict::ALL.map(|verdict| of_verdict(verdict, last.verdict))).collect();
        self.families.push(Family { name: "svc_rehearsal_verdict", help, samples });
    }

    fn single(&mut self, name: &'static str, help: &'static str, value: Option<f64>) {
        let samples = value.map(|value| (Vec::new(), value)).into_iter().collect();
        self.families.push(Family { name, help, samples });
    }

    fn samples(&self) -> usize {
        self.families.iter().map(|family| family.samples.len()).sum()
    }

    /// A metric without a sample is left out.
    fn text(&self) -> String {
        let mut text = String::new();
        for Family { name, help, samples } in self.families.iter().filter(|family| !family.samples.is_empty()) {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
            for (labels, value) in samples {
                let service = ("service", self.service.clone());
                let labels = [&service].into_iter().chain(labels).map(|(key, value)| format!("{key}=\"{}\"", escaped(value)));
                let _ = writeln!(text, "{name}{{{}}} {value}", labels.collect::<Vec<_>>().join(","));
            }
        }
        text
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

/// Seconds since 1970.
fn timestamp(time: Timestamp) -> f64 {
    time.as_second() as f64
}
