//! The whole store as a plain value, with the methods of the contract.

use ff_core::attempt::Attempt;
use ff_core::event::Event;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::payload::{Payload, PayloadKey};
use ff_core::query::{
    CountKey, FlowPage, FlowPageAsk, FramePageAsk, Page, PageAsk, WaitpointPage, WaitpointPageAsk,
};
use ff_core::step::Step;
use ff_core::stream::Frame;
use ff_core::suspension::Signal;
use ff_core::{ExecutionId, Ms, PartitionId, ServerId};
use uuid::Uuid;

use super::partition::Partition;
use super::reads;
use crate::commit::{Commit, Outcome};
use crate::{EventPage, Loaded, Status, StoreError, StoreInfo, Trace, Written};

/// Every method does what its namesake of [`Store`](crate::Store) does; time is a parameter.
///
/// # Errors
/// The only thing it refuses is a partition that it does not have.
#[derive(Clone, Debug)]
pub struct MemoryState {
    id: Uuid,
    partitions: Vec<Partition>,
}

impl MemoryState {
    /// An empty store. It has at least one partition.
    pub fn new(partitions: u16, id: Uuid) -> MemoryState {
        MemoryState { id, partitions: vec![Partition::default(); usize::from(partitions.max(1))] }
    }

    pub fn info(&self) -> StoreInfo {
        StoreInfo { kind: "memory", id: self.id, partitions: self.partitions.len() as u16, lines: 1 }
    }

    /// The tables of a partition, for those who want to look inside.
    pub fn partition(&self, partition: PartitionId) -> Result<&Partition, StoreError> {
        self.partitions.get(partition.index()).ok_or_else(|| no_partition(partition, self.partitions.len()))
    }

    pub(crate) fn partition_mut(&mut self, partition: PartitionId) -> Result<&mut Partition, StoreError> {
        let count = self.partitions.len();
        self.partitions.get_mut(partition.index()).ok_or_else(|| no_partition(partition, count))
    }

    pub fn partitions(&self) -> impl ExactSizeIterator<Item = (PartitionId, &Partition)> {
        self.partitions.iter().enumerate().map(|(at, partition)| (PartitionId(at as u16), partition))
    }

    pub fn load(&self, partition: PartitionId, asks: &[Ask], now: Ms) -> Result<Loaded, StoreError> {
        let partition = self.partition(partition)?;
        let answers = asks.iter().map(|ask| partition.answer(ask)).collect();
        Ok(Loaded { version: partition.version(), now, answers })
    }

    /// Applies one commit if its partition is at the version expected.
    pub fn commit(&mut self, commit: Commit, now: Ms) -> Outcome {
        let partition = match self.partition_mut(commit.partition) {
            Ok(partition) => partition,
            Err(error) => return Outcome::Failed(error),
        };
        if partition.version() != commit.expected || partition.turn(now).is_some_and(|it| it != commit.by) {
            return Outcome::Conflict;
        }
        partition.turn = None;
        partition.append(commit.id, now, commit.changes);
        Outcome::Committed { now }
    }

    /// Applies several commits in order, each guarded alone.
    pub fn commit_all(&mut self, commits: Vec<Commit>, now: Ms) -> Vec<Outcome> {
        commits.into_iter().map(|commit| self.commit(commit, now)).collect()
    }

    pub fn written(&self, partition: PartitionId, number: u64) -> Result<Written, StoreError> {
        Ok(self.partition(partition)?.log.written(number))
    }

    pub fn turn(
        &mut self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
        now: Ms,
    ) -> Result<bool, StoreError> {
        let partition = self.partition_mut(partition)?;
        if partition.turn(now).is_none() {
            partition.turn = Some((server, now.saturating_add(for_ms)));
        }
        Ok(partition.turn(now) == Some(server))
    }

