//! The proxy before a server that sends back what it gets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::*;

/// The server tells what each connection asked, in whole, when the connection ends.
fn echo() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, hears) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = heard.clone();
            std::thread::spawn(move || {
                let _ = heard.send(serve(stream));
            });
        }
    });
    (address, hears)
}

fn serve(mut stream: TcpStream) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        all.extend(&buffer[..count]);
        // A client that has gone still asked.
        let _ = stream.write_all(&buffer[..count]);
    }
    all
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes())?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer).unwrap())
}

/// The connection ended; it was not just silent for long.
#[track_caller]
fn assert_broken(result: std::io::Result<String>) {
    let kind = result.unwrap_err().kind();
    let broken = [
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
        ErrorKind::NotConnected,
    ];
    assert!(broken.contains(&kind), "{kind:?}");
}

#[test]
fn what_goes_in_comes_out_and_the_end_is_passed_on() {
    let (address, hears) = echo();
    let proxy = Proxy::start(address).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, "hello").unwrap(), "hello");
    stream.write_all(b" and bye").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, " and bye");
    assert_eq!(hears.recv().unwrap(), b"hello and bye");
}

#[test]
fn a_cut_breaks_what_is_open_and_nothing_else() {
    let (address, _hears) = echo();
    let proxy = Proxy::start(address).unwrap();
    let (mut one, mut two) = (connect(&proxy), connect(&proxy));
    assert_eq!(ask(&mut one, "a").unwrap(), "a");
    assert_eq!(ask(&mut two, "b").unwrap(), "b");
    proxy.cut();
    assert_broken(ask(&mut one, "a"));
    assert_broken(ask(&mut two, "b"));
    assert_eq!(proxy.connections(), 0);
    assert_eq!(ask(&mut connect(&proxy), "c").unwrap(), "c");
}

#[test]
fn new_connections_are_refused_until_it_is_healed() {
    let (address, _hears) = echo();
    let proxy = Proxy::start(address).unwrap();
    let mut old = connect(&proxy);
    assert_eq!(ask(&mut old, "a").unwrap(), "a");
    proxy.refuse_new();
    assert_broken(ask(&mut connect(&proxy), "b"));
    assert_eq!(ask(&mut old, "c").unwrap(), "c");
    proxy.heal();
    assert_eq!(ask(&mut connect(&proxy), "d").unwrap(), "d");
}

#[test]
fn a_swallowed_answer_was_asked_for_all_the_same() {
    let (address, hears) = echo();
    let proxy = Proxy::start(address).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, "first.").unwrap(), "first.");
    proxy.swallow_answers();
    assert_broken(ask(&mut stream, "second"));
    assert_eq!(hears.recv().unwrap(), b"first.second");
    assert_eq!(ask(&mut connect(&proxy), "third").unwrap(), "third");
}

#[test]
fn a_delay_holds_every_piece_back_and_a_cut_ends_it() {
    let (address, _hears) = echo();
    let proxy = Proxy::start(address).unwrap();
    let mut stream = connect(&proxy);
    proxy.delay(Duration::from_millis(30));
    let started = Instant::now();
    assert_eq!(ask(&mut stream, "a").unwrap(), "a");
    assert!(started.elapsed() >= Duration::from_millis(60), "{:?}", started.elapsed());
    // Longer than the reader's patience: only the cut can end it.
    proxy.delay(Duration::from_secs(3600));
    stream.write_all(b"b").unwrap();
    proxy.cut();
    assert_broken(ask(&mut stream, "c"));
}

#[test]
fn a_cut_after_some_bytes_lets_exactly_these_through() {
    let (address, hears) = echo();
    let proxy = Proxy::start(address).unwrap();
    let mut stream = connect(&proxy);
    proxy.cut_after_to_server(4);
    assert_eq!(ask(&mut stream, "abc").unwrap(), "abc");
    assert_broken(ask(&mut stream, "defg"));
    assert_eq!(hears.recv().unwrap(), b"abcd");

    let mut stream = connect(&proxy);
    proxy.cut_after_to_client(2);
    stream.write_all(b"xyz").unwrap();
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    assert_eq!(got, b"xy");
    assert_eq!(hears.recv().unwrap(), b"xyz");
    assert_eq!(ask(&mut connect(&proxy), "again").unwrap(), "again");
}
