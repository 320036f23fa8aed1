//! Bugs on the way in: what a broken store does to a commit.

use std::sync::Arc;

use ff_core::change::{Changes, ExecutionChange};
use ff_core::execution::Execution;
use ff_core::inbox::Fate;

use super::Bug;
use crate::memory::MemoryState;
use crate::{Commit, Outcome, Version, Written};

/// Commits a flush the way a store with this bug does.
pub fn commit_all(state: &mut MemoryState, bug: Bug, commits: Vec<Commit>, now: ff_core::Ms) -> Vec<Outcome> {
    let before = state.clone();
    let outcomes: Vec<Outcome> =
        commits.into_iter().map(|commit| commit_one(state, bug, commit, now)).collect();
    if bug == Bug::OneConflictFailsAll && outcomes.contains(&Outcome::Conflict) {
        *state = before;
        return vec![Outcome::Conflict; outcomes.len()];
    }
    outcomes
}

fn commit_one(state: &mut MemoryState, bug: Bug, mut commit: Commit, now: ff_core::Ms) -> Outcome {
    let Ok(partition) = state.partition(commit.partition) else { return state.commit(commit, now) };
    let (newest, header, turn) = (partition.version(), *partition.header(), partition.turn);
    let partition = commit.partition;
    match bug {
        Bug::NoVersionCheck => commit.expected = newest,
        Bug::IdNotChecked if commit.expected.number == newest.number => commit.expected = newest,
        Bug::TurnIgnored => commit.by = turn.map_or(commit.by, |(server, _)| server),
        Bug::TurnStopsAllPartitions
            if state.partitions().filter_map(|(_, it)| it.turn(now)).any(|holder| holder != commit.by) =>
        {
            return Outcome::Conflict;
        }
        Bug::EmptyCommitMakesNoVersion if commit.changes.is_empty() => return Outcome::Committed { now },
        Bug::RepeatSucceeds => {
            let written = state.written(partition, commit.expected.number + 1);
            if written == Ok(Written::By(commit.id)) {
                return Outcome::Committed { now };
            }
        }
        _ => {}
    }
    let half = what_a_conflict_leaves(bug, &commit.changes);
    spoil(state, bug, &mut commit);
    let outcome = state.commit(commit, now);
    if let (Outcome::Conflict, Some(half), Ok(it)) = (&outcome, half, state.partition_mut(partition)) {
        it.apply(Changes { header, ..half });
    }
    if let (Bug::TurnOutlivesItsCommit, Ok(it)) = (bug, state.partition_mut(partition)) {
        it.turn = turn;
    }
    outcome
}

fn what_a_conflict_leaves(bug: Bug, changes: &Changes) -> Option<Changes> {
    let none = Changes::default();
    Some(match bug {
        Bug::ConflictWritesExecutions => Changes { executions: changes.executions.clone(), ..none },
        Bug::ConflictWritesEvents => Changes { events: changes.events.clone(), ..none },
        Bug::ConflictWritesRecords => Changes { registry: changes.registry.clone(), ..none },
        Bug::ConflictTakesRows => Changes { inbox: changes.inbox.clone(), ..none },
        Bug::ConflictMovesCounters => Changes { counts: changes.counts.clone(), ..none },
        _ => return None,
    })
}

