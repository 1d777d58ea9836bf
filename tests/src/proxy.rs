//! What stands between a tool and a server, or in a server's place: [`Proxy`] carries the bytes of any protocol, [`Gate`] carries
//! HTTP requests, one a connection, by rules.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::libc::linger;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};

use crate::tool::{Ran, Spawned, Tool};
use crate::wait;

/// How long a thread waits for bytes before it reads again what is to happen to them.
const PAUSE: Duration = Duration::from_millis(5);

/// Any port of 127.0.0.1.
pub const LOOPBACK: &str = "127.0.0.1:0";

/// A port of its own until it is dropped; each connection is served in a thread of its own.
struct Listener(SocketAddr, Arc<AtomicBool>);

impl Listener {
    fn at(address: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let (this, serve) = (Self(listener.local_addr()?, Arc::default()), Arc::new(serve));
        let stopped = Arc::clone(&this.1);
        thread::spawn(move || {
            for client in listener.incoming().flatten().take_while(|_| !stopped.load(Ordering::SeqCst)) {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(client));
            }
        });
        Ok(this)
    }

    fn url(&self) -> String {
        format!("http://{}", self.0)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.1.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.0));
    }
}

fn with<S, T>(state: &Mutex<S>, change: impl FnOnce(&mut S) -> T) -> T {
    change(&mut state.lock().expect("nobody panics with the lock"))
}

/// The `host:port` of an `http://` address, or of one without a scheme.
fn host_and_port(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Close,
    Reset,
    /// Never: it stays open, and nothing comes any more.
    Stall,
}

impl End {
    fn of(self, sides: [&TcpStream; 2]) {
        for side in sides {
            match self {
                // The peer may have gone.
                Self::Close => drop(side.shutdown(Shutdown::Both)),
                Self::Reset => drop(setsockopt(&side.as_fd(), sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 })),
                // No test waits longer.
                Self::Stall => thread::sleep(Duration::from_secs(200)),
            }
        }
    }
}

/// What a [`Proxy`] does with bytes; a change takes effect on open connections too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Each connection is closed after so many bytes of the server's answers.
    CutAfter(usize),
    /// Connections are accepted, and no byte passes until the mode changes.
    Stall,
    /// The same from the moment at which a client sends this text, which does not pass either.
    StallAt(&'static str),
}

/// A proxy for bytes, on a port of its own; it stops when it is dropped.
pub struct Proxy {
    listener: Listener,
    state: Arc<Mutex<Bytes>>,
}

struct Bytes {
    mode: Mode,
    /// How often all open connections were closed.
    cuts: usize,
}

impl Bytes {
    fn allow(&mut self, bytes: &[u8], carried: usize, is_answer: bool) -> Option<usize> {
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        match self.mode {
            Mode::CutAfter(limit) if is_answer && carried >= limit && !bytes.is_empty() => return None,
            Mode::CutAfter(limit) if is_answer => return Some(bytes.len().min(limit.saturating_sub(carried))),
            Mode::StallAt(text) if !is_answer && has(text) => self.mode = Mode::Stall,
            _ => {}
        }
        Some(if self.mode == Mode::Stall { 0 } else { bytes.len() })
    }
}

impl Proxy {
    /// For `host:port`, or for the server of an `http://host:port` address; everything passes at first.
    pub fn to(target: &str) -> Result<Self> {
        let state = Arc::new(Mutex::new(Bytes { mode: Mode::Pass, cuts: 0 }));
        let (target, serving) = (host_and_port(target), Arc::clone(&state));
        let serve = move |client: TcpStream| {
            let cuts = with(&serving, |state| state.cuts);
            let Ok(server) = TcpStream::connect(&target) else { return };
            let pump = |from, to, is_answer| {
                carry(from, to, |bytes, carried| {
                    with(&serving, |state| (state.cuts == cuts).then(|| state.allow(bytes, carried, is_answer))?)
                });
                // Then both ways end.
                End::Close.of([from, to]);
            };
            thread::scope(|scope| {
                scope.spawn(|| pump(&client, &server, false));
                pump(&server, &client, true);
            });
        };
        Ok(Self { listener: Listener::at(LOOPBACK, serve)?, state })
    }

    pub fn set(&self, mode: Mode) {
        with(&self.state, |state| state.mode = mode);
    }

    pub fn is_stalled(&self) -> bool {
        with(&self.state, |state| state.mode == Mode::Stall)
    }

    pub fn cut(&self) {
        with(&self.state, |state| state.cuts += 1);
    }

