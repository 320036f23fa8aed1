//! Handles: closing and opening, several at once, and who serves the store.

use ff_core::change::Changes;
use ff_core::event::Fact;
use ff_core::key::{Ask, Dedup, DedupKey, Key};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::query::{Filter, Order, PageAsk};
use ff_core::workspace::Answer;

use super::super::stand::{SERVER, START};
use super::super::{Check, Dump, Stand, ensure, ensure_eq, samples};
use crate::{Commit, Outcome, PARCEL_MS, Parcel, Store, StoreError, Version, Written};

/// One of everything, in every partition.
async fn populate(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let instance = samples::instance(stand.partitions, partition, 1);
        for (n, state) in samples::states(instance).into_iter().enumerate() {
            let id = samples::id(stand.partitions, partition, n as u64);
            let it = samples::full(id, instance, state);
            let desk = stand.desk(partition);
            desk.emit(&it, START, Fact::Woken);
            desk.put_execution(it, START);
            desk.put_payload(PayloadKey { execution: id, slot: Slot::Input }, Payload::json(format!("{n}")));
            desk.archive_attempt(id, samples::attempt(1, instance));
            let key = DedupKey { namespace: Default::default(), key: format!("{n}").into() };
            desk.put_dedup(key, Some(Dedup { execution: id, expires_at: START + 5 }));
            desk.put_lane(samples::lane(&format!("lane {n}"), 1));
        }
        let desk = stand.desk(partition);
        desk.put_worker(samples::worker(instance, 1));
        let message = ff_core::message::Message::Lane(samples::lane("lane", 1));
        desk.broadcast(message, START);
        stand.flush(partition).await?;
    }
    Ok(())
}

pub async fn everything_survives_reopening(stand: &mut Stand) -> Check {
    populate(stand).await?;
    let versions = {
        let mut versions = Vec::new();
        for partition in stand.each() {
            versions.push(stand.version(partition).await?);
        }
        versions
    };
    stand.reopen().await?;
    stand.same().await?;
    for (partition, version) in stand.each().zip(versions) {
        ensure_eq!(stand.version(partition).await?, version, "version after reopening");
        let written = stand.store.written(partition, 1).await;
        ensure_eq!(written, Ok(Written::By(version.id)), "who wrote version 1, after reopening");
        let missed = stand.ask(partition, Ask::Changes { since: 0 }).await?;
        let told = matches!(&missed, Answer::Changes(Some(it)) if !it.executions.is_empty());
        ensure!(told, "changes since 0, after reopening: {missed:?}");
        // The guard stands where it stood.
        let id = stand.new_id();
        let commit =
            Commit { partition, expected: Version::NONE, id, by: SERVER, changes: Changes::default() };
        ensure_eq!(stand.send(commit).await?, Outcome::Conflict, "a commit on an old version");
        stand.write(partition, Changes::default()).await?;
    }
    stand.reopen().await?;
    stand.same().await
}

pub async fn two_handles_see_each_others_commits(stand: &mut Stand) -> Check {
    let other = stand.another().await?;
    let partition = stand.last();
    ensure_eq!(other.info(), stand.store.info(), "what both handles say of themselves");
    let mut expected = Version::NONE;
    for n in 0..10 {
        let id = samples::id(stand.partitions, partition, n);
        stand.desk(partition).put_execution(samples::ready(id, START, n), START);
        let changes = stand.desk(partition).take_batch(START);
        let commit = Commit { partition, expected, id: stand.new_id(), by: SERVER, changes };
        let (ours, stale_id) = (stand.store.clone(), stand.new_id());
        let (writer, reader) = if n % 2 == 0 { (&ours, &other) } else { (&other, &ours) };
        let outcomes = writer.commit(vec![commit.clone()]).await;
        ensure_eq!(outcomes, vec![Outcome::Committed { now: START }], "a commit on the newest version");
        let asks = vec![Ask::Record(Key::Execution(id))];
        let loaded = reader.load(partition, asks).await.map_err(|error| error.to_string())?;
        let seen = matches!(loaded.answers.as_slice(), [Answer::Execution(_, Some(_))]);
        ensure!(seen, "the other handle does not see the record: {loaded:?}");
        let stale = Commit { id: stale_id, ..commit.clone() };
        let outcomes = reader.commit(vec![stale]).await;
        ensure_eq!(outcomes, vec![Outcome::Conflict], "the same version over the other handle");
        expected = Version { number: expected.number + 1, id: commit.id };
        ensure_eq!(loaded.version, expected, "the version the other handle sees");
    }
    let (one, two) = (Dump::of(&*stand.store).await?, Dump::of(&*other).await?);
    two.compare(&one)?;
    other.close().await;
    Ok(())
}

fn is_unavailable<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable(_)))
}

