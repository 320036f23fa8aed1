//! One command and one batch: rolled back whole, or written as the net change of each record.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Ms;
use crate::agenda::{AgendaEntry, AgendaKey, Subject};
use crate::change::{Changes, ExecutionChange};
use crate::class::Class;
use crate::execution::Execution;
use crate::id::ExecutionId;
use crate::name::LaneName;
use crate::query::CountKey;
use crate::worker::WorkerInstance;

use super::derived::{agenda_change, derive, derive_worker, ended_entry};
use super::graph::{derive_edge, derive_flow, derive_member, flow_entries};
use super::mail::{derive_stream, net_waitpoints, stream_entries};
use super::recent::Before;
use super::table::Net;
use super::{Marks, Workspace};

impl Workspace {
    pub fn begin_command(&mut self) {
        self.executions.begin_command();
        self.dedup.begin_command();
        self.lanes.begin_command();
        self.workers.begin_command();
        self.links.begin_command();
        self.letters.begin_command();
        self.flows.begin_command();
        self.edges.begin_command();
        self.streams.begin_command();
        self.signing_keys.begin_command();
        self.registry.begin_command();
        self.todo.clear();
        self.header_at_command = self.header;
        self.marks = Marks {
            events: self.lists.events.len(),
            payloads: self.lists.payloads.len(),
            attempts: self.lists.attempts.len(),
            agenda_added: self.lists.agenda_added.len(),
            agenda_removed: self.lists.agenda_removed.len(),
            events_trimmed_below: self.lists.events_trimmed_below,
            purged: self.lists.purged.len(),
            inbox: self.lists.inbox.len(),
            signals: self.lists.signals.len(),
            steps: self.lists.steps.len(),
            frames: self.lists.frames.len(),
            trims: self.lists.trims.len(),
        };
    }

    /// Whether the command that was decided last has changed an execution.
    pub fn has_moved(&self) -> bool {
        self.executions.is_written()
    }

    /// Takes back everything since [`begin_command`](Self::begin_command).
    pub fn roll_back(&mut self) {
        self.todo.clear();
        let Workspace { ready, agenda, leases, graph, .. } = self;
        self.edges.roll_back(|_, now, then| {
            derive_edge(graph, now.map(|it| &**it), then.map(|it| &**it));
        });
        self.flows.roll_back(|_, now, then| {
            derive_flow(agenda, now.map(|it| &**it), then.map(|it| &**it));
        });
        self.executions.roll_back(|_, now, then| {
            derive(ready, agenda, leases, now.map(|it| &**it), then.map(|it| &**it));
            derive_member(graph, now.map(|it| &**it), then.map(|it| &**it));
        });
        self.workers.roll_back(|_, now, then| {
            derive_worker(agenda, now.map(|it| &**it), then.map(|it| &**it));
        });
        self.streams.roll_back(|_, now, then| {
            derive_stream(agenda, now.map(|it| &**it), then.map(|it| &**it));
        });
        self.signing_keys.roll_back(|_, _, _| {});
        self.registry.roll_back(|_, _, _| {});
        self.dedup.roll_back(|_, _, _| {});
        self.lanes.roll_back(|_, _, _| {});
        self.links.roll_back(|_, _, _| {});
        self.letters.roll_back(|_, _, _| {});
        for entry in self.lists.agenda_added.drain(self.marks.agenda_added..) {
            agenda.remove(&entry.key);
        }
        for (_, entry) in self.lists.agenda_removed.drain(self.marks.agenda_removed..) {
            entry.into_iter().for_each(|entry| agenda.add(entry.key, entry.message));
        }
        self.lists.events.truncate(self.marks.events);
        self.lists.payloads.truncate(self.marks.payloads);
        self.lists.attempts.truncate(self.marks.attempts);
        self.lists.events_trimmed_below = self.marks.events_trimmed_below;
        self.lists.purged.truncate(self.marks.purged);
        self.lists.inbox.truncate(self.marks.inbox);
        self.lists.signals.truncate(self.marks.signals);
        self.lists.steps.truncate(self.marks.steps);
        self.lists.frames.truncate(self.marks.frames);
        self.lists.trims.truncate(self.marks.trims);
        let sweep_at = self.header_at_command.sweep_at;
        if self.header.sweep_at != sweep_at {
            self.set_sweep(sweep_at);
        }
        self.header = self.header_at_command;
    }

