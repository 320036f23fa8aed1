//! A store made of maps: folds [`Changes`] and answers [`Ask`]s, and refuses changes that do not fit what is
//! there, as a database with unique keys would.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::agenda::{AgendaEntry, AgendaKey};
use crate::attempt::Attempt;
use crate::change::{Changes, EndedEntry, ExecutionChange, Header};
use crate::class::Class;
use crate::event::Event;
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow, ListKey};
use crate::fold::Folded;
use crate::id::{ExecutionId, FlowId, InstanceId, PartitionId};
use crate::inbox::{DeadLetter, Fate, Posted};
use crate::key::{Ask, Dedup, DedupKey, Key};
use crate::lane::Lane;
use crate::message::{Link, Message};
use crate::name::LaneName;
use crate::payload::{Payload, PayloadKey};
use crate::query::CountKey;
use crate::ready::Place;
use crate::registry::{Record, RecordKey};
use crate::step::{Step, StepKey};
use crate::stream::{Frame, Stream, Trim};
use crate::suspension::{Signal, SigningKey, WaitpointEntry, WaitpointId};
use crate::worker::WorkerInstance;
use crate::workspace::{Answer, Missed, Opening, SweepPage};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub header: Header,
    pub executions: BTreeMap<ExecutionId, Arc<Execution>>,
    pub ready: BTreeMap<(LaneName, Class), BTreeMap<Place, ExecutionId>>,
    pub agenda: BTreeMap<AgendaKey, Option<Arc<Message>>>,
    pub ended: BTreeSet<EndedEntry>,
    pub payloads: BTreeMap<PayloadKey, Payload>,
    pub attempts: BTreeMap<(ExecutionId, u32), Attempt>,
    pub dedup: BTreeMap<DedupKey, Dedup>,
    pub lanes: BTreeMap<LaneName, Arc<Lane>>,
    pub workers: BTreeMap<InstanceId, Arc<WorkerInstance>>,
    pub signing_keys: BTreeMap<u32, Arc<SigningKey>>,
    pub registry: BTreeMap<RecordKey, Arc<Record>>,
    pub waitpoints: BTreeMap<WaitpointId, WaitpointEntry>,
    pub signals: BTreeMap<(ExecutionId, u32), Signal>,
    pub steps: BTreeMap<(ExecutionId, StepKey), Step>,
    pub streams: BTreeMap<ExecutionId, Arc<Stream>>,
    pub frames: BTreeMap<(ExecutionId, u32, u64), Frame>,
    pub links: BTreeMap<PartitionId, Link>,
    pub flows: BTreeMap<FlowId, Arc<Flow>>,
    pub edges: BTreeMap<EdgeKey, Arc<Edge>>,
    pub inbox: BTreeMap<u64, Posted>,
    pub dead_letters: BTreeMap<u64, DeadLetter>,
    pub counts: BTreeMap<CountKey, i64>,
    pub ready_counts: BTreeMap<(LaneName, Class), i64>,
    /// Every event ever, also those that were trimmed.
    pub events: Vec<Event>,
    pub trimmed_below: u64,
    /// What the events alone say of each execution.
    pub folded: BTreeMap<ExecutionId, Folded>,
    /// How often each execution has ended, since it was created or its id was used anew.
    pub endings: BTreeMap<ExecutionId, u32>,
    /// What each commit has changed.
    pub log: Vec<Vec<Key>>,
}

