//! A server: one machine at a time, with a clock of its own.

use std::collections::BTreeMap;

use ff_core::{Ms, PartitionId};
use ff_engine::machine::{Input, Line, Machine, Output, Ticket};
use ff_store::Commit;

use super::call::CallId;
use super::queue::{Happening, Life, Request};
use super::{START, World, trace};
use crate::check::replies::Asked;
use crate::check::{Check, cache, ensure};
use crate::fault::Fault;
use crate::profile::PARTITIONS;

/// A question that a server has not answered.
#[derive(Debug)]
pub struct Open {
    pub call: CallId,
    /// The newest commit when it arrived.
    pub since: u64,
    pub at: Ms,
}

#[derive(Debug)]
pub struct Server {
    /// `None` while it is down.
    pub machine: Option<Machine>,
    pub life: Life,
    offset_ms: Ms,
    drift_ppm: i64,
    pub open: BTreeMap<Ticket, Open>,
    turn_at: Option<Ms>,
    /// Commits mostly reach the store in the order in which they were sent.
    last_commit_at: Ms,
}

impl Server {
    pub fn new(offset_ms: Ms, drift_ppm: i64) -> Server {
        let (open, turn_at) = (BTreeMap::new(), None);
        Server { machine: None, life: 0, offset_ms, drift_ppm, open, turn_at, last_commit_at: START }
    }

    /// Its own clock.
    pub fn local(&self, now: Ms) -> Ms {
        let passed = now - START;
        self.offset_ms + passed + passed * self.drift_ppm / 1_000_000
    }

    /// When its own clock will show that time.
    fn world_time(&self, local: Ms) -> Ms {
        let passed = i128::from(local - self.offset_ms) * 1_000_000 / i128::from(1_000_000 + self.drift_ppm);
        START + Ms::try_from(passed).unwrap_or(Ms::MAX / 2).clamp(0, Ms::MAX / 2) + 1
    }
}

impl World {
    pub(super) fn server_starts(&mut self, server: usize) -> Check {
        let seed = self.rng.draw();
        let (limits, config) = (self.profile.limits.clone(), self.profile.machine.clone());
        let names: Vec<String> = (0..self.servers.len()).map(|n| format!("server-{n}")).collect();
        let it = &mut self.servers[server];
        if it.machine.is_some() {
            return Ok(());
        }
        let mut machine = Machine::new(PARTITIONS, limits, config, seed);
        if self.profile.acquainted {
            machine.set_servers(&names[server], &names);
        }
        it.machine = Some(machine);
        it.turn_at = None;
        let life = it.life;
        trace!(self, "server {server} starts, life {life}");
        self.later(0, 10, Happening::ServerLooksAround { server, life });
        Ok(())
    }

    /// The process is gone. What it has sent to the store may still arrive.
    pub(super) fn server_dies(&mut self, server: usize) {
        let it = &mut self.servers[server];
        if it.machine.take().is_none() {
            return;
        }
        self.tally.count(Fault::Crash);
        trace!(self, "server {server} dies, life {}", self.servers[server].life);
        let it = &mut self.servers[server];
        it.life += 1;
        for open in std::mem::take(&mut it.open).into_values() {
            self.store.oracle.unanswered(&self.calls[open.call].what);
        }
        let rng = &mut self.rng;
        self.queue.retain(|what| match what {
            Happening::StoreHears { server: it, request: Request::Commit(_), .. } if *it == server => {
                rng.chance(5_000)
            }
            Happening::StoreHears { server: it, .. } | Happening::ServerHears { server: it, .. } => {
                *it != server
            }
            _ => true,
        });
        self.later(20, 3_000, Happening::ServerStarts { server });
    }

    pub(super) fn server_looks_around(&mut self, server: usize, life: Life) -> Check {
        let it = &mut self.servers[server];
        let Some(machine) = it.machine.as_mut().filter(|_| it.life == life) else { return Ok(()) };
        machine.ask_status();
        if self.rng.chance(2_000) {
            self.server_hears_who_lives(server);
        }
        self.turn_soon(server);
        self.check_starving(server)?;
        let pause = self.profile.status_ms;
        self.later(pause, pause + 5, Happening::ServerLooksAround { server, life });
        Ok(())
    }

    /// Each learns at its own pace who is alive.
    fn server_hears_who_lives(&mut self, server: usize) {
        let alive = (0..self.servers.len()).filter(|n| self.servers[*n].machine.is_some());
        let alive: Vec<String> = alive.map(|n| self.server_name(n)).collect();
        let name = self.server_name(server);
        if let Some(machine) = &mut self.servers[server].machine {
            machine.set_servers(&name, &alive);
        }
    }

    /// Each life has a name of its own where names are addresses: what is for one is for no other.
    fn server_name(&self, server: usize) -> String {
        match self.profile.machine.errands {
            true => format!("server {server}, life {}", self.servers[server].life),
            false => format!("server {server}"),
        }
    }

    pub(super) fn errands_arrive(&mut self, to: &str, from: String, lines: Vec<Line>) -> Check {
        match (0..self.servers.len()).find(|n| self.server_name(*n) == to) {
            Some(server) => {
                let life = self.servers[server].life;
                self.server_hears(server, life, Input::Errands { from, lines })
            }
            None => Ok(()),
        }
    }

    pub(super) fn server_hears(&mut self, server: usize, life: Life, input: Input) -> Check {
        let now = self.now;
        let it = &mut self.servers[server];
        let local = it.local(now);
        let Some(machine) = it.machine.as_mut().filter(|_| it.life == life) else { return Ok(()) };
        let line = heard(&input);
        machine.accept(local, input);
        if !line.is_empty() {
            trace!(self, "server {server} hears {line}");
        }
        self.turn_soon(server);
        Ok(())
    }

