//! Server-sent events: what happens, as it happens, to as many readers as there are.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ff_core::registry::SecretHash;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use crate::access::Caller;
use crate::app::App;

/// How often a silent stream says that it is still there.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often it is looked whether the token of a reader is still good.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// How many messages may wait for a slow reader before its source waits with them.
const AHEAD: usize = 64;

/// Where a reader was cut off. An empty id is none, as readers of event streams have it.
pub fn last_id(headers: &HeaderMap) -> Option<&str> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    last.filter(|id| !id.is_empty())
}

/// What a source of events writes into.
#[derive(Debug)]
pub struct Sink(mpsc::Sender<Bytes>);

impl Sink {
    /// Sends one event; `false` if nobody reads any more.
    pub async fn send(&self, id: Option<&str>, event: &str, data: &str) -> bool {
        let mut text = String::with_capacity(data.len() + event.len() + 64);
        if let Some(id) = id {
            text.push_str("id: ");
            text.push_str(id);
            text.push('\n');
        }
        text.push_str("event: ");
        text.push_str(event);
        text.push('\n');
        for line in data.split('\n') {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        self.0.send(text.into()).await.is_ok()
    }

    /// Says that the stream is there, and where a reader would go on.
    pub async fn keep_alive(&self, id: Option<&str>) -> bool {
        let text = match id {
            // An event without data moves the reader's place and is not shown to it.
            Some(id) => format!("id: {id}\n\n"),
            None => ":\n\n".to_owned(),
        };
        self.0.send(text.into()).await.is_ok()
    }
}

struct Events {
    app: Arc<App>,
    messages: mpsc::Receiver<Bytes>,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.messages.poll_recv(context).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.app.live.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns when a reader's token is not good any more. Whoever was let in without one may stay.
async fn is_shut_out(app: Arc<App>, token: Option<SecretHash>) {
    let Some(hash) = token else { return std::future::pending().await };
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        // While the store cannot be read there is nothing to see.
        if let Ok(None) = app.engine.token_with(&hash).await {
            return;
        }
    }
}

/// Answers with what `source` sends. It is stopped when the reader goes or may not read any more, or the server stops.
pub fn answer<F: Future<Output = ()> + Send + 'static>(
    app: &Arc<App>,
    caller: &Caller,
    source: impl FnOnce(Sink) -> F,
) -> Response {
    let (sender, messages) = mpsc::channel(AHEAD);
    app.live.streams.fetch_add(1, Ordering::Relaxed);
    let source = source(Sink(sender.clone()));
    let (stopping, shut_out) = (app.stopping(), is_shut_out(app.clone(), caller.token_hash()));
    tokio::spawn(async move {
        tokio::select! {
            () = source => {}
            () = sender.closed() => {}
            () = stopping => {}
            () = shut_out => {}
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, axum::body::Body::new(Events { app: app.clone(), messages })).into_response()
}
