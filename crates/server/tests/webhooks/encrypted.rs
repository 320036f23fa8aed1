//! A receiver that speaks https, with a certificate of an authority of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use ff_core::commands::SetWebhook;
use ff_server::webhooks::{Options, Targets, start};
use ff_store::MemoryStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::receiver::{Receiver, SECRET};
use crate::{engine, event, webhook_that};

/// An authority and a certificate of its for this machine, made by the `openssl` that PostgreSQL's package brings.
fn certificates(folder: &Path) {
    std::fs::write(folder.join("names"), "subjectAltName = DNS:localhost\n").unwrap();
    for arguments in [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names",
    ] {
        let done = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

struct Encrypted {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Encrypted {
    async fn new(folder: &Path) -> Encrypted {
        let chain = CertificateDer::pem_file_iter(folder.join("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = builder.with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Encrypted { listener, tls: TlsAcceptor::from(Arc::new(config)) }
    }
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = self.listener.accept().await.unwrap();
            // Whoever does not trust the certificate goes away here.
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[tokio::test]
async fn an_https_receiver_gets_events_if_its_authority_is_trusted_and_nothing_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let engine = engine(&MemoryStore::new(1)).await;
    let mut receiver = Receiver::on(Encrypted::new(folder.path()).await);
    let url = format!("https://localhost:{}/in", receiver.address.port());
    engine.set_webhook(SetWebhook { url: url.clone().into(), ..receiver.hook() }).await.unwrap();
    let options =
        Options { targets: Targets::Any, look_every: Duration::from_millis(10), ..Options::default() };

    let untrusting = start(engine.clone(), options.clone());
    event(&engine, "a").await;
    let refused = webhook_that(&engine, |it| it.failures > 0).await;
    let error = refused.recent[0].error.as_deref().unwrap();
    assert!(error.contains("certificate") || error.contains("authorities"), "{error}");
    untrusting.stop().await;
    assert!(receiver.requests.try_recv().is_err(), "nothing was told to whom nobody trusts");

    let trusting =
        start(engine.clone(), Options { authorities: Some(folder.path().join("ca.pem")), ..options });
    // Whoever changes a webhook need not wait for the next try.
    engine.set_webhook(SetWebhook { url: format!("{url}?2").into(), ..receiver.hook() }).await.unwrap();
    let delivered = receiver.next().await;
    assert_eq!((delivered.path.as_str(), delivered.lanes()), ("/in?2", vec!["a".to_owned()]));
    assert!(delivered.is_signed_with(&SECRET));
    trusting.stop().await;
}
