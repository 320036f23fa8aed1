//! The store's side: the memory state, its clock, and the checkers that see every commit.

use std::collections::BTreeSet;

use ff_core::agenda::AgendaKey;
use ff_core::change::{Changes, ExecutionChange};
use ff_core::inbox::Fate;
use ff_core::{ExecutionId, Ms, PartitionId, ServerId};
use ff_store::memory::MemoryState;
use ff_store::{Commit, Outcome};

use crate::bug::Bug;
use crate::check::history::{History, Seq};
use crate::check::inbox::Inbox;
use crate::check::mirror::Mirror;
use crate::check::replies::Oracle;
use crate::check::subscriber::Subscriber;
use crate::check::{Check, ensure, execution, flow, tables};
use crate::profile::PARTITIONS;

/// How many commits may pass between two comparisons of whole tables.
const FULL_CHECK_EVERY: u64 = 32;

#[derive(Debug)]
pub struct SimStore {
    pub state: MemoryState,
    pub mirrors: Vec<Mirror>,
    pub history: History,
    pub oracle: Oracle,
    pub inbox: Inbox,
    pub subscriber: Subscriber,
    pub seq: Seq,
    /// How far its clock is ahead of the world's.
    pub ahead_ms: Ms,
    /// Submissions that it refuses whenever it sees them.
    pub poison: BTreeSet<ExecutionId>,
    bug: Option<Bug>,
}

impl SimStore {
    pub fn new(bug: Option<Bug>) -> SimStore {
        SimStore {
            state: MemoryState::new(PARTITIONS, uuid::Uuid::from_u64_pair(1, 2)),
            mirrors: (0..PARTITIONS).map(|_| Mirror::default()).collect(),
            history: History::default(),
            oracle: Oracle::default(),
            inbox: Inbox::default(),
            subscriber: Subscriber::new(PARTITIONS),
            seq: 0,
            ahead_ms: 0,
            poison: BTreeSet::new(),
            bug,
        }
    }

    pub fn refuses(&self, changes: &Changes) -> bool {
        let new = changes.executions.iter().filter_map(|change| match change {
            ExecutionChange::Insert(it) => Some(it.id),
            _ => None,
        });
        !self.poison.is_empty() && new.into_iter().any(|id| self.poison.contains(&id))
    }

    /// Applies a commit if its version fits, and checks everything about it.
    pub fn commit(&mut self, mut commit: Commit, now: Ms) -> Result<Outcome, String> {
        let partition = commit.partition;
        let version = self.version(partition)?;
        match self.bug {
            Some(Bug::NoVersionCheck) => commit.expected = version,
            Some(Bug::TimerNotDeleted) => commit.changes.agenda_removed.retain(|key| !is_timer(key)),
            Some(Bug::RowNotRemoved) => commit.changes.inbox.retain(|(_, fate)| *fate != Fate::Taken),
            Some(Bug::DedupDropped) => commit.changes.dedup.retain(|(_, it)| it.is_none()),
            Some(Bug::TurnIgnored) => commit.by = self.turn(partition, now)?.unwrap_or(commit.by),
            _ => {}
        }
        if version != commit.expected || self.turn(partition, now)?.is_some_and(|it| it != commit.by) {
            return Ok(Outcome::Conflict);
        }
        self.seq += 1;
        self.check_commit(partition, &commit.changes)
            .map_err(|text| format!("commit {} of partition {partition}: {text}", version.number + 1))?;
        Ok(self.state.commit(commit, now))
    }

    fn turn(&self, partition: PartitionId, now: Ms) -> Result<Option<ServerId>, String> {
        Ok(self.state.partition(partition).map_err(|error| error.to_string())?.turn(now))
    }

    fn version(&self, partition: PartitionId) -> Result<ff_store::Version, String> {
        Ok(self.state.partition(partition).map_err(|error| error.to_string())?.version())
    }

    fn check_commit(&mut self, partition: PartitionId, changes: &Changes) -> Check {
        self.oracle.committed(&changes.events)?;
        let mirror = &mut self.mirrors[partition.index()];
        self.history.note(self.seq, partition, changes, mirror)?;
        self.subscriber.committed(partition, &changes.events);
        let ids = changes.executions.iter().map(|change| match change {
            ExecutionChange::Insert(it) | ExecutionChange::Update(it) => it.id,
            ExecutionChange::Purge(id) => *id,
        });
        let before: Vec<_> = ids.map(|id| (id, mirror.executions.get(&id).cloned())).collect();
        let flows = flow::touched(changes, mirror);
        mirror.apply(changes)?;
        self.inbox.committed(changes, mirror)?;
        for (id, before) in before {
            let after = mirror.executions.get(&id);
            let life = self.history.lives.get(&id).ok_or_else(|| format!("{id} was never created"))?;
            match (before, after) {
                (Some(before), Some(after)) => {
                    execution::check_step(&before, after, changes)?;
                    flow::check_step(&before, after, changes)?;
                }
                (_, None) => ensure!(life.folded.is_none(), "{id} is gone without an event"),
                (None, Some(_)) => {}
            }
            if let Some(after) = after {
                execution::check_record(mirror, after, life)?;
                flow::check_admitted(life.admitted, after)?;
            }
        }
        for id in flows {
            flow::check_flow(mirror, &self.history, id)?;
        }
        if self.seq.is_multiple_of(FULL_CHECK_EVERY) {
            tables::check_tables(mirror)?;
        }
        Ok(())
    }

    /// Compares everything with everything.
    pub fn check_all(&self) -> Check {
        for (partition, stored) in self.state.partitions() {
            let mirror = &self.mirrors[partition.index()];
            let check = || {
                tables::check_tables(mirror)?;
                tables::check_store(mirror, stored)?;
                for it in mirror.executions.values() {
                    let life =
                        self.history.lives.get(&it.id).ok_or_else(|| format!("{} has no past", it.id))?;
                    execution::check_record(mirror, it, life)?;
                }
                for id in mirror.flows.keys() {
                    flow::check_flow(mirror, &self.history, *id)?;
                }
                Ok(())
            };
            check().map_err(|text: String| format!("partition {partition}: {text}"))?;
        }
        self.inbox.check_store(&self.state)?;
        for (id, life) in &self.history.lives {
            let home = &self.mirrors[id.route().partition(PARTITIONS).index()];
            let stored = home.executions.contains_key(id);
            ensure!(stored == life.folded.is_some(), "{id} is stored: {stored}, its events say otherwise");
        }
        for (id, life) in &self.history.flows {
            let stored = self.mirrors[id.route().partition(PARTITIONS).index()].flows.contains_key(id);
            ensure!(
                stored == life.folded.is_some(),
                "flow {id} is stored: {stored}, its events say otherwise"
            );
        }
        Ok(())
    }
}

fn is_timer(key: &AgendaKey) -> bool {
    matches!(key.subject, ff_core::agenda::Subject::Timer(_))
}