    pub fn status(&self) -> Vec<Status> {
        let status = |(partition, it): (PartitionId, &Partition)| Status {
            partition,
            version: it.version(),
            next_event: it.header.next_event,
            next_due: it.agenda.first_key_value().map(|(key, _)| key.due),
            ready: it.ready_totals(),
            inbox: !it.inbox.is_empty(),
        };
        self.partitions().map(status).collect()
    }

    pub fn payloads(&self, keys: &[PayloadKey]) -> Vec<Option<Payload>> {
        keys.iter().map(|key| self.home(key.execution).payloads.get(key).cloned()).collect()
    }

    pub fn attempts(&self, execution: ExecutionId) -> Vec<Attempt> {
        let range = (execution, 0)..=(execution, u32::MAX);
        self.home(execution).attempts.range(range).map(|(_, attempt)| attempt.clone()).collect()
    }

    pub fn steps(&self, executions: &[ExecutionId]) -> Vec<Step> {
        executions.iter().flat_map(|id| self.home(*id).mail.steps(*id)).collect()
    }

    pub fn signals(&self, keys: &[(ExecutionId, u32)]) -> Vec<Option<Signal>> {
        keys.iter().map(|(id, number)| self.home(*id).mail.signal(*id, *number).cloned()).collect()
    }

    pub fn orphans(&self, limit: usize) -> Vec<(Trace, ExecutionId)> {
        let kept = self.partitions().flat_map(|(_, it)| it.mail.owners());
        let mut orphans: Vec<_> = kept.filter(|(_, id)| self.home(*id).execution(*id).is_none()).collect();
        orphans.sort();
        orphans.truncate(limit);
        orphans
    }

    pub fn frames(&self, ask: &FramePageAsk) -> Vec<Frame> {
        self.home(ask.execution).mail.frames(ask)
    }

    pub fn waitpoints(&self, ask: &WaitpointPageAsk) -> WaitpointPage {
        reads::waitpoint_page(&self.partitions, ask)
    }

    pub fn executions(&self, ask: &PageAsk) -> Page {
        reads::page(&self.partitions, ask)
    }

    pub fn flows(&self, ask: &FlowPageAsk) -> FlowPage {
        reads::flow_page(&self.partitions, ask)
    }

    pub fn counts(&self) -> Vec<(CountKey, u64)> {
        reads::counts(&self.partitions)
    }

    pub fn events(&self, partition: PartitionId, from: u64, limit: usize) -> Result<EventPage, StoreError> {
        Ok(self.partition(partition)?.event_page(from, limit))
    }

    /// One event, if it is kept.
    pub fn event(&self, partition: PartitionId, number: u64) -> Option<Event> {
        let page = self.events(partition, number, 1).ok()?;
        page.events.into_iter().find(|event| event.number == number)
    }

    pub fn first_event_since(&self, partition: PartitionId, at: Ms) -> Result<u64, StoreError> {
        Ok(self.partition(partition)?.first_event_since(at))
    }

    /// An application writes a row into the inbox, as it does in its own transaction on other stores.
    pub fn post(&mut self, posted: Posted) {
        let partition = posted.partition(self.partitions.len() as u16);
        self.partitions[partition.index()].inbox.insert(posted.number, posted);
    }

    /// Rows of another store, under numbers that nothing here has.
    pub(super) fn post_all(&mut self, rows: Vec<Posted>) {
        let newest =
            self.partitions.iter().flat_map(|it| it.inbox.keys().chain(it.dead_letters.keys())).max();
        let numbers = newest.map_or(1, |number| number + 1)..;
        numbers.zip(rows).for_each(|(number, row)| self.post(Posted { number, ..row }));
    }

    /// The partition an execution lives in, by the route in its id.
    fn home(&self, execution: ExecutionId) -> &Partition {
        &self.partitions[execution.route().partition(self.partitions.len() as u16).index()]
    }
}

fn no_partition(partition: PartitionId, count: usize) -> StoreError {
    StoreError::Refused(format!("there is no partition {partition}; this store has 0 to {}", count - 1))
}
