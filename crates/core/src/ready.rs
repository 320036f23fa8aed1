//! The ready queue: what may start now, in which order, and the window of it that is in memory.
//!
//! Entries of one lane and class are ordered by rank = eligible time − priority × the lane's step, so
//! priority is a head start and nothing starves, and by number among equals. The window is a gapless prefix
//! of that order: everything up to its mark is in memory, nothing above it is.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::class::Class;
use crate::id::ExecutionId;
use crate::name::LaneName;

/// Order inside a lane and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub rank: i64,
    pub number: u64,
}

impl Place {
    pub const LAST: Place = Place { rank: i64::MAX, number: u64::MAX };
}

/// An entry of the ready queue as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadyEntry {
    pub lane: LaneName,
    pub class: Class,
    pub rank: i64,
    pub number: u64,
    pub execution: ExecutionId,
}

impl ReadyEntry {
    pub fn place(&self) -> Place {
        Place { rank: self.rank, number: self.number }
    }
}

/// The front of one lane and class.
#[derive(Debug)]
pub struct Window {
    entries: BTreeMap<Place, ExecutionId>,
    /// Everything at or before it that exists is in `entries`.
    mark: Place,
    /// How many entries exist in all, in memory or not.
    total: u64,
    /// Changes beyond the mark since a refill was asked for; applied to what the refill brings.
    pending: Option<Vec<(Place, Option<ExecutionId>)>>,
}

impl Window {
    /// A window of which nothing is in memory yet, over `total` entries.
    pub fn unread(total: u64) -> Window {
        let mark = if total == 0 { Place::LAST } else { Place { rank: i64::MIN, number: 0 } };
        Window { entries: BTreeMap::new(), mark, total, pending: None }
    }

    pub fn front(&self) -> Option<(Place, ExecutionId)> {
        self.entries.first_key_value().map(|(place, id)| (*place, *id))
    }

    pub fn iter_from(&self, after: Option<Place>) -> impl Iterator<Item = (Place, ExecutionId)> + '_ {
        use std::ops::Bound::{Excluded, Unbounded};
        let lower = after.map_or(Unbounded, Excluded);
        self.entries.range((lower, Unbounded)).map(|(place, id)| (*place, *id))
    }

    /// Whether everything that exists is in memory.
    pub fn is_whole(&self) -> bool {
        self.mark == Place::LAST
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn mark(&self) -> Place {
        self.mark
    }

    fn add(&mut self, place: Place, execution: ExecutionId) {
        self.total += 1;
        if place <= self.mark {
            self.entries.insert(place, execution);
        } else if let Some(pending) = &mut self.pending {
            pending.push((place, Some(execution)));
        }
    }

    fn remove(&mut self, place: Place) {
        self.total = self.total.saturating_sub(1);
        if place <= self.mark {
            self.entries.remove(&place);
        } else if let Some(pending) = &mut self.pending {
            pending.push((place, None));
        }
        if self.total == 0 && self.pending.is_none() {
            self.mark = Place::LAST;
        }
    }

    /// Starts a refill, unless one is under way or none is needed. Returns the place to read after.
    pub fn start_refill(&mut self) -> Option<Place> {
        if self.is_whole() || self.pending.is_some() {
            return None;
        }
        self.pending = Some(Vec::new());
        Some(self.mark)
    }

    /// Takes in what a refill brought: the entries after the mark, in order, at most `limit`.
    pub fn finish_refill(&mut self, loaded: &[(Place, ExecutionId)], limit: usize) {
        let Some(pending) = self.pending.take() else { return };
        let full = loaded.len() >= limit;
        self.mark = if full { loaded.last().map_or(Place::LAST, |(place, _)| *place) } else { Place::LAST };
        self.entries.extend(loaded.iter().copied());
        for (place, change) in pending {
            match change {
                Some(execution) if place <= self.mark => drop(self.entries.insert(place, execution)),
                Some(_) => {}
                None => drop(self.entries.remove(&place)),
            }
        }
        if self.total == 0 {
            self.mark = Place::LAST;
        }
    }

    /// The refill failed; another may be started.
    pub fn cancel_refill(&mut self) {
        self.pending = None;
        if self.total == 0 {
            self.mark = Place::LAST;
        }
    }

    /// Sets what stands at a place, as far as the window reaches, without counting it.
    pub(crate) fn correct(&mut self, place: Place, execution: Option<ExecutionId>) {
        match execution {
            Some(execution) if place <= self.mark => drop(self.entries.insert(place, execution)),
            Some(_) => {}
            None => drop(self.entries.remove(&place)),
        }
    }

    /// Drops entries by their execution, without counting them.
    pub(crate) fn forget(&mut self, which: impl Fn(&ExecutionId) -> bool) {
        self.entries.retain(|_, id| !which(id));
    }

    /// Gives back memory: keeps the first `keep` entries and lowers the mark to the last of them.
    pub fn shrink(&mut self, keep: usize) {
        if self.entries.len() <= keep.max(1) || self.pending.is_some() {
            return;
        }
        if let Some(place) = self.entries.keys().nth(keep.max(1)).copied() {
            self.entries.split_off(&place);
            self.mark = self.entries.last_key_value().map_or(Place::LAST, |(place, _)| *place);
        }
    }
}

/// All windows of a partition, by lane and class.
#[derive(Debug, Default)]
pub struct ReadyQueues {
    lanes: FxHashMap<LaneName, FxHashMap<Class, Window>>,
}