    pub(super) fn turn_soon(&mut self, server: usize) {
        let at = self.now + self.rng.range(0, self.profile.gather_ms);
        self.turn_at(server, at);
    }

    fn turn_at(&mut self, server: usize, at: Ms) {
        let it = &mut self.servers[server];
        if it.turn_at.is_none_or(|planned| planned > at) {
            it.turn_at = Some(at);
            let life = it.life;
            self.queue.add(&mut self.rng, at, Happening::ServerTurns { server, life });
        }
    }

    pub(super) fn server_turns(&mut self, server: usize, life: Life) -> Check {
        let now = self.now;
        let it = &mut self.servers[server];
        if it.life != life || it.turn_at.is_none_or(|at| at > now) {
            return Ok(());
        }
        it.turn_at = None;
        let local = it.local(now);
        let Some(machine) = &mut it.machine else { return Ok(()) };
        machine.turn(local);
        let outputs = machine.take_outputs();
        let wake = machine.next_wake(local);
        if self.rng.chance(1_000) {
            cache::check_machine(machine, &self.store.state, &self.store.mirrors)
                .map_err(|text| format!("server {server}: {text}"))?;
        }
        if let Some(wake) = wake.map(|wake| self.servers[server].world_time(wake)) {
            self.turn_at(server, wake.max(now + 1));
        }
        outputs.into_iter().try_for_each(|output| self.carry_out(server, life, output))
    }

    fn carry_out(&mut self, server: usize, life: Life, output: Output) -> Check {
        let request = match output {
            Output::Load { token, asks } => Request::Load { token, asks },
            Output::Written { partition, number } => Request::Written { partition, number },
            Output::Turn { partition, server, for_ms } => Request::Turn { partition, server, for_ms },
            Output::Status => Request::Status,
            Output::Commit(commits) => {
                commits.into_iter().for_each(|commit| self.send_commit(server, life, commit));
                return Ok(());
            }
            Output::Reply { ticket, result } => return self.server_replies(server, ticket, result),
            Output::News { partition, news } => {
                let next = self.store.mirrors[partition.index()].header.next_event;
                ensure!(news.next_event <= next, "server {server} speaks of events that are not committed");
                return Ok(());
            }
            Output::Foreign { .. } => return Ok(()),
            Output::Errands { to, lines } => {
                let from = self.server_name(server);
                self.travel(|_| {
                    let (to, from, lines) = (to.clone(), from.clone(), lines.clone());
                    Happening::ErrandsArrive { to, from, lines }
                });
                return Ok(());
            }
        };
        let delay = self.store_delay(server);
        self.later(delay, delay, Happening::StoreHears { server, life, request });
        Ok(())
    }

    fn send_commit(&mut self, server: usize, life: Life, commit: Commit) {
        let mut at = self.now + self.store_delay(server);
        if !self.rng.chance(500) {
            at = at.max(self.servers[server].last_commit_at + 1);
        }
        self.servers[server].last_commit_at = at;
        let (partition, number) = (commit.partition, commit.expected.number + 1);
        let events = commit.changes.events.len();
        trace!(self, "server {server} sends commit {number} of {partition} with {events} events");
        let request = Request::Commit(commit);
        self.queue.add(&mut self.rng, at, Happening::StoreHears { server, life, request });
    }

    fn server_replies(
        &mut self,
        server: usize,
        ticket: Ticket,
        result: Result<ff_core::Reply, ff_engine::Failure>,
    ) -> Check {
        let Some(open) = self.servers[server].open.remove(&ticket) else {
            return Err(format!("server {server} answers ticket {ticket} a second time: {result:?}"));
        };
        let call = open.call;
        let word = match &result {
            Ok(ff_core::Reply::Created { existing: true, .. }) => "existing",
            Ok(_) => "ok",
            Err(failure) => failure.code(),
        };
        trace!(self, "server {server} answers call {call} {}: {word}", self.calls[call].what.name());
        let asked = Asked { what: &self.calls[call].what, since: open.since };
        self.store
            .oracle
            .answered(&self.store.history, &self.store.mirrors, &asked, &result)
            .map_err(|text| format!("server {server}, call {call}: {text}"))?;
        self.send_reply(call, result);
        Ok(())
    }

    /// Compares the memory of every server with the store.
    pub(super) fn check_caches(&self) -> Check {
        for (n, server) in self.servers.iter().enumerate() {
            if let Some(machine) = &server.machine {
                cache::check_machine(machine, &self.store.state, &self.store.mirrors)
                    .map_err(|text| format!("server {n}: {text}"))?;
            }
        }
        Ok(())
    }

    pub(super) fn home(&self, route: ff_core::Route) -> PartitionId {
        route.partition(PARTITIONS)
    }
}

/// What an answer of the store says, for the trace.
fn heard(input: &Input) -> String {
    match input {
        Input::Loaded { token, result: Ok(loaded) } => {
            format!("a load of {} at version {}", token.partition, loaded.version.number)
        }
        Input::Loaded { token, result: Err(error) } => {
            format!("a load of {} failed: {error}", token.partition)
        }
        Input::Committed { partition, outcome, .. } => format!("a commit of {partition}: {outcome:?}"),
        Input::Written { partition, number, result } => {
            format!("who wrote {number} of {partition}: {result:?}")
        }
        Input::Turn { partition, result } => format!("whether it has the turn of {partition}: {result:?}"),
        Input::Errands { from, lines } => format!("from {from} {} lines about errands", lines.len()),
        Input::Status(Ok((_, list))) => {
            let versions: Vec<u64> = list.iter().map(|status| status.version.number).collect();
            format!("a status {versions:?}")
        }
        _ => String::new(),
    }
}