impl Model {
    pub fn apply(&mut self, changes: Changes) {
        self.log.push(changes.keys());
        for change in changes.executions {
            self.change_execution(change);
        }
        for entry in changes.ready_removed {
            let places = self.ready.get_mut(&(entry.lane.clone(), entry.class.clone()));
            let removed = places.and_then(|places| places.remove(&entry.place()));
            assert_eq!(removed, Some(entry.execution), "a ready entry is removed where it stands");
        }
        for entry in changes.ready_added {
            let place = entry.place();
            let places = self.ready.entry((entry.lane, entry.class)).or_default();
            assert_eq!(places.insert(place, entry.execution), None, "a place in the queue is unique");
        }
        self.ready.retain(|_, places| !places.is_empty());
        for key in changes.agenda_removed {
            assert!(self.agenda.remove(&key).is_some(), "{key:?} is removed but was not there");
        }
        for AgendaEntry { key, message } in changes.agenda_added {
            assert!(self.agenda.insert(key, message).is_none(), "{key:?} is added twice");
        }
        for entry in changes.ended_removed {
            assert!(self.ended.remove(&entry), "{entry:?} is removed but was not there");
        }
        for entry in changes.ended_added {
            assert!(self.ended.insert(entry), "{entry:?} is added twice");
        }
        let keys: BTreeSet<PayloadKey> = changes.payloads.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), changes.payloads.len(), "a payload is written once in a commit");
        self.payloads.extend(changes.payloads);
        for (id, attempt) in changes.attempts {
            let key = (id, attempt.number);
            assert!(self.attempts.insert(key, attempt).is_none(), "{key:?} is archived twice");
        }
        changes.dedup.into_iter().for_each(|(key, it)| put(&mut self.dedup, key, it));
        changes.lanes.into_iter().for_each(|(key, it)| put(&mut self.lanes, key, it));
        changes.workers.into_iter().for_each(|(key, it)| put(&mut self.workers, key, it));
        changes.signing_keys.into_iter().for_each(|(key, it)| put(&mut self.signing_keys, key, it));
        changes.registry.into_iter().for_each(|(key, it)| put(&mut self.registry, key, it));
        self.apply_mail(changes.waitpoints_removed, changes.waitpoints_added, changes.signals, changes.steps);
        self.apply_streams(changes.streams, &changes.frames_trimmed, changes.frames);
        changes.flows.into_iter().for_each(|(key, it)| put(&mut self.flows, key, it));
        changes.edges.into_iter().for_each(|(key, it)| put(&mut self.edges, key, it));
        self.links.extend(changes.links.into_iter().map(|link| (link.peer, link)));
        changes.counts.into_iter().for_each(|(key, delta)| count(&mut self.counts, key, delta));
        changes.ready_counts.into_iter().for_each(|(key, delta)| count(&mut self.ready_counts, key, delta));
        for (number, fate) in changes.inbox {
            self.settle_posted(number, fate);
        }
        for event in changes.events {
            assert_eq!(event.number, self.events.len() as u64 + 1, "event numbers have no gaps");
            self.fold(&event);
            self.events.push(event);
        }
        self.trimmed_below = self.trimmed_below.max(changes.events_trimmed_below.unwrap_or(0));
        assert!(changes.header.now >= self.header.now, "a partition's time does not go back");
        self.header = changes.header;
    }

    fn apply_mail(
        &mut self,
        removed: Vec<WaitpointId>,
        added: Vec<WaitpointEntry>,
        signals: Vec<Signal>,
        steps: Vec<Step>,
    ) {
        for id in removed {
            assert!(self.waitpoints.remove(&id).is_some(), "{id} closes but was not open");
        }
        for entry in added {
            assert!(self.waitpoints.insert(entry.id, entry).is_none(), "a waitpoint opens twice");
        }
        for signal in signals {
            let key = (signal.execution, signal.number);
            assert!(self.signals.insert(key, signal).is_none(), "{key:?} is kept twice");
        }
        let keys: BTreeSet<_> = steps.iter().map(|it| (it.execution, it.key.clone())).collect();
        assert_eq!(keys.len(), steps.len(), "a step is written once in a commit");
        self.steps.extend(steps.into_iter().map(|it| ((it.execution, it.key.clone()), it)));
    }

    fn apply_streams(
        &mut self,
        streams: Vec<(ExecutionId, Option<Arc<Stream>>)>,
        trims: &[Trim],
        frames: Vec<Frame>,
    ) {
        streams.into_iter().for_each(|(key, it)| put(&mut self.streams, key, it));
        self.frames.retain(|_, frame| !trims.iter().any(|trim| trim.takes(frame)));
        for frame in frames {
            let key = (frame.execution, frame.attempt, frame.number);
            assert!(self.frames.insert(key, frame).is_none(), "{key:?} is appended twice");
        }
    }

    fn settle_posted(&mut self, number: u64, fate: Fate) {
        if matches!(fate, Fate::Taken | Fate::Dead { .. }) {
            let posted = self.inbox.remove(&number).expect("it leaves the inbox but was not there");
            if let Fate::Dead { reason } = fate {
                // When it was is the time of the commit: another for each way to make batches.
                self.dead_letters.insert(number, DeadLetter { posted, reason, at: 0 });
            }
            return;
        }
        let letter = self.dead_letters.remove(&number).expect("it leaves the letters but was not there");
        if fate == Fate::Reposted {
            self.inbox.insert(number, letter.posted);
        }
    }

    fn change_execution(&mut self, change: ExecutionChange) {
        match change {
            ExecutionChange::Insert(it) => {
                assert!(self.executions.insert(it.id, it).is_none(), "inserted but was there");
            }
            ExecutionChange::Update(it) => {
                let before = self.executions.insert(it.id, it.clone()).expect("updated but was not there");
                assert_eq!(before.spec, it.spec, "what was asked for never changes");
            }
            ExecutionChange::Purge(id) => {
                assert!(self.executions.remove(&id).is_some(), "purged but was not there");
                self.payloads.retain(|key, _| key.execution != id);
                self.attempts.retain(|key, _| key.0 != id);
                self.signals.retain(|key, _| key.0 != id);
                self.steps.retain(|key, _| key.0 != id);
                self.frames.retain(|key, _| key.0 != id);
                self.streams.remove(&id);
            }
        }
    }

    fn fold(&mut self, event: &Event) {
        let Some(id) = event.execution else { return };
        *self.endings.entry(id).or_default() += u32::from(event.fact.ends());
        if matches!(event.fact, crate::event::Fact::Removed { .. }) {
            self.endings.remove(&id);
        }
        match Folded::apply(self.folded.remove(&id), event) {
            Some(folded) => drop(self.folded.insert(id, folded)),
            None => drop(self.folded.remove(&id)),
        }
    }

    pub fn answer(&self, ask: &Ask) -> Answer {
        match ask {
            Ask::Record(Key::Execution(id)) => Answer::Execution(*id, self.executions.get(id).cloned()),
            Ask::Record(Key::Dedup(key)) => Answer::Dedup(key.clone(), self.dedup.get(key).copied()),
            Ask::Record(Key::Lane(name)) => Answer::Lane(name.clone(), self.lanes.get(name).cloned()),
            Ask::Record(Key::Worker(id)) => Answer::Worker(*id, self.workers.get(id).cloned()),
            Ask::Record(Key::Message(key)) => Answer::Message(*key, self.agenda.get(key).cloned().flatten()),
            Ask::Record(Key::Flow(id)) => Answer::Flow(*id, self.flows.get(id).cloned()),
            Ask::Record(Key::Edge(key)) => Answer::Edge(*key, self.edges.get(key).cloned()),
            Ask::Record(Key::Stream(id)) => Answer::Stream(*id, self.streams.get(id).cloned()),
            Ask::Record(Key::SigningKey(id)) => Answer::SigningKey(*id, self.signing_keys.get(id).cloned()),
            Ask::List { list, after, limit } => self.list(*list, *after, *limit),
            Ask::Opening => Answer::Opening(Box::new(self.opening())),
            Ask::Ready { lane, class, after, limit } => {
                let places = self.ready.get(&(lane.clone(), class.clone())).into_iter();
                let after = places.flat_map(|places| places.range((Excluded(*after), Unbounded)));
                let entries: Vec<_> = after.take(*limit).map(|(place, id)| (*place, *id)).collect();
                let executions = entries.iter().map(|(_, id)| self.executions[id].clone()).collect();
                Answer::Ready { lane: lane.clone(), class: class.clone(), limit: *limit, entries, executions }
            }
            Ask::Agenda { after, limit } => {
                let mut reached = i64::MAX;
                let mut entries: Vec<AgendaEntry> = Vec::new();
                for (key, message) in self.agenda.iter().filter(|(key, _)| key.due > *after) {
                    if entries.len() >= *limit && entries.last().is_some_and(|it| it.key.due != key.due) {
                        reached = key.due - 1;
                        break;
                    }
                    entries.push(AgendaEntry { key: *key, message: message.clone() });
                }
                Answer::Agenda { entries, reached }
            }
            Ask::Changes { since } => Answer::Changes(Some(Box::new(self.missed(*since)))),
            Ask::Sweep { now, events_before, limit } => {
                Answer::Sweep(self.sweep_page(*now, *events_before, *limit))
            }
            Ask::DeadLetters { after, limit } => {
                let letters = self.dead_letters.range((Excluded(*after), Unbounded)).take(*limit);
                Answer::DeadLetters { after: *after, letters: letters.map(|(_, it)| it.clone()).collect() }
            }
            Ask::Registry { kind, id } => {
                let asked =
                    |key: &&RecordKey| key.kind == *kind && id.as_ref().is_none_or(|id| *id == key.id);
                let found = self.registry.iter().filter(|(key, _)| asked(key));
                let records = found.map(|(_, record)| record.clone()).collect();
                Answer::Registry { kind: *kind, id: id.clone(), records }
            }
            Ask::Inbox { .. } => unreachable!("no decision asks for it"),
        }
    }

    fn list(&self, list: ListKey, after: u64, limit: usize) -> Answer {
        let mut edges: Vec<&Arc<Edge>> = self.edges.values().collect();
        edges.sort_by_key(|edge| edge.number);
        let ends = edges.iter().map(|edge| (edge.number, edge.key));
        let all: Vec<(u64, ExecutionId)> = match list {
            ListKey::Members(flow) => {
                let members =
                    self.executions.values().filter_map(|it| Some((it.spec.member.as_ref()?, it.id)));
                let mut all: Vec<_> =
                    members.filter(|(it, _)| it.flow == flow).map(|(it, id)| (it.number, id)).collect();
                all.sort_unstable();
                all
            }
            ListKey::Downstream(id) => {
                ends.filter(|(_, key)| key.upstream == id).map(|(n, key)| (n, key.downstream)).collect()
            }
            ListKey::Upstream(id) => {
                ends.filter(|(_, key)| key.downstream == id).map(|(n, key)| (n, key.upstream)).collect()
            }
        };
        let entries: Vec<_> = all.into_iter().filter(|(number, _)| *number > after).take(limit).collect();
        let key = |other| match list {
            ListKey::Members(_) => None,
            ListKey::Downstream(upstream) => Some(EdgeKey { upstream, downstream: other }),
            ListKey::Upstream(downstream) => Some(EdgeKey { upstream: other, downstream }),
        };
        let edges = entries.iter().filter_map(|(_, id)| self.edges.get(&key(*id)?).cloned()).collect();
        let executions = entries.iter().map(|(_, id)| self.executions[id].clone()).collect();
        Answer::List { list, after, limit, entries, edges, executions }
    }

    fn missed(&self, since: u64) -> Missed {
        let Opening { header, links, ready_counts, .. } = self.opening();
        let mut missed = Missed { header, links, ready_counts, ..Missed::default() };
        let keys: BTreeSet<Key> = self.log[since as usize..].iter().flatten().cloned().collect();
        keys.into_iter().for_each(|key| missed.add(self.answer(&Ask::Record(key))));
        missed
    }

    fn opening(&self) -> Opening {
        let totals = self.ready_counts.iter();
        let leased = self.executions.values();
        Opening {
            header: self.header,
            links: self.links.values().copied().collect(),
            lanes: self.lanes.values().cloned().collect(),
            workers: self.workers.values().cloned().collect(),
            signing_keys: self.signing_keys.values().cloned().collect(),
            ready_counts: totals.map(|((lane, class), n)| (lane.clone(), class.clone(), *n as u64)).collect(),
            leases: leased.filter_map(|it| it.lease().map(|lease| (lease.instance, it.id))).collect(),
            newest: self.executions.keys().max().copied(),
        }
    }

    fn sweep_page(&self, now: i64, events_before: i64, limit: usize) -> SweepPage {
        let expired = self.dedup.iter().filter(|(_, dedup)| dedup.expires_at <= now);
        let kept = || self.events.iter().filter(|event| event.number >= self.trimmed_below);
        let first_kept = kept().find(|event| event.at >= events_before);
        let some_old = kept().any(|event| event.at < events_before);
        let flows = || self.flows.values().filter_map(|it| Some((it.live.end.as_ref()?.remove_at?, it.id)));
        let next = [
            self.ended.iter().map(|entry| entry.remove_at).find(|at| *at > now),
            self.dedup.values().map(|dedup| dedup.expires_at).filter(|at| *at > now).min(),
            flows().map(|(at, _)| at).filter(|at| *at > now).min(),
            first_kept.map(|event| event.at + (now - events_before)),
        ];
        let mut old: Vec<_> = flows().filter(|(at, _)| *at <= now).collect();
        old.sort_unstable();
        old.truncate(limit);
        SweepPage {
            flows: old,
            ended: self.ended.iter().take_while(|it| it.remove_at <= now).take(limit).copied().collect(),
            dedup: expired.take(limit).map(|(key, dedup)| (key.clone(), *dedup)).collect(),
            events_below: some_old.then(|| first_kept.map_or(self.header.next_event, |event| event.number)),
            next: next.into_iter().flatten().min(),
        }
    }
}

fn put<K: Ord, V>(table: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(table.insert(key, value)),
        None => drop(table.remove(&key)),
    }
}

fn count<K: Ord>(table: &mut BTreeMap<K, i64>, key: K, delta: i64) {
    let count = table.get(&key).copied().unwrap_or(0) + delta;
    assert!(count >= 0, "a counter never falls below zero");
    put(table, key, Some(count).filter(|count| *count != 0));
}
