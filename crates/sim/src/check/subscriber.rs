//! A subscriber: reads each partition's events by number, whenever it likes, and must see each exactly once
//! and in order.

use ff_core::event::Event;
use ff_core::{Ms, PartitionId};
use ff_store::memory::{MemoryState, Partition};

use super::Check;

#[derive(Debug)]
pub struct Subscriber {
    next: Vec<u64>,
    /// The number of the first event in each partition.
    first: Vec<u64>,
    /// What was committed in each partition, by number from the first.
    committed: Vec<Vec<(&'static str, Ms)>>,
}

impl Subscriber {
    pub fn new(partitions: u16) -> Subscriber {
        let partitions = usize::from(partitions);
        let first = vec![1; partitions];
        Subscriber { next: first.clone(), first, committed: vec![Vec::new(); partitions] }
    }

    /// One that begins with the oldest events that are kept.
    pub fn of(store: &MemoryState) -> Subscriber {
        let partitions = || store.partitions().map(|(_, stored)| stored);
        let oldest = |it: &Partition| it.events().next().map_or(it.header().next_event, |event| event.number);
        let first: Vec<u64> = partitions().map(oldest).collect();
        let told = |it: &Partition| it.events().map(|event| (event.fact.word(), event.at)).collect();
        Subscriber { next: first.clone(), first, committed: partitions().map(told).collect() }
    }

    pub fn committed(&mut self, partition: PartitionId, events: &[Event]) {
        self.committed[partition.index()].extend(events.iter().map(|it| (it.fact.word(), it.at)));
    }

    /// Reads a page of one partition.
    pub fn read(&mut self, store: &MemoryState, partition: PartitionId, limit: usize) -> Check {
        let next = &mut self.next[partition.index()];
        let page = store.events(partition, *next, limit).map_err(|error| error.to_string())?;
        // What was trimmed before it was read is gone; a real subscriber is told so.
        *next = (*next).max(page.oldest);
        for event in &page.events {
            ensure!(
                event.number == *next,
                "a subscriber of {partition} sees {} and not {next}",
                event.number
            );
            let place = *next - self.first[partition.index()];
            let committed = self.committed[partition.index()].get(place as usize);
            let seen = (event.fact.word(), event.at);
            ensure!(committed == Some(&seen), "event {next} of {partition} is {seen:?}, was {committed:?}");
            *next += 1;
        }
        ensure!(*next <= page.next, "a subscriber of {partition} is ahead of the log");
        Ok(())
    }

    pub fn is_through(&self, partition: PartitionId) -> bool {
        let seen = self.next[partition.index()] - self.first[partition.index()];
        seen as usize == self.committed[partition.index()].len()
    }
}
