//! A part of an ordered list of a graph in memory: everything numbered after its begin and up to its reach.
//!
//! Entries are added at the end and leave only with the whole flow, so a list needs no marks for what changed
//! while it was read: what is numbered elsewhere is simply not in memory. Whoever goes on in the middle of a long
//! list reads from there.

use std::collections::VecDeque;

use crate::id::ExecutionId;

#[derive(Clone, Debug)]
pub struct Sequence {
    /// In the order of their numbers. They are removed from the front.
    entries: VecDeque<(u64, ExecutionId)>,
    /// Every entry with a greater number than `begin`, up to `reach`, is in memory.
    begin: u64,
    reach: u64,
}

impl Sequence {
    /// The list of something that has just been made: there is nothing else to know.
    pub fn whole() -> Sequence {
        Sequence { entries: VecDeque::new(), begin: 0, reach: u64::MAX }
    }

    /// A list of which nothing is in memory and that is to be read from after a number on.
    pub fn unread(after: u64) -> Sequence {
        Sequence { entries: VecDeque::new(), begin: after, reach: after }
    }

    /// From where on it must be read to know what comes after a number; `None` if it reaches to its end.
    pub fn unread_after(&self, number: u64) -> Option<u64> {
        if number < self.begin {
            return Some(number);
        }
        Some(self.reach).filter(|reach| *reach < u64::MAX)
    }

    pub fn is_whole(&self) -> bool {
        self.begin == 0 && self.reach == u64::MAX
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries after a number, as far as they are in memory.
    pub fn after(&self, number: u64) -> impl Iterator<Item = (u64, ExecutionId)> + '_ {
        let from = self.entries.partition_point(|(at, _)| *at <= number);
        self.entries.range(from..).copied()
    }

    /// Notes an entry, if the list reaches it.
    pub fn add(&mut self, number: u64, id: ExecutionId) {
        if number <= self.begin || number > self.reach {
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

    /// Takes in what was read after a number: `limit` entries if there are so many. What was read after the reach
    /// goes on there; what was read before the begin takes the place of all that was known.
    pub fn extend(&mut self, after: u64, limit: usize, entries: &[(u64, ExecutionId)]) {
        if after < self.begin {
            *self = Sequence::unread(after);
        }
        if after != self.reach || self.reach == u64::MAX {
            return;
        }
        self.entries.extend(entries);
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
        let mut list = Sequence::unread(0);
        list.add(9, id(9));
        assert_eq!(list.len(), 0, "what lies beyond the reach is not in memory");
        list.extend(0, 2, &[(1, id(1)), (3, id(3))]);
        assert_eq!((list.unread_after(0), list.is_whole()), (Some(3), false));
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

    #[test]
    fn a_list_is_read_from_the_middle_on_and_anew_for_what_lies_before() {
        let mut list = Sequence::unread(5);
        list.add(3, id(3));
        list.extend(5, 2, &[(6, id(6)), (8, id(8))]);
        assert_eq!((numbers(&list, 5), list.unread_after(6)), (vec![6, 8], Some(8)));
        list.extend(8, 2, &[(9, id(9))]);
        list.add(10, id(10));
        assert_eq!((list.unread_after(5), list.unread_after(4)), (None, Some(4)));
        assert!(!list.is_whole(), "what lies before is not known");
        list.extend(0, 2, &[(3, id(3)), (6, id(6))]);
        assert_eq!((numbers(&list, 0), list.unread_after(0)), (vec![3, 6], Some(6)));
    }
}
