//! What only a link over HTTP has: addresses, tokens, other versions, and connections that break.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod background;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use background::start;
use ff_scratch::Proxy;
use flowfabric::{
    Context, EventFilter, ExecutionId, Fabric, Family, Filter, LaneSettings, Options, Output, PublicState,
    Run, Start, Submission, Worker, connect, connect_with,
};
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;

/// A fabric in this process and the address of a server on it, which ends with the test.
async fn served(config: ff_server::Config) -> (Fabric, ff_server::Running) {
    let fabric = connect("memory:").await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ff_server::Config { address, ..config };
    let server = ff_server::start(fabric.engine().unwrap().clone(), config).await.unwrap();
    (fabric, server)
}

/// A fabric in this process, and the same through a server and a proxy that breaks.
async fn through_a_proxy() -> (Fabric, Fabric, Arc<Proxy>, ff_server::Running) {
    let (local, server) = served(ff_server::Config::default()).await;
    let proxy = Arc::new(Proxy::start(server.address).unwrap());
    let remote = connect(&format!("http://127.0.0.1:{}", proxy.port())).await.unwrap();
    (local, remote, proxy, server)
}

/// A server that answers everything with one document.
fn answers(document: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let _ = write!(stream, "{head}content-length: {}\r\n\r\n{document}", document.len());
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_the_token_is_not() {
    // Nobody listens there, and nobody else can while the socket has it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let free = socket.local_addr().unwrap();
    let options = Options::new().token("ff_secret").retry_for(Duration::ZERO);
    assert!(!format!("{options:?}").contains("ff_secret"));
    let error = connect_with(&format!("http://{free}"), options).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("unavailable", true));
    assert!(error.to_string().contains(&free.to_string()), "{error}");
    assert!(!format!("{error} {error:?}").contains("ff_secret"));
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused_and_not_shown() {
    let config = ff_server::Config { authentication: true, ..ff_server::Config::default() };
    let (_local, server) = served(config).await;
    let url = format!("http://{}", server.address);
    assert_eq!(connect(&url).await.unwrap_err().code(), "unauthorized");
    let error = connect_with(&url, Options::new().token("ff_secret")).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("unauthorized", false));
    assert!(!format!("{error} {error:?}").contains("ff_secret"));
    let error = connect_with(&url, Options::new().token("two\nlines")).await.unwrap_err();
    assert_eq!(error.field(), Some("token"));
}

#[tokio::test]
async fn a_server_of_another_version_is_refused_with_both_versions() {
    let address = answers(
        r#"{"version":"9.9.9","records":99,"server":"x","store":"memory","now":"2026-01-01T00:00:00Z",
            "authentication":false,"role":"admin"}"#,
    );
    let error = connect(&format!("http://{address}")).await.unwrap_err();
    assert_eq!(error.code(), "other_version");
    assert!(error.to_string().contains("9.9.9") && error.to_string().contains("99"), "{error}");
}

