//! Change a lane: pause, resume or drain it, or set how it is worked off. Its home commits, every partition
//! gets a copy, then the caller is answered: after a pause returns, nothing of the lane starts anywhere.

use std::sync::Arc;

use super::{Decision, check_by};
use crate::Ms;
use crate::event::{By, Fact};
use crate::lane::{Lane, LaneMode, STRICT_STEP_MS};
use crate::limits::Limits;
use crate::message::Message;
use crate::name::LaneName;
use crate::policy::range;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// What is absent stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct SetLane {
    pub lane: LaneName,
    pub mode: Option<LaneMode>,
    pub step_ms: Option<Ms>,
    pub retention_ms: Option<Ms>,
    pub renewed_events: Option<bool>,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl SetLane {
    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        check_by(&self.actor, &self.cause)?;
        if let Some(ms) = self.step_ms {
            range("step_ms", ms, 0, STRICT_STEP_MS)?;
        }
        if let Some(ms) = self.retention_ms {
            range("retention_ms", ms, 0, limits.horizon_ms_max)?;
        }
        Ok(())
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let before = ws.lane(&self.lane);
        let mut lane = Lane {
            mode: self.mode.unwrap_or(before.mode),
            step_ms: self.step_ms.unwrap_or(before.step_ms),
            retention_ms: self.retention_ms.or(before.retention_ms),
            renewed_events: self.renewed_events.unwrap_or(before.renewed_events),
            ..(*before).clone()
        };
        if lane == *before && before.revision > 0 {
            let deliveries = ws.broadcast_again(Message::Lane(lane), now);
            return Ok(Reply::Lane { lane: before, deliveries });
        }
        lane.revision += 1;
        lane.changed_at = now;
        lane.actor = self.actor.clone();
        lane.cause = self.cause.clone();
        let by = By::new(&self.actor, &self.cause);
        let fact = Fact::LaneChanged { by, mode: lane.mode, revision: lane.revision };
        ws.emit_global(Some(self.lane.clone()), now, fact);
        ws.put_lane(lane.clone());
        let deliveries = ws.broadcast(Message::Lane(lane.clone()), now);
        Ok(Reply::Lane { lane: Arc::new(lane), deliveries })
    }
}
