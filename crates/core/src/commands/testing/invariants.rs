//! What must hold after every commit, whatever was asked.

use std::collections::{BTreeMap, BTreeSet};

use super::model::Model;
use crate::Ms;
use crate::agenda::{AgendaKey, Subject};
use crate::change::EndedEntry;
use crate::event::Fact;
use crate::execution::{Execution, State};
use crate::fold::Folded;
use crate::query::CountKey;
use crate::registry::RecordKind;
use crate::state::Reason;
use crate::workspace::Workspace;

/// How late a sweep may come after the first record it is for: two sweeps are that far apart.
const SWEEP_SLACK_MS: Ms = 1_000;
const DEAD_WORKER_MS: Ms = 24 * 3_600_000;

pub(super) fn check(store: &Model) {
    store.executions.values().for_each(|it| check_execution(store, it));
    check_derived_tables(store);
    check_sweep(store);
    super::graph::check(store);
    super::mail::check_all(store);
    let folded: BTreeMap<_, _> = store.executions.iter().map(|(id, it)| (*id, Folded::of(it))).collect();
    assert_eq!(store.folded, folded, "folding the events gives the stored state");
    assert_eq!(store.header.next_event, store.events.len() as u64 + 1);
}

fn check_execution(store: &Model, it: &Execution) {
    let live = &it.live;
    let ended = it.end().is_some();
    assert_eq!(ended, it.public_state().is_terminal());
    // One mover: the ready table is compared as a whole, a lease and a hold are the state itself.
    if let State::Delayed { until, .. } = live.state {
        assert!(live.timer.is_some_and(|timer| timer <= until), "a delay has its wake entry");
    }
    let earliest = it.guards().map(|(at, _)| at).min();
    match (live.timer, earliest) {
        (None, None) => {}
        (Some(timer), Some(due)) => assert!(timer <= due, "the timer is due no later than a guard"),
        other => panic!("a timer stands exactly while a guard does: {other:?} for {it:?}"),
    }
    assert!(live.series.spent <= it.spec.policy.max_attempts, "spent attempts never exceed the policy");
    assert!(live.endings.len() <= 32);
    let epochs: Vec<u64> = live.endings.iter().map(|ending| ending.epoch).collect();
    assert!(epochs.is_sorted_by(|a, b| a < b), "each lease ends once: {epochs:?}");
    let leased = it.lease().is_some();
    assert_eq!(epochs.last().copied().unwrap_or(0) + u64::from(leased), live.epoch);
    check_attempts(store, it);
    super::mail::check(store, it);
    let endings = store.endings[&it.id];
    assert_eq!(endings + u32::from(!ended), live.series.number, "one completion event per ending");
    assert!(live.changed_at >= it.spec.created_at);
}

fn check_attempts(store: &Model, it: &Execution) {
    let archived = store.attempts.range((it.id, 0)..=(it.id, u32::MAX));
    let mut expected = 1;
    for ((_, number), attempt) in archived {
        assert_eq!((*number, attempt.number), (expected, expected), "attempts are numbered without gaps");
        assert!(attempt.end.is_some(), "an archived attempt has its outcome");
        assert!(attempt.series <= it.live.series.number);
        expected += 1;
    }
    let Some(attempt) = &it.live.attempt else {
        return assert!(expected == 1 && it.lease().is_none());
    };
    assert_eq!(attempt.number, expected, "the newest attempt follows those archived");
    let put_off = |reason| reason == Some(Reason::ResumeDelay);
    let open = match &it.live.state {
        State::Active(lease) => {
            assert_eq!((&lease.worker, lease.instance), (&attempt.worker, attempt.instance));
            true
        }
        State::Ended(_) | State::Blocked { .. } => false,
        State::Suspended(_) => true,
        State::Delayed { reason, .. } => put_off(Some(*reason)),
        // Ready or held: open exactly if its newest lease was put off, not ended.
        State::Ready { .. } | State::Held { .. } => {
            let newest = it.live.endings.last().map(|ending| ending.how.word());
            matches!(newest, Some("delayed" | "suspended")) && attempt.series == it.live.series.number
        }
    };
    assert_eq!(attempt.end.is_none(), open, "an attempt has one outcome exactly when it is over: {it:?}");
}

