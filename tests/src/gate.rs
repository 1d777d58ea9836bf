//! A network that stops at a chosen request: an HTTP proxy in front of a real search database, for tests that cut or kill a
//! tool between two of its requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::listener::{Listener, host_and_port};
use crate::request::Request;
use crate::tool::{Ran, Tool};
use crate::wait;

/// How long a tool may take to come to the chosen request.
const LONG: Duration = crate::wait::HANG;

/// At which side of a request the gate closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The server never sees the request.
    Before,
    /// The server does what it is asked, and nobody hears its answer.
    After,
}

/// A proxy on a port of its own. Requests that change something are counted; when the chosen one comes, the gate closes: it is
/// carried or not, as the side says, and neither it nor any later request is answered.
#[derive(Debug)]
pub struct Gate {
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
    stop: bool,
    closed: bool,
    close_at: Option<(usize, Side)>,
    hangs_up: bool,
    answers: Vec<Answer>,
    seen: Vec<String>,
    bodies: Vec<(String, Value)>,
}

/// An answer that the gate gives instead of the server.
#[derive(Debug)]
struct Answer {
    /// To requests whose method and path begin so.
    to: String,
    status: u16,
    body: String,
    /// How often.
    times: usize,
}

impl Gate {
    /// A gate for the server of an `http://host:port` address, open for good unless [`Gate::close_at`] says otherwise.
    pub fn to(url: &str) -> Result<Self> {
        let shared = Arc::new(Shared { target: host_and_port(url), state: Mutex::default() });
        let serving = Arc::clone(&shared);
        let listener = Listener::new(move |client| drop(serve(client, &serving)))?;
        Ok(Self { listener, shared })
    }

    /// Closes at the request of that number, counted from 1, among those that change something.
    pub fn close_at(self, number: usize, side: Side) -> Self {
        self.shared.state(|state| state.close_at = Some((number, side)));
        self
    }

    /// At the chosen request it hangs up instead, and lets all later ones pass: a connection that breaks once.
    pub fn hanging_up(self) -> Self {
        self.shared.state(|state| state.hangs_up = true);
        self
    }

    /// Carries what it holds back, and everything that comes from now on.
    pub fn open(&self) {
        self.shared.state(|state| (state.closed, state.close_at) = (false, None));
    }

    /// Runs a tool through a gate to that address, and kills it when it has come to the chosen request; the test fails if it ends
    /// before. The gate says what it has seen.
    #[track_caller]
    pub fn kill_at(url: &str, number: usize, side: Side, tool: Tool) -> Self {
        let (gate, ran) = Self::kill_or_end(url, number, side, tool);
        assert!(ran.status == 137, "the tool did not come to its request {number}: {:?}\n{ran}", gate.seen());
        gate
    }

    /// The same for a tool that may end before it has come to the chosen request; its status says which it was.
    #[track_caller]
    pub fn kill_or_end(url: &str, number: usize, side: Side, tool: Tool) -> (Self, Ran) {
        let gate = Self::to(url).expect("a port is free").close_at(number, side);
        let mut spawned = tool.env("SVC_SEARCH_URL", gate.url()).spawn();
        wait::until("the chosen request", LONG, || (gate.is_closed() || !spawned.is_running()).then_some(())).unwrap();
        if spawned.is_running() {
            spawned.signal(Signal::SIGKILL);
        }
        let ran = spawned.wait();
        (gate, ran)
    }

    /// Answers so many requests whose method and path begin with `to` itself, with what a server said once; they are not carried.
    pub fn answering(self, to: &str, times: usize, status: u16, body: &serde_json::Value) -> Self {
        let answer = Answer { to: to.to_owned(), status, body: body.to_string(), times };
        self.shared.state(|state| state.answers.push(answer));
        self
    }

    /// The gate as the address of a search database.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// Whether the chosen request has come.
    pub fn is_closed(&self) -> bool {
        self.shared.state(|state| state.closed)
    }

    /// The requests that change something, as method and path, in the order in which they came.
    pub fn seen(&self) -> Vec<String> {
        self.shared.state(|state| state.seen.clone())
    }

    /// The bodies of the requests whose path ends so, in the order in which they came; null for one that is no JSON.
    pub fn bodies(&self, end: &str) -> Vec<Value> {
        let bodies = self.shared.state(|state| state.bodies.clone());
        let is_meant = |line: &str| line.split('?').next().is_some_and(|line| line.ends_with(end));
        bodies.into_iter().filter(|(line, _)| is_meant(line)).map(|(_, body)| body).collect()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.state(|state| state.stop = true);
    }
}

impl Shared {
    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().expect("nobody panics with the lock"))
    }

    /// The answer that the gate gives to a request itself.
    fn answer(&self, line: &str) -> Option<(u16, String)> {
        self.state(|state| {
            let answer = state.answers.iter_mut().find(|answer| answer.times > 0 && line.starts_with(&answer.to))?;
            answer.times -= 1;
            Some((answer.status, answer.body.clone()))
        })
    }

    /// Counts a request, and says whether the gate closes at it and at which side.
    fn count(&self, line: &str) -> Option<Side> {
        self.state(|state| {
            if state.closed {
                return Some(Side::Before);
            }
            if changes_something(line) {
                state.seen.push(line.to_owned());
                if let Some((number, side)) = state.close_at
                    && number == state.seen.len()
                {
                    // After: closed only once the server has answered, so that a test sees what it did.
                    state.closed = side == Side::Before && !state.hangs_up;
                    return Some(side);
                }
            }
            None
        })
    }
}

fn changes_something(line: &str) -> bool {
    let reads = ["_refresh", "_search", "_msearch", "_count", "_flush"];
    !line.starts_with("GET ") && !line.starts_with("HEAD ") && !reads.iter().any(|word| line.contains(word))
}

/// One request of one connection; the client opens another for the next.
fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    let request = Request::read(&mut client)?;
    let line = request.line();
    if changes_something(&line) {
        let json = serde_json::from_slice(&request.body).unwrap_or_default();
        shared.state(|state| state.bodies.push((line.clone(), json)));
    }
    let side = shared.count(&line);
    let hangs_up = shared.state(|state| state.hangs_up);
    if let Some((status, body)) = shared.answer(&line) {
        let head = format!("HTTP/1.1 {status} as told\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        return Ok(client.write_all(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes())?);
    }
    if side == Some(Side::Before) && (hangs_up || !hold(shared)) {
        return Ok(());
    }
    let mut server = TcpStream::connect(&shared.target)?;
    server.write_all(&request.closing())?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    if side == Some(Side::After) && hangs_up {
        return Ok(());
    }
    if side == Some(Side::After) {
        shared.state(|state| state.closed = true);
        if !hold(shared) {
            return Ok(());
        }
    }
    Ok(client.write_all(&answer)?)
}

/// Says nothing and keeps the line open until the gate is opened again, or taken away; gives whether it was opened.
fn hold(shared: &Shared) -> bool {
    while shared.state(|state| state.closed && !state.stop) {
        thread::sleep(Duration::from_millis(20));
    }
    !shared.state(|state| state.stop)
}
