use serde_json::json;

use super::*;
use crate::runs::seen::Rival;

fn step(at: usize, state: State, next: Next) -> Step {
    Step { at, state, seen: Seen { indices: BTreeMap::new(), rivals: Vec::<Rival>::new() }, next }
}

fn block(at: usize) -> Step {
    step(at, State::Old, Next::Do(Act::Block(vec![format!("i{at}")])))
}

fn exchange(at: usize, actions: &[Value]) -> Step {
    step(at, State::Old, Next::Do(Act::Exchange(actions.to_vec())))
}

fn settle(at: usize, settings: Value) -> Step {
    step(at, State::Absent, Next::Do(Act::Settle { indices: vec![format!("i{at}")], settings }))
}

fn places(steps: &[Step]) -> Vec<usize> {
    steps.iter().map(|step| step.at).collect()
}

#[test]
fn none_goes_ahead_and_what_is_not_live_goes_first() {
    let done = step(9, State::New, Next::Finished);
    let wait = |at, state| step(at, state, Next::Wait("x".to_owned()));
    assert_eq!(places(&choose(vec![exchange(0, &[]), block(1), block(2), done.clone()], false)), [1, 2]);
    assert_eq!(places(&choose(vec![exchange(0, &[]), wait(1, State::Old)], false)), [1], "the exchange waits for the others");
    assert_eq!(places(&choose(vec![settle(0, json!({})), wait(1, State::Absent)], false)), [1]);
    assert_eq!(places(&choose(vec![block(0), settle(1, json!({}))], false)), [1]);
    assert_eq!(places(&choose(vec![block(0), settle(1, json!({})), settle(2, json!({}))], true)), [1], "each by itself");
    assert!(choose(vec![done, step(1, State::Old, Next::Stuck("why".to_owned()))], false).is_empty());
}

#[test]
fn indices_that_get_the_same_share_a_request_as_far_as_their_names_have_room() {
    let requests = join(vec![settle(0, json!({"a": 1})), settle(1, json!({"a": 2})), settle(2, json!({"a": 1}))]);
    assert_eq!(requests.iter().map(|one| one.of.clone()).collect::<Vec<_>>(), [vec![0, 2], vec![1]]);
    let long = |at: usize| step(at, State::Old, Next::Do(Act::Block(vec![format!("{at}{}", "x".repeat(254))])));
    let requests = join((0..30).map(long).collect());
    let all: Vec<usize> = requests.iter().flat_map(|one| one.of.clone()).collect();
    assert_eq!((requests.len(), all), (3, (0..30).collect()));
    assert!(requests.iter().all(|one| one.act.request().1.len() < 4000));
}

#[test]
fn one_call_of_aliases_asks_for_nothing_twice_and_nothing_of_what_goes() {
    let remove = |index: &str| json!({"remove": {"index": index, "alias": "x"}});
    let goes = |index: &str| json!({"remove_index": {"index": index}});
    let add = |index: &str| json!({"add": {"index": index, "alias": "x"}});
    let requests = join(vec![
        exchange(0, &[goes("a"), remove("b"), remove("other"), add("staged-a")]),
        exchange(1, &[goes("b"), remove("other"), add("staged-b")]),
    ]);
    let actions = vec![goes("a"), remove("other"), add("staged-a"), goes("b"), add("staged-b")];
    assert_eq!(requests, [Request { act: Act::Exchange(actions), of: vec![0, 1] }]);
}
