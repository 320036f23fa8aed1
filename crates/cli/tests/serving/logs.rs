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

/// The bodies of requests to a collector, until one holds what is looked for.
#[cfg(feature = "otel")]
#[test]
fn spans_reach_a_collector_within_the_trace_of_the_caller() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let served = Served::start_with(&[], &variables);
    within_a_trace(&served, "collected");
    let trace: Vec<u8> = (0..16).map(|n| u8::from_str_radix(&TRACE[2 * n..2 * n + 2], 16).unwrap()).collect();
    for stream in collector.incoming() {
        let mut stream = BufReader::new(stream.unwrap());
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
            let holds = |bytes: &[u8]| body.windows(bytes.len()).any(|it| it == bytes);
            if holds(&trace) {
                assert!(holds(b"request") && holds(b"collected") && holds(b"/v1/executions"));
                return;
            }
        }
    }
}
