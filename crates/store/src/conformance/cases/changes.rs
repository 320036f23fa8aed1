//! What commits have changed, told with the records as they are now.

use std::collections::BTreeSet;

use ff_core::PartitionId;
use ff_core::agenda::Subject;
use ff_core::change::Changes;
use ff_core::key::{Ask, DedupKey, Key};
use ff_core::message::Message;
use ff_core::workspace::{Answer, Missed};

use super::super::stand::START;
use super::super::{Check, Stand, ensure_eq, samples};
use super::versions::something;
use crate::Store;

/// What changed since a version; each list in the order of its keys, because none is asked for.
async fn missed(store: &dyn Store, partition: PartitionId, since: u64) -> Result<Option<Missed>, String> {
    let loaded =
        store.load(partition, vec![Ask::Changes { since }]).await.map_err(|error| error.to_string())?;
    let answer = super::super::stand::ensure_one(loaded.answers)?;
    let Answer::Changes(missed) = answer else { return Err(format!("changes were asked for: {answer:?}")) };
    Ok(missed.map(|mut it| {
        it.links.sort_by_key(|link| link.peer);
        it.ready_counts.sort();
        it.executions.sort_by_key(|(id, _)| *id);
        it.ended.sort();
        it.dedup.sort_by(|a, b| a.0.cmp(&b.0));
        it.lanes.sort_by(|a, b| a.0.cmp(&b.0));
        it.workers.sort_by_key(|(id, _)| *id);
        it.messages.sort_by_key(|(key, _)| *key);
        *it
    }))
}

/// Compares what changed with the reference and with the keys that were written.
async fn check(stand: &Stand, partition: PartitionId, since: u64, keys: &BTreeSet<Key>) -> Check {
    let got = missed(&*stand.store, partition, since).await?;
    ensure_eq!(got, missed(&stand.reference, partition, since).await?, "what changed since {since}");
    let told = got.map(|it| it.keys().into_iter().collect::<BTreeSet<_>>());
    ensure_eq!(told.as_ref(), Some(keys), "keys of what changed since {since}");
    Ok(())
}

pub async fn changes_come_with_the_records_as_they_are_now(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let (mut changed, mut since) = (Vec::new(), BTreeSet::new());
    for n in 1..=5 {
        // Some records change in each of them, so that only the newest of those may be told.
        let id = samples::id(stand.partitions, partition, 77);
        stand.desk(partition).put_execution(samples::ready(id, START, n + 500), START);
        stand.desk(partition).broadcast(Message::Lane(samples::lane("told", n)), START + 1);
        let changes = something(stand, partition, n);
        changed.push(changes.keys());
        stand.write(partition, changes).await?;
    }
    for number in (0..=5).rev() {
        check(stand, partition, number, &since).await?;
        since.extend(changed.pop().into_iter().flatten());
    }
    stand.reopen().await?;
    check(stand, partition, 0, &since).await
}

pub async fn what_was_removed_has_changed_too(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let message = Message::Lane(samples::lane("told", 1));
    stand.desk(partition).broadcast(message, START);
    let changes = something(stand, partition, 1);
    let written = changes.clone();
    stand.write(partition, changes).await?;
    let (lane, worker) = (&written.lanes[0].0, written.workers[0].0);
    let gone = samples::id(stand.partitions, partition, 1_001);
    let desk = stand.desk(partition);
    desk.purge_execution(gone);
    desk.purge_worker(worker);
    desk.put_dedup(written.dedup[0].0.clone(), None);
    let sent = written.agenda_added.iter().map(|entry| entry.key);
    let sent: Vec<_> = sent.filter(|key| matches!(key.subject, Subject::Deliver { .. })).collect();
    sent.iter().for_each(|key| desk.strike(*key));
    let now = stand.now();
    let mut changes = stand.desk(partition).take_batch(now);
    changes.lanes.push((lane.clone(), None));
    stand.write(partition, changes).await?;
    let mut keys = BTreeSet::from([Key::Execution(gone), Key::Worker(worker), Key::Lane(lane.clone())]);
    keys.insert(Key::Dedup(written.dedup[0].0.clone()));
    keys.extend(sent.iter().copied().map(Key::Message));
    check(stand, partition, 1, &keys).await?;
    let told = missed(&*stand.store, partition, 1).await?.unwrap_or_default();
    let absent = told.executions == [(gone, None)]
        && told.workers == [(worker, None)]
        && told.lanes == [(lane.clone(), None)]
        && told.dedup == [(written.dedup[0].0.clone(), None)]
        && told.messages.iter().all(|(_, message)| message.is_none());
    ensure_eq!(absent, true, "what was removed is told as absent in {told:?}");
    Ok(())
}

/// Of what has ended only the id is told; what lives again comes with its record.
pub async fn what_has_ended_is_told_by_its_id(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let ids = [1, 2].map(|n| samples::id(stand.partitions, partition, n));
    let remove_at = START + 60_000;
    // Two cannot stand at one place of the queue.
    let live = |n: usize| samples::ready(ids[n], START, n as u64 + 1);
    let steps = [
        [live(0), live(1)],
        [samples::completed(ids[0], remove_at), samples::completed(ids[1], remove_at)],
        [samples::completed(ids[0], remove_at), live(1)],
    ];
    for executions in steps {
        for execution in executions {
            stand.desk(partition).put_execution(execution, START);
        }
        let now = stand.now();
        let changes = stand.desk(partition).take_batch(now);
        stand.write(partition, changes).await?;
    }
    let keys = ids.map(Key::Execution).into_iter().collect();
    for since in [0, 1] {
        check(stand, partition, since, &keys).await?;
        let told = missed(&*stand.store, partition, since).await?.unwrap_or_default();
        ensure_eq!(told.ended, vec![ids[0]], "what has ended since {since}");
        let living = told.executions.iter().map(|(id, it)| (*id, it.is_some()));
        ensure_eq!(living.collect::<Vec<_>>(), vec![(ids[1], true)], "what lives since {since}");
    }
    Ok(())
}

pub async fn changes_are_told_over_a_hundred_commits_and_ten_thousand_keys(stand: &mut Stand) -> Check {
    let partition = stand.last();
    for _ in 0..101 {
        stand.write(partition, Changes::default()).await?;
    }
    let none = BTreeSet::new();
    check(stand, partition, 1, &none).await?;
    let store = stand.store.clone();
    ensure_eq!(missed(&*store, partition, 0).await?, None, "changes over 101 commits");
    ensure_eq!(missed(&*store, partition, 102).await?, None, "changes since a version that does not exist");
    let key = |n| DedupKey { namespace: Default::default(), key: format!("{n}").into() };
    let changes =
        Changes { dedup: (0..10_000).map(|n| (key(n), None)).collect::<Vec<_>>(), ..Changes::default() };
    let keys = changes.keys().into_iter().collect();
    stand.write(partition, changes).await?;
    check(stand, partition, 101, &keys).await?;
    stand.write(partition, Changes { dedup: vec![(key(10_000), None)], ..Changes::default() }).await?;
    ensure_eq!(missed(&*store, partition, 101).await?, None, "changes over 10,001 keys");
    check(stand, partition, 102, &BTreeSet::from([Key::Dedup(key(10_000))])).await
}