/// An authority and a certificate of its for this machine, made by the `openssl` that PostgreSQL's package brings.
fn certificates(folder: &Path) {
    std::fs::write(folder.join("extension"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let request = "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server";
    let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 \
                -extfile extension";
    for arguments in
        ["req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca", request, sign]
    {
        let done = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[tokio::test]
async fn a_server_with_tls_is_believed_by_its_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name);
    let tls = ff_server::Tls { certificate: path("server.pem"), key: path("server.key") };
    let (_local, server) = served(ff_server::Config { tls: Some(tls), ..ff_server::Config::default() }).await;
    let url = format!("https://{}", server.address);

    let remote = connect_with(&url, Options::new().ca_file(path("ca.pem"))).await.unwrap();
    assert!(!remote.submit("charge", &1).await.unwrap().existing());

    let stranger = connect_with(&url, Options::new().retry_for(Duration::ZERO)).await.unwrap_err();
    assert!(stranger.to_string().to_lowercase().contains("certificate"), "{stranger}");
    let missing = connect_with(&url, Options::new().ca_file(path("nothing.pem"))).await.unwrap_err();
    assert_eq!(missing.field(), Some("ca_file"));
    let empty = connect_with(&url, Options::new().ca_file(path("extension"))).await.unwrap_err();
    assert!(empty.to_string().contains("no certificate in it"), "{empty}");
}

#[tokio::test]
async fn a_fabric_that_was_shut_down_says_so_and_the_server_goes_on() {
    let (local, server) = served(ff_server::Config::default()).await;
    let remote = connect(&format!("http://{}", server.address)).await.unwrap();
    assert!(remote.engine().is_none());
    let run = remote.submit("charge", &1).await.unwrap();
    let waiting = {
        let remote = remote.clone();
        tokio::spawn(async move { remote.wait(run.id()).await.map(drop) })
    };
    remote.shutdown(Duration::ZERO).await;
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "shutting_down");
    assert_eq!(remote.submit("charge", &2).await.unwrap_err().code(), "shutting_down");
    assert_eq!(local.count(&Filter::default()).await.unwrap().count, 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again_and_nothing_is_made_twice() {
    let (local, remote, proxy, _server) = through_a_proxy().await;
    for n in 0..40 {
        // In the head, in the body, before the first byte, and not at all.
        proxy.cut_after_to_client([1, 40, 150, 400, 10_000][n % 5]);
        let run = remote.submit("charge", &n).await.unwrap();
        assert_eq!(remote.get(run.id()).await.unwrap().id, run.id());
    }
    proxy.heal();
    for n in 0..10 {
        proxy.swallow_answers();
        let batch = (0..5).map(|m| Submission::new("charge", &(n * 5 + m))).collect();
        assert!(remote.submit_many(batch).await.iter().all(Result::is_ok));
    }
    assert_eq!(local.count(&Filter::default()).await.unwrap().count, 90);
}

#[tokio::test]
async fn a_wait_outlives_a_server_that_is_away_for_a_moment() {
    let (local, remote, proxy, server) = through_a_proxy().await;
    let run = remote.submit("charge", &1).await.unwrap();
    let waiting = {
        let run = run.clone();
        tokio::spawn(async move { run.wait().await.map(|ended| ended.execution.public_state()) })
    };
    while server.app().live.long_polls.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    proxy.refuse_new();
    proxy.cut();
    local.cancel(run.id()).await.unwrap();
    proxy.heal();
    assert_eq!(waiting.await.unwrap(), Ok(PublicState::Cancelled));
}

#[tokio::test]
async fn a_claim_that_no_other_follows_is_confirmed() {
    let (local, server) = served(ff_server::Config::default()).await;
    let remote = connect(&format!("http://{}", server.address)).await.unwrap();
    let told = LaneSettings { renewed_events: Some(true), ..LaneSettings::default() };
    local.lane("default").set(told).await.unwrap();
    let families = vec![Family::Lease];
    let filter = EventFilter { families, ..EventFilter::default() };
    let mut events = local.events(filter, Start::Now).await.unwrap();
    let hold = Worker::new(&remote).concurrency(1).on("hold", |ctx: Context, (): ()| async move {
        ctx.cancelled().await;
        Ok(())
    });
    let worker = start(hold);
    let run = remote.submit("hold", &()).await.unwrap();
    // Long before the lease needs it: the worker has no room to ask for more, and says so instead.
    let seen = loop {
        let seen = events.next().await.unwrap().event;
        if seen.fact.word() == "lease_renewed" {
            break seen;
        }
    };
    assert_eq!(seen.execution, Some(run.id()));
    run.cancel_within(Duration::from_secs(60)).await.unwrap();
    run.wait().await.unwrap();
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_connections_break_loses_nothing_and_ends_nothing_twice() {
    const COUNT: usize = 200;
    let (local, remote, proxy, _server) = through_a_proxy().await;
    let handled = Arc::new(AtomicUsize::new(0));
    let worker = {
        let (handled, proxy) = (handled.clone(), proxy.clone());
        Worker::new(&remote).concurrency(16).on("double", move |_: Context, n: u64| {
            // Every tenth handler breaks everything that is under way.
            match handled.fetch_add(1, Ordering::SeqCst) {
                n if n % 20 == 0 => proxy.cut(),
                n if n % 10 == 0 => proxy.swallow_answers(),
                _ => {}
            }
            async move { Ok(n * 2) }
        })
    };
    let worker = start(worker);
    let work = (0..COUNT).map(|n| Submission::new("double", &n)).collect();
    let runs: Vec<Run> = local.submit_many(work).await.into_iter().map(Result::unwrap).collect();
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(run.result::<usize>().await, Ok(n * 2));
    }
    proxy.heal();
    let completed = Filter { states: vec![PublicState::Completed], ..Filter::default() };
    assert_eq!(local.count(&completed).await.unwrap().count, COUNT as u64);
    worker.stop().await;
    let once: BTreeMap<ExecutionId, usize> = runs.iter().map(|run| (run.id(), 1)).collect();
    assert_eq!(endings(&local).await, once);
}

/// How often each execution has ended, by the event log up to now.
async fn endings(fabric: &Fabric) -> BTreeMap<ExecutionId, usize> {
    let mut events = fabric.events(EventFilter::default(), Start::Beginning).await.unwrap();
    let last = fabric.submit("last", &()).await.unwrap().id();
    let mut endings = BTreeMap::new();
    loop {
        let event = events.next().await.unwrap().event;
        match event.execution {
            Some(id) if id == last => return endings,
            Some(id) if event.fact.ends() => *endings.entry(id).or_default() += 1,
            _ => {}
        }
    }
}

#[tokio::test]
async fn events_over_a_connection_that_breaks_come_exactly_once() {
    let (local, remote, proxy, _server) = through_a_proxy().await;
    let mut events = remote.events(EventFilter::default(), Start::Now).await.unwrap();
    // Each connection breaks before the next event happens: nothing that is still to come was read ahead.
    for n in 0..30 {
        // Every other time it happens while there is no connection.
        if n % 2 == 1 {
            proxy.refuse_new();
        }
        proxy.cut();
        let submitted = local.submit("charge", &n).await.unwrap().id();
        proxy.heal();
        assert_eq!(events.next().await.unwrap().event.execution, Some(submitted));
    }
    let cursor = events.cursor().clone();
    let last = local.submit("charge", &30).await.unwrap().id();
    let mut again = remote.events(EventFilter::default(), Start::After(cursor)).await.unwrap();
    assert_eq!(again.next().await.unwrap().event.execution, Some(last));
}

#[tokio::test]
async fn output_over_a_connection_that_breaks_comes_exactly_once() {
    let (local, remote, proxy, _server) = through_a_proxy().await;
    let turns = Arc::new(Semaphore::new(0));
    let taken = turns.clone();
    let worker = start(Worker::new(&local).on("count", move |ctx: Context, count: u32| {
        let turns = taken.clone();
        async move {
            for n in 0..count {
                turns.acquire().await.unwrap().forget();
                ctx.emit_json("number", &n).await?;
            }
            Ok(())
        }
    }));
    let run = remote.submit("count", &20).await.unwrap();
    let here = local.run(run.id());
    let (mut tail, mut tail_here) = (run.tail(None).await.unwrap(), here.tail(None).await.unwrap());
    // Each connection breaks before the next frame is made: nothing that is still to come was read ahead.
    for n in 0..20 {
        // Every other time it is made while there is no connection.
        if n % 2 == 1 {
            proxy.refuse_new();
        }
        proxy.cut();
        turns.add_permits(1);
        assert_eq!(number(tail_here.next().await.unwrap()), Some(n));
        proxy.heal();
        assert_eq!(number(tail.next().await.unwrap()), Some(n));
    }
    let mut left = Vec::new();
    while let Some(output) = tail.next().await.unwrap() {
        left.push(number(Some(output)));
    }
    assert_eq!(left, [None, None], "its attempt has ended, and so has the execution");
    worker.stop().await;
}

/// The number that a frame carries.
fn number(output: Option<Output>) -> Option<u32> {
    match output {
        Some(Output::Frame(frame)) => Some(serde_json::from_slice(&frame.bytes).unwrap()),
        _ => None,
    }
}

/// Passes connections on to a server, and counts them.
fn counting(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            let (near, far) = (near.unwrap(), std::net::TcpStream::connect(server).unwrap());
            for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                let (mut from, mut to) = (from.unwrap(), to.unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (address, count)
}

#[tokio::test]
async fn a_hundred_calls_one_after_the_other_need_few_connections() {
    let (_local, server) = served(ff_server::Config::default()).await;
    let (address, count) = counting(server.address);
    let remote = connect(&format!("http://{address}")).await.unwrap();
    for n in 0..50 {
        let run = remote.submit("charge", &n).await.unwrap();
        assert_eq!(remote.get(run.id()).await.unwrap().id, run.id());
    }
    let used = count.load(Ordering::Relaxed);
    assert!((1..=4).contains(&used), "{used} connections for a hundred calls");
}
