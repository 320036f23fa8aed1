//! Counters: they ride in commits and never drift from what is counted.

use std::collections::BTreeMap;

use ff_core::query::{CountKey, Filter, Order, PageAsk};

use super::super::program::Dice;
use super::super::stand::START;
use super::super::{Check, Stand, ensure_eq, samples};

async fn counts(stand: &Stand) -> Result<BTreeMap<CountKey, u64>, String> {
    let counts = stand.store.counts().await.map_err(|error| error.to_string())?;
    let len = counts.len();
    let map: BTreeMap<_, _> = counts.into_iter().collect();
    ensure_eq!(map.len(), len, "keys of the counts, each once");
    Ok(map)
}

async fn recount(stand: &Stand) -> Result<BTreeMap<CountKey, u64>, String> {
    let all = PageAsk {
        filter: Filter::default(),
        order: Order::OldestFirst,
        after: None,
        limit: 10_000,
        scan_max: 10_000,
    };
    let page = stand.store.executions(all).await.map_err(|error| error.to_string())?;
    let mut counts = BTreeMap::new();
    for execution in &page.executions {
        *counts.entry(CountKey::of(execution)).or_default() += 1;
    }
    Ok(counts)
}

pub async fn counters_equal_a_recount(stand: &mut Stand) -> Check {
    let mut dice = Dice::new(3);
    for round in 0..60 {
        for partition in stand.each() {
            let instance = samples::instance(stand.partitions, partition, 1);
            let states = samples::states(instance);
            for _ in 0..3 {
                let n = dice.below(12) as u64;
                let id = samples::id(stand.partitions, partition, n);
                if dice.below(5) == 0 {
                    stand.desk(partition).purge_execution(id);
                    continue;
                }
                let mut it = samples::ready(id, START, n);
                let mut spec = (*it.spec).clone();
                spec.lane = samples::lane_name(["a", "b"][n as usize % 2]);
                spec.kind = samples::kind(["c", "d", "e"][n as usize % 3]);
                it.spec = spec.into();
                let state = states[dice.below(states.len())].clone();
                if !matches!(state, ff_core::execution::State::Ready { .. }) {
                    it.live.state = state;
                }
                stand.desk(partition).put_execution(it, START);
            }
            stand.flush(partition).await?;
        }
        if round % 10 == 9 {
            ensure_eq!(counts(stand).await?, recount(stand).await?, "counts against a recount");
            stand.same().await?;
        }
    }
    Ok(())
}

pub async fn counters_at_zero_are_not_listed(stand: &mut Stand) -> Check {
    let mut ids = Vec::new();
    for partition in stand.each() {
        let id = samples::id(stand.partitions, partition, 1);
        stand.desk(partition).put_execution(samples::execution(id), START);
        stand.flush(partition).await?;
        ids.push((partition, id));
    }
    let waiting = CountKey::of(&samples::execution(ids[0].1));
    let want = BTreeMap::from([(waiting, u64::from(stand.partitions))]);
    ensure_eq!(counts(stand).await?, want, "counts over all partitions");
    for (partition, id) in &ids {
        stand.desk(*partition).put_execution(samples::completed(*id, START), START);
        stand.flush(*partition).await?;
        let opening = stand.opening(*partition).await?;
        ensure_eq!(opening.ready_counts, vec![], "ready counts where nothing is ready");
    }
    let completed = CountKey::of(&samples::completed(ids[0].1, START));
    let want = BTreeMap::from([(completed, u64::from(stand.partitions))]);
    ensure_eq!(counts(stand).await?, want, "counts after all have ended");
    for (partition, id) in &ids {
        stand.desk(*partition).purge_execution(*id);
        stand.flush(*partition).await?;
    }
    ensure_eq!(counts(stand).await?, BTreeMap::new(), "counts after all are gone");
    Ok(())
}

pub async fn the_status_tells_where_partitions_stand(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        for n in 0..=u64::from(partition.0) {
            let desk = stand.desk(partition);
            let mut it = samples::ready(samples::id(desk.partitions, partition, n), START, n);
            it.live.deadline_at = Some(START + 100 - n as i64);
            desk.emit(&it, START, ff_core::event::Fact::Woken);
            desk.put_execution(it, START);
        }
        let version = stand.flush(partition).await?;
        let (now, all) = stand.store.status().await.map_err(|error| error.to_string())?;
        ensure_eq!((now, all.len()), (START, usize::from(stand.partitions)), "status");
        let status = &all[partition.index()];
        let n = u64::from(partition.0);
        ensure_eq!((status.partition, status.version), (partition, version), "version in the status");
        ensure_eq!(status.next_event, n + 2, "next event in the status");
        ensure_eq!(status.next_due, Some(START + 100 - n as i64), "next due time in the status");
        let class = samples::execution(samples::id(1, partition, 0)).spec.class();
        ensure_eq!(status.ready, vec![(Default::default(), class, n + 1)], "ready counts in the status");
    }
    stand.same().await
}
