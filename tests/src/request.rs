//! An HTTP request as a proxy of ours reads it and passes it on: one request a connection.

use std::io::Read;
use std::net::TcpStream;

use anyhow::{Result, ensure};

/// A request, whole.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its first line and its headers, as they came.
    pub head: String,
    /// Its body, as it came.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads it to its end.
    pub fn read(client: &mut TcpStream) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            let count = client.read(&mut buffer)?;
            ensure!(count > 0, "the client went away");
            bytes.extend_from_slice(&buffer[..count]);
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let field = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(|value| value.trim().to_owned()))
        };
        let length: usize = field("content-length:").map_or(Ok(0), |length| length.parse())?;
        let chunked = field("transfer-encoding:").is_some();
        let mut body = bytes.split_off(end);
        while if chunked { !body.ends_with(b"0\r\n\r\n") } else { body.len() < length } {
            let count = client.read(&mut buffer)?;
            ensure!(count > 0, "the client went away");
            body.extend_from_slice(&buffer[..count]);
        }
        Ok(Self { head, body })
    }

    /// Its method and its path.
    pub fn line(&self) -> String {
        let mut words = self.head.split_whitespace();
        format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }

    /// As it is passed on: the server closes the connection behind its answer.
    pub fn closing(&self) -> Vec<u8> {
        let headers = self.head.lines().filter(|line| !line.to_lowercase().starts_with("connection:") && !line.is_empty());
        let head: String = headers.flat_map(|line| [line, "\r\n"]).collect();
        [format!("{head}connection: close\r\n\r\n").as_bytes(), &self.body].concat()
    }
}
