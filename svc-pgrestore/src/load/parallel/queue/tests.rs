use proptest::prelude::*;

use super::*;

fn task<'a>(item: &'static str, tables: &[(&'a str, Sharing)], weight: u64) -> Task<'a, &'static str> {
    Task::at_once(item, tables.to_vec(), weight)
}

fn later<'a>(item: &'static str, tables: &[(&'a str, Sharing)], phase: usize) -> Task<'a, &'static str> {
    Task { phase, ..task(item, tables, 1) }
}

const fn alone(table: &str) -> (&str, Sharing) {
    (table, Sharing::Alone)
}

const fn shared(table: &str) -> (&str, Sharing) {
    (table, Sharing::Shared)
}

fn next<T: Copy>(queue: &Queue<T>) -> Option<(usize, T)> {
    queue.state().take()
}

#[test]
fn the_heaviest_comes_first_and_nobody_gets_in_anothers_way() {
    let queue = Queue::new(vec![
        task("small", &[shared("a")], 1),
        task("key", &[alone("b")], 9),
        task("index", &[shared("b")], 9),
        task("other index", &[shared("b")], 8),
    ]);
    let key = queue.take().unwrap();
    assert_eq!((key.1, queue.take().unwrap().1), ("key", "small"));
    assert!(next(&queue).is_none(), "an index was begun beside the key of its table");
    queue.done(key.0);
    // Indexes of one table are built beside each other.
    let (index, other) = (queue.take().unwrap(), queue.take().unwrap());
    assert_eq!((index.1, other.1), ("index", "other index"));
    queue.done(index.0);
    queue.done(other.0);
    queue.done(0);
    assert!(queue.take().is_none());
}

#[test]
fn a_foreign_key_is_alone_at_both_its_tables_even_where_they_are_one() {
    let queue = Queue::new(vec![
        task("a to b", &[alone("a"), alone("b")], 0),
        task("b to c", &[alone("b"), alone("c")], 0),
        task("d to itself", &[alone("d"), alone("d")], 0),
    ]);
    let first = queue.take().unwrap();
    let itself = queue.take().unwrap();
    assert_eq!((first.1, itself.1), ("a to b", "d to itself"));
    assert!(next(&queue).is_none());
    queue.done(itself.0);
    assert!(next(&queue).is_none());
    queue.done(first.0);
    assert_eq!(queue.take().unwrap().1, "b to c");
    queue.stop();
    assert!(queue.take().is_none());
}

#[test]
fn what_is_built_waits_for_the_rows_of_its_own_tables_and_for_no_others() {
    let mut expression = later("an expression's index", &[shared("a")], 1);
    expression.waits_for_all = true;
    let queue = Queue::new(vec![
        task("rows of a", &[alone("a")], 5),
        task("rows of b", &[alone("b")], 9),
        later("index of a", &[shared("a")], 1),
        expression,
        later("key of b", &[alone("b")], 1),
        later("a to b", &[alone("a"), alone("b")], 2),
    ]);
    let (b, a) = (queue.take().unwrap(), queue.take().unwrap());
    assert_eq!((b.1, a.1), ("rows of b", "rows of a"));
    assert!(next(&queue).is_none());
    queue.done(a.0);
    let index = next(&queue).unwrap();
    assert_eq!(index.1, "index of a");
    queue.done(index.0);
    assert!(next(&queue).is_none(), "the foreign key was begun before the key that it needs");
    queue.done(b.0);
    let (expression, key) = (next(&queue).unwrap(), next(&queue).unwrap());
    assert_eq!((expression.1, key.1), ("an expression's index", "key of b"));
    queue.done(key.0);
    assert!(next(&queue).is_none());
    queue.done(expression.0);
    assert_eq!(next(&queue).unwrap().1, "a to b");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever there is to do and in whatever order it ends: all of it is done, nobody is at a table where somebody is alone, and
    /// nothing begins before what it waits for.
    #[test]
    fn everything_is_done_once_and_in_its_order(
        specs in proptest::collection::vec((0_usize..5, 0_usize..5, any::<bool>(), 0_usize..4, any::<bool>(), 0_u64..3), 0..40),
        choices in proptest::collection::vec(any::<usize>(), 200),
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let tables = |spec: &(usize, usize, bool, usize, bool, u64)| {
            let sharing = if spec.2 { Sharing::Alone } else { Sharing::Shared };
            vec![(names[spec.0], sharing), (names[spec.1], sharing)]
        };
        let tasks = specs.iter().enumerate().map(|(number, spec)| Task {
            item: number, tables: tables(spec), weight: spec.5, phase: spec.3, waits_for_all: spec.4,
        });
        let queue = Queue::new(tasks.collect());
        let (mut running, mut done): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let meet = |one: usize, other: usize| tables(&specs[one]).iter().any(|(table, _)| tables(&specs[other]).iter().any(|(name, _)| name == table));
        for choice in choices {
            if choice % 3 > 0 && let Some((number, item)) = next(&queue) {
                prop_assert_eq!(number, item);
                for other in &running {
                    prop_assert!(!meet(number, *other) || !(specs[number].2 || specs[*other].2));
                }
                for (other, spec) in specs.iter().enumerate().filter(|(other, _)| !done.contains(other)) {
                    prop_assert!(spec.3 >= specs[number].3 || !(specs[number].4 || meet(number, other)), "{} before {}", number, other);
                }
                running.push(number);
            } else if !running.is_empty() {
                let number = running.swap_remove(choice % running.len());
                queue.done(number);
                done.push(number);
            }
        }
        while let Some(number) = running.pop().or_else(|| next(&queue).map(|(number, _)| number)) {
            queue.done(number);
            done.push(number);
        }
        done.sort_unstable();
        prop_assert_eq!(done, (0..specs.len()).collect::<Vec<_>>());
    }
}
