//! Records that are taken over from another store as they are, with everything that follows from them here.
//!
//! A store that is copied may have another number of partitions. Ids say where their records go; what is numbered within
//! a partition gets new numbers.

use std::sync::Arc;

use super::Workspace;
use super::derived::ended_entry;
use crate::event::Event;
use crate::execution::{Execution, State};
use crate::flow::Flow;
use crate::id::PartitionId;
use crate::worker::{WorkerInstance, WorkerMode};

/// The partition that a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub partition: PartitionId,
    /// How many partitions there are where it comes from.
    pub partitions: u16,
}

impl Origin {
    /// What a number that a partition has given becomes, so that those of all partitions differ and those of one keep
    /// their order. None if there is no such number.
    pub fn number(self, given: u64) -> Option<u64> {
        given.checked_mul(u64::from(self.partitions))?.checked_add(u64::from(self.partition.0))
    }
}

impl Workspace {
    /// Takes over an execution. Nothing happens to it: it waits, runs or has ended as it did.
    pub fn restore_execution(&mut self, mut execution: Execution, from: Origin) {
        if let State::Ready { number, .. } = &mut execution.live.state {
            *number = from.number(*number).unwrap_or(*number);
        }
        if let Some(entry) = ended_entry(&execution) {
            self.sweep_by(entry.remove_at);
        }
        self.newest.note(execution.id);
        self.executions.put(execution.id, Some(Arc::new(execution)), self.batch);
    }

    pub fn restore_flow(&mut self, flow: Flow) {
        if let Some(remove_at) = flow.live.end.as_ref().and_then(|end| end.remove_at) {
            self.sweep_by(remove_at);
        }
        self.flows.put(flow.id, Some(Arc::new(flow)), self.batch);
    }

    /// Takes over a worker instance from its home, at its home or as a copy. The leases of one that has died are looked
    /// for again: how far that had come elsewhere says nothing about this partition.
    pub fn restore_worker(&mut self, worker: &WorkerInstance) {
        let here = worker.instance.route().partition(self.partitions) == self.partition;
        let mut worker = if here { worker.clone() } else { worker.copy() };
        worker.releasing_since = match worker.mode {
            WorkerMode::Dead => worker.died_at.or(Some(0)),
            WorkerMode::Active | WorkerMode::Draining => None,
        };
        self.put_worker(worker);
    }

    /// Takes over an event, behind those that were taken over before, and returns the number it has here.
    pub fn restore_event(&mut self, event: Event) -> u64 {
        let number = self.next_number();
        self.lists.events.push(Event { number, ..event });
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenda::Subject;
    use crate::change::{ExecutionChange, Header};
    use crate::commands::testing::{Bench, bury};
    use crate::limits::Limits;
    use crate::workspace::{Answer, Opening};

    fn desk(partition: u16, partitions: u16) -> Workspace {
        let mut desk = Workspace::new(PartitionId(partition), partitions, Arc::new(Limits::default()));
        desk.learn(Answer::Opening(Box::<Opening>::default()));
        desk
    }

    #[test]
    fn numbers_of_different_partitions_never_meet_and_those_of_one_keep_their_order() {
        let mut all = std::collections::BTreeSet::new();
        for partition in 0..3 {
            let origin = Origin { partition: PartitionId(partition), partitions: 3 };
            let numbers: Vec<u64> = (1..100).filter_map(|given| origin.number(given)).collect();
            assert!(numbers.is_sorted());
            all.extend(numbers);
        }
        assert_eq!(all.len(), 3 * 99);
        let lone = Origin { partition: PartitionId(0), partitions: 1 };
        assert_eq!(lone.number(17), Some(17));
        assert_eq!(Origin { partition: PartitionId(1), partitions: 8 }.number(u64::MAX / 7), None);
    }

    #[test]
    fn an_execution_stays_what_it_is_and_everything_follows_from_it() {
        let mut bench = Bench::new();
        let runs = bench.active().execution;
        let waits = bench.create();
        let mut desk = desk(0, 1);
        let origin = Origin { partition: PartitionId(2), partitions: 3 };
        for id in [runs, waits] {
            desk.restore_execution(bench.get(id).clone(), origin);
        }
        let changes = desk.take_batch(bench.now + 1_000);
        let ready: Vec<_> = changes.ready_added.iter().map(|it| it.execution).collect();
        assert_eq!(ready, [waits]);
        let State::Ready { number, .. } = bench.get(waits).live.state else { panic!() };
        assert_eq!(changes.ready_added[0].number, number * 3 + 2);
        let timers: Vec<_> = changes.agenda_added.iter().map(|it| it.key.subject).collect();
        assert_eq!(timers, [Subject::Timer(runs)]);
        assert_eq!(changes.counts.iter().map(|(_, count)| count).sum::<i64>(), 2);
        assert_eq!(changes.events, []);
        let running = changes.executions.iter().find(|it| it.id() == runs);
        let Some(ExecutionChange::Insert(running)) = running else { panic!() };
        assert_eq!(**running, *bench.get(runs));
    }

    #[test]
    fn the_leases_of_a_dead_instance_are_looked_for_in_every_partition() {
        let mut bench = Bench::new();
        let worker = (*bench.store.workers[&bench.worker]).clone();
        bench.ok(bury(bench.worker));
        bench.pass(0);
        let dead = (*bench.store.workers[&bench.worker]).clone();
        assert_eq!(dead.releasing_since, None, "everything is given back where it was");
        let home = worker.instance.route().partition(3).0;
        for partition in 0..3 {
            let mut desk = desk(partition, 3);
            desk.restore_worker(&dead);
            let kinds: Vec<_> =
                desk.take_batch(0).agenda_added.iter().map(|it| it.key.subject.kind()).collect();
            assert_eq!(kinds, ["worker_leases", "sweep"]);
            let mut desk = self::desk(partition, 3);
            desk.restore_worker(&worker);
            let watched =
                desk.take_batch(0).agenda_added.iter().any(|it| it.key.subject.kind() == "worker_timer");
            assert_eq!(watched, partition == home, "only its home waits for its signs of life");
        }
    }

    #[test]
    fn events_are_numbered_anew() {
        let mut bench = Bench::new();
        bench.create();
        let mut desk = desk(0, 1);
        let opening =
            Opening { header: Header { next_event: 50, ..Default::default() }, ..Default::default() };
        desk.learn(Answer::Opening(Box::new(opening)));
        let numbers: Vec<_> = bench.store.events.iter().map(|it| desk.restore_event(it.clone())).collect();
        assert_eq!(numbers, (50..50 + numbers.len() as u64).collect::<Vec<_>>());
        let changes = desk.take_batch(0);
        assert_eq!(changes.header.next_event, 50 + numbers.len() as u64);
        assert!(changes.events.iter().zip(&bench.store.events).all(|(new, old)| new.fact == old.fact));
    }
}
