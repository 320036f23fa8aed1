//! Events: one gapless list for each partition.

use ff_core::event::{By, Event, Fact, Holder};
use ff_core::flow::{CancelPolicy, FlowState, Join, OnSatisfied};
use ff_core::lane::LaneMode;
use ff_core::state::{AttemptOutcome, Reason};
use ff_core::{ExecutionId, LaneName, Ms, PartitionId, Route};

use super::super::samples::{self, ODD};
use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq};

/// Every fact there is.
fn facts(instance: ff_core::InstanceId) -> Vec<Fact> {
    let holder = || Holder { worker: samples::worker_name("w"), instance, attempt: 3, epoch: 1 << 40 };
    let by = || By::new(ODD, ODD);
    let worker = || samples::worker_name("w");
    let error = Some(samples::error());
    let outcome = AttemptOutcome::Revoked;
    vec![
        Fact::Created { kind: samples::kind("task"), priority: -100, until: None, blocked: None },
        Fact::Created {
            kind: samples::kind("task"),
            priority: 100,
            until: Some(START),
            blocked: Some(Reason::Hedge),
        },
        Fact::Woken,
        Fact::Admitted { until: Some(START), reason: Some(Reason::WaitingForDelay) },
        Fact::Admitted { until: None, reason: None },
        Fact::Blocked { reason: Reason::Hedge },
        Fact::Skipped {
            reason: Reason::DependenciesImpossible,
            upstream: Some(ExecutionId::from_parts(START, Route(1), 2)),
        },
        Fact::FlowCreated {
            kind: samples::kind("flow"),
            nodes: 1,
            edges: 1 << 40,
            sealed: true,
            by: ODD.into(),
        },
        Fact::FlowGrown { nodes: 1, edges: 2, revision: 1 << 40, by: ODD.into() },
        Fact::FlowSealed { by: by(), revision: 2 },
        Fact::NodeSealed { by: by(), revision: 3 },
        Fact::PolicySet {
            by: by(),
            join: Join::Quorum { k: 3, on_satisfied: OnSatisfied::LetRun },
            revision: 4,
        },
        Fact::FlowCancelRequested { by: by(), policy: CancelPolicy::CancelPending },
        Fact::FlowEnded { state: FlowState::Failed },
        Fact::FlowReopened,
        Fact::FlowTagged { by: by(), tags: samples::tags(&[("team.name", ODD)]) },
        Fact::FlowRemoved,
        Fact::Started { attempt: 1, epoch: 2, series: 3 },
        Fact::Completed { attempt: 1, spent: 2 },
        Fact::Retried { attempt: 1, outcome, until: START, spent: 1, losses: 2, error: error.clone() },
        Fact::Requeued { attempt: 1, outcome },
        Fact::Delayed { until: START },
        Fact::CancelRequested { by: by(), cut_at: START },
        Fact::Failed { reason: Reason::CrashLoop, spent: 1, losses: 2, error },
        Fact::Failed { reason: Reason::FatalError, spent: 1, losses: 2, error: None },
        Fact::Cancelled { by: by(), reason: Some(Reason::SiblingQuorumSatisfied) },
        Fact::Expired { reason: Reason::DeadlinePassed, spent: 1, losses: 0 },
        Fact::Replayed { by: by(), series: 2, blocked: Some(Reason::WaitingForDependencies) },
        Fact::Removed { by: None },
        Fact::Removed { by: Some(by()) },
        Fact::WaitpointTokenIssued { waitpoint: 3, by: by(), token: Some(samples::ODD.into()) },
        Fact::LeaseAcquired { holder: holder() },
        Fact::LeaseReclaimed { holder: holder() },
        Fact::LeaseRenewed { holder: holder(), expires_at: START },
        Fact::LeaseExpired { holder: holder() },
        Fact::LeaseRevoked { holder: holder(), by: by() },
        Fact::LeaseReleased { holder: holder(), cause: outcome },
        Fact::LeasePaused { holder: holder() },
        Fact::DeadLettered {
            posted: 1 << 40,
            id: None,
            kind: samples::ODD.into(),
            reason: samples::ODD.into(),
        },
        Fact::LetterReposted { by: by(), posted: 1, id: None, kind: samples::ODD.into() },
        Fact::LetterDropped { by: by(), posted: 1 << 40, id: None, kind: samples::ODD.into() },
        Fact::Held { by: by() },
        Fact::Unheld { by: by(), until: None, reason: None },
        Fact::Unheld { by: by(), until: Some(START), reason: Some(Reason::ResumeDelay) },
        Fact::PriorityChanged { by: by(), priority: 7 },
        Fact::Tagged { by: by(), tags: samples::tags(&[("a.b", ODD)]) },
        Fact::Tagged { by: by(), tags: Default::default() },
        Fact::LaneChanged { by: by(), mode: LaneMode::Draining, revision: 9 },
        Fact::WorkerRegistered { worker: worker(), instance },
        Fact::WorkerDrained { worker: worker(), instance, by: by() },
        Fact::WorkerDied { worker: worker(), instance, by: by() },
    ]
}

async fn read(stand: &Stand, partition: PartitionId, from: u64, limit: usize) -> Result<Vec<Event>, String> {
    let page = stand.store.events(partition, from, limit).await.map_err(|error| error.to_string())?;
    Ok(page.events)
}

