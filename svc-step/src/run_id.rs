//! Run ids: what the documents of one run share, and what becomes part of names on servers.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::file::sha256;

/// The id of a run, such as `20261120t020003z-upgrade-2.0.1`: lower case, since servers want it in their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// The id of a call that no script made, and of no other call on this host: two calls of one microsecond are two processes. A
    /// later call has a greater one.
    pub fn by_hand(now: Timestamp) -> Self {
        Self::of_process(now, std::process::id())
    }

    fn of_process(now: Timestamp, process: u32) -> Self {
        let micros = now.subsec_microsecond().unsigned_abs();
        Self(format!("{}-hand-{:0>4}{}", stamp(now), base36(micros), base36(process)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a run ID begins: UTC, to the second.
const STAMP: &str = "%Y%m%dt%H%M%Sz";

/// The beginning of the ID of a run of that time.
pub fn stamp(time: Timestamp) -> String {
    time.strftime(STAMP).to_string()
}

/// The time that a run ID begins with.
pub fn time(id: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(STAMP, id.get(..16)?).ok()?;
    Offset::UTC.to_timestamp(time).ok()
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shape = || format!("`{text}` is not a run ID: write it as 20261120t020003z-NAME, NAME of a-z, 0-9, . and -");
        let (stamp, name) = text.split_once('-').ok_or_else(shape)?;
        let stamped = stamp.len() == 16
            && stamp.bytes().enumerate().all(|(at, byte)| match at {
                8 => byte == b't',
                15 => byte == b'z',
                _ => byte.is_ascii_digit(),
            });
        let named = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'.' || byte == b'-');
        if stamped && named { Ok(Self(text.to_owned())) } else { Err(shape()) }
    }
}

/// The name of the snapshot of a run, of a kind. It ends with a mark of this host: on another one with the same cron job, a run may begin
/// in the same second, and use the same repository. The name of a host may be another one after its next start.
pub fn snapshot_name(service: &str, run_id: &str, kind: &str) -> String {
    let host = std::fs::read("/etc/machine-id").unwrap_or_else(|_| crate::document::host().into_bytes());
    let mark = sha256(&host);
    format!("snapshot_{service}_{}_{run_id}_{kind}_{}", run_id.get(..8).unwrap_or(run_id), mark.get(..8).unwrap_or(&mark))
}

/// Short, since it becomes part of names whose length is limited.
fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    while number > 0 {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
    }
    digits.iter().rev().collect()
}

/// `name`, cut and marked with a hash of it if it is longer than a server's `limit` in bytes.
///
/// PostgreSQL cuts names at 63 bytes without an error, so two long names would become one.
pub fn fit(name: &str, limit: usize) -> String {
    if name.len() <= limit {
        return name.to_owned();
    }
    let hash = sha256(name.as_bytes());
    let (mark, _) = hash.split_at(8);
    let mut length = limit.saturating_sub(mark.len() + 1);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    let (head, _) = name.split_at(length);
    format!("{head}-{mark}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_run_id_encodes_time_and_process() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (first, last) = (at("2026-11-20T02:00:03Z"), at("2026-11-20T02:00:03.999999Z"));
        assert_eq!(RunId::of_process(first, 1).as_str(), "20261120t020003z-hand-00001");
        // The largest number that Linux gives to a process.
        assert_eq!(RunId::of_process(last, 4_194_304).as_str(), "20261120t020003z-hand-lflr2hwcg");
        let ids = [first, at("2026-11-20T02:00:03.000035Z"), at("2026-11-20T02:00:03.000036Z"), last, at("2026-11-20T02:00:04Z")]
            .map(|time| RunId::of_process(time, 77).to_string());
        assert!(ids.is_sorted() && ids.iter().all(|id| id.parse::<RunId>().is_ok()), "{ids:?}");
        assert_ne!(RunId::of_process(first, 1), RunId::of_process(first, 36));
    }

    #[test]
    fn long_names_are_shortened_to_distinct_ones() {
        let long = "a".repeat(70);
        let other = format!("{}b", "a".repeat(69));
        assert_eq!(fit("short", 63), "short");
        assert_eq!(fit(&long, 63).len(), 63);
        assert_ne!(fit(&long, 63), fit(&other, 63));
        assert!(fit(&"ä".repeat(60), 63).len() <= 63);
    }
}
