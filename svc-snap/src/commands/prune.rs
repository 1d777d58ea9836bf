//! `prune`: remove the snapshots that are not needed any more; the retention of the nightly job.

mod act;
mod named;
mod rules;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_step::action::Action;
use svc_step::common::DryRun;
use svc_step::document::Time;
use svc_step::{Call, Failure, StepResult, deadline};

pub use self::rules::Reason;
use self::rules::{Candidate, Rules, Worth};
use crate::connection::Connection;
use crate::repository::{self, RepositoryArg, cleanup};
use crate::server::Server;
use crate::server::path::path;
use crate::snapshot::mark::{self, Kind};
use crate::snapshot::{self, Snapshot, verdict};
use crate::throttle::Left;

/// Arguments of `svc-snap prune`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  svc-snap prune --dry-run | jq -r '.result.snapshots[] | [.name, .state, .reason] | @tsv'
  svc-snap prune --max-age 30d --max-count 30 --min-count 7
  svc-snap prune --kind upgrade --max-age none --max-count 3 --min-count 1 --keep-from /var/backups/svc/*/

Each kind is judged by itself, and only snapshots that svc-snap took count. Only valid backups count, and the newest of them
never goes.")]
pub struct PruneArgs {
    /// Older ones go (30d, 4w, 36h), as long as --min-count are left; none: whatever their age
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = age)]
    max_age: Most<Duration>,
    /// The oldest above this number go, whatever their age; none: any number may stay
    #[arg(long, value_name = "N", default_value = "30", value_parser = count)]
    max_count: Most<usize>,
    /// This number stays, whatever their age
    #[arg(long, value_name = "N", default_value = "7")]
    min_count: usize,
    /// Of which kind (repeatable)
    #[arg(long = "kind", id = "kind", value_enum, default_value = "nightly")]
    kinds: Vec<Kind>,
    /// Never those that these files name: documents of svc-snap or svc-backup, restore points
    #[arg(long, value_name = "FILE", num_args = 1..)]
    keep_from: Vec<PathBuf>,
    /// Leave out the cleanup at the end
    #[arg(long)]
    no_cleanup: bool,
    #[command(flatten)]
    repository: RepositoryArg,
    #[command(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    connection: Connection,
}

/// A limit, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Most<T>(Option<T>);

/// A repository without the snapshots that are not needed any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    /// The cluster's `cluster_uuid`.
    pub cluster_uuid: String,
    /// The repository.
    pub repository: String,
    /// The kinds that were looked through, each by itself.
    pub kinds: Vec<String>,
    /// Older ones go; `null` where age does not matter.
    pub max_age_ms: Option<u64>,
    /// So many stay at most; `null` where the number does not matter.
    pub max_count: Option<u64>,
    /// So many stay, whatever their age.
    pub min_count: u64,
    /// Every snapshot of the repository as it was found, oldest first, with what becomes of it and why.
    pub snapshots: Vec<Judged>,
    /// How many stay, or after a failure how many are there still: those that were to go, and whose removal is not known, too.
    pub kept_count: u64,
    /// How many this call has deleted.
    pub deleted_count: u64,
    /// What the cleanup at the end removed; `null` where there was none.
    pub cleaned: Option<Cleaned>,
    /// What is done.
    pub plan: Vec<Action>,
}

/// A snapshot and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// Its `uuid`.
    pub uuid: String,
    /// Its state in the server's own words, as it was found.
    pub state: String,
    /// When it was begun.
    pub started_at: Option<Time>,
    /// What it is for; `null` where it is not one of ours.
    pub kind: Option<String>,
    /// What becomes of it.
    pub fate: Becomes,
    /// Why.
    pub reason: Reason,
}

/// What becomes of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Becomes {
    /// It stays.
    Kept,
    /// It is to go, and was not touched yet.
    Planned,
    /// Its removal was asked for, and the outcome is unknown.
    UnderWay,
    /// This call has deleted it.
    Deleted,
    /// It was to go, and somebody else has deleted it meanwhile.
    Gone,
}

/// What a cleanup removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cleaned {
    /// How much.
    pub deleted_bytes: u64,
    /// How many files.
    pub deleted_blobs_count: u64,
}

pub(crate) fn run(args: &PruneArgs, call: &Call) -> StepResult<Pruned> {
    let rules = rules(args)?;
    let named = named::named(&args.keep_from)?;
    let server = Server::connect(&args.connection, call)?;
    let repository = args.repository.repository.as_str();
    let _lock = repository::lock(call, &server, repository, &args.dry)?;
    let found = snapshot::all(&server, repository)?;
    let kinds = kinds(&args.kinds);
    let left = Left::find(call, &server, Some(repository))?;
    let verdicts = {
        let candidates: Vec<Candidate> = found.iter().map(|one| candidate(repository, one, &named)).collect();
        let asked: Vec<&str> = kinds.iter().map(String::as_str).collect();
        rules::judge(&candidates, &asked, &rules, call.started_at())
    };
    let mut pruned = planned(args, &server, kinds, &found, verdicts);
    let is_any_to_go = !pruned.plan.is_empty();
    pruned.plan.extend(left.actions());
    if pruned.plan.is_empty() || args.dry.dry_run {
        return Ok(pruned);
    }
    let ended = if is_any_to_go { act::act(call, &server, pruned, !args.no_cleanup) } else { Ok(pruned) };
    // Only now, since OpenSearch 1 changes no repository while a snapshot is running.
    left.put_back(call, &server);
    ended
}

fn planned(args: &PruneArgs, server: &Server, kinds: Vec<String>, found: &[Snapshot], verdicts: Vec<Reason>) -> Pruned {
    let repository = args.repository.repository.as_str();
    let snapshots: Vec<Judged> = found.iter().zip(verdicts).map(|(one, reason)| judged(one, reason)).collect();
    let goes = snapshots.iter().filter(|one| one.fate == Becomes::Planned);
    let mut plan: Vec<Action> =
        goes.map(|one| Action::request("DELETE", path(&["_snapshot", repository, &one.name]), None)).collect();
    let kept_count = (snapshots.len() - plan.len()) as u64;
    if !plan.is_empty() && !args.no_cleanup {
        plan.push(Action::request("POST", cleanup::request(repository), None));
    }
    Pruned {
        cluster_uuid: server.cluster_uuid.clone(),
        repository: repository.to_owned(),
        kinds,
        max_age_ms: args.max_age.0.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        max_count: args.max_count.0.map(|count| count as u64),
        min_count: args.min_count as u64,
        snapshots,
        kept_count,
        deleted_count: 0,
        cleaned: None,
        plan,
    }
}

fn candidate(repository: &str, snapshot: &Snapshot, named: &BTreeSet<String>) -> Candidate {
    let worth = match snapshot.state.as_str() {
        _ if snapshot.is_under_way() => Worth::UnderWay,
        "SUCCESS" if verdict::judge(repository, snapshot, &[]).is_ok() => Worth::Good,
        "SUCCESS" | "PARTIAL" | "FAILED" => Worth::Bad,
        _ => Worth::Unknown,
    };
    Candidate {
        name: snapshot.name.clone(),
        ours: mark::is_ours(snapshot),
        kind: snapshot.kind.clone(),
        worth,
        started_at: snapshot.started,
        named: named.contains(&snapshot.name) || named.contains(&snapshot.uuid),
    }
}

fn judged(snapshot: &Snapshot, reason: Reason) -> Judged {
    Judged {
        name: snapshot.name.clone(),
        uuid: snapshot.uuid.clone(),
        state: snapshot.state.clone(),
        started_at: snapshot.started_at.clone(),
        kind: snapshot.kind.clone(),
        fate: if reason.deletes() { Becomes::Planned } else { Becomes::Kept },
        reason,
    }
}

fn rules(args: &PruneArgs) -> Result<Rules, Failure> {
    let most = args.max_count.0;
    if args.min_count == 0 || most.is_some_and(|most| most < args.min_count) {
        return Err(Failure::usage(
            "counts_invalid",
            "At least one snapshot stays, and --max-count is not less than --min-count.",
        )
        .hint("Write for example --min-count 7 --max-count 30."));
    }
    let max_age_ms = args.max_age.0.map(|age| i128::try_from(age.as_millis()).unwrap_or(i128::MAX));
    Ok(Rules { max_age_ms, max_count: most, min_count: args.min_count })
}

/// The kinds by name, each once.
fn kinds(kinds: &[Kind]) -> Vec<String> {
    let mut names: Vec<String> =
        kinds.iter().filter_map(ValueEnum::to_possible_value).map(|value| value.get_name().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn age(text: &str) -> Result<Most<Duration>, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    let days = |text: &str, days: u64| text.trim().parse::<u64>().ok()?.checked_mul(days * 86_400).map(Duration::from_secs);
    let long =
        text.strip_suffix('d').and_then(|text| days(text, 1)).or_else(|| text.strip_suffix('w').and_then(|text| days(text, 7)));
    long.map_or_else(|| deadline::parse(text).map_err(|_| format!("`{text}` is no age: write 30d, 4w, 36h or none")), Ok)
        .map(|age| Most(Some(age)))
}

fn count(text: &str) -> Result<Most<usize>, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    text.parse().map(|count| Most(Some(count))).map_err(|_| format!("`{text}` is no number: write 30, or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_counts_are_read_as_people_write_them() {
        let days = |days: u64| Ok(Most(Some(Duration::from_secs(days * 86_400))));
        assert_eq!((age("30d"), age("2w"), age("24h"), age("none")), (days(30), days(14), days(1), Ok(Most(None))));
        assert_eq!(age("0s"), days(0));
        assert!(age("soon").is_err() && age("-1d").is_err() && age("").is_err());
        assert_eq!((count("30"), count("none")), (Ok(Most(Some(30))), Ok(Most(None))));
        assert!(count("-1").is_err() && count("all").is_err());
    }
}
