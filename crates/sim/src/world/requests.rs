//! What the store does with the requests of servers, and what goes wrong around it.

use std::sync::Arc;

use ff_core::Ms;
use ff_core::workspace::Answer;
use ff_engine::machine::Input;
use ff_store::{Commit, Outcome, StoreError};

use super::queue::{Happening, Life, Request};
use super::{World, trace};
use crate::bug::Bug;
use crate::check::Check;
use crate::fault::Fault;

impl World {
    pub(super) fn store_hears(&mut self, server: usize, life: Life, request: Request) -> Check {
        let now = self.now + self.store.ahead_ms;
        let down = self.now < self.outage_until || self.fault(self.profile.unavailable, Fault::Unavailable);
        let unavailable = || StoreError::Unavailable("the store is out of reach".to_owned());
        let input = match request {
            Request::Commit(commit) => {
                let (partition, id) = (commit.partition, commit.id);
                let outcome = match down {
                    true => Outcome::Failed(unavailable()),
                    false => self.commit(commit, now)?,
                };
                Input::Committed { partition, id, outcome }
            }
            Request::Load { token, .. } if down => Input::Loaded { token, result: Err(unavailable()) },
            Request::Load { token, asks } => {
                let result = if self.fault(self.profile.load_failed, Fault::LoadFailed) {
                    let refused = StoreError::Refused("the store refused it: no such question".to_owned());
                    Err(if self.rng.chance(1_000) { refused } else { unavailable() })
                } else {
                    self.store.state.load(token.partition, &asks, now)
                };
                let result = result.map(|mut loaded| {
                    if self.bug == Some(Bug::WindowOffByOne) {
                        loaded.answers.iter_mut().for_each(shorten);
                    }
                    if self.bug == Some(Bug::DoubleCascade) {
                        loaded.answers.iter_mut().for_each(forget_counts);
                    }
                    loaded
                });
                Input::Loaded { token, result }
            }
            Request::Written { partition, number } => {
                let result =
                    if down { Err(unavailable()) } else { self.store.state.written(partition, number) };
                Input::Written { partition, number, result }
            }
            Request::Turn { partition, .. } if down => Input::Turn { partition, result: Err(unavailable()) },
            Request::Turn { partition, server, for_ms } => {
                let result = self.store.state.turn(partition, server, for_ms, now);
                Input::Turn { partition, result }
            }
            Request::Status if down => Input::Status(Err(unavailable())),
            Request::Status => Input::Status(Ok((now, self.store.state.status()))),
        };
        let delay = self.store_delay(server);
        self.later(delay, delay, Happening::ServerHears { server, life, input });
        Ok(())
    }

    /// One commit meets the store and whatever goes wrong around it.
    fn commit(&mut self, commit: Commit, now: Ms) -> Result<Outcome, String> {
        let (partition, number) = (commit.partition, commit.expected.number + 1);
        let unknown = || Outcome::Unknown("the connection was lost".to_owned());
        let outcome =
            if self.store.refuses(&commit.changes) || self.fault(self.profile.refused, Fault::Refused) {
                Outcome::Failed(StoreError::Refused("a value is too long".to_owned()))
            } else if self.fault(self.profile.conflict, Fault::Conflict) {
                Outcome::Conflict
            } else if self.fault(self.profile.commit_lost, Fault::CommitLost) {
                unknown()
            } else if self.fault(self.profile.commit_late, Fault::CommitLate) {
                self.later(0, 1_000, Happening::LateCommit(commit));
                unknown()
            } else {
                let outcome = self.store.commit(commit, now)?;
                match self.fault(self.profile.answer_lost, Fault::AnswerLost) {
                    true => {
                        trace!(self, "commit {number} of {partition} is {outcome:?}, and the answer is lost");
                        unknown()
                    }
                    false => outcome,
                }
            };
        trace!(self, "commit {number} of {partition}: {outcome:?}");
        Ok(outcome)
    }

    pub(super) fn late_commit(&mut self, commit: Commit) -> Check {
        let (partition, number) = (commit.partition, commit.expected.number + 1);
        let now = self.now + self.store.ahead_ms;
        let outcome = self.store.commit(commit, now)?;
        trace!(self, "late commit {number} of {partition}: {outcome:?}");
        Ok(())
    }
}

/// Edges that do not say any more that they were counted.
fn forget_counts(answer: &mut Answer) {
    let edges = match answer {
        Answer::List { edges, .. } => edges.iter_mut(),
        Answer::Edge(_, edge) => return edge.iter_mut().for_each(|edge| Arc::make_mut(edge).counted = None),
        _ => return,
    };
    edges.for_each(|edge| Arc::make_mut(edge).counted = None);
}

/// A full page that loses its last entry.
fn shorten(answer: &mut Answer) {
    if let Answer::Ready { limit, entries, executions, .. } = answer
        && entries.len() >= *limit
    {
        entries.pop();
        executions.pop();
    }
}
