//! What this test binary does when it is a child: submit, or work and tell what it was answered.

use std::io::BufRead;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ff_core::commands::{Complete, Poll, RegisterWorker};
use ff_core::execution::{Fence, How};
use ff_core::{Reply, class::Capabilities};
use ff_engine::{Engine, Failure, Task};
use flowfabric::{Fabric, InstanceId, Kind, LaneName, Payload, Policy, Rejection, WorkerName};

pub const KIND: &str = "job";
pub const TELLER: &str = "teller";
pub const SUBMITTER: &str = "submitter";

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
    runtime.block_on(async {
        // Without a store it ends, and the parent starts another.
        let Ok(fabric) = flowfabric::connect(&url).await else { return };
        match part.as_str() {
            SUBMITTER => submit(&fabric).await,
            _ => work(fabric.engine()).await,
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
            let policy = Policy { lease_ms: LEASE_MS, losses_max: 1_000, ..Policy::default() };
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

/// Claims, and ends what it holds only when it has claimed again or there is nothing to claim, so that it always holds
/// something when it is killed or paused.
async fn work(engine: &Engine) {
    let mut poll = None;
    let mut held: Vec<Task> = Vec::new();
    loop {
        let asked = match &poll {
            Some(poll) => Arc::clone(poll),
            None => match register(engine).await {
                Some(registered) => poll.insert(registered).clone(),
                None => continue,
            },
        };
        let claimed = match engine.poll(asked, 4, Duration::from_millis(200)).await {
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
        for task in std::mem::replace(&mut held, claimed) {
            complete(engine, task.execution.fence()).await;
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
            Err(Failure::Rejected(rejection)) => return println!("@ refused {told} {}", rejection.code()),
            Err(failure) => println!("@ trouble {}", failure.code()),
        }
    }
}
