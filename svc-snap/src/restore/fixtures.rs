//! What the tests of swaps are about.

use serde_json::Map;

use crate::index::{Found, Index, IndexMetadata, copies};
use crate::restore::{SwapIndex, SwapSource, SwapState, Swapped};

pub(super) const RUN: &str = "20261120t020003z-hand";

pub(super) fn index(uuid: &str, aliases: &[&str]) -> Index {
    let aliases = aliases.iter().map(|alias| ((*alias).to_owned(), Map::new())).collect();
    let metadata = IndexMetadata { aliases, number_of_replicas: 1, ..IndexMetadata::default() };
    Index { uuid: uuid.to_owned(), metadata, ..Index::of_copy() }
}

pub(super) fn found(indices: &[(&str, Index)]) -> Found {
    indices.iter().map(|(name, index)| ((*name).to_owned(), index.clone())).collect()
}

pub(super) fn source(index: &str) -> SwapSource {
    SwapSource { name: copies::staged(RUN, index), uuid: "staged".to_owned(), docs_count: 1 }
}

/// A swap of `a`, which is live, and one that takes `b` away.
pub(super) fn swapped() -> Swapped {
    let item = |name: &str, source: Option<SwapSource>| SwapIndex {
        index: name.to_owned(),
        state: SwapState::Old,
        live_uuid: Some(format!("live {name}")),
        previous: Some(copies::previous(RUN, false, name)),
        was: Some(IndexMetadata::default()),
        becomes: source.as_ref().map(|_| index("", &["all"]).metadata),
        source,
        ..SwapIndex::default()
    };
    let indices = vec![item("a", Some(source("a"))), item("b", None)];
    Swapped { run: RUN.to_owned(), exact: true, indices, ..Swapped::default() }
}
