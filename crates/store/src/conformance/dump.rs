//! Everything that can be read of a store, in a form that can be compared.

use std::sync::Arc;

use ff_core::agenda::AgendaEntry;
use ff_core::attempt::Attempt;
use ff_core::change::EndedEntry;
use ff_core::class::Class;
use ff_core::event::Event;
use ff_core::execution::Execution;
use ff_core::flow::{Edge, Flow, ListKey};
use ff_core::inbox::{DeadLetter, Posted};
use ff_core::key::{Ask, Dedup, DedupKey};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::query::{CountKey, Filter, FlowFilter, FlowPageAsk, Order, PageAsk};
use ff_core::ready::Place;
use ff_core::registry::{Record, RecordKind};
use ff_core::workspace::{Answer, Opening};
use ff_core::{ExecutionId, LaneName, Ms, PartitionId};

use super::mail_dump::Mail;
use super::{Check, ensure, ensure_eq};
use crate::{Store, StoreError};

/// Far beyond everything a case writes, and far enough from the end to count on from it.
const EVER: Ms = Ms::MAX / 4;
const ALL: usize = 1_000_000;

/// The ready entries of one lane and class.
type Queue = (LaneName, Class, Vec<(Place, ExecutionId)>);

/// An ordered list of a graph, and the edges that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    pub list: ListKey,
    pub entries: Vec<(u64, ExecutionId)>,
    pub edges: Vec<Edge>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionDump {
    pub number: u64,
    pub opening: Opening,
    pub next_event: u64,
    pub next_due: Option<Ms>,
    pub ready_status: Vec<(LaneName, Class, u64)>,
    pub ready: Vec<Queue>,
    pub agenda: Vec<AgendaEntry>,
    pub ended: Vec<EndedEntry>,
    pub dedup: Vec<(DedupKey, Dedup)>,
    pub inbox_status: bool,
    pub inbox: Vec<Posted>,
    pub dead_letters: Vec<DeadLetter>,
    pub registry: Vec<Arc<Record>>,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    pub partitions: Vec<PartitionDump>,
    pub executions: Vec<Execution>,
    pub payloads: Vec<(PayloadKey, Option<Payload>)>,
    pub attempts: Vec<(ExecutionId, Vec<Attempt>)>,
    pub counts: Vec<(CountKey, u64)>,
    pub flows: Vec<Flow>,
    pub lists: Vec<List>,
    pub mail: Mail,
}

impl Dump {
    /// Reads everything, through the contract alone.
    pub async fn of(store: &dyn Store) -> Result<Dump, String> {
        read(store).await.map_err(|error| format!("reading everything: {error}"))
    }

