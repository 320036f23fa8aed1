//! HTTP/1.1 as a worker needs it: one connection, one request at a time, and an error for every answer that is not whole.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than any answer takes that will come at all.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Client {
    port: u16,
    stream: Option<BufReader<TcpStream>>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    /// How many bytes the request and the answer have, heads included.
    pub lengths: (u64, u64),
}

impl Answer {
    /// The code of the problem, if it is one.
    pub fn code(&self) -> Option<&str> {
        if self.status < 300 { None } else { self.body["code"].as_str() }
    }
}

impl Client {
    pub fn new(port: u16) -> Client {
        Client { port, stream: None }
    }

    pub fn post(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.send("POST", path, &body.to_string())
    }

    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send("GET", path, "")
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let answer = self.exchange(method, path, body);
        if answer.is_err() {
            // What comes next on this connection belongs to nobody knows which request.
            self.stream = None;
        }
        answer
    }

    fn exchange(&mut self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                self.stream.insert(BufReader::new(stream))
            }
        };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let mut told = 0;
        let mut line = || {
            let line = line(stream)?;
            told += line.len() as u64 + 2;
            io::Result::Ok(line)
        };
        let status = line()?.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let mut length = 0;
        loop {
            let header = line()?.to_ascii_lowercase();
            match header.split_once(':') {
                None => break,
                Some(("content-length", value)) => {
                    length = value.trim().parse().map_err(io::Error::other)?;
                }
                Some(("transfer-encoding", _)) => {
                    return Err(io::Error::other("an answer of unknown length"));
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let lengths = (request.len() as u64, told + length as u64);
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        Ok(Answer { status, body, lengths })
    }
}

/// A whole line, without its end.
fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
