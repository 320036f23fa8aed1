//! Records: what is written reads back exactly.

use std::sync::Arc;

use ff_core::agenda::Subject;
use ff_core::key::{Ask, Dedup, DedupKey, Key};
use ff_core::message::{Link, Message};
use ff_core::payload::{PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, Namespace, PartitionId};

use super::super::samples::{self, ODD};
use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq};

async fn reads_back(stand: &Stand, partition: PartitionId, want: Answer) -> Check {
    let key = match &want {
        Answer::Execution(id, _) => Key::Execution(*id),
        Answer::Dedup(key, _) => Key::Dedup(key.clone()),
        Answer::Lane(name, _) => Key::Lane(name.clone()),
        Answer::Worker(id, _) => Key::Worker(*id),
        other => return Err(format!("{other:?} is no record")),
    };
    let got = stand.ask(partition, Ask::Record(key.clone())).await?;
    ensure_eq!(got, want, "record {key:?}");
    Ok(())
}

pub async fn every_state_of_an_execution_reads_back(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let instance = samples::instance(stand.partitions, partition, 1);
        let mut ids = Vec::new();
        for (n, state) in samples::states(instance).into_iter().enumerate() {
            let (plain, full) = (n as u64 * 2, n as u64 * 2 + 1);
            let id = |n| samples::id(stand.partitions, partition, n);
            ids.extend([id(plain), id(full)]);
            let plain = samples::with_state(samples::execution(id(plain)), distinct(state.clone(), plain));
            let full = samples::full(id(full), instance, distinct(state, full));
            stand.desk(partition).put_execution(plain, START);
            stand.desk(partition).put_execution(full, START);
        }
        stand.flush(partition).await?;
        for id in ids {
            let want = stand.desk(partition).execution(id).ok().flatten().cloned();
            ensure!(want.is_some(), "the desk knows {id}");
            reads_back(stand, partition, Answer::Execution(id, want)).await?;
        }
    }
    stand.same().await
}

/// Two ready executions cannot have one place.
fn distinct(state: ff_core::execution::State, n: u64) -> ff_core::execution::State {
    use ff_core::execution::State;
    match state {
        State::Ready { rank, number, since } => State::Ready { rank, number: number + n, since },
        other => other,
    }
}

pub async fn an_update_replaces_what_changes(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    let id = samples::id(stand.partitions, partition, 1);
    let mut it = samples::full(id, instance, samples::states(instance)[0].clone());
    for state in samples::states(instance).into_iter().chain(samples::states(instance).into_iter().rev()) {
        it.live.state = state;
        it.live.epoch += 1;
        it.live.priority += 1;
        it.live.tags = samples::tags(&[("epoch", &it.live.epoch.to_string())]);
        it.live.series.spent += 1;
        stand.desk(partition).put_execution(it.clone(), START);
        stand.flush(partition).await?;
        stand.same().await?;
    }
    // Everything that can be absent goes again.
    let plain = samples::execution(id);
    it.live = plain.live;
    stand.desk(partition).put_execution(it, START);
    stand.flush(partition).await?;
    stand.same().await
}

pub async fn records_that_do_not_exist_are_told_apart(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let id = samples::id(stand.partitions, partition, 1);
    let instance = samples::instance(stand.partitions, partition, 1);
    let key = DedupKey { namespace: Namespace::default(), key: "none".into() };
    let absent = [
        Answer::Execution(id, None),
        Answer::Dedup(key, None),
        Answer::Lane(samples::lane_name("none"), None),
        Answer::Worker(instance, None),
    ];
    for answer in absent {
        reads_back(stand, partition, answer).await?;
    }
    let keys = Slot::ALL.map(|slot| PayloadKey { execution: id, slot });
    ensure_eq!(stand.store.payloads(keys.to_vec()).await, Ok(vec![None, None]), "payloads of nothing");
    ensure_eq!(stand.store.attempts(id).await, Ok(vec![]), "attempts of nothing");
    // The answers stand in the order of the asks, also if a record is asked for twice.
    let asks = vec![Ask::Record(Key::Execution(id)), Ask::Opening, Ask::Record(Key::Execution(id))];
    let loaded = stand.store.load(partition, asks).await.map_err(|error| error.to_string())?;
    let order = matches!(
        loaded.answers.as_slice(),
        [Answer::Execution(..), Answer::Opening(_), Answer::Execution(..)]
    );
    ensure!(order, "answers are not in the order of the asks: {:?}", loaded.answers);
    Ok(())
}

