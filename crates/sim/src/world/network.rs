//! Between clients or workers and servers: messages are lost, late, doubled; questions are asked again.

use ff_core::execution::Fence;
use ff_core::{Command, Ms, Reply};
use ff_engine::Failure;
use ff_engine::machine::Input;

use super::call::{Call, CallId, Owner, What};
use super::contest::STARVES_AFTER_MS;
use super::queue::Happening;
use super::{World, trace};
use crate::bug::Bug;
use crate::check::Check;
use crate::fault::Fault;
use crate::profile::PARTITIONS;

const TRIES_MAX: u32 = 6;

impl World {
    pub(super) fn command(&mut self, owner: Owner, command: impl Into<Command>) -> CallId {
        let command = command.into();
        let partition = command.partition(PARTITIONS).unwrap_or(ff_core::PartitionId(0));
        self.call(owner, What::Command { command, partition })
    }

    pub(super) fn call(&mut self, owner: Owner, what: What) -> CallId {
        self.commands += 1;
        self.calls.push(Call { owner, what, tries: 0, over: false });
        let call = self.calls.len() - 1;
        self.send(call);
        call
    }

    /// Sends a question to some server and sets the time to ask again.
    fn send(&mut self, call: CallId) {
        self.calls[call].tries += 1;
        let is_poll = matches!(self.calls[call].what, What::Poll { .. });
        let server = match self.contest_server(call) {
            Some(server) => server,
            None => self.rng.below(self.servers.len()),
        };
        self.travel(|_| Happening::CallArrives { call, server });
        let patience = if is_poll || self.healed.is_some() { 5_000 } else { 300 };
        let patience = if self.is_contest() && !is_poll { STARVES_AFTER_MS } else { patience };
        self.later(patience, patience + 3_000, Happening::CallTimesOut { call });
    }

    /// Puts a message on the network once, twice or not at all.
    pub(super) fn travel(&mut self, message: impl Fn(&World) -> Happening) {
        if self.fault(self.profile.lost, Fault::MessageLost) {
            return;
        }
        let copies = 1 + usize::from(self.fault(self.profile.doubled, Fault::MessageDoubled));
        for _ in 0..copies {
            let most = if self.fault(self.profile.late, Fault::MessageLate) { 4_000 } else { 5 };
            let message = message(self);
            self.later(0, most, message);
        }
    }

    pub(super) fn call_arrives(&mut self, call: CallId, server: usize) -> Check {
        let what = self.calls[call].what.clone();
        let (now, since) = (self.now, self.store.seq);
        let wait = match &what {
            What::Poll { .. } => self.rng.range(50, 3_000),
            What::Command { .. } if self.is_contest() => STARVES_AFTER_MS * 2,
            What::Command { .. } => self.rng.range(500, 15_000),
        };
        trace!(self, "call {call} {} arrives at server {server}", what.name());
        let ticket = self.next_ticket;
        let life = &mut self.servers[server];
        let local = life.local(now);
        let Some(machine) = &mut life.machine else { return Ok(()) };
        self.next_ticket += 1;
        let give_up_at = local + wait;
        let input = match &what {
            What::Poll { poll, max } => Input::Poll { ticket, poll: poll.clone(), max: *max, give_up_at },
            What::Command { command, partition } => {
                let mut command = command.clone();
                if self.bug == Some(Bug::NoEpochCheck) {
                    self.store.forge(&mut command);
                }
                Input::Command { ticket, partition: *partition, command, give_up_at }
            }
        };
        machine.accept(local, input);
        self.store.oracle.asked(&what);
        life.open.insert(ticket, super::server::Open { call, since, at: now });
        self.turn_soon(server);
        Ok(())
    }

    pub(super) fn send_reply(&mut self, call: CallId, result: Result<Reply, Failure>) {
        self.travel(|_| Happening::ReplyArrives { call, result: result.clone() });
    }

    pub(super) fn reply_arrives(&mut self, call: CallId, result: Result<Reply, Failure>) -> Check {
        let Call { owner, what, over, .. } = &mut self.calls[call];
        if *over {
            return Ok(());
        }
        let is_poll = matches!(what, What::Poll { .. });
        let again = result.as_ref().is_err_and(|it| it.is_retryable() || *it == Failure::OutcomeUnknown);
        if again && !is_poll {
            return Ok(());
        }
        *over = true;
        let owner = *owner;
        self.answer(owner, call, Some(result));
        Ok(())
    }

    pub(super) fn call_times_out(&mut self, call: CallId) -> Check {
        let Call { owner, what, tries, over } = &self.calls[call];
        if *over {
            return Ok(());
        }
        let owner = *owner;
        let patient = match what {
            What::Poll { .. } => false,
            What::Command { command: Command::Create(_) | Command::CreateFlow(_), .. } => true,
            // Once the faults are over, operators stop; asking again could go on for ever.
            What::Command { .. } => self.healed.is_none() || matches!(owner, Owner::Worker { .. }),
        };
        if patient && *tries < TRIES_MAX && self.is_alive(owner) && !self.rng.chance(1_000) {
            trace!(self, "call {call} is asked again");
            self.send(call);
        } else {
            self.calls[call].over = true;
            self.answer(owner, call, None);
        }
        Ok(())
    }

    fn answer(&mut self, owner: Owner, call: CallId, result: Option<Result<Reply, Failure>>) {
        if let Owner::Worker { index, life } = owner
            && self.is_alive(owner)
        {
            self.worker_hears(index, life, call, result);
        }
    }

    fn is_alive(&self, owner: Owner) -> bool {
        match owner {
            Owner::Client => true,
            Owner::Worker { index, life } => self.workers[index].life == life,
        }
    }

    /// How long a message takes between a server and the store.
    pub(super) fn store_delay(&mut self, server: usize) -> Ms {
        let late = self.fault(self.profile.store_late, Fault::StoreLate);
        let usual = if server == 0 { 3 * self.profile.far } else { 3 };
        let most = if late { *self.rng.pick(&[20, 200, 2_500]) } else { usual };
        self.rng.range(0, most.max(usual))
    }
}

impl super::store::SimStore {
    /// Makes a call count for whatever lease stands now.
    fn forge(&self, command: &mut Command) {
        let current = |fence: &mut Fence| {
            let home = &self.mirrors[fence.execution.route().partition(PARTITIONS).index()];
            if let Some(it) = home.executions.get(&fence.execution) {
                *fence = it.fence();
            }
        };
        match command {
            Command::Complete(it) => current(&mut it.fence),
            Command::Expand(it) => current(&mut it.fence),
            Command::Fail(it) => current(&mut it.fence),
            Command::Delay(it) => current(&mut it.fence),
            Command::Release(it) => current(&mut it.fence),
            Command::Report(it) => current(&mut it.fence),
            Command::Renew(it) => it.fences.iter_mut().for_each(current),
            _ => {}
        }
    }
}
