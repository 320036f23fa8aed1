//! Answers that end in the middle: whatever a worker asks is asked again, and nothing is handed out, made or ended twice.

use std::collections::BTreeSet;

use ff_core::InstanceId;
use ff_scratch::Proxy;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::ground::Ground;
use crate::truth::Truth;
use crate::worker::KIND;

/// Longer than any machine stands still: here it is connections that break, and nothing else.
const LEASE_MS: i64 = 60_000;
/// One claim takes from one partition.
const PARTITIONS: u16 = 1;

/// What goes wrong with the first try.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// So many bytes of the answer arrive.
    Answer(u64),
    /// So many bytes of the request arrive.
    Request(u64),
    /// The request is carried out, and its answer is lost.
    Swallowed,
}

/// Every cut of a request and its answer that are as long as these were: after none, each, and all of their bytes.
fn cuts(whole: &Answer) -> Vec<Cut> {
    let (asked, told) = whole.lengths;
    let cuts = (0..=told).map(Cut::Answer).chain((0..=asked).map(Cut::Request));
    cuts.chain([Cut::Swallowed]).collect()
}

/// A worker whose first try of each request is cut off.
struct Unlucky {
    proxy: Proxy,
    client: Client,
    /// How many first tries had no whole answer.
    unanswered: usize,
}

impl Unlucky {
    fn new(ground: &Ground) -> Unlucky {
        let proxy = Proxy::start(ground.address()).unwrap();
        let client = Client::new(proxy.port());
        Unlucky { proxy, client, unanswered: 0 }
    }

    fn ask(&mut self, path: &str, body: &Value) -> Answer {
        let answer = self.client.post(path, body).unwrap();
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer
    }

    /// Asks once under the fault, and once more without it. Gives both answers, if there was a first.
    fn ask_twice(&mut self, cut: Cut, path: &str, body: &Value) -> (Option<Answer>, Answer) {
        match cut {
            Cut::Answer(bytes) => self.proxy.cut_after_to_client(bytes),
            Cut::Request(bytes) => self.proxy.cut_after_to_server(bytes),
            Cut::Swallowed => self.proxy.swallow_answers(),
        }
        let first = self.client.post(path, body).ok();
        self.unanswered += usize::from(first.is_none());
        self.proxy.heal();
        let again = loop {
            // The connection may be one that broke behind the last answer.
            if let Ok(answer) = self.client.post(path, body) {
                break answer;
            }
        };
        assert!(again.status < 300, "{cut:?} {path}: {again:?}");
        (first, again)
    }

    /// Of so many first tries nearly all had no answer: all but those of which everything arrived.
    fn assert_unlucky(&self, tries: usize) {
        assert!(self.unanswered + 4 >= tries, "only {} of {tries} tries were cut off", self.unanswered);
    }
}

#[test]
fn a_claim_whose_answer_or_request_is_cut_anywhere_is_asked_again_and_hands_out_nothing_twice() {
    let ground = Ground::new(PARTITIONS, LEASE_MS);
    let mut truth = Truth::default();
    let mut worker = Unlucky::new(&ground);
    let id = register(&mut worker);
    let path = format!("/v1/workers/{id}/claim");
    ground.submit(2, &mut truth);
    // The number is as long as those that follow.
    let whole = worker.ask(&path, &wish(1_000));
    complete(&mut worker, &leases(&whole));
    let cuts = cuts(&whole);
    for (poll, cut) in (1_001_u64..).zip(&cuts) {
        ground.submit(2, &mut truth);
        let (first, again) = worker.ask_twice(*cut, &path, &wish(poll));
        let tasks = leases(&again);
        assert_eq!(tasks.len(), 2, "{cut:?}: {again:?}");
        if let Some(first) = first {
            assert_eq!(leases(&first), tasks, "{cut:?}: the same number gave other leases");
        }
        complete(&mut worker, &tasks);
    }
    worker.assert_unlucky(cuts.len());
    ground.check(&truth);
    ground.assert_one_attempt_each(&truth);
}

