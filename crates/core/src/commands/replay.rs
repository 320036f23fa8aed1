//! Replay: an ended execution runs again in a new series of attempts. Old attempts and the old result stay
//! until the new ones end.

use super::Decision;
use super::flows::{check_not_cancelled, start_again};
use crate::Ms;
use crate::event::By;
use crate::id::ExecutionId;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{PublicState, Reason};
use crate::workspace::{Todo, Workspace};

/// Runs an ended execution again, as often as its policy allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
    /// Only if it had ended by then: whoever asks twice, because it may not have been heard, does not run it twice.
    pub ended_by: Option<Ms>,
}

impl Replay {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?.clone();
        let Some(end) = current.end() else {
            let state = current.public_state();
            return Err(
                Rejection::NotTerminal { execution: self.execution, state, verb: "replayed".into() }.into()
            );
        };
        if self.ended_by.is_some_and(|by| end.at > by) {
            return Err(Rejection::EndedSince { execution: self.execution, at: end.at }.into());
        }
        if let Some(flow) = current.flow() {
            check_not_cancelled(ws, flow)?;
            if current.public_state() == PublicState::Skipped {
                return Err(Rejection::SkippedByOthers { execution: self.execution }.into());
            }
        }
        let current = ws.require(self.execution)?;
        let max = current.spec.policy.replays_max;
        let series = current.live.series.number + 1;
        if series > max + 1 {
            return Err(Rejection::ReplaysExhausted { execution: self.execution, max }.into());
        }
        let mut execution = (**current).clone();
        start_again(ws, &mut execution, now, By::new(&self.actor, &self.cause));
        if execution.reason() == Reason::WaitingForDependencies {
            ws.follow_up(Todo::Look(execution.id));
        }
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::When;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_replay_opens_a_new_series_and_keeps_old_attempts_and_result() {
        let mut bench = Bench::new();
        let first = bench.active_with(|it| it.policy.max_attempts = 1);
        bench.ok(complete(first));
        bench.ok(replay(first.execution));
        assert_eq!(bench.state(first.execution), ("waiting", "waiting_for_worker"));
        assert_eq!(bench.store.payloads.len(), 2, "the old result stays");
        let second = bench.claim();
        assert_eq!((second.attempt, second.epoch), (2, 2));
        assert_eq!(bench.store.attempts.len(), 1);
        bench.ok(fail(second));
        assert_eq!(bench.state(first.execution), ("failed", "attempts_exhausted"));
        let end = bench.get(first.execution).end().unwrap();
        assert_eq!(end.result_bytes, None, "the new ending has no result");
    }

    #[test]
    fn only_what_has_ended_is_replayed_and_only_so_often() {
        let mut bench = Bench::new();
        let id = bench.create_with(|it| it.policy.replays_max = 2);
        assert_eq!(bench.refused(replay(id)).code(), "not_terminal");
        for _ in 0..2 {
            bench.ok(cancel(id, None));
            bench.ok(replay(id));
        }
        bench.ok(cancel(id, None));
        assert_eq!(bench.refused(replay(id)).code(), "replays_exhausted");
    }

    #[test]
    fn deadline_timeouts_and_retries_restart_with_their_lengths() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| {
            it.deadline = Some(When::In(10_000));
            it.policy.max_attempts = 2;
            it.policy.max_elapsed_ms = Some(5_000);
        });
        bench.pass(10_000);
        assert_eq!(bench.state(fence.execution).0, "expired");
        bench.pass(90_000);
        bench.ok(replay(fence.execution));
        assert_eq!(bench.get(fence.execution).live.deadline_at, Some(bench.now + 10_000));
        let fence = bench.claim();
        bench.ok(fail(fence));
        assert_eq!(bench.state(fence.execution), ("delayed", "retry_backoff"));
        bench.pass(10_000);
        assert_eq!(bench.state(fence.execution), ("expired", "deadline_passed"));
    }

    #[test]
    fn what_ended_after_it_was_asked_for_is_not_run_again() {
        let mut bench = Bench::new();
        let id = bench.create();
        bench.ok(cancel(id, None));
        let asked = Replay { ended_by: Some(bench.now), ..replay(id) };
        bench.ok(asked.clone());
        bench.pass(1);
        bench.ok(cancel(id, None));
        let events = bench.store.events.len();
        assert_eq!(bench.refused(asked).code(), "ended_since");
        assert_eq!(bench.store.events.len(), events);
        bench.ok(replay(id));
    }

    #[test]
    fn an_old_fence_changes_nothing_after_a_replay() {
        let mut bench = Bench::new();
        let old = bench.active();
        bench.ok(cancel(old.execution, None));
        bench.ok(replay(old.execution));
        bench.claim();
        let before = bench.get(old.execution).clone();
        for call in worker_calls(old) {
            assert_eq!(code(&bench.run(call.clone())), "lease_lost", "{call:?}");
        }
        assert_eq!(*bench.get(old.execution), before);
    }
}
