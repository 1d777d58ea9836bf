//! Random numbers that a seed makes again.

pub use fastrand::Rng as Random;

/// Numbers that start from `SVC_TEST_SEED`, else always from the same seed, so that a run tells what a change did and not what chance
/// did. The seed is printed, to repeat the run.
pub fn seed() -> u64 {
    let seed = std::env::var("SVC_TEST_SEED").map_or(7, |seed| seed.parse().expect("SVC_TEST_SEED is a number"));
    eprintln!("SVC_TEST_SEED={seed}");
    seed
}
