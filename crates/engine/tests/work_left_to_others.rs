//! How long a poll leaves work to the server that comes first where it is, at a machine fed by hand.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::sync::Arc;

use ff_core::class::Capabilities;
use ff_core::commands::{Create, Poll, RegisterWorker, Renew};
use ff_core::execution::Fence;
use ff_core::limits::Limits;
use ff_core::{Command, ExecutionId, InstanceId, Kind, LaneName, Ms, PartitionId, Payload, Reply, Route};
use ff_engine::config::MachineConfig;
use ff_engine::machine::affinity::ranks;
use ff_engine::machine::{Input, Machine, Output, Ticket};
use ff_store::memory::MemoryState;
use ff_store::{Commit, Outcome};

const PARTITION: PartitionId = PartitionId(0);
/// Longer than any poll waits here.
const LONG_MS: Ms = 4_000;

/// A server with a store that others use too.
struct Stand {
    store: MemoryState,
    machines: Vec<Machine>,
    at: Ms,
    last: u64,
    /// Of what was claimed last.
    fence: Option<Fence>,
}

impl Stand {
    /// Two servers on one partition, the first one first.
    fn new() -> Stand {
        Stand::with(MachineConfig::default())
    }

    /// Two servers that are in each other's way.
    fn disputed() -> Stand {
        let mut stand = Stand::with(MachineConfig { errands: true, ..MachineConfig::default() });
        // Made for this very call, so nothing is read that would tell of the other server's commits.
        for (server, n) in [(1, 1_001), (0, 1_002), (1, 1_003)] {
            let id = ExecutionId::from_parts(1, Route(0), n);
            let create = Create::new(id, Kind::parse("k").unwrap(), Payload::json("1"));
            stand.command(server, Create { fresh: true, ..create });
        }
        assert_eq!(stand.machines[1].stats().conflicts, 1, "the second server was in nobody's way");
        stand
    }

    fn with(config: MachineConfig) -> Stand {
        let names: Vec<String> = (0..2).map(|n| format!("server {n}")).collect();
        let mut machines = Vec::new();
        for (seed, name) in (7..).zip(&names) {
            let mut machine = Machine::new(1, Arc::new(Limits::default()), config.clone(), seed);
            machine.set_servers(name, &names);
            machines.push(machine);
        }
        if ranks(&names[0], &names, 1) != [0] {
            machines.reverse();
        }
        Stand { store: MemoryState::new(1, uuid::Uuid::nil()), machines, at: 1, last: 0, fence: None }
    }

    fn command(&mut self, server: usize, command: impl Into<Command>) {
        self.last += 1;
        let input = Input::Command {
            ticket: self.last,
            partition: PARTITION,
            command: command.into(),
            give_up_at: Ms::MAX,
        };
        self.machines[server].accept(self.at, input);
        self.settle(server);
    }

    fn create(&mut self, server: usize) {
        let id = ExecutionId::from_parts(self.at, Route(0), self.last);
        self.command(server, Create::new(id, Kind::parse("k").unwrap(), Payload::json("1")));
    }

    fn poll(&mut self, server: usize) -> Ticket {
        self.poll_for(server, LONG_MS)
    }

    /// A poll that is answered with nothing after so long.
    fn poll_for(&mut self, server: usize, wait_ms: Ms) -> Ticket {
        let instance = InstanceId::from_parts(1, Route(0), 1 + server as u64);
        let (name, lanes) = (ff_core::WorkerName::parse("w").unwrap(), vec![LaneName::default()]);
        self.command(
            server,
            RegisterWorker {
                instance,
                name: name.clone(),
                lanes: lanes.clone(),
                capabilities: Capabilities::default(),
                build: None,
                server: None,
                owner: None,
                ttl_ms: 600_000,
            },
        );
        let kinds = vec![Kind::parse("k").unwrap()];
        let poll = Poll {
            worker: name,
            instance,
            lanes,
            kinds,
            namespaces: vec![],
            capabilities: Capabilities::default(),
        };
        self.last += 1;
        let give_up_at = self.at + wait_ms;
        let input = Input::Poll { ticket: self.last, poll: Arc::new(poll), max: 1, give_up_at };
        self.machines[server].accept(self.at, input);
        self.last
    }

    /// Lets a server do what it can do now, and says which polls were given work.
    fn settle(&mut self, server: usize) -> Vec<Ticket> {
        let mut served = Vec::new();
        let machine = &mut self.machines[server];
        for _ in 0..10 {
            machine.turn(self.at);
            for output in machine.take_outputs() {
                match output {
                    Output::Load { token, asks } => {
                        let result = self.store.load(PARTITION, &asks, self.at);
                        machine.accept(self.at, Input::Loaded { token, result });
                    }
                    Output::Commit(commits) => {
                        for commit in commits {
                            let Commit { partition, id, .. } = commit;
                            let outcome = self.store.commit(commit, self.at);
                            machine.accept(self.at, Input::Committed { partition, id, outcome });
                        }
                    }
                    Output::Reply { ticket, result: Ok(Reply::Claimed(list)) } if !list.is_empty() => {
                        self.fence = Some(list[0].fence());
                        served.push(ticket);
                    }
                    _ => {}
                }
            }
        }
        served
    }

    /// How long it takes until one of many short polls, one after the other, is given work.
    fn served_after_short_polls(&mut self, server: usize) -> Ms {
        let from = self.at;
        while self.at < from + LONG_MS / 2 {
            self.machines[server].accept(self.at, Input::Status(Ok((self.at, self.store.status()))));
            let poll = self.poll_for(server, 1);
            if self.settle(server).contains(&poll) {
                return self.at - from;
            }
            self.at += 5;
        }
        panic!("no poll gets anything");
    }

