//! Posted rows: read when a status says that there are some, decided like every other command, read again
//! whenever it is not certain that they are still there.
//!
//! A row is in at most one place: in one read that is on its way, or held here until the commit that takes it
//! is known to have happened. There is no second read before that, so no row is decided twice on one view; and
//! a row that another server has taken is gone with the version that this one's decision needs.
//!
//! All servers see the same rows. One that comes later in the partition's order leaves them to those who come before
//! it for a moment, so that mostly one takes them and the others do not lose a race for each.

use std::sync::Arc;

use ff_core::commands::Receive;
use ff_core::inbox::Posted;
use ff_core::key::Ask;
use ff_core::{Ms, Reply};
use ff_store::{Status, Version};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::batch::{Origin, Pending};
use crate::config::Bug;
use crate::failure::Failure;

use super::{FAILURES_MAX, Runner};

/// How long rows are left to each server that comes before this one.
const LEFT_MS: Ms = 50;
/// And how long at most, whatever the others do.
const LEFT_MS_MAX: Ms = 1_000;

/// Rows that were seen and left to those who come before.
#[derive(Debug)]
struct Left {
    first_at: Ms,
    /// When it was seen last that others are at work here.
    since: Ms,
    version: Version,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// There may be rows that have not been read, and it is for this server to read them.
    waits: bool,
    left: Option<Left>,
    /// A read is on its way.
    reading: bool,
    /// Rows that were read and have not left the inbox yet.
    held: FxHashSet<u64>,
    /// How often a row could not be decided or stored, and why the last time.
    defects: FxHashMap<u64, (u32, Box<str>)>,
    /// Nothing more is taken in.
    closed: bool,
}

impl Runner {
    /// A status read has seen posted rows, or none. Whether they are the ones that were there before it does not tell;
    /// while others commit here, they are probably new.
    pub(super) fn notice_inbox(&mut self, at: Ms, status: &Status) {
        if !status.inbox {
            self.inbox.left = None;
            return;
        }
        let (late_ms, foreign) = (Ms::from(self.rank) * LEFT_MS, !self.is_ours(status.version));
        let new = || Left { first_at: at, since: at, version: status.version };
        let left = self.inbox.left.get_or_insert_with(new);
        if left.version != status.version && foreign {
            left.since = at;
        }
        left.version = status.version;
        let until = (left.since + late_ms).min(left.first_at + LEFT_MS_MAX);
        self.inbox.waits |= at >= until;
    }

    /// Whether there may be rows to take in.
    pub(super) fn has_posted_rows(&self) -> bool {
        self.inbox.waits && !self.inbox.closed
    }

    pub fn close_inbox(&mut self) {
        self.inbox.closed = true;
    }

    /// Asks for the next rows, if there may be some and none is under way.
    pub(super) fn read_inbox(&mut self, asks: &mut Vec<Ask>) {
        let inbox = &mut self.inbox;
        if inbox.closed || inbox.reading || !inbox.held.is_empty() || !std::mem::take(&mut inbox.waits) {
            return;
        }
        inbox.reading = true;
        inbox.left = None;
        asks.push(Ask::Inbox { limit: self.config.batch_max, bytes: self.config.batch_bytes_max });
    }

    pub(super) fn take_in(&mut self, rows: Vec<Posted>) {
        self.inbox.reading = false;
        // Where some were, more may have been beyond the limit or have come since.
        self.inbox.waits |= !rows.is_empty();
        for posted in rows {
            let number = posted.number;
            self.inbox.held.insert(number);
            let given_up = self.inbox.defects.get(&number).filter(|(count, _)| *count >= FAILURES_MAX);
            let defect = given_up.map(|(_, reason)| reason.clone());
            let command = Receive { posted: Arc::new(posted), seed: self.next_random(), defect }.into();
            self.enqueue_internal(Pending { origin: Origin::Inbox(number), command, give_up_at: Ms::MAX });
        }
    }

    /// A row was taken, or something was wrong with it. One that fails is found again by the next status read
    /// and given up after a few times.
    pub(super) fn received(&mut self, number: u64, result: Result<Reply, Failure>) {
        self.inbox.held.remove(&number);
        match result {
            Ok(_) => drop(self.inbox.defects.remove(&number)),
            Err(Failure::Internal(reason)) => {
                let (count, last) = self.inbox.defects.entry(number).or_default();
                (*count, *last) = (*count + 1, reason.into());
            }
            Err(_) => {}
        }
    }

    /// Forgets all rows: others may have taken them. They are read again.
    pub(super) fn drop_rows(&mut self, again: &mut Vec<Pending>) {
        if self.config.bug == Some(Bug::RowsSurviveConflict) {
            return;
        }
        let is_row = |pending: &Pending| matches!(pending.origin, Origin::Inbox(_));
        again.retain(|pending| !is_row(pending));
        if !self.inbox.held.is_empty() {
            self.queue.retain(|pending| !is_row(pending));
            self.queue_bytes = self.queue.iter().map(|pending| pending.command.weight()).sum();
        }
        self.inbox.waits |= self.inbox.reading || !self.inbox.held.is_empty();
        self.inbox.held.clear();
    }

    /// The answer to a read that is on its way will be ignored.
    pub(super) fn forget_inbox_read(&mut self) {
        self.inbox.waits |= std::mem::take(&mut self.inbox.reading);
    }
}
