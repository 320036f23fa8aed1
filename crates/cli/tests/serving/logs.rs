//! What the log says, and where spans go.

use serde_json::{Value, json};

use crate::served::{Served, answer};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Sends a request as a part of a trace.
fn within_a_trace(served: &Served, id: &str) -> Value {
    let headers = format!("x-request-id: {id}\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    let body = json!({ "kind": "a" }).to_string();
    answer(&mut served.open("POST", "/v1/executions", &headers, &body)).json()
}

#[test]
fn lines_are_joined_by_the_ids_of_request_trace_and_execution() {
    let mut served = Served::start_logged(&["--log", "debug", "--log-format", "json"]);
    let id = within_a_trace(&served, "first-of-all")["id"].as_str().unwrap().to_owned();
    let worker = served.worker();
    let body = json!({ "name": "tester", "wait_ms": 60_000 }).to_string();
    let headers = "x-request-id: second\r\n";
    let claim = format!("/v1/workers/{worker}/claim");
    let claimed = answer(&mut served.open("POST", &claim, headers, &body)).json();
    let lease = json!({ "execution": id, "attempt": 1, "epoch": claimed["tasks"][0]["lease"]["epoch"] });
    let done = served.send("POST", "/v1/tasks/complete", json!({ "tasks": [{ "lease": lease }] }));
    assert_eq!(done.json()["outcomes"][0]["problem"], Value::Null, "{done:?}");
    served.ask_to_end();
    assert!(served.wait().success());

    let lines: Vec<Value> = served.log().lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    let spans = |line: &Value| line["spans"].as_array().cloned().unwrap_or_default();
    let of_first = |it: &Value| it["request_id"] == "first-of-all";
    let answered = lines.iter().find(|it| it["message"] == "answered" && of_first(&it["span"])).unwrap();
    assert_eq!((&answered["status"], &answered["path"]), (&json!(201), &json!("/v1/executions")));
    let request = &spans(answered)[0];
    assert_eq!((&request["route"], &request["actor"]), (&json!("/v1/executions"), &json!("local")));
    assert_eq!(request["trace_id"], TRACE);

    let claimed = lines.iter().find(|it| it["message"] == "claimed" && it["execution"] == *id).unwrap();
    assert_eq!((&claimed["worker"], &claimed["attempt"]), (&json!("tester"), &json!(1)));
    assert_eq!(claimed["instance"], *worker);
    assert!(spans(claimed).iter().any(|it| it["request_id"] == "second"), "{claimed}");
    let ended = lines.iter().find(|it| it["message"] == "ended" && it["execution"] == *id).unwrap();
    assert_eq!(ended["state"], "completed");
}

#[test]
fn what_is_not_asked_for_is_not_logged() {
    let mut served = Served::start_logged(&[]);
    within_a_trace(&served, "silent");
    served.ask_to_end();
    assert!(served.wait().success());
    assert_eq!(served.log(), "");
}

#[test]
fn the_most_talkative_log_has_no_token_in_it() {
    let mut served = Served::start_logged(&["--log", "trace", "--log-format", "json"]);
    within_a_trace(&served, "first");
    let worker = served.worker();
    let claimed = answer(&mut served.poll(&worker)).json();
    let lease = claimed["tasks"][0]["lease"].clone();
    let open = json!({ "lease": lease, "waitpoint": { "name": "approved" } });
    let opened = served.send("POST", "/v1/tasks/waitpoint", open).json();
    let (token, waitpoint) = (opened["token"].as_str().unwrap(), opened["waitpoint"].as_str().unwrap());
    let made = served.send("POST", "/v1/tokens", json!({ "name": "ops", "role": "admin" })).json();
    let access = made["secret"].as_str().unwrap();

    // As it should be used, and in places where it should not stand.
    let signal = json!({ "payload": true }).to_string();
    let path = format!("/v1/waitpoints/{waitpoint}/signal");
    let statuses = [
        ("GET", format!("/w/{token}"), String::new(), ""),
        ("GET", format!("/w/{token}?again={token}"), String::new(), ""),
        ("POST", format!("/w/{token}"), String::new(), "decision=approve&source=ada"),
        ("POST", path.clone(), format!("authorization: Bearer {token}\r\n"), &*signal),
        ("POST", path, format!("authorization: Bearer {token}0\r\n"), &*signal),
        ("POST", format!("/v1/waitpoints/{token}/signal"), String::new(), &*signal),
        ("GET", format!("/v1/executions/{token}"), String::new(), ""),
        ("GET", format!("/v1/executions?cursor={token}"), String::new(), ""),
        ("POST", "/v1/executions".to_owned(), String::new(), token),
        ("GET", "/v1/lanes".to_owned(), format!("authorization: Bearer {access}\r\n"), ""),
        ("GET", "/v1/lanes".to_owned(), format!("authorization: Bearer {access}0\r\n"), ""),
        ("GET", format!("/nowhere/{access}"), String::new(), ""),
    ]
    .map(|(method, path, headers, body)| answer(&mut served.open(method, &path, &headers, body)).status);
    assert!(statuses.contains(&200) && statuses.iter().all(|it| *it < 500), "{statuses:?}");
    let lists: String = ["/v1/events?start=beginning&limit=1000", "/v1/waitpoints", "/v1/tokens", "/metrics"]
        .map(|path| served.get(path).body)
        .concat();
    served.ask_to_end();
    assert!(served.wait().success());

    let log = served.log();
    assert!(log.lines().count() > 20, "it was talkative: {log}");
    let (_, mac) = token.rsplit_once('.').unwrap();
    for secret in [mac, access, &access[access.len() - 16..]] {
        for (place, text) in [("the log", &log), ("a list", &lists)] {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{place} has a secret in it");
        }
    }
}

/// Everything is sent before the process is gone, so nothing is waited for that may never come: then somebody knocks who
/// is no exporter.
#[cfg(feature = "otel")]
#[test]
fn spans_reach_a_collector_within_the_trace_of_the_caller() {
    use std::net::{TcpListener, TcpStream};

    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    let endpoint = format!("http://{address}");
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let mut served = Served::start_with(&[], &variables);
    let collected = std::thread::spawn(move || {
        let mut bodies = Vec::new();
        for stream in collector.incoming() {
            match collect(stream.unwrap()) {
                Some(more) => bodies.extend(more),
                None => return bodies,
            }
        }
        unreachable!("a listener does not end")
    });
    within_a_trace(&served, "collected");
    served.ask_to_end();
    assert!(served.wait().success());
    drop(TcpStream::connect(address).unwrap());

    let trace: Vec<u8> = (0..16).map(|n| u8::from_str_radix(&TRACE[2 * n..2 * n + 2], 16).unwrap()).collect();
    let bodies = collected.join().unwrap();
    let holds = |body: &[u8], bytes: &[u8]| body.windows(bytes.len()).any(|it| it == bytes);
    let wants = [&trace[..], b"request", b"collected", b"/v1/executions"];
    let found = bodies.iter().any(|body| wants.iter().all(|want| holds(body, want)));
    assert!(found, "none of {} bodies holds the span of the request", bodies.len());
}

/// The bodies of the requests on a connection to a collector; none if there was not even one.
#[cfg(feature = "otel")]
fn collect(stream: std::net::TcpStream) -> Option<Vec<Vec<u8>>> {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let (mut stream, mut bodies) = (BufReader::new(stream), Vec::new());
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
                break;
            }
            head.push(line.to_lowercase());
        }
        let Some(first) = head.first() else { break };
        assert!(first.starts_with("post /v1/traces"), "{first}");
        let length = head.iter().find_map(|it| it.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        bodies.push(body);
    }
    (!bodies.is_empty()).then_some(bodies)
}
