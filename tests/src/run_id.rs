//! Run ids of tests.

/// The `n`th run of a test that tells several apart.
pub fn run_id(n: usize) -> String {
    format!("20261120t02{n:04}z-test")
}
