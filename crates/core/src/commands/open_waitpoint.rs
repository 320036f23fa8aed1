//! Open a waitpoint before suspending, so that its token can be handed out first.

use serde_json::json;

use super::mail::{open, record, token};
use super::suspend::check_step;
use super::{Decision, check_text};
use crate::Ms;
use crate::execution::Fence;
use crate::limits::Limits;
use crate::name::SignalName;
use crate::payload::Payload;
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::step::{StepKind, StepPlace};
use crate::suspension::{Digest, WaitpointId};
use crate::workspace::Workspace;

const SOURCE_BYTES_MAX: usize = 256;
const APPROVERS_MAX: usize = 100;

/// A waitpoint to be opened, and whose signals it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewWaitpoint {
    pub name: Option<SignalName>,
    pub expires_in_ms: Option<Ms>,
    /// SHA-256 of the action that is proposed; a token made for another action is refused.
    pub digest: Option<Digest>,
    /// Only signals of these sources are taken; all if empty.
    pub approvers: Vec<Box<str>>,
    /// Who asks; no signal of this source is taken.
    pub requester: Option<Box<str>>,
    /// Whether one source counts once.
    pub distinct_sources: bool,
    /// Whether its token alone is not enough: the sender must be known by an access token, too.
    pub known_sources: bool,
}

impl NewWaitpoint {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        if let Some(ms) = self.expires_in_ms {
            range("expires", ms, 1, limits.horizon_ms_max)?;
        }
        if self.approvers.len() > APPROVERS_MAX {
            let problem =
                format!("are {} in number; allowed are at most {APPROVERS_MAX}", self.approvers.len());
            return Err(Invalid::new("approvers", problem).into());
        }
        for name in &self.approvers {
            check_source("approvers", name)?;
        }
        if let Some(name) = &self.requester {
            check_source("requester", name)?;
            if !self.approvers.is_empty() && self.approvers.iter().all(|it| it == name) {
                let problem = "has nobody but the requester, who may not approve";
                return Err(Invalid::new("approvers", problem).into());
            }
        }
        Ok(())
    }
}

/// Checks the name of somebody who signals.
pub(super) fn check_source(field: &'static str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() {
        return Err(Invalid::new(field, "has an empty name; leave it out or give it a value"));
    }
    check_text(field, name, SOURCE_BYTES_MAX)
}

/// Opens a waitpoint. Under a step it is opened once, however often it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWaitpoint {
    pub fence: Fence,
    pub waitpoint: NewWaitpoint,
    pub step: Option<StepPlace>,
}

impl OpenWaitpoint {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        self.waitpoint.validate(limits)?;
        check_step(self.step.as_ref(), limits)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?.clone();
        current.check_fence(self.fence)?;
        let same = |key| current.mailbox()?.waitpoints.iter().find(|it| it.step.as_ref() == Some(key));
        if let Some(open) = self.step.as_ref().and_then(|step| same(&step.key)) {
            let waitpoint = WaitpointId { execution: current.id, number: open.number };
            let token = token(ws, &current, open);
            return Ok(Reply::WaitpointOpened { waitpoint, expires_at: open.expires_at, token });
        }
        let mut execution = (*current).clone();
        let open = open(ws, &mut execution, now, &self.waitpoint, self.step.as_ref())?;
        let waitpoint = WaitpointId { execution: execution.id, number: open.number };
        if let Some(step) = &self.step {
            let result = json!({ "waitpoint": waitpoint, "expires_at": open.expires_at }).to_string();
            record(ws, &mut execution, now, step, StepKind::Waitpoint, now, Payload::json(result));
        }
        let token = token(ws, &execution, &open);
        ws.put_execution(execution, now);
        Ok(Reply::WaitpointOpened { waitpoint, expires_at: open.expires_at, token })
    }
}
