//! Changes that the core has decided: whole lives, and random programs compared with the reference.

use std::sync::Arc;

use ff_core::commands::{Claim, Command, Complete, Create, Poll, RegisterWorker, Replay, SetLane};
use ff_core::lane::LaneMode;
use ff_core::limits::Limits;
use ff_core::payload::{Payload, PayloadKey, Slot};

use super::super::differential::{Race, Reopen, Side};
use super::super::engine::{Engine, claimed};
use super::super::stand::START;
use super::super::{Check, Dump, MemorySite, Stand, ensure_eq, samples};
use crate::Store;

fn register(instance: ff_core::InstanceId) -> RegisterWorker {
    RegisterWorker {
        instance,
        name: samples::worker_name("w"),
        lanes: vec![Default::default()],
        capabilities: Default::default(),
        build: None,
        server: None,
        owner: None,
        ttl_ms: 60_000,
    }
}

fn claim(instance: ff_core::InstanceId) -> Claim {
    let poll = Poll {
        worker: samples::worker_name("w"),
        instance,
        lanes: vec![Default::default()],
        kinds: Vec::new(),
        namespaces: Vec::new(),
        capabilities: Default::default(),
    };
    Claim { poll: Arc::new(poll), max: 10 }
}

pub async fn a_life_decided_by_the_core_reads_back(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    let id = samples::id(stand.partitions, partition, 1);
    let create = Create::new(id, samples::kind("task"), Payload::json("[1]"));
    let mut engines = [(); 2].map(|()| Engine::new(stand.partitions, Limits::default()));
    let stores: [&dyn Store; 2] = [&*stand.store, &stand.reference];
    for (engine, store) in engines.iter_mut().zip(stores) {
        let mut now = START;
        engine.run(store, partition, now, &[register(instance).into(), create.clone().into()]).await?;
        for round in 1..=3 {
            // Each step is decided on what the store kept, not on what the step before left in memory.
            engine.forget(partition);
            let replies = engine.run(store, partition, now, &[claim(instance).into()]).await?;
            let leases: Vec<_> = replies.iter().flat_map(claimed).collect();
            ensure_eq!(leases.len(), 1, "leases of a claim");
            engine.forget(partition);
            let result = Some(Payload::json(format!("{round}")));
            let complete: Command = Complete { fence: leases[0].fence(), result }.into();
            let first = engine.run(store, partition, now, std::slice::from_ref(&complete)).await?;
            engine.forget(partition);
            let again = engine.run(store, partition, now, &[complete]).await?;
            ensure_eq!(again, first, "the reply to a call that is repeated");
            let result = store.payloads(vec![PayloadKey { execution: id, slot: Slot::Result }]).await;
            ensure_eq!(result, Ok(vec![Some(Payload::json(format!("{round}")))]), "result");
            let attempts = store.attempts(id).await.map(|list| list.len());
            ensure_eq!(attempts, Ok(round - 1), "attempts archived");
            if round < 3 {
                let replay =
                    Replay { execution: id, actor: samples::odd(), cause: samples::odd(), ended_by: None };
                engine.run(store, partition, now, &[replay.into()]).await?;
            }
        }
        // After retention the sweep removes every trace.
        now += Limits::default().retention_ms + 1;
        engine.fire_due(store, partition, now).await?;
        let result = store.payloads(vec![PayloadKey { execution: id, slot: Slot::Input }]).await;
        ensure_eq!(result, Ok(vec![None]), "the input after retention");
    }
    stand.same().await
}

pub async fn messages_between_partitions_arrive(stand: &mut Stand) -> Check {
    let lane = samples::lane_name("default");
    let home = ff_core::Route::of_name(&lane).partition(stand.partitions);
    let set = |mode| SetLane {
        lane: lane.clone(),
        mode: Some(mode),
        step_ms: None,
        retention_ms: None,
        renewed_events: None,
        actor: samples::odd(),
        cause: samples::odd(),
    };
    let mut engine = Engine::new(stand.partitions, Limits::default());
    let store = &*stand.store;
    for mode in [LaneMode::Paused, LaneMode::Open, LaneMode::Draining] {
        engine.run(store, home, START, &[set(mode).into()]).await?;
        stand.each().for_each(|partition| engine.forget(partition));
        engine.fire_due(store, home, START).await?;
        for partition in stand.each() {
            let opening = stand.opening(partition).await?;
            let modes: Vec<LaneMode> = opening.lanes.iter().map(|lane| lane.mode).collect();
            ensure_eq!(modes, vec![mode], "the lane's copy in partition {partition}");
        }
        engine.forget(home);
        ensure_eq!(engine.due(store, home, START).await?, vec![], "messages after all were acknowledged");
    }
    Ok(())
}

async fn run_program(stand: &mut Stand, seed: u64, batches: usize, reopen: Reopen) -> Check {
    let reference = MemorySite(stand.reference.another());
    let (clock, partitions) = (stand.clock.clone(), stand.partitions);
    let sides = vec![
        Side::new("the store", stand.site(), stand.store.clone(), partitions),
        Side::new("the reference", &reference, Arc::new(stand.reference.another()), partitions),
    ];
    let mut race = Race { clock, partitions, sides };
    race.run(seed, batches, reopen).await?;
    let store = race.sides.swap_remove(0).store;
    stand.store = store;
    Ok(())
}

pub async fn random_programs_end_like_on_the_reference(stand: &mut Stand) -> Check {
    run_program(stand, 1_000 + u64::from(stand.partitions), 240, Reopen::Never).await
}

pub async fn random_programs_survive_reopening(stand: &mut Stand) -> Check {
    run_program(stand, 2_000 + u64::from(stand.partitions), 100, Reopen::Often).await?;
    let before = Dump::of(&*stand.store).await?;
    stand.reopen().await?;
    Dump::of(&*stand.store).await?.compare(&before)
}