    /// Says what differs first, so that the message can be read.
    pub fn compare(&self, want: &Dump) -> Check {
        ensure_eq!(self.partitions.len(), want.partitions.len(), "partitions");
        for (at, (got, want)) in self.partitions.iter().zip(&want.partitions).enumerate() {
            ensure_eq!(got.number, want.number, "version of partition {at}");
            ensure_eq!(got.opening.header, want.opening.header, "header of partition {at}");
            ensure_eq!(got.opening.links, want.opening.links, "links of partition {at}");
            ensure_eq!(got.opening.lanes, want.opening.lanes, "lanes of partition {at}");
            ensure_eq!(got.opening.workers, want.opening.workers, "workers of partition {at}");
            let keys = (&got.opening.signing_keys, &want.opening.signing_keys);
            // Not compared by their text, which does not show the secret.
            ensure!(keys.0 == keys.1, "signing keys of partition {at}: got {:?}, want {:?}", keys.0, keys.1);
            ensure_eq!(got.opening.leases, want.opening.leases, "leases of partition {at}");
            ensure_eq!(got.opening.ready_counts, want.opening.ready_counts, "ready counts of {at}");
            ensure_eq!(got.next_event, want.next_event, "next event of partition {at}");
            ensure_eq!(got.next_due, want.next_due, "next due time of partition {at}");
            ensure_eq!(got.ready_status, want.ready_status, "ready counts in the status of {at}");
            ensure_eq!(got.ready, want.ready, "ready entries of partition {at}");
            ensure_eq!(got.agenda, want.agenda, "agenda of partition {at}");
            ensure_eq!(got.ended, want.ended, "ended entries of partition {at}");
            ensure_eq!(got.dedup, want.dedup, "idempotency keys of partition {at}");
            ensure_eq!(got.inbox_status, want.inbox_status, "whether rows are posted, in the status of {at}");
            ensure_eq!(got.inbox, want.inbox, "inbox of partition {at}");
            ensure_eq!(got.dead_letters, want.dead_letters, "dead letters of partition {at}");
            let records = (&got.registry, &want.registry);
            ensure!(records.0 == records.1, "registry of {at}: got {:?}, want {:?}", records.0, records.1);
            ensure_eq!(got.events, want.events, "events of partition {at}");
        }
        let ids = |dump: &Dump| dump.executions.iter().map(|it| it.id).collect::<Vec<_>>();
        ensure_eq!(ids(self), ids(want), "ids of all executions");
        for (got, want) in self.executions.iter().zip(&want.executions) {
            ensure_eq!(got, want, "execution {}", want.id);
        }
        for (got, want) in self.payloads.iter().zip(&want.payloads) {
            ensure_eq!(got, want, "payload of {}", want.0.execution);
        }
        ensure_eq!(self.attempts, want.attempts, "archived attempts");
        ensure_eq!(self.counts, want.counts, "counts");
        let ids = |dump: &Dump| dump.flows.iter().map(|it| it.id).collect::<Vec<_>>();
        ensure_eq!(ids(self), ids(want), "ids of all flows");
        for (got, want) in self.flows.iter().zip(&want.flows) {
            ensure_eq!(got, want, "flow {}", want.id);
        }
        ensure_eq!(self.lists.len(), want.lists.len(), "lists of graphs");
        for (got, want) in self.lists.iter().zip(&want.lists) {
            ensure_eq!(got, want, "list {:?}", want.list);
        }
        self.mail.compare(&want.mail)
    }
}

async fn read(store: &dyn Store) -> Result<Dump, StoreError> {
    let (_, status) = store.status().await?;
    let mut partitions = Vec::new();
    for status in status {
        partitions.push(read_partition(store, status).await?);
    }
    let all = PageAsk {
        filter: Filter::default(),
        order: Order::OldestFirst,
        after: None,
        limit: ALL,
        scan_max: ALL,
    };
    let executions = store.executions(all).await?.executions;
    let keys: Vec<PayloadKey> = executions
        .iter()
        .flat_map(|it| Slot::ALL.map(|slot| PayloadKey { execution: it.id, slot }))
        .collect();
    let payloads = keys.iter().copied().zip(store.payloads(keys.clone()).await?).collect();
    let mut attempts = Vec::new();
    for execution in &executions {
        attempts.push((execution.id, store.attempts(execution.id).await?));
    }
    attempts.retain(|(_, list)| !list.is_empty());
    let mut counts = store.counts().await?;
    counts.sort();
    let filter = FlowFilter::default();
    let all = FlowPageAsk { filter, order: Order::OldestFirst, after: None, limit: ALL, scan_max: ALL };
    let flows = store.flows(all).await?.flows;
    let lists = read_lists(store, &flows, &executions).await?;
    let mail = Mail::of(store, &executions).await?;
    Ok(Dump { partitions, executions, payloads, attempts, counts, flows, lists, mail })
}

