//! A server that is asked to end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

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

/// Somebody who has sent half a request, and is not waited for any longer than that.
#[test]
fn who_does_not_finish_within_the_grace_is_cut_off() {
    let mut served = Served::start(&["--grace", "100ms"]);
    let mut half = TcpStream::connect(served.address).unwrap();
    let head = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    write!(half, "{head}content-length: 1000\r\n\r\n{{").unwrap();
    // An answered request on another connection: the first one has been read meanwhile.
    assert_eq!(served.get("/healthz").status, 200);
    served.ask_to_end();
    let asked = Instant::now();
    assert!(served.wait().success());
    // Without the option it would be 20 seconds.
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    let mut rest = Vec::new();
    // Cut off or told that it took too long; never that it was done.
    let _ = half.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 2"), "{rest:?}");
}

#[test]
fn a_server_takes_no_more_connections_than_it_may_and_goes_on_when_one_ends() {
    let served = Served::start(&["--connections-max", "2"]);
    let worker = served.worker();
    let poll = served.poll(&worker);
    let mut second = TcpStream::connect(served.address).unwrap();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"}") {
            let mut piece = [0; 1024];
            let read = stream.read(&mut piece).unwrap();
            assert_ne!(read, 0, "the connection stays");
            said.extend_from_slice(&piece[..read]);
        }
    };
    ask(&mut second);
    let mut third = served.open("GET", "/healthz", "", "");
    // However slow the server is, in the time of so many answers it would have given one to the third, too.
    (0..200).for_each(|_| ask(&mut second));
    third.set_nonblocking(true).unwrap();
    assert_eq!(third.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    third.set_nonblocking(false).unwrap();
    drop((poll, second));
    assert_eq!(answer(&mut third).status, 200);
}