#[test]
fn a_completion_whose_answer_or_request_is_cut_anywhere_is_repeated_and_counts_once() {
    let ground = Ground::new(PARTITIONS, LEASE_MS);
    let mut truth = Truth::default();
    let mut worker = Unlucky::new(&ground);
    let id = register(&mut worker);
    let mut claim = |worker: &mut Unlucky, poll| {
        ground.submit(2, &mut truth);
        let claimed = worker.ask(&format!("/v1/workers/{id}/claim"), &wish(poll));
        completions(&leases(&claimed))
    };
    let body = claim(&mut worker, 1);
    let whole = worker.ask("/v1/tasks/complete", &body);
    let cuts = cuts(&whole);
    for (poll, cut) in (2_u64..).zip(&cuts) {
        let body = claim(&mut worker, poll);
        let (first, again) = worker.ask_twice(*cut, "/v1/tasks/complete", &body);
        assert_done(&again, 2);
        if let Some(first) = first {
            assert_eq!(first.body, again.body, "{cut:?}: another answer to the same completion");
        }
    }
    worker.assert_unlucky(cuts.len());
    ground.check(&truth);
    ground.assert_one_attempt_each(&truth);
}

#[test]
fn a_heartbeat_whose_answer_or_request_is_cut_anywhere_is_repeated_and_keeps_what_is_held() {
    let ground = Ground::new(PARTITIONS, LEASE_MS);
    let mut truth = Truth::default();
    let mut worker = Unlucky::new(&ground);
    let id = register(&mut worker);
    ground.submit(2, &mut truth);
    let tasks = leases(&worker.ask(&format!("/v1/workers/{id}/claim"), &wish(1)));
    let (path, body) = (format!("/v1/workers/{id}/heartbeat"), json!({ "leases": tasks }));
    let cuts = cuts(&worker.ask(&path, &body));
    for cut in &cuts {
        let (_, again) = worker.ask_twice(*cut, &path, &body);
        let renewed = again.body["leases"].as_array().unwrap();
        let held = renewed.len() == 2 && renewed.iter().all(|it| it["problem"].is_null());
        assert!(held, "{cut:?}: {again:?}");
    }
    worker.assert_unlucky(cuts.len());
    complete(&mut worker, &tasks);
    ground.check(&truth);
    ground.assert_one_attempt_each(&truth);
}

#[test]
fn a_registration_whose_answer_or_request_is_cut_anywhere_is_repeated_and_makes_one_worker() {
    let ground = Ground::new(PARTITIONS, LEASE_MS);
    let mut worker = Unlucky::new(&ground);
    let mut made = BTreeSet::new();
    let mut new = || {
        let id = ground.new_instance_id();
        made.insert(id);
        json!({ "name": "unlucky", "id": id })
    };
    let cuts = cuts(&worker.ask("/v1/workers", &new()));
    for cut in &cuts {
        let body = new();
        let (_, again) = worker.ask_twice(*cut, "/v1/workers", &body);
        assert_eq!(again.body["id"], body["id"], "{cut:?}: {again:?}");
    }
    worker.assert_unlucky(cuts.len());
    let there: Vec<InstanceId> = ground.workers();
    assert_eq!(there.len(), made.len(), "each was registered once");
    assert_eq!(BTreeSet::from_iter(there), made);
}

fn wish(poll: u64) -> Value {
    json!({ "name": "unlucky", "kinds": [KIND], "max": 2, "wait_ms": 5_000, "poll": poll })
}

fn register(worker: &mut Unlucky) -> String {
    let registered = worker.ask("/v1/workers", &json!({ "name": "unlucky" }));
    registered.body["id"].as_str().unwrap().to_owned()
}

fn leases(answer: &Answer) -> Vec<Value> {
    answer.body["tasks"].as_array().unwrap().iter().map(|task| task["lease"].clone()).collect()
}

fn completions(leases: &[Value]) -> Value {
    let mark = |lease: &Value| format!("unlucky-{}", lease["epoch"]);
    json!({ "tasks": leases.iter().map(|it| json!({ "lease": it, "result": mark(it) })).collect::<Vec<_>>() })
}

fn complete(worker: &mut Unlucky, leases: &[Value]) {
    let answer = worker.ask("/v1/tasks/complete", &completions(leases));
    assert_done(&answer, leases.len());
}

fn assert_done(answer: &Answer, count: usize) {
    let results = answer.body["outcomes"].as_array().unwrap();
    assert!(results.len() == count && results.iter().all(|it| it["problem"].is_null()), "{answer:?}");
}
