//! The laws of the upgrade path, on versions that are made at random: few numbers, so that they meet often.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use svc_version::{LastMinor, LastMinors, Rule, Unsupported, Version, chain, first_hop, rule_between};

const FEW: u64 = 3;

fn version() -> impl Strategy<Value = Version> {
    (0..FEW, 0..FEW, 0..FEW).prop_map(|(major, minor, patch)| Version { major, minor, patch })
}

/// Numbers of every size, the largest ones more often than by chance.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..3_u64, (u64::MAX - 2)..=u64::MAX]
}

fn any_version() -> impl Strategy<Value = Version> {
    (number(), number(), number()).prop_map(|(major, minor, patch)| Version { major, minor, patch })
}

/// A folder of installers, of all that there could be or of none, and what is known of the last minors. Half the time what is
/// known is what the folder says.
fn world() -> impl Strategy<Value = (BTreeSet<Version>, LastMinors)> {
    let all = (0..FEW.pow(3)).map(|n| Version { major: n / FEW.pow(2), minor: n / FEW % FEW, patch: n % FEW });
    let all: Vec<Version> = all.collect();
    let named = prop::collection::btree_map(0..FEW, 0..FEW, 0..4).prop_map(BTreeMap::into_iter);
    (prop::sample::subsequence(all.clone(), 0..=all.len()), named, any::<bool>()).prop_map(|(installers, named, whole)| {
        let listed: Vec<(u64, u64)> = installers.iter().map(|version| (version.major, version.minor)).collect();
        let last_minors = if whole { LastMinors::highest_of(listed) } else { LastMinors::highest_of(named) };
        (installers.into_iter().collect(), last_minors)
    })
}

/// How many hops the shortest path has that the rules allow, found by trying all of them.
fn shortest(from: Version, to: Version, installers: &BTreeSet<Version>, last_minors: &LastMinors) -> Option<usize> {
    let mut seen = BTreeSet::from([from]);
    let mut next = VecDeque::from([(from, 0)]);
    while let Some((at, hops)) = next.pop_front() {
        if at == to {
            return Some(hops);
        }
        for &there in installers {
            if rule_between(at, there, last_minors.of(at.major)).is_ok() && seen.insert(there) {
                next.push_back((there, hops + 1));
            }
        }
    }
    None
}

/// Whether something of the folder, or what is installed, shows that a last minor that was named is not the last.
fn contradicted(from: Version, installers: &BTreeSet<Version>, last_minors: &LastMinors) -> bool {
    let later = |version: &Version| last_minors.of(version.major).is_some_and(|last| last.minor < version.minor);
    installers.iter().chain([&from]).any(later)
}

/// The same cases in every run, so that a rare one does not stop somebody else's change; with `tests/run --deep`, which sets the
/// variable, more of them and others each time.
fn cases() -> ProptestConfig {
    let deep = std::env::var_os("SVC_TEST_DEEP").is_some_and(|value| !value.is_empty());
    let (cases, rng_seed) = if deep { (50_000, RngSeed::Random) } else { (2000, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn printed_version_parses_to_same_version(version in any_version()) {
        prop_assert_eq!(version.to_string().parse(), Ok(version));
    }

    #[test]
    fn parsed_version_is_printed_unchanged(text in "[-+v 0]?[0-9]{1,3}[.-]?[0-9]{0,2}\\.?[0-9]{0,21}[-+.a ]?[0-9]?") {
        if let Ok(version) = text.parse::<Version>() {
            prop_assert_eq!(version.to_string(), text);
        }
    }

    #[test]
    fn only_one_step_upward_is_ever_supported(from in version(), to in version(), last in prop::option::of((0..FEW, 0..5_u64))) {
        let last = last.map(|(major, minor)| LastMinor { major, minor });
        let same_minor = from.major == to.major && from.minor == to.minor;
        let wanted = match rule_between(from, to, last) {
            Ok(Rule::Patch) => same_minor && to.patch > from.patch,
            Ok(Rule::NextMinor) => to.major == from.major && to.minor == from.minor + 1,
            Ok(Rule::NextMajor) => {
                let is_last = last == Some(LastMinor { major: from.major, minor: from.minor });
                to.major == from.major + 1 && to.minor == 0 && is_last
            }
            Err(Unsupported::NotHigher) => to <= from,
            Err(Unsupported::PassThrough(last)) => to > from && last.major == from.major && last.minor > from.minor,
            Err(Unsupported::Undecided | Unsupported::TooFar) => to > from,
        };
        prop_assert!(wanted);
    }

    #[test]
    fn no_versions_however_large_overflow(
        from in any_version(), to in any_version(), last in (number(), number()), installers in prop::collection::btree_set(any_version(), 0..4),
    ) {
        let last = LastMinor { major: last.0, minor: last.1 };
        let _ = rule_between(from, to, Some(last));
        let _ = first_hop(from, to, Some(last));
        let _ = chain(from, to, &installers, &LastMinors::highest_of([(last.major, last.minor)]));
    }

    #[test]
    fn every_hop_of_chain_is_supported((installers, last_minors) in world(), from in version(), to in version()) {
        let chain = chain(from, to, &installers, &last_minors);
        let mut at = from;
        for (next, rule) in &chain.hops {
            prop_assert!(installers.contains(next));
            prop_assert_eq!(rule_between(at, *next, last_minors.of(at.major)), Ok(*rule));
            at = *next;
        }
        let whole = chain.missing.is_empty() && chain.blocked.is_none();
        prop_assert_eq!(whole, at == to || to <= from, "{:?}", chain);
        if to <= from {
            prop_assert!(chain.hops.is_empty());
        }
    }

    /// So it passes each minor once, as no hop may leave one out.
    #[test]
    fn existing_chain_is_found_with_fewest_hops((installers, last_minors) in world(), from in version(), to in version()) {
        if to <= from || contradicted(from, &installers, &last_minors) {
            return Ok(());
        }
        let chain = chain(from, to, &installers, &last_minors);
        let found = (chain.missing.is_empty() && chain.blocked.is_none()).then_some(chain.hops.len());
        prop_assert_eq!(found, shortest(from, to, &installers, &last_minors), "{:?}", chain);
    }
}
