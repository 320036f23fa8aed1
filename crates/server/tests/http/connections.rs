//! Connections: those that never speak, and those that are open when the server stops.

use std::process::Command;
use std::time::{Duration, Instant};

use ff_server::{Config, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stand::{Stand, parse};

/// Reads until a text has come.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(text) {
        let byte = stream.read_u8().await.unwrap_or_else(|error| {
            panic!("{error} before {text:?}, after {:?}", String::from_utf8_lossy(&read))
        });
        read.push(byte);
    }
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn who_never_speaks_tls_is_not_waited_for_longer_than_agreeing_on_it_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost -days 2";
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(&folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = |name: &str| folder.path().join(name);
    let tls = Some(Tls { certificate: path("cert.pem"), key: path("key.pem") });
    let handshake_timeout = Duration::from_millis(100);
    let stand = Stand::with(Config { tls, handshake_timeout, ..Config::default() }).await;
    let started = Instant::now();
    let mut silent = TcpStream::connect(stand.address).await.unwrap();
    let mut bytes = Vec::new();
    silent.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes.is_empty());
    let took = started.elapsed();
    assert!(handshake_timeout <= took && took < Config::default().read_timeout, "{took:?}");
}

#[tokio::test]
async fn a_request_that_is_half_sent_when_the_server_stops_is_answered_and_idle_connections_are_closed() {
    let stand = Stand::new().await;
    let mut idle = TcpStream::connect(stand.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    read_until(&mut idle, r#"{"status":"ok"}"#).await;

    let mut busy = TcpStream::connect(stand.address).await.unwrap();
    let (first, second) = (r#"{"kind": "#, r#""half"}"#);
    let head = format!(
        "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        first.len() + second.len()
    );
    busy.write_all(head.as_bytes()).await.unwrap();
    // That it is asked to go on says that the body is being read.
    read_until(&mut busy, "100 Continue\r\n\r\n").await;
    busy.write_all(first.as_bytes()).await.unwrap();

    let Stand { server, engine, .. } = stand;
    let stopping = tokio::spawn(server.stop());
    // That this one is closed says that the server has begun to stop.
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap(), 0);
    busy.write_all(second.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    busy.read_to_end(&mut answer).await.unwrap();
    let answer = parse(&answer);
    assert_eq!(answer.status, 201, "{}", answer.json());
    assert!(stopping.await.unwrap().drained);
    let id = answer.json()["id"].as_str().unwrap().parse().unwrap();
    assert!(engine.get(id).await.unwrap().is_some(), "what was answered is stored");
}
