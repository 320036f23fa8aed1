//! The front of an ordered list of a graph in memory: everything numbered up to its reach.
//!
//! Entries are added at the end and leave only with the whole flow, so a list needs no marks for what changed
//! while it was read: what is numbered beyond the reach is simply not in memory.

use crate::id::ExecutionId;

#[derive(Clone, Debug)]
pub struct Sequence {
    /// In the order of their numbers.
    entries: Vec<(u64, ExecutionId)>,
    /// Every entry up to this number is in memory.
    reach: u64,
}

impl Sequence {
    /// The list of something that has just been made: there is nothing else to know.
    pub fn whole() -> Sequence {
        Sequence { entries: Vec::new(), reach: u64::MAX }
    }

    /// A list of which nothing is in memory.
    pub fn unread() -> Sequence {
        Sequence { entries: Vec::new(), reach: 0 }
    }

    pub fn reach(&self) -> u64 {
        self.reach
    }

    pub fn is_whole(&self) -> bool {
        self.reach == u64::MAX
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries after a number, as far as they are in memory.
    pub fn after(&self, number: u64) -> impl Iterator<Item = (u64, ExecutionId)> + '_ {
        let from = self.entries.partition_point(|(at, _)| *at <= number);
        self.entries[from..].iter().copied()
    }

    /// Notes an entry, if the list reaches it.
    pub fn add(&mut self, number: u64, id: ExecutionId) {
        if number > self.reach {
            return;
        }
        if let Err(at) = self.entries.binary_search_by_key(&number, |(number, _)| *number) {
            self.entries.insert(at, (number, id));
        }
    }

    pub fn remove(&mut self, number: u64) {
        if let Ok(at) = self.entries.binary_search_by_key(&number, |(number, _)| *number) {
            self.entries.remove(at);
        }
    }

    /// Takes in what was read after the reach: `limit` entries if there are so many.
    pub fn extend(&mut self, after: u64, limit: usize, entries: &[(u64, ExecutionId)]) {
        if after != self.reach || self.is_whole() {
            return;
        }
        self.entries.extend_from_slice(entries);
        self.reach = match entries.last() {
            Some((last, _)) if entries.len() >= limit => *last,
            _ => u64::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Route;

    fn id(n: u64) -> ExecutionId {
        ExecutionId::from_parts(0, Route(0), n)
    }

    fn numbers(list: &Sequence, after: u64) -> Vec<u64> {
        list.after(after).map(|(number, _)| number).collect()
    }

    #[test]
    fn a_list_is_read_page_by_page_and_knows_when_it_is_whole() {
        let mut list = Sequence::unread();
        list.add(9, id(9));
        assert_eq!(list.len(), 0, "what lies beyond the reach is not in memory");
        list.extend(0, 2, &[(1, id(1)), (3, id(3))]);
        assert_eq!((list.reach(), list.is_whole()), (3, false));
        list.extend(0, 2, &[(1, id(1))]);
        assert_eq!(numbers(&list, 0), [1, 3], "an answer that comes twice is taken in once");
        list.extend(3, 2, &[(9, id(9))]);
        assert!(list.is_whole());
        list.add(10, id(10));
        list.add(10, id(10));
        list.remove(1);
        assert_eq!(numbers(&list, 3), [9, 10]);
        assert_eq!(numbers(&list, 0), [3, 9, 10]);
    }
}
