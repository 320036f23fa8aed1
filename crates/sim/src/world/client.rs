//! Clients and operators: they submit, and meddle with what was submitted.

use ff_core::commands::{
    BuryWorker, Cancel, DrainWorker, Hold, Remove, Replay, Revoke, SetLane, SetPriority, Tag, Unhold,
};
use ff_core::lane::LaneMode;
use ff_core::{Command, ExecutionId};

use super::call::Owner;
use super::queue::Happening;
use super::submission::{LANES, lane, submission};
use super::{World, trace};
use crate::check::Check;

impl World {
    pub(super) fn client_wakes(&mut self, client: usize) -> Check {
        if self.healed.is_some() {
            return Ok(());
        }
        self.later(0, self.profile.think_ms, Happening::ClientWakes { client });
        let command = if self.is_contest() {
            self.contender()
        } else if self.known.is_empty() || self.rng.chance(self.profile.creates) {
            self.create()
        } else if self.rng.chance(self.profile.globals) {
            self.global()
        } else {
            let id = self.some_execution();
            match self.maybe_signal(id) {
                Some(signal) => signal,
                None => self.meddle(id),
            }
        };
        let call = self.command(Owner::Client, command);
        trace!(self, "client {client} asks call {call} {}", self.calls[call].what.name());
        Ok(())
    }

    fn create(&mut self) -> Command {
        let create = submission(&mut self.rng, &self.profile, self.now);
        self.known.push(create.id);
        if self.rng.chance(self.profile.poison) {
            self.store.poison.insert(create.id);
        }
        create.into()
    }

    /// Mostly one of the newest.
    fn some_execution(&mut self) -> ExecutionId {
        let newest = if self.rng.chance(7_000) { 12 } else { usize::MAX };
        let from = self.known.len().saturating_sub(newest);
        *self.rng.pick(&self.known[from..])
    }

    pub(super) fn meddle(&mut self, execution: ExecutionId) -> Command {
        let rng = &mut self.rng;
        let (actor, cause): (Box<str>, Box<str>) = ("somebody".into(), "a whim".into());
        match rng.below(11) {
            0 => Cancel { execution, actor, cause, grace_ms: None }.into(),
            1 => {
                let grace_ms = Some(rng.range(0, 3_000));
                Cancel { execution, actor, cause, grace_ms }.into()
            }
            2 => Hold { execution, actor, cause }.into(),
            3 | 4 => Unhold { execution, actor, cause }.into(),
            5 => {
                let priority = rng.range(-100, 100) as i8;
                SetPriority { execution, priority, actor, cause }.into()
            }
            6 => Revoke { execution, actor, cause }.into(),
            7 | 8 => Replay { execution, actor, cause, ended_by: None }.into(),
            9 => {
                let set = vec![("team".into(), rng.below(3).to_string().into_boxed_str())];
                let remove = if rng.chance(3_000) { vec!["team".into()] } else { Vec::new() };
                Tag { execution, set, remove, actor, cause }.into()
            }
            _ => Remove { execution, actor, cause }.into(),
        }
    }

    fn global(&mut self) -> Command {
        if self.rng.chance(3_000) {
            return self.about_registry();
        }
        let rng = &mut self.rng;
        let (actor, cause): (Box<str>, Box<str>) = ("somebody".into(), "a whim".into());
        if rng.chance(2_500) {
            let instance = self.workers[rng.below(self.workers.len())].instance;
            return match rng.chance(5_000) {
                true => DrainWorker { instance, actor, cause }.into(),
                false => BuryWorker { instance, actor, cause }.into(),
            };
        }
        let modes = [LaneMode::Open, LaneMode::Open, LaneMode::Paused, LaneMode::Draining];
        SetLane {
            lane: lane(rng.pick::<&str>(&LANES)),
            mode: rng.maybe(8_000, |rng| *rng.pick(&modes)),
            step_ms: rng.maybe(1_000, |rng| rng.range(0, 100_000)),
            retention_ms: rng.maybe(2_000, |rng| rng.range(0, 20_000)),
            renewed_events: rng.maybe(1_000, |rng| rng.chance(5_000)),
            actor,
            cause,
        }
        .into()
    }
}
