//! A subscriber: reads each partition's events by number, whenever it likes, and must see each exactly once
//! and in order.

use ff_core::event::Event;
use ff_core::{Ms, PartitionId};
use ff_store::memory::MemoryState;

use super::Check;

#[derive(Debug)]
pub struct Subscriber {
    next: Vec<u64>,
    /// What was committed in each partition, by number from 1.
    committed: Vec<Vec<(&'static str, Ms)>>,
}

impl Subscriber {
    pub fn new(partitions: u16) -> Subscriber {
        let partitions = usize::from(partitions);
        Subscriber { next: vec![1; partitions], committed: vec![Vec::new(); partitions] }
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
            let committed = self.committed[partition.index()].get(*next as usize - 1);
            let seen = (event.fact.word(), event.at);
            ensure!(committed == Some(&seen), "event {next} of {partition} is {seen:?}, was {committed:?}");
            *next += 1;
        }
        ensure!(*next <= page.next, "a subscriber of {partition} is ahead of the log");
        Ok(())
    }

    pub fn is_through(&self, partition: PartitionId) -> bool {
        self.next[partition.index()] as usize == self.committed[partition.index()].len() + 1
    }
}
