//! Record steps: what parts of the attempt came to, under its lease.

use super::mail::record;
use super::{Decision, check_text};
use crate::Ms;
use crate::event::Fact;
use crate::execution::Fence;
use crate::limits::Limits;
use crate::name::StepName;
use crate::payload::Payload;
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::step::{StepKind, StepPlace};
use crate::workspace::Workspace;

/// A step that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct NewStep {
    pub place: StepPlace,
    pub kind: StepKind,
    /// How long it took; no clock but the store's says when that was.
    pub took_ms: Ms,
    pub result: Payload,
}

/// How the steps that an attempt called differ from those that were recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drift {
    /// Recorded steps that were not called.
    pub missing: Vec<StepName>,
    /// Steps that were called before recorded ones and are not among them.
    pub extra: Vec<StepName>,
    /// Recorded steps that were called in another order.
    pub reordered: Vec<StepName>,
}

impl Drift {
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.reordered.is_empty()
    }
}

/// Keeps the results of steps, so that a later attempt need not run them again.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSteps {
    pub fence: Fence,
    pub steps: Vec<NewStep>,
    pub drift: Drift,
}

/// How many names of steps one report of drift may have.
const DRIFT_MAX: usize = 100;

impl RecordSteps {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        range("steps", self.steps.len() as i64, 0, limits.batch_items_max as i64)?;
        for step in &self.steps {
            range("step number", step.place.number.into(), 0, limits.steps_max as i64)?;
            range("took_ms", step.took_ms, 0, limits.horizon_ms_max)?;
            let (size, max) = (step.result.len(), limits.result_bytes_max);
            if size > max {
                let field = format!("result of step {}", step.place.key);
                return Err(
                    Invalid::new(field, format!("has {size} bytes; allowed are at most {max}")).into()
                );
            }
            check_text("content_type", &step.result.content_type, 256)?;
        }
        let Drift { missing, extra, reordered } = &self.drift;
        let told = missing.len().max(extra.len()).max(reordered.len());
        Ok(range("drift", told as i64, 0, DRIFT_MAX as i64)?)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?.clone();
        let lease = current.check_fence(self.fence)?;
        let cancel = lease.cancel.clone();
        let mut execution = (*current).clone();
        for step in &self.steps {
            let started_at = now.saturating_sub(step.took_ms);
            record(ws, &mut execution, now, &step.place, step.kind, started_at, step.result.clone());
        }
        if !self.drift.is_empty() {
            let (attempt, Drift { missing, extra, reordered }) = (self.fence.attempt, self.drift.clone());
            ws.emit(&execution, now, Fact::StepsDrifted { attempt, missing, extra, reordered });
        }
        // Its record says only that there are steps: it is written with the first of them.
        if execution.live.stepped != current.live.stepped {
            ws.put_execution(execution, now);
        }
        Ok(Reply::Noted { cancel })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_step_is_kept_for_every_later_attempt() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let first = bench.active();
            bench.ok(record_step(first, "one", 0));
            bench.ok(record_step(first, "two", 1));
            let commits = bench.store.log.len();
            bench.ok(record_step(first, "two", 1));
            assert_eq!(bench.store.steps.len(), 2, "recorded again it replaces itself");
            assert_eq!(bench.store.log.len(), commits + 1);
            assert_eq!(bench.store.log.last().unwrap().len(), 0, "and its execution is not written");
            bench.ok(fail(first));
            bench.pass(1_000);
            let second = bench.claim();
            assert!(bench.get(first.execution).live.stepped);
            assert_eq!(bench.refused(record_step(first, "three", 2)).code(), "already_ended");
            bench.ok(complete(second));
            bench.ok(replay(first.execution));
            assert_eq!(bench.store.steps.len(), 2, "a replay keeps them");
        }
    }

    #[test]
    fn what_a_step_took_is_told_on_the_clock_of_the_store() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.pass(100);
        bench.ok(record_step(fence, "one", 0));
        let step = bench.store.steps.values().next().unwrap();
        assert_eq!((step.started_at, step.ended_at), (bench.now - 3, bench.now));
    }

    #[test]
    fn steps_that_differ_from_what_was_recorded_are_told() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let missing = vec![StepName::parse("gone").unwrap()];
        let drift = Drift { missing, ..Drift::default() };
        bench.ok(RecordSteps { fence, steps: Vec::new(), drift });
        assert_eq!(bench.facts(fence.execution).last(), Some(&"steps_drifted"));
        assert!(!bench.get(fence.execution).live.stepped);
    }

    #[test]
    fn what_is_too_large_is_refused_and_the_step_is_named() {
        let limits = Limits { result_bytes_max: 2, steps_max: 5, ..Limits::default() };
        let fence = Bench::new().active();
        let refused = record_step(fence, "one", 0).validate(&limits).unwrap_err().to_string();
        assert_eq!(refused, "result of step one has 5 bytes; allowed are at most 2");
        let limits = Limits { steps_max: 5, ..Limits::default() };
        let refused = record_step(fence, "one", 6).validate(&limits).unwrap_err().to_string();
        assert_eq!(refused, "step number is 6; allowed are 0 to 5");
    }
}
