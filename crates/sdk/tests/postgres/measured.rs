//! A store that notes the largest commit it was given, and leaves everything to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ff_core::attempt::Attempt;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::payload::PayloadKey;
use ff_core::query::{
    CountKey, FlowPage, FlowPageAsk, FramePageAsk, Page, PageAsk, WaitpointPage, WaitpointPageAsk,
};
use ff_core::step::Step;
use ff_core::stream::Frame;
use ff_core::suspension::Signal;
use ff_core::{PartitionId, ServerId};
use ff_store::{
    Commit, EventPage, Loaded, Outcome, Parcel, Soon, Status, Store, StoreError, StoreInfo, Trace, Written,
};
use flowfabric::{ExecutionId, Ms, Payload};

#[derive(Debug)]
pub struct Measured {
    pub store: Arc<dyn Store>,
    pub rows_max: AtomicUsize,
}

impl Store for Measured {
    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>> {
        for commit in &commits {
            self.rows_max.fetch_max(commit.changes.rows(), Ordering::Relaxed);
        }
        self.store.commit(commits)
    }

    fn info(&self) -> StoreInfo {
        self.store.info()
    }

    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>> {
        self.store.load(partition, asks)
    }

    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>> {
        self.store.written(partition, number)
    }

    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>> {
        self.store.turn(partition, server, for_ms)
    }

    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>> {
        self.store.status()
    }

    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>> {
        self.store.payloads(keys)
    }

    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>> {
        self.store.attempts(execution)
    }

    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>> {
        self.store.steps(executions)
    }

    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>> {
        self.store.signals(keys)
    }

    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>> {
        self.store.frames(ask)
    }

    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>> {
        self.store.orphans(limit)
    }

    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>> {
        self.store.waitpoints(ask)
    }

    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>> {
        self.store.executions(ask)
    }

    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>> {
        self.store.flows(ask)
    }

    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>> {
        self.store.counts()
    }

    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>> {
        self.store.events(partition, from, limit)
    }

    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>> {
        self.store.first_event_since(partition, at)
    }

    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.store.beat(server)
    }

    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.store.gone()
    }

    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.store.exchange(server, parcels)
    }

    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>> {
        self.store.post_all(rows)
    }

    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>> {
        self.store.leave(server)
    }

    fn close(&self) -> Soon<'_, ()> {
        self.store.close()
    }
}