pub async fn lanes_and_workers_read_back_and_go(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let instance = samples::instance(stand.partitions, partition, 1);
        let other = samples::instance(stand.partitions, partition, 2);
        for revision in 1..=2 {
            let (lane, worker) = (samples::lane("b 漢'\"", revision), samples::worker(instance, revision));
            let desk = stand.desk(partition);
            desk.put_lane(lane.clone());
            desk.put_lane(samples::lane("a", revision));
            desk.put_worker(worker.clone());
            let mut bare = samples::worker(other, revision);
            (bare.build, bare.server, bare.expires_at) = (None, None, None);
            (bare.timer, bare.died_at, bare.releasing_since) = (None, None, None);
            desk.put_worker(bare);
            stand.flush(partition).await?;
            let name = lane.name.clone();
            reads_back(stand, partition, Answer::Lane(name, Some(Arc::new(lane)))).await?;
            reads_back(stand, partition, Answer::Worker(instance, Some(Arc::new(worker)))).await?;
        }
        stand.same().await?;
        stand.desk(partition).purge_worker(instance);
        let changes = stand.desk(partition).take_batch(START);
        let lane = samples::lane_name("a");
        let changes = ff_core::change::Changes { lanes: vec![(lane.clone(), None)], ..changes };
        stand.write(partition, changes).await?;
        reads_back(stand, partition, Answer::Worker(instance, None)).await?;
        reads_back(stand, partition, Answer::Lane(lane, None)).await?;
    }
    stand.same().await
}

pub async fn links_and_messages_read_back(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    for number in 1..=2 {
        stand.desk(partition).put_link(Link { peer: PartitionId(7), sent: number, received: 1 << 40 });
        let lane = Message::Lane(samples::lane("lane", number));
        stand.desk(partition).broadcast(lane, START);
        let worker = Message::Worker(samples::worker(instance, number));
        stand.desk(partition).broadcast(worker, START + 1);
        stand.flush(partition).await?;
        stand.same().await?;
    }
    let struck: Vec<_> = stand.desk(partition).agenda().iter().map(|(key, _)| *key).take(3).collect();
    ensure_eq!(struck.is_empty(), stand.partitions == 1, "messages to send");
    ensure!(struck.iter().all(|key| matches!(key.subject, Subject::Deliver { .. })), "only messages");
    struck.into_iter().for_each(|key| stand.desk(partition).strike(key));
    stand.flush(partition).await?;
    stand.same().await
}

pub async fn idempotency_keys_read_back_and_go(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let execution = samples::id(stand.partitions, partition, 1);
    let key = |namespace: &str, key: &str| DedupKey {
        namespace: Namespace::parse(namespace).expect("a good name"),
        key: key.into(),
    };
    // The same key in two namespaces, and keys that differ in case or blanks alone, are different keys.
    let keys = [key("a", "k"), key("b", "k"), key("a", "K"), key("a", "k "), key("a", ODD), key("a.b", "c")];
    for (n, key) in keys.iter().enumerate() {
        let dedup = Dedup { execution, expires_at: START + n as i64 };
        stand.desk(partition).put_dedup(key.clone(), Some(dedup));
    }
    stand.flush(partition).await?;
    stand.same().await?;
    let other = samples::id(stand.partitions, partition, 2);
    let moved = Dedup { execution: other, expires_at: START + 99 };
    stand.desk(partition).put_dedup(keys[0].clone(), Some(moved));
    stand.desk(partition).put_dedup(keys[4].clone(), None);
    stand.flush(partition).await?;
    reads_back(stand, partition, Answer::Dedup(keys[0].clone(), Some(moved))).await?;
    reads_back(stand, partition, Answer::Dedup(keys[4].clone(), None)).await?;
    let third = Dedup { execution, expires_at: START + 2 };
    reads_back(stand, partition, Answer::Dedup(keys[2].clone(), Some(third))).await?;
    stand.same().await
}

pub async fn the_header_reads_back(stand: &mut Stand) -> Check {
    use ff_core::change::{Changes, Header};
    let partition = stand.last();
    let headers = [
        Header { next_event: 1, sweep_at: Some(START), now: START },
        Header { next_event: 1 << 40, sweep_at: None, now: START + 1 },
        Header { next_event: 1 << 41, sweep_at: Some(0), now: START + 2 },
    ];
    for header in headers {
        stand.write(partition, Changes { header, ..Changes::default() }).await?;
        ensure_eq!(stand.opening(partition).await?.header, header, "header");
        let (_, status) = stand.store.status().await.map_err(|error| error.to_string())?;
        ensure_eq!(status[partition.index()].next_event, header.next_event, "next event in the status");
    }
    Ok(())
}

