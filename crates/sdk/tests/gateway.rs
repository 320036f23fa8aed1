//! A gateway between SDK and server that answers for itself now and then.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod background;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use background::start;
use flowfabric::{
    Context, EventFilter, Fabric, Family, Filter, LaneSettings, NewToken, Options, PublicState, Role, Start,
    Worker, connect, connect_with,
};

/// What the gateway does with a request, by its first line and its body.
enum Turn {
    Forward,
    /// It answers for the server, with this status.
    Answer(&'static str),
    /// The server carries it out, and its answer is lost.
    Lose,
    /// The server carries it out, and the gateway answers with this status.
    Replace(&'static str),
    /// Nobody answers.
    Ignore,
}

/// A server, a fabric on its engine, and a gateway before it with one request a connection.
async fn behind(
    turn: impl Fn(&str, &[u8]) -> Turn + Send + Sync + 'static,
) -> (Fabric, ff_server::Running, String) {
    let local = connect("memory:").await.unwrap();
    let config =
        ff_server::Config { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..ff_server::Config::default() };
    let server = ff_server::start(local.engine().unwrap().clone(), config).await.unwrap();
    let (listener, turn, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(turn), server.address);
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, turn) = (client.unwrap(), turn.clone());
            std::thread::spawn(move || pass(client, to, &*turn));
        }
    });
    (local, server, url)
}

fn pass(client: TcpStream, to: SocketAddr, turn: &dyn Fn(&str, &[u8]) -> Turn) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let (mut head, mut length) = (Vec::<String>::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut client = client;
    let turn = turn(head.first()?, &body);
    let empty = "content-length: 0\r\nconnection: close";
    match turn {
        Turn::Answer(status) => return write!(client, "HTTP/1.1 {status}\r\n{empty}\r\n\r\n").ok(),
        // Until the client gives the connection up.
        Turn::Ignore => return std::io::copy(&mut reader, &mut std::io::sink()).ok().map(drop),
        _ => {}
    }
    let mut server = TcpStream::connect(to).ok()?;
    write!(server, "{}\r\nconnection: close\r\n\r\n", head.join("\r\n")).ok()?;
    server.write_all(&body).ok()?;
    match turn {
        Turn::Lose => std::io::copy(&mut server, &mut std::io::sink()).ok().map(drop),
        Turn::Replace(status) => {
            std::io::copy(&mut server, &mut std::io::sink()).ok()?;
            write!(client, "HTTP/1.1 {status}\r\n{empty}\r\n\r\n").ok()
        }
        _ => std::io::copy(&mut server, &mut client).ok().map(drop),
    }
}

