//! Bugs on the way out: what a broken store does to an ask and its answer.

use ff_core::flow::EdgeKey;
use ff_core::key::{Ask, Key};
use ff_core::query::{FlowPage, FlowPageAsk, Order, Page, PageAsk};
use ff_core::ready::Place;
use ff_core::workspace::{Answer, Missed, Opening, SweepPage};
use ff_core::{ExecutionId, FlowId, Ms, PartitionId};
use uuid::Uuid;

use super::Bug;
use crate::memory::MemoryState;
use crate::{Loaded, StoreError};

/// Answers a load the way a store with this bug does.
pub fn load(
    state: &MemoryState,
    bug: Bug,
    partition: PartitionId,
    asks: &[Ask],
    now: Ms,
) -> Result<Loaded, StoreError> {
    let spoiled: Vec<Ask> = asks.iter().map(|ask| spoil_ask(bug, ask.clone())).collect();
    let mut loaded = state.load(partition, &spoiled, now)?;
    for (ask, answer) in asks.iter().zip(&mut loaded.answers) {
        spoil_answer(state, bug, partition, ask, answer);
    }
    match bug {
        Bug::AnswersOutOfOrder => {
            loaded.answers.sort_by_key(|answer| matches!(answer, Answer::Opening(_)));
        }
        Bug::PartitionsMixed => {
            let others = state.load(PartitionId(0), asks, now)?;
            let lanes = |it: &Answer| matches!(it, Answer::Lane(..));
            let mixed = loaded.answers.iter_mut().zip(others.answers).filter(|(it, _)| lanes(it));
            mixed.for_each(|(answer, other)| *answer = other);
        }
        _ => {}
    }
    Ok(loaded)
}

fn spoil_ask(bug: Bug, mut ask: Ask) -> Ask {
    match (bug, &mut ask) {
        (Bug::ReadyIncludesItsStart, Ask::Ready { after, .. }) => {
            after.number = after.number.saturating_sub(1);
        }
        (Bug::ReadySkipsOne, Ask::Ready { after, .. }) => after.number += 1,
        (Bug::ReadyOrderedByNumberOnly | Bug::ReadyRankWithoutSign, Ask::Ready { after, limit, .. }) => {
            (*after, *limit) = (Place { rank: i64::MIN, number: 0 }, usize::MAX);
        }
        (Bug::ListIncludesItsStart, Ask::List { after, .. }) => *after = after.saturating_sub(1),
        (Bug::ListOrderedById, Ask::List { limit, .. }) => *limit = usize::MAX,
        (Bug::EdgesWithoutDirection, Ask::Record(Key::Edge(key))) => {
            let EdgeKey { upstream, downstream } = *key;
            let least = upstream.min(downstream);
            *key = EdgeKey { upstream: least, downstream: upstream.max(downstream) };
        }
        (Bug::SweepOfFlowsWithoutLimit, Ask::Sweep { limit, .. }) => *limit = usize::MAX,
        (Bug::AgendaIncludesItsStart, Ask::Agenda { after, .. }) => *after = after.saturating_sub(1),
        (Bug::SweepWithoutLimit, Ask::Sweep { limit, .. }) => *limit = usize::MAX,
        (Bug::InboxWithoutLimit, Ask::Inbox { limit, .. }) => *limit = usize::MAX,
        (Bug::InboxIgnoresBytes, Ask::Inbox { bytes, .. }) => *bytes = usize::MAX,
        (Bug::SweepTooEager, Ask::Sweep { now, .. }) => *now = now.saturating_add(1),
        _ => {}
    }
    ask
}

fn spoil_answer(state: &MemoryState, bug: Bug, partition: PartitionId, ask: &Ask, answer: &mut Answer) {
    match (ask, answer) {
        (Ask::Ready { after, limit, .. }, Answer::Ready { class, limit: told, entries, executions, .. }) => {
            *told = *limit;
            match bug {
                Bug::ReadyOrderedByNumberOnly => entries.sort_by_key(|(place, _)| place.number),
                Bug::ReadyRankWithoutSign => entries.sort_by_key(|(place, _)| place.rank as u64),
                Bug::ReadyWithoutExecutions => executions.clear(),
                Bug::ReadyMixesClasses => {
                    let Ok(it) = state.partition(partition) else { return };
                    let kin = it.ready().filter(|entry| entry.class.kind == class.kind);
                    *entries = kin.map(|entry| (entry.place(), entry.execution)).collect();
                    entries.retain(|(place, _)| place > after);
                    entries.sort();
                }
                _ => {}
            }
            if matches!(bug, Bug::ReadyOrderedByNumberOnly | Bug::ReadyRankWithoutSign) {
                let from = entries.iter().position(|(place, _)| place == after).map_or(0, |at| at + 1);
                entries.drain(..from);
                entries.truncate(*limit);
                executions.retain(|it| entries.iter().any(|(_, id)| *id == it.id));
            }
        }
        (
            Ask::List { after, limit, .. },
            Answer::List { after: told, limit: most, entries, edges, executions, .. },
        ) => {
            (*told, *most) = (*after, *limit);
            match bug {
                Bug::ListOrderedById => {
                    entries.sort_by_key(|(_, id)| *id);
                    entries.truncate(*limit);
                    executions.retain(|it| entries.iter().any(|(_, id)| *id == it.id));
                    executions.sort_by_key(|it| it.id);
                    edges.clear();
                }
                Bug::ListWithoutExecutions => executions.clear(),
                _ => {}
            }
        }
        (Ask::Record(Key::Edge(asked)), Answer::Edge(key, _)) => *key = *asked,
        (Ask::Agenda { limit, .. }, Answer::Agenda { entries, reached }) => match bug {
            Bug::AgendaSplitsMillisecond if entries.len() > *limit => {
                entries.truncate(*limit);
                *reached = entries.last().map_or(Ms::MAX, |entry| entry.key.due);
            }
            Bug::AgendaClaimsToBeWhole => *reached = Ms::MAX,
            Bug::AgendaTimeIsFloat => {
                entries.iter_mut().for_each(|entry| entry.key.due = entry.key.due as f64 as Ms);
            }
            _ => {}
        },
        (Ask::Opening, Answer::Opening(opening)) => spoil_opening(bug, opening),
        (Ask::Sweep { .. }, Answer::Sweep(page)) => spoil_sweep(bug, page),
        (Ask::Changes { .. }, Answer::Changes(missed)) => spoil_changes(state, bug, partition, missed),
        (Ask::Inbox { .. }, Answer::Inbox(rows)) => match bug {
            Bug::PostedRowsInAnyOrder => rows.sort_by_key(|row| std::cmp::Reverse(row.number)),
            Bug::InboxOfAllPartitions => {
                *rows = state.partitions().flat_map(|(_, it)| it.inbox().cloned()).collect();
            }
            _ => {}
        },
        (Ask::DeadLetters { .. }, Answer::DeadLetters { letters, .. })
            if bug == Bug::DeadLetterLosesContent =>
        {
            letters.iter_mut().for_each(|letter| letter.posted.options = None);
        }
        (ask, answer) => super::registry::spoil_answer(state, bug, partition, ask, answer),
    }
}