pub async fn leases_are_listed_while_they_stand(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let (one, two) = (
        samples::instance(stand.partitions, partition, 1),
        samples::instance(stand.partitions, partition, 2),
    );
    let active = |instance| samples::states(instance)[2].clone();
    let ids: Vec<ExecutionId> = (0..5).map(|n| samples::id(stand.partitions, partition, n)).collect();
    let put = |stand: &mut Stand, n: usize, state| {
        let it = samples::with_state(samples::execution(ids[n]), state);
        stand.desk(partition).put_execution(it, START);
    };
    (0..4).for_each(|n| put(stand, n, active(if n % 2 == 0 { one } else { two })));
    put(stand, 4, ff_core::execution::State::Ready { rank: 0, number: 4, since: START });
    stand.flush(partition).await?;
    let leases = |opening: ff_core::workspace::Opening| {
        let mut leases = opening.leases;
        leases.sort();
        leases
    };
    let mut want = vec![(one, ids[0]), (two, ids[1]), (one, ids[2]), (two, ids[3])];
    want.sort();
    ensure_eq!(leases(stand.opening(partition).await?), want, "leases");
    // One passes to another holder, one ends, one is taken, one is purged.
    put(stand, 0, active(two));
    put(stand, 1, samples::completed(ids[1], START + 5).live.state);
    put(stand, 4, active(one));
    stand.desk(partition).purge_execution(ids[2]);
    stand.flush(partition).await?;
    let mut want = vec![(two, ids[0]), (two, ids[3]), (one, ids[4])];
    want.sort();
    ensure_eq!(leases(stand.opening(partition).await?), want, "leases after changes");
    stand.same().await
}

pub async fn no_execution_is_above_the_newest(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        ensure_eq!(stand.opening(partition).await?.newest, None, "the newest of an empty store");
    }
    let partition = stand.last();
    let ids: Vec<ExecutionId> = (0..3).map(|n| samples::id(stand.partitions, partition, n)).collect();
    for id in [ids[1], ids[2], ids[0]] {
        stand.desk(partition).put_execution(samples::delayed(id, START), START);
        stand.flush(partition).await?;
    }
    let newest = stand.opening(partition).await?.newest;
    ensure_eq!(newest, ids.iter().max().copied(), "the newest of {partition}");
    // Others may be told of the newest of all partitions, or of none of their own.
    for other in stand.each() {
        let told = stand.opening(other).await?.newest;
        let fits = other == partition || told.is_none() || told == newest;
        ensure!(fits, "{other} is told of {told:?}, which is no execution's");
    }
    let gone = ids.iter().max().copied().unwrap_or(ids[0]);
    stand.desk(partition).purge_execution(gone);
    stand.flush(partition).await?;
    let left = ids.iter().filter(|id| **id != gone).max().copied();
    ensure_eq!(stand.opening(partition).await?.newest, left, "the newest once the first is gone");
    stand.same().await
}

pub async fn partitions_do_not_see_each_other(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let instance = samples::instance(stand.partitions, partition, 1);
        let desk = stand.desk(partition);
        // The same lane, key and link in each, with another content.
        desk.put_lane(samples::lane("shared", u64::from(partition.0) + 1));
        let key = DedupKey { namespace: Namespace::default(), key: "shared".into() };
        let id = samples::id(desk.partitions, partition, 1);
        desk.put_dedup(key, Some(Dedup { execution: id, expires_at: START + 1 }));
        desk.put_link(Link { peer: PartitionId(9), sent: u64::from(partition.0), received: 0 });
        desk.put_worker(samples::worker(instance, 1));
        desk.put_execution(samples::delayed(id, START + i64::from(partition.0)), START);
        stand.flush(partition).await?;
    }
    for partition in stand.each() {
        let key = Key::Lane(samples::lane_name("shared"));
        let answer = stand.ask(partition, Ask::Record(key)).await?;
        let Answer::Lane(_, Some(lane)) = answer else { return Err(format!("no lane: {answer:?}")) };
        ensure_eq!(lane.revision, u64::from(partition.0) + 1, "the lane's copy in {partition}");
    }
    stand.same().await
}
