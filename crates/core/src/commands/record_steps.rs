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
    pub missing: Vec<StepName>,
    pub reordered: Vec<StepName>,
}

impl Drift {
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.reordered.is_empty()
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
        let told = self.drift.missing.len().max(self.drift.reordered.len());
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
            let (attempt, Drift { missing, reordered }) = (self.fence.attempt, self.drift.clone());
            ws.emit(&execution, now, Fact::StepsDrifted { attempt, missing, reordered });
        }
        // Its record says only that there are steps: it is written with the first of them.
        if execution.live.stepped != current.live.stepped {
            ws.put_execution(execution, now);
        }
        Ok(Reply::Noted { cancel })
    }
}
