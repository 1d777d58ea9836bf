//! A network that breaks when a test wants it to: a TCP proxy in front of a real server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::listener::{Listener, host_and_port};

/// How long a thread leaves the mode unread while no bytes come.
const PAUSE: Duration = Duration::from_millis(20);

/// What the proxy does with bytes; a change takes effect on open connections too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Each connection is closed after so many bytes of the server's answers.
    CutAfter(usize),
    /// Connections are accepted, and no byte passes until the mode changes.
    Stall,
    /// The same from the moment on at which a client says that; what it says with it does not pass either.
    StallAt(&'static str),
    /// Each connection is reset as soon as the client has sent something.
    Reset,
}

/// A proxy on a port of its own; it stops when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: String,
    mode: Mutex<Mode>,
    stop: AtomicBool,
    accepted: AtomicUsize,
    cuts: AtomicUsize,
    holds: AtomicBool,
}

impl Shared {
    fn mode(&self) -> Mode {
        *self.mode.lock().expect("nobody panics with the lock")
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().expect("nobody panics with the lock") = mode;
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

impl Proxy {
    /// A proxy for `host:port`, or for the server of an `http://host:port` address; it passes everything at first.
    pub fn to(target: &str) -> Result<Self> {
        let shared = Arc::new(Shared {
            target: host_and_port(target),
            mode: Mutex::new(Mode::Pass),
            stop: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            holds: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        let listener = Listener::new(move |client| {
            serving.accepted.fetch_add(1, Ordering::SeqCst);
            serve(client, &serving);
        })?;
        Ok(Self { listener, shared })
    }

    /// Changes what happens to bytes.
    pub fn set(&self, mode: Mode) {
        self.shared.set(mode);
    }

    /// Whether no byte passes.
    pub fn is_stalled(&self) -> bool {
        self.shared.mode() == Mode::Stall
    }

    /// Whether it has held something back since it stalled.
    pub fn holds_something(&self) -> bool {
        self.shared.holds.load(Ordering::SeqCst)
    }

    /// Closes the connections that are open now; new ones are carried.
    pub fn cut(&self) {
        self.shared.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// The proxy's port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// The proxy as the address of a search database.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
    }
}

fn serve(client: TcpStream, shared: &Arc<Shared>) {
    let Ok(server) = TcpStream::connect(&shared.target) else { return };
    let (Ok(client2), Ok(server2)) = (client.try_clone(), server.try_clone()) else { return };
    let (other, over) = (Arc::clone(shared), Arc::new(AtomicBool::new(false)));
    let other_over = Arc::clone(&over);
    let requests = thread::spawn(move || pump(client2, server2, &other, &other_over, false));
    pump(server, client, shared, &over, true);
    let _ = requests.join();
}

/// Carries bytes one way until either side closes, the mode says so, or the proxy stops; `over` tells the thread of the other way.
fn pump(mut from: TcpStream, mut to: TcpStream, shared: &Shared, over: &AtomicBool, is_answer: bool) {
    let _ = from.set_read_timeout(Some(PAUSE));
    let mut buffer = [0; 16 * 1024];
    let mut carried = 0;
    let cuts = shared.cuts.load(Ordering::SeqCst);
    while !shared.stopped() && shared.cuts.load(Ordering::SeqCst) == cuts && !over.load(Ordering::SeqCst) {
        // A look without taking: a socket closed over unread bytes is reset, and a stalled one keeps them.
        let ready = match from.peek(&mut buffer) {
            Ok(0) => break,
            Ok(ready) => ready,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                continue;
            }
            Err(_) => break,
        };
        let allowed = match shared.mode() {
            Mode::Pass => ready,
            Mode::CutAfter(limit) if is_answer => ready.min(limit.saturating_sub(carried)),
            Mode::CutAfter(_) => ready,
            Mode::StallAt(word) if !is_answer && says(&buffer[..ready], word) => {
                shared.set(Mode::Stall);
                continue;
            }
            Mode::StallAt(_) => ready,
            Mode::Stall => {
                shared.holds.store(true, Ordering::SeqCst);
                thread::sleep(PAUSE);
                continue;
            }
            Mode::Reset => 0,
        };
        if allowed == 0 {
            break;
        }
        let Ok(taken) = from.read(&mut buffer[..allowed]) else { break };
        if to.write_all(&buffer[..taken]).is_err() {
            break;
        }
        carried += taken;
    }
    over.store(true, Ordering::SeqCst);
    // A reset comes from letting go of a socket over unread bytes; a shutdown would be a proper farewell.
    if shared.mode() != Mode::Reset {
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}

fn says(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}
