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

        }
    }

    /// Sets what stands at a place, as far as the window reaches, without counting it.
    pub(crate) fn correct(&mut self, place: Place, execution: Option<ExecutionId>) {
        match execution {
            Some(execution) if place <= self.mark => drop(self.entries.insert(place, execution)),
            Some(_) => {}
            None => drop(self.entries.remove(&place)),
