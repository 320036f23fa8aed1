//! Errands: what a server has another one carry out, instead of committing against it.
//!
//! Servers that commit to one partition at the same time get in each other's way: one of two commits is in vain, and
//! whoever made it reads what it missed and decides again. So for a while after that has happened, a server hands what
//! workers say of their leases to the server that comes first in their partition, which decides it with everything else
//! it decides.
//!
//! Nothing correct depends on it. An errand that is not answered in time is decided here, and if it was carried out after
//! all, it gets the reply it got there: only commands of which that is true are handed over (`Errand` of the core).

use std::collections::BTreeMap;
use std::sync::Arc;

use ff_core::commands::Errand;
use ff_core::{Command, Ms, PartitionId, Rejection, Reply};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::batch::{Origin, Pending};
use super::runner::Runner;
use super::{Output, Ticket, affinity};
use crate::failure::Failure;

/// How long the answer to an errand is waited for. Whoever is busy enough to be given errands may be busy for a while; who
/// has gone is noticed by its silence.
const PATIENCE_MS: Ms = 1_000;
/// How long no errands are given to a server that did not answer.
const SILENCE_MS: Ms = 1_000;
/// How long errands of others are expected after the last ones came.
const EXPECTED_MS: Ms = 1_000;
/// How long a server tries to carry out what it was asked for.
const CARRY_OUT_MS: Ms = 2_000;
/// Of so many errands in a second, one or the other would meet another server's commit: nobody tries without them.
const MANY: u32 = 50;
const SECOND_MS: Ms = 1_000;
/// Larger commands are not worth carrying about.
const WEIGHT_MAX: usize = 16 << 10;

/// What one server says to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Ask {
        number: u64,
        partition: PartitionId,
        errand: Errand,
    },
    Answer {
        number: u64,
        result: Result<Reply, Rejection>,
    },
    /// It was not carried out here, and will not be.
    Refuse {
        number: u64,
    },
}

/// An errand that has not been answered.
#[derive(Debug)]
struct Given {
    to: Arc<str>,
    ticket: Ticket,
    partition: PartitionId,
    command: Command,
    give_up_at: Ms,
    until: Ms,
}

#[derive(Debug, Default)]
pub(super) struct Errands {
    /// Who comes first in each partition; absent where this server does.
    firsts: Vec<Option<Arc<str>>>,
    next: u64,
    given: BTreeMap<u64, Given>,
    /// Who asked for what is being carried out here, and under which number.
    taken: FxHashMap<u64, (Arc<str>, u64)>,
    lines: BTreeMap<Arc<str>, Vec<Line>>,
    /// Until when a server is not asked for anything.
    silent: FxHashMap<Arc<str>, Ms>,
    /// When the second began in which errands are counted, and how many were given in it.
    second: (Ms, u32),
    /// When another server was heard of last.
    heard_at: Option<Ms>,
    closed: bool,
}

impl Errands {
    pub fn set_servers(&mut self, server: &str, alive: &[String], partitions: u16) {
        let first = |partition| affinity::first(alive, partition).filter(|first| *first != server);
        self.firsts = (0..partitions).map(|n| first(PartitionId(n)).map(Arc::from)).collect();
        self.silent.retain(|name, _| alive.iter().any(|it| **it == **name));
    }

    /// Hands a command to the server that comes first in its partition, if that helps; otherwise it comes back.
    pub fn give(&mut self, at: Ms, ticket: Ticket, pending: Pending, runner: &Runner) -> Option<Pending> {
        let first = self.firsts.get(runner.partition().index()).and_then(Option::as_ref);
        let (Some(to), true, false) = (first, at < runner.disputed_until, self.closed) else {
            return Some(pending);
        };
        if self.silent.get(to).is_some_and(|until| at < *until) || pending.command.weight() > WEIGHT_MAX {
            return Some(pending);
        }
        let Some(errand) = Errand::of(&pending.command) else { return Some(pending) };
        self.next += 1;
        let (number, partition) = (self.next, runner.partition());
        self.lines.entry(to.clone()).or_default().push(Line::Ask { number, partition, errand });
        let Pending { command, give_up_at, .. } = pending;
        let (to, until) = (to.clone(), (at + PATIENCE_MS).min(give_up_at));
        self.given.insert(number, Given { to, ticket, partition, command, give_up_at, until });
        if at >= self.second.0 + SECOND_MS {
            self.second = (at, 0);
        }
        self.second.1 += 1;
        None
    }

