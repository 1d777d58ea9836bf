//! The ready listener: 200 while the last item could be stored in both databases, else 503.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;

/// Listens on a port of the loopback address for as long as the program runs; 0 is no port.
///
/// # Errors
/// A port that is taken.
pub fn listen(port: u16, ready: Arc<AtomicBool>) -> anyhow::Result<()> {
    if port == 0 {
        return Ok(());
    }
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("cannot listen on the ready port {port}"))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that went away needs no answer.
            let _ = answer(stream, ready.load(Ordering::Relaxed));
        }
    });
    Ok(())
}

fn answer(mut stream: TcpStream, ready: bool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut request = [0; 1024];
    let _ = stream.read(&mut request)?;
    let (status, text) = if ready { ("200 OK", "ready\n") } else { ("503 Service Unavailable", "waiting\n") };
    let length = text.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")
}
