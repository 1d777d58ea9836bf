//! A server that stopped answering (its process is stopped, its disk is away): the library would wait for it without end, whatever the
//! time limit. Some time after the limit or a signal, this shuts down its connections; what waits for them ends with an error.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, shutdown};
use svc_step::watch::Watch;
use svc_step::{Call, Failure, Status, StepResult, Stopped};

/// How long a server may take for what is finished or taken back once the step is to end; again for each try after that.
const GRACE: Duration = Duration::from_secs(10);
/// Not the files that the parent gave this process; more than these are not open.
const OWN: std::ops::Range<RawFd> = 3..65_536;

static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The other end of a connection to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    /// A socket of that name, whatever its folder is called.
    Socket(OsString),
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

    /// Shuts all connections to it down that this process has.
    fn hang_up(&self) {
        let is_ours = |file: &RawFd| getpeername::<SockaddrStorage>(*file).is_ok_and(|address| self.is(&address));
        for file in OWN.filter(is_ours) {
            GIVEN_UP.store(true, Ordering::SeqCst);
            // It may have been closed meanwhile, which is as good.
            let _ = shutdown(file, Shutdown::Both);
        }
    }
}

/// Watches over the connections to a server for as long as the process lives.
pub(super) fn watch(watch: Watch, peer: Peer) {
    thread::spawn(move || {
        watch.until_stopped();
        loop {
            thread::sleep(GRACE);
            peer.hang_up();
        }
    });
}

/// Whether a connection that is lost was given up by ourselves.
pub(super) fn is_given_up() -> bool {
    GIVEN_UP.load(Ordering::SeqCst)
}

/// A step that failed because the server had not answered when its time was over has timed out (6).
pub fn timed<T>(call: &Call, ended: StepResult<T>) -> StepResult<T> {
    ended.map_err(|Stopped { failure, result }| {
        let failure = match call.deadline().limit() {
            Some(limit) if failure.status == Status::Unavailable && call.deadline().passed() => of_the_limit(limit, failure),
            _ => failure,
        };
        Stopped { failure, result }
    })
}

fn of_the_limit(limit: Duration, failure: Failure) -> Failure {
    let mut late =
        Failure::timeout("timeout", format!("The step did not end within {} s: {}", limit.as_secs_f64(), failure.message));
    late.hint = failure.hint;
    late.causes.push(failure.code);
    late.causes.extend(failure.causes);
    late
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn what_is_connected_to_that_server_is_shut_down_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (meant, other) = (UnixListener::bind(path(".s.PGSQL.1")).unwrap(), UnixListener::bind(path("other")).unwrap());
        let mut ours = UnixStream::connect(path(".s.PGSQL.1")).unwrap();
        let mut others = UnixStream::connect(path("other")).unwrap();
        let network = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = network.local_addr().unwrap().port();
        let mut far = TcpStream::connect(("127.0.0.1", port)).unwrap();
        others.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();

        Peer::Socket(".s.PGSQL.1".into()).hang_up();
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        assert!(others.read(&mut [0]).is_err() && far.read(&mut [0]).is_err());
        Peer::Port(port).hang_up();
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        assert!(others.read(&mut [0]).is_err() && is_given_up());
        drop((meant, other));
    }

    #[test]
    fn a_failure_that_came_of_the_time_keeps_its_hint_and_its_words() {
        let failure = Failure::unavailable("postgres_lost", "Cannot ask.").hint("swap --run resumes it.").cause("closed");
        let late = of_the_limit(Duration::from_secs(3), failure);
        assert_eq!((late.exit_code(), late.code.as_str()), (6, "timeout"));
        assert_eq!(late.message, "The step did not end within 3 s: Cannot ask.");
        assert_eq!(late.hint.as_deref(), Some("swap --run resumes it."));
        assert_eq!(late.causes, ["postgres_lost", "closed"]);
    }
}
