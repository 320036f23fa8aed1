//! Workers that wait for work.

use std::collections::VecDeque;
use std::sync::Arc;

use ff_core::commands::Poll;
use ff_core::{Ms, Reply};

use super::Ticket;
use crate::failure::Failure;

#[derive(Debug)]
pub(super) struct Waiting {
    pub ticket: Ticket,
    pub poll: Arc<Poll>,
    pub max: usize,
    /// Since when it waits.
    pub since: Ms,
    pub give_up_at: Ms,
    /// A claim for it is on its way to a partition.
    pub busy: bool,
}

/// Waiting polls, longest waiting first.
#[derive(Debug, Default)]
pub(super) struct Polls {
    list: VecDeque<Waiting>,
}

impl Polls {
    pub fn add(&mut self, at: Ms, ticket: Ticket, poll: Arc<Poll>, max: usize, give_up_at: Ms) {
        self.list.push_back(Waiting { ticket, poll, max, since: at, give_up_at, busy: false });
    }

    /// Whether it was still waiting.
    pub fn remove(&mut self, ticket: Ticket) -> bool {
        let before = self.list.len();
        self.list.retain(|waiting| waiting.ticket != ticket);
        self.list.len() < before
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Those that wait since a time or longer.
    pub fn since(&self, time: Ms) -> impl Iterator<Item = &Poll> {
        self.list.iter().take_while(move |waiting| waiting.since <= time).map(|waiting| &*waiting.poll)
    }

    /// Those that wait since a time or longer and have not got anything.
    pub fn since_mut(&mut self, time: Ms) -> impl Iterator<Item = &mut Waiting> {
        self.list.iter_mut().take_while(move |waiting| waiting.since <= time).filter(|waiting| !waiting.busy)
    }

    /// The first moment after `at` at which one has waited so long.
    pub fn next_patience(&self, at: Ms, patience: Ms) -> Option<Ms> {
        let ends = self.list.iter().rev().map(|waiting| waiting.since + patience);
        ends.take_while(|end| *end > at).last()
    }

    /// Drops polls whose claims were decided; they are answered when the commit is.
    pub fn forget_busy(&mut self) {
        self.list.retain(|waiting| !waiting.busy);
    }

    pub fn expire(&mut self, at: Ms) -> Vec<(Ticket, Result<Reply, Failure>)> {
        if self.list.iter().all(|waiting| waiting.give_up_at > at) {
            return Vec::new();
        }
        let (over, left) = self.list.drain(..).partition(|waiting: &Waiting| waiting.give_up_at <= at);
        self.list = left;
        let over: VecDeque<Waiting> = over;
        over.into_iter().map(|waiting| (waiting.ticket, Ok(Reply::Claimed(Vec::new())))).collect()
    }

    pub fn next_expiry(&self) -> Option<Ms> {
        self.list.iter().map(|waiting| waiting.give_up_at).min()
    }

    pub fn drain(&mut self) -> Vec<Ticket> {
        self.list.drain(..).map(|waiting| waiting.ticket).collect()
    }
}
