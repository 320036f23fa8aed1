//! The sweep page: what is old enough to be removed, and when the next will be.

use ff_core::change::EndedEntry;
use ff_core::event::Fact;
use ff_core::key::{Ask, Dedup, DedupKey};
use ff_core::workspace::{Answer, SweepPage};
use ff_core::{Ms, Namespace};

use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, samples};

const KEEP_EVENTS_MS: Ms = 1_000;

async fn sweep(stand: &Stand, now: Ms, limit: usize) -> Result<SweepPage, String> {
    let ask = Ask::Sweep { now, events_before: now - KEEP_EVENTS_MS, limit };
    match stand.ask(stand.last(), ask).await? {
        Answer::Sweep(page) => {
            let times: Vec<Ms> = page.ended.iter().map(|entry| entry.remove_at).collect();
            ensure!(times.is_sorted(), "ended entries come in the order {times:?}");
            let times: Vec<Ms> = page.dedup.iter().map(|(_, dedup)| dedup.expires_at).collect();
            ensure!(times.is_sorted(), "idempotency keys come in the order {times:?}");
            Ok(page)
        }
        other => Err(format!("a sweep was asked for, the answer was {other:?}")),
    }
}

fn key(n: i64) -> DedupKey {
    DedupKey { namespace: Namespace::default(), key: format!("key {}", 100 - n).into() }
}

/// Ten ended executions and ten keys, one of each for every second millisecond from the start.
async fn populate(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for n in 0..10 {
        let id = samples::id(stand.partitions, partition, 100 - n);
        let at = START + 2 * n as Ms;
        stand.desk(partition).put_execution(samples::completed(id, at), START);
        stand.desk(partition).put_dedup(key(n as i64), Some(Dedup { execution: id, expires_at: at + 1 }));
    }
    stand.flush(partition).await.map(drop)
}

pub async fn a_sweep_finds_what_is_old_enough(stand: &mut Stand) -> Check {
    populate(stand).await?;
    let partition = stand.last();
    for now in START - 1..START + 22 {
        let page = sweep(stand, now, 100).await?;
        let id = |n: i64| samples::id(stand.partitions, partition, 100 - n as u64);
        let at = |n: i64| START + 2 * n;
        let ended: Vec<_> = (0..10)
            .filter(|n| at(*n) <= now)
            .map(|n| EndedEntry { remove_at: at(n), execution: id(n) })
            .collect();
        let dedup: Vec<_> = (0..10)
            .filter(|n| at(*n) < now)
            .map(|n| (key(n), Dedup { execution: id(n), expires_at: at(n) + 1 }))
            .collect();
        ensure_eq!(page.ended, ended, "ended entries that may go at {now}");
        ensure_eq!(page.dedup, dedup, "idempotency keys that may go at {now}");
        ensure_eq!(page.events_below, None, "events that may go where there are none");
        let next = (now + 1..START + 20).find(|at| *at >= START);
        ensure_eq!(page.next, next, "when the next is due after {now}");
    }
    stand.same().await
}

pub async fn a_sweep_is_bounded(stand: &mut Stand) -> Check {
    populate(stand).await?;
    let partition = stand.last();
    let now = START + 100;
    for left in [10_usize, 7, 4, 1, 0] {
        let page = sweep(stand, now, 3).await?;
        ensure_eq!(page.ended.len(), left.min(3), "ended entries of a bounded page");
        ensure_eq!(page.dedup.len(), left.min(3), "idempotency keys of a bounded page");
        ensure_eq!(page.next, None, "when the next is due where all are");
        page.ended.iter().for_each(|entry| stand.desk(partition).purge_execution(entry.execution));
        page.dedup.into_iter().for_each(|(key, _)| stand.desk(partition).put_dedup(key, None));
        stand.flush(partition).await?;
    }
    stand.same().await
}

pub async fn a_sweep_tells_when_the_next_is_due(stand: &mut Stand) -> Check {
    let partition = stand.last();
    ensure_eq!(sweep(stand, START, 10).await?, SweepPage::default(), "a sweep of a fresh partition");
    let id = samples::id(stand.partitions, partition, 1);
    // What comes later is written first; each makes the next sweep earlier.
    stand.desk(partition).emit(&samples::execution(id), START, Fact::Woken);
    stand.flush(partition).await?;
    let next = Some(START + KEEP_EVENTS_MS);
    ensure_eq!(sweep(stand, START, 10).await?.next, next, "when the event is old enough");
    stand.desk(partition).put_execution(samples::completed(id, START + 500), START);
    stand.flush(partition).await?;
    ensure_eq!(sweep(stand, START, 10).await?.next, Some(START + 500), "when the execution is old enough");
    stand.desk(partition).put_dedup(key(1), Some(Dedup { execution: id, expires_at: START + 300 }));
    stand.flush(partition).await?;
    ensure_eq!(sweep(stand, START, 10).await?.next, Some(START + 300), "when the key is old enough");
    // An entry that moves takes the time with it.
    stand.desk(partition).put_dedup(key(1), Some(Dedup { execution: id, expires_at: START + 700 }));
    stand.desk(partition).put_execution(samples::completed(id, START + 600), START);
    stand.flush(partition).await?;
    ensure_eq!(sweep(stand, START, 10).await?.next, Some(START + 600), "when the moved one is old enough");
    stand.same().await
}

pub async fn a_sweep_finds_old_events(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let it = samples::execution(samples::id(stand.partitions, partition, 1));
    // Numbers 1 to 6 at the times 0, 0, 10, 10, 20, 30.
    for at in [0, 0, 10, 10, 20, 30] {
        stand.desk(partition).emit(&it, START + at, Fact::Woken);
        stand.flush(partition).await?;
    }
    for (before, below, oldest) in [
        (0, None, Some(0)),
        (1, Some(3), Some(10)),
        (10, Some(3), Some(10)),
        (11, Some(5), Some(20)),
        (20, Some(5), Some(20)),
        (21, Some(6), Some(30)),
        (31, Some(7), None),
    ] {
        let page = sweep(stand, START + before + KEEP_EVENTS_MS, 2).await?;
        ensure_eq!(page.events_below, below, "events older than {before}");
        let next = oldest.map(|at| START + at + KEEP_EVENTS_MS);
        ensure_eq!(page.next, next, "when the oldest event that stays after {before} is old enough");
    }
    stand.desk(partition).trim_events_below(7);
    stand.flush(partition).await?;
    let page = sweep(stand, START + 99 + KEEP_EVENTS_MS, 2).await?;
    ensure_eq!((page.events_below, page.next), (None, None), "old events after all went");
    stand.same().await
}