/// Changes what is written.
fn spoil(state: &MemoryState, bug: Bug, commit: &mut Commit) {
    let changes = &mut commit.changes;
    let Ok(before) = state.partition(commit.partition) else { return };
    match bug {
        Bug::ForgetsAgendaRemovals => changes.agenda_removed.clear(),
        Bug::ForgetsReadyRemovals => changes.ready_removed.clear(),
        Bug::ForgetsEndedRemovals => changes.ended_removed.clear(),
        Bug::AddsBeforeItRemoves => {
            let removed: Vec<_> = changes.ready_removed.iter().map(|entry| entry.place()).collect();
            changes.ready_added.retain(|entry| !removed.contains(&entry.place()));
        }
        Bug::MessageDropped => changes.agenda_added.iter_mut().for_each(|entry| entry.message = None),
        Bug::LinkNotUpdated => changes.links.retain(|link| before.links().all(|it| it.peer != link.peer)),
        Bug::DedupDropped => changes.dedup.clear(),
        Bug::DedupNotRemoved => changes.dedup.retain(|(_, dedup)| dedup.is_some()),
        Bug::HeaderLosesSweep => changes.header.sweep_at = None,
        Bug::HeaderLosesTime => changes.header.now = 0,
        Bug::PayloadNotReplaced => {
            changes.payloads.retain(|(key, _)| before.payloads().all(|(it, _)| it != key));
        }
        Bug::PayloadCut => {
            changes.payloads.iter_mut().for_each(|(_, payload)| payload.bytes.truncate(1 << 20));
        }
        Bug::AttemptsDropped => changes.attempts.retain(|(_, attempt)| attempt.number % 5 != 0),
        Bug::LanesNotRemoved => changes.lanes.retain(|(_, lane)| lane.is_some()),
        Bug::WorkersNotRemoved => changes.workers.retain(|(_, worker)| worker.is_some()),
        Bug::FlowNotRemoved => changes.flows.retain(|(_, flow)| flow.is_some()),
        Bug::FlowKeepsItsRevision => {
            for flow in changes.flows.iter_mut().filter_map(|(_, flow)| flow.as_mut()) {
                if let Some(before) = before.flows().find(|it| it.id == flow.id) {
                    Arc::make_mut(flow).live.revision = before.live.revision;
                }
            }
        }
        Bug::EdgeNotCounted => {
            changes.edges.retain(|(key, it)| it.is_none() || before.edges().all(|it| it.key != *key));
        }
        Bug::EdgeNotRemoved => changes.edges.retain(|(_, edge)| edge.is_some()),
        Bug::TextTrimmed => {
            for (_, payload) in &mut changes.payloads {
                payload.content_type = payload.content_type.trim().into();
            }
        }
        Bug::OptionalFieldDropped => change_executions(changes, |it| {
            Arc::make_mut(&mut it.spec).idempotency_until = None;
        }),
        Bug::UpdateKeepsTags => change_executions(changes, |it| {
            if let Some(before) = before.execution(it.id) {
                it.live.tags = before.live.tags.clone();
            }
        }),
        Bug::TakenRowStays => changes.inbox.retain(|(_, fate)| *fate != Fate::Taken),
        Bug::TakesRowsPostedMeanwhile if !changes.inbox.is_empty() => {
            changes.inbox.extend(before.inbox().map(|row| (row.number, Fate::Taken)));
        }
        Bug::RepostedLetterIsLost => changes
            .inbox
            .iter_mut()
            .filter(|(_, fate)| *fate == Fate::Reposted)
            .for_each(|(_, fate)| *fate = Fate::Dropped),
        Bug::DroppedLetterStays => changes.inbox.retain(|(_, fate)| *fate != Fate::Dropped),
        Bug::DeadLetterDropped => changes.inbox.iter_mut().for_each(|(_, fate)| *fate = Fate::Taken),
        Bug::DeadLetterStaysPosted => changes.inbox.retain(|(_, fate)| *fate == Fate::Taken),
        Bug::CountNotLowered => changes.counts.retain(|(_, delta)| *delta > 0),
        Bug::ReadyCountNotLowered => changes.ready_counts.retain(|(_, delta)| *delta > 0),
        Bug::EventsWithGap => changes.events.retain(|event| event.number % 7 != 0),
        Bug::TrimIgnored => changes.events_trimmed_below = None,
        Bug::TrimOffByOne => {
            changes.events_trimmed_below = changes.events_trimmed_below.map(|below| below + 1);
        }
        Bug::PurgeLeavesPayload => {
            let gone = purged(changes);
            let left = before.payloads().filter(|(key, _)| gone.contains(&key.execution));
            changes.payloads.extend(left.map(|(key, payload)| (*key, payload.clone())));
        }
        Bug::PurgeLeavesAttempts => {
            let left = before.attempts().filter(|(id, _)| purged(changes).contains(id));
            let left: Vec<_> = left.map(|(id, attempt)| (id, attempt.clone())).collect();
            changes.attempts.extend(left);
        }
        Bug::PurgeTakesTheNeighbour => {
            let next = |id| before.executions().map(|it| it.id).find(|it| *it > id);
            let neighbours: Vec<_> = purged(changes).into_iter().filter_map(next).collect();
            changes.executions.extend(neighbours.into_iter().map(ExecutionChange::Purge));
        }
        _ => super::mail::spoil(before, bug, changes),
    }
}

pub(super) fn purged(changes: &Changes) -> Vec<ff_core::ExecutionId> {
    let purged = changes.executions.iter().filter_map(|change| match change {
        ExecutionChange::Purge(id) => Some(*id),
        _ => None,
    });
    purged.collect()
}

fn change_executions(changes: &mut Changes, change: impl Fn(&mut Execution)) {
    for it in &mut changes.executions {
        if let ExecutionChange::Insert(it) | ExecutionChange::Update(it) = it {
            change(Arc::make_mut(it));
        }
    }
}

/// The guard as a store checks it that reads the version first and writes later.
pub fn passes_guard(state: &MemoryState, commit: &Commit) -> bool {
    let newest = state.partition(commit.partition).map_or(Version::NONE, |it| it.version());
    newest == commit.expected
}
