//! The laws of the merge, on configurations that are made at random: as trees, and as texts of both layouts.

mod conf;
mod texts;
mod trees;
mod yaml;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The same cases in every run, so that a rare one does not stop somebody else's change; with `tests/run --deep`, which sets the
/// variable, more of them and others each time.
pub fn cases() -> ProptestConfig {
    let deep = std::env::var_os("SVC_TEST_DEEP").is_some_and(|value| !value.is_empty());
    let (cases, rng_seed) = if deep { (20_000, RngSeed::Random) } else { (1000, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}
