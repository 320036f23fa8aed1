//! Workers: they register, poll, renew, end what they hold in every way, and now and then use a lease they
//! have lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::attempt::{ErrorClass, Progress, TaskError};
use ff_core::class::Capabilities;
use ff_core::commands::{Complete, Delay, Fail, Heartbeat, Poll, RegisterWorker, Release, Renew, Report};
use ff_core::execution::Fence;
use ff_core::worker::WorkerMode;
use ff_core::{
    Command, ExecutionId, InstanceId, Kind, LaneName, Ms, PartitionId, Payload, Rejection, Reply, Route,
    WorkerName,
};
use ff_engine::Failure;

use super::call::{CallId, Owner, What};
use super::queue::Happening;
use super::submission::{KINDS, LANES, WORDS, capabilities, kind, lane, some_words};
use super::{World, trace};
use crate::check::Check;
use crate::check::replies::fence_of;
use crate::fault::Fault;
use crate::rng::Rng;

const STALE_KEPT: usize = 16;

#[derive(Debug)]
struct Held {
    fence: Fence,
    lease_ms: Ms,
    renew_at: Ms,
    act_at: Ms,
    /// The call that ends it is under way.
    ending: bool,
}

#[derive(Debug)]
pub struct Worker {
    /// Another one after each restart.
    pub life: u32,
    pub instance: InstanceId,
    name: WorkerName,
    lanes: Vec<LaneName>,
    kinds: Vec<Kind>,
    words: Capabilities,
    healthy: bool,
    ttl_ms: Ms,
    registered: bool,
    registering: bool,
    polling: bool,
    draining: bool,
    heartbeat_at: Ms,
    pub paused_until: Ms,
    held: BTreeMap<ExecutionId, Held>,
    /// Leases it does not hold any more.
    stale: Vec<Fence>,
}

impl Worker {
    fn forget(&mut self, execution: ExecutionId) {
        if let Some(held) = self.held.remove(&execution) {
            self.stale.push(held.fence);
            if self.stale.len() > STALE_KEPT {
                self.stale.remove(0);
            }
        }
    }
}

impl World {
    /// A worker for some of the work, or a healthy one for all of it.
    pub(super) fn add_worker(&mut self, healthy: bool) {
        let index = self.workers.len();
        let rng = &mut self.rng;
        let all: Vec<LaneName> = LANES.iter().map(|it| lane(it)).collect();
        let lanes: Vec<LaneName> = all.iter().filter(|_| healthy || rng.chance(7_000)).cloned().collect();
        let one_kind = !healthy && rng.chance(2_000);
        let words = if healthy || rng.chance(5_000) { capabilities(&WORDS) } else { some_words(rng) };
        self.workers.push(Worker {
            life: 0,
            instance: new_instance(rng, self.now),
            name: WorkerName::parse(&format!("w{index}")).expect("the name is valid"),
            lanes: if lanes.is_empty() { all } else { lanes },
            kinds: if one_kind { vec![kind(rng.pick::<&str>(&KINDS))] } else { Vec::new() },
            words,
            healthy,
            ttl_ms: if healthy { 10_000 } else { rng.range(1_000, 10_000) },
            registered: false,
            registering: false,
            polling: false,
            draining: false,
            heartbeat_at: 0,
            paused_until: 0,
            held: BTreeMap::new(),
            stale: Vec::new(),
        });
        self.later(0, 200, Happening::WorkerWakes { worker: index, life: 0 });
    }

    /// The process ends and another one starts, which knows nothing of the leases of the first; a few of
    /// those are used all the same, as by a process that was thought dead.
    pub(super) fn restart_worker(&mut self, index: usize) {
        let worker = &mut self.workers[index];
        worker.life += 1;
        worker.instance = new_instance(&mut self.rng, self.now);
        (worker.registered, worker.registering, worker.polling, worker.draining) =
            (false, false, false, false);
        let ids: Vec<ExecutionId> = worker.held.keys().copied().collect();
        ids.into_iter().for_each(|id| worker.forget(id));
        let life = worker.life;
        trace!(self, "worker {index} starts again, life {life}");
        self.later(0, 2_000, Happening::WorkerWakes { worker: index, life });
    }

    /// It does nothing any more and nobody replaces it.
    pub(super) fn retire_worker(&mut self, index: usize) {
        self.workers[index].life += 1;
    }

