//! A server that is asked to end.

use std::net::TcpStream;

use serde_json::json;

use crate::served::{Served, answer};

#[test]
fn a_server_that_leaves_says_so_first_and_serves_on_until_the_delay_is_over() {
    let mut served = Served::start(&["--drain-delay", "1h"]);
    assert_eq!(served.get("/readyz").status, 200);
    let worker = served.worker();
    let mut poll = served.poll(&worker);
    while served.metric("flowfabric_long_polls") == 0 {}

    served.ask_to_end();
    while served.get("/readyz").status == 200 {}
    assert_eq!(served.get("/readyz").json()["code"], "shutting_down");
    assert_eq!(served.get("/healthz").status, 200);
    let submitted = served.send("POST", "/v1/executions", json!({ "kind": "a", "lane": "elsewhere" }));
    assert_eq!(submitted.status, 201, "{submitted:?}");
    assert_eq!(served.metric("flowfabric_long_polls"), 1, "who waits goes on waiting");

    // The first may come before the process listens for it again.
    while served.process.try_wait().unwrap().is_none() {
        served.ask_to_end();
    }
    let polled = answer(&mut poll);
    assert_eq!((polled.status, polled.json()), (200, json!({ "tasks": [] })));
    assert!(served.wait().success());
    assert!(TcpStream::connect(served.address).is_err());
}

#[test]
fn without_a_delay_the_first_signal_ends_it_and_what_waits_is_answered() {
    let mut served = Served::start(&[]);
    let worker = served.worker();
    let mut poll = served.poll(&worker);
    while served.metric("flowfabric_long_polls") == 0 {}
    served.ask_to_end();
    assert_eq!(answer(&mut poll).json(), json!({ "tasks": [] }));
    assert!(served.wait().success());
}
