//! A receiver of deliveries.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONNECTION;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::serve::Listener;
use ff_api::webhook::DeliveryDoc;
use ff_core::base64;
use ff_core::commands::SetWebhook;
use ff_core::event::Family;
use ff_core::suspension::token::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub const SECRET: Secret = Secret([7; 32]);

/// One request that arrived.
pub struct Request {
    pub path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// The lanes whose changes it tells, in order.
    pub fn lanes(&self) -> Vec<String> {
        let doc: DeliveryDoc = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(doc.webhook, "hook");
        doc.events.into_iter().map(|event| event.lane.unwrap()).collect()
    }

    pub fn is_signed_with(&self, secret: &Secret) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).unwrap();
        mac.update(format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp")).as_bytes());
        mac.update(&self.body);
        let signature =
            base64::decode(self.header("webhook-signature").strip_prefix("v1,").unwrap()).unwrap();
        mac.verify_slice(&signature).is_ok()
    }
}

/// How deliveries are answered.
#[derive(Default)]
struct Answer {
    status: StatusCode,
    /// What only the next one is answered with.
    once: Option<StatusCode>,
    /// What is answered at another path.
    elsewhere: Option<(String, StatusCode)>,
    /// The version of answers after each of which the connection is closed.
    closing: Option<Version>,
}

/// Takes deliveries and answers as the test says.
pub struct Receiver {
    pub address: SocketAddr,
    pub requests: mpsc::UnboundedReceiver<Request>,
    answer: Arc<Mutex<Answer>>,
}

type Shared = (mpsc::UnboundedSender<Request>, Arc<Mutex<Answer>>);

async fn receive(
    State((arrived, answer)): State<Shared>,
    uri: axum::http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    arrived.send(Request { path: uri.to_string(), headers, body }).unwrap();
    let mut answer = answer.lock().unwrap();
    let elsewhere =
        answer.elsewhere.as_ref().filter(|(path, _)| uri.path() == path).map(|(_, status)| *status);
    let status = elsewhere.or_else(|| answer.once.take()).unwrap_or(answer.status);
    let mut response = (status, [("location", "/elsewhere")]).into_response();
    if let Some(version) = answer.closing {
        *response.version_mut() = version;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Receiver {
    pub async fn start() -> Receiver {
        Receiver::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Takes what comes through a listener.
    pub fn on(listener: impl Listener<Addr = SocketAddr>) -> Receiver {
        let address = listener.local_addr().unwrap();
        let (arrived, requests) = mpsc::unbounded_channel();
        let answer = Arc::<Mutex<Answer>>::default();
        let app = axum::Router::new().fallback(any(receive)).with_state((arrived, answer.clone()));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Receiver { address, requests, answer }
    }

    pub fn answer_with(&self, status: u16) {
        self.answer.lock().unwrap().status = StatusCode::from_u16(status).unwrap();
    }

    /// Answers deliveries to this path with another status.
    pub fn answer_at(&self, path: &str, status: u16) {
        let status = StatusCode::from_u16(status).unwrap();
        self.answer.lock().unwrap().elsewhere = Some((path.to_owned(), status));
    }

    /// Answers the next delivery with another status than those after it.
    pub fn answer_once_with(&self, status: u16) {
        self.answer.lock().unwrap().once = Some(StatusCode::from_u16(status).unwrap());
    }

    /// Closes the connection after each answer, which is of this version.
    pub fn close_after_answers_of(&self, version: Version) {
        self.answer.lock().unwrap().closing = Some(version);
    }

    pub async fn next(&mut self) -> Request {
        self.requests.recv().await.unwrap()
    }

    /// Reads deliveries until so many lanes were told.
    pub async fn lanes(&mut self, count: usize) -> Vec<String> {
        let mut lanes = Vec::new();
        while lanes.len() < count {
            lanes.extend(self.next().await.lanes());
        }
        lanes
    }

    pub fn hook(&self) -> SetWebhook {
        SetWebhook {
            id: "hook".into(),
            url: format!("http://{}/in?key=1", self.address).into(),
            secret: Some(SECRET),
            first_secret: None,
            families: vec![Family::Operator],
            namespace: None,
            lane: None,
            facts: vec!["lane_changed".into()],
            paused: false,
            begin: None,
            actor: "ada".into(),
            cause: "test".into(),
        }
    }
}
