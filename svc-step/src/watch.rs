//! Whether to continue: what a thread asks that has no [`crate::Call`]. The watchdog over connections: a library waits without end for
//! a server that stopped answering (its process is stopped, its disk is away), whatever the time limit.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, shutdown};

use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::settings::is_of_script;
use crate::signals::Signals;

/// How long at a time nobody looks at the clock, if there is no time limit.
const LONG: Duration = Duration::from_secs(3600);

/// What sets the time limit: the scripts have no option for it.
fn more_time() -> &'static str {
    if is_of_script() { "SVC_TIMEOUT" } else { "--timeout" }
}

/// A call's signals and time limit, to be kept or handed to a thread.
#[derive(Debug, Clone)]
pub struct Watch {
    signals: Signals,
    deadline: Deadline,
}

impl Watch {
    pub(crate) const fn new(signals: Signals, deadline: Deadline) -> Self {
        Self { signals, deadline }
    }

    /// Whether to continue: a signal or the end of the time limit says no.
    ///
    /// # Errors
    /// `interrupted`, or `timeout` (6).
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(signal) = self.signals.came() {
            return Err(Failure::interrupted(signal));
        }
        if self.deadline.passed() {
            let limit = self.deadline.limit().unwrap_or_default();
            return Err(Failure::timeout("timeout", format!("The step did not end within {} s.", limit.as_secs_f64()))
                .hint(format!("Allow more time with {}, and run the same command again.", more_time())));
        }
        Ok(())
    }

    /// Waits until there is a reason not to continue.
    fn until_stopped(&self) {
        while self.check().is_ok() {
            self.signals.wait(self.deadline.at_most(LONG));
        }
    }

    /// Watches over the connections to a server for as long as the process lives: `timeout` after a signal or the end of the time
    /// limit, and each time again, those that there are then are shut down. What waits for them ends with an error.
    pub fn guard_connections(self, peer: Peer, timeout: Duration) {
        thread::spawn(move || {
            self.until_stopped();
            loop {
                thread::sleep(timeout);
                peer.shut_down();
            }
        });
    }

    /// The time limit.
    pub const fn deadline(&self) -> &Deadline {
        &self.deadline
    }
}

static SHUT_DOWN: AtomicBool = AtomicBool::new(false);

/// Whether the watchdog has shut down a connection, so that one that is lost was given up by this process.
pub fn gave_up() -> bool {
    SHUT_DOWN.load(Ordering::SeqCst)
}

/// The other end of a connection to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A socket of that name, in whatever directory.
    Socket(OsString),
    /// A TCP port, on whatever host.
    Port(u16),
}

impl Peer {
    fn is(&self, address: &SockaddrStorage) -> bool {
        match self {
            Self::Socket(name) => {
                let path = address.as_unix_addr().and_then(|address| address.path());
                path.and_then(|path| path.file_name()) == Some(name.as_os_str())
            }
            Self::Port(port) => {
                let four = address.as_sockaddr_in().map(|address| address.port());
                four.or_else(|| address.as_sockaddr_in6().map(|address| address.port())) == Some(*port)
            }
        }
    }

    fn shut_down(&self) {
        for number in open_files() {
            self.shut_down_file(number);
        }
    }

    /// Another thread may close the descriptor at any moment, and its number may become that of another connection. So a duplicate is
    /// what is checked and shut down: nobody else closes it.
    fn shut_down_file(&self, number: RawFd) {
        let Some(connection) = duplicate(number) else { return };
        if getpeername::<SockaddrStorage>(connection.as_raw_fd()).is_ok_and(|address| self.is(&address)) {
            SHUT_DOWN.store(true, Ordering::SeqCst);
            // The server may have closed it meanwhile, which is as good.
            let _ = shutdown(connection.as_raw_fd(), Shutdown::Both);
        }
    }
}

/// The open descriptors of this process; not those of a terminal or a pipe that the parent gave it.
fn open_files() -> Vec<RawFd> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| *number > 2).collect()
}

/// A descriptor of the same connection; `None` if there is none of that number any more.
#[allow(unsafe_code)]
fn duplicate(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the number is not -1, and is used for one system call only, which fails (EBADF) if it was closed meanwhile. Nothing is
    // read, written or closed by it.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    file.try_clone_to_owned().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn only_connections_to_given_server_are_shut_down() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (server, other) = (UnixListener::bind(path(".s.PGSQL.1")).unwrap(), UnixListener::bind(path("other")).unwrap());
        let mut ours = UnixStream::connect(path(".s.PGSQL.1")).unwrap();
        let mut others = UnixStream::connect(path("other")).unwrap();
        let network = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = network.local_addr().unwrap().port();
        let mut far = TcpStream::connect(("127.0.0.1", port)).unwrap();
        others.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();

        Peer::Socket(".s.PGSQL.1".into()).shut_down();
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        assert!(others.read(&mut [0]).is_err() && far.read(&mut [0]).is_err());
        Peer::Port(port).shut_down();
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        assert!(others.read(&mut [0]).is_err() && gave_up());
        drop((server, other));
    }

    #[test]
    fn reused_descriptor_number_is_not_shut_down() {
        let (one, another) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = |server: &TcpListener| server.local_addr().unwrap();
        let number = TcpStream::connect(address(&one)).unwrap().as_raw_fd();
        let mut again = TcpStream::connect(address(&another)).unwrap();
        again.set_nonblocking(true).unwrap();
        Peer::Port(address(&one).port()).shut_down_file(number);
        Peer::Port(address(&one).port()).shut_down_file(again.as_raw_fd());
        assert_eq!(again.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert!(duplicate(1 << 20).is_none());
    }
}
