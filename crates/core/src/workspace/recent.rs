//! What batches that may not be stored yet have changed.
//!
//! A store answers with what is committed. Windows and sweep pages that it fills are therefore brought up to
//! date with the batches that were decided but perhaps not stored when it answered: those kept here, and the
//! one being decided.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::Workspace;
use super::derived::{agenda_change, derive_worker};
use super::graph::derive_flow;
use super::mail::derive_stream;
use super::table::Known;
use crate::Ms;
use crate::agenda::{AgendaEntry, AgendaKey, Subject};
use crate::change::{Changes, Header};
use crate::class::Class;
use crate::execution::Execution;
use crate::flow::{Edge, EdgeKey, Flow};
use crate::id::{ExecutionId, FlowId, InstanceId, PartitionId};
use crate::key::{Dedup, DedupKey};
use crate::lane::Lane;
use crate::message::Link;
use crate::name::LaneName;
use crate::ready::Place;
use crate::stream::Stream;
use crate::suspension::SigningKey;
use crate::worker::WorkerInstance;

#[derive(Debug)]
struct Recent {
    batch: u64,
    agenda_removed: Vec<AgendaKey>,
    agenda_added: Vec<AgendaEntry>,
    sweep_by: Option<Ms>,
    before: Before,
}

/// What a batch has overwritten.
#[derive(Debug)]
pub(super) struct Before {
    pub header: Header,
    pub executions: Vec<(ExecutionId, Option<Arc<Execution>>)>,
    pub dedup: Vec<(DedupKey, Option<Dedup>)>,
    pub lanes: Vec<(LaneName, Option<Arc<Lane>>)>,
    pub workers: Vec<(InstanceId, Option<Arc<WorkerInstance>>)>,
    pub links: Vec<(PartitionId, Option<Link>)>,
    pub flows: Vec<(FlowId, Option<Arc<Flow>>)>,
    pub edges: Vec<(EdgeKey, Option<Arc<Edge>>)>,
    pub streams: Vec<(ExecutionId, Option<Arc<Stream>>)>,
    pub signing_keys: Vec<(u32, Option<Arc<SigningKey>>)>,
    /// Messages it has sent.
    pub sent: Vec<AgendaKey>,
    /// Entries it has struck, with their content if they were in memory.
    pub struck: Vec<(AgendaKey, Option<AgendaEntry>)>,
}

/// Batches in the order in which they were decided.
#[derive(Debug, Default)]
pub(super) struct RecentBatches(VecDeque<Recent>);

impl RecentBatches {
    pub fn add(&mut self, batch: u64, before: Before, changes: &Changes, sweep_by: Option<Ms>) {
        if before.executions.is_empty() && before.edges.is_empty() && changes.is_empty() {
            return;
        }
        let (agenda_removed, agenda_added) = (changes.agenda_removed.clone(), changes.agenda_added.clone());
        self.0.push_back(Recent { batch, agenda_removed, agenda_added, sweep_by, before });
    }

    /// What the newest batch that is not stored has overwritten; each only once.
    pub fn pop_unsettled(&mut self, settled: u64) -> Option<Before> {
        self.0.pop_back_if(|recent| recent.batch > settled).map(|recent| recent.before)
    }

    /// Forgets batches that are stored.
    pub fn settle(&mut self, settled: u64) {
        while self.0.front().is_some_and(|recent| recent.batch <= settled) {
            self.0.pop_front();
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What batches that may not be stored have overwritten.
    pub fn overwritten(&self) -> impl Iterator<Item = &Before> {
        self.0.iter().map(|recent| &recent.before)
    }

    /// The first time at which something that these batches wrote may be swept.
    pub fn sweep_by(&self) -> Option<Ms> {
        self.0.iter().filter_map(|recent| recent.sweep_by).min()
    }
}

impl Workspace {
    /// Corrects a ready window that has just been refilled with `loaded`.
    pub(super) fn amend_ready(&mut self, lane: &LaneName, class: &Class, loaded: &[(Place, ExecutionId)]) {
        let recent = self.recent.0.iter().flat_map(|recent| recent.before.executions.iter());
        let changed: FxHashSet<ExecutionId> =
            recent.chain(self.executions.touched()).map(|(id, _)| *id).collect();
        let Some(window) = self.ready.window_mut(lane, class) else { return };
        let place_of = |id: &ExecutionId| match self.executions.get(id) {
            Known::Present(it) if it.spec.lane == *lane && it.spec.is_of(class) => it.place(),
            _ => None,
        };
        let stale = loaded.iter().filter(|(place, id)| changed.contains(id) && place_of(id) != Some(*place));
        stale.for_each(|(place, _)| window.correct(*place, None));
        for id in &changed {
            if let Some(place) = place_of(id) {
                window.correct(place, Some(*id));
            }
        }
    }

    /// Corrects an agenda that has just been refilled.
    pub(super) fn amend_agenda(&mut self) {
        let agenda = &mut self.agenda;
        for recent in &self.recent.0 {
            recent.agenda_removed.iter().for_each(|key| agenda.remove(key));
            recent.agenda_added.iter().for_each(|it| agenda.add(it.key, it.message.clone()));
        }
        for (id, before) in self.executions.touched() {
            let after = match self.executions.get(id) {
                Known::Present(it) => Some(&**it),
                _ => None,
            };
            for (old, new) in agenda_change(before.as_deref(), after) {
                old.iter().for_each(|key| agenda.remove(key));
                new.into_iter().for_each(|key| agenda.add(key, None));
            }
        }
        for (id, before) in self.flows.touched() {
            let after = match self.flows.get(id) {
                Known::Present(it) => Some(&**it),
                _ => None,
            };
            derive_flow(agenda, before.as_deref(), after);
        }
        for (id, before) in self.streams.touched() {
            let after = match self.streams.get(id) {
                Known::Present(it) => Some(&**it),
                _ => None,
            };
            derive_stream(agenda, before.as_deref(), after);
        }
        for (id, before) in self.workers.touched() {
            let after = match self.workers.get(id) {
                Known::Present(it) => Some(&**it),
                _ => None,
            };
            derive_worker(agenda, before.as_deref(), after);
        }
        let (before, after) = (self.header_at_batch.sweep_at, self.header.sweep_at);
        if before != after {
            let entry = |due| AgendaKey { due, subject: Subject::Sweep };
            before.into_iter().for_each(|due| agenda.remove(&entry(due)));
            after.into_iter().for_each(|due| agenda.add(entry(due), None));
        }
        self.lists.agenda_added.iter().for_each(|it| agenda.add(it.key, it.message.clone()));
        self.lists.agenda_removed.iter().for_each(|(key, _)| agenda.remove(key));
    }
}
