//! The memory state behind a lock, as a store.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use uuid::Uuid;

use super::faults::{Barrier, Faults};
use super::state::MemoryState;
use crate::commit::{Commit, Outcome};
use crate::{
    Clock, EventPage, Loaded, PARCEL_MS, Parcel, Soon, Status, Store, StoreError, StoreInfo, SystemClock,
    Trace, Written,
};

#[derive(Debug)]
struct Shared {
    // A std mutex: it is held for the length of one call and never across an await.
    state: Mutex<MemoryState>,
    /// Servers that entered, and whether their process has ended.
    servers: Mutex<BTreeMap<String, bool>>,
    /// Parcels that nobody has taken, and when they were left.
    parcels: Mutex<Vec<(Ms, Parcel)>>,
    clock: Arc<dyn Clock>,
    faults: Faults,
}

/// One handle on a store in memory. Servers that are to be closed one by one get a handle each
/// ([`another`](MemoryStore::another)); they see each other's commits.
#[derive(Debug)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    closed: AtomicBool,
}

impl MemoryStore {
    /// An empty store on the machine's clock.
    pub fn new(partitions: u16) -> MemoryStore {
        Self::with_clock(partitions, Arc::new(SystemClock))
    }

    pub fn with_clock(partitions: u16, clock: Arc<dyn Clock>) -> MemoryStore {
        // Two stores must differ, also over restarts: a cursor of one must not pass for one of the other.
        let bits = Uuid::from_u64_pair(random_bits(), random_bits());
        let id = uuid::Builder::from_random_bytes(bits.into_bytes()).into_uuid();
        Self::from_state(MemoryState::new(partitions, id), clock)
    }

    /// A store that starts from a given state.
    pub fn from_state(state: MemoryState, clock: Arc<dyn Clock>) -> MemoryStore {
        let (state, servers, parcels) = (Mutex::new(state), Mutex::default(), Mutex::default());
        let shared = Shared { state, servers, parcels, clock, faults: Faults::default() };
        MemoryStore { shared: Arc::new(shared), closed: AtomicBool::new(false) }
    }

    /// Another handle on the same store, open whether or not this one is.
    pub fn another(&self) -> MemoryStore {
        MemoryStore { shared: self.shared.clone(), closed: AtomicBool::new(false) }
    }

    /// The switches that make it fail.
    pub fn faults(&self) -> Faults {
        self.shared.faults.clone()
    }

    pub fn now(&self) -> Ms {
        self.shared.clock.now()
    }

    /// Looks inside, past every fault.
    pub fn inspect<T>(&self, look: impl FnOnce(&MemoryState) -> T) -> T {
        look(&self.state())
    }

    /// Changes what is inside, past every fault and guard: for tests that need a store in a certain state.
    pub fn edit<T>(&self, change: impl FnOnce(&mut MemoryState) -> T) -> T {
        change(&mut self.state())
    }

    /// An application writes a row into the inbox, past every fault.
    pub fn post(&self, posted: Posted) {
        self.state().post(posted);
    }

    /// From now on the process of this server counts as ended.
    pub fn mark_gone(&self, server: &str) {
        if let Some(gone) = self.servers().get_mut(server) {
            *gone = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<(), StoreError> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("this handle of the memory store is closed".to_owned())),
            false => Ok(()),
        }
    }

    /// Answers a question at once, unless the store is closed or out of reach.
    fn read<'a, T: Send + 'a>(
        &'a self,
        question: impl FnOnce(&MemoryState) -> Result<T, StoreError> + Send + 'a,
    ) -> Soon<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.check_open()?;
            self.shared.faults.check()?;
            question(&self.state())
        })
    }

    fn execute(&self, commits: Vec<Commit>) -> Vec<Outcome> {
        let (mut state, now) = (self.state(), self.now());
        let outcome = |commit: Commit| {
            let instead = self.shared.faults.instead_of(&commit.changes);
            instead.unwrap_or_else(|| self.shared.faults.answer(state.commit(commit, now)))
        };
        commits.into_iter().map(outcome).collect()
    }
}

impl Store for MemoryStore {
    fn info(&self) -> StoreInfo {
        self.state().info()
    }

    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>> {
        Box::pin(async move {
            self.check_open()?;
            self.shared.faults.pass(Barrier::Load).await;
            self.shared.faults.check_load()?;
            self.state().load(partition, &asks, self.now())
        })
    }

    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>> {
        Box::pin(async move {
            if let Err(error) = self.check_open() {
                return vec![Outcome::Failed(error); commits.len()];
            }
            self.shared.faults.pass(Barrier::Commit).await;
            let outcomes = self.execute(commits);
            self.shared.faults.pass(Barrier::Answer).await;
            outcomes
        })
    }

    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.check_open()?;
            self.state().post_all(rows);
            Ok(())
        })
    }

    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>> {
        self.read(move |state| state.written(partition, number))
    }

    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            self.check_open()?;
            self.shared.faults.check()?;
            self.state().turn(partition, server, for_ms, self.now())
        })
    }

    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>> {
        self.read(|state| Ok((self.now(), state.status())))
    }

    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>> {
        self.read(move |state| Ok(state.payloads(&keys)))
    }

    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>> {
        self.read(move |state| Ok(state.attempts(execution)))
    }

    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>> {
        self.read(move |state| Ok(state.steps(&executions)))
    }

    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>> {
        self.read(move |state| Ok(state.signals(&keys)))
    }

    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>> {
        self.read(move |state| Ok(state.frames(&ask)))
    }

    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>> {
        self.read(move |state| Ok(state.orphans(limit)))
    }

    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>> {
        self.read(move |state| Ok(state.waitpoints(&ask)))
    }

    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>> {
        self.read(move |state| Ok(state.executions(&ask)))
    }

    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>> {
        self.read(move |state| Ok(state.flows(&ask)))
    }

    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>> {
        self.read(|state| Ok(state.counts()))
    }

    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>> {
        self.read(move |state| state.events(partition, from, limit))
    }

    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>> {
        self.read(move |state| state.first_event_since(partition, at))
    }

    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.read(move |_| {
            let mut servers = self.servers();
            servers.insert(server, false);
            Ok(servers.iter().filter(|(_, gone)| !**gone).map(|(server, _)| server.clone()).collect())
        })
    }

    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.read(|_| {
            let servers = self.servers();
            Ok(servers.iter().filter(|(_, gone)| **gone).map(|(server, _)| server.clone()).collect())
        })
    }

    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.read(move |_| {
            let now = self.shared.clock.now();
            let mut kept = self.shared.parcels.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(parcels.into_iter().map(|parcel| (now, parcel)));
            kept.retain(|(at, _)| *at > now - PARCEL_MS);
            Ok(kept
                .extract_if(.., |(_, parcel)| parcel.to == server)
                .map(|(_, parcel)| parcel.text)
                .collect())
        })
    }

    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>> {
        self.read(move |_| {
            self.servers().remove(&server);
            Ok(())
        })
    }

    fn close(&self) -> Soon<'_, ()> {
        Box::pin(async move { self.closed.store(true, Ordering::SeqCst) })
    }
}

/// The seed of the standard library's hash maps is the one source of random bits without another dependency.
fn random_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}
