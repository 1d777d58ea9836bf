//! Whether a server can restore what another version or another product took, by the version that it shows of the snapshot.
//!
//! A server knows the numbers of its own product up to itself. What it makes of others was seen on all six:
//! - Elasticsearch writes a newer one as `8.53.60-alpha0` (7.17) or `8.19.1-[9039001]` (8, 9), and OpenSearch, whose number has
//!   one bit more, as `36.40.81-beta2` or `8.19.1-[136408127]`;
//! - OpenSearch writes newer ones of its own rightly, and Elasticsearch 8 as `8.53.60-alpha0`;
//! - Elasticsearch 9 writes an older one as a range, `8.19.0-8.19.5`.

use svc_step::Failure;

use crate::server::{Product, Server, product_name};
use crate::snapshot::Snapshot;

/// The bit by which a number is OpenSearch's.
const OPENSEARCH: u64 = 0x0800_0000;
/// What Elasticsearch 7.17 takes that bit for: majors that there are not.
const NO_MAJOR: u64 = 30;
/// The last major of Elasticsearch before OpenSearch parted from it.
const LAST_COMMON: u64 = 7;
/// The first one whose snapshots OpenSearch knows.
const OLDEST_COMMON: u64 = 5;

/// How a snapshot stands to the server that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fit {
    /// Nothing is known against a restore.
    #[default]
    Good,
    /// A newer version took it.
    Newer,
    /// A version took it whose indices are too old.
    TooOld,
    /// The other product took it.
    Other,
}

/// What the server shows of the snapshot's version is judged, and taken away where it is nonsense.
pub(crate) fn settle(server: &Server, snapshot: &mut Snapshot) {
    (snapshot.fit, snapshot.version) = judge(server.product, &server.version, snapshot.version.take());
}

fn judge(product: Product, own: &str, said: Option<String>) -> (Fit, Option<String>) {
    let Some((said, own)) = said.zip(number(own)) else { return (Fit::Good, None) };
    let Some(taken) = number(&said) else { return (Fit::Good, Some(said)) };
    let [major, ..] = taken;
    let [own_major, ..] = own;
    if let Some(id) = said.split_once("-[").and_then(|(_, id)| id.trim_end_matches(']').parse::<u64>().ok()) {
        return (if id & OPENSEARCH == 0 { Fit::Newer } else { Fit::Other }, None);
    }
    let is_odd = said.contains("-alpha") || said.contains("-beta") || said.contains("-rc");
    match product {
        Product::Elasticsearch if is_odd && major >= NO_MAJOR => (Fit::Other, None),
        Product::Elasticsearch if is_odd && taken > own => (Fit::Newer, None),
        Product::OpenSearch if is_odd && major > LAST_COMMON && major > own_major => (Fit::Other, None),
        // What Elasticsearch took before they parted is older than any OpenSearch, whatever its number: its 7 is as OpenSearch's 1.
        Product::OpenSearch if (OLDEST_COMMON..=LAST_COMMON).contains(&major) && own_major < OLDEST_COMMON => {
            (if major + 1 < own_major + LAST_COMMON - 1 { Fit::TooOld } else { Fit::Good }, Some(said))
        }
        _ if taken > own => (Fit::Newer, Some(said)),
        _ if major + 1 < own_major => (Fit::TooOld, Some(said)),
        _ => (Fit::Good, Some(said)),
    }
}

/// `x.y.z` at the start of a version.
fn number(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split('-').next()?.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Refuses a snapshot that the server cannot restore.
///
/// # Errors
/// A newer version took it, one that is too old, or the other product (3).
pub(crate) fn check(server: &Server, repository: &str, snapshot: &Snapshot) -> Result<(), Failure> {
    let this = format!("{} {}", product_name(server.product), server.version);
    let taken_by = snapshot.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
    let name = format!("The snapshot {} in {repository}", snapshot.name);
    let other = if server.product == Product::OpenSearch { Product::Elasticsearch } else { Product::OpenSearch };
    let other = product_name(other);
    match snapshot.fit {
        Fit::Good => Ok(()),
        Fit::Newer => Err(Failure::refused(
            "snapshot_newer_than_server",
            format!("{name} was taken by a newer server{taken_by} than this one, {this}, which cannot restore it."),
        )
        .hint(format!(
            "Restore it into the version that took it, or a newer one; svc-snap list --repository {repository} shows which others this one can restore."
        ))),
        Fit::TooOld => Err(Failure::refused(
            "snapshot_older_than_server",
            format!("{name} was taken by a server{taken_by} too old for this one, {this}, which reads its own major version and the one before."),
        )
        .hint(
            "Restore it into the major version between the two, copy its indices there to new ones (POST /_reindex), and take a snapshot of those.",
        )),
        Fit::Other => Err(Failure::refused(
            "snapshot_of_other_product",
            format!("{name} was taken by {other}, and this is {this}, which cannot restore it."),
        )
        .hint("Restore it into the product that took it; documents go from one product to the other by reindex from a remote.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_fits_as_the_six_servers_really_answer() {
        use Fit::{Good, Newer, Other, TooOld};
        use Product::{Elasticsearch, OpenSearch};
        for (product, own, said, fit, shown) in [
            (OpenSearch, "2.19.3", "2.19.3", Good, Some("2.19.3")),
            (OpenSearch, "2.19.3", "1.3.20", Good, Some("1.3.20")),
            (OpenSearch, "3.8.0", "1.3.20", TooOld, Some("1.3.20")),
            (OpenSearch, "1.3.20", "2.19.3", Newer, Some("2.19.3")),
            (OpenSearch, "2.19.3", "2.19.4", Newer, Some("2.19.4")),
            (OpenSearch, "1.3.20", "7.10.2", Good, Some("7.10.2")),
            (OpenSearch, "1.3.20", "6.8.23", Good, Some("6.8.23")),
            (OpenSearch, "2.19.3", "7.10.2", Good, Some("7.10.2")),
            (OpenSearch, "2.19.3", "6.8.23", TooOld, Some("6.8.23")),
            (OpenSearch, "3.8.0", "7.10.2", TooOld, Some("7.10.2")),
            (OpenSearch, "2.19.3", "8.53.60-alpha0", Other, None),
            (Elasticsearch, "7.17.29", "7.17.29", Good, Some("7.17.29")),
            (Elasticsearch, "7.17.29", "8.53.60-alpha0", Newer, None),
            (Elasticsearch, "7.17.29", "9.3.90-alpha1", Newer, None),
            (Elasticsearch, "7.17.29", "36.40.81-beta2", Other, None),
            (Elasticsearch, "8.19.0", "7.17.29", Good, Some("7.17.29")),
            (Elasticsearch, "8.19.0", "8.0.0-rc1", Good, Some("8.0.0-rc1")),
            (Elasticsearch, "8.19.0", "8.19.1-[9039001]", Newer, None),
            (Elasticsearch, "8.19.0", "8.19.1-[136408127]", Other, None),
            (Elasticsearch, "9.2.0", "8.19.0-8.19.5", Good, Some("8.19.0-8.19.5")),
            (Elasticsearch, "9.2.0", "7.17.25-8.0.0", TooOld, Some("7.17.25-8.0.0")),
            (Elasticsearch, "9.2.0-SNAPSHOT", "of its own", Good, Some("of its own")),
        ] {
            let judged = judge(product, own, Some(said.to_owned()));
            assert_eq!(judged, (fit, shown.map(str::to_owned)), "{product:?} {own}: {said}");
        }
        assert_eq!(judge(OpenSearch, "2.19.3", None), (Good, None));
    }
}
