//! Requests and answers on connections that are kept.
//!
//! They have a thread of their own, like an engine has, so that handlers that block their runtime do not delay the
//! renewal of leases.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ff_api::record::RECORD_JSON;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER as RETRY_AFTER_HEADER, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::address::Address;
use super::tls;
use crate::Error;

/// How long a new connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take beyond the time that the server was asked to wait. A server says after 30 s what it could not
/// carry out, and that is worth more than not knowing.
const ANSWER: Duration = Duration::from_secs(40);
/// Connections that nobody uses are kept for so long; a server ends them after 30 s, and a request that meets that end would
/// have to be asked again.
const IDLE: Duration = Duration::from_secs(15);
/// The longest that a server's wish to be left alone for a while is heeded at once.
const RETRY_AFTER: Duration = Duration::from_secs(5);

type Connector = HttpsConnector<HttpConnector>;

/// The connections to one server.
#[derive(Clone)]
pub(super) struct Http {
    client: Client<Connector, Full<Bytes>>,
    address: Arc<Address>,
    /// Never shown.
    token: Option<HeaderValue>,
    thread: Arc<Thread>,
}

/// The thread that drives the connections; it ends with the last handle.
struct Thread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("address", &self.address.to_string()).finish_non_exhaustive()
    }
}

/// What is asked of the server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub method: Method,
    /// The path with its query.
    pub path: String,
    pub body: Option<Bytes>,
    /// What kind of answer is wanted.
    pub accept: &'static str,
    /// How long the server was asked to wait.
    pub wait: Duration,
    /// How long the answer may take beyond that.
    pub answer_within: Duration,
    pub last_event_id: Option<String>,
    /// Instead of the token of this link.
    pub bearer: Option<HeaderValue>,
}

impl Call {
    pub fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path.into(), None)
    }

    pub fn send(method: Method, path: impl Into<String>, body: Vec<u8>) -> Call {
        Call::new(method, path.into(), Some(body.into()))
    }

    fn new(method: Method, path: String, body: Option<Bytes>) -> Call {
        let (accept, wait) = (RECORD_JSON, Duration::ZERO);
        Call { method, path, body, accept, wait, answer_within: ANSWER, last_event_id: None, bearer: None }
    }

    pub fn waiting(self, wait: Duration) -> Call {
        Call { wait, ..self }
    }

    pub fn answered_within(self, answer_within: Duration) -> Call {
        Call { answer_within, ..self }
    }
}

/// An answer of the server, whatever it says.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The server has not got the request.
    NotSent(String),
    /// It may have got it.
    Lost(String),
    /// This side has ended.
    Closed,
}

impl Http {
    pub fn new(
        address: Address,
        token: Option<&str>,
        ca_file: Option<&std::path::Path>,
    ) -> Result<Http, Error> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(Duration::from_secs(15)));
        let token = token.map(bearer).transpose()?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(match address.secure {
            true => tls::config(ca_file)?,
            false => tls::none()?,
        });
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(connector);
        let thread = Thread::start().map_err(|error| {
            Error::Internal(format!("cannot start the thread of the connections: {error}"))
        })?;
        Ok(Http { client, address: Arc::new(address), token, thread: Arc::new(thread) })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Runs something on the thread of the connections; it ends with its handle.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Owned<T> {
        Owned(Some(self.thread.handle.spawn(task)))
    }

    /// Asks and waits for the whole answer. Safe to drop: the connection ends then, and the server notices.
    pub async fn ask(&self, call: Call) -> Result<Answer, NoAnswer> {
        let (http, limit) = (self.clone(), call.wait + call.answer_within);
        let whole = async move {
            let response = http.open(call).await?;
            let status = response.status().as_u16();
            let retry_after = retry_after(&response);
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| http.lost(&error))?.to_bytes();
            // Whoever asked too much hears of it when it may ask again. A sleep of no length would take a millisecond.
            if !retry_after.is_zero() {
                tokio::time::sleep(retry_after).await;
            }
            Ok(Answer { status, body })
        };
        let timed = tokio::time::timeout(limit, whole);
        let lost = || NoAnswer::Lost(format!("{} gave no answer within {limit:?}", self.address));
        match self.spawn(timed).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => Err(lost()),
            None => Err(NoAnswer::Closed),
        }
    }

    /// Asks and waits for the head of the answer. Only on the thread of the connections.
    pub async fn open(&self, call: Call) -> Result<Response<Incoming>, NoAnswer> {
        let not_sent = |problem: String| NoAnswer::NotSent(problem);
        let uri = self.address.at(&call.path).map_err(|error| not_sent(error.to_string()))?;
        let mut request = Request::builder().method(call.method).uri(uri).header(ACCEPT, call.accept);
        request = request.header(USER_AGENT, concat!("flowfabric-rust/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = call.bearer.as_ref().or(self.token.as_ref()) {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if let Some(id) = call.last_event_id {
            request = request.header("last-event-id", id);
        }
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(call.body.unwrap_or_default());
        let request = request.body(body).map_err(|error| not_sent(error.to_string()))?;
        self.client.request(request).await.map_err(|error| {
            let canceled = source::<hyper::Error>(&error).is_some_and(hyper::Error::is_canceled);
            match error.is_connect() || canceled {
                true => NoAnswer::NotSent(format!("{} cannot be reached: {}", self.address, deepest(&error))),
                false => self.lost(&error),
            }
        })
    }

    fn lost(&self, error: &dyn std::error::Error) -> NoAnswer {
        NoAnswer::Lost(format!("the connection to {} was lost: {}", self.address, deepest(error)))
    }
}

/// How long a caller that asked too much should wait.
fn retry_after(response: &Response<Incoming>) -> Duration {
    if response.status() != StatusCode::TOO_MANY_REQUESTS {
        return Duration::ZERO;
    }
    let seconds = response.headers().get(RETRY_AFTER_HEADER).and_then(|it| it.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(RETRY_AFTER)
}

/// The header that a token goes into.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let problem = "has characters that cannot be sent; give it as it was printed";
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| Error::invalid("token", problem))?;
    value.set_sensitive(true);
    Ok(value)
}

fn source<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// What is at the bottom of an error says the most.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl Thread {
    fn start() -> std::io::Result<Thread> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let run = move || {
            let _ = runtime.block_on(ended);
        };
        std::thread::Builder::new().name("flowfabric-http".to_owned()).spawn(run)?;
        Ok(Thread { handle, _end: end })
    }
}

/// A task that ends when nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Owned<T>(Option<JoinHandle<T>>);

impl<T> Future for Owned<T> {
    type Output = Option<T>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        waker: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        match &mut self.0 {
            Some(handle) => std::pin::Pin::new(handle).poll(waker).map(Result::ok),
            None => std::task::Poll::Ready(None),
        }
    }
}

impl<T> Owned<T> {
    /// Lets the task end by itself.
    pub fn let_go(mut self) {
        self.0 = None;
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

/// The bytes of an answer as they come.
pub(super) async fn more(body: &mut Incoming, into: &mut BytesMut) -> Result<bool, hyper::Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            into.extend_from_slice(&data);
            return Ok(true);
        }
    }
    Ok(false)
}
