//! Answers that end in the middle: a claim and a completion are asked again, and nothing is handed out or ended twice.

use ff_scratch::Proxy;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::ground::Ground;
use crate::truth::Truth;
use crate::worker::KIND;

/// How many bytes of an answer arrive: nothing, in the first line, among the headers, in the body, all of it.
const ARRIVE: [u64; 12] = [0, 1, 9, 40, 90, 140, 200, 260, 330, 420, 600, 5_000];

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

fn cuts() -> impl Iterator<Item = Cut> {
    ARRIVE.into_iter().flat_map(|bytes| [Cut::Answer(bytes), Cut::Request(bytes)]).chain([Cut::Swallowed])
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
        (first, again)
    }
}

#[test]
fn a_claim_whose_answer_or_request_is_cut_anywhere_is_asked_again_and_hands_out_nothing_twice() {
    let ground = Ground::new();
    let mut truth = Truth::default();
    let mut worker = Unlucky::new(&ground);
    let id = register(&mut worker);
    for (poll, cut) in (1_u64..).zip(cuts()) {
        ground.submit(2, &mut truth);
        let wish = json!({ "name": "unlucky", "kinds": [KIND], "max": 2, "wait_ms": 5_000, "poll": poll });
        let (first, again) = worker.ask_twice(cut, &format!("/v1/workers/{id}/claim"), &wish);
        let tasks = leases(&again);
        assert_eq!(tasks.len(), 2, "{cut:?}: {again:?}");
        if let Some(first) = first {
            assert_eq!(leases(&first), tasks, "{cut:?}: the same number gave other leases");
        }
        complete(&mut worker, &tasks);
    }
    assert!(worker.unanswered > cuts().count() / 2, "only {} tries were cut off", worker.unanswered);
    ground.check(&truth);
    ground.assert_one_attempt_each(&truth);
}

#[test]
fn a_completion_whose_answer_or_request_is_cut_anywhere_is_repeated_and_counts_once() {
    let ground = Ground::new();
    let mut truth = Truth::default();
    let mut worker = Unlucky::new(&ground);
    let id = register(&mut worker);
    for (poll, cut) in (1_u64..).zip(cuts()) {
        ground.submit(2, &mut truth);
        let wish = json!({ "name": "unlucky", "kinds": [KIND], "max": 2, "wait_ms": 5_000, "poll": poll });
        let claimed = worker.ask(&format!("/v1/workers/{id}/claim"), &wish);
        let body = completions(&leases(&claimed));
        let (first, again) = worker.ask_twice(cut, "/v1/tasks/complete", &body);
        assert_done(&again, 2);
        if let Some(first) = first {
            assert_eq!(first.body, again.body, "{cut:?}: another answer to the same completion");
        }
    }
    assert!(worker.unanswered > cuts().count() / 2, "only {} tries were cut off", worker.unanswered);
    ground.check(&truth);
    ground.assert_one_attempt_each(&truth);
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
