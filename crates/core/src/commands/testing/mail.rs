//! What must hold of mailboxes, steps and streams after every commit.

use super::model::Model;
use crate::execution::{Execution, State};
use crate::workspace::waitpoint_entries;

pub(super) fn check(store: &Model, it: &Execution) {
    let steps = store.steps.keys().any(|(id, _)| *id == it.id);
    assert_eq!(it.live.stepped, steps, "an execution knows whether steps are recorded");
    assert_eq!(it.live.streamed, store.streams.contains_key(&it.id));
    let kept = store.signals.range((it.id, 0)..=(it.id, u32::MAX)).map(|((_, number), _)| *number);
    let received = it.mailbox().map_or(0, |mailbox| mailbox.received);
    assert!(kept.eq(1..=received), "signals are numbered without gaps");
    if let Some(parent) = it.spec.parent.filter(|_| it.end().is_none() && it.live.series.number == 1) {
        let parent = store.executions.get(&parent).and_then(|parent| parent.mailbox());
        assert!(parent.is_some_and(|parent| parent.children.contains(&it.id)), "a child has its parent");
    }
    let Some(mailbox) = it.mailbox() else {
        return assert!(it.suspension().is_none());
    };
    if it.end().is_some() {
        assert!(mailbox.waitpoints.is_empty() && mailbox.signals.is_empty(), "nothing waits after the end");
    } else {
        for child in &mailbox.children {
            let child = &store.executions[child];
            assert!(child.end().is_none() && child.spec.parent == Some(it.id), "an ended child is told");
        }
    }
    assert!(mailbox.signals.iter().all(|signal| signal.number <= mailbox.received));
    assert!(mailbox.waitpoints.iter().all(|open| open.number <= mailbox.opened));
    if let State::Suspended(suspension) = &it.live.state {
        let met = suspension.condition.met_by(&mailbox.signals);
        assert_eq!(met, None, "what is satisfied is not suspended");
    }
}

pub(super) fn check_all(store: &Model) {
    let open = store.executions.values().flat_map(|it| waitpoint_entries(it)).map(|entry| (entry.id, entry));
    assert_eq!(store.waitpoints, open.collect(), "the inbox follows from the records");
    let lives = |id| store.executions.contains_key(id);
    assert!(store.streams.keys().all(lives), "a stream goes with its execution");
    assert!(store.frames.keys().all(|(id, ..)| lives(id)));
    assert!(store.steps.keys().all(|(id, _)| lives(id)));
    assert!(store.signals.keys().all(|(id, _)| lives(id)));
    for (id, attempt, number) in store.frames.keys() {
        let stream = &store.streams[id];
        assert!(*attempt <= stream.attempt);
        assert!(*attempt < stream.attempt || (stream.first..stream.next).contains(number));
    }
}