fn check_derived_tables(store: &Model) {
    let mut ready = BTreeMap::<_, BTreeMap<_, _>>::new();
    let mut counts = BTreeMap::<_, i64>::new();
    let mut ended = BTreeSet::new();
    let mut agenda = BTreeSet::new();
    for it in store.executions.values() {
        *counts.entry(CountKey::of(it)).or_default() += 1;
        if let Some(entry) = it.ready_entry() {
            let place = entry.place();
            ready.entry((entry.lane, entry.class)).or_default().insert(place, it.id);
        }
        let end = it.end().filter(|_| it.flow().is_none());
        ended.extend(end.map(|end| EndedEntry { remove_at: end.remove_at, execution: it.id }));
        agenda.extend(it.live.timer.map(|due| AgendaKey { due, subject: Subject::Timer(it.id) }));
        let passing = it.node().and_then(|node| node.passing);
        agenda.extend(passing.map(|at| AgendaKey { due: at.since, subject: Subject::Cascade(it.id) }));
        let left = it.end().filter(|_| it.has_children());
        agenda.extend(left.map(|end| AgendaKey { due: end.at, subject: Subject::Children(it.id) }));
    }
    let trims = store.streams.values().filter_map(|it| Some((it.trim_at?, it.execution)));
    agenda.extend(trims.map(|(due, id)| AgendaKey { due, subject: Subject::Frames(id) }));
    let walks = store.flows.values().filter_map(|it| Some((it.live.walk?, it.id)));
    agenda.extend(walks.map(|(at, id)| AgendaKey { due: at.since, subject: Subject::Members(id) }));
    let ready_counts: BTreeMap<_, _> = ready.iter().map(|(key, it)| (key.clone(), it.len() as i64)).collect();
    agenda.extend(store.workers.values().flat_map(|worker| worker.agenda()));
    agenda.extend(store.header.sweep_at.map(|due| AgendaKey { due, subject: Subject::Sweep }));
    let is_message = |key: &&AgendaKey| matches!(key.subject, Subject::Deliver { .. });
    let stored: BTreeSet<AgendaKey> = store.agenda.keys().filter(|key| !is_message(key)).copied().collect();
    assert_eq!(store.ready, ready, "the ready table follows from the records");
    assert_eq!(store.ready_counts, ready_counts, "ready counters equal a recount");
    assert_eq!(store.counts, counts, "counters equal a recount");
    assert_eq!(store.ended, ended, "the ended table follows from the records");
    assert_eq!(stored, agenda, "the agenda follows from the records");
    for key in store.agenda.keys().filter(is_message) {
        let Subject::Deliver { to, number } = key.subject else { continue };
        assert!(number <= store.links[&to].sent && store.agenda[key].is_some());
    }
}

/// Whatever may be removed one day has a sweep that comes in time.
fn check_sweep(store: &Model) {
    let ended = store.ended.iter().map(|entry| entry.remove_at);
    let keys = store.dedup.values().map(|dedup| dedup.expires_at).filter(|at| *at < crate::Ms::MAX);
    let newest = store.signing_keys.keys().max();
    let passing = store.signing_keys.values().filter(|key| Some(&key.id) != newest);
    let retired = passing.filter_map(|key| key.retires_at);
    let dead = store.workers.values().filter(|it| it.releasing_since.is_none());
    let dead = dead.filter_map(|worker| worker.died_at).map(|at| at + DEAD_WORKER_MS);
    let flows = store.flows.values().filter_map(|it| it.live.end.as_ref()).filter_map(|end| end.remove_at);
    if let Some(first) = ended.chain(keys).chain(dead).chain(flows).chain(retired).min() {
        let limit = first.max(store.header.now + SWEEP_SLACK_MS);
        let sweep_at = store.header.sweep_at;
        assert!(sweep_at.is_some_and(|at| at <= limit), "{sweep_at:?} comes too late for {first}");
    }
    for (key, dedup) in &store.dedup {
        let lives = store.executions.contains_key(&dedup.execution);
        assert!(
            lives || key.is_of_signal() || dedup.expires_at <= store.header.now,
            "{key:?} outlives its execution"
        );
    }
}

