//! Callers that are slow, broken, gone, or many.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ff_server::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stand::Stand;

pub fn claim_request(worker: &str) -> String {
    let body = "{\"name\":\"tester\",\"wait_ms\":60000}";
    format!(
        "POST /v1/workers/{worker}/claim HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_head_or_body_that_does_not_come_is_not_waited_for() {
    let config = Config { read_timeout: Duration::from_millis(200), ..Config::default() };
    let stand = Stand::with(config).await;
    let mut silent = TcpStream::connect(stand.address).await.unwrap();
    silent.write_all(b"GET /healthz HT").await.unwrap();
    let mut bytes = Vec::new();
    silent.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&bytes));
    let mut slow = TcpStream::connect(stand.address).await.unwrap();
    let head = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-type: application/json\r\ncontent-length: 100\r\n\r\n{\"kind\"";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    slow.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(crate::stand::parse(&bytes).problem(), (408, "body_slow".into()));
}

#[tokio::test]
async fn nonsense_on_the_socket_harms_nobody() {
    let stand = Stand::new().await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(200_000));
    let many: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    for bytes in [b"\0\xff\xfe nonsense\r\n\r\n".to_vec(), long.into_bytes(), many.into_bytes()] {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        let _ = stream.write_all(&bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(stand.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn work_claimed_for_a_caller_that_has_gone_is_not_lost() {
    let stand = Stand::new().await;
    let worker = stand.worker().await;
    let mut gone = TcpStream::connect(stand.address).await.unwrap();
    gone.write_all(claim_request(&worker).as_bytes()).await.unwrap();
    let polls = || stand.server.app().live.long_polls.load(Ordering::Relaxed);
    while polls() == 0 {
        tokio::task::yield_now().await;
    }
    drop(gone);
    while polls() > 0 {
        tokio::task::yield_now().await;
    }
    stand.submit(json!({ "kind": "a" })).await;
    let tasks = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await;
    assert_eq!(tasks.len(), 1);
}

/// How many idle callers are tried here; the figure for ten thousand is in docs/performance.md.
const IDLE: usize = 500;

#[tokio::test]
async fn many_idle_polls_and_readers_end_with_the_server() {
    let stand = Stand::new().await;
    let worker = stand.worker().await;
    let live = || {
        let live = &stand.server.app().live;
        (live.long_polls.load(Ordering::Relaxed), live.streams.load(Ordering::Relaxed))
    };
    let mut open = Vec::new();
    for n in 0..IDLE {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        let request = match n % 2 {
            0 => claim_request(&worker),
            _ => "GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".to_owned(),
        };
        stream.write_all(request.as_bytes()).await.unwrap();
        open.push(stream);
    }
    while live() != (IDLE / 2, IDLE / 2) {
        tokio::task::yield_now().await;
    }
    assert_eq!(stand.get("/healthz").await.status, 200);
    assert!(stand.server.stop().await.drained);
    for mut stream in open {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200"));
    }
}
