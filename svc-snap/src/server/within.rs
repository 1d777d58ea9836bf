//! Work on a connection that may be dead, for which nobody waits longer than he can.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Does something in a thread of its own; `None` where it does not end in time. It then ends with the process.
pub(crate) fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, done) = channel();
    thread::spawn(move || {
        // Nobody listens any more once the time is over.
        let _ = send.send(work());
    });
    done.recv_timeout(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_what_does_not_end() {
        assert_eq!(within(Duration::from_secs(10), || 1), Some(1));
        assert_eq!(within(Duration::from_millis(10), thread::park), None);
    }
}
