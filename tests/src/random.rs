//! Random numbers that a seed makes again.

/// What a test's random numbers start from: `SVC_TEST_SEED`, else always the same, so that a run tells what a change did and not
/// what chance did. It is printed, to repeat the run.
pub fn seed() -> u64 {
    let seed = std::env::var("SVC_TEST_SEED").map_or(7, |seed| seed.parse().expect("SVC_TEST_SEED is a number"));
    eprintln!("SVC_TEST_SEED={seed}");
    seed
}

/// A generator (SplitMix64): whatever the seed, its numbers are spread evenly.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub const fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).expect("a size fits")).expect("what is below a size fits")
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
