//! The metrics of `svc-point`, as Prometheus has them.

use std::process::Command;

use crate::os;

/// Name, labels and value of each sample of a text that Prometheus's own checker takes.
#[track_caller]
pub fn samples(text: &str) -> Vec<(String, String, f64)> {
    os::fed(Command::new("promtool").args(["check", "metrics"]), text).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once("} ").unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        (name.to_owned(), labels.to_owned(), value.parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}