fn spoil_opening(bug: Bug, opening: &mut Opening) {
    match bug {
        Bug::OpeningForgetsLeases => drop(opening.leases.pop()),
        Bug::OpeningForgetsTheNewest => opening.newest = None,
        Bug::OpeningForgetsLanes => drop(opening.lanes.pop()),
        Bug::OpeningForgetsSigningKeys => drop(opening.signing_keys.pop()),
        _ => {}
    }
}

fn spoil_sweep(bug: Bug, page: &mut SweepPage) {
    match bug {
        Bug::SweepForgetsNext => page.next = None,
        Bug::SweepForgetsFlows => page.flows.clear(),
        Bug::SweepTakesOneEventMore => page.events_below = page.events_below.map(|below| below + 1),
        _ => {}
    }
}

fn spoil_changes(state: &MemoryState, bug: Bug, partition: PartitionId, missed: &mut Option<Box<Missed>>) {
    match (bug, missed) {
        (Bug::ChangesForgetKeys, Some(missed)) => missed.dedup.clear(),
        (Bug::ChangesForgetEndings, Some(missed)) => missed.ended.clear(),
        (Bug::ChangesForgetFlows, Some(missed)) => missed.flows.clear(),
        (Bug::ChangesForgetEdges, Some(missed)) => missed.edges.clear(),
        (Bug::ChangesForgetStreams, Some(missed)) => missed.streams.clear(),
        (Bug::ChangesForgetSigningKeys, Some(missed)) => missed.signing_keys.clear(),
        (Bug::ChangesForgetMessages, Some(missed)) => missed.messages.clear(),
        (Bug::ChangesWithoutCounts, Some(missed)) => missed.ready_counts.clear(),
        (Bug::ChangesWithoutRemovals, Some(missed)) => missed.executions.retain(|(_, it)| it.is_some()),
        (Bug::ChangesWithOldHeader, Some(missed)) => {
            let Ok(it) = state.partition(partition) else { return };
            missed.header.next_event = it.events().next().map_or(1, |event| event.number);
        }
        (Bug::ChangesNeverGiveUp, missed @ None) => *missed = Some(Box::default()),
        _ => {}
    }
}

pub fn page(state: &MemoryState, bug: Bug, mut ask: PageAsk) -> Page {
    match bug {
        Bug::PageIncludesItsStart => {
            ask.after = ask.after.map(|id| ExecutionId(neighbour(id.0, ask.order)));
        }
        Bug::PageOrderIgnored => ask.order = Order::OldestFirst,
        Bug::FilterIgnoresTags => ask.filter.tags.clear(),
        Bug::FilterIgnoresTheFlow => ask.filter.flow = None,
        Bug::ScanWithoutBound => ask.scan_max = usize::MAX,
        Bug::FilterTextIsCaseSensitive => {
            // The text is looked for as it is written, in whatever the record says.
            let text = ask.filter.error_text.take().unwrap_or_default();
            let mut page = state.executions(&ask);
            page.executions.retain(|it| format!("{:?}", it.live).contains(&text));
            return page;
        }
        _ => {}
    }
    state.executions(&ask)
}

pub fn flow_page(state: &MemoryState, bug: Bug, mut ask: FlowPageAsk) -> FlowPage {
    match bug {
        Bug::FlowPageIncludesItsStart => ask.after = ask.after.map(|id| FlowId(neighbour(id.0, ask.order))),
        Bug::FlowPageOrderIgnored => ask.order = Order::OldestFirst,
        Bug::FlowFilterIgnoresTags => ask.filter.tags.clear(),
        Bug::FlowFilterIgnoresTheState => ask.filter.states.clear(),
        Bug::FlowScanWithoutBound => ask.scan_max = usize::MAX,
        _ => {}
    }
    state.flows(&ask)
}

/// The id next to this one, on the side a page comes from.
fn neighbour(id: Uuid, order: Order) -> Uuid {
    let number = id.as_u128();
    Uuid::from_u128(match order {
        Order::OldestFirst => number - 1,
        Order::NewestFirst => number + 1,
    })
}