impl ReadyQueues {
    /// Forgets everything and starts from the counts of a fresh load.
    pub fn reset(&mut self, counts: impl IntoIterator<Item = (LaneName, Class, u64)>) {
        self.lanes.clear();
        for (lane, class, total) in counts {
            self.lanes.entry(lane).or_default().insert(class, Window::unread(total));
        }
    }

    /// Sets how many entries exist; the counts are of all windows that have any.
    pub(crate) fn set_totals(&mut self, counts: impl IntoIterator<Item = (LaneName, Class, u64)>) {
        self.windows_mut().for_each(|(_, _, window)| window.total = 0);
        for (lane, class, total) in counts {
            let classes = self.lanes.entry(lane).or_default();
            classes.entry(class).or_insert_with(|| Window::unread(total)).total = total;
        }
        for (_, _, window) in self.windows_mut().filter(|(_, _, window)| window.total == 0) {
            window.mark = Place::LAST;
        }
    }

    pub fn add(&mut self, entry: &ReadyEntry) {
        let lane = match self.lanes.get_mut(&entry.lane) {
            Some(lane) => lane,
            None => self.lanes.entry(entry.lane.clone()).or_default(),
        };
        let window = match lane.get_mut(&entry.class) {
            Some(window) => window,
            None => lane.entry(entry.class.clone()).or_insert_with(|| Window::unread(0)),
        };
        window.add(entry.place(), entry.execution);
    }

    pub fn remove(&mut self, entry: &ReadyEntry) {
        if let Some(window) = self.lanes.get_mut(&entry.lane).and_then(|lane| lane.get_mut(&entry.class)) {
            window.remove(entry.place());
        }
    }

    pub fn lane(&self, lane: &LaneName) -> impl Iterator<Item = (&Class, &Window)> {
        self.lanes.get(lane).into_iter().flatten()
    }

    pub fn lanes(&self) -> impl Iterator<Item = (&LaneName, &FxHashMap<Class, Window>)> {
        self.lanes.iter()
    }

    pub fn window(&self, lane: &LaneName, class: &Class) -> Option<&Window> {
        self.lanes.get(lane)?.get(class)
    }

    pub fn window_mut(&mut self, lane: &LaneName, class: &Class) -> Option<&mut Window> {
        self.lanes.get_mut(lane)?.get_mut(class)
    }

    pub fn windows_mut(&mut self) -> impl Iterator<Item = (&LaneName, &Class, &mut Window)> {
        self.lanes.iter_mut().flat_map(|(lane, classes)| classes.iter_mut().map(move |(c, w)| (lane, c, w)))
    }

    /// Drops windows of classes that have no entries, so that a stream of one-off kinds does not pile up.
    pub fn forget_empty(&mut self) {
        for classes in self.lanes.values_mut() {
            classes.retain(|_, window| window.total > 0 || window.pending.is_some());
        }
        self.lanes.retain(|_, classes| !classes.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Route;

    fn id(n: u64) -> ExecutionId {
        ExecutionId::from_parts(0, Route(0), n)
    }

    fn place(rank: i64) -> Place {
        Place { rank, number: 0 }
    }

    fn ranks(window: &Window) -> Vec<i64> {
        window.iter_from(None).map(|(place, _)| place.rank).collect()
    }

    #[test]
    fn entries_beyond_the_mark_stay_out_until_a_refill_reaches_them() {
        let mut window = Window::unread(4);
        assert_eq!(window.start_refill(), Some(place(i64::MIN)));
        assert_eq!(window.start_refill(), None);
        window.finish_refill(&[(place(1), id(1)), (place(3), id(3))], 2);
        window.add(place(2), id(2));
        window.add(place(9), id(9));
        assert_eq!(ranks(&window), [1, 2, 3]);
        window.start_refill();
        window.finish_refill(&[(place(5), id(5)), (place(7), id(7)), (place(9), id(9))], 10);
        assert_eq!(ranks(&window), [1, 2, 3, 5, 7, 9]);
        assert!(window.is_whole());
    }

    #[test]
    fn changes_made_during_a_refill_are_applied_to_what_it_brings() {
        let mut window = Window::unread(3);
        window.start_refill();
        window.add(place(4), id(4));
        window.remove(place(2));
        window.add(place(8), id(8));
        window.finish_refill(&[(place(1), id(1)), (place(2), id(2)), (place(5), id(5))], 3);
        assert_eq!(ranks(&window), [1, 4, 5]);
        assert!(!window.is_whole());
    }

    #[test]
    fn an_empty_window_that_has_seen_everything_takes_new_entries_at_once() {
        let mut window = Window::unread(0);
        window.add(place(7), id(7));
        assert_eq!(ranks(&window), [7]);
    }

    #[test]
    fn shrinking_lowers_the_mark() {
        let mut window = Window::unread(0);
        for rank in 0..10 {
            window.add(place(rank), id(rank as u64));
        }
        window.shrink(4);
        assert_eq!(ranks(&window), [0, 1, 2, 3]);
        window.add(place(20), id(20));
        assert_eq!(window.len(), 4);
        assert_eq!(window.total(), 11);
    }

    #[test]
    fn the_entry_at_the_mark_belongs_to_the_window() {
        let mut window = Window::unread(2);
        window.start_refill();
        window.finish_refill(&[(place(1), id(1))], 1);
        window.remove(place(1));
        window.add(place(1), id(1));
        assert_eq!(ranks(&window), [1]);
    }
}
