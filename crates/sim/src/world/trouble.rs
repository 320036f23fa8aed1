//! The bigger faults: crashes, outages, clocks that jump, workers that stop.

use super::queue::Happening;
use super::{World, trace};
use crate::check::Check;
use crate::fault::Fault;

impl World {
    /// About once a second, something may happen.
    pub(super) fn trouble(&mut self) -> Check {
        if self.healed.is_some() {
            return Ok(());
        }
        for server in 0..self.servers.len() {
            if self.rng.chance(self.profile.crash) {
                self.server_dies(server);
            }
        }
        if self.fault(self.profile.outage, Fault::Outage) {
            // Some last longer than a lease, and longer than the pause that counts as an outage.
            let length = *self.rng.pick(&[100, 1_000, 8_000]);
            self.outage_until = self.now + self.rng.range(1, length);
            trace!(self, "the store is out of reach for {} ms", self.outage_until - self.now);
        }
        if self.fault(self.profile.clock_jump, Fault::ClockJump) {
            self.store.ahead_ms += self.rng.range(-4_000, 4_000);
            trace!(self, "the store's clock is {} ms ahead now", self.store.ahead_ms);
        }
        for worker in 0..self.workers.len() {
            if self.fault(self.profile.worker_pause, Fault::WorkerPause) {
                let pause = self.rng.range(100, 10_000);
                trace!(self, "worker {worker} is paused for {pause} ms");
                self.workers[worker].paused_until = self.now + pause;
            }
            if self.fault(self.profile.worker_kill, Fault::WorkerKill) {
                self.restart_worker(worker);
            }
        }
        self.later(500, 1_500, Happening::Trouble);
        Ok(())
    }
}
