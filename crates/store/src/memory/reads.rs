//! What people ask about a store: pages of executions, counts, events.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use ff_core::execution::Execution;
use ff_core::query::{CountKey, Order, Page, PageAsk};
use ff_core::{ExecutionId, Ms};

use super::partition::Partition;
use crate::EventPage;

/// A page over several partitions, in the order of the ids.
pub(super) fn page(partitions: &[Partition], ask: &PageAsk) -> Page {
    let mut rows = merged(partitions, ask.order, ask.after).peekable();
    let mut executions = Vec::new();
    let mut last = None;
    for _ in 0..ask.scan_max.max(1) {
        let Some(execution) = rows.next() else { break };
        last = Some(execution.id);
        if ask.filter.matches(execution) {
            executions.push((**execution).clone());
            if executions.len() >= ask.limit {
                break;
            }
        }
    }
    Page { executions, next: last.filter(|_| rows.peek().is_some()) }
}

type Rows<'a> = Box<dyn Iterator<Item = &'a Arc<Execution>> + 'a>;

fn rows(partition: &Partition, order: Order, after: Option<ExecutionId>) -> Rows<'_> {
    let bound = after.map_or(Unbounded, Excluded);
    let executions = &partition.executions;
    match order {
        Order::OldestFirst => Box::new(executions.range((bound, Unbounded)).map(|(_, it)| it)),
        Order::NewestFirst => Box::new(executions.range((Unbounded, bound)).rev().map(|(_, it)| it)),
    }
}

fn merged(
    partitions: &[Partition],
    order: Order,
    after: Option<ExecutionId>,
) -> impl Iterator<Item = &Arc<Execution>> {
    let mut fronts: Vec<_> =
        partitions.iter().map(|partition| rows(partition, order, after).peekable()).collect();
    std::iter::from_fn(move || {
        let heads = fronts.iter_mut().enumerate();
        let heads = heads.filter_map(|(at, rows)| rows.peek().map(|execution| (execution.id, at)));
        let (_, at) = match order {
            Order::OldestFirst => heads.min(),
            Order::NewestFirst => heads.max(),
        }?;
        fronts[at].next()
    })
}

/// The counters of all partitions together; none with zero.
pub(super) fn counts(partitions: &[Partition]) -> Vec<(CountKey, u64)> {
    let mut sums = BTreeMap::<&CountKey, i64>::new();
    for (key, count) in partitions.iter().flat_map(Partition::counts) {
        *sums.entry(key).or_default() += count;
    }
    let positive = sums.into_iter().filter_map(|(key, sum)| Some((key, u64::try_from(sum).ok()?)));
    positive.filter(|(_, sum)| *sum > 0).map(|(key, sum)| (key.clone(), sum)).collect()
}

impl Partition {
    pub(super) fn event_page(&self, from: u64, limit: usize) -> EventPage {
        let start = self.events.partition_point(|event| event.number < from);
        let next = self.header.next_event;
        EventPage {
            events: self.events.range(start..).take(limit).cloned().collect(),
            oldest: self.events.front().map_or(next, |event| event.number),
            next,
        }
    }

    pub(super) fn first_event_since(&self, at: Ms) -> u64 {
        let start = self.events.partition_point(|event| event.at < at);
        self.events.get(start).map_or(self.header.next_event, |event| event.number)
    }
}
