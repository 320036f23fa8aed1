//! How much is on its way, for tests that wait until nothing is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Requests whose callers have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    quick: AtomicUsize,
    /// Those that the server was asked to wait with.
    waiting: AtomicUsize,
}

impl Traffic {
    /// Counts a request until its caller has acted on the answer.
    pub(super) fn enter(self: &Arc<Self>, wait: Duration) -> OnItsWay {
        let it = OnItsWay { traffic: self.clone(), waits: !wait.is_zero() };
        it.count().fetch_add(1, Ordering::SeqCst);
        it
    }

    /// Whether nothing is on its way but so many requests that a server keeps waiting.
    pub fn is_quiet(&self, kept: usize) -> bool {
        self.quick.load(Ordering::SeqCst) == 0 && self.waiting.load(Ordering::SeqCst) == kept
    }
}

#[derive(Debug)]
pub(super) struct OnItsWay {
    traffic: Arc<Traffic>,
    waits: bool,
}

impl OnItsWay {
    fn count(&self) -> &AtomicUsize {
        if self.waits { &self.traffic.waiting } else { &self.traffic.quick }
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::SeqCst);
    }
}
