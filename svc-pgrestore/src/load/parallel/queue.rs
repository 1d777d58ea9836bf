//! Tasks in parallel: each connection takes the heaviest task that is ready and that no running task excludes.
//!
//! A task is ready when all tasks of earlier phases at its tables are done: the indexes of a table need its rows, a foreign key
//! the keys of both its tables, and neither needs other tables. The server would let the second one at a table wait all the same,
//! with its connection doing nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{ptr, thread};

use postgres::Client;
use svc_step::Failure;

/// One task, the tables that it is at, and how much work it is.
#[derive(Debug, Clone)]
pub(super) struct Task<'a, T> {
    pub(super) item: T,
    pub(super) tables: Vec<&'a str>,
    /// Whether it is to be alone at its tables.
    pub(super) is_exclusive: bool,
    pub(super) weight: u64,
    /// Tasks of earlier phases come first, at the same tables.
    pub(super) phase: usize,
    /// Whether all tasks of earlier phases come first.
    pub(super) waits_for_all: bool,
}

/// Does all tasks, on these connections. The first failure ends it.
pub(super) fn run<'c, T: Sync>(
    clients: impl Iterator<Item = &'c mut Client>,
    tasks: &[Task<'_, T>],
    act: impl Fn(&mut Client, &T) -> Result<(), Failure> + Sync,
    fail: impl Fn(Failure) + Sync,
) {
    let queue = Queue::new(tasks);
    thread::scope(|scope| {
        for client in clients.take(tasks.len()) {
            scope.spawn(|| {
                let _guard = StopsIfPanicking(&queue);
                while let Some(task) = queue.take() {
                    if let Err(failure) = act(client, &task.item) {
                        fail(failure);
                        return queue.stop();
                    }
                    queue.done(task);
                }
            });
        }
    });
}

struct Queue<'t, T> {
    state: Mutex<State<'t, T>>,
    changed: Condvar,
}

/// A task by its place in the queue: the heaviest first, then in the order of the dump.
type Tasks<T> = BTreeMap<(Reverse<u64>, usize), T>;
/// A table, or (`None`) all of them.
type Place<'t> = Option<&'t str>;
/// What a task waits for at a place: earlier phases, or its turn beside those that run there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum For {
    Phase,
    Turn,
}

struct State<'t, T> {
    /// What may be ready, and the place at which it is its turn.
    candidates: Tasks<(&'t Task<'t, T>, Place<'t>)>,
    /// What is not, by what it waits for.
    waiting: HashMap<(For, Place<'t>), Tasks<&'t Task<'t, T>>>,
    running: Vec<&'t Task<'t, T>>,
    /// How many tasks of each phase are not done, at each place.
    left: HashMap<Place<'t>, BTreeMap<usize, usize>>,
}

impl<'t, T> Queue<'t, T> {
    fn new(tasks: &'t [Task<'t, T>]) -> Self {
        let mut left: HashMap<_, BTreeMap<usize, usize>> = HashMap::new();
        for task in tasks {
            for place in places(task) {
                *left.entry(place).or_default().entry(task.phase).or_default() += 1;
            }
        }
        let candidates = tasks.iter().enumerate().map(|(number, task)| ((Reverse(task.weight), number), (task, None))).collect();
        let state = State { candidates, waiting: HashMap::new(), running: Vec::new(), left };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<'t, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task; waits while all that is left waits for others. `None` if nothing is left to begin.
    fn take(&self) -> Option<&'t Task<'t, T>> {
        let mut state = self.state();
        loop {
            let next = state.next();
            if next.is_some() || state.waiting.is_empty() {
                return next;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, task: &'t Task<'t, T>) {
        self.state().done(task);
        self.changed.notify_all();
    }

    fn stop(&self) {
        let mut state = self.state();
        state.candidates.clear();
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }
}

impl<'t, T> State<'t, T> {
    fn next(&mut self) -> Option<&'t Task<'t, T>> {
        while let Some((key, (task, turn))) = self.candidates.pop_first() {
            let waits = self.waits(task);
            // Whoever is not alone at that place, nor waits for it, leaves it to the next one.
            if turn.is_some() && waits != Some((For::Turn, turn)) && !(waits.is_none() && task.is_exclusive) {
                self.wake(turn);
            }
            let Some(waits) = waits else {
                self.running.push(task);
                return Some(task);
            };
            self.waiting.entry(waits).or_default().insert(key, task);
        }
        None
    }

    /// One of those that wait for their turn at a place may have it.
    fn wake(&mut self, place: Place<'t>) {
        let Some(waiting) = self.waiting.get_mut(&(For::Turn, place)) else { return };
        self.candidates.extend(waiting.pop_first().map(|(key, task)| (key, (task, place))));
        if waiting.is_empty() {
            self.waiting.remove(&(For::Turn, place));
        }
    }

    fn waits(&self, task: &'t Task<'t, T>) -> Option<(For, Place<'t>)> {
        let is_later = |place: &Place<'t>| {
            self.left.get(place).and_then(BTreeMap::first_key_value).is_some_and(|(phase, _)| *phase < task.phase)
        };
        let is_excluded =
            |table: &&str| self.running.iter().any(|one| (one.is_exclusive || task.is_exclusive) && one.tables.contains(table));
        let places = task.tables.iter().copied().map(Some).chain(task.waits_for_all.then_some(None));
        let phase = { places }.find(is_later).map(|place| (For::Phase, place));
        phase.or_else(|| task.tables.iter().copied().find(is_excluded).map(|table| (For::Turn, Some(table))))
    }

    /// What waited at its places may be ready now.
    fn done(&mut self, task: &'t Task<'t, T>) {
        self.running.retain(|running| !ptr::eq(*running, task));
        for place in places(task) {
            let phases = self.left.entry(place).or_default();
            match phases.get_mut(&task.phase) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    phases.remove(&task.phase);
                    let ready = self.waiting.remove(&(For::Phase, place)).unwrap_or_default();
                    self.candidates.extend(ready.into_iter().map(|(key, task)| (key, (task, None))));
                }
            }
            self.wake(place);
        }
    }
}

