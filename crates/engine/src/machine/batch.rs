//! Commands on their way: waiting, decided, being committed.

use std::sync::Arc;

use ff_core::agenda::AgendaKey;
use ff_core::change::{Changes, ExecutionChange};
use ff_core::event::Fact;
use ff_core::payload::Slot;
use ff_core::workspace::Workspace;
use ff_core::{Command, CommitId, Execution, Ms, PartitionId, Reply};
use ff_store::{Outcome, Version};

use super::{News, Ticket};
use crate::failure::Failure;

/// Who hears the result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Caller(Ticket),
    /// A caller whose command another server was asked for, and may have carried out.
    Returned(Ticket),
    /// A waiting poll; what it claimed goes to its caller.
    Poll(Ticket),
    /// A due agenda entry of this partition.
    Agenda(AgendaKey),
    /// A message from another partition, by the entry in the sender's agenda.
    Delivery {
        from: PartitionId,
        entry: AgendaKey,
    },
    /// The acknowledgement of a message of ours.
    Acknowledgement(AgendaKey),
    /// A posted row, by its number.
    Inbox(u64),
    /// Another server, which is told what became of it.
    Errand(u64),
    /// The caller has been answered already.
    Nobody,
}

#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub origin: Origin,
    pub command: Command,
    /// Local time after which the caller is told that the store was out of reach.
    pub give_up_at: Ms,
}

#[derive(Debug)]
pub(super) struct Decided {
    pub pending: Pending,
    pub result: Result<Reply, Failure>,
}

impl Decided {
    /// Whether a poll was given work.
    pub fn is_claim(&self) -> bool {
        matches!(&self.result, Ok(Reply::Claimed(list)) if !list.is_empty())
    }
}

/// A batch that has been sent to the store.
#[derive(Debug)]
pub(super) struct Batch {
    pub id: CommitId,
    pub expected: Version,
    /// The workspace's number of it.
    pub number: u64,
    pub decided: Vec<Decided>,
    /// Replies that wrote nothing, decided before it on the view it builds on.
    pub confirms: Vec<Decided>,
    /// The local time at which it left.
    pub sent_at: Ms,
    /// Messages to other partitions, which leave when it is committed.
    pub messages: Vec<Message>,
    pub news: News,
    /// What the partition knew of itself before it; what an empty commit in its place must say.
    pub header_before: ff_core::change::Header,
    pub outcome: Option<Outcome>,
}

impl Batch {
    pub fn version(&self) -> Version {
        Version { number: self.expected.number + 1, id: self.id }
    }
}

/// How long each execution whose first attempt starts was ready for it. Its record tells that no more; the entry that
/// leaves the ready queue does. One without such an entry became ready in the batch in which it starts.
pub(super) fn waited(ws: &Workspace, now: Ms, changes: &Changes) -> Vec<Ms> {
    let starts = changes.executions.iter().filter_map(|change| match change {
        ExecutionChange::Insert(it) | ExecutionChange::Update(it) => {
            let attempt = it.live.attempt.as_ref().filter(|_| it.lease().is_some())?;
            (attempt.number == 1 && attempt.started_at == now).then_some(it)
        }
        ExecutionChange::Purge(_) => None,
    });
    let starts: Vec<_> = starts.collect();
    if starts.is_empty() {
        return Vec::new();
    }
    let left = changes.ready_removed.iter().map(|entry| (entry.execution, entry.rank));
    let left: rustc_hash::FxHashMap<_, _> = left.collect();
    let waited = |it: &Execution| {
        let Some(rank) = left.get(&it.id) else { return 0 };
        let step_ms = ws.lane(&it.spec.lane).step_ms;
        let eligible_at = rank.saturating_add(i64::from(it.live.priority).saturating_mul(step_ms));
        // A rank that was made with another step or priority says less; the wait began after creation anyhow.
        now - eligible_at.max(it.spec.created_at).min(now)
    };
    starts.into_iter().map(|it| waited(it)).collect()
}

/// What others may be waiting for in a set of changes.
pub(super) fn news(changes: &Changes) -> News {
    let mut news = News { next_event: changes.header.next_event, ..News::default() };
    for change in &changes.executions {
        match change {
            ExecutionChange::Insert(execution) | ExecutionChange::Update(execution) => {
                if execution.live.streamed {
                    news.streams.push(execution.id);
                }
                if execution.end().is_some() {
                    news.ended.push((execution.clone(), None));
                }
            }
            ExecutionChange::Purge(id) => news.removed.push(*id),
        }
    }
    let ended = changes.flows.iter().filter_map(|(_, flow)| flow.as_ref().filter(|it| it.live.end.is_some()));
    news.flows.extend(ended.cloned());
    news.streams.extend(changes.streams.iter().map(|(id, _)| *id));
    if !news.ended.is_empty() && !changes.payloads.is_empty() {
        let results = changes.payloads.iter().filter(|(key, _)| key.slot == Slot::Result);
        let results: rustc_hash::FxHashMap<_, _> =
            results.map(|(key, payload)| (key.execution, payload)).collect();
        for (execution, result) in &mut news.ended {
            *result = results.get(&execution.id).map(|payload| (*payload).clone());
        }
    }
    for event in &changes.events {
        match (&event.fact, event.execution) {
            (Fact::LeaseExpired { holder } | Fact::LeaseRevoked { holder, .. }, Some(id)) => {
                news.disturbed.push((holder.instance, id));
            }
            (Fact::CancelRequested { .. }, Some(id)) => {
                let holder = changes.executions.iter().find_map(|change| match change {
                    ExecutionChange::Update(it) | ExecutionChange::Insert(it) if it.id == id => {
                        it.lease().map(|lease| lease.instance)
                    }
                    _ => None,
                });
                news.disturbed.extend(holder.map(|instance| (instance, id)));
            }
            _ => {}
        }
    }
    news
}

/// A reply that waits until all partitions have applied what it speaks of.
#[derive(Debug)]
pub(super) struct Global {
    pub ticket: Ticket,
    pub reply: Reply,
    pub deliveries: Vec<ff_core::reply::Delivery>,
}

/// Splits off the messages a reply depends on.
pub(super) fn deliveries_of(reply: &Reply) -> &[ff_core::reply::Delivery] {
    match reply {
        Reply::Worker { deliveries, .. } | Reply::Lane { deliveries, .. } | Reply::Key { deliveries, .. } => {
            deliveries
        }
        _ => &[],
    }
}

pub(super) type Message = (AgendaKey, Arc<ff_core::message::Message>);