/// How one record may follow another, across any number of commands.
pub(super) fn check_step(before: &Execution, after: &Execution, events: &[crate::event::Event]) {
    if before.spec != after.spec {
        return;
    }
    let own = || events.iter().filter(|event| event.execution == Some(after.id));
    let replayed = own().any(|event| matches!(event.fact, Fact::Replayed { .. }));
    assert!(after.live.epoch >= before.live.epoch, "epochs only grow");
    assert!(after.attempt_number() >= before.attempt_number());
    if before.end().is_some() && !replayed {
        assert_eq!(before.live.state, after.live.state, "an ending changes only by replay");
    }
    let changed = (before.public_state(), before.reason()) != (after.public_state(), after.reason());
    assert!(!changed || own().next().is_some(), "every transition has its event");
}

/// What the workspace holds in memory is the part of the store it claims to be.
/// What is cached is what is stored.
pub(super) fn check_records(ws: &Workspace, store: &Model) {
    for (id, it) in &store.executions {
        if let Ok(cached) = ws.execution(*id) {
            assert_eq!(cached, Some(it));
        }
    }
    for (key, it) in &store.dedup {
        if let Ok(cached) = ws.dedup(key) {
            assert_eq!(cached, Some(*it));
        }
    }
    store.lanes.iter().for_each(|(name, lane)| assert_eq!(&ws.lane(name), lane));
    let workers: BTreeSet<_> = ws.workers().map(|it| it.instance).collect();
    assert_eq!(workers, store.workers.keys().copied().collect());
    store.workers.iter().for_each(|(id, worker)| assert_eq!(ws.worker(*id), Some(worker)));
    store.links.iter().for_each(|(peer, link)| assert_eq!(ws.link(*peer), *link));
    for (id, it) in &store.flows {
        if let Ok(cached) = ws.flow(*id) {
            assert_eq!(cached, Some(it));
        }
    }
    for (id, it) in &store.streams {
        if let Ok(cached) = ws.stream(*id) {
            assert_eq!(cached, Some(it));
        }
    }
    assert_eq!(ws.signing_keys().count(), store.signing_keys.len());
    store.signing_keys.iter().for_each(|(id, key)| assert_eq!(ws.signing_key(*id), Some(key)));
    for kind in RecordKind::ALL {
        if let Ok(cached) = ws.records(*kind) {
            let stored = store.registry.keys().filter(|key| key.kind == *kind).count();
            assert_eq!(cached.count(), stored, "all records of a kind are known");
        }
    }
    for (key, it) in &store.registry {
        if let Ok(cached) = ws.record(key) {
            assert_eq!(cached, Some(it));
        }
    }
    for (key, it) in &store.edges {
        if let Ok(cached) = ws.edge(*key) {
            assert_eq!(cached, Some(it));
        }
    }
    assert_eq!(*ws.header(), store.header);
}

pub(super) fn check_windows(ws: &Workspace, store: &Model) {
    for (key, places) in &store.ready {
        let window = ws.ready().window(&key.0, &key.1).expect("a class with entries has a window");
        let front: Vec<_> = places
            .iter()
            .take_while(|(place, _)| **place <= window.mark())
            .map(|(p, id)| (*p, *id))
            .collect();
        assert_eq!(window.iter_from(None).collect::<Vec<_>>(), front, "a window is a gapless prefix");
        assert_eq!(window.total(), places.len() as u64);
    }
    for (lane, classes) in ws.ready().lanes() {
        for (class, window) in classes {
            let stored = store.ready.contains_key(&(lane.clone(), class.clone()));
            assert!(stored || (window.total() == 0 && window.is_empty()));
        }
    }
    let mark = ws.agenda().mark();
    let due: Vec<_> = store.agenda.iter().take_while(|(key, _)| key.due <= mark).collect();
    assert_eq!(ws.agenda().iter().collect::<Vec<_>>(), due, "the agenda in memory is a gapless prefix");
    for worker in store.workers.keys() {
        let held: BTreeSet<_> = ws.leases_of(*worker).collect();
        let leased = store.executions.values().filter(|it| it.lease().is_some_and(|l| l.instance == *worker));
        assert_eq!(held, leased.map(|it| it.id).collect());
    }
}
