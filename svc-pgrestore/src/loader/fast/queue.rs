//! Work side by side: each connection takes the heaviest task whose tables nobody else is at.
//!
//! The server would let the second one wait for the table all the same, with its connection doing nothing.

use std::collections::HashMap;
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
    pub(super) item: &'a T,
    pub(super) tables: Vec<(&'a str, Sharing)>,
    pub(super) weight: u64,
}

/// Does all tasks, on all connections. The first failure ends it.
pub(super) fn run<'a, T: Sync>(
    work: &Work<'_>,
    sessions: &mut Sessions,
    tasks: Vec<Task<'a, T>>,
    act: impl Fn(&mut Client, &T) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let count = tasks.len();
    let queue = Queue::new(tasks);
    let first: Mutex<Option<Failure>> = Mutex::default();
    thread::scope(|scope| {
        for client in sessions.all().take(count) {
            scope.spawn(|| {
                let _guard = StopsIfPanicking(&queue);
                while let Some(task) = queue.take() {
                    if let Err(failure) = act(client, task.item) {
                        if work.fail() {
                            *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                        }
                        return queue.stop();
                    }
                    queue.done(&task);
                }
            });
        }
    });
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// What is left to do, and who is where.
struct Queue<'a, T> {
    state: Mutex<State<'a, T>>,
    changed: Condvar,
}

struct State<'a, T> {
    /// The heaviest one first.
    left: Vec<Task<'a, T>>,
    /// How many are at a table; with nobody else allowed, or others of the kind.
    at: HashMap<&'a str, (Sharing, usize)>,
}

impl<'a, T> Queue<'a, T> {
    fn new(mut tasks: Vec<Task<'a, T>>) -> Self {
        // The order of the dump stays among equals.
        tasks.sort_by_key(|task| std::cmp::Reverse(task.weight));
        Self { state: Mutex::new(State { left: tasks, at: HashMap::new() }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<'a, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task; waits while all that is left is at tables of others. `None` where nothing is left.
    fn take(&self) -> Option<Task<'a, T>> {
        let mut state = self.state();
        loop {
            if state.left.is_empty() {
                return None;
            }
            if let Some(task) = state.take() {
                return Some(task);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, task: &Task<'a, T>) {
        self.state().leave(task);
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.state().left.clear();
        self.changed.notify_all();
    }
}

impl<'a, T> State<'a, T> {
    fn take(&mut self) -> Option<Task<'a, T>> {
        let free = |task: &Task<'a, T>| {
            task.tables.iter().all(|(table, sharing)| match self.at.get(table) {
                None => true,
                Some((present, _)) => *present == Sharing::Shared && *sharing == Sharing::Shared,
            })
        };
        let at = self.left.iter().position(free)?;
        let task = self.left.remove(at);
        for (table, sharing) in &task.tables {
            self.at.entry(table).or_insert((*sharing, 0)).1 += 1;
        }
        Some(task)
    }

    fn leave(&mut self, task: &Task<'a, T>) {
        for (table, _) in &task.tables {
            if let Some((_, count)) = self.at.get_mut(table) {
                *count -= 1;
            }
            self.at.retain(|_, (_, count)| *count > 0);
        }
    }
}

/// A thread that ends by a fault of ours must not let the others wait for what it has taken.
struct StopsIfPanicking<'q, 'a, T>(&'q Queue<'a, T>);

impl<T> Drop for StopsIfPanicking<'_, '_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task<'a>(item: &'a &'static str, tables: &[(&'a str, Sharing)], weight: u64) -> Task<'a, &'static str> {
        Task { item, tables: tables.to_vec(), weight }
    }

    #[test]
    fn the_heaviest_comes_first_and_nobody_gets_in_anothers_way() {
        let queue = Queue::new(vec![
            task(&"small", &[("a", Sharing::Shared)], 1),
            task(&"key", &[("b", Sharing::Alone)], 9),
            task(&"index", &[("b", Sharing::Shared)], 9),
            task(&"other index", &[("b", Sharing::Shared)], 8),
        ]);
        let key = queue.take().unwrap();
        assert_eq!((*key.item, *queue.take().unwrap().item), ("key", "small"));
        assert!(queue.state().take().is_none(), "an index was begun beside the key of its table");
        queue.done(&key);
        // Indexes of one table are built beside each other.
        assert_eq!((*queue.take().unwrap().item, *queue.take().unwrap().item), ("index", "other index"));
        assert!(queue.take().is_none());
    }

    #[test]
    fn a_foreign_key_is_alone_at_both_its_tables_even_where_they_are_one() {
        let alone = |table| (table, Sharing::Alone);
        let queue = Queue::new(vec![
            task(&"a to b", &[alone("a"), alone("b")], 0),
            task(&"b to c", &[alone("b"), alone("c")], 0),
            task(&"d to itself", &[alone("d"), alone("d")], 0),
        ]);
        let first = queue.take().unwrap();
        let itself = queue.take().unwrap();
        assert_eq!((*first.item, *itself.item), ("a to b", "d to itself"));
        assert!(queue.state().take().is_none());
        queue.done(&itself);
        assert!(queue.state().at.keys().all(|table| *table != "d"));
        queue.done(&first);
        assert_eq!(*queue.take().unwrap().item, "b to c");
        queue.stop();
        assert!(queue.take().is_none());
    }
}
