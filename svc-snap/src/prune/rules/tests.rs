use proptest::prelude::*;

use super::*;

const DAY: i64 = 86_400_000;

fn now() -> Timestamp {
    "2026-11-21T03:00:00Z".parse().unwrap()
}

/// A nightly snapshot of so many days ago.
fn nightly(days: i64, worth: Worth) -> Candidate {
    let started = Timestamp::from_millisecond(now().as_millisecond() - days * DAY).unwrap();
    Candidate {
        name: format!("n{days:03}"),
        ours: true,
        kind: Some("nightly".to_owned()),
        worth,
        started_at: Some(started),
        named: false,
    }
}

fn slm(days: i128, most: usize, fewest: usize) -> Rules {
    Rules { max_age_ms: Some(days * i128::from(DAY)), max_count: Some(most), min_count: fewest }
}

/// The days of those that go.
fn gone(candidates: &[Candidate], rules: &Rules) -> Vec<String> {
    let verdicts = judge(candidates, &["nightly"], rules, now());
    candidates.iter().zip(verdicts).filter(|(_, verdict)| verdict.deletes()).map(|(one, _)| one.name.clone()).collect()
}

#[test]
fn the_oldest_above_the_most_go_and_the_old_ones_as_long_as_the_fewest_are_left() {
    let daily: Vec<Candidate> = (0..10).map(|days| nightly(days, Worth::Good)).collect();
    assert!(gone(&daily, &slm(30, 30, 7)).is_empty());
    assert_eq!(gone(&daily, &slm(30, 8, 7)), ["n008", "n009"]);
    // Too old are five to nine days; but seven are left, whatever their age.
    assert_eq!(gone(&daily, &slm(4, 30, 7)), ["n007", "n008", "n009"]);
    assert_eq!(gone(&daily, &slm(4, 30, 1)), ["n005", "n006", "n007", "n008", "n009"]);
    assert_eq!(gone(&daily, &slm(0, 30, 1)).len(), 9);
    assert_eq!(gone(&daily, &Rules { max_age_ms: None, max_count: None, min_count: 1 }), [""; 0]);
}

#[test]
fn when_backups_stop_nothing_is_lost_by_the_passing_of_time() {
    let old: Vec<Candidate> = (100..107).map(|days| nightly(days, Worth::Good)).collect();
    assert!(gone(&old, &slm(30, 30, 7)).is_empty());
}

#[test]
fn what_is_no_backup_neither_counts_nor_outlives_a_newer_good_one() {
    let list = [
        nightly(3, Worth::Bad),
        nightly(2, Worth::Good),
        nightly(1, Worth::Bad),
        nightly(4, Worth::UnderWay),
        nightly(5, Worth::Unknown),
    ];
    let verdicts = judge(&list, &["nightly"], &slm(0, 1, 1), now());
    assert_eq!(verdicts, [Reason::NotGood, Reason::Newest, Reason::NoNewerGood, Reason::UnderWay, Reason::NotJudged]);
    assert!(gone(&[nightly(3, Worth::Bad), nightly(4, Worth::Bad)], &slm(0, 1, 1)).is_empty());
}

#[test]
fn only_ours_of_that_kind_and_that_no_file_names_are_touched_and_naming_one_drives_out_no_other() {
    let mut list: Vec<Candidate> = (0..4).map(|days| nightly(days, Worth::Good)).collect();
    list.push(Candidate { ours: false, ..nightly(9, Worth::Good) });
    list.push(Candidate { kind: Some("upgrade".to_owned()), ..nightly(8, Worth::Bad) });
    list.push(Candidate { kind: None, ..nightly(7, Worth::Good) });
    assert_eq!(gone(&list, &slm(0, 1, 1)), ["n001", "n002", "n003"]);
    list[2].named = true;
    assert_eq!(gone(&list, &slm(0, 1, 1)), ["n001", "n003"]);
    assert_eq!(gone(&list, &slm(30, 2, 1)), ["n003"]);
    let verdicts = judge(&list, &["nightly"], &slm(0, 1, 1), now());
    assert_eq!(verdicts[2..], [Reason::KeepFrom, Reason::MaxCount, Reason::NotOurs, Reason::OtherKind, Reason::OtherKind]);
    // Each kind by itself: a nightly one does not make an upgrade's too many.
    let upgrade = Candidate { kind: Some("upgrade".to_owned()), ..nightly(8, Worth::Good) };
    let verdicts = judge(&[nightly(0, Worth::Good), upgrade], &["nightly", "upgrade"], &slm(0, 1, 1), now());
    assert_eq!(verdicts, [Reason::Newest, Reason::Newest]);
}

