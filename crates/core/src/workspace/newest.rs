//! Ids above all that are stored. Ids sort by time, so that of a new execution is nearly always above those of all
//! others, and nothing needs to be read to know that it is free.

use std::collections::BTreeSet;

use crate::id::ExecutionId;

/// A gapless suffix of the ids of a partition: above the mark there are no executions but those seen. Some of those seen
/// may be gone again, or were never stored; they are looked for like those below the mark.
#[derive(Debug, Default)]
pub(super) struct NewestIds {
    /// `None`: nothing is known of any id.
    mark: Option<ExecutionId>,
    seen: BTreeSet<ExecutionId>,
}

impl NewestIds {
    /// Begins with what a store has said: no execution is above this one.
    pub fn open(&mut self, newest: Option<ExecutionId>) {
        self.seen.clear();
        self.mark = Some(newest.unwrap_or(ExecutionId(uuid::Uuid::nil())));
    }

    pub fn close(&mut self) {
        *self = NewestIds::default();
    }

    /// An execution was written, by whomever.
    pub fn note(&mut self, id: ExecutionId) {
        if self.mark.is_some_and(|mark| id > mark) {
            self.seen.insert(id);
        }
    }

    /// Whether there is certainly no execution with this id.
    pub fn is_free(&self, id: ExecutionId) -> bool {
        self.mark.is_some_and(|mark| id > mark) && !self.seen.contains(&id)
    }

    /// Raises the mark until about half as many as may be are left above it.
    pub fn shrink(&mut self, max: usize) {
        if self.seen.len() <= max {
            return;
        }
        if let Some(cut) = self.seen.iter().rev().nth(max / 2).copied() {
            self.seen = self.seen.split_off(&cut);
            self.seen.remove(&cut);
            self.mark = Some(cut);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Route;

    fn id(at: i64) -> ExecutionId {
        ExecutionId::from_parts(at, Route(0), 0)
    }

    #[test]
    fn what_was_written_or_lies_below_the_mark_is_never_free() {
        let mut ids = NewestIds::default();
        assert!(!ids.is_free(id(9)), "nothing is known yet");
        ids.open(Some(id(5)));
        assert!(!ids.is_free(id(4)) && !ids.is_free(id(5)) && ids.is_free(id(6)));
        ids.note(id(7));
        assert!(ids.is_free(id(6)) && !ids.is_free(id(7)) && ids.is_free(id(8)));
        for at in 8..20 {
            ids.note(id(at));
        }
        ids.shrink(100);
        assert!(ids.is_free(id(6)));
        ids.shrink(6);
        assert_eq!((ids.seen.len(), ids.mark), (3, Some(id(16))));
        assert!((0..20).all(|at| !ids.is_free(id(at))));
        assert!(ids.is_free(id(20)));
        ids.shrink(0);
        assert_eq!((ids.seen.len(), ids.mark), (0, Some(id(19))));
        ids.close();
        assert!(!ids.is_free(id(30)));
        ids.open(None);
        assert!(ids.is_free(id(1)), "an empty store has no ids");
    }
}