    /// Ends the batch and returns what it has changed.
    pub fn take_batch(&mut self, now: Ms) -> Changes {
        let mut lists = std::mem::take(&mut self.lists);
        self.marks = Marks::default();
        lists.leave_out_overwritten();
        let mut before = Before {
            header: self.header_at_batch,
            executions: Vec::new(),
            dedup: Vec::new(),
            lanes: Vec::new(),
            workers: Vec::new(),
            links: Vec::new(),
            flows: Vec::new(),
            edges: Vec::new(),
            streams: Vec::new(),
            signing_keys: Vec::new(),
            sent: lists.agenda_added.iter().map(|entry| entry.key).collect(),
            struck: lists.agenda_removed.clone(),
        };
        let mut changes = Changes {
            events: lists.events,
            payloads: lists.payloads,
            attempts: lists.attempts,
            agenda_added: lists.agenda_added,
            agenda_removed: lists.agenda_removed.into_iter().map(|(key, _)| key).collect(),
            events_trimmed_below: lists.events_trimmed_below,
            inbox: lists.inbox,
            signals: lists.signals,
            steps: lists.steps,
            frames_trimmed: lists.trims,
            frames: lists.frames,
            ..Changes::default()
        };
        let mut counts = FxHashMap::<CountKey, i64>::default();
        let mut ready_counts = FxHashMap::<(LaneName, Class), i64>::default();
        for (id, was, after) in self.executions.take_net() {
            before.executions.push((id, was.clone()));
            let mut net = |before, after| {
                net_execution(&mut changes, &mut counts, &mut ready_counts, id, before, after);
            };
            match (was, after) {
                // Removed and created anew under its id: another execution, of which nothing old may stay.
                (Some(before), Some(after)) if !Arc::ptr_eq(&before.spec, &after.spec) => {
                    net(Some(before), None);
                    net(None, Some(after));
                }
                (before, after) => net(before, after),
            }
        }
        for (id, was, after) in self.workers.take_net() {
            before.workers.push((id, was.clone()));
            if was != after {
                let agenda = |worker: &Option<Arc<WorkerInstance>>| {
                    worker.as_ref().map(|it| it.agenda().collect::<Vec<_>>()).unwrap_or_default()
                };
                let (old, new) = (agenda(&was), agenda(&after));
                changes.agenda_removed.extend(old.iter().filter(|key| !new.contains(key)));
                let added = new.iter().filter(|key| !old.contains(key));
                changes.agenda_added.extend(added.map(|key| AgendaEntry { key: *key, message: None }));
                changes.workers.push((id, after));
            }
        }
        for (id, was, after) in self.flows.take_net() {
            before.flows.push((id, was.clone()));
            if was != after {
                let (old, new) = flow_entries(was.as_deref(), after.as_deref());
                changes.agenda_removed.extend(old);
                changes.agenda_added.extend(new.map(|key| AgendaEntry { key, message: None }));
                changes.flows.push((id, after));
            }
        }
        for (id, was, after) in self.streams.take_net() {
            before.streams.push((id, was.clone()));
            if was != after {
                let (old, new) = stream_entries(was.as_deref(), after.as_deref());
                changes.agenda_removed.extend(old);
                changes.agenda_added.extend(new.map(|key| AgendaEntry { key, message: None }));
                changes.streams.push((id, after));
            }
        }
        changes.signing_keys = changed(self.signing_keys.take_net(), &mut before.signing_keys).collect();
        // What it was is read again when a batch is taken back.
        changes.registry = changed(self.registry.take_net(), &mut Vec::new()).collect();
        changes.edges = changed(self.edges.take_net(), &mut before.edges).collect();
        changes.dedup = changed(self.dedup.take_net(), &mut before.dedup).collect();
        changes.lanes = changed(self.lanes.take_net(), &mut before.lanes).collect();
        let links = changed(self.links.take_net(), &mut before.links);
        changes.links = links.filter_map(|(_, after)| after).collect();
        // What is written of them stands in the list of fates.
        self.letters.take_net();
        if self.header.sweep_at != self.header_at_batch.sweep_at {
            let entry = |due| AgendaKey { due, subject: Subject::Sweep };
            changes.agenda_removed.extend(self.header_at_batch.sweep_at.map(entry));
            let added = self.header.sweep_at.map(|due| AgendaEntry { key: entry(due), message: None });
            changes.agenda_added.extend(added);
        }
        changes.counts = sorted(counts);
        changes.ready_counts = sorted(ready_counts);
        self.header.now = now;
        changes.header = self.header;
        changes.next_due = Some(self.agenda.none_before());
        self.header_at_batch = self.header;
        self.recent.add(self.batch, before, &changes, self.batch_sweep_by.take());
        self.batch += 1;
        changes
    }
}