    /// How long it takes until a poll is given work; the store is looked at every few milliseconds.
    fn served_after(&mut self, server: usize, ticket: Ticket) -> Ms {
        let from = self.at;
        while self.at < from + LONG_MS / 2 {
            self.machines[server].accept(self.at, Input::Status(Ok((self.at, self.store.status()))));
            if self.settle(server).contains(&ticket) {
                return self.at - from;
            }
            self.at += 5;
        }
        panic!("the poll gets nothing");
    }
}

#[test]
fn work_where_this_server_comes_first_is_taken_at_once() {
    let mut stand = Stand::new();
    stand.create(1);
    let poll = stand.poll(0);
    assert_eq!(stand.served_after(0, poll), 0);
}

#[test]
fn work_elsewhere_is_left_to_the_first_for_a_moment_and_never_for_ever() {
    let mut stand = Stand::new();
    stand.create(0);
    let poll = stand.poll(1);
    assert_eq!(stand.served_after(1, poll), 25);
}

/// Whoever comes first takes a little work soon, if servers are in each other's way: it is busy, not absent. Of much
/// work there is enough for all.
#[test]
fn servers_in_each_others_way_leave_a_little_work_for_longer_than_much() {
    for (more, after) in [(0, 1_000), (300, 200)] {
        let mut stand = Stand::disputed();
        (0..more).for_each(|_| stand.create(0));
        let poll = stand.poll(1);
        assert_eq!(stand.served_after(1, poll), after, "with {more} more");
    }
}

#[test]
fn a_poll_whose_claims_were_all_in_vain_has_found_nothing() {
    let mut stand = Stand::new();
    stand.create(0);
    let poll = stand.poll_for(0, 300);
    let (mut claims, mut heard) = (0, Vec::new());
    for _ in 0..400 {
        let machine = &mut stand.machines[0];
        machine.turn(stand.at);
        for output in machine.take_outputs() {
            match output {
                Output::Load { token, asks } => {
                    let result = stand.store.load(PARTITION, &asks, stand.at);
                    machine.accept(stand.at, Input::Loaded { token, result });
                }
                Output::Commit(commits) => {
                    for Commit { partition, id, .. } in commits {
                        claims += 1;
                        let outcome = Outcome::Conflict;
                        machine.accept(stand.at, Input::Committed { partition, id, outcome });
                    }
                }
                Output::Turn { partition, .. } => {
                    machine.accept(stand.at, Input::Turn { partition, result: Ok(false) });
                }
                Output::Reply { ticket, result } => heard.push((ticket, result)),
                _ => {}
            }
        }
        stand.at += 1;
    }
    assert!(claims > 1, "{claims} claims");
    assert_eq!(heard, [(poll, Ok(Reply::Claimed(Vec::new())))]);
}

#[test]
fn whoever_waits_since_long_takes_work_at_once_wherever_it_is() {
    let mut stand = Stand::new();
    let poll = stand.poll(1);
    stand.at += 100;
    stand.create(0);
    assert_eq!(stand.served_after(1, poll), 0);
}

/// Otherwise a server that only submits would slow down the one that only works.
#[test]
fn whoever_has_taken_work_goes_on_at_once_as_long_as_nobody_else_takes_any() {
    let mut stand = Stand::new();
    (0..4).for_each(|_| stand.create(0));
    let poll = stand.poll(1);
    assert_eq!(stand.served_after(1, poll), 25);
    stand.create(0);
    let poll = stand.poll(1);
    assert_eq!(stand.served_after(1, poll), 0);
    let first = stand.poll(0);
    assert_eq!(stand.served_after(0, first), 0);
    let poll = stand.poll(1);
    assert_eq!(stand.served_after(1, poll), 25);
}

/// A server that others have renew their leases takes no work.
#[test]
fn leases_that_another_server_renews_were_not_taken_by_it() {
    let mut stand = Stand::new();
    (0..2).for_each(|_| stand.create(0));
    let poll = stand.poll(1);
    assert_eq!(stand.served_after(1, poll), 25);
    let fence = stand.fence.take().unwrap();
    stand.at += 1_000;
    stand.machines[0].accept(stand.at, Input::Status(Ok((stand.at, stand.store.status()))));
    let before = stand.store.status()[0].version.number;
    stand.command(0, Renew { fences: vec![fence] });
    assert_eq!(stand.store.status()[0].version.number, before + 1, "it was not renewed");
    let poll = stand.poll(1);
    assert_eq!(stand.served_after(1, poll), 0);
}

/// The moment passes without anything arriving: the machine says when it wants its next turn.
#[test]
fn the_machine_wakes_when_the_moment_is_over() {
    let mut stand = Stand::new();
    stand.create(0);
    stand.poll(1);
    stand.machines[1].accept(stand.at, Input::Status(Ok((stand.at, stand.store.status()))));
    assert_eq!(stand.settle(1), Vec::<Ticket>::new());
    assert_eq!(stand.machines[1].next_wake(stand.at), Some(stand.at + 25));
}

/// A poll that is too short to wait for its turn counts on those before it.
#[test]
fn work_that_was_left_for_long_enough_is_given_to_any_poll_however_short() {
    let mut stand = Stand::new();
    stand.create(0);
    assert_eq!(stand.served_after_short_polls(1), 25);
}

#[test]
fn short_polls_leave_work_anew_after_the_first_server_took_some() {
    let mut stand = Stand::new();
    (0..3).for_each(|_| stand.create(0));
    let short = stand.poll_for(1, 1);
    assert_eq!(stand.settle(1), Vec::<Ticket>::new());
    stand.at += 20;
    let first = stand.poll(0);
    assert_eq!(stand.served_after(0, first), 0);
    stand.at += 5;
    assert_ne!(stand.served_after_short_polls(1), 0, "{short} began to wait before");
}
