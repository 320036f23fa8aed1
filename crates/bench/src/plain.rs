//! The least that a caller over HTTP is: one connection, one request at a time. What the callers cost is taken from
//! the same cores as what is measured.

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that is kept.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    host: String,
    bytes: Vec<u8>,
}

impl Connection {
    /// `url` is that of a server without TLS.
    pub async fn open(url: &str) -> anyhow::Result<Connection> {
        let host = url.strip_prefix("http://").context("an address that begins with http://")?.to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, host, bytes: Vec::new() })
    }

    /// Posts a document and returns the answer's status and body.
    pub async fn post(&mut self, path: &str, document: &str) -> anyhow::Result<(u16, &[u8])> {
        self.send(path, document).await?;
        self.answer().await
    }

    /// Posts a document and leaves the answer for later.
    pub async fn send(&mut self, path: &str, document: &str) -> anyhow::Result<()> {
        let (host, length) = (&self.host, document.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{document}"
        );
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    pub async fn answer(&mut self) -> anyhow::Result<(u16, &[u8])> {
        self.bytes.clear();
        loop {
            if let Some(Head { status, body, length }) = head(&self.bytes)?
                && self.bytes.len() >= body + length
            {
                return Ok((status, &self.bytes[body..body + length]));
            }
            let read = self.stream.read_buf(&mut self.bytes).await?;
            anyhow::ensure!(read > 0, "the server has closed a connection");
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Where the body begins.
    body: usize,
    length: usize,
}

/// The head of an answer, as soon as all of it is there.
fn head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let status = text.get(9..12).context("an answer with a status")?.parse()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then_some(value.trim())
    });
    let length = length.context("an answer that says how long it is")?.parse()?;
    Ok(Some(Head { status, body: end + 4, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_its_head_is_complete() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(head(&answer[..40]).unwrap(), None);
        assert_eq!(head(answer).unwrap(), Some(Head { status: 201, body: 43, length: 2 }));
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