    pub(super) fn worker_wakes(&mut self, index: usize, life: u32) -> Check {
        let now = self.now;
        let worker = &self.workers[index];
        if worker.life != life {
            return Ok(());
        }
        if worker.paused_until > now {
            let pause = worker.paused_until - now;
            self.later(pause, pause, Happening::WorkerWakes { worker: index, life });
            return Ok(());
        }
        let pause = match (worker.healthy, worker.held.is_empty()) {
            (true, true) => 800,
            (true, false) => 200,
            (false, _) => 80,
        };
        self.later(5, pause, Happening::WorkerWakes { worker: index, life });
        let owner = Owner::Worker { index, life };
        let worker = &self.workers[index];
        if !worker.registered {
            self.register(index, owner);
        } else if worker.draining && worker.held.is_empty() {
            self.restart_worker(index);
        } else {
            self.look_after_leases(index, owner);
            self.look_for_work(index, owner);
        }
        if !self.workers[index].stale.is_empty() && self.fault(self.profile.stale_fence, Fault::StaleFence) {
            self.use_lost_lease(index, owner);
        }
        Ok(())
    }

    fn register(&mut self, index: usize, owner: Owner) {
        let worker = &mut self.workers[index];
        if !std::mem::replace(&mut worker.registering, true) {
            let command = RegisterWorker {
                instance: worker.instance,
                name: worker.name.clone(),
                lanes: worker.lanes.clone(),
                capabilities: worker.words.clone(),
                build: None,
                server: None,
                owner: None,
                ttl_ms: worker.ttl_ms,
            };
            self.command(owner, command);
        }
    }

    fn look_after_leases(&mut self, index: usize, owner: Owner) {
        let now = self.now;
        let worker = &mut self.workers[index];
        if worker.heartbeat_at <= now {
            worker.heartbeat_at = now + worker.ttl_ms / 3;
            let instance = worker.instance;
            self.command(owner, Heartbeat { instance });
        }
        let worker = &mut self.workers[index];
        let mut renewals = BTreeMap::<PartitionId, Vec<Fence>>::new();
        for held in worker.held.values_mut().filter(|it| it.renew_at <= now) {
            held.renew_at = now + held.lease_ms / 3;
            let partition = held.fence.execution.route().partition(crate::profile::PARTITIONS);
            renewals.entry(partition).or_default().push(held.fence);
        }
        let healthy = worker.healthy;
        let due = worker.held.values().filter(|it| it.act_at <= now && !it.ending);
        let due: Vec<Fence> = due.map(|it| it.fence).collect();
        for (partition, fences) in renewals {
            self.call(owner, What::Command { command: Renew { fences }.into(), partition });
        }
        for fence in due {
            let mut command = deed(&mut self.rng, fence, healthy);
            if let Command::Complete(it) = &command
                && let Some(expand) = self.maybe_expand(fence, it.result.clone())
            {
                command = expand;
            }
            if !healthy && let Some(mail) = self.maybe_mail(fence) {
                command = mail;
            }
            let goes_on = goes_on(&command);
            if let Some(held) = self.workers[index].held.get_mut(&fence.execution) {
                held.ending = !goes_on;
                held.act_at = now + self.rng.range(10, 500);
            }
            self.command(owner, command);
        }
    }

    fn look_for_work(&mut self, index: usize, owner: Owner) {
        let worker = &mut self.workers[index];
        if worker.polling || worker.draining || worker.held.len() >= 6 {
            return;
        }
        worker.polling = true;
        let poll = Poll {
            worker: worker.name.clone(),
            instance: worker.instance,
            lanes: worker.lanes.clone(),
            kinds: worker.kinds.clone(),
            namespaces: Vec::new(),
            capabilities: worker.words.clone(),
        };
        let max = self.rng.below(4) + 1;
        self.call(owner, What::Poll { poll: Arc::new(poll), max });
    }

    fn use_lost_lease(&mut self, index: usize, owner: Owner) {
        let fence = *self.rng.pick(&self.workers[index].stale);
        if self.rng.chance(3_000) {
            let partition = self.home(fence.execution.route());
            let command = Renew { fences: vec![fence] }.into();
            self.call(owner, What::Command { command, partition });
        } else {
            let command = deed(&mut self.rng, fence, false);
            self.command(owner, command);
        }
    }

