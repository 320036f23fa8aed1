//! What a seed draws before it starts: how often things fail, what is asked, how the machines are set up.

use std::sync::Arc;

use ff_core::Ms;
use ff_core::limits::Limits;
use ff_engine::config::MachineConfig;

use crate::bug::Bug;
use crate::rng::{Rate, Rng};

pub const PARTITIONS: u16 = 3;
/// Enough for some ten seconds of a contest.
const CONTEST_STEPS: u64 = 50_000;

#[derive(Clone, Debug)]
pub struct Profile {
    pub servers: usize,
    pub clients: usize,
    pub workers: usize,
    /// Events until the faults stop.
    pub chaos_steps: u64,
    pub machine: MachineConfig,
    pub limits: Arc<Limits>,
    pub status_ms: Ms,
    /// How long a server collects inputs before it decides, at most.
    pub gather_ms: Ms,
    /// The pause of a client between two commands, at most.
    pub think_ms: Ms,
    /// The pause between two transactions of the application that posts rows, at most.
    pub post_ms: Ms,
    /// How much of what clients ask is a new execution.
    pub creates: Rate,
    /// How much of the rest is about lanes and workers.
    pub globals: Rate,
    pub lost: Rate,
    pub late: Rate,
    pub doubled: Rate,
    pub store_late: Rate,
    pub conflict: Rate,
    pub answer_lost: Rate,
    pub commit_lost: Rate,
    pub commit_late: Rate,
    pub unavailable: Rate,
    pub refused: Rate,
    /// How many submissions the store refuses for ever.
    pub poison: Rate,
    pub load_failed: Rate,
    /// How often, in each second, something bigger happens.
    pub crash: Rate,
    pub outage: Rate,
    pub clock_jump: Rate,
    pub worker_pause: Rate,
    pub worker_kill: Rate,
    pub stale_fence: Rate,
    /// How far a server's clock may be off, and how much it gains or loses in a million.
    pub skew_ms: Ms,
    pub drift_ppm: i64,
    /// How much longer the first server's way to the store is than the others'.
    pub far: Ms,
    /// The pause between two things that are done about flows, at most; absent where there are no flows.
    pub flow_ms: Option<Ms>,
    /// How much of what workers and clients do is about suspensions, signals, steps, children and output.
    pub mail: Rate,
    /// Everybody commits to one partition, as fast as they can, and nothing fails.
    pub contest: bool,
    /// Servers know of each other, leave each other's partitions alone for a while, and send fewer, larger batches.
    pub acquainted: bool,
    /// After how many events the store is copied into another one, and with how many partitions on the way.
    pub moves: Option<(u64, u16)>,
}

impl Profile {
    pub fn draw(rng: &mut Rng, steps: Option<u64>, bug: Option<Bug>) -> Profile {
        // Some seeds are calm, so that what only shows without faults shows too.
        let fierce = *rng.pick(&[0, 1, 2, 4, 6]);
        // Some shake the store and nothing else: races around commits and loads need several of its faults at
        // once, and lost messages only keep commands away.
        let store_only = rng.chance(3_000);
        let mut rate = |max: i64| match store_only {
            true => 0,
            false => (rng.range(0, max) * rng.range(0, 1) * fierce / 2) as Rate,
        };
        let (lost, late, doubled) = (rate(1_000), rate(1_500), rate(1_000));
        let (worker_pause, worker_kill, stale_fence) = (rate(3_000), rate(2_000), rate(3_000));
        let mut rate = |max: i64| match store_only {
            true => rng.range(max / 4, max * 2) as Rate,
            false => (rng.range(0, max) * rng.range(0, 1) * fierce / 2) as Rate,
        };
        let (store_late, conflict) = (rate(1_000), rate(400));
        let (answer_lost, commit_lost, commit_late) = (rate(500), rate(500), rate(500));
        let (unavailable, refused, poison) = (rate(400), rate(200), rate(300));
        let load_failed = rate(500);
        let (crash, outage, clock_jump) = (rate(3_500), rate(3_000), rate(3_000));
        let machine = MachineConfig {
            batch_max: *rng.pick(&[2, 8, 64, 2_048]),
            pipeline: *rng.pick(&[1, 2]),
            // Small, so that eviction and refills happen all the time.
            cache_max: *rng.pick(&[8, 64]),
            window: *rng.pick(&[2, 8]),
            queue_max: *rng.pick(&[40, 10_000]),
            backoff_ms: (rng.range(5, 50), rng.range(200, 1_000)),
            bug: bug.and_then(Bug::in_machine),
            ..MachineConfig::default()
        };
        let limits = Limits {
            retention_ms: rng.range(3_000, 30_000),
            event_retention_ms: rng.range(20_000, 90_000),
            idempotency_window_ms: rng.range(3_000, 40_000),
            ..Limits::default()
        };
        Profile {
            servers: *rng.pick(&[2, 2, 2, 3]),
            clients: rng.range(1, 4) as usize,
            workers: rng.range(1, 5) as usize,
            chaos_steps: steps.unwrap_or_else(|| rng.range(2_000, 9_000) as u64),
            machine,
            limits: Arc::new(limits),
            status_ms: *rng.pick(&[50, 200, 500]),
            gather_ms: *rng.pick(&[0, 1, 5]),
            think_ms: *rng.pick(&[5, 50, 300]),
            post_ms: *rng.pick(&[50, 500, 5_000]),
            creates: rng.range(2_500, 7_000) as Rate,
            globals: rng.range(0, 2_000) as Rate,
            lost,
            late,
            doubled,
            store_late,
            conflict,
            answer_lost,
            commit_lost,
            commit_late,
            unavailable,
            refused,
            poison,
            load_failed,
            crash,
            outage,
            clock_jump,
            worker_pause,
            worker_kill,
            stale_fence,
            skew_ms: *rng.pick(&[0, 1_000, 60_000]),
            drift_ppm: *rng.pick(&[0, 200, 20_000]),
            far: 1,
            flow_ms: None,
            mail: 0,
            contest: false,
            // From a copy, so that everything else about a seed stays as it is.
            acquainted: rng.clone().chance(5_000),
            moves: None,
        }
    }