    pub fn port(&self) -> u16 {
        self.listener.0.port()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Carries bytes one way until either side closes, or until `allow` is `None`: of what has come it says how much may pass, if so much
/// has been carried; what may not is left unread. Says whether `allow` was the end.
fn carry(mut from: &TcpStream, mut to: &TcpStream, mut allow: impl FnMut(&[u8], usize) -> Option<usize>) -> bool {
    let _ = from.set_read_timeout(Some(PAUSE));
    let (mut buffer, mut carried) = ([0; 16 * 1024], 0);
    loop {
        let ready = match from.peek(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => 0,
            Err(_) | Ok(0) => return allow(&[], carried).is_none(),
            Ok(ready) => ready,
        };
        match allow(&buffer[..ready], carried) {
            None => return true,
            Some(0) if ready == 0 => {}
            Some(0) => thread::sleep(PAUSE),
            Some(allowed) => match from.read(&mut buffer[..allowed]) {
                Ok(taken @ 1..) if to.write_all(&buffer[..taken]).is_ok() => carried += taken,
                _ => return false,
            },
        }
    }
}

#[derive(Debug, Clone)]
struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// Reads it to its end, or what comes instead: the beginning of TLS, or of a request whose client leaves.
    fn read(client: &mut TcpStream) -> Self {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
        loop {
            let request = Self::of(&bytes);
            let length = request.field("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
            let is_chunked = request.field("transfer-encoding:").is_some();
            let is_complete = if is_chunked { request.body.ends_with(b"0\r\n\r\n") } else { request.body.len() >= length };
            // No method begins with the first byte of TLS.
            if bytes.first() == Some(&0x16) || request.head.ends_with("\r\n\r\n") && is_complete {
                return request;
            }
            let Ok(count @ 1..) = client.read(&mut buffer) else { return request };
            bytes.extend_from_slice(&buffer[..count]);
        }
    }

    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        Self { head: String::from_utf8_lossy(&bytes[..end]).into_owned(), body: bytes[end..].to_vec() }
    }

    fn field(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| Some(line.to_lowercase().strip_prefix(name)?.trim().to_owned()))
    }

    fn line(&self) -> String {
        self.head.split(' ').take(2).collect::<Vec<_>>().join(" ")
    }

    fn text(&self) -> String {
        format!("{}{}", self.head, String::from_utf8_lossy(&self.body))
    }

    /// As it is passed on: the server closes the connection after its answer.
    fn closing(&self) -> Vec<u8> {
        let headers = self.head.lines().filter(|line| !line.to_lowercase().starts_with("connection:") && !line.is_empty());
        let head: String = headers.flat_map(|line| [line, "\r\n"]).collect();
        [format!("{head}connection: close\r\n\r\n").as_bytes(), &self.body].concat()
    }
}

