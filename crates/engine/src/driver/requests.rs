//! What callers ask for.

use crate::failure::Failure;
use crate::machine::{Input, Ticket};

use super::{Driver, Group, Request, Waiter};

impl Driver {
    pub(super) fn ticket(&mut self, slot: Waiter) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.slots.insert(ticket, slot);
        ticket
    }

    pub(super) fn request(&mut self, request: Request) {
        if self.shutdown.is_some() {
            return self.refuse(request);
        }
        let at = self.at();
        let give_up_at = at + self.config.command_timeout_ms;
        if matches!(
            request,
            Request::Wait { .. } | Request::WaitFlow { .. } | Request::Poll { .. } | Request::Watch { .. }
        ) {
            // From now on somebody waits for what other processes do.
            self.next_status = self.next_status.min(at + self.config.status_busy_ms);
        }
        match request {
            Request::Execute { partition, command, answer } => {
                let ticket = self.ticket(Waiter::One(answer));
                self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at });
            }
            Request::ExecuteAll { commands, answer } => {
                let group = self.next_group;
                self.next_group += 1;
                let count = commands.len();
                if count == 0 {
                    let _ = answer.send(Vec::new());
                    return;
                }
                self.groups.insert(group, Group { results: vec![None; count], left: count, answer });
                for (index, (partition, command)) in commands.into_iter().enumerate() {
                    let ticket = self.ticket(Waiter::Part { group, index });
                    self.machine.accept(at, Input::Command { ticket, partition, command, give_up_at });
                }
            }
            Request::Poll { number, poll, max, wait_ms, answer } => {
                let ticket = self.ticket(Waiter::Poll { number, answer });
                self.polls.insert(number, ticket);
                self.machine.accept(at, Input::Poll { ticket, poll, max, give_up_at: at + wait_ms });
            }
            Request::PollDropped { number } => self.drop_poll(number),
            Request::GiveBack { tasks } => self.give_back(tasks.into_iter().map(|it| it.execution).collect()),
            Request::Wait { execution, answer } => self.add_wait(execution, answer),
            Request::WaitFlow { flow, answer } => self.add_flow_wait(flow, answer),
            Request::Watch { instance, disturbed } => drop(self.watchers.insert(instance, disturbed)),
            Request::KnowsActive { instance, answer } => {
                let _ = answer.send(self.machine.knows_active(instance));
            }
            Request::Nudge { answer } => {
                self.nudges.push(answer);
                self.next_status = at;
                self.machine.ask_status();
            }
            Request::Stats { answer } => drop(answer.send(self.machine.stats())),
            Request::Shutdown { grace, answer } => self.begin_shutdown(grace, Some(answer)),
        }
    }

    pub(super) fn refuse(&mut self, request: Request) {
        let failure = || Err(Failure::ShuttingDown);
        match request {
            Request::Execute { answer, .. } => drop(answer.send(failure())),
            Request::ExecuteAll { commands, answer } => {
                drop(answer.send(commands.iter().map(|_| failure()).collect()));
            }
            Request::Poll { answer, .. } => drop(answer.send(Err(Failure::ShuttingDown))),
            Request::Wait { answer, .. } => drop(answer.send(Err(Failure::ShuttingDown))),
            Request::WaitFlow { answer, .. } => drop(answer.send(Err(Failure::ShuttingDown))),
            Request::Watch { .. }
            | Request::KnowsActive { .. }
            | Request::Nudge { .. }
            | Request::PollDropped { .. } => {}
            // The worker leaves with this process; its leases return with it.
            Request::GiveBack { .. } => {}
            Request::Stats { answer } => drop(answer.send(self.machine.stats())),
            Request::Shutdown { grace, answer } => self.begin_shutdown(grace, Some(answer)),
        }
    }
}