    /// Whether so many errands were given in this second that servers would be in each other's way without them.
    /// Says so once in a second.
    pub fn has_become_many(&mut self) -> bool {
        let many = self.second.1 == MANY;
        self.second.1 += u32::from(many);
        many
    }

    /// What another server says.
    pub fn hear(
        &mut self,
        at: Ms,
        from: &str,
        lines: Vec<Line>,
        runners: &mut [Runner],
        outputs: &mut Vec<Output>,
    ) {
        self.heard_at = Some(at);
        let from: Arc<str> = from.into();
        for line in lines {
            match line {
                Line::Ask { number, partition, errand } => {
                    self.take(at, &from, number, partition, errand, runners)
                }
                Line::Answer { number, result } => {
                    if let Some(given) = self.given.remove(&number) {
                        let result = result.map_err(Failure::Rejected);
                        outputs.push(Output::Reply { ticket: given.ticket, result });
                    }
                }
                Line::Refuse { number } => {
                    if let Some(given) = self.given.remove(&number) {
                        take_back(given, runners);
                    }
                }
            }
        }
    }

    fn take(
        &mut self,
        at: Ms,
        from: &Arc<str>,
        number: u64,
        partition: PartitionId,
        errand: Errand,
        runners: &mut [Runner],
    ) {
        let command = Command::from(errand);
        self.next += 1;
        let slot = self.next;
        let pending = Pending { origin: Origin::Errand(slot), command, give_up_at: at + CARRY_OUT_MS };
        let enqueued = match runners.get_mut(partition.index()) {
            Some(runner) if !self.closed => runner.enqueue(pending).is_ok(),
            _ => false,
        };
        if enqueued {
            self.taken.insert(slot, (from.clone(), number));
        } else {
            self.lines.entry(from.clone()).or_default().push(Line::Refuse { number });
        }
    }

    /// Something was carried out for another server, or could not be.
    pub fn done(&mut self, slot: u64, result: Result<Reply, Failure>) {
        let Some((from, number)) = self.taken.remove(&slot) else { return };
        let line = match result {
            Ok(reply) => Line::Answer { number, result: Ok(reply) },
            Err(Failure::Rejected(rejection)) => Line::Answer { number, result: Err(rejection) },
            Err(_) => Line::Refuse { number },
        };
        self.lines.entry(from).or_default().push(line);
    }

    /// Takes back what was not answered in time.
    pub fn expire(&mut self, at: Ms, runners: &mut [Runner]) {
        if self.given.values().all(|given| given.until > at) {
            return;
        }
        for (_, given) in self.given.extract_if(.., |_, given| given.until <= at) {
            self.silent.insert(given.to.clone(), at + SILENCE_MS);
            take_back(given, runners);
        }
    }

    /// Gives and takes nothing more; what was not answered is decided here.
    pub fn close(&mut self, runners: &mut [Runner]) {
        self.closed = true;
        std::mem::take(&mut self.given).into_values().for_each(|given| take_back(given, runners));
    }

    pub fn send(&mut self, outputs: &mut Vec<Output>) {
        for (to, lines) in std::mem::take(&mut self.lines) {
            outputs.push(Output::Errands { to: to.to_string(), lines });
        }
    }

    pub fn next_expiry(&self) -> Option<Ms> {
        self.given.values().map(|given| given.until).min()
    }

    pub fn is_idle(&self) -> bool {
        self.given.is_empty()
    }

    /// Whether another server probably has something to say.
    pub fn are_expected(&self, at: Ms) -> bool {
        !self.given.is_empty() || self.heard_at.is_some_and(|heard| at < heard + EXPECTED_MS)
    }
}

fn take_back(given: Given, runners: &mut [Runner]) {
    let Given { ticket, partition, command, give_up_at, .. } = given;
    let pending = Pending { origin: Origin::Returned(ticket), command, give_up_at };
    runners[partition.index()].enqueue_internal(pending);
}