fn changes_something(line: &str) -> bool {
    let reads = ["_refresh", "_search", "_msearch", "_count", "_flush"];
    !line.starts_with("GET ") && !line.starts_with("HEAD ") && !reads.iter().any(|word| line.contains(word))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The server never sees the request.
    Before,
    /// The server does what it is asked, and nobody hears its answer.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// When so many bytes of the request have reached the server, or all of them.
    Request(usize),
    /// When so many bytes of the answer have come back, or all of them.
    Answer(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Cut(At, End),
    /// Answers it with that text; whether the server gets it too, whose own answer nobody hears.
    Answer(String, bool),
    /// Closes the gate: neither this request nor any later one is answered until [`Gate::open`].
    Close(Side),
    /// Holds it back until [`Gate::open`]; others pass.
    Hold,
}

struct Rule {
    /// Says by its method and path whether the rule is for a request.
    is_for: Box<dyn Fn(&str) -> bool + Send>,
    act: Act,
    skip: usize,
    times: usize,
    came: usize,
}

/// A proxy for HTTP requests, on a port of its own; everything passes at first. It hangs up on what it holds when it is dropped.
pub struct Gate {
    listener: Listener,
    state: Arc<Mutex<Requests>>,
}

#[derive(Default)]
struct Requests {
    rules: Vec<Rule>,
    log: Vec<Request>,
    acts: Vec<(String, Act)>,
    closed: bool,
    opened: bool,
    dropped: bool,
}

impl Gate {
    /// For the server of an `http://host:port` address, by rules.
    pub fn to(url: &str) -> Result<Self> {
        let target = host_and_port(url);
        Self::serving(LOOPBACK, move |request, client, state| drop(carry_by_rules(request, client, &target, state)))
    }

    /// At an address such as `[::1]:0`: what `rewrite` makes of a request is sent on, or is the answer itself.
    pub fn before(address: &str, url: &str, rewrite: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static) -> Self {
        let target = host_and_port(url);
        Self::answered_by(address, move |request, client| match rewrite(request) {
            Ok(request) => {
                let server = send(&target, &Request::of(request.as_bytes()).closing());
                let _ = server.and_then(|mut server| std::io::copy(&mut server, client));
            }
            Err(answer) => drop(client.write_all(answer.as_bytes())),
        })
    }

    /// In a server's place: it always says the same.
    pub fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::answered_by(LOOPBACK, move |_, client| drop(client.write_all(&answer)))
    }

    /// In a server's place, at an address such as [`LOOPBACK`].
    pub fn answered_by(address: &str, answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::serving(address, move |request, client, _| answer(&request.text(), client)).expect("a port is free")
    }

    fn serving(
        address: &str,
        serve: impl Fn(&Request, &mut TcpStream, &Mutex<Requests>) + Send + Sync + 'static,
    ) -> Result<Self> {
        let state: Arc<Mutex<Requests>> = Arc::default();
        let serving = Arc::clone(&state);
        let listener = Listener::at(address, move |mut client| {
            let request = Request::read(&mut client);
            with(&serving, |state| state.log.push(request.clone()));
            serve(&request, &mut client, &serving);
        })?;
        Ok(Self { listener, state })
    }

    /// Does that to so many of the requests that it is for by their method and path, after the first `skip` of them. Of several
    /// rules the first one wins.
    pub fn rule(&self, is_for: impl Fn(&str) -> bool + Send + 'static, act: Act, skip: usize, times: usize) {
        with(&self.state, |state| state.rules.push(Rule { is_for: Box::new(is_for), act, skip, times, came: 0 }));
    }

    /// Closes at the request of that number, counted from 1, among those that change something.
    pub fn close_at(self, number: usize, side: Side) -> Self {
        self.rule(changes_something, Act::Close(side), number - 1, 1);
        self
    }

    /// The same at the first of them whose method and path hold that.
    pub fn close_on(self, holds: &str, side: Side) -> Self {
        let holds = holds.to_owned();
        self.rule(move |line| changes_something(line) && line.contains(&holds), Act::Close(side), 0, 1);
        self
    }

    /// Closes just before a request that holds that, whether it changes something or not: the one of that number, from 1.
    pub fn close_before(self, holds: &str, number: usize) -> Self {
        let holds = holds.to_owned();
        self.rule(move |line| line.contains(&holds), Act::Close(Side::Before), number - 1, 1);
        self
    }

    /// Hangs up at the chosen request instead of closing: a connection that breaks once.
    pub fn hanging_up(self) -> Self {
        with(&self.state, |state| {
            for rule in &mut state.rules {
                match rule.act {
                    Act::Close(Side::Before) => rule.act = Act::Cut(At::Request(0), End::Close),
                    Act::Close(Side::After) => rule.act = Act::Cut(At::Answer(0), End::Close),
                    _ => {}
                }
            }
        });
        self
    }

    /// Answers so many requests whose method and path begin with `to` itself, with what a server said once; they are not carried.
    pub fn answering(self, to: &str, times: usize, status: u16, body: &Value) -> Self {
        let (to, answer) = (to.to_owned(), http(&format!("{status} as told"), "application/json", &body.to_string()));
        self.rule(move |line| line.starts_with(&to), Act::Answer(answer, false), 0, times);
        // It wins over one that closes.
        with(&self.state, |state| state.rules.rotate_right(1));
        self
    }

    /// The same with the error of a server.
    pub fn refusing(self, to: &str, times: usize, (status, kind, reason): (u16, &str, &str)) -> Self {
        let error = json!({"error": {"type": kind, "reason": reason, "root_cause": []}, "status": status});
        self.answering(to, times, status, &error)
    }

    /// Carries what it holds back, and everything that comes from now on.
    pub fn open(&self) {
        with(&self.state, |state| (state.closed, state.opened) = (false, true));
    }

    /// Lets everything pass again, and counts from the start.
    pub fn heal(&self) {
        with(&self.state, |state| *state = Requests::default());
    }

    /// Starts a tool through it, and waits until it has come to the chosen request; the test fails if it ends before.
    #[track_caller]
    pub fn hold(&self, tool: Tool) -> Spawned {
        let mut tool = tool.via(self).spawn();
        wait::so("the chosen request", || (self.is_closed() || !tool.is_running()).then_some(()));
        if !self.is_closed() {
            panic!("the tool did not come to the chosen request: {:?}\n{}", self.changes(), tool.wait());
        }
        tool
    }

    /// Does something while it holds a tool there, and gives what comes of the tool then.
    #[track_caller]
    pub fn during(&self, tool: Tool, meanwhile: impl FnOnce()) -> Ran {
        let held = self.hold(tool);
        meanwhile();
        self.open();
        held.wait()
    }

    /// Kills a tool there. The gate tells what it has seen.
    #[track_caller]
    pub fn kill(self, tool: Tool) -> Self {
        assert_eq!(self.hold(tool).ended_by(Signal::SIGKILL).status, 137);
        self
    }

    /// The same for a tool that may end before it has come there; its status says which it was.
    pub fn kill_or_end(&self, tool: Tool) -> Ran {
        tool.via(self).spawn().interrupted("the chosen request", (Signal::SIGKILL, false), |_| self.is_closed())
    }

    pub fn url(&self) -> String {
        self.listener.url()
    }

    pub fn is_closed(&self) -> bool {
        with(&self.state, |state| state.closed)
    }

    /// All requests, as method and path, in the order in which they came.
    pub fn asked(&self) -> Vec<String> {
        with(&self.state, |state| state.log.iter().map(Request::line).collect())
    }

    pub fn changes(&self) -> Vec<String> {
        self.asked().into_iter().filter(|line| changes_something(line)).collect()
    }

    /// The paths of these, as [`Ran::planned`] has them.
    pub fn sent(&self) -> Vec<String> {
        self.changes().iter().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect()
    }

    /// The bodies of those whose path ends so; null for one that is no JSON.
    pub fn bodies(&self, end: &str) -> Vec<Value> {
        let is_meant = |one: &&Request| {
            changes_something(&one.line()) && one.line().split('?').next().is_some_and(|line| line.ends_with(end))
        };
        let body = |one: &Request| serde_json::from_slice(&one.body).unwrap_or_default();
        with(&self.state, |state| state.log.iter().filter(is_meant).map(body).collect())
    }

    /// What the rules have done, each beside the method and path of its request: a cut after the end of an answer is none.
    pub fn acts(&self) -> Vec<(String, Act)> {
        with(&self.state, |state| state.acts.clone())
    }
}

