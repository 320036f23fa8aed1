//! A TCP port for a server.

use std::net::{Ipv4Addr, TcpListener};

use crate::{Error, random};

/// Below the ports that the kernel gives to outgoing connections (32768 and up), where a server that is restarted
/// would find its own port taken by a client that tries to reach it.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that is free now. Another process may take it before the server does, so callers try again.
pub(crate) fn free() -> Result<u16, Error> {
    for _ in 0..100 {
        let port = FIRST + random::below(COUNT)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(format!("none of 100 ports tried from {FIRST} to {} is free on 127.0.0.1", FIRST + COUNT)))
}
