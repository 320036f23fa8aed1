//! After the faults: everything that was begun must end, be answered, and be swept away in bounded time.

use std::collections::BTreeSet;

use ff_core::agenda::Subject;
use ff_core::commands::{Resume, SetLane, Unhold};
use ff_core::execution::{Execution, State};
use ff_core::lane::LaneMode;
use ff_core::{LaneName, Ms};

use super::call::{CallId, Owner, What};
use super::queue::Happening;
use super::submission::{LANES, lane};
use super::{World, trace};
use crate::check::{Check, ensure};
use crate::profile::PARTITIONS;

/// How long everything may take to end, and then to be removed.
const ENDS_WITHIN_MS: Ms = 300_000;
const SWEPT_WITHIN_MS: Ms = 200_000;
/// How long a server may owe an answer once nothing fails.
const ANSWERED_WITHIN_MS: Ms = 60_000;
const LOOK_EVERY: u64 = 64;

#[derive(Debug)]
pub struct Healing {
    since: Ms,
    /// When everything had ended.
    quiet_at: Option<Ms>,
    opening: Vec<(LaneName, CallId)>,
}

impl World {
    pub(super) fn heal(&mut self) {
        trace!(self, "the faults are over");
        self.profile.heal();
        self.store.poison.clear();
        self.outage_until = self.now;
        self.healed = Some(Healing { since: self.now, quiet_at: None, opening: Vec::new() });
        (0..self.workers.len()).for_each(|index| self.retire_worker(index));
        (0..3).for_each(|_| self.add_worker(true));
        for server in 0..self.servers.len() {
            self.later(0, 100, Happening::ServerStarts { server });
        }
        self.later(0, 100, Happening::AdminLooks);
    }

    /// Opens lanes that are not open and lets go of what is held.
    pub(super) fn admin_looks(&mut self) -> Check {
        self.later(1_000, 2_000, Happening::AdminLooks);
        let (actor, cause): (Box<str>, Box<str>) = ("admin".into(), "the faults are over".into());
        for name in LANES {
            let open = |it: &crate::check::mirror::Mirror| it.lane_mode(&lane(name)) == LaneMode::Open;
            let asked = self.healed.iter().flat_map(|it| &it.opening);
            let asked = asked.filter(|(it, call)| it.as_str() == name && !self.calls[*call].over).count() > 0;
            if asked || self.store.mirrors.iter().all(open) {
                continue;
            }
            let (actor, cause) = (actor.clone(), cause.clone());
            let mode = Some(LaneMode::Open);
            let call = self.command(
                Owner::Client,
                SetLane {
                    lane: lane(name),
                    mode,
                    step_ms: None,
                    retention_ms: None,
                    renewed_events: None,
                    actor,
                    cause,
                },
            );
            if let Some(healing) = &mut self.healed {
                healing.opening.push((lane(name), call));
            }
        }
        self.close_flows();
        let all = self.store.mirrors.iter().flat_map(|mirror| mirror.executions.values());
        let held = all.filter(|it| matches!(it.live.state, State::Held { .. })).map(|it| it.id);
        for execution in held.take(20).collect::<Vec<_>>() {
            let (actor, cause) = (actor.clone(), cause.clone());
            self.command(Owner::Client, Unhold { execution, actor, cause });
        }
        let all = self.store.mirrors.iter().flat_map(|mirror| mirror.executions.values());
        let suspended = all.filter(|it| matches!(it.live.state, State::Suspended(_))).map(|it| it.id);
        for execution in suspended.take(20).collect::<Vec<_>>() {
            let (actor, cause) = (actor.clone(), cause.clone());
            self.command(Owner::Client, Resume { execution, actor, cause });
        }
        Ok(())
    }

    /// Whether all is done; an error if it takes too long.
    pub(super) fn is_over(&mut self) -> Result<bool, String> {
        if !self.steps.is_multiple_of(LOOK_EVERY) {
            return Ok(false);
        }
        self.check_answers()?;
        let now = self.now;
        let Some(healing) = &self.healed else { return Ok(false) };
        let (since, quiet_at) = (healing.since, healing.quiet_at);
        match quiet_at {
            None => {
                let left = self.unfinished();
                ensure!(left.is_empty() || now < since + ENDS_WITHIN_MS, "stuck:\n  {}", left.join("\n  "));
                if left.is_empty() {
                    self.store.check_all()?;
                    self.check_copies()?;
                    trace!(self, "everything has ended");
                    self.healed.iter_mut().for_each(|it| it.quiet_at = Some(now));
                }
                Ok(false)
            }
            Some(quiet_at) => {
                let kept = self.kept();
                let late = now >= quiet_at + SWEPT_WITHIN_MS;
                ensure!(kept.is_empty() || !late, "never swept away:\n  {}", kept.join("\n  "));
                Ok(kept.is_empty())
            }
        }
    }

