//! Where the SDK's own timers come from: the machine, or a clock that a test moves.
//!
//! A test clock knows every [`Alarm`] that waits for it. Whoever moves it stops at each alarm on the way and
//! goes on only when the alarm's owner waits again and has its answers, so that a jump of an hour does what an
//! hour would do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ff_core::Ms;
use ff_store::{Clock, ManualClock, SystemClock};
use tokio::sync::oneshot;

#[derive(Clone, Debug)]
pub(crate) enum Time {
    Machine { started: Instant },
    Test(Arc<TestClock>),
}

impl Time {
    pub fn new(clock: Option<Arc<TestClock>>) -> Time {
        match clock {
            Some(clock) => Time::Test(clock),
            None => Time::Machine { started: Instant::now() },
        }
    }

    /// Local time, which only has to go forward.
    pub fn now(&self) -> Ms {
        match self {
            Time::Machine { started } => ms(started.elapsed()),
            Time::Test(clock) => clock.now(),
        }
    }

    /// The time on the wall, for ids.
    pub fn wall(&self) -> Ms {
        match self {
            Time::Machine { .. } => SystemClock.now(),
            Time::Test(clock) => clock.now(),
        }
    }

    pub fn alarm(&self) -> Alarm {
        if let Time::Test(clock) = self {
            clock.timers().awake += 1;
        }
        Alarm { time: self.clone() }
    }

    /// An owner of an alarm has asked the engine for something and will act on the answer.
    pub fn asking(&self) -> Asking {
        if let Time::Test(clock) = self {
            clock.timers().asking += 1;
        }
        Asking { time: self.clone() }
    }
}

/// Stands for an answer that has not been acted on.
#[derive(Debug)]
pub(crate) struct Asking {
    time: Time,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Time::Test(clock) = &self.time {
            clock.timers().asking -= 1;
        }
    }
}

pub(crate) fn ms(duration: Duration) -> Ms {
    Ms::try_from(duration.as_millis()).unwrap_or(Ms::MAX / 4)
}

/// A timer with one owner, which does something each time it rings and then waits again.
#[derive(Debug)]
pub(crate) struct Alarm {
    time: Time,
}

impl Alarm {
    /// Waits until a local time. Safe to drop and call again.
    pub async fn until(&mut self, at: Ms) {
        match &self.time {
            Time::Machine { .. } => {
                let left = (at - self.time.now()).max(0);
                tokio::time::sleep(Duration::from_millis(left.unsigned_abs())).await;
            }
            Time::Test(clock) => clock.sleep(at).await,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Time::Test(clock) = &self.time {
            clock.timers().awake -= 1;
        }
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct TestClock {
    clock: ManualClock,
    timers: Mutex<Timers>,
}

#[derive(Debug, Default)]
struct Timers {
    next: u64,
    sleeping: BTreeMap<(Ms, u64), oneshot::Sender<()>>,
    /// Alarms whose owner is at work.
    awake: usize,
    /// Answers that owners wait for.
    asking: usize,
}

impl Clock for TestClock {
    fn now(&self) -> Ms {
        self.clock.now()
    }
}

impl TestClock {
    pub(crate) fn at(now: Ms) -> TestClock {
        TestClock { clock: ManualClock::at(now), timers: Mutex::default() }
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, at: Ms) {
        let (key, ring) = {
            let mut timers = self.timers();
            if at <= self.now() {
                return;
            }
            let key = (at, timers.next);
            timers.next += 1;
            let (sender, ring) = oneshot::channel();
            timers.sleeping.insert(key, sender);
            timers.awake -= 1;
            (key, ring)
        };
        let _asleep = Asleep { clock: self, key };
        let _ = ring.await;
    }

    /// Moves to a time, or to the first alarm before it, and rings what is due. Does nothing while an alarm's
    /// owner is at work, because nobody knows when it wants to be woken next.
    pub(crate) fn step(&self, to: Ms) {
        let mut timers = self.timers();
        if timers.awake > 0 {
            return;
        }
        let first = timers.sleeping.first_key_value().map(|((at, _), _)| *at);
        let now = first.map_or(to, |first| first.min(to)).max(self.now());
        self.clock.set(now);
        while let Some(entry) = timers.sleeping.first_entry()
            && entry.key().0 <= now
        {
            let ring = entry.remove();
            timers.awake += 1;
            let _ = ring.send(());
        }
    }

    /// Whether every alarm's owner waits again and has acted on its answers.
    pub(crate) fn is_quiet(&self) -> bool {
        let timers = self.timers();
        timers.awake == 0 && timers.asking == 0
    }
}

/// An owner that stops waiting for any other reason than the ring is awake again.
struct Asleep<'a> {
    clock: &'a TestClock,
    key: (Ms, u64),
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut timers = self.clock.timers();
        if timers.sleeping.remove(&self.key).is_some() {
            timers.awake += 1;
        }
    }
}
