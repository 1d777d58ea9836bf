//! Stand-ins for what may answer at a search database's address: a listener that says what a test wants, and a reverse proxy
//! before a real server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use crate::listener::{Listener, host_and_port};

/// Somebody who answers on a port of his own until he is dropped.
#[derive(Debug)]
pub struct StandIn {
    listener: Listener,
    seen: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    /// Each connection is given to `answer`, with what the client has sent first.
    pub fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0", answer)
    }

    /// The same at an address, such as `[::1]:0`.
    pub fn at(address: &str, answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let serve = move |mut client: TcpStream| {
            let request = first_words(&mut client);
            noted.lock().expect("nobody panics with the lock").push(request.clone());
            answer(&request, &mut client);
        };
        Self { listener: Listener::at(address, serve).expect("a port is free"), seen }
    }

    /// One that always says the same.
    pub fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |_, client| drop(client.write_all(&answer)))
    }

    /// A reverse proxy before the server of an `http://host:port` address: what `look` makes of a request is sent on, or is
    /// the answer itself.
    pub fn before(target: &str, look: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static) -> Self {
        let target = host_and_port(target);
        Self::new(move |request, client| match look(request) {
            Ok(request) => drop(carry(&request, client, &target)),
            Err(answer) => drop(client.write_all(answer.as_bytes())),
        })
    }

    /// Its address for `http://`.
    pub fn url(&self) -> String {
        self.listener.url()
    }

    /// What its clients have sent first, one text a connection.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panics with the lock").clone()
    }
}

/// What a server answers, with the headers that it needs.
pub fn http(status: &str, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn carry(request: &str, client: &mut TcpStream, target: &str) -> std::io::Result<()> {
    let mut server = TcpStream::connect(target)?;
    server.write_all(request.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes())?;
    std::io::copy(&mut server, client).map(drop)
}

/// The head of a request and its body, or whatever came instead at first.
fn first_words(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            // TLS begins with a byte that no method begins with.
            if bytes.first() == Some(&0x16) {
                break;
            }
            continue;
        };
        let field = |name: &str| head.lines().find_map(|line| Some(line.to_lowercase().strip_prefix(name)?.trim().to_owned()));
        let length = field("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
        let is_whole = field("transfer-encoding:").is_none() || body.ends_with("0\r\n\r\n");
        if is_whole && body.len() >= length {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