    /// Gives half of the seeds flows. Drawn apart, so that everything else about a seed stays as it is.
    pub fn draw_flows(&mut self, rng: &mut Rng) {
        if self.contest || rng.chance(5_000) {
            return;
        }
        self.flow_ms = Some(*rng.pick(&[20, 100, 400]));
        let limits = Arc::make_mut(&mut self.limits);
        // Small, so that cascades and walks through members take many commits.
        limits.cascade_edges_max = *rng.pick(&[1, 2, 3, 8, 60]);
    }

    /// Gives half of the seeds suspensions, signals, steps, children and output. Drawn apart, so that everything else
    /// about a seed stays as it is.
    pub fn draw_mail(&mut self, rng: &mut Rng) {
        if self.contest || rng.chance(5_000) {
            return;
        }
        self.mail = rng.range(1_000, 6_000) as Rate;
        let limits = Arc::make_mut(&mut self.limits);
        // Small, so that frames and signals meet their limits.
        limits.frames_kept_max = *rng.pick(&[3, 10, 10_000]);
        limits.best_effort_ms = rng.range(500, 5_000);
        limits.frame_retention_ms = rng.range(5_000, 20_000);
    }

    /// Has servers give each other errands in half of the seeds. Drawn apart, so that everything else about a seed stays
    /// as it is.
    pub fn draw_errands(&mut self, rng: &mut Rng) {
        self.machine.errands = rng.chance(5_000);
    }

    /// Has the store copied in some seeds. Drawn apart, so that everything else about a seed stays as it is.
    pub fn draw_moves(&mut self, rng: &mut Rng) {
        if !self.contest && rng.chance(3_000) {
            let after = rng.range(0, i64::try_from(self.chaos_steps).unwrap_or(i64::MAX));
            self.moves = Some((after.unsigned_abs(), *rng.pick(&[1, 2, 8])));
        }
    }

    /// Puts one server far away from the store, in some seeds in a contest with others that are near. Drawn
    /// apart, so that everything else about a seed stays as it is.
    pub fn draw_distance(&mut self, rng: &mut Rng) {
        if rng.chance(3_000) {
            self.far = rng.range(10, 50);
        }
        if rng.chance(1_000) {
            self.heal();
            self.contest = true;
            // So far that without a turn it would hardly ever win.
            self.far = rng.range(30, 50);
            (self.servers, self.clients, self.think_ms, self.status_ms) = (3, 6, 10, 50);
            self.machine.queue_max = 10_000;
            self.machine.batch_max = 2_048;
            self.chaos_steps = self.chaos_steps.max(CONTEST_STEPS);
        }
    }

    /// The same world without a fault: what is left undone must now be done.
    pub fn heal(&mut self) {
        for rate in [
            &mut self.lost,
            &mut self.late,
            &mut self.doubled,
            &mut self.store_late,
            &mut self.conflict,
            &mut self.answer_lost,
            &mut self.commit_lost,
            &mut self.commit_late,
            &mut self.unavailable,
            &mut self.refused,
            &mut self.poison,
            &mut self.load_failed,
            &mut self.crash,
            &mut self.outage,
            &mut self.clock_jump,
            &mut self.worker_pause,
            &mut self.worker_kill,
            &mut self.stale_fence,
        ] {
            *rate = 0;
        }
        self.status_ms = 1_000;
    }
}
