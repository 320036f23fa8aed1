//! What servers have each other carry out while they are in each other's way, at machines fed by hand.

#![allow(clippy::unwrap_used)] // What cannot be set up is a failed test.

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::class::Capabilities;
use ff_core::commands::{Complete, Create, Delay, Poll, RegisterWorker};
use ff_core::execution::{Fence, How};
use ff_core::limits::Limits;
use ff_core::{Command, ExecutionId, InstanceId, Kind, LaneName, Ms, PartitionId, Payload, Reply, Route};
use ff_engine::Failure;
use ff_engine::config::MachineConfig;
use ff_engine::machine::affinity::ranks;
use ff_engine::machine::{Input, Line, Machine, Output, Ticket};
use ff_store::Commit;
use ff_store::memory::MemoryState;

const PARTITION: PartitionId = PartitionId(0);
const FIRST: usize = 0;
const SECOND: usize = 1;
/// Longer than an answer is waited for.
const PATIENCE_MS: Ms = 1_000;

type Replies = BTreeMap<Ticket, Result<Reply, Failure>>;

/// Two servers on one partition of one store.
struct Stand {
    store: MemoryState,
    machines: Vec<Machine>,
    names: Vec<String>,
    at: Ms,
    last: Ticket,
    replies: Replies,
    /// Who is to hear what from whom.
    post: Vec<(String, String, Vec<Line>)>,
}

impl Stand {
    fn new() -> Stand {
        Stand::with(MachineConfig { errands: true, ..MachineConfig::default() })
    }

    fn with(config: MachineConfig) -> Stand {
        let mut names: Vec<String> = (0..2).map(|n| format!("server {n}")).collect();
        if ranks(&names[0], &names, 1) != [0] {
            names.reverse();
        }
        let machine = |(seed, name): (u64, &String)| {
            let mut machine = Machine::new(1, Arc::new(Limits::default()), config.clone(), seed);
            machine.set_servers(name, &names);
            machine
        };
        let machines = (7..).zip(&names).map(machine).collect();
        let store = MemoryState::new(1, uuid::Uuid::nil());
        Stand { store, machines, names, at: 1, last: 0, replies: Replies::new(), post: Vec::new() }
    }

    fn ask(&mut self, server: usize, command: impl Into<Command>, give_up_at: Ms) -> Ticket {
        self.last += 1;
        let (ticket, command) = (self.last, command.into());
        self.machines[server]
            .accept(self.at, Input::Command { ticket, partition: PARTITION, command, give_up_at });
        self.settle(server);
        ticket
    }

    /// Lets a server do what it can do now. What it has for the other one stays in the post.
    fn settle(&mut self, server: usize) {
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
                    Output::Status => {
                        let status = Ok((self.at, self.store.status()));
                        machine.accept(self.at, Input::Status(status));
                    }
                    Output::Errands { to, lines } => self.post.push((to, self.names[server].clone(), lines)),
                    Output::Reply { ticket, result } => drop(self.replies.insert(ticket, result)),
                    _ => {}
                }
            }
        }
    }

    /// Brings everybody what is in the post, until nothing is left.
    fn deliver(&mut self) {
        while let Some((to, from, lines)) = self.post.pop() {
            let server = self.names.iter().position(|name| *name == to).unwrap();
            self.machines[server].accept(self.at, Input::Errands { from, lines });
            self.settle(server);
        }
    }

    /// An execution that runs, claimed at the first server.
    fn started(&mut self) -> Fence {
        let instance = InstanceId::from_parts(1, Route(0), 1);
        let (worker, lanes) = (ff_core::WorkerName::parse("w").unwrap(), vec![LaneName::default()]);
        let capabilities = Capabilities::default();
        let register = RegisterWorker {
            instance,
            name: worker.clone(),
            lanes: lanes.clone(),
            capabilities: capabilities.clone(),
            build: None,
            server: None,
            owner: None,
            ttl_ms: 600_000,
        };
        self.ask(FIRST, register, Ms::MAX);
        let id = ExecutionId::from_parts(self.at, Route(0), self.last);
        let kind = Kind::parse("k").unwrap();
        self.ask(FIRST, Create::new(id, kind.clone(), Payload::json("1")), Ms::MAX);
        let poll = Poll { worker, instance, lanes, kinds: vec![kind], namespaces: vec![], capabilities };
        self.last += 1;
        let (ticket, give_up_at) = (self.last, Ms::MAX);
        self.machines[FIRST]
            .accept(self.at, Input::Poll { ticket, poll: Arc::new(poll), max: 1, give_up_at });
        self.settle(FIRST);
        let Ok(Reply::Claimed(claimed)) = &self.replies[&ticket] else { panic!("nothing was claimed") };
        claimed[0].fence()
    }

    /// The second server commits on an old view and is in the way of the first.
    fn dispute(&mut self) {
        // Made for this very call, so nothing is read that would tell of the other server's commits.
        let create = |n| {
            let id = ExecutionId::from_parts(1, Route(0), n);
            Create { fresh: true, ..Create::new(id, Kind::parse("k").unwrap(), Payload::json("1")) }
        };
        self.ask(SECOND, create(1_001), Ms::MAX);
        self.ask(FIRST, create(1_002), Ms::MAX);
        self.ask(SECOND, create(1_003), Ms::MAX);
        assert_eq!(self.machines[SECOND].stats().conflicts, 1, "the second server was in nobody's way");
    }
}