/// The members of every flow, and what leads into and out of each of them.
async fn read_lists(
    store: &dyn Store,
    flows: &[Flow],
    executions: &[Execution],
) -> Result<Vec<List>, StoreError> {
    let partitions = store.info().partitions;
    let members = flows.iter().map(|flow| (flow.id.route(), ListKey::Members(flow.id)));
    let of_flows = executions.iter().filter(|it| it.flow().is_some());
    let edges = of_flows.flat_map(|it| {
        [ListKey::Downstream(it.id), ListKey::Upstream(it.id)].map(|list| (it.id.route(), list))
    });
    let mut asks = vec![Vec::new(); usize::from(partitions)];
    for (route, list) in members.chain(edges) {
        asks[route.partition(partitions).index()].push(Ask::List { list, after: 0, limit: ALL });
    }
    let mut lists = Vec::new();
    for (n, asks) in asks.into_iter().enumerate() {
        for answer in store.load(PartitionId(n as u16), asks).await?.answers {
            if let Answer::List { list, entries, edges, .. } = answer {
                let edges = edges.iter().map(|edge| (**edge).clone()).collect();
                lists.push(List { list, entries, edges });
            }
        }
    }
    Ok(lists)
}

async fn read_partition(store: &dyn Store, status: crate::Status) -> Result<PartitionDump, StoreError> {
    let partition = status.partition;
    let mut asks = vec![
        Ask::Opening,
        Ask::Agenda { after: Ms::MIN, limit: ALL },
        Ask::Sweep { now: EVER, events_before: 0, limit: ALL },
        Ask::Inbox { limit: ALL, bytes: usize::MAX },
        Ask::DeadLetters { after: 0, limit: ALL },
    ];
    asks.extend(RecordKind::ALL.iter().map(|kind| Ask::Registry { kind: *kind, id: None }));
    let loaded = store.load(partition, asks).await?;
    let mut dump = PartitionDump {
        number: loaded.version.number,
        opening: Opening::default(),
        next_event: status.next_event,
        next_due: status.next_due,
        ready_status: status.ready,
        ready: Vec::new(),
        agenda: Vec::new(),
        ended: Vec::new(),
        dedup: Vec::new(),
        inbox_status: status.inbox,
        inbox: Vec::new(),
        dead_letters: Vec::new(),
        registry: Vec::new(),
        events: store.events(partition, 0, ALL).await?.events,
    };
    for answer in loaded.answers {
        match answer {
            // Stores may differ in how much they say of the newest id.
            Answer::Opening(opening) => dump.opening = Opening { newest: None, ..*opening },
            Answer::Agenda { entries, .. } => dump.agenda = entries,
            Answer::Inbox(rows) => dump.inbox = rows,
            Answer::DeadLetters { letters, .. } => dump.dead_letters = letters,
            Answer::Registry { records, .. } => dump.registry.extend(records),
            Answer::Sweep(page) => (dump.ended, dump.dedup) = (page.ended, page.dedup),
            _ => {}
        }
    }
    dump.sort();
    dump.ready = read_ready(store, partition, &dump.opening).await?;
    Ok(dump)
}

async fn read_ready(
    store: &dyn Store,
    partition: PartitionId,
    opening: &Opening,
) -> Result<Vec<Queue>, StoreError> {
    let after = Place { rank: Ms::MIN, number: 0 };
    let ask = |(lane, class, _): &(LaneName, Class, u64)| Ask::Ready {
        lane: lane.clone(),
        class: class.clone(),
        after,
        limit: ALL,
    };
    let asks = opening.ready_counts.iter().map(ask).collect();
    let answers = store.load(partition, asks).await?.answers.into_iter();
    let ready = answers.filter_map(|answer| match answer {
        Answer::Ready { lane, class, entries, .. } => Some((lane, class, entries)),
        _ => None,
    });
    Ok(ready.collect())
}

impl PartitionDump {
    /// Where the contract promises no order, put things into one.
    fn sort(&mut self) {
        self.opening.links.sort_by_key(|link| link.peer);
        self.opening.lanes.sort_by(|a, b| a.name.cmp(&b.name));
        self.opening.workers.sort_by_key(|worker| worker.instance);
        self.opening.signing_keys.sort_by_key(|key| key.id);
        self.opening.ready_counts.sort();
        self.opening.leases.sort();
        self.ready_status.sort();
        self.agenda.sort_by_key(|entry| entry.key);
        self.ended.sort();
        self.dedup.sort_by(|a, b| a.0.cmp(&b.0));
    }
}
