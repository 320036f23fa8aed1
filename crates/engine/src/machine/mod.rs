//! The machine: everything the engine decides, without threads, clocks or I/O.
//!
//! It is fed [`Input`]s (commands, polls, the store's answers), told the local time, and asked for its
//! [`Output`]s (what to load, what to commit, what to answer). The driver runs it on a thread against a real
//! store; the simulator runs several of them against one memory store, in any order it likes.
//!
//! One [`Runner`] serves each partition. The machine itself holds what spans partitions: polls that wait for
//! work, messages between partitions, and replies that wait for such messages.

pub mod affinity;
mod batch;
mod deliveries;
mod errands;
mod polls;
mod runner;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::commands::Poll;
use ff_core::id::{ExecutionId, InstanceId};
use ff_core::key::{Ask, Key};
use ff_core::limits::Limits;
use ff_core::{Command, Execution, Flow, Ms, PartitionId, Payload, Reply, Route, ServerId};
use ff_store::{Commit, Loaded, Outcome, Status, StoreError, Version, Written};

use crate::config::MachineConfig;
use crate::failure::Failure;
use batch::{Origin, Pending};
use deliveries::Deliveries;
use errands::Errands;
pub use errands::Line;
use polls::Polls;
use runner::Runner;

/// How long servers count as being in each other's way after a commit that conflicted.
const DISPUTED_MS: Ms = 5_000;

/// The caller's number for a command or poll; its reply carries it.
pub type Ticket = u64;

/// Which load an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadToken {
    pub partition: PartitionId,
    era: u64,
    number: u64,
}

// Most inputs are commands; a box for each would cost more than the moves.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Input {
    Command {
        ticket: Ticket,
        partition: PartitionId,
        command: Command,
        give_up_at: Ms,
    },
    /// A worker waits for work until `give_up_at`; then it is answered with nothing.
    Poll {
        ticket: Ticket,
        poll: Arc<Poll>,
        max: usize,
        give_up_at: Ms,
    },
    /// The caller of a poll is gone.
    PollDropped {
        ticket: Ticket,
    },
    Loaded {
        token: LoadToken,
        result: Result<Loaded, StoreError>,
    },
    Committed {
        partition: PartitionId,
        id: ff_core::CommitId,
        outcome: Outcome,
    },
    /// Who has written version `number`; answers may come late and in any order.
    Written {
        partition: PartitionId,
        number: u64,
        result: Result<Written, StoreError>,
    },
    /// Whether the turn that was asked for is ours.
    Turn {
        partition: PartitionId,
        result: Result<bool, StoreError>,
    },
    Status(Result<(Ms, Vec<Status>), StoreError>),
    /// What another server asks for or answers.
    Errands {
        from: String,
        lines: Vec<Line>,
    },
}

/// What a commit of ours has done that others may be waiting for.
#[derive(Debug, Default)]
pub struct News {
    /// The number the partition's next event gets.
    pub next_event: u64,
    /// How many commands the commit carries.
    pub commands: usize,
    /// How long each execution whose first attempt starts was ready for it.
    pub waited_ms: Vec<Ms>,
    /// Flows that have ended.
    pub flows: Vec<Arc<Flow>>,
    /// Executions that ended, with the result if there is one.
    pub ended: Vec<(Arc<Execution>, Option<Payload>)>,
    /// Executions of which no trace is left.
    pub removed: Vec<ExecutionId>,
    /// Leases that were taken away or should end: the worker holding them should look.
    pub disturbed: Vec<(InstanceId, ExecutionId)>,
    /// Executions that may have new output.
    pub streams: Vec<ExecutionId>,
}

#[derive(Debug)]
pub enum Output {
    Load {
        token: LoadToken,
        asks: Vec<Ask>,
    },
    Commit(Vec<Commit>),
    Written {
        partition: PartitionId,
        number: u64,
    },
    /// Ask for the turn of a partition.
    Turn {
        partition: PartitionId,
        server: ServerId,
        for_ms: Ms,
    },
    Status,
    Reply {
        ticket: Ticket,
        result: Result<Reply, Failure>,
    },
    /// For another server. It may be lost, or come twice.
    Errands {
        to: String,
        lines: Vec<Line>,
    },
    /// A commit of ours is durable.
    News {
        partition: PartitionId,
        news: News,
    },
    /// Somebody else has committed; these records changed (`None`: it is not known which).
    Foreign {
        partition: PartitionId,
        keys: Option<Vec<Key>>,
        /// Who should look at which lease.
        disturbed: Vec<(InstanceId, ExecutionId)>,
        next_event: u64,
    },
}

