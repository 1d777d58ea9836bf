use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::next::{next, undo};
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
    Shape {
        aliases,
        number_of_replicas: 1,
        auto_expand_replicas: None,
        hidden: true,
        blocks: BTreeSet::new(),
        lifecycle,
        policy: None,
    }
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
    let copy = Shape::of_copy();
    let indices = BTreeMap::from([("docs".to_owned(), index("live", shape())), (STAGED.to_owned(), index("staged", copy))]);
    Seen { indices, rivals: Vec::new() }
}

/// The requests of the swap of one index.
fn foreseen(item: &SwapIndex, seen: &Seen) -> Vec<Act> {
    foresee(&way(), std::slice::from_ref(item), &seen.indices)
}

/// Runs the swap for `steps` requests, as if it were killed then.
fn cut_after(item: &SwapIndex, mut seen: Seen, steps: usize) -> Seen {
    let acts = foreseen(item, &seen);
    for act in acts.iter().take(steps) {
        apply(act, &mut seen.indices);
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
            Next::Do(act) => apply(&act, &mut seen.indices),
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
        assert!(!foreseen(&item, &seen).is_empty());
        seen.indices.get_mut(STAGED).unwrap().whole = false;
        assert!(matches!(next(&way(), &item, &seen), Next::Stuck(_)));
    }
}

#[test]
fn a_swap_takes_six_requests_and_ends_with_the_new_index_and_the_one_that_is_kept() {
    let acts = foreseen(&item(), &seen());
    let paths: Vec<_> = acts.iter().map(|act| act.request().1).collect();
    assert_eq!(
        paths,
        [
            "/docs/_block/write".to_owned(),
            format!("/docs/_clone/{BEFORE}?wait_for_active_shards=0"),
            "/_aliases".to_owned(),
            format!("/{STAGED}/_clone/docs?wait_for_active_shards=0"),
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
            apply(&act, &mut cut.indices);
        }
        assert_eq!(cut, seen(), "after {steps}");
    }
    assert_eq!(undo(&item(), &cut_after(&item(), seen(), 3)), None);
}

#[test]
fn a_copy_made_before_the_last_writes_is_made_anew() {
    let mut cut = cut_after(&item(), seen(), 2);
    cut.indices.get_mut("docs").unwrap().shape.blocks.clear();
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
        apply(&act, &mut cut.indices);
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
    let seen = Seen { rivals: vec![rival], ..cut_after(&item(), seen(), 2) };
    let Next::Do(Act::Exchange(actions)) = next(&way(), &item(), &seen) else { panic!("no exchange") };
    assert!(actions.contains(&json!({"remove": {"index": "docs-2", "alias": "write"}})));
    assert!(actions.contains(&json!({"add": {"index": STAGED, "alias": "write", "is_write_index": true}})));
}

/// Three indices: `write` goes from the second to the first, and the third one is taken away.
fn three() -> (Vec<SwapIndex>, BTreeMap<String, Index>) {
    let alias = |writes: bool| BTreeMap::from([("write".to_owned(), object(json!({"is_write_index": writes})))]);
    let one = |name: &str, was: bool, becomes: Option<bool>| SwapIndex {
        index: name.to_owned(),
        source: becomes.map(|_| Source { name: format!("staged-{name}"), uuid: format!("staged {name}"), docs_count: 3 }),
        live_uuid: Some(format!("live {name}")),
        kept: Some(way().kept(name)),
        was: Some(Shape { aliases: alias(was), ..Shape::default() }),
        becomes: becomes.map(|writes| Shape { aliases: alias(writes), ..Shape::default() }),
        ..item()
    };
    let items = vec![one("a", false, Some(true)), one("b", true, Some(false)), one("c", false, None)];
    let mut seen = BTreeMap::new();
    for item in &items {
        seen.insert(item.index.clone(), index(item.live_uuid.as_ref().unwrap(), item.was.clone().unwrap()));
        if let Some(source) = &item.source {
            let copy = Shape::of_copy();
            seen.insert(source.name.clone(), index(&source.uuid, copy));
        }
    }
    (items, seen)
}

#[test]
fn several_indices_share_their_requests_and_only_clones_are_one_each() {
    let (items, seen) = three();
    let acts = foresee(&way(), &items, &seen);
    let paths: Vec<_> = acts.iter().map(|act| act.request().1.split('?').next().unwrap().to_owned()).collect();
    let kept = |name: &str| format!("/{name}/_clone/{}", way().kept(name));
    assert_eq!(
        paths,
        [
            "/a,b,c/_block/write".to_owned(),
            kept("a"),
            kept("b"),
            kept("c"),
            "/_aliases".to_owned(),
            "/staged-a/_clone/a".to_owned(),
            "/staged-b/_clone/b".to_owned(),
            "/a,b/_settings".to_owned(),
            "/_aliases".to_owned(),
        ]
    );
    let Act::Exchange(actions) = &acts[4] else { panic!("{:?}", acts[4]) };
    let spoken_of = |action: &Value| ["add", "remove"].iter().find_map(|kind| Some(action.get(kind)?["index"].to_string()));
    let spoken_of: Vec<_> = actions.iter().filter_map(spoken_of).collect();
    assert_eq!(spoken_of, ["\"staged-a\"", "\"staged-b\""], "nothing is asked of an index that goes in the same call");
}

#[test]
fn a_swap_of_several_cut_after_any_request_is_finished_ends_the_same_and_never_has_two_write_indices() {
    let (items, seen) = three();
    let finished = |mut world: BTreeMap<String, Index>| {
        for act in foresee(&way(), &items, &world) {
            apply(&act, &mut world);
            let writes = |index: &&Index| index.shape.aliases.get("write").is_some_and(crate::index::shape::is_write_index);
            assert_eq!(world.values().filter(writes).count(), 1, "{act:?}");
        }
        world.values_mut().for_each(|index| index.whole = true);
        world
    };
    let whole_run = finished(seen.clone());
    assert_eq!(whole_run.keys().map(String::as_str).filter(|name| !name.starts_with("svc-")).collect::<Vec<_>>(), ["a", "b"]);
    let acts = foresee(&way(), &items, &seen);
    for steps in 0..=acts.len() {
        let mut cut = seen.clone();
        acts.iter().take(steps).for_each(|act| apply(act, &mut cut));
        assert_eq!(finished(cut), whole_run, "after {steps}");
    }
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
                Next::Do(act) => apply(&act, &mut now.indices),
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
