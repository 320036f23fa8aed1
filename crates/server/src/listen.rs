//! Sockets: accepting, TLS, limits, and stopping without losing anybody.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use futures_util::future::Either;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use ff_engine::Engine;

use crate::app::{App, Live, Phase};
use crate::claims::Claims;
use crate::config::{Config, ConfigError, Tls};
use crate::metrics::Requests;
use crate::patience::Patient;
use crate::rate::Rates;
use crate::readiness::Readiness;
use crate::request_id::RequestIds;
use crate::routes;

/// How many bytes the head of a request may have.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// How many headers it may have.
const HEADERS_MAX: usize = 100;

/// A server that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it really listens, also if port 0 was asked for.
    pub address: SocketAddr,
    app: Arc<App>,
    phase: watch::Sender<Phase>,
    done: oneshot::Receiver<Stopped>,
}

/// What a server left when it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Every connection ended by itself within the grace.
    pub drained: bool,
}

impl Running {
    /// Makes `/readyz` turn and changes nothing else, so that whoever sends requests can send them elsewhere.
    pub fn leave(&self) {
        let _ = self.phase.send(Phase::Leaving);
    }

    /// Asks it to stop: `/readyz` turns, long polls are answered, no connection is accepted; requests that run may end.
    pub async fn stop(self) -> Stopped {
        let _ = self.phase.send(Phase::Stopping);
        self.done.await.unwrap_or(Stopped { drained: false })
    }

    pub fn app(&self) -> &Arc<App> {
        &self.app
    }
}

/// Starts a server on an engine.
///
/// # Errors
/// The settings do not go together, the certificate cannot be read, or the address is taken.
pub async fn start(engine: Engine, config: Config) -> Result<Running, ConfigError> {
    config.check()?;
    let tls = config.tls.as_ref().map(acceptor).transpose()?;
    let failed = |error| ConfigError::Listen { address: config.address, error };
    let listener = TcpListener::bind(config.address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let (turn, phase) = watch::channel(Phase::Serving);
    let (finished, done) = oneshot::channel();
    let rates = Rates::new(config.requests_per_second);
    // To describe all routes takes megabytes for a moment. They are taken where connections are served, so that these
    // use them again; each thread has memory of its own.
    let described = tokio::spawn(async move {
        let app = Arc::new(App {
            engine,
            config,
            claims: Claims::default(),
            phase,
            live: Live::default(),
            requests: Requests::new(routes::paths()),
            rates,
            request_ids: RequestIds::default(),
            readiness: Readiness::default(),
        });
        (routes::router(app.clone()), app)
    });
    let (router, app) = described.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let accepting = Accepting { listener, tls, router, app: app.clone() };
    tokio::spawn(async move {
        let _ = finished.send(accepting.run().await);
    });
    Ok(Running { address, app, phase: turn, done })
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ConfigError> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let problem =
        |file: &std::path::Path, problem: String| ConfigError::Tls { file: file.to_owned(), problem };
    let certificates = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| problem(&tls.certificate, format!("no certificate can be read: {error}")))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| problem(&tls.key, format!("no private key can be read: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| problem(&tls.certificate, format!("does not work with its key: {error}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

struct Accepting {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    app: Arc<App>,
}

impl Accepting {
    async fn run(self) -> Stopped {
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(self.app.config.connections_max));
        let mut stopping = pin!(self.app.stopping());
        loop {
            let permit = tokio::select! {
                biased;
                () = &mut stopping => break,
                permit = room.clone().acquire_owned() => permit,
            };
            let accepted = tokio::select! {
                biased;
                () = &mut stopping => break,
                accepted = self.listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, or a caller that has gone already: the next may work.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (router, app, watcher) = (self.router.clone(), self.app.clone(), graceful.watcher());
            let (tls, config) = (self.tls.clone(), &self.app.config);
            let (read_timeout, handshake_timeout) = (config.read_timeout, config.handshake_timeout);
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let _permit = permit;
                match tls {
                    None => ended(peer, serve(stream, peer, (router, app), watcher, read_timeout).await),
                    // In a place of its own, so that a connection without TLS takes no room for it.
                    Some(tls) => {
                        Box::pin(async move {
                            match tokio::time::timeout(handshake_timeout, tls.accept(stream)).await {
                                Ok(Ok(stream)) => ended(
                                    peer,
                                    serve(stream, peer, (router, app), watcher, read_timeout).await,
                                ),
                                Ok(Err(error)) => tracing::debug!(%error, %peer, "no TLS"),
                                Err(_) => tracing::debug!(%peer, "TLS took too long"),
                            }
                        })
                        .await
                    }
                }
            });
        }
        drop(self.listener);
        let drained = tokio::time::timeout(self.app.config.grace, graceful.shutdown()).await.is_ok();
        Stopped { drained }
    }
}

/// Not an async function, which would keep room for its arguments beside the connection made of them: most connections
/// are idle, and there are many.
fn serve<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: IO,
    peer: SocketAddr,
    (router, app): (Router, Arc<App>),
    watcher: Watcher,
    read_timeout: Duration,
) -> impl Future<Output = Result<(), hyper::Error>> + Send {
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        // A head that arrives at once is parsed although it is longer than what is kept of one that is not complete.
        if head_bytes(&request) > HEAD_BYTES_MAX {
            return Either::Left(std::future::ready(Ok(routes::head_too_large(&app, request.headers()))));
        }
        request.extensions_mut().insert(ConnectInfo(peer));
        Either::Right(router.clone().oneshot(request.map(axum::body::Body::new)))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(read_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(Patient::new(stream, read_timeout)), service);
    watcher.watch(connection)
}

/// How many bytes the head of a request has, about.
fn head_bytes<T>(request: &hyper::Request<T>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |it| it.as_str().len());
    target
        + request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}

fn ended(peer: SocketAddr, end: Result<(), hyper::Error>) {
    if let Err(error) = end {
        tracing::debug!(%error, %peer, "a connection ended badly");
    }
}
