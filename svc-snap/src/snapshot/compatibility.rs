//! Whether a server can restore a snapshot, by the version that took it.

use crate::client::Product;

/// The bit by which a number is OpenSearch's.
const OPENSEARCH: u64 = 0x0800_0000;
/// What Elasticsearch 7.17 takes that bit for: majors that there are not.
const NO_MAJOR: u64 = 30;
/// The last major of Elasticsearch before OpenSearch parted from it.
const LAST_COMMON: u64 = 7;
/// The first one whose snapshots OpenSearch knows.
const OLDEST_COMMON: u64 = 5;

/// Whether the server that shows a snapshot can restore it, by the version that took it.
///
/// A server knows the numbers of its own product up to itself. What it makes of others was seen on all six:
/// - Elasticsearch writes a newer one as `8.53.60-alpha0` (7.17) or `8.19.1-[9039001]` (8, 9), and OpenSearch, whose number has
///   one bit more, as `36.40.81-beta2` or `8.19.1-[136408127]`;
/// - OpenSearch writes newer ones of its own rightly, and Elasticsearch 8 as `8.53.60-alpha0`;
/// - Elasticsearch 9 writes an older one as a range, `8.19.0-8.19.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Compatibility {
    /// Nothing is known against a restore.
    #[default]
    Compatible,
    /// A newer version took it.
    Newer,
    /// A version took it whose indices are too old.
    TooOld,
    /// The other product took it.
    Other,
}

/// By the server's product and its own version, with the version that it shows; one that is nonsense is removed.
pub(super) fn compatibility(product: Product, own: &str, said: Option<String>) -> (Compatibility, Option<String>) {
    use Compatibility::{Compatible, Newer, Other, TooOld};
    let Some((said, own)) = said.zip(number(own)) else { return (Compatible, None) };
    let Some(taken) = number(&said) else { return (Compatible, Some(said)) };
    let [major, ..] = taken;
    let [own_major, ..] = own;
    if let Some(id) = said.split_once("-[").and_then(|(_, id)| id.trim_end_matches(']').parse::<u64>().ok()) {
        return (if id & OPENSEARCH == 0 { Newer } else { Other }, None);
    }
    let is_unknown = said.contains("-alpha") || said.contains("-beta") || said.contains("-rc");
    match product {
        Product::Elasticsearch if is_unknown && major >= NO_MAJOR => (Other, None),
        Product::Elasticsearch if is_unknown && taken > own => (Newer, None),
        Product::OpenSearch if is_unknown && major > LAST_COMMON && major > own_major => (Other, None),
        // What Elasticsearch took before they parted is older than any OpenSearch, whatever its number: its 7 is as OpenSearch's 1.
        Product::OpenSearch if (OLDEST_COMMON..=LAST_COMMON).contains(&major) && own_major < OLDEST_COMMON => {
            (if major + 1 < own_major + LAST_COMMON - 1 { TooOld } else { Compatible }, Some(said))
        }
        _ if taken > own => (Newer, Some(said)),
        _ if major + 1 < own_major => (TooOld, Some(said)),
        _ => (Compatible, Some(said)),
    }
}

/// `x.y.z` at the start of a version.
fn number(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split('-').next()?.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_compatibility_follows_both_versions() {
        use Compatibility::{Compatible, Newer, Other, TooOld};
        use Product::{Elasticsearch, OpenSearch};
        for (product, own, said, expected, shown) in [
            (OpenSearch, "2.19.3", "2.19.3", Compatible, Some("2.19.3")),
            (OpenSearch, "2.19.3", "1.3.20", Compatible, Some("1.3.20")),
            (OpenSearch, "3.8.0", "1.3.20", TooOld, Some("1.3.20")),
            (OpenSearch, "1.3.20", "2.19.3", Newer, Some("2.19.3")),
            (OpenSearch, "2.19.3", "2.19.4", Newer, Some("2.19.4")),
            (OpenSearch, "1.3.20", "7.10.2", Compatible, Some("7.10.2")),
            (OpenSearch, "1.3.20", "6.8.23", Compatible, Some("6.8.23")),
            (OpenSearch, "2.19.3", "7.10.2", Compatible, Some("7.10.2")),
            (OpenSearch, "2.19.3", "6.8.23", TooOld, Some("6.8.23")),
            (OpenSearch, "3.8.0", "7.10.2", TooOld, Some("7.10.2")),
            (OpenSearch, "2.19.3", "8.53.60-alpha0", Other, None),
            (Elasticsearch, "7.17.29", "7.17.29", Compatible, Some("7.17.29")),
            (Elasticsearch, "7.17.29", "8.53.60-alpha0", Newer, None),
            (Elasticsearch, "7.17.29", "9.3.90-alpha1", Newer, None),
            (Elasticsearch, "7.17.29", "36.40.81-beta2", Other, None),
            (Elasticsearch, "8.19.0", "7.17.29", Compatible, Some("7.17.29")),
            (Elasticsearch, "8.19.0", "8.0.0-rc1", Compatible, Some("8.0.0-rc1")),
            (Elasticsearch, "8.19.0", "8.19.1-[9039001]", Newer, None),
            (Elasticsearch, "8.19.0", "8.19.1-[136408127]", Other, None),
            (Elasticsearch, "9.2.0", "8.19.0-8.19.5", Compatible, Some("8.19.0-8.19.5")),
            (Elasticsearch, "9.2.0", "7.17.25-8.0.0", TooOld, Some("7.17.25-8.0.0")),
            (Elasticsearch, "9.2.0-SNAPSHOT", "of its own", Compatible, Some("of its own")),
        ] {
            let found = compatibility(product, own, Some(said.to_owned()));
            assert_eq!(found, (expected, shown.map(str::to_owned)), "{product:?} {own}: {said}");
        }
        assert_eq!(compatibility(OpenSearch, "2.19.3", None), (Compatible, None));
    }
}