    pub(super) fn worker_hears(
        &mut self,
        index: usize,
        _life: u32,
        call: CallId,
        result: Option<Result<Reply, Failure>>,
    ) {
        match self.calls[call].what.clone() {
            What::Poll { .. } => self.polled(index, result),
            What::Command { command: Command::RegisterWorker(_), .. } => {
                let worker = &mut self.workers[index];
                worker.registering = false;
                match result {
                    Some(Ok(_)) => worker.registered = true,
                    Some(Err(_)) => self.restart_worker(index),
                    None => {}
                }
            }
            What::Command { command: Command::Heartbeat(_), .. } => match result {
                Some(Ok(Reply::Worker { mode, .. })) => {
                    self.workers[index].draining |= mode == WorkerMode::Draining;
                }
                Some(Err(_)) => self.restart_worker(index),
                _ => {}
            },
            What::Command { command: Command::Renew(it), .. } => {
                if let Some(Ok(Reply::Renewed(list))) = result {
                    let lost = it.fences.iter().zip(list).filter(|(_, renewal)| renewal.is_err());
                    lost.for_each(|(fence, _)| self.lost(index, *fence));
                }
            }
            What::Command { command, .. } => {
                // A lease that stands after a refusal that is not about it goes on, too.
                let lost = matches!(
                    &result,
                    Some(Err(Failure::Rejected(
                        Rejection::LeaseLost { .. }
                            | Rejection::AlreadyEnded { .. }
                            | Rejection::NotFound { .. }
                    )))
                );
                let goes_on = match &command {
                    Command::Report(_) => matches!(result, Some(Ok(_)) | None),
                    Command::Suspend(_) if matches!(&result, Some(Err(Failure::Rejected(_)))) => {
                        let fence = fence_of(&command);
                        let held = fence.and_then(|it| self.workers[index].held.get_mut(&it.execution));
                        held.into_iter().for_each(|held| held.ending = false);
                        !lost
                    }
                    command => goes_on(command) && !lost,
                };
                if let Some(fence) = fence_of(&command)
                    && !goes_on
                {
                    self.lost(index, fence);
                }
            }
        }
    }

    /// It does not hold this lease any more.
    fn lost(&mut self, index: usize, fence: Fence) {
        let worker = &mut self.workers[index];
        if worker.held.get(&fence.execution).is_some_and(|held| held.fence == fence) {
            worker.forget(fence.execution);
        }
    }

    fn polled(&mut self, index: usize, result: Option<Result<Reply, Failure>>) {
        let now = self.now;
        let worker = &mut self.workers[index];
        worker.polling = false;
        match result {
            Some(Ok(Reply::Claimed(list))) => {
                for it in list {
                    let lease_ms = it.spec.policy.lease_ms;
                    let (renew_at, act_at) = (now + lease_ms / 3, now + self.rng.range(0, 1_500));
                    let held = Held { fence: it.fence(), lease_ms, renew_at, act_at, ending: false };
                    worker.forget(it.id);
                    worker.held.insert(it.id, held);
                }
            }
            Some(Err(Failure::Rejected(Rejection::WorkerUnknown { .. }))) => worker.registered = false,
            Some(Err(Failure::Rejected(Rejection::WorkerDraining { .. }))) => worker.draining = true,
            Some(Err(Failure::Rejected(_))) => self.restart_worker(index),
            _ => {}
        }
    }
}

/// Whether a call leaves the lease as it is.
fn goes_on(command: &Command) -> bool {
    matches!(
        command,
        Command::Report(_)
            | Command::OpenWaitpoint(_)
            | Command::RecordSteps(_)
            | Command::StartChild(_)
            | Command::Append(_)
    )
}

/// What a worker does with a lease.
fn deed(rng: &mut Rng, fence: Fence, healthy: bool) -> Command {
    match if healthy { 0 } else { rng.below(10) } {
        0..=4 => {
            let result = rng.maybe(5_000, |_| Payload::json("{\"done\":true}"));
            Complete { fence, result }.into()
        }
        5 | 6 => {
            let class = if rng.chance(1_500) { ErrorClass::Fatal } else { ErrorClass::Retryable };
            let code = if rng.chance(1_500) { "bad_input" } else { "oops" };
            let error = TaskError { class, ..TaskError::new(code, "it did not work") };
            let retry_after_ms = rng.maybe(2_000, |rng| rng.range(0, 2_000));
            Fail { fence, error, retry_after_ms, seed: rng.draw() }.into()
        }
        7 => Delay::new(fence, rng.range(0, 3_000)).into(),
        8 => Release::new(fence).into(),
        _ => {
            let percent = Some(rng.range(0, 100) as u8);
            Report { fence, progress: Progress { percent, ..Progress::default() } }.into()
        }
    }
}

fn new_instance(rng: &mut Rng, now: Ms) -> InstanceId {
    let route = Route(rng.draw() as u16);
    InstanceId::from_parts(now, route, rng.draw())
}
