//! A store that writes down what is committed, so that the same can be written again by a bare client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ff_core::attempt::Attempt;
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
use ff_store::{
    Commit, EventPage, Loaded, Outcome, Parcel, Soon, Status, Store, StoreError, StoreInfo, Trace, Written,
};

#[derive(Debug)]
pub struct Recording {
    inner: Arc<dyn Store>,
    on: AtomicBool,
    commits: Mutex<Vec<Vec<Commit>>>,
}

impl Recording {
    pub fn new(inner: Arc<dyn Store>) -> Recording {
        Recording { inner, on: AtomicBool::new(false), commits: Mutex::default() }
    }

    pub fn start(&self) {
        self.on.store(true, Ordering::SeqCst);
    }

    pub fn take(&self) -> Vec<Vec<Commit>> {
        std::mem::take(&mut *self.commits.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Recording {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }
    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>> {
        self.inner.load(partition, asks)
    }
    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>> {
        if self.on.load(Ordering::Relaxed) {
            self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(commits.clone());
        }
        self.inner.commit(commits)
    }
    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>> {
        self.inner.written(partition, number)
    }
    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>> {
        self.inner.turn(partition, server, for_ms)
    }
    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>> {
        self.inner.status()
    }
    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>> {
        self.inner.payloads(keys)
    }
    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>> {
        self.inner.attempts(execution)
    }
    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>> {
        self.inner.steps(executions)
    }
    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>> {
        self.inner.signals(keys)
    }
    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>> {
        self.inner.frames(ask)
    }
    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>> {
        self.inner.orphans(limit)
    }
    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>> {
        self.inner.waitpoints(ask)
    }
    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>> {
        self.inner.executions(ask)
    }
    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>> {
        self.inner.flows(ask)
    }
    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>> {
        self.inner.counts()
    }
    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>> {
        self.inner.events(partition, from, limit)
    }
    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>> {
        self.inner.first_event_since(partition, at)
    }
    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.inner.beat(server)
    }
    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.inner.gone()
    }
    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.inner.exchange(server, parcels)
    }
    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>> {
        self.inner.post_all(rows)
    }

    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>> {
        self.inner.leave(server)
    }
    fn close(&self) -> Soon<'_, ()> {
        self.inner.close()
    }
}
