//! A partition that others are busy with is not read again before something here needs it.

use ff_core::Ms;
use ff_store::Status;

use super::super::polls::Polls;
use super::{LATER_MS, Phase, Runner};

/// A poll waits so long for each server that comes before, up to so many.
const PATIENCE_MS: Ms = 25;
const RANKS_MAX: u32 = 4;

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
        let waiting = || polls.since(self.served_since(at)).any(|poll| finds_work(poll, seen));
        self.is_wanted() || overdue || waiting()
    }

    /// Since when a poll must wait to be given work of this partition now. Whoever waits for more than a moment
    /// finds nothing in the partitions where this server comes first; until then the work here is left to those
    /// who come before, because two servers that claim in one partition get in each other's way.
    pub(super) fn served_since(&self, at: Ms) -> Ms {
        at - self.patience()
    }

    fn patience(&self) -> Ms {
        match self.undisturbed {
            true => 0,
            false => Ms::from(self.rank.min(RANKS_MAX)) * PATIENCE_MS,
        }
    }

    /// How long polls have to wait for the work that there is here.
    pub fn patience_ms(&self) -> Option<Ms> {
        let patience = Some(self.patience()).filter(|patience| *patience > 0)?;
        let has_work = match (&self.phase, &self.seen) {
            (Phase::Serving, _) => self.has_ready(),
            (_, Some(seen)) => !seen.ready.is_empty(),
            _ => false,
        };
        has_work.then_some(patience)
    }
}

fn finds_work(poll: &ff_core::commands::Poll, seen: &Status) -> bool {
    seen.ready.iter().any(|(lane, class, _)| poll.lanes.contains(lane) && poll.accepts(class))
}