pub async fn a_closed_handle_is_unavailable_and_others_go_on(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let closed = stand.another().await?;
    closed.close().await;
    closed.close().await;
    let id = stand.new_id();
    let commit = Commit { partition, expected: Version::NONE, id, by: SERVER, changes: Changes::default() };
    let outcomes = closed.commit(vec![commit]).await;
    let failed = matches!(outcomes.as_slice(), [Outcome::Failed(StoreError::Unavailable(_))]);
    ensure!(failed, "a commit over a closed handle: {outcomes:?}");
    let ask =
        PageAsk { filter: Filter::default(), order: Order::OldestFirst, after: None, limit: 1, scan_max: 1 };
    let execution = samples::id(stand.partitions, partition, 1);
    let calls = [
        ("load", is_unavailable(closed.load(partition, vec![]).await)),
        ("written", is_unavailable(closed.written(partition, 1).await)),
        ("turn", is_unavailable(closed.turn(partition, SERVER, 1).await)),
        ("beat", is_unavailable(closed.beat("a".to_owned()).await)),
        ("exchange", is_unavailable(closed.exchange("a".to_owned(), vec![]).await)),
        ("status", is_unavailable(closed.status().await)),
        ("payloads", is_unavailable(closed.payloads(vec![]).await)),
        ("attempts", is_unavailable(closed.attempts(execution).await)),
        ("executions", is_unavailable(closed.executions(ask).await)),
        ("counts", is_unavailable(closed.counts().await)),
        ("events", is_unavailable(closed.events(partition, 1, 1).await)),
        ("first_event_since", is_unavailable(closed.first_event_since(partition, 0).await)),
    ];
    for (call, unavailable) in calls {
        ensure!(unavailable, "{call} over a closed handle is not unavailable");
    }
    ensure_eq!(stand.version(partition).await?, Version::NONE, "version after a commit that failed");
    stand.write(partition, Changes::default()).await.map(drop)
}

pub async fn the_store_keeps_its_identity(stand: &mut Stand) -> Check {
    let before = stand.store.info();
    ensure_eq!(before.partitions, stand.partitions, "partitions");
    ensure!(!before.id.is_nil(), "the store has no id");
    ensure!(before.id != stand.reference.info().id, "two stores have one id");
    stand.reopen().await?;
    ensure_eq!(stand.store.info(), before, "what the store says of itself after reopening");
    Ok(())
}

pub async fn servers_beat_and_leave(stand: &mut Stand) -> Check {
    let other = stand.another().await?;
    let store = &stand.store;
    let names = |all: &[&str]| Ok(all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    ensure_eq!(store.beat("c".to_owned()).await, names(&["c"]), "servers after the first sign of life");
    ensure_eq!(other.beat("a".to_owned()).await, names(&["a", "c"]), "servers over another handle");
    for _ in 0..2 {
        let all = names(&["a", "b 'ä'", "c"]);
        ensure_eq!(store.beat("b 'ä'".to_owned()).await, all, "servers after another sign of life");
    }
    // This process lives, so nobody is gone.
    ensure_eq!(store.gone().await, Ok(vec![]), "servers that are gone while their process lives");
    for server in ["a", "never there", "a"] {
        other.leave(server.to_owned()).await.map_err(|error| error.to_string())?;
    }
    ensure_eq!(store.beat("c".to_owned()).await, names(&["b 'ä'", "c"]), "servers after one has left");
    for server in ["b 'ä'", "c"] {
        store.leave(server.to_owned()).await.map_err(|error| error.to_string())?;
    }
    ensure_eq!(store.gone().await, Ok(vec![]), "servers that are gone after they left");
    other.close().await;
    Ok(())
}

pub async fn parcels_reach_whom_they_are_for(stand: &mut Stand) -> Check {
    let other = stand.another().await?;
    let store = &stand.store;
    let parcel = |to: &str, text: &str| Parcel { to: to.to_owned(), text: text.to_owned() };
    let name = str::to_owned;
    let sent = vec![parcel("b", "{\"for\": \"'b'\"}"), parcel("c", "ä"), parcel("b", "")];
    ensure_eq!(store.exchange(name("a"), sent).await, Ok(vec![]), "parcels for one who only leaves some");
    let mut taken =
        other.exchange(name("b"), vec![parcel("a", "back")]).await.map_err(|it| it.to_string())?;
    taken.sort();
    ensure_eq!(taken, ["", "{\"for\": \"'b'\"}"], "parcels over another handle");
    ensure_eq!(other.exchange(name("b"), vec![]).await, Ok(vec![]), "parcels that were taken");
    ensure_eq!(store.exchange(name("a"), vec![]).await, Ok(vec![name("back")]), "parcels that came back");
    stand.clock.advance(PARCEL_MS);
    ensure_eq!(store.exchange(name("c"), vec![]).await, Ok(vec![]), "parcels that nobody took in time");
    other.close().await;
    Ok(())
}
