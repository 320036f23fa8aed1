//! Workers that claim at one server and tell another how it ended, as through a load balancer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ff_core::class::Capabilities;
use ff_core::commands::{Complete, Poll, RegisterWorker};
use ff_core::{Command, InstanceId, Kind, LaneName, WorkerName};
use flowfabric::{ExecutionId, Fabric};

use crate::ground::{Ground, endings, log};

/// How much is done in one round, and after how many rounds servers must have been in each other's way.
const ROUND: usize = 100;
const ROUNDS_MAX: usize = 50;

async fn register(fabric: &Fabric) -> InstanceId {
    let engine = fabric.engine().unwrap();
    let (now, _) = engine.store().status().await.unwrap();
    let instance = engine.new_instance_id(now);
    let register = RegisterWorker {
        instance,
        name: WorkerName::parse("w").unwrap(),
        lanes: vec![LaneName::default()],
        capabilities: Capabilities::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 600_000,
    };
    engine.execute(register).await.unwrap();
    instance
}

/// Claims at one server until everything of a round has been claimed, and ends it at the other.
async fn work(claims: &Fabric, ends: &Fabric, instance: InstanceId, count: usize) {
    let poll = Arc::new(Poll {
        worker: WorkerName::parse("w").unwrap(),
        instance,
        lanes: vec![LaneName::default()],
        kinds: vec![Kind::parse("noop").unwrap()],
        namespaces: Vec::new(),
        capabilities: Capabilities::default(),
    });
    let mut left = count;
    while left > 0 {
        let tasks =
            claims.engine().unwrap().poll(poll.clone(), left.min(5), Duration::from_secs(60)).await.unwrap();
        left -= tasks.len();
        let end = |fence| Command::from(Complete { fence, result: None });
        let commands = tasks.iter().map(|task| end(task.execution.fence())).collect();
        for answer in ends.engine().unwrap().execute_all(commands).await {
            answer.unwrap();
        }
    }
}

async fn submit(fabric: &Fabric) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for n in 0..ROUND {
        ids.push(fabric.submit("noop", &n).await.unwrap().id());
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_in_each_others_way_end_leases_for_each_other_once() {
    let ground = Ground::new();
    let fabrics = ground.fabrics(2).await;
    let (one, other) = (&fabrics[0], &fabrics[1]);
    let instance = register(one).await;
    let mut ids = Vec::new();
    let mut exchanged = false;
    for _ in 0..ROUNDS_MAX {
        let works = async {
            tokio::join!(
                work(one, other, instance, ROUND),
                work(one, other, instance, ROUND / 2),
                work(other, one, instance, ROUND / 2),
            )
        };
        let (submitted, others, _) = tokio::join!(submit(one), submit(other), works);
        ids.extend(submitted.into_iter().chain(others));
        let left = "SELECT count(*) > 0 FROM pg_stat_user_tables WHERE relname = 'parcels' AND n_tup_ins > 0";
        exchanged = ground.sql(left).await == "t";
        if exchanged {
            break;
        }
    }
    assert!(exchanged, "the servers have not asked each other for anything");
    let once: BTreeMap<ExecutionId, usize> = ids.iter().map(|id| (*id, 1)).collect();
    assert_eq!(endings(&log(one).await), once);
    for fabric in fabrics {
        fabric.shutdown(Duration::from_secs(5)).await;
    }
}