pub async fn events_read_back_without_gaps(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let instance = samples::instance(stand.partitions, partition, 1);
        let plain = samples::execution(samples::id(stand.partitions, partition, 1));
        let state = samples::states(instance)[0].clone();
        let full = samples::full(samples::id(stand.partitions, partition, 2), instance, state);
        let mut want = Vec::new();
        for (n, fact) in facts(instance).into_iter().enumerate() {
            let now = START + n as i64 / 3;
            let desk = stand.desk(partition);
            match n % 3 {
                0 => drop(desk.emit(&plain, now, fact)),
                1 => drop(desk.emit(&full, now, fact)),
                _ => desk.emit_global(Some(LaneName::default()), now, fact),
            }
            // Commits with none, one and several events.
            if n % 4 != 1 {
                let changes = stand.desk(partition).take_batch(now);
                want.extend(changes.events.iter().cloned());
                stand.write(partition, changes).await?;
                stand.flush(partition).await?;
            }
        }
        let got = read(stand, partition, 1, 1_000).await?;
        let numbers: Vec<u64> = got.iter().map(|event| event.number).collect();
        ensure_eq!(numbers, (1..=want.len() as u64).collect::<Vec<_>>(), "numbers of events");
        for (got, want) in got.iter().zip(&want) {
            ensure_eq!(got, want, "event {}", want.number);
        }
    }
    stand.same().await
}

/// `count` events in the last partition, one for each millisecond, in commits of three.
async fn populate(stand: &mut Stand, count: i64) -> Check {
    let partition = stand.last();
    let it = samples::execution(samples::id(stand.partitions, partition, 1));
    for n in 0..count {
        stand.desk(partition).emit(&it, START + n, Fact::Woken);
        if n % 3 == 2 {
            stand.flush(partition).await?;
        }
    }
    stand.flush(partition).await.map(drop)
}

pub async fn events_come_in_pages(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let fresh = stand.store.events(partition, 1, 10).await.map_err(|error| error.to_string())?;
    ensure_eq!((fresh.events.len(), fresh.oldest, fresh.next), (0, 1, 1), "events of a fresh partition");
    populate(stand, 20).await?;
    for from in 0..=22 {
        let mut next = from.max(1);
        // "About limit": a page may be larger, but it must make progress and leave no gap.
        loop {
            let page = stand.store.events(partition, next, 4).await.map_err(|error| error.to_string())?;
            ensure_eq!((page.oldest, page.next), (1, 21), "bounds of the events");
            let Some(last) = page.events.last() else { break };
            let numbers: Vec<u64> = page.events.iter().map(|event| event.number).collect();
            ensure_eq!(numbers, (next..=last.number).collect::<Vec<_>>(), "a page of events from {next}");
            next = last.number + 1;
        }
        ensure_eq!(next, from.max(21), "where the events from {from} end");
    }
    ensure!(read(stand, partition, 1, 4).await?.len() < 20, "a page of 4 events is as long as all 20");
    Ok(())
}

pub async fn events_are_trimmed_from_the_front(stand: &mut Stand) -> Check {
    let partition = stand.last();
    populate(stand, 20).await?;
    for below in [1, 5, 5, 12, 21] {
        stand.desk(partition).trim_events_below(below);
        stand.flush(partition).await?;
        let page = stand.store.events(partition, 0, 100).await.map_err(|error| error.to_string())?;
        let numbers: Vec<u64> = page.events.iter().map(|event| event.number).collect();
        ensure_eq!(numbers, (below..21).collect::<Vec<_>>(), "events that stay");
        ensure_eq!((page.oldest, page.next), (below, 21), "bounds of the events that stay");
    }
    // Numbers go on where they were, and a commit may add and trim at once.
    let it = samples::execution(samples::id(stand.partitions, partition, 1));
    for _ in 0..3 {
        stand.desk(partition).emit(&it, START + 50, Fact::Woken);
    }
    stand.desk(partition).trim_events_below(22);
    stand.flush(partition).await?;
    let numbers: Vec<u64> = read(stand, partition, 1, 100).await?.iter().map(|it| it.number).collect();
    ensure_eq!(numbers, vec![22, 23], "events after adding and trimming at once");
    stand.same().await
}

async fn since(stand: &Stand, at: Ms) -> Result<u64, String> {
    stand.store.first_event_since(stand.last(), at).await.map_err(|error| error.to_string())
}

pub async fn the_first_event_since_a_time_is_found(stand: &mut Stand) -> Check {
    let partition = stand.last();
    ensure_eq!(since(stand, START).await?, 1, "the first event of a fresh partition");
    let it = samples::execution(samples::id(stand.partitions, partition, 1));
    for at in [0, 10, 10, 20] {
        stand.desk(partition).emit(&it, START + at, Fact::Woken);
    }
    stand.flush(partition).await?;
    for (at, number) in
        [(i64::MIN / 2 - START, 1), (-1, 1), (0, 1), (1, 2), (10, 2), (11, 4), (20, 4), (21, 5)]
    {
        ensure_eq!(since(stand, START + at).await?, number, "the first event since {at}");
    }
    stand.desk(partition).trim_events_below(3);
    stand.flush(partition).await?;
    ensure_eq!(since(stand, START).await?, 3, "the first event after trimming");
    ensure_eq!(since(stand, START + 11).await?, 4, "a later event after trimming");
    Ok(())
}
