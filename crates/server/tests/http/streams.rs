//! Live streams: events and output as they happen, and going on after a break.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stand::Stand;

/// A reader of server-sent events.
struct Reader {
    stream: TcpStream,
    text: String,
}

#[derive(Debug)]
struct Message {
    id: Option<String>,
    event: String,
    data: Value,
}

impl Reader {
    async fn open(stand: &Stand, path: &str, last: Option<&str>) -> Reader {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reader = Reader { stream, text: String::new() };
        while !reader.text.contains("\r\n\r\n") {
            reader.more().await;
        }
        assert!(reader.text.starts_with("HTTP/1.1 200"), "{}", reader.text);
        let end = reader.text.find("\r\n\r\n").unwrap();
        reader.text.drain(..end + 4);
        reader
    }

    async fn more(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).await.unwrap();
        assert!(count > 0, "the stream has ended: {}", self.text);
        self.text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }

    /// The next message that has data. Lines of chunk sizes are no lines of a message.
    async fn next(&mut self) -> Message {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    block.lines().find_map(|line| line.strip_prefix(name)).map(|it| it.trim().to_owned())
                };
                if let Some(data) = field("data:") {
                    let data = serde_json::from_str(&data).unwrap();
                    return Message { id: field("id:"), event: field("event:").unwrap(), data };
                }
                continue;
            }
            self.more().await;
        }
    }
}

#[tokio::test]
async fn events_come_as_they_happen_and_go_on_after_the_last_id() {
    let stand = Stand::new().await;
    let mut reader = Reader::open(&stand, "/v1/events?family=execution", None).await;
    let first = stand.submit(json!({ "kind": "a" })).await;
    let seen = reader.next().await;
    assert_eq!((seen.event.as_str(), &seen.data["execution"]), ("created", &json!(first)));
    drop(reader);
    let second = stand.submit(json!({ "kind": "b" })).await;
    let mut reader = Reader::open(&stand, "/v1/events?family=execution", seen.id.as_deref()).await;
    let next = reader.next().await;
    assert_eq!(next.data["execution"], json!(second));
    assert_eq!(next.data["cursor"], json!(next.id));
    let page = stand.get("/v1/events?start=beginning&limit=1000").await.good();
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let waiting = async { stand.get(&format!("/v1/events?cursor={cursor}&wait=10s")).await.good() };
    let (page, third) = tokio::join!(waiting, stand.submit(json!({ "kind": "c" })));
    assert_eq!(page["events"][0]["execution"], json!(third));
}

/// What watches one execution: its history first, then what happens to it, and nothing of others.
#[tokio::test]
async fn one_execution_is_watched_from_its_beginning_and_after_a_break() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a", "delay_ms": 3_600_000 })).await;
    let path = format!("/v1/executions/{id}/events");
    let mut reader = Reader::open(&stand, &path, None).await;
    let created = reader.next().await;
    assert_eq!((created.event.as_str(), &created.data["execution"]), ("created", &json!(id)));
    drop(reader);
    stand.submit(json!({ "kind": "another" })).await;
    stand.post(&format!("/v1/executions/{id}/cancel"), json!({ "cause": "enough" })).await.good();
    let mut reader = Reader::open(&stand, &path, created.id.as_deref()).await;
    let cancelled = reader.next().await;
    assert_eq!((cancelled.event.as_str(), &cancelled.data["execution"]), ("cancelled", &json!(id)));
}

#[tokio::test]
async fn output_comes_as_it_is_appended_and_ends_with_the_execution() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a" })).await;
    let worker = stand.worker().await;
    let task = stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let append = async |first: u64, text: &str| {
        let frames = json!([{ "kind": "text", "text": text }]);
        let body = json!({ "tasks": [{ "lease": task["lease"], "first": first, "frames": frames }] });
        let answer = stand.post("/v1/tasks/frames", body).await.good();
        assert_eq!(answer["outcomes"][0]["answer"]["next"], first + 1);
    };
    append(1, "one").await;
    let path = format!("/v1/executions/{id}/stream");
    let mut reader = Reader::open(&stand, &path, None).await;
    let one = reader.next().await;
    assert_eq!((one.id.as_deref(), &one.data["text"]), (Some("1:1"), &json!("one")));
    drop(reader);
    append(2, "two").await;
    let mut reader = Reader::open(&stand, &path, Some("1:1")).await;
    assert_eq!(reader.next().await.data["text"], "two");
    stand.post("/v1/tasks/complete", json!({ "tasks": [{ "lease": task["lease"] }] })).await.good();
    let closed = reader.next().await;
    assert_eq!((closed.event.as_str(), &closed.data["outcome"]), ("closed", &json!("completed")));
    assert_eq!(reader.next().await.data["state"], "completed");
    let page = stand.get(&format!("{path}?after=1")).await.good();
    assert_eq!((&page["next"], &page["frames"][0]["text"]), (&json!(3), &json!("two")));
    stand.send("GET", &path, None, &[("last-event-id", "")]).await.good();
    let wrong = stand.send("GET", &path, None, &[("last-event-id", "{}")]).await;
    assert_eq!((wrong.status, &wrong.json()["fields"][0]["field"]), (400, &json!("Last-Event-ID")));
}

#[tokio::test]
async fn output_of_an_attempt_is_superseded_by_the_next_attempt() {
    let stand = Stand::new().await;
    let id = stand.submit(json!({ "kind": "a", "policy": { "max_attempts": 2 } })).await;
    let worker = stand.worker().await;
    let path = format!("/v1/executions/{id}/stream");
    let claim = async || stand.claim(&worker, json!({ "name": "tester", "wait_ms": 5_000 })).await.remove(0);
    let append = async |task: &Value| {
        let frames = json!([{ "kind": "text", "text": "output" }]);
        let body = json!({ "tasks": [{ "lease": task["lease"], "first": 1, "frames": frames }] });
        stand.post("/v1/tasks/frames", body).await.good();
    };
    let superseded =
        async |query: &str| stand.get(&format!("{path}{query}")).await.good()["superseded"].clone();
    let first = claim().await;
    append(&first).await;
    assert_eq!(superseded("").await, false);
    let failed =
        json!({ "tasks": [{ "lease": first["lease"], "error": { "message": "no" }, "retry_after_ms": 0 }] });
    stand.post("/v1/tasks/fail", failed).await.good();
    let second = claim().await;
    assert_eq!(superseded("").await, true, "what there is comes from the attempt before");
    append(&second).await;
    assert_eq!((superseded("").await, superseded("?attempt=1").await), (json!(false), json!(true)));
    for (query, attempt) in [("", 1), ("?attempt=1", 1), ("?attempt=2", 2), ("?attempt=2&after=1:0", 1)] {
        let mut reader = Reader::open(&stand, &format!("{path}{query}"), None).await;
        let frame = reader.next().await;
        assert_eq!((frame.event.as_str(), &frame.data["attempt"]), ("frame", &json!(attempt)), "{query}");
    }
}