#[tokio::test]
async fn a_confirmation_that_a_gateway_refuses_is_sent_again() {
    let confirmations = Arc::new(AtomicUsize::new(0));
    let counted = confirmations.clone();
    // The first meets a gateway that has no server at the moment, and so does until the second every question for news,
    // which would confirm as well.
    let (local, _server, url) = behind(move |line, body| {
        let beat: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let names_leases = beat["leases"].as_array().is_some_and(|it| !it.is_empty());
        let refused = match line.contains("/heartbeat") {
            true if !beat["wait_ms"].is_null() => counted.load(Ordering::SeqCst) < 2,
            true if names_leases => counted.fetch_add(1, Ordering::SeqCst) == 0,
            _ => false,
        };
        if refused { Turn::Answer("503 Service Unavailable") } else { Turn::Forward }
    })
    .await;
    let remote = connect(&url).await.unwrap();
    let told = LaneSettings { renewed_events: Some(true), ..LaneSettings::default() };
    local.lane("default").set(told).await.unwrap();
    let filter = EventFilter { families: vec![Family::Lease], ..EventFilter::default() };
    let mut events = local.events(filter, Start::Now).await.unwrap();
    let worker = start(Worker::new(&remote).concurrency(1).on("hold", |ctx: Context, (): ()| async move {
        ctx.cancelled().await;
        Ok(())
    }));
    let run = local.submit("hold", &()).await.unwrap();
    assert_eq!(events.next().await.unwrap().event.fact.word(), "lease_acquired");
    // The server takes back what is not confirmed within five seconds, long before the lease needs to be renewed.
    assert_eq!(events.next().await.unwrap().event.fact.word(), "lease_renewed");
    assert_eq!(confirmations.load(Ordering::SeqCst), 2, "the first was refused");
    run.cancel_within(Duration::from_secs(60)).await.unwrap();
    run.wait().await.unwrap();
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_that_takes_its_time_to_cancel_does_not_ask_without_end() {
    let beats = Arc::new(AtomicUsize::new(0));
    let counted = beats.clone();
    let (local, _server, url) = behind(move |line, _| {
        counted.fetch_add(usize::from(line.contains("/heartbeat")), Ordering::SeqCst);
        Turn::Forward
    })
    .await;
    let remote = connect(&url).await.unwrap();
    let worker = start(Worker::new(&remote).concurrency(2).on("hold", |ctx: Context, (): ()| async move {
        ctx.cancelled().await;
        std::future::pending::<()>().await;
        Ok(())
    }));
    let run = local.submit("hold", &()).await.unwrap();
    let mut watch = local.watch(run.id()).await.unwrap();
    while watch.next().await.unwrap().unwrap().public_state() != PublicState::Active {}
    let before = beats.load(Ordering::SeqCst);
    run.cancel_within(Duration::from_secs(2)).await.unwrap();
    let ended = run.wait().await.unwrap();
    assert_eq!(ended.execution.public_state(), PublicState::Cancelled);
    let asked = beats.load(Ordering::SeqCst) - before;
    assert!(asked <= 20, "{asked} heartbeats in two seconds");
    worker.stop().await;
}

#[tokio::test]
async fn a_replay_whose_answer_is_lost_is_not_repeated() {
    let replays = Arc::new(AtomicUsize::new(0));
    let counted = replays.clone();
    let (local, _server, url) = behind(move |line, _| {
        let replay = line.contains("/replay");
        counted.fetch_add(usize::from(replay), Ordering::SeqCst);
        if replay { Turn::Lose } else { Turn::Forward }
    })
    .await;
    let remote = connect(&url).await.unwrap();
    let run = local.submit("charge", &1).await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(remote.replay(run.id()).await.unwrap_err().code(), "outcome_unknown");
    assert_eq!(replays.load(Ordering::SeqCst), 1);
    assert_eq!(local.get(run.id()).await.unwrap().live.series.number, 2, "it was carried out");
}

#[tokio::test]
async fn a_subscription_whose_token_is_revoked_says_so() {
    let local = connect("memory:").await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ff_server::Config { address, authentication: true, ..ff_server::Config::default() };
    let server = ff_server::start(local.engine().unwrap().clone(), config).await.unwrap();
    let new = NewToken {
        name: "reader".to_owned(),
        role: Role::Viewer.word().to_owned(),
        namespaces: Vec::new(),
        see_payloads: false,
        expires_in_ms: None,
        actor: None,
        cause: None,
    };
    let (token, secret) = local.create_token(new).await.unwrap();
    let remote =
        connect_with(&format!("http://{}", server.address), Options::new().token(&secret)).await.unwrap();
    let mut events = remote.events(EventFilter::default(), Start::Now).await.unwrap();
    let run = local.submit("charge", &1).await.unwrap();
    let seen = events.next().await.unwrap();
    assert_eq!(seen.event.execution, Some(run.id()));
    local.revoke_token(&token.id, "ada", "left the team").await.unwrap();
    loop {
        match events.next().await {
            Ok(_) => {}
            Err(error) => break assert_eq!(error.code(), "unauthorized"),
        }
    }
    assert_eq!(events.next().await.unwrap_err().code(), "unauthorized", "it stays so");
}

/// What becomes of the first request to a path; all others are forwarded.
fn first_of(
    path: &'static str,
    turn: fn() -> Turn,
) -> (impl Fn(&str) -> Turn + Send + Sync, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let turns = move |line: &str| {
        let is_first = line.contains(path) && counted.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { turn() } else { Turn::Forward }
    };
    (turns, asked)
}

#[tokio::test]
async fn a_signal_without_a_key_is_not_sent_again_when_a_gateway_answers_for_the_server() {
    for status in
        ["408 Request Timeout", "500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable"]
    {
        let (turns, asked) = first_of("/signal ", || Turn::Forward);
        let (local, _server, url) = behind(move |line, _| match turns(line) {
            _ if line.contains("/signal ") => Turn::Replace(status),
            turn => turn,
        })
        .await;
        let remote = connect(&url).await.unwrap();
        let run = local.submit("ship", &1).await.unwrap();
        assert_eq!(remote.signal(run.id(), "paid").await.unwrap_err().code(), "outcome_unknown", "{status}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{status}");
        assert_eq!(run.signals().await.unwrap().len(), 1, "it was carried out");
    }
}

#[tokio::test]
async fn what_may_safely_be_repeated_is_repeated_when_a_gateway_answers_for_the_server() {
    let (turns, asked) = first_of("/signal ", || Turn::Replace("504 Gateway Timeout"));
    let (creations, created) = first_of("POST /v1/executions ", || Turn::Replace("502 Bad Gateway"));
    let (local, _server, url) = behind(move |line, _| match turns(line) {
        Turn::Forward => creations(line),
        turn => turn,
    })
    .await;
    let remote = connect(&url).await.unwrap();
    let run = remote.submit("ship", &1).await.unwrap();
    assert_eq!(created.load(Ordering::SeqCst), 2);
    remote.signal(run.id(), "paid").idempotency_key("transfer-1").await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let run = local.run(run.id());
    assert_eq!(run.signals().await.unwrap().len(), 1);
    assert_eq!(local.count(&Filter::default()).await.unwrap().count, 1);
}

#[tokio::test]
async fn what_would_have_an_effect_each_time_is_sent_again_if_a_gateway_has_not_passed_it_on() {
    let (turns, asked) = first_of("/signal ", || Turn::Answer("429 Too Many Requests"));
    let (local, _server, url) = behind(move |line, _| turns(line)).await;
    let remote = connect(&url).await.unwrap();
    let run = local.submit("ship", &1).await.unwrap();
    remote.signal(run.id(), "paid").await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(run.signals().await.unwrap().len(), 1);
}

#[tokio::test]
async fn tasks_whose_confirmation_is_not_answered_are_not_left_alone() {
    let (claims, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // The answer to the claim is lost, and then those to the first heartbeats, of which one says that the tasks are here.
    let (local, _server, url) = behind(move |line, _| {
        if line.contains("/claim") {
            let is_first = claims.fetch_add(1, Ordering::SeqCst) == 0;
            return if is_first { Turn::Lose } else { Turn::Forward };
        }
        let asked = line.contains("/heartbeat") && claims.load(Ordering::SeqCst) > 1;
        if asked && lost.fetch_add(1, Ordering::SeqCst) < 3 { Turn::Lose } else { Turn::Forward }
    })
    .await;
    let remote = connect(&url).await.unwrap();
    let run = local.submit("charge", &1).await.unwrap();
    let worker = start(Worker::new(&remote).on("charge", |_: Context, n: u64| async move { Ok(n) }));
    assert_eq!(run.result::<u64>().await, Ok(1));
    assert_eq!(run.attempts().await.unwrap().len(), 1, "its lease did not run out");
    worker.stop().await;
}

#[tokio::test]
async fn edges_whose_answer_is_lost_are_found_although_the_revision_is_another_one() {
    let (turns, asked) = first_of("/edges ", || Turn::Lose);
    let (_local, _server, url) = behind(move |line, _| turns(line)).await;
    let remote = connect(&url).await.unwrap();
    let flow = remote.flow("report").open();
    let head = flow.node("head", &());
    let bind = flow.node("bind", &()).open();
    let run = flow.submit().await.unwrap();
    let revision = run.get().await.unwrap().live.revision;
    let more = run.grow().expected_revision(revision);
    more.edge(&head, &bind);
    assert_eq!(more.submit().await.unwrap().live.revision, revision + 1);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    // Somebody else's edges are another matter, also if they are the same.
    let late = run.grow().expected_revision(revision);
    late.edge(&head, &bind);
    assert_eq!(late.submit().await.unwrap_err().code(), "revision_mismatch");
}

#[tokio::test]
async fn a_worker_that_stops_does_not_wait_for_a_server_that_has_fallen_silent() {
    let silent = Arc::new(AtomicBool::new(false));
    let told = silent.clone();
    let (local, _server, url) =
        behind(move |_, _| if told.load(Ordering::SeqCst) { Turn::Ignore } else { Turn::Forward }).await;
    let remote = connect(&url).await.unwrap();
    let worker = Worker::new(&remote).grace(Duration::ZERO).on("hold", |ctx: Context, (): ()| async move {
        ctx.cancelled().await;
        Ok(())
    });
    let worker = start(worker);
    let run = local.submit("hold", &()).await.unwrap();
    background::reaches(&run, "active").await;
    silent.store(true, Ordering::SeqCst);
    // An answer is waited for until forty seconds have passed.
    let stopped = tokio::time::timeout(Duration::from_secs(30), worker.stop()).await;
    assert_eq!(stopped.unwrap().given_back, 0);
}
