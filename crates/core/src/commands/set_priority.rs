//! Change the priority of an execution that has not ended.

use super::{Decision, check_by};
use crate::Ms;
use crate::event::{By, Fact};
use crate::execution::State;
use crate::id::ExecutionId;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Moves an execution in the queue; its eligible time stays.
#[derive(Clone, Debug, PartialEq)]
pub struct SetPriority {
    pub execution: ExecutionId,
    pub priority: i8,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl SetPriority {
    pub(super) fn validate(&self) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        Ok(range("priority", self.priority.into(), -100, 100)?)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        if let Some(end) = current.end() {
            let (state, reason) = (end.state, end.reason);
            return Err(Rejection::Terminal { execution: self.execution, state, reason }.into());
        }
        let mut execution = (**current).clone();
        if execution.live.priority == self.priority {
            return Ok(Reply::Changed(current.clone()));
        }
        let lane = ws.lane(&execution.spec.lane);
        let before = execution.live.priority;
        execution.live.priority = self.priority;
        if let State::Ready { rank, since, .. } = &mut execution.live.state {
            // The eligible time stays; only the head start changes. The rank may have been made with another
            // step than the lane has now; the eligible time lies between creation and readiness all the same.
            let eligible_at = rank.saturating_add(i64::from(before).saturating_mul(lane.step_ms));
            *rank = lane.rank(eligible_at.max(execution.spec.created_at).min(*since), self.priority);
        }
        let by = By::new(&self.actor, &self.cause);
        ws.emit(&execution, now, Fact::PriorityChanged { by, priority: self.priority });
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::lane::STRICT_STEP_MS;

    #[test]
    fn a_higher_priority_overtakes_and_the_old_one_gives_the_old_place_back() {
        let mut bench = Bench::new();
        let (a, b) = (bench.create(), bench.create());
        let before = bench.get(b).place();
        bench.ok(set_priority(b, 1));
        bench.ok(set_priority(b, 0));
        assert_eq!(bench.get(b).place(), before);
        bench.ok(set_priority(b, 1));
        assert_eq!(bench.order(bench.poll()), [b, a]);
    }

    #[test]
    fn after_the_step_of_the_lane_changed_a_priority_is_worth_the_new_step() {
        let mut bench = Bench::new();
        let old = bench.create_with(|it| it.priority = 50);
        bench.ok(super::super::SetLane { step_ms: Some(STRICT_STEP_MS), ..set_lane("default") });
        bench.jump(10);
        let new = bench.create_with(|it| it.priority = 60);
        bench.ok(set_priority(old, 61));
        assert_eq!(bench.order(bench.poll()), [old, new]);
        let old = bench.create_with(|it| it.priority = 50);
        bench.ok(super::super::SetLane { step_ms: Some(1), ..set_lane("default") });
        bench.ok(set_priority(old, 0));
        let new = bench.create_with(|it| it.priority = 1);
        assert_eq!(bench.order(bench.poll()), [new, old]);
    }

    #[test]
    fn priority_changes_in_every_state_but_an_ended_one() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let id = fence.execution;
        bench.ok(set_priority(id, 1));
        bench.ok(delay(fence, 5_000));
        bench.ok(set_priority(id, 2));
        bench.ok(hold(id));
        bench.ok(set_priority(id, 3));
        assert_eq!(bench.get(id).live.priority, 3);
        let events = bench.store.events.len();
        bench.ok(set_priority(id, 3));
        assert_eq!(bench.store.events.len(), events, "the same priority again is no news");
        bench.ok(cancel(id, None));
        assert_eq!(bench.refused(set_priority(id, 4)).code(), "terminal");
    }

    #[test]
    fn priorities_out_of_range_are_refused_at_the_edge() {
        let id = Bench::new().next_id();
        for (priority, fits) in [(-101, false), (-100, true), (100, true), (101, false)] {
            assert_eq!(set_priority(id, priority).validate().is_ok(), fits, "{priority}");
        }
    }
}
