//! Work in parallel: each connection takes the heaviest task that is ready and whose tables nobody else is at.
//!
//! A task is ready when all tasks of earlier phases at its tables are done: the indexes of a table need its rows, a foreign key
//! the keys of both its tables, and neither needs other tables. The server would let the second one at a table wait all the same,
//! with its connection doing nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use postgres::Client;
use svc_step::Failure;

use super::super::plan::Sharing;
use super::sessions::Sessions;
use super::work::Work;

/// One task, the tables that it is at, and how much work it is.
#[derive(Debug, Clone)]
pub(super) struct Task<'a, T> {
    pub(super) item: T,
    pub(super) tables: Vec<(&'a str, Sharing)>,
    pub(super) weight: u64,
    /// Tasks of earlier phases come first, at the same tables.
    pub(super) phase: usize,
    pub(super) waits_for_all: bool,
}

impl<'a, T> Task<'a, T> {
    pub(super) const fn at_once(item: T, tables: Vec<(&'a str, Sharing)>, weight: u64) -> Self {
        Self { item, tables, weight, phase: 0, waits_for_all: false }
    }
}

/// Does all tasks, on all connections. The first failure ends it.
pub(super) fn run<T: Copy + Send>(
    work: &Work<'_>,
    sessions: &mut Sessions,
    tasks: Vec<Task<'_, T>>,
    act: impl Fn(&mut Client, T) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let count = tasks.len();
    let queue = Queue::new(tasks);
    let first: Mutex<Option<Failure>> = Mutex::default();
    thread::scope(|scope| {
        for client in sessions.all().take(count) {
            scope.spawn(|| {
                let _guard = StopsIfPanicking(&queue);
                while let Some((number, item)) = queue.take() {
                    if let Err(failure) = act(client, item) {
                        if work.fail() {
                            *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                        }
                        return queue.stop();
                    }
                    queue.done(number);
                }
            });
        }
    });
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// What is left to do, and who is where.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    tasks: Vec<Waiting<T>>,
    /// What may begin as soon as its tables are free: the heaviest first, then in the order of the dump.
    ready: BTreeSet<(Reverse<u64>, usize)>,
    places: Vec<Place>,
    /// All tasks that are not done, by phase; and those that wait until the earlier ones are.
    phases: BTreeMap<usize, usize>,
    waiting_for_all: BTreeMap<usize, Vec<usize>>,
    left: usize,
}

struct Waiting<T> {
    item: T,
    tables: Vec<(usize, Sharing)>,
    weight: u64,
    phase: usize,
    /// For how many things it waits: one for each table at which earlier phases are not done, and one for all tables.
    waits: usize,
}

#[derive(Default)]
struct Place {
    /// Who is at it: with nobody else allowed, or others of the kind.
    present: Option<(Sharing, usize)>,
    /// The tasks at it that are not done, by phase.
    phases: BTreeMap<usize, usize>,
    /// Those of them that wait here for earlier phases.
    waiting: BTreeMap<usize, Vec<usize>>,
}

impl<T: Copy> Queue<T> {
    fn new(tasks: Vec<Task<'_, T>>) -> Self {
        Self { state: Mutex::new(State::new(tasks)), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task; waits while all that is left waits for others. `None` where nothing is left to be begun.
    fn take(&self) -> Option<(usize, T)> {
        let mut state = self.state();
        loop {
            if state.left == 0 {
                return None;
            }
            if let Some(taken) = state.take() {
                return Some(taken);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, number: usize) {
        self.state().done(number);
        self.changed.notify_all();
    }
}

impl<T> Queue<T> {
    fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left = 0;
        state.ready.clear();
        self.changed.notify_all();
    }
}

impl<T: Copy> State<T> {
    fn new(tasks: Vec<Task<'_, T>>) -> Self {
        let mut state = Self {
            tasks: Vec::with_capacity(tasks.len()),
            ready: BTreeSet::new(),
            places: Vec::new(),
            phases: BTreeMap::new(),
            waiting_for_all: BTreeMap::new(),
            left: tasks.len(),
        };
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut for_all = Vec::new();
        for task in tasks {
            let mut tables: Vec<(usize, Sharing)> = Vec::new();
            for (table, sharing) in task.tables {
                let next = numbers.len();
                let place = *numbers.entry(table).or_insert(next);
                // A table that refers to itself is one place.
                if tables.iter().all(|(other, _)| *other != place) {
                    tables.push((place, sharing));
                }
            }
            state.places.resize_with(numbers.len(), Place::default);
            *state.phases.entry(task.phase).or_default() += 1;
            for (place, _) in &tables {
                if let Some(place) = state.places.get_mut(*place) {
                    *place.phases.entry(task.phase).or_default() += 1;
                }
            }
            for_all.push(task.waits_for_all);
            state.tasks.push(Waiting { item: task.item, tables, weight: task.weight, phase: task.phase, waits: 0 });
        }
        let all = &mut state.waiting_for_all;
        for (number, (task, for_all)) in state.tasks.iter_mut().zip(for_all).enumerate() {
            for (place, _) in &task.tables {
                let Some(place) = state.places.get_mut(*place) else { continue };
                if is_earlier(&place.phases, task.phase) {
                    task.waits += 1;
                    place.waiting.entry(task.phase).or_default().push(number);
                }
            }
            if for_all && is_earlier(&state.phases, task.phase) {
                task.waits += 1;
                all.entry(task.phase).or_default().push(number);
            }
            if task.waits == 0 {
                state.ready.insert((Reverse(task.weight), number));
            }
        }
        state
    }

    fn take(&mut self) -> Option<(usize, T)> {
        let is_free = |task: &Waiting<T>| {
            task.tables.iter().all(|(place, sharing)| match self.places.get(*place).and_then(|place| place.present) {
                None => true,
                Some((present, _)) => present == Sharing::Shared && *sharing == Sharing::Shared,
            })
        };
        let key = *self.ready.iter().find(|(_, number)| self.tasks.get(*number).is_some_and(is_free))?;
        self.ready.remove(&key);
        let task = self.tasks.get(key.1)?;
        for (place, sharing) in &task.tables {
            if let Some(place) = self.places.get_mut(*place) {
                place.present.get_or_insert((*sharing, 0)).1 += 1;
            }
        }
        Some((key.1, task.item))
    }

    fn done(&mut self, number: usize) {
        let Some(task) = self.tasks.get(number) else { return };
        let mut freed = passed(&mut self.phases, &mut self.waiting_for_all, task.phase);
        for (place, _) in &task.tables {
            let Some(place) = self.places.get_mut(*place) else { continue };
            place.present = place.present.and_then(|(sharing, count)| (count > 1).then(|| (sharing, count - 1)));
            freed.extend(passed(&mut place.phases, &mut place.waiting, task.phase));
        }
        self.left = self.left.saturating_sub(1);
        for number in freed {
            let Some(task) = self.tasks.get_mut(number) else { continue };
            task.waits = task.waits.saturating_sub(1);
            if task.waits == 0 {
                self.ready.insert((Reverse(task.weight), number));
            }
        }
    }
}

/// Whether any task of an earlier phase is not done.
fn is_earlier(phases: &BTreeMap<usize, usize>, phase: usize) -> bool {
    phases.first_key_value().is_some_and(|(first, _)| *first < phase)
}

/// One of a phase is done; those that waited for the last one of it and of all before it.
fn passed(phases: &mut BTreeMap<usize, usize>, waiting: &mut BTreeMap<usize, Vec<usize>>, phase: usize) -> Vec<usize> {
    if let Some(count) = phases.get_mut(&phase) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            phases.remove(&phase);
        }
    }
    let mut freed = Vec::new();
    while let Some(first) = waiting.first_entry() {
        if is_earlier(phases, *first.key()) {
            break;
        }
        freed.extend(first.remove());
    }
    freed
}

/// A thread that ends by a fault of ours must not let the others wait for what it has taken.
struct StopsIfPanicking<'q, T>(&'q Queue<T>);

impl<T> Drop for StopsIfPanicking<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests;
