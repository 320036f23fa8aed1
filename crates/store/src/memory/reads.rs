//! What people ask about a store: pages of executions, flows and waitpoints, counts, events.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use ff_core::Ms;
use ff_core::execution::Execution;
use ff_core::flow::Flow;
use ff_core::query::{
    CountKey, FlowPage, FlowPageAsk, Order, Page, PageAsk, WaitpointPage, WaitpointPageAsk,
};
use ff_core::suspension::WaitpointEntry;

use super::partition::Partition;
use crate::EventPage;

/// A page of executions over several partitions, in the order of the ids.
pub(super) fn page(partitions: &[Partition], ask: &PageAsk) -> Page {
    let rows = partitions.iter().map(|partition| {
        let rows = rows(&partition.executions, ask.order, ask.after);
        rows.filter(|(_, it)| ask.filter.flow.is_none_or(|flow| it.flow() == Some(flow)))
    });
    let fits = |it: &Execution| ask.filter.matches(it);
    let (executions, next) = gather(merged(rows, ask.order), fits, ask.limit, ask.scan_max);
    Page { executions, next }
}

/// A page of flows over several partitions, in the order of the ids.
pub(super) fn flow_page(partitions: &[Partition], ask: &FlowPageAsk) -> FlowPage {
    let rows = partitions.iter().map(|partition| rows(partition.graphs.by_id(), ask.order, ask.after));
    let fits = |it: &Flow| ask.filter.matches(it);
    let (flows, next) = gather(merged(rows, ask.order), fits, ask.limit, ask.scan_max);
    FlowPage { flows, next }
}

/// A page of open waitpoints over several partitions, in the order of the ids.
pub(super) fn waitpoint_page(partitions: &[Partition], ask: &WaitpointPageAsk) -> WaitpointPage {
    let rows = partitions.iter().map(|partition| {
        let rows = rows(&partition.mail.waitpoints, ask.order, ask.after);
        rows.filter(|(id, _)| ask.filter.execution.is_none_or(|execution| id.execution == execution))
    });
    let fits = |it: &WaitpointEntry| ask.filter.matches(it);
    let (waitpoints, next) = gather(merged(rows, ask.order), fits, ask.limit, ask.scan_max);
    WaitpointPage { waitpoints, next }
}

/// What fits among the rows looked at, and where to go on if that was not all.
fn gather<'a, I: Copy + 'a, T: Clone + 'a>(
    rows: impl Iterator<Item = (&'a I, &'a Arc<T>)>,
    fits: impl Fn(&T) -> bool,
    limit: usize,
    scan_max: usize,
) -> (Vec<T>, Option<I>) {
    let mut rows = rows.peekable();
    let mut found = Vec::new();
    let mut last = None;
    for _ in 0..scan_max.max(1) {
        let Some((id, row)) = rows.next() else { break };
        last = Some(*id);
        if fits(row) {
            found.push((**row).clone());
            if found.len() >= limit {
                break;
            }
        }
    }
    (found, last.filter(|_| rows.peek().is_some()))
}

type Rows<'a, I, T> = Box<dyn Iterator<Item = (&'a I, &'a Arc<T>)> + 'a>;

fn rows<I: Ord, T>(records: &BTreeMap<I, Arc<T>>, order: Order, after: Option<I>) -> Rows<'_, I, T> {
    let bound = after.map_or(Unbounded, Excluded);
    match order {
        Order::OldestFirst => Box::new(records.range((bound, Unbounded))),
        Order::NewestFirst => Box::new(records.range((Unbounded, bound)).rev()),
    }
}

fn merged<'a, I: Copy + Ord + 'a, T: 'a>(
    rows: impl Iterator<Item = impl Iterator<Item = (&'a I, &'a Arc<T>)>>,
    order: Order,
) -> impl Iterator<Item = (&'a I, &'a Arc<T>)> {
    let mut fronts: Vec<_> = rows.map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let heads = fronts.iter_mut().enumerate();
        let heads = heads.filter_map(|(at, rows)| rows.peek().map(|(id, _)| (**id, at)));
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
