//! The memory store with one bug.

use std::sync::{Mutex, MutexGuard, PoisonError};

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

use super::super::stand::START;
use super::{Bug, commits, mail, reads, turns};
use crate::memory::MemoryState;
use crate::{
    Commit, EventPage, Loaded, MemoryStore, Outcome, Parcel, Soon, Status, Store, StoreError, StoreInfo,
    Trace, Written,
};

#[derive(Debug)]
pub struct BrokenStore {
    inner: MemoryStore,
    bug: Option<Bug>,
    /// What the store was before the newest commit of this handle, for bugs that see the past.
    before: Mutex<MemoryState>,
}

impl BrokenStore {
    pub fn new(inner: MemoryStore, bug: Option<Bug>) -> BrokenStore {
        let before = Mutex::new(inner.inspect(MemoryState::clone));
        BrokenStore { inner, bug, before }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn before(&self) -> MutexGuard<'_, MemoryState> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Ms {
        if self.has(Bug::ClockStandsStill) { START } else { self.inner.now() }
    }

    /// Fails if the handle is closed.
    async fn check_open(&self) -> Result<(), StoreError> {
        self.inner.payloads(vec![]).await.map(drop)
    }

    async fn load_broken(
        &self,
        bug: Bug,
        partition: PartitionId,
        asks: Vec<Ask>,
    ) -> Result<Loaded, StoreError> {
        self.check_open().await?;
        let now = self.now();
        match bug {
            Bug::LoadAtTwoVersions => {
                let mut loaded = self.inner.load(partition, vec![]).await?;
                for ask in asks {
                    tokio::task::yield_now().await;
                    let part = self.inner.load(partition, vec![ask]).await?;
                    loaded.answers.extend(part.answers);
                }
                Ok(loaded)
            }
            Bug::HandleCachesForEver => self.before().load(partition, &asks, now),
            _ => self.inner.inspect(|state| reads::load(state, bug, partition, &asks, now)),
        }
    }

    async fn commit_broken(&self, bug: Bug, commits: Vec<Commit>) -> Vec<Outcome> {
        if let Err(error) = self.check_open().await {
            return vec![Outcome::Failed(error); commits.len()];
        }
        if bug == Bug::CheckBeforeWrite {
            let passes: Vec<bool> = self
                .inner
                .inspect(|state| commits.iter().map(|commit| commits::passes_guard(state, commit)).collect());
            // Whoever comes meanwhile passes, too.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let now = self.now();
            return self.inner.edit(|state| {
                let write = |(commit, passes)| match passes {
                    true => commits::commit_all(state, Bug::NoVersionCheck, vec![commit], now),
                    false => vec![Outcome::Conflict],
                };
                commits.into_iter().zip(passes).flat_map(write).collect()
            });
        }
        let now = self.now();
        self.inner.edit(|state| {
            *self.before() = state.clone();
            let outcomes = commits::commit_all(state, bug, commits, now);
            if bug == Bug::HandleCachesForEver {
                *self.before() = state.clone();
            }
            outcomes
        })
    }
}

impl Store for BrokenStore {
    fn info(&self) -> StoreInfo {
        let info = self.inner.info();
        match self.bug {
            Some(Bug::IdentityChanges) => {
                let address = std::ptr::from_ref(self) as usize as u64;
                StoreInfo { id: uuid::Uuid::from_u64_pair(1, address), ..info }
            }
            _ => info,
        }
    }

    fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Soon<'_, Result<Loaded, StoreError>> {
        match self.bug {
            Some(bug) => Box::pin(self.load_broken(bug, partition, asks)),
            None => self.inner.load(partition, asks),
        }
    }

    fn commit(&self, commits: Vec<Commit>) -> Soon<'_, Vec<Outcome>> {
        match self.bug {
            Some(bug) => Box::pin(self.commit_broken(bug, commits)),
            None => self.inner.commit(commits),
        }
    }

    fn written(&self, partition: PartitionId, number: u64) -> Soon<'_, Result<Written, StoreError>> {
        Box::pin(async move {
            let written = self.inner.written(partition, number).await?;
            let newest = self.inner.load(partition, vec![]).await?.version.number;
            let forgets = self.has(Bug::WrittenForgets) && number < newest;
            Ok(if forgets { Written::Forgotten } else { written })
        })
    }

    fn turn(
        &self,
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    ) -> Soon<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            self.check_open().await?;
            let now = self.now();
            self.inner.edit(|state| turns::turn(state, self.bug, partition, server, for_ms, now))
        })
    }

    fn status(&self) -> Soon<'_, Result<(Ms, Vec<Status>), StoreError>> {
        Box::pin(async move {
            let (now, mut status) = self.inner.status().await?;
            if self.has(Bug::StatusIgnoresTheInbox) {
                status.iter_mut().for_each(|it| it.inbox = false);
            }
            Ok(if self.has(Bug::StatusIsLate) { (now, self.before().status()) } else { (now, status) })
        })
    }

    fn payloads(&self, keys: Vec<PayloadKey>) -> Soon<'_, Result<Vec<Option<Payload>>, StoreError>> {
        Box::pin(async move {
            let mut payloads = self.inner.payloads(keys).await?;
            if self.has(Bug::PayloadsOutOfOrder) {
                payloads.reverse();
            }
            Ok(payloads)
        })
    }

    fn attempts(&self, execution: ExecutionId) -> Soon<'_, Result<Vec<Attempt>, StoreError>> {
        self.inner.attempts(execution)
    }

    fn steps(&self, executions: Vec<ExecutionId>) -> Soon<'_, Result<Vec<Step>, StoreError>> {
        Box::pin(async move {
            let mut steps = self.inner.steps(executions).await?;
            if self.has(Bug::StepInsertedTwice) {
                steps.extend(mail::doubles(&self.before(), &steps));
            }
            if self.has(Bug::StepsOrderedByName) {
                steps.sort_by(|a, b| (a.execution, &a.key).cmp(&(b.execution, &b.key)));
            }
            Ok(steps)
        })
    }

    fn signals(&self, keys: Vec<(ExecutionId, u32)>) -> Soon<'_, Result<Vec<Option<Signal>>, StoreError>> {
        Box::pin(async move {
            let mut signals = self.inner.signals(keys).await?;
            if self.has(Bug::SignalsOutOfOrder) {
                signals.sort_by_key(|signal| signal.as_ref().map(|it| (it.execution, it.number)));
            }
            Ok(signals)
        })
    }

    fn frames(&self, ask: FramePageAsk) -> Soon<'_, Result<Vec<Frame>, StoreError>> {
        Box::pin(async move {
            let frames = self.inner.frames(ask).await?;
            Ok(self.bug.map_or(frames, |bug| self.inner.inspect(|state| mail::frames(state, bug, ask))))
        })
    }

    fn orphans(&self, limit: usize) -> Soon<'_, Result<Vec<(Trace, ExecutionId)>, StoreError>> {
        Box::pin(async move {
            let mut orphans = self.inner.orphans(limit).await?;
            if self.has(Bug::FramesOfNobodyHidden) {
                orphans.retain(|(what, _)| *what != Trace::Frames);
            }
            Ok(orphans)
        })
    }

    fn waitpoints(&self, ask: WaitpointPageAsk) -> Soon<'_, Result<WaitpointPage, StoreError>> {
        Box::pin(async move {
            let page = self.inner.waitpoints(ask.clone()).await?;
            Ok(self.bug.map_or(page, |bug| self.inner.inspect(|state| mail::waitpoints(state, bug, ask))))
        })
    }

    fn executions(&self, ask: PageAsk) -> Soon<'_, Result<Page, StoreError>> {
        Box::pin(async move {
            let page = self.inner.executions(ask.clone()).await?;
            Ok(self.bug.map_or(page, |bug| self.inner.inspect(|state| reads::page(state, bug, ask))))
        })
    }

    fn flows(&self, ask: FlowPageAsk) -> Soon<'_, Result<FlowPage, StoreError>> {
        Box::pin(async move {
            let page = self.inner.flows(ask.clone()).await?;
            Ok(self.bug.map_or(page, |bug| self.inner.inspect(|state| reads::flow_page(state, bug, ask))))
        })
    }

    fn counts(&self) -> Soon<'_, Result<Vec<(CountKey, u64)>, StoreError>> {
        Box::pin(async move {
            let mut counts = self.inner.counts().await?;
            if self.has(Bug::CountsListZero) {
                let zeroes = self.before().counts().into_iter().map(|(key, _)| (key, 0));
                let missing: Vec<_> =
                    zeroes.filter(|(key, _)| counts.iter().all(|(it, _)| it != key)).collect();
                counts.extend(missing);
            }
            Ok(counts)
        })
    }

    fn events(
        &self,
        partition: PartitionId,
        from: u64,
        limit: usize,
    ) -> Soon<'_, Result<EventPage, StoreError>> {
        let late = u64::from(self.has(Bug::EventsStartOneLate));
        self.inner.events(partition, from + late, limit)
    }

    fn first_event_since(&self, partition: PartitionId, at: Ms) -> Soon<'_, Result<u64, StoreError>> {
        let late = Ms::from(self.has(Bug::FirstEventOneLate));
        self.inner.first_event_since(partition, at + late)
    }

    fn beat(&self, server: String) -> Soon<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let alive = self.inner.beat(server.clone()).await?;
            if self.has(Bug::LivingServersAreGone) {
                self.inner.mark_gone(&server);
            }
            Ok(if self.has(Bug::ServersKnowOnlyThemselves) { vec![server] } else { alive })
        })
    }

    fn gone(&self) -> Soon<'_, Result<Vec<String>, StoreError>> {
        self.inner.gone()
    }

    fn exchange(&self, server: String, parcels: Vec<Parcel>) -> Soon<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let parcels = if self.has(Bug::ParcelsAreLost) { Vec::new() } else { parcels };
            let others: Vec<String> = parcels.iter().map(|parcel| parcel.to.clone()).collect();
            let mut taken = self.inner.exchange(server.clone(), parcels).await?;
            if self.has(Bug::ParcelsGoToAnybody) {
                for other in others {
                    taken.extend(self.inner.exchange(other, Vec::new()).await?);
                }
            }
            if self.has(Bug::ParcelsAreTakenTwice) {
                let again = |text: &String| Parcel { to: server.clone(), text: text.clone() };
                self.inner.exchange(String::new(), taken.iter().map(again).collect()).await?;
            }
            Ok(taken)
        })
    }

    fn post_all(&self, rows: Vec<Posted>) -> Soon<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if self.has(Bug::RowsPostedUnderTheirOwnNumbers) {
                rows.into_iter().for_each(|row| self.inner.post(row));
                return Ok(());
            }
            let rows = match self.bug {
                Some(Bug::PostedRowsReversed) => rows.into_iter().rev().collect(),
                _ => rows,
            };
            self.inner.post_all(rows).await
        })
    }

    fn leave(&self, server: String) -> Soon<'_, Result<(), StoreError>> {
        match self.bug {
            Some(Bug::ServersThatLeftAreAlive) => Box::pin(async { Ok(()) }),
            _ => self.inner.leave(server),
        }
    }

    fn close(&self) -> Soon<'_, ()> {
        Box::pin(async move {
            match self.bug {
                Some(Bug::CloseIgnored) => return,
                Some(Bug::NewestCommitLostOnClose) => {
                    let before = self.before().clone();
                    self.inner.edit(|state| *state = before);
                }
                _ => {}
            }
            self.inner.close().await;
        })
    }
}
