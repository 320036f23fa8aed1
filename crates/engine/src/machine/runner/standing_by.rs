//! A partition that others are busy with is not read again before something here needs it.

use ff_core::commands::{Poll, may_claim};
use ff_core::{InstanceId, Ms};
use ff_store::Status;

use super::super::polls::Polls;
use super::{LATER_MS, Phase, Runner};

/// A poll waits so long for each server that comes before, up to so many.
const PATIENCE_MS: Ms = 25;
/// And so long while servers are in each other's way: whoever comes before is busy, not absent.
const PATIENCE_WITH_BUSY_MS: Ms = 1_000;
/// Of so many that wait there is enough for all: whoever comes before does not get to them soon.
const PLENTY: u64 = 256;
const PATIENCE_WITH_PLENTY_MS: Ms = 200;
const RANKS_MAX: u32 = 4;

impl Runner {
    pub fn set_rank(&mut self, rank: u32, is_alone: bool) {
        (self.rank, self.is_alone) = (rank, is_alone);
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

    pub fn knows_active(&self, instance: InstanceId) -> bool {
        let known = self.ws.worker(instance).map(|it| &**it);
        !self.is_behind() && may_claim(instance, known).is_ok()
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
    /// who come before, because two servers that claim in one partition get in each other's way. What was left for
    /// so long, by whomever, is not taken by those who come before: then nobody waits.
    pub(super) fn served_since(&self, at: Ms) -> Ms {
        let patience = self.patience(at);
        let given_up = self.left_since.is_some_and(|since| since + patience <= at);
        if given_up { at } else { at - patience }
    }

    fn patience(&self, at: Ms) -> Ms {
        let for_each = match (self.undisturbed, at < self.disputed_until) {
            (true, _) => 0,
            (false, false) => PATIENCE_MS,
            (false, true) if self.has_plenty() => PATIENCE_WITH_PLENTY_MS,
            (false, true) => PATIENCE_WITH_BUSY_MS,
        };
        Ms::from(self.rank.min(RANKS_MAX)) * for_each
    }

    /// Whether there is work here, as far as it is known.
    fn has_work(&self) -> Option<bool> {
        match (&self.phase, &self.seen) {
            (Phase::Serving, _) => Some(self.has_ready()),
            (_, Some(seen)) => Some(!seen.ready.is_empty()),
            _ => None,
        }
    }

    fn has_plenty(&self) -> bool {
        let count: u64 = match (&self.phase, &self.seen) {
            (Phase::Serving, _) => self.ready_count(),
            (_, Some(seen)) => seen.ready.iter().map(|(_, _, count)| count).sum(),
            _ => 0,
        };
        count >= PLENTY
    }

    /// Notes since when work is left here that polls could take: their own waiting may be over too soon to count.
    pub(super) fn notice_left(&mut self, at: Ms, polls: &Polls) {
        if self.patience(at) == 0 || self.has_work() == Some(false) {
            self.left_since = None;
        } else if self.left_since.is_none() && polls.since(at).any(|poll| self.has_work_for(poll)) {
            self.left_since = Some(at);
        }
    }

    fn has_work_for(&self, poll: &Poll) -> bool {
        match (&self.phase, &self.seen) {
            (Phase::Serving, _) => poll.finds_work(&self.ws),
            (_, Some(seen)) => finds_work(poll, seen),
            _ => false,
        }
    }

    /// When a poll that waits now will have waited long enough for the work that there is here.
    pub fn patience_ends(&self, at: Ms, polls: &Polls) -> Option<Ms> {
        let patience = self.patience(at);
        if patience == 0 || polls.is_empty() || self.has_work() != Some(true) {
            return None;
        }
        let left = self.left_since.map(|since| since + patience).filter(|end| *end > at);
        left.into_iter().chain(polls.next_patience(at, patience)).min()
    }
}

fn finds_work(poll: &Poll, seen: &Status) -> bool {
    seen.ready.iter().any(|(lane, class, _)| poll.lanes.contains(lane) && poll.accepts(class))
}
