//! Work shared among connections that is the same for each: whoever is free takes the next one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use postgres::Client;
use svc_step::Failure;

/// Lets each connection take the next one of `all` until none is left; what came of each, in the order of `all`.
///
/// # Errors
/// The first failure among them; nothing more is begun then.
pub(crate) fn share<T: Sync, R: Send>(
    clients: &mut [Client],
    all: &[T],
    act: impl Fn(&mut Client, &T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(all.len()));
    let failed = AtomicBool::new(false);
    let work = |client: &mut Client| {
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(number) else { break };
            let result = act(client, one);
            if result.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for client in clients.iter_mut() {
            scope.spawn(|| work(client));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