    fn check_answers(&self) -> Check {
        for (n, server) in self.servers.iter().enumerate() {
            let oldest = server.open.values().filter(|it| it.at + ANSWERED_WITHIN_MS < self.now);
            for open in oldest {
                let since = self.healed.as_ref().map_or(self.now, |it| it.since);
                let what = &self.calls[open.call].what;
                let what = match what {
                    What::Command { command, .. } => format!("{command:?}"),
                    What::Poll { poll, .. } => format!("{poll:?}"),
                };
                let stats = server.machine.as_ref().map(|machine| machine.stats());
                let late = self.now > since + ANSWERED_WITHIN_MS;
                ensure!(!late, "server {n} never answers call {}: {what}\n  {stats:?}", open.call);
            }
        }
        Ok(())
    }

    /// What has not ended, and what stands in its way.
    fn unfinished(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (n, mirror) in self.store.mirrors.iter().enumerate() {
            for it in mirror.executions.values().filter(|it| it.end().is_none()) {
                left.push(format!("partition {n} at {}: {}", mirror.header.now, self.why(it)));
            }
            let flows = mirror.flows.values().filter(|flow| flow.live.end.is_none());
            left.extend(flows.map(|flow| format!("partition {n}: flow {} {:?}", flow.id, flow.live)));
            let messages = mirror.agenda.iter().filter(|key| matches!(key.subject, Subject::Deliver { .. }));
            left.extend(messages.map(|key| format!("partition {n}: message {:?}", key.subject)));
        }
        let rows = self.store.inbox.stuck(PARTITIONS);
        left.extend(rows.iter().map(|(number, partition)| format!("row {number} waits in {partition}")));
        left.truncate(5);
        if !left.is_empty() {
            let stats = self.servers.iter().map(|it| it.machine.as_ref().map(|machine| machine.stats()));
            left.extend(stats.map(|it| format!("{it:?}")));
        }
        left
    }

    fn why(&self, it: &Execution) -> String {
        let modes = self.store.mirrors.iter().map(|mirror| mirror.lane_mode(&it.spec.lane).word());
        let modes: Vec<_> = modes.collect();
        let guard = it.earliest_guard();
        format!(
            "{} {:?}, lane {} {modes:?}, timer {:?}, guard {guard:?}",
            it.id, it.live.state, it.spec.lane, it.live.timer
        )
    }

    fn kept(&self) -> Vec<String> {
        let mut kept = Vec::new();
        for (n, mirror) in self.store.mirrors.iter().enumerate() {
            let (now, sweep_at) = (mirror.header.now, mirror.header.sweep_at);
            let ended = mirror.ended.iter().take(2);
            kept.extend(ended.map(|it| format!("partition {n} at {now}, sweep {sweep_at:?}: {it:?}")));
            let flows = mirror.flows.values().take(2);
            kept.extend(flows.map(|it| format!("partition {n} at {now}, sweep {sweep_at:?}: {it:?}")));
            let keys = mirror.dedup.iter().take(2);
            kept.extend(keys.map(|it| format!("partition {n} at {now}, sweep {sweep_at:?}: {it:?}")));
        }
        kept
    }

    /// Copies of lanes and workers are the same everywhere.
    fn check_copies(&self) -> Check {
        let names: BTreeSet<_> = self.store.mirrors.iter().flat_map(|it| it.lanes.keys()).collect();
        for name in names {
            let copies: Vec<_> = self.store.mirrors.iter().map(|it| it.lanes.get(name)).collect();
            ensure!(copies.iter().all(|it| *it == copies[0]), "the copies of lane {name} differ: {copies:?}");
        }
        let ids: BTreeSet<_> = self.store.mirrors.iter().flat_map(|it| it.workers.keys()).collect();
        for id in ids {
            let copies =
                self.store.mirrors.iter().map(|it| it.workers.get(id).map(|it| (it.mode, it.revision)));
            let copies: Vec<_> = copies.collect();
            ensure!(copies.iter().all(|it| *it == copies[0]), "the copies of worker {id} differ: {copies:?}");
        }
        let ids: BTreeSet<_> = self.store.mirrors.iter().flat_map(|it| it.signing_keys.keys()).collect();
        for id in ids {
            let copies = self.store.mirrors.iter().map(|it| (it.header.now, it.signing_keys.get(id)));
            let copies: Vec<_> = copies.collect();
            let one = copies.iter().find_map(|(_, it)| *it);
            // Each partition sweeps its copy of a retired key in its own time.
            let swept = |now| one.is_some_and(|key| key.is_retired(now));
            let same = |(now, it): &(_, Option<_>)| *it == one || (it.is_none() && swept(*now));
            ensure!(copies.iter().all(same), "the copies of key {id} differ: {copies:?}");
        }
        Ok(())
    }

    pub(super) fn final_check(&mut self) -> Check {
        self.store.check_all()?;
        self.check_caches()?;
        let partitions: Vec<_> = self.store.state.partitions().map(|(partition, _)| partition).collect();
        for partition in partitions {
            self.store.subscriber.read(&self.store.state, partition, usize::MAX)?;
            let through = self.store.subscriber.is_through(partition);
            ensure!(through, "a subscriber of {partition} did not see the end");
        }
        Ok(())
    }
}
