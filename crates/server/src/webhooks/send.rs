//! One request: looked up, checked, connected, sent, answered; no redirects, no cookies, no proxy.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ff_core::Ms;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::{Targets, resolve};
use super::sign::Signed;

/// How much of an answer is read before its head is whole.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What came of a request.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: Option<u16>,
    pub(super) error: Option<String>,
    pub(super) took_ms: Ms,
}

#[derive(Debug)]
pub(super) struct Sender {
    targets: Targets,
    authorities: Option<PathBuf>,
    timeout: Duration,
    /// Made when the first encrypted request is sent.
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Sender {
    pub(super) fn new(targets: Targets, authorities: Option<PathBuf>, timeout: Duration) -> Sender {
        Sender { targets, authorities, timeout, tls: OnceLock::new() }
    }

    /// Sends a body and waits for the head of the answer.
    pub(super) async fn post(&self, url: &str, signed: &Signed, body: Bytes) -> Answered {
        let started = Instant::now();
        let result = match tokio::time::timeout(self.timeout, self.exchange(url, signed, body)).await {
            Ok(result) => result,
            Err(_) => Err(format!("no answer within {} ms", self.timeout.as_millis())),
        };
        let took_ms = Ms::try_from(started.elapsed().as_millis()).unwrap_or(Ms::MAX);
        match result {
            Ok(status) => Answered { status: Some(status), error: None, took_ms },
            Err(error) => Answered { status: None, error: Some(error), took_ms },
        }
    }

    async fn exchange(&self, url: &str, signed: &Signed, body: Bytes) -> Result<u16, String> {
        let uri: Uri = url.parse().map_err(|error| format!("the address cannot be called: {error}"))?;
        let encrypted = uri.scheme_str() == Some("https");
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return Err("the address has no host".to_owned());
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        let request = Request::post(uri.path_and_query().map_or("/", |it| it.as_str()))
            .header(HOST, authority.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("flowfabric/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &signed.id)
            .header("webhook-timestamp", &signed.timestamp)
            .header("webhook-signature", &signed.signature)
            .body(Full::new(body))
            .map_err(|error| format!("the address cannot be called: {error}"))?;
        let address = resolve(host, port, self.targets).await?;
        let stream = TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
        if !encrypted {
            return talk(stream, request).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
        let connector = TlsConnector::from(self.tls()?);
        let stream = connector.connect(name, stream).await.map_err(|error| format!("{host}: {error}"))?;
        talk(stream, request).await
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = &self.authorities {
            let problem = |error: &dyn Display| format!("{}: {error}", file.display());
            let own = CertificateDer::pem_file_iter(file).map_err(|error| problem(&error))?;
            for certificate in own {
                let certificate = certificate.map_err(|error| problem(&error))?;
                roots.add(certificate).map_err(|error| problem(&error))?;
            }
        }
        if roots.is_empty() {
            return Err("this machine has no certificate authorities to check the receiver with".to_owned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| format!("TLS cannot be used: {error}"))?;
        let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<u16, String> {
    let broken = |error: hyper::Error| format!("the connection broke: {error}");
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sending, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answering = sending.send_request(request);
    tokio::pin!(answering);
    let answer = tokio::select! {
        biased;
        answer = &mut answering => answer,
        // A connection that the receiver closes can end in the very turn that brings the answer, so its end does not
        // mean that there is none. As the connection is dropped by now, what is not there fails at once.
        _ = connection => answering.await,
    };
    match answer {
        Ok(response) => Ok(response.status().as_u16()),
        Err(error) if error.is_incomplete_message() || error.is_canceled() => {
            Err("the connection was closed without an answer".to_owned())
        }
        Err(error) => Err(broken(error)),
    }
}
