//! A server on a free port, and a plain client for it.

use std::net::SocketAddr;
use std::sync::Arc;

use ff_core::name::Namespace;
use ff_core::registry::Role;
use ff_engine::registry::NewToken;
use ff_engine::{Engine, EngineConfig};
use ff_server::{Config, Running};
use ff_store::MemoryStore;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub struct Stand {
    pub store: MemoryStore,
    pub engine: Engine,
    pub server: Running,
    pub address: SocketAddr,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error}: {} {}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    /// The document of a request that worked.
    pub fn good(self) -> Value {
        let json = self.json();
        assert!((200..300).contains(&self.status), "{} {json}", self.status);
        json
    }

    /// Status and code of a problem.
    pub fn problem(&self) -> (u16, String) {
        assert!(self.head.contains("application/problem+json"), "{}", self.head);
        let json = self.json();
        assert_eq!(json["status"], self.status);
        assert_eq!(json["type"], format!("urn:flowfabric:problem:{}", json["code"].as_str().unwrap()));
        (self.status, json["code"].as_str().unwrap().to_owned())
    }
}

impl Stand {
    pub async fn new() -> Stand {
        Stand::with(Config::default()).await
    }

    /// A server whose callers need tokens.
    pub async fn guarded() -> Stand {
        Stand::with(Config { authentication: true, ..Config::default() }).await
    }

    pub async fn with(config: Config) -> Stand {
        let store = MemoryStore::new(1);
        let engine = Engine::start(Arc::new(store.another()), EngineConfig::default()).await.unwrap();
        Stand::on(store, engine, config).await
    }

    pub async fn on(store: MemoryStore, engine: Engine, config: Config) -> Stand {
        let config = Config { address: "127.0.0.1:0".parse().unwrap(), ..config };
        let server = ff_server::start(engine.clone(), config).await.unwrap();
        let address = server.address;
        Stand { store, engine, server, address }
    }

    pub async fn token(&self, role: Role, namespaces: &[&str]) -> String {
        let new = NewToken {
            name: format!("{role}-token").into(),
            role,
            namespaces: namespaces.iter().map(|it| Namespace::parse(it).unwrap()).collect(),
            see_payloads: false,
            expires_in_ms: None,
            actor: "test".into(),
            cause: "".into(),
        };
        self.engine.create_token(new).await.unwrap().1.reveal().to_owned()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[]).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body), &[]).await
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let body = body.map(|body| body.to_string());
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &body {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        self.raw(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes()).await
    }

    /// What a stream has said by the time a text has come, or by its end.
    pub async fn follow(&self, path: &str, headers: &[(&str, &str)], until: &str) -> String {
        let mut head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n");
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut said = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&said);
            if text.contains(until) {
                return text.into_owned();
            }
            if stream.read_buf(&mut said).await.unwrap() == 0 {
                return String::from_utf8(said).unwrap();
            }
        }
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub async fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        parse(&bytes)
    }

    /// A worker that is registered.
    pub async fn worker(&self) -> String {
        let worker = self.post("/v1/workers", json!({ "name": "tester" })).await.good();
        worker["id"].as_str().unwrap().to_owned()
    }

    /// Submits one and gives its id.
    pub async fn submit(&self, body: Value) -> String {
        self.post("/v1/executions", body).await.good()["id"].as_str().unwrap().to_owned()
    }

    /// Claims tasks.
    pub async fn claim(&self, worker: &str, body: Value) -> Vec<Value> {
        let claimed = self.post(&format!("/v1/workers/{worker}/claim"), body).await.good();
        claimed["tasks"].as_array().unwrap().clone()
    }
}

pub fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("an answer with a head");
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let rest = &bytes[end + 4..];
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        unchunked(rest)
    } else {
        rest.to_vec()
    };
    Answer { status, head, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = rest.windows(2).position(|it| it == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
        let Some(data) = rest.get(at + 2..at + 2 + size).filter(|_| size > 0) else { break };
        body.extend_from_slice(data);
        rest = &rest[at + 4 + size..];
    }
    body
}
