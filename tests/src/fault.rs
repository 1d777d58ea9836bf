//! A network that hurts chosen requests in chosen ways: an HTTP proxy between a tool and a real search database, one request
//! a connection, for the tests of `svc-snap create`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

use crate::listener::{Listener, host_and_port};
use crate::request::Request;
use crate::wait;

/// How long a thread waits for bytes before it looks whether its time has come.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a request is held back at most.
const HELD: Duration = crate::wait::HANG;

/// Which requests are hurt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that take a snapshot.
    Take,
    /// All others.
    Looks,
}

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// When so many bytes of the request have reached the server, or all of them.
    Request(usize),
    /// When so many bytes of the answer have come back, or all of them.
    Answer(usize),
    /// So long after the request came.
    Time(Duration),
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Properly.
    Close,
    /// By a reset.
    Reset,
    /// Never: it is left open, and nothing comes any more.
    Stall,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hurt {
    /// Its connection is cut.
    Cut(At, End),
    /// A gateway answers in the server's place: after having carried the request, whose answer nobody hears, or without.
    Gateway(&'static str, bool),
    /// It is held back until [`Faults::release`], and then passes.
    Held,
}

/// nginx, when the server's connection breaks.
pub const BAD_GATEWAY: &str = "HTTP/1.1 502 Bad Gateway\r\nServer: nginx/1.22.1\r\nContent-Type: text/html\r\nContent-Length: 157\r\nConnection: close\r\n\r\n<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n";
/// nginx, when the server takes too long.
pub const GATEWAY_TIMEOUT: &str = "HTTP/1.1 504 Gateway Time-out\r\nServer: nginx/1.22.1\r\nContent-Type: text/html\r\nContent-Length: 167\r\nConnection: close\r\n\r\n<html>\r\n<head><title>504 Gateway Time-out</title></head>\r\n<body>\r\n<center><h1>504 Gateway Time-out</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n";
/// Envoy, when the server's connection breaks.
pub const UPSTREAM_RESET: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 95\r\ncontent-type: text/plain\r\nserver: envoy\r\nconnection: close\r\n\r\nupstream connect error or disconnect/reset before headers. reset reason: connection termination";
/// A web server that knows nothing of a search database.
pub const NO_SUCH_PAGE: &str = "HTTP/1.1 404 Not Found\r\nServer: nginx/1.22.1\r\nContent-Type: text/html\r\nContent-Length: 153\r\nConnection: close\r\n\r\n<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n";
/// A page of a load balancer's own.
pub const MAINTENANCE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 40\r\nConnection: close\r\n\r\n<html><body>Back soon.</body></html>\r\n\r\n";
/// Elasticsearch 7.17 and OpenSearch, while a repository is cleaned up.
pub const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json; charset=UTF-8\r\ncontent-length: 359\r\nconnection: close\r\n\r\n{\"error\":{\"root_cause\":[{\"type\":\"concurrent_snapshot_execution_exception\",\"reason\":\"[r:s] cannot snapshot while a repository cleanup is in-progress in [RepositoryCleanupInProgress[]]\"}],\"type\":\"concurrent_snapshot_execution_exception\",\"reason\":\"[r:s] cannot snapshot while a repository cleanup is in-progress in [RepositoryCleanupInProgress[]]\"},\"status\":503}";

/// A proxy on a port of its own; it passes everything at first, and takes no connection any more when it is dropped.
#[derive(Debug)]
pub struct Faults {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    takes: usize,
    asked: usize,
    hurts: usize,
    released: bool,
}

#[derive(Debug)]
struct Rule {
    which: Which,
    hurt: Hurt,
    skip: usize,
    times: usize,
}

impl Faults {
    /// A proxy for the server of an `http://host:port` address.
    pub fn to(url: &str) -> Result<Self> {
        let shared = Arc::new(Shared { target: host_and_port(url), state: Mutex::default() });
        let serving = Arc::clone(&shared);
        let listener = Listener::new(move |client| drop(serve(client, &serving)))?;
        Ok(Self { listener, shared })
    }

    /// Hurts, of the requests of that kind, so many after the first `skip`.
    pub fn hurt(&self, which: Which, hurt: Hurt, skip: usize, times: usize) {
        self.state(|state| state.rules.push(Rule { which, hurt, skip, times }));
    }

    /// Lets everything pass again, and counts anew.
    pub fn heal(&self) {
        self.state(|state| *state = State::default());
    }

    /// The proxy as the address of a search database.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// How many requests that take a snapshot have come, but for those that were answered with [`BUSY`]: they may come again.
    pub fn takes(&self) -> usize {
        self.state(|state| state.takes)
    }

    /// How many requests have been hurt: a cut behind the end of an answer hurts nobody.
    pub fn hurts(&self) -> usize {
        self.state(|state| state.hurts)
    }

    /// Lets pass what is held back.
    pub fn release(&self) {
        self.state(|state| state.released = true);
    }

    /// How many requests have come.
    pub fn asked(&self) -> usize {
        self.state(|state| state.asked)
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        self.shared.state(with)
    }
}

impl Shared {
    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().expect("nobody panics with the lock"))
    }

    /// Counts a request, and says what happens to it.
    fn count(&self, head: &str) -> Option<Hurt> {
        let is_take = head.starts_with("PUT /_snapshot/");
        let which = if is_take { Which::Take } else { Which::Looks };
        let mut state = self.state.lock().expect("nobody panics with the lock");
        state.asked += 1;
        state.takes += usize::from(is_take);
        let rule = state.rules.iter_mut().find(|rule| rule.which == which && (rule.skip > 0 || rule.times > 0))?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        rule.times -= 1;
        let hurt = rule.hurt;
        state.takes -= usize::from(is_take && hurt == Hurt::Gateway(BUSY, false));
        Some(hurt)
    }
}

fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    let began = Instant::now();
    let request = Request::read(&mut client)?;
    let hurt = shared.count(&request.head);
    let whole = request.closing();
    if hurt == Some(Hurt::Held) {
        wait::until("the release", HELD, || shared.state(|state| state.released).then_some(()))?;
    }
    if let Some(Hurt::Gateway(answer, carried)) = hurt {
        shared.state(|state| state.hurts += 1);
        if carried {
            let target = shared.target.clone();
            let mut server = TcpStream::connect(target)?;
            server.write_all(&whole)?;
            thread::spawn(move || std::io::copy(&mut server, &mut std::io::sink()));
        }
        return Ok(client.write_all(answer.as_bytes())?);
    }
    let mut server = TcpStream::connect(&shared.target)?;
    if let Some(Hurt::Cut(At::Request(bytes), end)) = hurt {
        server.write_all(whole.get(..bytes).unwrap_or(&whole))?;
        return finish(&client, &server, end, shared);
    }
    server.write_all(&whole)?;
    server.set_read_timeout(Some(PAUSE))?;
    let mut left = match hurt {
        Some(Hurt::Cut(At::Answer(bytes), _)) => bytes,
        _ => usize::MAX,
    };
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some(Hurt::Cut(At::Time(time), end)) = hurt
            && began.elapsed() >= time
        {
            return finish(&client, &server, end, shared);
        }
        match server.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                let some = count.min(left);
                client.write_all(&buffer[..some])?;
                left -= some;
                if let (0, Some(Hurt::Cut(_, end))) = (left, hurt) {
                    return finish(&client, &server, end, shared);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(_) => break,
        }
    }
    Ok(client.shutdown(Shutdown::Both)?)
}

/// Ends both sides of a connection in the same way.
fn finish(client: &TcpStream, server: &TcpStream, end: End, shared: &Shared) -> Result<()> {
    shared.state(|state| state.hurts += 1);
    match end {
        End::Close => {
            server.shutdown(Shutdown::Both)?;
            client.shutdown(Shutdown::Both)?;
        }
        End::Reset => {
            for side in [client, server] {
                setsockopt(&side.as_fd(), sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 })?;
            }
        }
        // Nobody in a test waits longer.
        End::Stall => thread::sleep(Duration::from_secs(400)),
    }
    Ok(())
}