/// What waits and what fails, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MachineStats {
    pub queued: usize,
    pub in_flight: usize,
    pub waiting_polls: usize,
    pub batches: u64,
    pub commands: u64,
    pub conflicts: u64,
    /// How often a partition was ours alone for a moment, because commits kept conflicting.
    pub turns: u64,
    pub unknown_outcomes: u64,
    pub fired: u64,
    pub stray: u64,
    /// Agenda entries that had an effect, failed, or came late, by their kind.
    pub agenda: BTreeMap<Cow<'static, str>, AgendaStats>,
    /// Agenda entries that failed three times and are tried once a minute.
    pub stuck: Vec<String>,
}

/// What became of the agenda entries of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AgendaStats {
    pub fired: u64,
    pub failed: u64,
    /// Those that fail again and again.
    pub stuck: u64,
    /// How late they were, together.
    pub late_ms: u64,
}

#[derive(Debug)]
pub struct Machine {
    runners: Vec<Runner>,
    polls: Polls,
    deliveries: Deliveries,
    errands: Errands,
    gives_errands: bool,
    outputs: Vec<Output>,
    /// The runner that is served first next time, so that none is always last.
    first: usize,
    status_asked: bool,
    /// How far the store's clock is ahead of the local one.
    offset_ms: Ms,
}

