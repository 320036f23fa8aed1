//! Complete: the worker has done the work.

use serde::{Deserialize, Serialize};

use super::lifecycle::{Ending, end_attempt, ended, holder};
use super::{Decision, check_text};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Fence, How, State};
use crate::limits::Limits;
use crate::payload::{Payload, PayloadKey, Slot};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::state::{AttemptOutcome, PublicState, Reason};
use crate::workspace::Workspace;

/// The work of a lease is done; repeated with the same fence it gets its first reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Complete {
    pub fence: Fence,
    pub result: Option<Payload>,
}

impl Complete {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        let size = self.result.as_ref().map_or(0, Payload::len);
        if size > limits.result_bytes_max {
            let problem = format!("has {size} bytes; allowed are at most {}", limits.result_bytes_max);
            return Err(Invalid::new("result", problem).into());
        }
        if let Some(result) = &self.result {
            check_text("content_type", &result.content_type, 256)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ How::Completed) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        execution.live.series.spent += 1;
        execution.live.series.losses = 0;
        let holder = holder(&execution, &lease);
        let outcome = AttemptOutcome::Completed;
        end_attempt(&mut execution, now, Ending { how: How::Completed, outcome, error: None });
        let mut end = ended(ws, &mut execution, now, PublicState::Completed, Reason::Succeeded);
        end.result_bytes = self.result.as_ref().map(|result| result.len() as u64);
        execution.live.state = State::Ended(end);
        let (attempt, spent) = (execution.attempt_number(), execution.live.series.spent);
        ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
        ws.emit(&execution, now, Fact::Completed { attempt, spent });
        if let Some(result) = &self.result {
            ws.put_payload(PayloadKey { execution: execution.id, slot: Slot::Result }, result.clone());
        }
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(How::Completed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn completing_again_gives_the_first_reply_for_ever() {
        let mut bench = Bench::new();
        let fence = bench.active();
        for _ in 0..2 {
            assert_eq!(bench.ok(complete(fence)), Reply::LeaseEnded(How::Completed));
        }
        bench.ok(replay(fence.execution));
        bench.claim();
        let events = bench.store.events.len();
        let other_result = Complete { result: None, ..complete(fence) };
        assert_eq!(bench.ok(other_result), Reply::LeaseEnded(How::Completed));
        assert_eq!(bench.store.events.len(), events);
    }

    #[test]
    fn after_completing_every_other_ending_is_refused_with_the_one_that_stands() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(complete(fence));
        for call in worker_calls(fence).into_iter().skip(1) {
            assert_eq!(code(&bench.run(call.clone())), "already_ended", "{call:?}");
        }
    }

    #[test]
    fn a_completion_within_the_grace_of_a_cancel_stands() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(cancel(fence.execution, Some(5_000)));
        bench.ok(complete(fence));
        assert_eq!(bench.state(fence.execution), ("completed", "succeeded"));
    }

    #[test]
    fn the_result_is_stored_and_its_size_is_in_the_record() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(Complete { fence, result: Some(Payload::json("[1,2]")) });
        assert_eq!(bench.get(fence.execution).end().unwrap().result_bytes, Some(5));
        let key = PayloadKey { execution: fence.execution, slot: Slot::Result };
        assert_eq!(&*bench.store.payloads[&key].bytes, b"[1,2]");
    }

    #[test]
    fn a_result_that_is_too_large_or_has_a_bad_type_is_refused_at_the_edge() {
        let fence = Bench::new().active();
        let bad_type = Payload { content_type: "a\0".into(), ..Payload::json("1") };
        let large = Payload::json(vec![b'1'; (4 << 20) + 1]);
        for (field, result) in [("content_type", bad_type), ("result", large)] {
            let refusal = Complete { fence, result: Some(result) }.validate(&Limits::default());
            assert!(matches!(refusal, Err(Rejection::Invalid(it)) if it.field == field));
        }
    }
}
