//! INT, TERM and HUP: noticed, so that a step can undo or finish what it does.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals as Incoming;

/// ^C reaches a whole process group, and a script of that group hands it on to its steps: one request, told twice. So is TERM with HUP right
/// behind it, which systemd sends to a login session at a shutdown.
const ECHO: Duration = Duration::from_secs(1);

/// The signal that came, if one came.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<(Mutex<Option<i32>>, Condvar)>);

impl Signals {
    /// Starts to catch what [`caught`] does. A second signal ends the process at once; the same one,
    /// or a HUP besides another, within [`ECHO`] of the first is taken for its echo.
    ///
    /// # Errors
    /// The kernel refuses the handlers.
    pub fn catch() -> std::io::Result<Self> {
        let mut incoming = caught()?;
        let signals = Self::default();
        let shared = signals.clone();
        std::thread::spawn(move || {
            let mut first_at = None;
            for signal in &mut incoming {
                let (came, wake) = &*shared.0;
                let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
                match *came {
                    None => {
                        *came = Some(signal);
                        first_at = Some(Instant::now());
                        wake.notify_all();
                    }
                    Some(first)
                        if (first == signal || [first, signal].contains(&SIGHUP))
                            && first_at.is_some_and(|at| at.elapsed() < ECHO) => {}
                    Some(_) => {
                        drop(came);
                        die_of(signal);
                    }
                }
            }
        });
        Ok(signals)
    }

    /// The signal that came first.
    pub fn came(&self) -> Option<i32> {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `time`, or until a signal comes.
    pub fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        let (came, wake) = &*self.0;
        let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
        while came.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            came = wake.wait_timeout(came, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// From here on no INT, TERM or HUP ends the process by itself. INT and TERM are caught even if they were inherited as ignored (children
/// that a script started with `&`); an ignored HUP stays ignored (`nohup`). Nor does a file that may not grow (`ulimit -f`) end it: the write
/// fails, and that has a sentence.
///
/// # Errors
/// The kernel refuses the handlers.
pub fn caught() -> std::io::Result<Incoming> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let mut wanted = vec![SIGINT, SIGTERM];
    if !inherited_as_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    Incoming::new(wanted)
}

/// Ends the process by `signal` itself, so that its parent sees what happened.
pub fn die_of(signal: i32) {
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

/// `TERM`, `INT`, …, as `kill` writes them.
pub fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| format!("signal {signal}"), |name| name.trim_start_matches("SIG").to_owned())
}

/// Whether the process was started with a signal ignored (`nohup`). Reads the kernel's own record, since asking by `sigaction` would set it.
fn inherited_as_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
