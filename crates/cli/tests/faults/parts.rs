//! What this test binary does when it is a child: submit, or work and tell what it was answered.

use std::collections::VecDeque;
use std::io::BufRead;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{Complete, Poll, RegisterWorker};
use ff_core::execution::{Fence, How};
use ff_core::{Reply, class::Capabilities};
use ff_engine::{Engine, Failure};
use flowfabric::{Backoff, Fabric, InstanceId, Kind, LaneName, Payload, Policy, Rejection, WorkerName};

pub const KIND: &str = "job";
pub const TELLER: &str = "teller";
pub const SUBMITTER: &str = "submitter";
pub const FOLLOWER: &str = "follower";

/// Short, so that a paused process loses what it holds.
const LEASE_MS: i64 = 1_000;
const PART: &str = "FF_TEST_PART";
const URL: &str = "FF_TEST_URL";

pub fn prepare(command: &mut Command, part: &str, url: &str) {
    command.args(["--exact", "plays_its_part", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env(URL, url);
}

pub fn play() {
    let (Ok(part), Ok(url)) = (std::env::var(PART), std::env::var(URL)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if part == FOLLOWER {
        return runtime.block_on(crate::cascades::follow(&url));
    }
    runtime.block_on(async {
        // Without a store it ends, and the parent starts another.
        let Ok(fabric) = flowfabric::connect(&url).await else { return };
        match part.as_str() {
            SUBMITTER => submit(&fabric).await,
            _ => work(fabric.engine().unwrap()).await,
        }
        fabric.shutdown(Duration::from_secs(5)).await;
    });
}

/// Submits each key that it reads, many at a time, until there are no more.
async fn submit(fabric: &Fabric) {
    let (sender, mut keys) = tokio::sync::mpsc::unbounded_channel::<String>();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).for_each(|key| _ = sender.send(key));
    });
    while let Some(key) = keys.recv().await {
        let fabric = fabric.clone();
        tokio::spawn(async move {
            // However often it is killed or paused with a piece of work, that is not the work's fault.
            // What was lost goes to another at once, while the one who lost it is still about.
            let backoff = Backoff { initial_ms: 1, max_ms: 1, ..Backoff::default() };
            let policy = Policy { lease_ms: LEASE_MS, losses_max: 1_000, backoff, ..Policy::default() };
            let sent = || fabric.submit(KIND, &key).idempotency_key(&key).policy(policy.clone());
            loop {
                match sent().await {
                    Ok(run) => return println!("@ submitted {key} {}", run.id()),
                    Err(error) => println!("@ trouble {}", error.code()),
                }
            }
        });
    }
}

/// For how many questions for work a teller keeps what it has claimed: others must be able to lose a lease to it and
/// come back while it still holds it.
const KEPT_FOR: usize = 5;

/// Claims, keeps what it has claimed for a while, and completes it.
async fn work(engine: &Engine) {
    let mut poll = None;
    let mut held: VecDeque<Vec<Fence>> = VecDeque::new();
    loop {
        let asked = match &poll {
            Some(poll) => Arc::clone(poll),
            None => match register(engine).await {
                Some(registered) => poll.insert(registered).clone(),
                None => continue,
            },
        };
        let claimed = match engine.poll(asked, 2, Duration::from_millis(200)).await {
            Ok(tasks) => tasks,
            Err(Failure::Rejected(Rejection::WorkerUnknown { .. } | Rejection::WorkerDead { .. })) => {
                poll = None;
                Vec::new()
            }
            Err(Failure::ShuttingDown) => return,
            Err(failure) => {
                println!("@ trouble {}", failure.code());
                Vec::new()
            }
        };
        let claimed: Vec<Fence> = claimed.iter().map(|task| task.execution.fence()).collect();
        claimed.iter().for_each(|fence| println!("@ holds {}", fence.execution));
        held.push_back(claimed);
        if held.len() > KEPT_FOR {
            for fence in held.pop_front().unwrap_or_default() {
                complete(engine, fence).await;
            }
        }
        // Whoever hears that a lease is lost and goes on all the same meets the one who has it now.
        let fences: Vec<Fence> = held.iter().flatten().copied().collect();
        for (fence, renewed) in fences.iter().zip(engine.renew(fences.clone()).await) {
            if let Err(Failure::Rejected(_)) = renewed {
                held.iter_mut().for_each(|batch| batch.retain(|it| it != fence));
                complete(engine, *fence).await;
            }
        }
    }
}

async fn register(engine: &Engine) -> Option<Arc<Poll>> {
    let (now, _) = engine.store().status().await.ok()?;
    let instance: InstanceId = engine.new_instance_id(now);
    let (worker, lanes) = (WorkerName::parse("teller").unwrap(), vec![LaneName::default()]);
    let command = RegisterWorker {
        instance,
        name: worker.clone(),
        lanes: lanes.clone(),
        capabilities: Capabilities::default(),
        build: None,
        server: Some(engine.server().into()),
        owner: None,
        ttl_ms: 120_000,
    };
    engine.execute(command).await.ok()?;
    let (kinds, namespaces) = (vec![Kind::parse(KIND).unwrap()], vec![]);
    Some(Arc::new(Poll { worker, instance, lanes, kinds, namespaces, capabilities: Capabilities::default() }))
}

/// Completes with a mark that no other attempt has, until it is known what became of it.
async fn complete(engine: &Engine, fence: Fence) {
    let mark = format!("{}-{}", std::process::id(), fence.epoch);
    let result = Some(Payload::json(format!("\"{mark}\"")));
    let told = format!("{} {} {mark}", fence.execution, fence.epoch);
    loop {
        match engine.execute(Complete { fence, result: result.clone() }).await {
            Ok(Reply::LeaseEnded(How::Completed)) => return println!("@ completed {told}"),
            Ok(reply) => return println!("@ odd {told} {reply:?}"),
            Err(Failure::Rejected(rejection)) => {
                let found = engine.get(fence.execution).await.ok().flatten();
                let state = found.map_or("unknown", |it| it.public_state().word());
                return println!("@ refused {told} {} {state}", rejection.code());
            }
            Err(failure) => println!("@ trouble {}", failure.code()),
        }
    }
}
