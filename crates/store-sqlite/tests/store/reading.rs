//! Reading what only this store packs in its own way: events, changed keys, status.

use std::sync::Arc;

use ff_core::PartitionId;
use ff_core::change::Changes;
use ff_core::key::Ask;
use ff_core::query::{Filter, Order, PageAsk};
use ff_core::workspace::Answer;
use ff_store::{ManualClock, Store, Written};
use ff_store_sqlite::{Options, SqliteStore};

use crate::desk::{Desk, START};

pub fn everything() -> PageAsk {
    PageAsk {
        filter: Filter::default(),
        order: Order::NewestFirst,
        after: None,
        limit: 1_000,
        scan_max: 10_000,
    }
}

const ZERO: PartitionId = PartitionId(0);

fn numbers(events: &[ff_core::event::Event]) -> Vec<u64> {
    events.iter().map(|event| event.number).collect()
}

#[tokio::test]
async fn events_come_without_gaps_across_packs_and_after_a_trim_inside_a_pack() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db"), Options::default()).unwrap();
    let mut desk = Desk::new(0, 1);
    // Packs of different sizes: 1, 300 (in two rows), 5.
    for (count, at) in [(1, 0), (300, 10), (5, 20)] {
        desk.now = START + at;
        (0..count).for_each(|_| _ = desk.create());
        desk.flush(&store).await;
    }
    let page = store.events(ZERO, 1, 1_000).await.unwrap();
    assert_eq!(numbers(&page.events), (1..=306).collect::<Vec<_>>());
    assert_eq!((page.oldest, page.next), (1, 307));
    assert_eq!(numbers(&store.events(ZERO, 250, 20).await.unwrap().events), (250..270).collect::<Vec<_>>());
    assert_eq!(store.events(ZERO, 307, 20).await.unwrap().events, []);
    for (at, first) in [(-5, 1), (0, 1), (1, 2), (10, 2), (11, 302), (20, 302), (21, 307)] {
        assert_eq!(store.first_event_since(ZERO, START + at).await.unwrap(), first, "{at}");
    }

    let header = *desk.workspace.header();
    let changes = Changes { header, events_trimmed_below: Some(250), ..Changes::default() };
    let commit = desk.commit_of(changes);
    store.commit(vec![commit]).await;
    let page = store.events(ZERO, 1, 1_000).await.unwrap();
    assert_eq!(numbers(&page.events), (250..=306).collect::<Vec<_>>());
    assert_eq!((page.oldest, page.next), (250, 307));
    assert_eq!(store.first_event_since(ZERO, START).await.unwrap(), 250);
}

#[tokio::test]
async fn old_commits_are_forgotten_in_steps_but_not_within_the_hour() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(START));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let store = SqliteStore::open(folder.path().join("a.db"), options).unwrap();
    let mut desk = Desk::new(0, 1);
    let many = |desk: &mut Desk, count| (0..count).map(|_| desk.commit()).collect::<Vec<_>>();
    store.commit(many(&mut desk, 1_500)).await;
    assert!(matches!(store.written(ZERO, 1).await.unwrap(), Written::By(_)));
    clock.advance(3_600_001);
    store.commit(many(&mut desk, 1_000)).await;
    assert_eq!(store.written(ZERO, 1).await.unwrap(), Written::Forgotten);
    assert!(matches!(store.written(ZERO, 1_501).await.unwrap(), Written::By(_)));
    assert_eq!(store.written(ZERO, 2_501).await.unwrap(), Written::Not);
    for (since, told) in [(1, false), (2_399, false), (2_400, true), (2_500, true), (2_501, false)] {
        let answers = store.load(ZERO, vec![Ask::Changes { since }]).await.unwrap().answers;
        let [Answer::Changes(missed)] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!(missed.as_ref().map(|it| it.keys()), told.then(Vec::new), "since {since}");
    }
}

#[tokio::test]
async fn status_follows_the_commits_of_every_handle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let ours = SqliteStore::open(&path, Options::default()).unwrap();
    let theirs = SqliteStore::open(&path, Options::default()).unwrap();
    let mut desk = Desk::new(0, 1);
    for store in [&ours, &theirs, &ours] {
        let before = ours.status().await.unwrap().1;
        assert_eq!(before[0].version, desk.version);
        desk.create();
        desk.flush(store).await;
        let after = ours.status().await.unwrap().1;
        assert_eq!(after[0].version, desk.version);
        assert_eq!(after, theirs.status().await.unwrap().1);
        assert_eq!(after[0].ready[0].2, desk.version.number);
    }
}

#[tokio::test]
async fn pages_go_on_where_they_stopped_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db"), Options::default()).unwrap();
    let mut desk = Desk::new(0, 1);
    let mut ids: Vec<_> = (0..25).map(|_| desk.create()).collect();
    ids.sort();
    desk.flush(&store).await;
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let ask = PageAsk { order, after, limit: 4, scan_max: 3, ..everything() };
            let page = store.executions(ask).await.unwrap();
            found.extend(page.executions.into_iter().map(|it| it.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if order == Order::NewestFirst {
            found.reverse();
        }
        assert_eq!(found, ids);
    }
}
