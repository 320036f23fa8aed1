//! Callers that wait for each answer are answered together and come back together. What they ask next belongs in one
//! commit, not in one for the first of them and another for the rest, so they are waited for, for a moment.

use std::time::{Duration, Instant};

use super::{Driver, INTAKE_MAX};

/// Which part of the time that a commit took its callers have to come back.
const PART: u32 = 8;
/// They never have longer.
const LONGEST: Duration = Duration::from_micros(200);

/// Who was answered since the last commit ended.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// How long the commit took that has just ended.
    pub(super) took: Option<Duration>,
    /// Callers that have got an answer and may ask for the next thing at once.
    pub(super) answered: usize,
}

impl Driver {
    /// Answers those whose commit has ended and takes in what they ask next. Whoever is alone is not waited for.
    pub(super) fn gather(&mut self) {
        let Some(took) = self.gathering.took.take() else { return };
        // Servers that share a database would cost each other more by waiting than it saves.
        if self.config.local_clock.is_some() || self.errands.are_given {
            return;
        }
        self.gathering.answered = 0;
        self.carry_out();
        let expected = self.gathering.answered.min(INTAKE_MAX);
        if expected < 2 {
            return;
        }
        let patience = (took / PART).min(LONGEST);
        let since = Instant::now();
        let mut came = 0;
        while came < expected && since.elapsed() < patience {
            match self.requests.try_recv() {
                Ok(request) => {
                    came += 1;
                    self.request(request);
                }
                // The time is too short for a timer; others may have the core meanwhile.
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}