/// The records that are not what they were; what they were goes to `before`.
fn changed<K: Clone, V: Clone + PartialEq>(
    net: Vec<Net<K, V>>,
    before: &mut Vec<(K, Option<V>)>,
) -> impl Iterator<Item = (K, Option<V>)> {
    net.into_iter().filter_map(move |(key, was, after)| {
        let changed = was != after;
        before.push((key.clone(), was));
        changed.then_some((key, after))
    })
}

fn sorted<K: Ord>(map: FxHashMap<K, i64>) -> Vec<(K, i64)> {
    let mut list: Vec<(K, i64)> = map.into_iter().filter(|(_, delta)| *delta != 0).collect();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

/// Adds one execution's net change, and everything derived from it, to the changes of a batch.
fn net_execution(
    changes: &mut Changes,
    counts: &mut FxHashMap<CountKey, i64>,
    ready_counts: &mut FxHashMap<(LaneName, Class), i64>,
    id: ExecutionId,
    before: Option<Arc<Execution>>,
    after: Option<Arc<Execution>>,
) {
    let entry = |it: &Option<Arc<Execution>>| it.as_ref().and_then(|it| it.ready_entry());
    let (old, new) = (entry(&before), entry(&after));
    if old != new {
        if let Some(old) = old {
            *ready_counts.entry((old.lane.clone(), old.class.clone())).or_default() -= 1;
            changes.ready_removed.push(old);
        }
        if let Some(new) = new {
            *ready_counts.entry((new.lane.clone(), new.class.clone())).or_default() += 1;
            changes.ready_added.push(new);
        }
    }
    for (old, new) in agenda_change(before.as_deref(), after.as_deref()) {
        changes.agenda_removed.extend(old);
        changes.agenda_added.extend(new.map(|key| AgendaEntry { key, message: None }));
    }
    net_waitpoints(changes, before.as_deref(), after.as_deref());
    let (old, new) = (before.as_deref().and_then(ended_entry), after.as_deref().and_then(ended_entry));
    if old != new {
        changes.ended_removed.extend(old);
        changes.ended_added.extend(new);
    }
    let (old, new) = (before.as_deref().map(CountKey::of), after.as_deref().map(CountKey::of));
    if old != new {
        old.into_iter().for_each(|key| *counts.entry(key).or_default() -= 1);
        new.into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
    }
    match (before, after) {
        (None, Some(after)) => changes.executions.push(ExecutionChange::Insert(after)),
        (Some(before), Some(after)) if before != after => {
            changes.executions.push(ExecutionChange::Update(after));
        }
        (Some(_), None) => changes.executions.push(ExecutionChange::Purge(id)),
        _ => {}
    }
}
