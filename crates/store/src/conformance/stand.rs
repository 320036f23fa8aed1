//! What a case works with: the store under test, its clock, and the reference beside it.

use std::sync::Arc;

use ff_core::change::Changes;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::limits::Limits;
use ff_core::workspace::{Answer, Opening, Workspace};
use ff_core::{CommitId, Ms, PartitionId, Route, ServerId};

use super::{Check, Dump, Factory, Site, ensure_eq};
use crate::{Clock, Commit, ManualClock, MemoryStore, Outcome, Store, Version};

/// When every case begins.
pub const START: Ms = 1_800_000_000_000;
/// Who commits, unless a case says otherwise.
pub const SERVER: ServerId = ServerId(uuid::Uuid::from_u128(1));

/// A store on the stand.
///
/// Each partition has a desk: a workspace on which a case prepares records, so that what is written is as
/// coherent as what the engine writes. [`flush`](Stand::flush) writes a desk to the store and the reference.
pub struct Stand {
    pub store: Arc<dyn Store>,
    pub reference: MemoryStore,
    pub clock: Arc<ManualClock>,
    pub partitions: u16,
    pub desks: Vec<Workspace>,
    site: Box<dyn Site>,
    commits: u64,
}

impl std::fmt::Debug for Stand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stand").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Stand {
    pub async fn new(factory: &dyn Factory, partitions: u16) -> Result<Stand, String> {
        let clock = Arc::new(ManualClock::at(START));
        let site = factory.site(partitions, clock.clone()).await?;
        let store = site.open().await?;
        let reference = MemoryStore::with_clock(partitions, clock.clone());
        let desks = (0..partitions).map(|at| empty_desk(PartitionId(at), partitions)).collect();
        Ok(Stand { store, reference, clock, partitions, desks, site, commits: 0 })
    }

    /// All partitions.
    pub fn each(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions).map(PartitionId)
    }

    /// The partition that cases about one partition use.
    pub fn last(&self) -> PartitionId {
        PartitionId(self.partitions - 1)
    }

    pub fn desk(&mut self, partition: PartitionId) -> &mut Workspace {
        &mut self.desks[partition.index()]
    }

    /// Throws away what was prepared and written from a partition's desk.
    pub fn clear_desk(&mut self, partition: PartitionId) {
        self.desks[partition.index()] = empty_desk(partition, self.partitions);
    }

    pub fn now(&self) -> Ms {
        self.clock.now()
    }

    /// A commit id nobody has used.
    pub fn new_id(&mut self) -> CommitId {
        self.commits += 1;
        CommitId::from_parts(START, Route(0), self.commits)
    }

    pub async fn version(&self, partition: PartitionId) -> Result<Version, String> {
        let loaded = self.store.load(partition, vec![]).await.map_err(|error| format!("load: {error}"))?;
        Ok(loaded.version)
    }

    /// The answer to one ask.
    pub async fn ask(&self, partition: PartitionId, ask: Ask) -> Result<Answer, String> {
        let loaded = self.store.load(partition, vec![ask]).await.map_err(|error| format!("load: {error}"))?;
        ensure_one(loaded.answers)
    }

    pub async fn opening(&self, partition: PartitionId) -> Result<Opening, String> {
        match self.ask(partition, Ask::Opening).await? {
            Answer::Opening(opening) => Ok(*opening),
            other => Err(format!("an opening was asked for, the answer was {other:?}")),
        }
    }

    /// Sends one commit to the store alone.
    pub async fn send(&mut self, commit: Commit) -> Result<Outcome, String> {
        ensure_one(self.store.commit(vec![commit]).await)
    }

    /// Writes changes on top of the newest version, to the store and to the reference.
    pub async fn write(&mut self, partition: PartitionId, changes: Changes) -> Result<Version, String> {
        let (expected, id, now) = (self.version(partition).await?, self.new_id(), self.now());
        let commit = Commit { partition, expected, id, by: SERVER, changes };
        let outcome = self.send(commit.clone()).await?;
        ensure_eq!(outcome, Outcome::Committed { now }, "a commit on the newest version");
        let behind = self.reference.edit(|state| state.commit(commit, now));
        ensure_eq!(behind, Outcome::Committed { now }, "the version that the store told, to the reference");
        Ok(Version { number: expected.number + 1, id })
    }

    /// Writes what was prepared on a partition's desk.
    pub async fn flush(&mut self, partition: PartitionId) -> Result<Version, String> {
        let now = self.now();
        let changes = self.desk(partition).take_batch(now);
        self.write(partition, changes).await
    }

    pub async fn flush_all(&mut self) -> Check {
        for partition in self.each() {
            self.flush(partition).await?;
        }
        Ok(())
    }

    /// Writes rows into the inboxes of the store and of the reference.
    pub async fn post(&self, rows: impl IntoIterator<Item = Posted>) -> Check {
        for row in rows {
            self.reference.post(row.clone());
            self.site.post(row).await?;
        }
        Ok(())
    }

    /// Compares everything that can be read of the store with the reference.
    pub async fn same(&self) -> Check {
        let got = Dump::of(&*self.store).await?;
        let want = Dump::of(&self.reference).await?;
        got.compare(&want)
    }

    /// Closes the store and opens it again.
    pub async fn reopen(&mut self) -> Check {
        self.store.close().await;
        self.store = self.site.open().await?;
        Ok(())
    }

    /// Where the store lives.
    pub fn site(&self) -> &dyn Site {
        &*self.site
    }

    /// A second handle on the same store.
    pub async fn another(&self) -> Result<Arc<dyn Store>, String> {
        self.site.open().await
    }
}

fn empty_desk(partition: PartitionId, partitions: u16) -> Workspace {
    let mut desk = Workspace::new(partition, partitions, Arc::new(Limits::default()));
    desk.learn(Answer::Opening(Box::<Opening>::default()));
    // Nothing is stored yet, so the agenda is known to be empty.
    desk.agenda_mut().start_refill();
    desk.learn(Answer::Agenda { entries: Vec::new(), reached: Ms::MAX });
    desk
}

/// The one element that a call about one thing must answer with.
pub fn ensure_one<T: std::fmt::Debug>(mut list: Vec<T>) -> Result<T, String> {
    match list.pop() {
        Some(one) if list.is_empty() => Ok(one),
        rest => Err(format!("one answer was due; got {} and {rest:?}", list.len())),
    }
}
