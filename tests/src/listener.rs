//! A listener on loopback for what stands between a tool and a server, or in a server's place.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};

/// A listener on a port of its own, which serves each connection in a thread of its own. It stops listening when it is dropped;
/// connections that are open then are left to whoever serves them.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
}

impl Listener {
    /// One on 127.0.0.1.
    pub fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Result<Self> {
        Self::at("127.0.0.1:0", serve)
    }

    /// One at an address, such as `[::1]:0`.
    pub fn at(address: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let (address, stopped, serve) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)), Arc::new(serve));
        let stop = Arc::clone(&stopped);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(client));
            }
        });
        Ok(Self { address, stopped })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its address for `http://`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

/// The `host:port` of an `http://` or `https://` address, or of one without a scheme.
pub fn host_and_port(url: &str) -> String {
    url.trim_start_matches("http://").trim_start_matches("https://").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::wait;

    #[test]
    fn a_listener_serves_until_it_is_dropped() {
        let listener = Listener::new(|mut client| drop(client.write_all(b"hello"))).unwrap();
        let mut said = String::new();
        TcpStream::connect(host_and_port(&listener.url())).unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello");
        let address = ("127.0.0.1", listener.port());
        drop(listener);
        assert!(wait::gone(crate::wait::HANG, || TcpStream::connect(address).is_err()));
    }
}
