//! A remote worker that tells what it was answered: claims, keeps what it has for a while, completes.

use std::collections::VecDeque;
use std::io;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Answer, Client};

pub const KIND: &str = "job";
const PORT: &str = "FF_TEST_PORT";
const NAME: &str = "teller";
/// For how many claims it keeps what it has, so that others can lose a lease to it and come back while it still holds it.
const KEPT_FOR: usize = 4;

pub fn prepare(command: &mut Command, port: u16) {
    command.args(["--exact", "plays_its_part", "--nocapture", "--test-threads=1"]);
    command.env(PORT, port.to_string());
}

pub fn play() {
    let Ok(port) = std::env::var(PORT) else { return };
    let mut teller = Teller { client: Client::new(port.parse().unwrap()), held: VecDeque::new() };
    loop {
        let registered = teller.ask("/v1/workers", &json!({ "name": NAME, "ttl_ms": 5_000 }));
        let Some(id) = registered.body["id"].as_str().map(str::to_owned) else {
            odd("registration", &registered);
        };
        teller.work(&id);
    }
}

struct Teller {
    client: Client,
    held: VecDeque<Vec<Value>>,
}

impl Teller {
    fn ask(&mut self, path: &str, body: &Value) -> Answer {
        self.insist(|client| client.post(path, body))
    }

    /// Asks until there is a whole answer that is final: every call may be sent again.
    fn insist(&mut self, call: impl Fn(&mut Client) -> io::Result<Answer>) -> Answer {
        loop {
            match call(&mut self.client) {
                Ok(answer) if answer.status < 500 && answer.status != 429 => return answer,
                Ok(answer) => println!("@ trouble {}", answer.code().unwrap_or("none")),
                Err(error) => println!("@ trouble {:?}", error.kind()),
            }
        }
    }

    /// Works until the server does not know this worker any more.
    fn work(&mut self, id: &str) {
        for poll in 1_u64.. {
            let wish = json!({ "name": NAME, "kinds": [KIND], "max": 2, "wait_ms": 200, "poll": poll });
            let claimed = self.ask(&format!("/v1/workers/{id}/claim"), &wish);
            match claimed.code() {
                None => {}
                Some("worker_unknown" | "worker_dead") => return,
                Some(_) => odd("claim", &claimed),
            }
            let leases = |it: &Value| it.as_array().cloned().unwrap_or_default();
            let leases: Vec<Value> =
                leases(&claimed.body["tasks"]).into_iter().map(|task| task["lease"].clone()).collect();
            leases
                .iter()
                .for_each(|lease| println!("@ holds {} {}", text(&lease["execution"]), lease["epoch"]));
            self.held.push_back(leases);
            if self.held.len() > KEPT_FOR {
                let ripe = self.held.pop_front().unwrap_or_default();
                self.complete(&ripe);
            }
            self.beat(id);
        }
    }

    /// Renews everything. Whoever hears that a lease is lost and goes on all the same meets the one who has it now.
    fn beat(&mut self, id: &str) {
        let leases: Vec<Value> = self.held.iter().flatten().cloned().collect();
        let beat = self.ask(&format!("/v1/workers/{id}/heartbeat"), &json!({ "leases": leases }));
        let told = beat.body["leases"].as_array().cloned().unwrap_or_default();
        let lost = leases.iter().zip(&told).filter(|(_, it)| !it["problem"].is_null());
        let lost: Vec<Value> = lost.map(|(lease, _)| lease.clone()).collect();
        self.held.iter_mut().for_each(|batch| batch.retain(|it| !lost.contains(it)));
        self.complete(&lost);
    }

    /// Completes with a mark that no other lease has, until it is known what became of it.
    fn complete(&mut self, leases: &[Value]) {
        if leases.is_empty() {
            return;
        }
        let mark = |lease: &Value| format!("{}-{}", std::process::id(), lease["epoch"]);
        let tasks: Vec<Value> =
            leases.iter().map(|lease| json!({ "lease": lease, "result": mark(lease) })).collect();
        let answer = self.ask("/v1/tasks/complete", &json!({ "tasks": tasks }));
        let told = answer.body["outcomes"].as_array().cloned().unwrap_or_default();
        if told.len() != leases.len() {
            odd("completion", &answer);
        }
        for (lease, told) in leases.iter().zip(told) {
            let (id, epoch, mark) = (text(&lease["execution"]), &lease["epoch"], mark(lease));
            match (told["problem"]["code"].as_str(), told["answer"]["outcome"].as_str()) {
                (Some(code), _) => println!("@ refused {id} {epoch} {mark} {code} {}", self.state(id)),
                (None, Some("completed")) => println!("@ completed {id} {epoch} {mark}"),
                _ => odd("completion", &answer),
            }
        }
    }

    /// The state of an execution now.
    fn state(&mut self, id: &str) -> String {
        let path = format!("/v1/executions/{id}");
        let found = self.insist(|client| client.get(&path));
        match found.body["state"].as_str() {
            Some(state) => state.to_owned(),
            None => odd("execution", &found),
        }
    }
}

/// Ends, with a word to the parent: nobody hears what a child panics with.
fn odd(what: &str, answer: &Answer) -> ! {
    println!("@ odd {what} {answer:?}");
    panic!("odd {what}: {answer:?}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
