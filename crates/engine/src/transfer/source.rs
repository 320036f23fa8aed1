//! The store that is copied: nobody works on it, and what it says of itself at the end is what it said at the beginning.

use std::sync::Arc;

use ff_core::change::Header;
use ff_core::key::Ask;
use ff_core::lane::Lane;
use ff_core::query::CountKey;
use ff_core::registry::{HOME, Record, RecordKind};
use ff_core::suspension::SigningKey;
use ff_core::worker::WorkerInstance;
use ff_core::workspace::{Answer, Opening, Origin};
use ff_core::{PartitionId, Route};
use ff_store::{Store, Version};

use super::{TransferError, served, unfinished};

/// How many records are read at once.
pub(super) const PAGE: usize = 1_000;
/// About how much a record weighs without what belongs to it.
pub(super) const RECORD_BYTES: usize = 1_024;
/// Numbers are kept as signed ones, and there must be room for those to come.
const NUMBER_MAX: u64 = 1 << 62;

pub(super) struct Source<'a> {
    pub store: &'a dyn Store,
    pub partitions: u16,
    versions: Vec<Version>,
    openings: Vec<Opening>,
}

impl<'a> Source<'a> {
    /// # Errors
    /// If somebody works on it, or if it is empty or not whole.
    pub async fn open(store: &'a dyn Store, seed: u64) -> Result<Source<'a>, TransferError> {
        match served(store, seed).await.map_err(TransferError::Source)? {
            0 => {}
            others => return Err(TransferError::Served(others)),
        }
        if let Some(copy) = unfinished(store).await.map_err(TransferError::Source)? {
            return Err(TransferError::UnfinishedSource(copy.from));
        }
        let partitions = store.info().partitions;
        let mut source = Source { store, partitions, versions: Vec::new(), openings: Vec::new() };
        for partition in source.each() {
            let loaded = store.load(partition, vec![Ask::Opening]).await.map_err(TransferError::Source)?;
            source.versions.push(loaded.version);
            let opening = loaded.answers.into_iter().find_map(|answer| match answer {
                Answer::Opening(opening) => Some(*opening),
                _ => None,
            });
            source.openings.push(opening.unwrap_or_default());
        }
        let (_, status) = store.status().await.map_err(TransferError::Source)?;
        if status.iter().all(|it| it.version == Version::NONE && !it.inbox) {
            return Err(TransferError::Empty);
        }
        Ok(source)
    }

    pub fn each(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions).map(PartitionId)
    }

    pub fn home(&self, route: Route) -> PartitionId {
        route.partition(self.partitions)
    }

    /// What a partition's numbers are made of in a copy with so many partitions: they need telling apart only where
    /// records of several partitions meet in one.
    pub fn origin(&self, partition: PartitionId, copy: u16) -> Origin {
        match copy.is_multiple_of(self.partitions) {
            true => Origin { partition: PartitionId(0), partitions: 1 },
            false => Origin { partition, partitions: self.partitions },
        }
    }

    /// How far those partitions have come, in time and in numbers, of which records go to this one of a copy. Time stands
    /// still while nobody works, so that the first who does sees how long that was.
    pub fn header_for(&self, partition: PartitionId, copy: u16) -> Result<Header, TransferError> {
        let step = usize::from(common_divisor(self.partitions, copy));
        let sources = self.each().zip(&self.openings).skip(partition.index() % step).step_by(step);
        let mut header = Header::default();
        for (source, opening) in sources {
            let next = self.origin(source, copy).number(opening.header.next_event);
            let next = next.filter(|it| *it < NUMBER_MAX).ok_or(TransferError::TooManyNumbers)?;
            header.next_event = header.next_event.max(next);
            header.now = header.now.max(opening.header.now);
        }
        Ok(header)
    }

    pub async fn load(&self, partition: PartitionId, asks: Vec<Ask>) -> Result<Vec<Answer>, TransferError> {
        let loaded = self.store.load(partition, asks).await.map_err(TransferError::Source)?;
        Ok(loaded.answers)
    }

    /// What is known at home, which its copies may not have heard of yet.
    fn at_home<'s, T: 's>(
        &'s self,
        all: fn(&Opening) -> &Vec<Arc<T>>,
        route: fn(&T) -> Route,
    ) -> impl Iterator<Item = &'s Arc<T>> {
        let partitions = self.each().zip(&self.openings);
        partitions.flat_map(move |(partition, opening)| {
            all(opening).iter().filter(move |it| self.home(route(it)) == partition)
        })
    }

    pub fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.at_home(|opening| &opening.lanes, |lane| Route::of_name(lane.name.as_str()))
    }

    pub fn workers(&self) -> impl Iterator<Item = &Arc<WorkerInstance>> {
        self.at_home(|opening| &opening.workers, |worker| worker.instance.route())
    }

    pub fn signing_keys(&self) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.at_home(|opening| &opening.signing_keys, |_| HOME)
    }

    pub async fn records(&self, kind: RecordKind) -> Result<Vec<Arc<Record>>, TransferError> {
        let answers = self.load(self.home(HOME), vec![Ask::Registry { kind, id: None }]).await?;
        Ok(answers
            .into_iter()
            .flat_map(|answer| match answer {
                Answer::Registry { records, .. } => records,
                _ => Vec::new(),
            })
            .collect())
    }

    pub async fn counts(&self) -> Result<Vec<(CountKey, u64)>, TransferError> {
        self.store.counts().await.map_err(TransferError::Source)
    }

    /// Fails if somebody has committed anything since it was opened.
    pub async fn check_unchanged(&self) -> Result<(), TransferError> {
        for (partition, version) in self.each().zip(&self.versions) {
            let loaded = self.store.load(partition, Vec::new()).await.map_err(TransferError::Source)?;
            if loaded.version != *version {
                return Err(TransferError::Changed);
            }
        }
        Ok(())
    }
}

/// The largest number that divides both. A route leads to the same remainder by it in both stores.
fn common_divisor(a: u16, b: u16) -> u16 {
    if b == 0 { a.max(1) } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_partition_go_where_its_header_went() {
        for (from, to) in [(1, 8), (3, 1), (3, 8), (8, 3), (6, 4), (32, 64), (64, 32)] {
            for route in (0..2_000).map(Route) {
                let step = common_divisor(from, to);
                assert_eq!(route.partition(from).0 % step, route.partition(to).0 % step, "{from} to {to}");
            }
        }
    }
}