fn candidate() -> impl Strategy<Value = Candidate> {
    let worth = prop_oneof![6 => Just(Worth::Good), 2 => Just(Worth::Bad), 1 => Just(Worth::UnderWay), 1 => Just(Worth::Unknown)];
    let kind = prop_oneof![4 => Just(Some("nightly")), 1 => Just(Some("upgrade")), 1 => Just(Some("manual")), 1 => Just(None)];
    // Days that collide, and a few that lie ahead.
    (worth, kind, prop::bool::weighted(0.9), -2..12_i64, prop::bool::weighted(0.1), prop::bool::weighted(0.95)).prop_map(
        |(worth, kind, ours, days, named, timed)| {
            let one = nightly(days, worth);
            Candidate { ours, kind: kind.map(str::to_owned), named, started_at: one.started_at.filter(|_| timed), ..one }
        },
    )
}

fn list() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(candidate(), 0..25).prop_map(|mut list| {
        for (number, one) in list.iter_mut().enumerate() {
            one.name = format!("s{number}");
        }
        list
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    (prop::option::of(0..14_i128), prop::option::of(0..12_usize), 1..8_usize).prop_map(|(days, above, fewest)| Rules {
        max_age_ms: days.map(|days| days * i128::from(DAY)),
        max_count: above.map(|above| fewest + above),
        min_count: fewest,
    })
}

fn subset(one: &[String], other: &[String]) -> bool {
    one.iter().all(|name| other.contains(name))
}

proptest! {
    #[test]
    fn the_newest_good_one_and_the_fewest_always_stay(list in list(), rules in rules()) {
        let gone = gone(&list, &rules);
        let stays = |one: &&Candidate| !gone.contains(&one.name);
        let good: Vec<&Candidate> = list.iter()
            .filter(|one| one.ours && one.kind.as_deref() == Some("nightly") && one.worth == Worth::Good && one.started_at.is_some())
            .collect();
        if let Some(newest) = good.iter().max_by_key(|one| (one.started_at, &one.name)) {
            prop_assert!(stays(newest));
        }
        prop_assert!(good.iter().copied().filter(stays).count() >= good.len().min(rules.min_count));
    }

    #[test]
    fn nothing_else_is_ever_touched(list in list(), rules in rules()) {
        for name in gone(&list, &rules) {
            let one = list.iter().find(|one| one.name == name).unwrap();
            prop_assert!(one.ours && one.kind.as_deref() == Some("nightly") && !one.named);
            prop_assert!(matches!(one.worth, Worth::Good | Worth::Bad) && one.started_at.is_some());
        }
    }

    #[test]
    fn what_is_left_is_within_the_rules_and_a_second_time_deletes_nothing(list in list(), rules in rules()) {
        let first = gone(&list, &rules);
        let left: Vec<Candidate> = list.into_iter().filter(|one| !first.contains(&one.name)).collect();
        let counted = left.iter()
            .filter(|one| one.ours && one.kind.as_deref() == Some("nightly") && one.worth == Worth::Good && one.started_at.is_some() && !one.named)
            .count();
        prop_assert!(rules.max_count.is_none_or(|most| counted <= most));
        prop_assert!(gone(&left, &rules).is_empty());
    }

    #[test]
    fn rules_that_allow_more_never_delete_more(list in list(), rules in rules(), more in 0..5_usize, days in 0..5_i128) {
        let strict = gone(&list, &rules);
        let lax = Rules {
            max_age_ms: rules.max_age_ms.map(|age| age + days * i128::from(DAY)),
            max_count: rules.max_count.map(|most| most + more),
            ..rules
        };
        prop_assert!(subset(&gone(&list, &lax), &strict));
        let more_stay = Rules { min_count: rules.min_count + more, max_count: rules.max_count.map(|most| most + more), ..rules };
        prop_assert!(subset(&gone(&list, &more_stay), &strict));
    }

    #[test]
    fn naming_one_in_a_file_saves_it_and_drives_out_no_other(list in list(), rules in rules(), which in any::<prop::sample::Index>()) {
        prop_assume!(!list.is_empty());
        let before = gone(&list, &rules);
        let mut named = list.clone();
        let at = which.index(list.len());
        named[at].named = true;
        let after = gone(&named, &rules);
        prop_assert!(!after.contains(&named[at].name) && subset(&after, &before));
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(list in list(), rules in rules(), turn in 0..25_usize) {
        let mut turned = list.clone();
        turned.rotate_left(turn.min(list.len()));
        let sorted = |mut names: Vec<String>| { names.sort(); names };
        prop_assert_eq!(sorted(gone(&list, &rules)), sorted(gone(&turned, &rules)));
    }
}
