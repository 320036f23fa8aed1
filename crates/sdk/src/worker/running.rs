//! One attempt that this worker runs: its lease, and whether it should stop.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use ff_core::execution::Fence;
use ff_core::{Execution, Ms};
use tokio::sync::Notify;

/// Nothing is wrong.
const FINE: u8 = 0;
/// A cancel was asked for; the handler may end by itself.
const CANCELLED: u8 = 1;
/// The lease has ended by our clock; nobody has told.
const RUN_OUT: u8 = 2;
/// The lease is gone: whatever the handler does now counts for nothing.
const LOST: u8 = 3;
/// The handler has given the lease back and is called again later.
const PARKED: u8 = 4;

#[derive(Debug)]
pub(crate) struct Running {
    fence: Fence,
    lease_ms: Ms,
    /// Local time at which the lease was granted or renewed, at the latest.
    granted_at: AtomicI64,
    /// Not before this local time is it renewed, after a renewal that failed.
    retry_at: AtomicI64,
    mood: AtomicU8,
    changed: Notify,
}

impl Running {
    pub fn new(execution: &Execution, granted_at: Ms) -> Running {
        Running {
            fence: execution.fence(),
            lease_ms: execution.spec.policy.lease_ms,
            granted_at: AtomicI64::new(granted_at),
            retry_at: AtomicI64::new(0),
            mood: AtomicU8::new(FINE),
            changed: Notify::new(),
        }
    }

    pub fn fence(&self) -> Fence {
        self.fence
    }

    // ---- the lease -----------------------------------------------------------------------------------

    pub fn lease_ms(&self) -> Ms {
        self.lease_ms
    }

    pub fn renewed(&self, sent_at: Ms) {
        self.granted_at.fetch_max(sent_at, Ordering::Relaxed);
    }

    /// A renewal was not answered; it is tried again soon, well before the lease ends.
    pub fn not_renewed(&self, now: Ms) {
        self.retry_at.store(now + (self.lease_ms / 10).clamp(10, 1_000), Ordering::Relaxed);
    }

    /// When it should be renewed: two more tries fit in before the lease ends.
    pub fn renew_at(&self) -> Ms {
        let due = self.granted_at.load(Ordering::Relaxed) + self.lease_ms / 3;
        due.max(self.retry_at.load(Ordering::Relaxed))
    }

    /// When the lease has ended for sure if it is not renewed.
    pub fn ends_at(&self) -> Ms {
        self.granted_at.load(Ordering::Relaxed) + self.lease_ms
    }

    // ---- stopping ------------------------------------------------------------------------------------

    pub fn request_cancel(&self) {
        self.become_at_least(CANCELLED);
    }

    pub fn lose(&self) {
        self.become_at_least(LOST);
    }

    /// The lease was given back, and the attempt goes on later.
    pub fn park(&self) {
        self.become_at_least(PARKED);
    }

    pub fn is_parked(&self) -> bool {
        self.mood.load(Ordering::SeqCst) == PARKED
    }

    /// The lease could not be renewed in time.
    pub fn run_out(&self) {
        self.become_at_least(RUN_OUT);
    }

    fn become_at_least(&self, mood: u8) {
        if self.mood.fetch_max(mood, Ordering::SeqCst) < mood {
            self.changed.notify_waiters();
        }
    }

    pub fn is_cancelled(&self) -> bool {
        let mood = self.mood.load(Ordering::SeqCst);
        (CANCELLED..PARKED).contains(&mood)
    }

    /// Whether the handler must not go on.
    pub fn is_over(&self) -> bool {
        self.mood.load(Ordering::SeqCst) >= RUN_OUT
    }

    /// Whether the lease may still be there although the handler must not go on.
    pub fn may_be_held(&self) -> bool {
        self.mood.load(Ordering::SeqCst) == RUN_OUT
    }

    pub async fn cancelled(&self) {
        self.reaches(CANCELLED).await;
    }

    pub async fn over(&self) {
        self.reaches(RUN_OUT).await;
    }

    async fn reaches(&self, mood: u8) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening starts before looking, so that nothing falls between.
            changed.as_mut().enable();
            if self.mood.load(Ordering::SeqCst) >= mood {
                return;
            }
            changed.await;
        }
    }
}
