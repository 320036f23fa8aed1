//! Resume: an operator ends a suspension, whatever it waits for.

use std::collections::BTreeSet;

use super::Decision;
use super::mail::go_on;
use crate::Ms;
use crate::event::By;
use crate::execution::State;
use crate::id::ExecutionId;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::suspension::ResumedBy;
use crate::workspace::Workspace;

/// Lets a suspended execution go on without the signals it waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Resume {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?;
        if !matches!(current.live.state, State::Suspended(_)) {
            let (state, reason) = (current.public_state(), current.reason());
            return Err(Rejection::NotSuspended { execution: self.execution, state, reason }.into());
        }
        let mut execution = (**current).clone();
        let by = By::new(&self.actor, &self.cause);
        go_on(ws, &mut execution, now, ResumedBy::Operator, &BTreeSet::new(), Some(by));
        ws.put_execution(execution, now);
        Ok(Reply::Changed(ws.require(self.execution)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Suspend;
    use super::super::testing::*;
    use super::*;
    use crate::suspension::Condition;

    #[test]
    fn an_operator_ends_any_suspension_and_only_that() {
        let mut bench = Bench::new();
        let fence = bench.active();
        assert_eq!(bench.refused(resume(fence.execution)).code(), "not_suspended");
        bench.ok(Suspend::new(fence, Condition::Operator));
        bench.ok(signal(fence.execution, "go"));
        assert_eq!(bench.state(fence.execution).0, "suspended", "no signal ends it");
        bench.ok(resume(fence.execution));
        let mailbox = bench.get(fence.execution).mailbox().unwrap();
        assert_eq!(mailbox.resumption.as_ref().unwrap().by, ResumedBy::Operator);
        assert_eq!(bench.claim().attempt, 1);
    }
}