impl Machine {
    /// `seed` makes ids and jitter; two machines on one store must not share it.
    pub fn new(partitions: u16, limits: Arc<Limits>, config: MachineConfig, seed: u64) -> Machine {
        let config = Arc::new(config);
        let server = ServerId::from_parts(0, Route(0), seed);
        let runner = |n: u16| {
            let seed = seed.wrapping_add(u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            Runner::new(PartitionId(n), partitions, server, limits.clone(), config.clone(), seed)
        };
        Machine {
            runners: (0..partitions).map(runner).collect(),
            polls: Polls::default(),
            deliveries: Deliveries::default(),
            errands: Errands::default(),
            gives_errands: config.errands,
            outputs: Vec::new(),
            first: 0,
            status_asked: false,
            offset_ms: 0,
        }
    }

    /// Takes in one input. Nothing is decided before [`turn`](Self::turn).
    pub fn accept(&mut self, at: Ms, input: Input) {
        match input {
            Input::Command { ticket, partition, command, give_up_at } => {
                let origin = Origin::Caller(ticket);
                let pending = Pending { origin, command, give_up_at };
                let runner = &mut self.runners[partition.index()];
                if let Some(pending) = self.errands.give(at, ticket, pending, runner)
                    && let Err(failure) = runner.enqueue(pending)
                {
                    self.outputs.push(Output::Reply { ticket, result: Err(failure) });
                }
                if self.errands.has_become_many() {
                    self.dispute(at);
                }
            }
            Input::Poll { ticket, poll, max, give_up_at } => {
                self.polls.add(at, ticket, poll, max, give_up_at)
            }
            Input::PollDropped { ticket } => drop(self.drop_poll(ticket)),
            Input::Loaded { token, result } => {
                if let Ok(loaded) = &result {
                    self.offset_ms = loaded.now - at;
                }
                self.runners[token.partition.index()].loaded(at, token, result, &mut self.outputs);
            }
            Input::Committed { partition, id, outcome } => {
                if let Outcome::Committed { now } = &outcome {
                    self.offset_ms = now - at;
                }
                if self.gives_errands && matches!(outcome, Outcome::Conflict) {
                    self.dispute(at);
                }
                let runner = &mut self.runners[partition.index()];
                runner.committed(at, id, outcome, &mut self.outputs);
            }
            Input::Written { partition, number, result } => {
                self.runners[partition.index()].written(at, number, result, &mut self.outputs);
            }
            Input::Turn { partition, result } => self.runners[partition.index()].turn_given(at, result),
            Input::Errands { from, lines } => {
                self.errands.hear(at, &from, lines, &mut self.runners, &mut self.outputs);
            }
            Input::Status(result) => {
                self.status_asked = false;
                match result {
                    Ok((now, statuses)) => {
                        self.offset_ms = now - at;
                        for status in statuses {
                            let runner = &mut self.runners[status.partition.index()];
                            runner.status(at, status, &mut self.outputs);
                        }
                    }
                    Err(error) => self.runners.iter_mut().for_each(|it| it.status_failed(at, &error)),
                }
            }
        }
        self.settle();
    }

    fn dispute(&mut self, at: Ms) {
        self.runners.iter_mut().for_each(|runner| runner.disputed_until = at + DISPUTED_MS);
    }

    /// Decides what can be decided now. Call it after accepting everything that was at hand: what arrives
    /// together is decided and committed together.
    pub fn turn(&mut self, at: Ms) {
        let count = self.runners.len();
        let mut commits = Vec::new();
        self.errands.expire(at, &mut self.runners);
        // Polls take work of the partitions this server prefers before they look elsewhere.
        for preferred in [true, false] {
            for n in 0..count {
                let runner = &mut self.runners[(self.first + n) % count];
                if runner.is_preferred() == preferred {
                    runner.turn(at, self.offset_ms, &mut self.polls, &mut self.outputs, &mut commits);
                }
            }
        }
        self.first = (self.first + 1) % count;
        if !commits.is_empty() {
            self.outputs.push(Output::Commit(commits));
        }
        for (ticket, result) in self.polls.expire(at) {
            self.outputs.push(Output::Reply { ticket, result });
        }
        self.settle();
        self.deliver(at);
        self.errands.send(&mut self.outputs);
        if !self.status_asked && self.runners.iter().any(Runner::wants_confirmation) {
            self.status_asked = true;
            self.runners.iter_mut().for_each(Runner::confirmation_asked);
            self.outputs.push(Output::Status);
        }
    }

    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// When the machine wants its next turn even if nothing arrives.
    pub fn next_wake(&self, at: Ms) -> Option<Ms> {
        let runners = self.runners.iter().filter_map(|runner| runner.next_wake(at, self.offset_ms));
        let elsewhere = self.runners.iter().filter_map(|runner| runner.patience_ends(at, &self.polls));
        let others = self.polls.next_expiry().into_iter().chain(self.deliveries.next_retry());
        let others = others.chain(self.errands.next_expiry());
        runners.chain(elsewhere).chain(others).min()
    }

    /// Asks for a status read now, to notice what other servers did.
    pub fn ask_status(&mut self) {
        if !self.status_asked {
            self.status_asked = true;
            self.runners.iter_mut().for_each(Runner::confirmation_asked);
            self.outputs.push(Output::Status);
        }
    }

    /// Which servers are alive, this one under its name. Whoever comes later in a partition's order fires what
    /// is due there later, so that mostly one server does.
    pub fn set_servers(&mut self, server: &str, alive: &[String]) {
        let partitions = self.runners.len() as u16;
        if self.gives_errands {
            self.errands.set_servers(server, alive, partitions);
        }
        let (ranks, is_alone) = (affinity::ranks(server, alive, partitions), alive.len() < 2);
        self.runners.iter_mut().zip(ranks).for_each(|(runner, rank)| runner.set_rank(rank, is_alone));
    }

    /// Whether what is known of a partition may be older than what the last status has told.
    pub fn is_behind(&self, partition: PartitionId) -> bool {
        self.runners[partition.index()].is_behind()
    }

    /// Whether a worker instance is known to get work: its partition is served, and nothing there is known to be missed.
    pub fn knows_active(&self, instance: InstanceId) -> bool {
        let home = instance.route().partition(self.runners.len() as u16);
        self.runners[home.index()].knows_active(instance)
    }

    /// Somebody here waits for what others do in a partition: it is read again whenever others commit there.
    pub fn watch(&mut self, partition: PartitionId, watched: bool) {
        self.runners[partition.index()].watched = watched;
    }

    /// Whether every partition was up to date at some time since `since`; those that were not are read.
    pub fn is_fresh_since(&mut self, since: Ms) -> bool {
        let stale = self.runners.iter_mut().filter(|runner| runner.fresh_at < Some(since));
        stale.map(|runner| runner.wanted = true).count() == 0
    }

    /// Forgets a poll; false if it has been answered or a claim for it is on its way.
    pub fn drop_poll(&mut self, ticket: Ticket) -> bool {
        self.polls.remove(ticket)
    }

    /// Takes in no more posted rows and no more errands, and gives none; what was read or taken is still decided.
    pub fn close_inbox(&mut self) {
        self.runners.iter_mut().for_each(Runner::close_inbox);
        self.errands.close(&mut self.runners);
    }

    pub fn gives_errands(&self) -> bool {
        self.gives_errands
    }

    /// Whether other servers probably have errands for this one, or answers: it has asked for something, was asked a
    /// moment ago, or others have just committed where it comes first.
    pub fn expects_errands(&self, at: Ms) -> bool {
        self.errands.are_expected(at) || self.runners.iter().any(|runner| at < runner.disputed_until)
    }

    pub fn has_waiting_polls(&self) -> bool {
        !self.polls.is_empty()
    }

    /// Whether nothing is queued, parked or on its way to the store.
    pub fn is_idle(&self) -> bool {
        self.errands.is_idle() && self.runners.iter().all(Runner::is_idle)
    }

    /// Answers every command that has not been sent to the store yet.
    pub fn abandon(&mut self) -> usize {
        let mut count = 0;
        for runner in &mut self.runners {
            count += runner.abandon(&mut self.outputs);
        }
        for ticket in self.polls.drain() {
            let result = Ok(Reply::Claimed(Vec::new()));
            self.outputs.push(Output::Reply { ticket, result });
        }
        count
    }

    /// The store's time as this machine knows it.
    pub fn store_now(&self, at: Ms) -> Ms {
        at + self.offset_ms
    }

    pub fn stats(&self) -> MachineStats {
        let mut stats = MachineStats { waiting_polls: self.polls.len(), ..MachineStats::default() };
        for runner in &self.runners {
            runner.add_stats(&mut stats);
        }
        stats
    }

    /// The stored state each runner believes in; the simulator compares it with the store.
    pub fn workspace(&self, partition: PartitionId) -> &ff_core::Workspace {
        self.runners[partition.index()].workspace()
    }

    /// The version the workspace of a partition stands for; `None` while something decided is not committed
    /// or the partition is not being served.
    pub fn settled_version(&self, partition: PartitionId) -> Option<Version> {
        self.runners[partition.index()].settled_version()
    }

    /// Passes on what runners have committed for the machine itself: messages to send, applied and
    /// acknowledged, and replies that wait for them.
    fn settle(&mut self) {
        for n in 0..self.runners.len() {
            for (entry, message) in self.runners[n].take_messages() {
                self.deliveries.send(PartitionId(n as u16), entry, message, &mut self.runners);
            }
            for (pending, result) in self.runners[n].take_internal() {
                match pending.origin {
                    Origin::Errand(slot) => self.errands.done(slot, result),
                    _ => self.deliveries.done(PartitionId(n as u16), pending, result, &mut self.runners),
                }
            }
            for global in self.runners[n].take_globals() {
                self.deliveries.wait_for(PartitionId(n as u16), global);
            }
        }
        self.deliveries.release(&mut self.outputs);
    }

    /// Sends messages that nobody has delivered for a while, such as those of a server that died.
    fn deliver(&mut self, at: Ms) {
        let due: Vec<_> = self
            .runners
            .iter_mut()
            .enumerate()
            .flat_map(|(n, runner)| {
                runner.due_messages(at, self.offset_ms).into_iter().map(move |it| (PartitionId(n as u16), it))
            })
            .collect();
        for (from, (entry, message)) in due {
            self.deliveries.send(from, entry, message, &mut self.runners);
        }
        self.deliveries.send_refused(at, &mut self.runners);
    }
}