fn complete(fence: Fence) -> Complete {
    Complete { fence, result: None }
}

const COMPLETED: Result<Reply, Failure> = Ok(Reply::LeaseEnded(How::Completed));

#[test]
fn servers_that_are_not_in_each_others_way_decide_themselves() {
    let mut stand = Stand::new();
    let fence = stand.started();
    let ticket = stand.ask(SECOND, complete(fence), Ms::MAX);
    assert_eq!(stand.post, []);
    assert_eq!(stand.replies[&ticket], COMPLETED);
}

#[test]
fn after_a_conflict_the_first_server_ends_leases_for_the_others() {
    let mut stand = Stand::new();
    let fence = stand.started();
    stand.dispute();
    let commits = stand.store.status()[0].version.number;
    let ticket = stand.ask(SECOND, complete(fence), Ms::MAX);
    assert_eq!((stand.post.len(), stand.replies.get(&ticket)), (1, None));
    assert_eq!(stand.store.status()[0].version.number, commits, "the second server has committed");
    stand.deliver();
    assert_eq!(stand.replies[&ticket], COMPLETED);
    assert_eq!(stand.store.status()[0].version.number, commits + 1);
    // What is refused there is refused here.
    let ticket = stand.ask(SECOND, complete(Fence { epoch: fence.epoch + 1, ..fence }), Ms::MAX);
    stand.deliver();
    assert!(matches!(stand.replies[&ticket], Err(Failure::Rejected(_))), "{:?}", stand.replies[&ticket]);
}

#[test]
fn as_long_as_there_are_many_errands_nobody_tries_without_them() {
    for (each_second, handed_over) in [(60, true), (10, false)] {
        let mut stand = Stand::new();
        let fence = stand.started();
        stand.dispute();
        for _ in 0..8 {
            for _ in 0..each_second {
                stand.ask(SECOND, complete(fence), Ms::MAX);
            }
            stand.deliver();
            stand.at += 1_000;
        }
        let ticket = stand.ask(SECOND, complete(fence), Ms::MAX);
        assert_eq!(!stand.post.is_empty(), handed_over, "{each_second} a second");
        stand.deliver();
        assert_eq!(stand.replies[&ticket], COMPLETED);
    }
}

#[test]
fn what_must_not_happen_twice_is_not_handed_over() {
    let mut stand = Stand::new();
    let fence = stand.started();
    stand.dispute();
    let ticket = stand.ask(SECOND, Delay::new(fence, 1_000), Ms::MAX);
    assert_eq!(stand.post, []);
    assert!(stand.replies[&ticket].is_ok());
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for() {
    for carried_out in [false, true] {
        let mut stand = Stand::new();
        let fence = stand.started();
        stand.dispute();
        let ticket = stand.ask(SECOND, complete(fence), Ms::MAX);
        if carried_out {
            let (_, from, lines) = stand.post.pop().unwrap();
            stand.machines[FIRST].accept(stand.at, Input::Errands { from, lines });
            stand.settle(FIRST);
        }
        let late = std::mem::take(&mut stand.post);
        stand.at += PATIENCE_MS;
        stand.settle(SECOND);
        assert_eq!(stand.replies[&ticket], COMPLETED);
        // The first server was silent, so it is left alone for a while.
        let other = stand.started();
        let ticket = stand.ask(SECOND, complete(other), Ms::MAX);
        assert_eq!(stand.post, []);
        assert_eq!(stand.replies[&ticket], COMPLETED);
        // What comes late is carried out again, or answered again, without harm.
        stand.replies.clear();
        stand.post = late;
        stand.deliver();
        assert_eq!(stand.replies, Replies::new());
    }
}

#[test]
fn a_caller_that_gives_up_while_another_server_is_asked_does_not_hear_that_nothing_happened() {
    let mut stand = Stand::new();
    let fence = stand.started();
    stand.dispute();
    let ticket = stand.ask(SECOND, complete(fence), stand.at + 10);
    stand.at += 10;
    stand.settle(SECOND);
    assert_eq!(stand.replies[&ticket], Err(Failure::OutcomeUnknown));
}

#[test]
fn a_server_that_stops_decides_what_it_had_handed_over_and_takes_nothing_more() {
    let mut stand = Stand::new();
    let fence = stand.started();
    stand.dispute();
    let ticket = stand.ask(SECOND, complete(fence), Ms::MAX);
    assert!(!stand.machines[SECOND].is_idle());
    stand.machines[SECOND].close_inbox();
    stand.machines[FIRST].close_inbox();
    stand.settle(SECOND);
    assert_eq!(stand.replies[&ticket], COMPLETED);
    stand.deliver();
    assert!(stand.machines.iter().all(Machine::is_idle));
}

#[test]
fn where_errands_are_off_everybody_decides_for_itself() {
    let mut stand = Stand::with(MachineConfig::default());
    let fence = stand.started();
    stand.dispute();
    let ticket = stand.ask(SECOND, complete(fence), Ms::MAX);
    assert_eq!(stand.post, []);
    assert_eq!(stand.replies[&ticket], COMPLETED);
}
