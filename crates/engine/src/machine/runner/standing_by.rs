//! A partition that others are busy with is not read again before something here needs it.

use ff_core::Ms;
use ff_store::Status;

use super::super::polls::Polls;
use super::{LATER_MS, Phase, Runner};

impl Runner {
    pub fn set_rank(&mut self, rank: u32) {
        self.rank = rank;
    }

    /// Whether this server comes first here.
    pub fn is_preferred(&self) -> bool {
        self.rank == 0
    }

    /// How much later than due this server acts, so that those who come before it can.
    pub(super) fn late_ms(&self) -> Ms {
        Ms::from(self.rank) * LATER_MS
    }

    pub fn is_behind(&self) -> bool {
        !matches!(self.phase, Phase::Serving)
    }

    /// Whether something here cannot wait for the partition to be read.
    pub(super) fn is_wanted(&self) -> bool {
        let asked = !self.queue.is_empty() || !self.parked.is_empty();
        self.wanted || self.watched || asked || self.has_posted_rows()
    }

    /// Whether to read the partition now: somebody asks, something is overdue, or a poll would find work.
    pub(super) fn is_needed(&self, at: Ms, offset_ms: Ms, polls: &Polls) -> bool {
        let Some(seen) = &self.seen else { return self.is_wanted() };
        let now = self.now(at, offset_ms);
        let overdue = seen.next_due.is_some_and(|due| due + self.late_ms() <= now);
        self.is_wanted() || overdue || polls.iter().any(|poll| finds_work(poll, seen))
    }
}

fn finds_work(poll: &ff_core::commands::Poll, seen: &Status) -> bool {
    seen.ready.iter().any(|(lane, class, _)| poll.lanes.contains(lane) && poll.accepts(class))
}
