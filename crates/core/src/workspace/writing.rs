//! What commands change: records, with everything that follows from them, and facts.

use std::sync::Arc;

use super::derived::{derive, derive_worker, ended_entry};
use super::graph::derive_member;
use super::mail::Kept;
use super::{Moved, Todo, Workspace};
use crate::Ms;
use crate::attempt::Attempt;
use crate::event::{Event, Fact};
use crate::execution::Execution;
use crate::id::{ExecutionId, InstanceId};
use crate::inbox::{Fate, LetterHead};
use crate::key::{Dedup, DedupKey};
use crate::lane::Lane;
use crate::name::LaneName;
use crate::payload::{Payload, PayloadKey};
use crate::worker::WorkerInstance;

impl Workspace {
    pub fn put_execution(&mut self, mut execution: Execution, now: Ms) {
        execution.live.changed_at = now;
        execution.settle_timer();
        if let Some(entry) = ended_entry(&execution) {
            self.sweep_by(entry.remove_at);
        }
        let (id, batch) = (execution.id, self.batch);
        let after = Arc::new(execution);
        let before = self.executions.put(id, Some(after.clone()), batch);
        if before.is_none() {
            self.newest.note(id);
        }
        derive(&mut self.ready, &mut self.agenda, &mut self.leases, before.as_deref(), Some(&after));
        derive_member(&mut self.graph, before.as_deref(), Some(&after));
        self.note_rest(id, &after);
        let ended = after.spec.parent.is_some() && after.end().is_some();
        if ended && before.as_ref().is_none_or(|before| before.end().is_none()) {
            self.todo.push_back(Todo::ChildEnded(id));
        }
        self.todo.extend(Moved::of(before.as_ref(), &after).map(Todo::Moved));
    }

    /// Removes every trace of an execution; its stream must be [known](Self::know_stream).
    pub fn purge_execution(&mut self, id: ExecutionId) {
        let before = self.executions.put(id, None, self.batch);
        let lists = &self.lists;
        let kept =
            Kept { payloads: lists.payloads.len(), attempts: lists.attempts.len(), traces: lists.traces() };
        self.lists.purged.push((id, kept));
        self.purge_stream(id);
        derive(&mut self.ready, &mut self.agenda, &mut self.leases, before.as_deref(), None);
        derive_member(&mut self.graph, before.as_deref(), None);
    }

    pub fn put_dedup(&mut self, key: DedupKey, dedup: Option<Dedup>) {
        if let Some(dedup) = dedup.as_ref().filter(|it| it.expires_at < Ms::MAX) {
            self.sweep_by(dedup.expires_at);
        }
        self.dedup.put(key, dedup, self.batch);
    }

    pub fn put_lane(&mut self, lane: Lane) {
        self.lanes.put(lane.name.clone(), Some(Arc::new(lane)), self.batch);
    }

    pub fn put_worker(&mut self, worker: WorkerInstance) {
        worker.remove_at().into_iter().for_each(|at| self.sweep_by(at));
        let after = Arc::new(worker);
        let before = self.workers.put(after.instance, Some(after.clone()), self.batch);
        derive_worker(&mut self.agenda, before.as_deref(), Some(&after));
    }

    pub fn purge_worker(&mut self, instance: InstanceId) {
        let before = self.workers.put(instance, None, self.batch);
        derive_worker(&mut self.agenda, before.as_deref(), None);
    }

    pub fn put_payload(&mut self, key: PayloadKey, payload: Payload) {
        self.lists.payloads.push((key, payload));
    }

    pub fn archive_attempt(&mut self, id: ExecutionId, attempt: Attempt) {
        self.lists.attempts.push((id, attempt));
    }

    /// Decides what becomes of a posted row, of which the head tells.
    pub fn settle_posted(&mut self, number: u64, head: LetterHead, fate: Fate) {
        let letter = matches!(fate, Fate::Dead { .. }).then_some(head);
        self.letters.put(number, letter, self.batch);
        self.lists.inbox.push((number, fate));
    }

    /// Records a fact about an execution and returns the event's number.
    pub fn emit(&mut self, execution: &Execution, now: Ms, fact: Fact) -> u64 {
        let spec = &execution.spec;
        let number = self.next_number();
        self.lists.events.push(Event {
            number,
            at: now,
            execution: Some(execution.id),
            flow: execution.flow(),
            namespace: Some(spec.namespace.clone()),
            lane: Some(spec.lane.clone()),
            tags: execution.live.tags.clone(),
            fact,
        });
        number
    }

    /// Records a fact about a lane, a worker or a posted row.
    pub fn emit_global(&mut self, lane: Option<LaneName>, now: Ms, fact: Fact) {
        let number = self.next_number();
        let (namespace, tags) = (None, Default::default());
        let (execution, flow) = (None, None);
        self.lists.events.push(Event { number, at: now, execution, flow, namespace, lane, tags, fact });
    }

    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.header.next_event;
        self.header.next_event += 1;
        number
    }
}
