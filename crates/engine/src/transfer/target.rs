//! The store that is copied into: a desk for each partition, and one flush for all of them when there is enough on them.

use std::sync::Arc;

use ff_core::change::{Changes, Header};
use ff_core::limits::Limits;
use ff_core::registry::{HOME, Record, RecordKey, UnfinishedCopy};
use ff_core::workspace::{Answer, Opening, Workspace};
use ff_core::{CommitId, Ms, PartitionId, Route, ServerId};
use ff_store::{Commit, Outcome, Store, StoreError, Version};

use super::source::Source;
use super::{TransferError, served, unfinished};
use crate::random::Random;

/// About how much is written with one flush.
const FLUSH_BYTES: usize = 4 << 20;

struct Desk {
    workspace: Workspace,
    version: Version,
    /// The time that its partition has.
    now: Ms,
}

pub(super) struct Target<'a> {
    pub store: &'a dyn Store,
    partitions: u16,
    desks: Vec<Desk>,
    /// About how much is on the desks.
    bytes: usize,
    /// The time of the store.
    now: Ms,
    random: Random,
    server: ServerId,
}

impl<'a> Target<'a> {
    /// Numbers and time go on from where the source has come to.
    ///
    /// # Errors
    /// If somebody works on it, or if anything was ever written to it.
    pub async fn open(
        store: &'a dyn Store,
        source: &Source<'_>,
        seed: u64,
    ) -> Result<Target<'a>, TransferError> {
        match served(store, seed).await.map_err(TransferError::Target)? {
            0 => {}
            others => return Err(TransferError::ServedTarget(others)),
        }
        if let Some(copy) = unfinished(store).await.map_err(TransferError::Target)? {
            return Err(TransferError::UnfinishedTarget(copy.from));
        }
        let (now, status) = store.status().await.map_err(TransferError::Target)?;
        if status.iter().any(|it| it.version != Version::NONE || it.inbox) {
            return Err(TransferError::NotEmpty);
        }
        let partitions = store.info().partitions;
        let random = Random::new(seed);
        let server = ServerId::from_parts(now, HOME, random.next());
        let mut desks = Vec::new();
        for partition in (0..partitions).map(PartitionId) {
            let header = source.header_for(partition, partitions)?;
            let workspace = workspace(partition, partitions, header);
            desks.push(Desk { workspace, version: Version::NONE, now: header.now });
        }
        Ok(Target { store, partitions, desks, bytes: 0, now, random, server })
    }

    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    pub fn each(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions).map(PartitionId)
    }

    pub fn home(&self, route: Route) -> PartitionId {
        route.partition(self.partitions)
    }

    pub fn random(&self) -> u64 {
        self.random.next()
    }

    /// The number that the next event of a partition gets.
    pub fn next_event(&self, partition: PartitionId) -> u64 {
        self.desks[partition.index()].workspace.header().next_event
    }

    /// Lays something on the desk where its route leads.
    pub fn put<T>(&mut self, route: Route, bytes: usize, lay: impl FnOnce(&mut Workspace) -> T) -> T {
        let partition = self.home(route);
        self.put_in(partition, bytes, lay)
    }

    pub fn put_in<T>(
        &mut self,
        partition: PartitionId,
        bytes: usize,
        lay: impl FnOnce(&mut Workspace) -> T,
    ) -> T {
        self.bytes += bytes;
        lay(&mut self.desks[partition.index()].workspace)
    }

    /// Lays something on every desk.
    pub fn in_each(&mut self, bytes: usize, mut lay: impl FnMut(&mut Workspace)) {
        self.bytes += bytes * self.desks.len();
        self.desks.iter_mut().for_each(|desk| lay(&mut desk.workspace));
    }

    /// The first sweep finds out what is old enough, and when the next is due.
    pub fn plan_sweeps(&mut self) {
        self.desks.iter_mut().for_each(|desk| desk.workspace.sweep_by(desk.now));
    }

    /// Writes what is on the desks if that is much.
    pub async fn make_room(&mut self) -> Result<(), TransferError> {
        if self.bytes < FLUSH_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    /// Writes what is on the desks.
    pub async fn flush(&mut self) -> Result<(), TransferError> {
        let partitions = self.partitions;
        let mut changes = Vec::new();
        for (partition, desk) in self.each().zip(&mut self.desks) {
            let batch = desk.workspace.take_batch(desk.now);
            // What is written need not be remembered.
            desk.workspace = workspace(partition, partitions, batch.header);
            if !batch.is_empty() {
                changes.push((partition, batch));
            }
        }
        self.bytes = 0;
        self.write(changes).await
    }

    /// Commits changes that were made elsewhere than on the desks.
    pub async fn write(&mut self, changes: Vec<(PartitionId, Changes)>) -> Result<(), TransferError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut written = Vec::new();
        let mut commits = Vec::new();
        for (partition, changes) in changes {
            let expected = self.desks[partition.index()].version;
            let id = CommitId::from_parts(self.now, Route(partition.0), self.random.next());
            written.push((partition, Version { number: expected.number + 1, id }));
            commits.push(Commit { partition, expected, id, by: self.server, changes });
        }
        let outcomes = self.store.commit(commits).await;
        for ((partition, version), outcome) in written.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Committed { .. } => self.desks[partition.index()].version = version,
                Outcome::Conflict => return Err(TransferError::Interfered),
                // Whether it happened does not matter: an unfinished copy is thrown away.
                Outcome::Unknown(text) => return Err(TransferError::Target(StoreError::Unavailable(text))),
                Outcome::Failed(error) => return Err(TransferError::Target(error)),
            }
        }
        Ok(())
    }

    /// Says that not everything is there, before anything is.
    pub async fn mark(&mut self, from: &str) -> Result<(), TransferError> {
        let copy = UnfinishedCopy { from: from.into(), started_at: self.now };
        self.put(HOME, 0, |desk| desk.put_record(Record::Copy(copy)));
        self.flush().await
    }

    /// Everything is there.
    pub async fn unmark(&mut self) -> Result<(), TransferError> {
        let home = self.home(HOME);
        let header = *self.desks[home.index()].workspace.header();
        let registry = vec![(RecordKey::copy(), None)];
        self.write(vec![(home, Changes { header, registry, ..Changes::default() })]).await
    }

    /// The header of a partition at another time, for what is written with the time of its commit.
    pub fn header_at(&self, partition: PartitionId, now: Ms) -> Header {
        Header { now, ..*self.desks[partition.index()].workspace.header() }
    }
}

fn workspace(partition: PartitionId, partitions: u16, header: Header) -> Workspace {
    let mut workspace = Workspace::new(partition, partitions, Arc::new(Limits::default()));
    workspace.learn(Answer::Opening(Box::new(Opening { header, ..Opening::default() })));
    workspace
}
