//! Settings of a server, and which of them do not go together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ff_store::{Clock, SystemClock};

/// Where a server listens if nobody says otherwise.
pub const PORT: u16 = 7400;

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub address: SocketAddr,
    /// Whether every caller needs a token. Only on a loopback address may it be off.
    pub authentication: bool,
    pub tls: Option<Tls>,
    /// TLS ends before this server (a proxy): plain HTTP may leave the machine.
    pub plain_http: bool,
    /// How large the body of a request may be.
    pub body_bytes_max: usize,
    /// How deep JSON may be nested.
    pub depth_max: usize,
    /// How long the head and the body of a request may take to arrive.
    pub read_timeout: Duration,
    /// How long a caller may take to agree on TLS.
    pub handshake_timeout: Duration,
    /// How many connections may be open.
    pub connections_max: usize,
    /// How many requests one address or token may send in a second; none if 0.
    pub requests_per_second: u32,
    /// The longest that one request may wait for something to happen.
    pub wait_max: Duration,
    /// How many events one page looks at before it says where to go on.
    pub event_looks_max: usize,
    /// How long requests may go on when the server is asked to stop.
    pub grace: Duration,
    /// The time by which new ids are sorted.
    pub clock: Arc<dyn Clock>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
            authentication: false,
            tls: None,
            plain_http: false,
            body_bytes_max: 32 << 20,
            depth_max: 64,
            read_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            connections_max: 50_000,
            requests_per_second: 0,
            wait_max: Duration::from_secs(60),
            event_looks_max: 10_000,
            grace: Duration::from_secs(20),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "the address {0} can be reached from outside this machine, and callers would need no token; \
         turn authentication on (--auth), or listen on 127.0.0.1"
    )]
    OpenToAll(SocketAddr),
    #[error(
        "the address {0} can be reached from outside this machine, and tokens would travel unencrypted; \
         give a certificate (--tls-cert and --tls-key), or say that a proxy does it (--plain-http)"
    )]
    Unencrypted(SocketAddr),
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error("{file}: {problem}")]
    Tls { file: PathBuf, problem: String },
}

impl Config {
    /// Whether these settings may be used; nothing is opened before.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.address.ip().is_loopback() {
            return Ok(());
        }
        if !self.authentication {
            return Err(ConfigError::OpenToAll(self.address));
        }
        if self.tls.is_none() && !self.plain_http {
            return Err(ConfigError::Unencrypted(self.address));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(address: &str) -> Config {
        Config { address: address.parse().unwrap(), ..Config::default() }
    }

    #[test]
    fn what_can_be_reached_from_outside_needs_tokens_and_encryption() {
        assert!(config("127.0.0.1:7400").check().is_ok());
        assert!(config("[::1]:7400").check().is_ok());
        for address in ["0.0.0.0:7400", "[::]:7400", "192.168.1.5:7400", "[::ffff:127.0.0.1]:7400"] {
            let refused = config(address).check().unwrap_err();
            assert!(matches!(refused, ConfigError::OpenToAll(_)), "{address}");
            assert!(refused.to_string().contains("--auth"), "{refused}");
            let with_tokens = Config { authentication: true, ..config(address) };
            assert!(with_tokens.check().unwrap_err().to_string().contains("--tls-cert"));
            assert!(Config { plain_http: true, ..with_tokens }.check().is_ok());
        }
    }
}
