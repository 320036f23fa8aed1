//! The worker in Python, over HTTP alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;
mod snake;

use std::collections::BTreeMap;
use std::time::Duration;

use flowfabric::{EventFilter, ExecutionId, Fabric, Fact, PublicState, Run, Start};
use place::Place;
use serde_json::{Value, json};
use snake::{Snake, submit};

const KIND: &str = "count-words";

/// The outcome of each attempt, with the instance that made it.
async fn attempts(run: &Run) -> Vec<(&'static str, String)> {
    let attempts = run.attempts().await.unwrap();
    let outcome = |it: &flowfabric::Attempt| it.end.as_ref().map_or("running", |end| end.outcome.word());
    attempts.iter().map(|it| (outcome(it), it.instance.to_string())).collect()
}

/// Waits until an instance holds something.
async fn holds(fabric: &Fabric, instance: &str) {
    let mut events = fabric.events(EventFilter::default(), Start::Beginning).await.unwrap();
    loop {
        if let Fact::LeaseAcquired { holder } = events.next().await.unwrap().event.fact
            && holder.instance.to_string() == instance
        {
            return;
        }
    }
}

async fn reaches(run: &Run, state: PublicState) {
    let mut states = run.watch().await.unwrap();
    while states.next().await.unwrap().expect("it has not ended").public_state() != state {}
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
async fn when_one_of_two_python_workers_is_killed_all_end_exactly_once() {
    let place = Place::server();
    let fabric = place.beside().await;
    let doomed = Snake::start(place.address(), &["--concurrency", "4"]);
    let other = Snake::start(place.address(), &["--concurrency", "8"]);
    // The first dozen fill both and take so long that one is killed while it holds some of them.
    let seconds = |n| if n <= 12 { 3.0 } else { 0.5 };
    let line = |n| json!({ "text": "word ".repeat(n), "seconds": seconds(n) });
    let lines: Vec<Value> = (1..=50).map(line).collect();
    let ended = submit(place.address(), KIND, &lines);
    holds(&fabric, &other.id).await;
    holds(&fabric, &doomed.id).await;
    let killed = doomed.id.clone();
    doomed.kill();

    let said = ended();
    for (n, line) in (1..).zip(said.lines()) {
        let [_, state, result] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let result: Value = serde_json::from_str(result).unwrap();
        assert_eq!((state, &result["words"]), ("completed", &json!(n)));
    }
    assert_eq!(said.lines().count(), 50);

    let endings = endings(&fabric).await;
    let page = fabric.search().kind(KIND).limit(100).await.unwrap();
    assert_eq!(page.executions.len(), 50);
    let mut lost = 0;
    for execution in page.executions {
        assert_eq!(endings.get(&execution.id), Some(&1), "endings of {}", execution.id);
        let attempts = attempts(&fabric.run(execution.id)).await;
        let (last, before) = attempts.split_last().unwrap();
        assert_eq!(last.0, "completed");
        assert!(before.iter().all(|it| *it == ("lease_lost", killed.clone())), "{attempts:?}");
        lost += before.len();
    }
    assert!(lost > 0, "the worker was killed while it held nothing");
    assert_eq!(other.stop(), "stopped, 0 given back");
}

#[tokio::test]
async fn a_python_worker_hears_of_a_cancel_and_gives_back_what_it_cannot_end() {
    let place = Place::server();
    let fabric = place.beside().await;
    let worker = Snake::start(place.address(), &["--concurrency", "3", "--grace", "0"]);
    let id = worker.id.clone();
    let submit = async |seconds: u64| {
        let run = fabric.submit(KIND, &json!({ "text": "", "seconds": seconds })).await.unwrap();
        reaches(&run, PublicState::Active).await;
        run
    };
    let (first, second, unwanted) = (submit(600).await, submit(600).await, submit(600).await);
    unwanted.cancel_within(Duration::from_secs(60)).actor("ada").cause("a test").await.unwrap();
    assert_eq!(unwanted.wait().await.unwrap().execution.public_state(), PublicState::Cancelled);
    assert_eq!(attempts(&unwanted).await, [("cancelled", id.clone())]);

    assert_eq!(worker.stop(), "stopped, 2 given back");
    for run in [first, second] {
        assert_eq!(run.get().await.unwrap().public_state(), PublicState::Waiting);
        assert_eq!(attempts(&run).await, [("released", id.clone())]);
        assert_eq!(run.get().await.unwrap().live.series.spent, 0, "giving back costs no attempt");
    }
    let gone = fabric.workers().await.unwrap();
    assert!(gone.iter().all(|it| it.mode.word() == "dead"), "{gone:?}");
}

#[tokio::test]
async fn what_a_python_handler_cannot_do_is_told() {
    let place = Place::server();
    let fabric = place.beside().await;
    let worker = Snake::start(place.address(), &[]);
    let run = fabric.submit(KIND, &json!({ "txt": "misspelt" })).attempts(5).await.unwrap();
    let ended = run.wait().await.unwrap().execution;
    let error = ended.end().unwrap().error.clone().unwrap();
    assert_eq!((ended.reason().word(), &*error.message), ("fatal_error", "text is missing"));
    assert_eq!(attempts(&run).await, [("failed", worker.id.clone())]);
    worker.stop();
}

#[tokio::test]
async fn a_result_that_cannot_be_written_fails_its_own_task_and_no_other() {
    const HANDLERS: &str = "\
import handlers, runpy
handlers.HANDLERS['set'] = lambda task: {1, 2}
handlers.HANDLERS['nan'] = lambda task: float('nan')
handlers.HANDLERS['half'] = lambda task: '\\ud800'
runpy.run_module('worker', run_name='__main__')
";
    let place = Place::server();
    let fabric = place.beside().await;
    let worker = Snake::with(place.address(), HANDLERS, &["--concurrency", "2", "--grace", "0"]);
    let held = fabric.submit(KIND, &json!({ "text": "", "seconds": 600 })).await.unwrap();
    reaches(&held, PublicState::Active).await;
    for (kind, code) in [("set", "typeerror"), ("nan", "valueerror"), ("half", "unicodeencodeerror")] {
        let run = fabric.submit(kind, &()).attempts(1).await.unwrap();
        let ended = run.wait().await.unwrap().execution;
        let error = ended.end().unwrap().error.clone().unwrap();
        assert_eq!(error.code.as_deref(), Some(code), "{error:?}");
        assert_eq!(attempts(&run).await, [("failed", worker.id.clone())]);
    }
    assert_eq!(attempts(&held).await, [("running", worker.id.clone())]);
    assert_eq!(worker.stop(), "stopped, 1 given back");
}