impl Tool {
    pub fn via(self, gate: &Gate) -> Self {
        self.env("SVC_SEARCH_URL", gate.url())
    }
}

/// What a server answers, with the headers that it needs.
pub fn http(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn send(target: &str, bytes: &[u8]) -> std::io::Result<TcpStream> {
    let mut server = TcpStream::connect(target)?;
    server.write_all(bytes)?;
    Ok(server)
}

impl Drop for Gate {
    fn drop(&mut self) {
        with(&self.state, |state| state.dropped = true);
    }
}

/// Waits until the gate is opened; an error if it is dropped.
fn hold(state: &Mutex<Requests>) -> Result<()> {
    while !with(state, |state| state.opened) {
        ensure!(!with(state, |state| state.dropped), "the gate was not opened");
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn carry_by_rules(request: &Request, client: &mut TcpStream, target: &str, state: &Mutex<Requests>) -> Result<()> {
    let (line, request) = (request.line(), request.closing());
    let act = with(state, |state| {
        let mut act = state.closed.then_some(Act::Hold);
        for rule in state.rules.iter_mut().rev().filter(|rule| (rule.is_for)(&line)) {
            rule.came += 1;
            if rule.came > rule.skip && rule.came - rule.skip <= rule.times {
                act = Some(rule.act.clone());
            }
        }
        // With the other side it is closed when the server has answered.
        state.closed |= act == Some(Act::Close(Side::Before));
        act
    });
    let done = |act: &Act| with(state, |state| state.acts.push((line.clone(), act.clone())));
    if matches!(act, Some(Act::Hold | Act::Close(Side::Before))) {
        hold(state)?;
    }
    if let Some(act @ Act::Answer(answer, is_carried)) = &act {
        done(act);
        if *is_carried {
            let mut server = send(target, &request)?;
            thread::spawn(move || std::io::copy(&mut server, &mut std::io::sink()));
        }
        return Ok(client.write_all(answer.as_bytes())?);
    }
    let cut = if let Some(Act::Cut(at, end)) = act { Some((at, end)) } else { None };
    let mut server = match cut {
        Some((At::Request(bytes), _)) => send(target, request.get(..bytes).unwrap_or(&request))?,
        _ => send(target, &request)?,
    };
    if act == Some(Act::Close(Side::After)) {
        let mut answer = Vec::new();
        // It may hang up before its end.
        let _ = server.read_to_end(&mut answer);
        with(state, |state| state.closed = true);
        hold(state)?;
        client.write_all(&answer)?;
    } else {
        let is_cut = carry(&server, client, |bytes, sent| match cut {
            Some((At::Request(_), _)) => None,
            Some((At::Answer(limit), _)) if sent >= limit && sent + bytes.len() > 0 => None,
            Some((At::Answer(limit), _)) => Some(bytes.len().min(limit - sent)),
            _ => Some(bytes.len()),
        });
        if let (true, Some((at, end))) = (is_cut, cut) {
            done(&Act::Cut(at, end));
            end.of([client, &server]);
            return Ok(());
        }
    }
    Ok(client.shutdown(Shutdown::Both)?)
}
