//! Where time comes from. Only stores read a clock; everybody else is told.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};

use ff_core::Ms;

pub trait Clock: Send + Sync + Debug {
    fn now(&self) -> Ms;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // The one place where wall-clock time enters.
    fn now(&self) -> Ms {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| Ms::try_from(since.as_millis()).unwrap_or(Ms::MAX))
    }
}

/// A clock that stands still until it is moved, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(now: Ms) -> ManualClock {
        ManualClock(AtomicI64::new(now))
    }

    pub fn advance(&self, ms: Ms) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn set(&self, now: Ms) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Ms {
        self.0.load(Ordering::SeqCst)
    }
}
