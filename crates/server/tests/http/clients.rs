//! Callers that are slow, broken, gone, or many.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ff_core::registry::Role;
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
async fn a_head_that_is_too_large_is_refused_as_such_and_one_just_below_is_taken() {
    let stand = Stand::new().await;
    let ask = async |headers: String| {
        let request =
            format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    };
    let long = |bytes: usize| format!("x-long: {}\r\n", "y".repeat(bytes));
    let many = |count: usize| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    for (headers, status) in [
        (long(65 << 10), "HTTP/1.1 431"),
        (long(63 << 10), "HTTP/1.1 200"),
        // Host and connection are two of the hundred.
        (many(99), "HTTP/1.1 431"),
        (many(98), "HTTP/1.1 200"),
    ] {
        assert_eq!(ask(headers.clone()).await, status, "{} bytes", headers.len());
    }
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

#[tokio::test]
async fn who_asks_too_much_is_told_to_slow_down_whatever_tokens_it_makes_up() {
    let stand =
        Stand::with(Config { requests_per_second: 1, authentication: true, ..Config::default() }).await;
    let good = format!("Bearer {}", stand.token(Role::Viewer, &[]).await);
    let other = format!("Bearer {}", stand.token(Role::Viewer, &[]).await);
    let mut told = Vec::new();
    for n in 0..30 {
        let bearer = format!("Bearer ffk_made-up-{n}");
        let headers = [("authorization", bearer.as_str()), ("x-request-id", "mine")];
        let answer = stand.send("GET", "/v1/lanes", None, &headers).await;
        assert!(answer.head.to_lowercase().contains("x-request-id: mine"), "{}", answer.head);
        told.push(answer.problem());
    }
    assert!(told.contains(&(401, "unauthorized".into())), "{told:?}");
    assert!(told.iter().filter(|it| **it == (429, "rate_limited".into())).count() > 10, "{told:?}");
    let own = stand.send("GET", "/v1/lanes", None, &[("authorization", &good)]).await;
    assert_eq!(own.status, 200, "a good token counts for itself");
    let metrics = stand.send("GET", "/metrics", None, &[("authorization", &other)]).await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let counted = |line: &&str| line.contains("requests") && line.contains("429");
    assert!(text.lines().any(|line| counted(&line)), "{text}");
}

#[tokio::test]
async fn every_answer_has_an_id_and_large_ones_are_compressed_for_who_wants_it() {
    let stand = Stand::new().await;
    let id = |head: &str| {
        let head = head.to_lowercase();
        head.lines().find_map(|line| line.strip_prefix("x-request-id: ").map(str::to_owned))
    };
    let given = stand.send("GET", "/healthz", None, &[("x-request-id", "abc-1")]).await;
    assert_eq!(id(&given.head).as_deref(), Some("abc-1"));
    for unfit in ["", "a b", "x\"y", &"x".repeat(65)] {
        let made = stand.send("GET", "/healthz", None, &[("x-request-id", unfit)]).await;
        assert_eq!(id(&made.head).map(|id| id.len()), Some(16), "{unfit:?}: {}", made.head);
    }
    for path in ["/nowhere", "/v1/executions/x"] {
        assert!(id(&stand.get(path).await.head).is_some(), "{path}");
    }
    let plain = stand.get("/openapi.json").await;
    let packed = stand.send("GET", "/openapi.json", None, &[("accept-encoding", "gzip")]).await;
    assert!(packed.head.to_lowercase().contains("content-encoding: gzip"), "{}", packed.head);
    assert!(packed.body.len() * 4 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
}

#[tokio::test]
async fn who_does_not_read_its_answers_is_cut_off() {
    let config = Config { read_timeout: Duration::from_millis(300), ..Config::default() };
    let stand = Stand::with(config).await;
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";
    const COUNT: usize = 400;
    stream.write_all(request.repeat(COUNT).as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let answers = bytes.windows(12).filter(|it| *it == b"HTTP/1.1 200").count();
    assert!(answers < COUNT, "all {answers} answers were kept for it");
    assert_eq!(stand.get("/healthz").await.status, 200);
}

/// What is promised to end within five seconds, or with its own time, is waited for no longer than this, however busy the
/// machine is.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Revokes the only token.
async fn revoke(stand: &Stand) {
    let id = stand.engine.tokens().await.unwrap()[0].id.clone();
    stand.engine.revoke_token(&id, "test", "").await.unwrap();
}

#[tokio::test]
async fn a_stream_ends_when_the_token_of_its_reader_is_revoked() {
    let stand = Stand::guarded().await;
    let bearer = format!("Bearer {}", stand.token(Role::Operator, &[]).await);
    let headers = [("authorization", bearer.as_str())];
    let made = stand.send("POST", "/v1/executions", Some(json!({ "kind": "a" })), &headers).await.good();
    let output = format!("/v1/executions/{}/stream", made["id"].as_str().unwrap());
    let streams = async {
        while stand.server.app().live.streams.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        revoke(&stand).await;
    };
    // Nothing that is said has this in it: each is read to its end.
    let (events, output) =
        (stand.follow("/v1/events", &headers, "\0"), stand.follow(&output, &headers, "\0"));
    let all = tokio::time::timeout(ENDS_WITHIN, async { tokio::join!(events, output, streams) });
    let (events, output, ()) = all.await.expect("both streams end");
    assert!(events.starts_with("HTTP/1.1 200"), "{events}");
    assert!(output.starts_with("HTTP/1.1 200"), "{output}");
}

#[tokio::test]
async fn a_long_poll_ends_with_its_time_when_the_token_of_its_reader_is_revoked() {
    let config = Config { authentication: true, wait_max: Duration::from_secs(2), ..Config::default() };
    let stand = Stand::with(config).await;
    let bearer = format!("Bearer {}", stand.token(Role::Operator, &[]).await);
    let headers = [("authorization", bearer.as_str())];
    let made = stand.send("POST", "/v1/executions", Some(json!({ "kind": "a" })), &headers).await.good();
    let path = format!("/v1/executions/{}", made["id"].as_str().unwrap());
    let poll = format!("{path}?wait=60s");
    let refused = async {
        while stand.server.app().live.long_polls.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        revoke(&stand).await;
        loop {
            let answer = stand.send("GET", &poll, None, &headers).await;
            if answer.status != 200 {
                break answer.problem();
            }
        }
    };
    let poll = stand.send("GET", &poll, None, &headers);
    let both = tokio::time::timeout(ENDS_WITHIN, async { tokio::join!(poll, refused) });
    let (poll, refused) = both.await.expect("the poll ends");
    assert_eq!(poll.good()["state"], "waiting");
    assert_eq!(refused, (401, "unauthorized".to_owned()), "it is not asked again");
}
