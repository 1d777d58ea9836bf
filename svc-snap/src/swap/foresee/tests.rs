use serde_json::{Map, Value, json};

use super::super::next::undo;
use super::*;
use crate::index::copies;
use crate::runs::seen::Rival;
use crate::runs::swapped::{Source, State};

const STAGED: &str = "svc-staged-20261120t020003z-hand-docs";
const BEFORE: &str = "svc-before-20261120t020003z-hand-docs";

fn way() -> Way {
    Way { run: "20261120t020003z-hand".parse().unwrap(), back: false }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn shape() -> Shape {
    let aliases = BTreeMap::from([
        ("write".to_owned(), object(json!({"is_write_index": true}))),
        ("some".to_owned(), object(json!({"filter": {"term": {"k": 1}}, "index_routing": "r"}))),
    ]);
    let lifecycle = BTreeMap::from([("index.lifecycle.name".to_owned(), "month".to_owned())]);
    Shape { aliases, number_of_replicas: 1, auto_expand_replicas: None, hidden: true, write_block: false, lifecycle }
}

fn index(uuid: &str, shape: Shape) -> Index {
    Index { uuid: uuid.to_owned(), closed: false, whole: true, shape }
}

fn item() -> SwapIndex {
    SwapIndex {
        index: "docs".to_owned(),
        state: State::Old,
        source: Some(Source { name: STAGED.to_owned(), uuid: "staged".to_owned(), docs_count: 3 }),
        live_uuid: Some("live".to_owned()),
        live_closed: false,
        kept: Some(BEFORE.to_owned()),
        strays: Vec::new(),
        was: Some(shape()),
        becomes: Some(shape()),
        holder: None,
    }
}

fn seen() -> Seen {
    let copy = Shape { hidden: true, write_block: true, ..Shape::default() };
    let indices = BTreeMap::from([("docs".to_owned(), index("live", shape())), (STAGED.to_owned(), index("staged", copy))]);
    Seen { indices, rivals: Vec::new() }
}

/// Runs the swap for `steps` requests, as if it were killed then.
fn cut_after(item: &SwapIndex, mut seen: Seen, steps: usize) -> Seen {
    let acts = foresee(&way(), item, &seen);
    for act in acts.iter().take(steps) {
        apply(item, act, &mut seen);
    }
    for index in seen.indices.values_mut() {
        index.whole = true;
    }
    seen
}

/// Runs it to its end, whatever it finds.
fn run_out(item: &SwapIndex, mut seen: Seen) -> Seen {
    for _ in 0..MOST {
        match next(&way(), item, &seen) {
            Next::Do(act) => apply(item, &act, &mut seen),
            Next::Wait(name) => whole(&mut seen.indices, &name),
            Next::Finished => return seen,
            Next::Stuck(why) => panic!("stuck: {why}: {seen:?}"),
        }
    }
    panic!("goes round: {seen:?}");
}

#[test]
fn nothing_is_asked_for_while_the_copy_that_is_to_become_live_lacks_shards() {
    for kept in [Some(BEFORE.to_owned()), None] {
        let item = SwapIndex { kept, ..item() };
        let mut seen = seen();
        assert!(!foresee(&way(), &item, &seen).is_empty());
        seen.indices.get_mut(STAGED).unwrap().whole = false;
        assert!(matches!(next(&way(), &item, &seen), Next::Stuck(_)));
    }
}

#[test]
fn a_swap_takes_six_requests_and_ends_with_the_new_index_and_the_one_that_is_kept() {
    let acts = foresee(&way(), &item(), &seen());
    let paths: Vec<_> = acts.iter().map(|act| act.request().1).collect();
    assert_eq!(
        paths,
        [
            "/docs/_block/write".to_owned(),
            format!("/docs/_clone/{BEFORE}"),
            "/_aliases".to_owned(),
            format!("/{STAGED}/_clone/docs"),
            "/docs/_settings".to_owned(),
            "/_aliases".to_owned(),
        ]
    );
    let after = run_out(&item(), seen());
    assert_eq!(after.indices.keys().collect::<Vec<_>>(), ["docs", BEFORE]);
    assert_eq!(after.get("docs").unwrap().shape, shape());
    assert_eq!(after.state(&way(), &item()), State::New);
    assert!(after.get(BEFORE).unwrap().shape.aliases.is_empty());
}

#[test]
fn a_swap_cut_after_any_request_is_finished_and_ends_the_same() {
    let whole_run = run_out(&item(), seen());
    for steps in 0..=6 {
        let cut = cut_after(&item(), seen(), steps);
        let expected = match steps {
            0..=2 => State::Old,
            3..=5 => State::Absent,
            _ => State::New,
        };
        assert_eq!(cut.state(&way(), &item()), expected, "after {steps}");
        assert_eq!(run_out(&item(), cut), whole_run, "after {steps}");
    }
}

#[test]
fn the_aliases_are_never_without_an_index() {
    for steps in 0..=6 {
        let cut = cut_after(&item(), seen(), steps);
        let holders = cut.indices.values().filter(|index| index.shape.aliases.contains_key("write")).count();
        assert_eq!(holders, 1, "after {steps}");
    }
}

#[test]
fn what_has_not_come_to_its_exchange_is_taken_back_whole() {
    for steps in 0..=2 {
        let mut cut = cut_after(&item(), seen(), steps);
        while let Some(act) = undo(&item(), &cut) {
            apply(&item(), &act, &mut cut);
        }
        assert_eq!(cut, seen(), "after {steps}");
    }
    assert_eq!(undo(&item(), &cut_after(&item(), seen(), 3)), None);
}

#[test]
fn a_copy_made_before_the_last_writes_is_made_anew() {
    let mut cut = cut_after(&item(), seen(), 2);
    cut.indices.get_mut("docs").unwrap().shape.write_block = false;
    assert_eq!(next(&way(), &item(), &cut), Next::Do(Act::Discard(BEFORE.to_owned())));
    run_out(&item(), cut);
}

#[test]
fn an_index_that_a_client_made_meanwhile_is_kept_under_a_name_of_its_own() {
    let mut cut = cut_after(&item(), seen(), 3);
    cut.indices.insert("docs".to_owned(), index("stray", Shape::default()));
    assert_eq!(cut.state(&way(), &item()), State::Absent);
    let after = run_out(&item(), cut);
    let stray = copies::stray(BEFORE, "stray");
    assert_eq!(after.indices.keys().collect::<Vec<_>>(), ["docs", BEFORE, stray.as_str()]);
    assert_eq!(after.get("docs").unwrap().shape, shape());
}

#[test]
fn a_closed_index_is_opened_for_its_clone_and_closed_again_when_the_swap_is_taken_back() {
    let closed = SwapIndex { live_closed: true, ..item() };
    let mut shut = seen();
    shut.indices.get_mut("docs").unwrap().closed = true;
    assert_eq!(next(&way(), &closed, &shut), Next::Do(Act::Open("docs".to_owned())));
    let mut cut = cut_after(&closed, shut.clone(), 2);
    while let Some(act) = undo(&closed, &cut) {
        apply(&closed, &act, &mut cut);
    }
    assert_eq!(cut, shut);
    assert_eq!(run_out(&closed, shut).state(&way(), &closed), State::New);
}

#[test]
fn an_index_may_be_dropped_be_new_or_be_taken_away() {
    let dropped = SwapIndex { kept: None, ..item() };
    assert_eq!(run_out(&dropped, seen()).indices.keys().collect::<Vec<_>>(), ["docs"]);
    let fresh = SwapIndex { live_uuid: None, was: None, ..item() };
    let mut nothing_live = seen();
    nothing_live.indices.remove("docs");
    assert_eq!(run_out(&fresh, nothing_live).get("docs").unwrap().shape, shape());
    let taken = SwapIndex { source: None, becomes: None, ..item() };
    let after = run_out(&taken, seen());
    assert_eq!(after.state(&way(), &taken), State::Absent);
    assert_eq!(after.indices.keys().collect::<Vec<_>>(), [BEFORE, STAGED]);
    assert_eq!(next(&way(), &taken, &after), Next::Finished);
}

#[test]
fn a_finished_swap_leaves_alone_what_somebody_made_of_it_since() {
    let mut after = run_out(&item(), seen());
    after.indices.insert("docs".to_owned(), index("someone's", Shape::default()));
    assert_eq!(next(&way(), &item(), &after), Next::Finished);
}

#[test]
fn a_copy_that_is_gone_or_is_another_stops_the_swap() {
    let mut gone = seen();
    gone.indices.remove(STAGED);
    assert!(matches!(next(&way(), &item(), &gone), Next::Stuck(_)));
    let mut other = cut_after(&item(), seen(), 3);
    other.indices.get_mut(STAGED).unwrap().uuid = "another".to_owned();
    assert!(matches!(next(&way(), &item(), &other), Next::Stuck(_)));
}

#[test]
fn an_alias_that_moves_between_indices_of_the_swap_moves_in_one_call() {
    let rival = Rival { index: "docs-2".to_owned(), alias: "write".to_owned(), becomes: None };
    let seen = Seen { rivals: vec![rival], ..seen() };
    let exchange = foresee(&way(), &item(), &seen).into_iter().find_map(|act| match act {
        Act::Exchange(actions) => Some(actions),
        _ => None,
    });
    let actions = exchange.unwrap();
    assert!(actions.contains(&json!({"remove": {"index": "docs-2", "alias": "write"}})));
    assert!(actions.contains(&json!({"add": {"index": STAGED, "alias": "write", "is_write_index": true}})));
}

#[test]
fn a_swap_that_was_cut_and_is_taken_back_never_gives_an_alias_two_holders() {
    let back = Way { back: true, ..way() };
    for steps in 3..=6 {
        let cut = cut_after(&item(), seen(), steps);
        let live = cut.get("docs").map(|live| live.uuid.clone());
        let source = Source { name: BEFORE.to_owned(), uuid: cut.get(BEFORE).unwrap().uuid.clone(), docs_count: 3 };
        let kept = live.is_some().then(|| back.kept("docs"));
        let (source, holder) = (Some(source), Some(STAGED.to_owned()));
        let returning = SwapIndex { source, holder, kept, live_uuid: live, ..item() };
        let mut now = cut;
        for _ in 0..MOST {
            match next(&back, &returning, &now) {
                Next::Do(act) => apply(&returning, &act, &mut now),
                Next::Wait(name) => whole(&mut now.indices, &name),
                Next::Finished => break,
                Next::Stuck(why) => panic!("stuck: {why}: {now:?}"),
            }
            let holders = now.indices.values().filter(|index| index.shape.aliases.contains_key("write")).count();
            assert!(holders <= 1, "cut after {steps}: {now:?}");
        }
        assert_eq!(now.get("docs").unwrap().shape, shape(), "cut after {steps}");
        assert!(now.get(BEFORE).is_none() && now.state(&back, &returning) == State::New, "cut after {steps}");
    }
}