fn places<'t, T>(task: &'t Task<'t, T>) -> impl Iterator<Item = Place<'t>> {
    task.tables.iter().copied().map(Some).chain([None])
}

/// A thread that ends by a fault of ours must not let the others wait for what it has taken.
struct StopsIfPanicking<'q, 't, T>(&'q Queue<'t, T>);

impl<T> Drop for StopsIfPanicking<'_, '_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    use super::*;

    fn shared<'a>(item: &'static str, tables: &[&'a str], weight: u64, phase: usize) -> Task<'a, &'static str> {
        Task { item, tables: tables.to_vec(), is_exclusive: false, weight, phase, waits_for_all: false }
    }

    fn alone<'a>(item: &'static str, tables: &[&'a str], weight: u64, phase: usize) -> Task<'a, &'static str> {
        Task { is_exclusive: true, ..shared(item, tables, weight, phase) }
    }

    /// What may begin now, without waiting for it.
    fn next<'t, T: Copy>(queue: &Queue<'t, T>) -> Option<&'t Task<'t, T>> {
        queue.state().next()
    }

    fn begin<'t>(queue: &Queue<'t, &'static str>, wanted: &str) -> &'t Task<'t, &'static str> {
        let task = next(queue).unwrap();
        assert_eq!(task.item, wanted);
        task
    }

    #[test]
    fn heaviest_ready_task_begins_first() {
        let tasks = [
            shared("small", &["a"], 1, 0),
            alone("key", &["b"], 9, 0),
            shared("index", &["b"], 9, 0),
            shared("other index", &["b"], 8, 0),
        ];
        let queue = Queue::new(&tasks);
        let (key, small) = (begin(&queue, "key"), begin(&queue, "small"));
        assert!(next(&queue).is_none(), "an index was begun in parallel to the key of its table");
        queue.done(key);
        // Indexes of one table are built in parallel.
        for built in [begin(&queue, "index"), begin(&queue, "other index"), small] {
            queue.done(built);
        }
        assert!(queue.take().is_none());
    }

    #[test]
    fn builds_wait_for_rows_of_their_tables() {
        let expression = Task { waits_for_all: true, ..shared("an expression's index", &["a"], 1, 1) };
        let tasks = [
            alone("rows of a", &["a"], 5, 0),
            alone("rows of b", &["b"], 9, 0),
            shared("index of a", &["a"], 1, 1),
            expression,
            alone("key of b", &["b"], 1, 1),
            alone("a to b", &["a", "b"], 1, 2),
        ];
        let queue = Queue::new(&tasks);
        let (b, a) = (begin(&queue, "rows of b"), begin(&queue, "rows of a"));
        assert!(next(&queue).is_none());
        queue.done(a);
        queue.done(begin(&queue, "index of a"));
        assert!(next(&queue).is_none(), "the foreign key was begun before the key that it needs");
        queue.done(b);
        let (expression, key) = (begin(&queue, "an expression's index"), begin(&queue, "key of b"));
        queue.done(key);
        assert!(next(&queue).is_none());
        queue.done(expression);
        begin(&queue, "a to b");
        queue.stop();
        assert!(queue.take().is_none());
    }

    proptest! {
        #![proptest_config(Config { cases: 300, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

        /// Whatever there is to do and in whatever order it ends: all of it is done, no task is at a table where another one is alone, and
        /// nothing begins before what it waits for.
        #[test]
        fn tasks_run_once_in_phase_order_without_conflict(
            specs in proptest::collection::vec((0_usize..5, 0_usize..5, any::<bool>(), 0_usize..4, any::<bool>(), 0_u64..3), 0..40),
            choices in proptest::collection::vec(any::<usize>(), 200),
        ) {
            let names = ["a", "b", "c", "d", "e"];
            let tables = |spec: &(usize, usize, bool, usize, bool, u64)| vec![names[spec.0], names[spec.1]];
            let tasks: Vec<_> = specs.iter().enumerate().map(|(number, spec)| Task {
                item: number, tables: tables(spec), is_exclusive: spec.2, weight: spec.5, phase: spec.3, waits_for_all: spec.4,
            }).collect();
            let queue = Queue::new(&tasks);
            let (mut running, mut done): (Vec<&Task<'_, usize>>, Vec<usize>) = (Vec::new(), Vec::new());
            let meet = |one: usize, other: usize| tables(&specs[one]).iter().any(|table| tables(&specs[other]).contains(table));
            for choice in choices {
                if choice % 3 > 0 && let Some(task) = next(&queue) {
                    let number = task.item;
                    for other in &running {
                        prop_assert!(!meet(number, other.item) || !(specs[number].2 || specs[other.item].2));
                    }
                    for (other, spec) in specs.iter().enumerate().filter(|(other, _)| !done.contains(other)) {
                        prop_assert!(spec.3 >= specs[number].3 || !(specs[number].4 || meet(number, other)), "{} before {}", number, other);
                    }
                    running.push(task);
                } else if !running.is_empty() {
                    let task = running.swap_remove(choice % running.len());
                    queue.done(task);
                    done.push(task.item);
                }
            }
            while let Some(task) = running.pop().or_else(|| next(&queue)) {
                queue.done(task);
                done.push(task.item);
            }
            done.sort_unstable();
            prop_assert_eq!(done, (0..specs.len()).collect::<Vec<_>>());
        }
    }
}
