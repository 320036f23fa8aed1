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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_change_grows_the_revision_is_an_event_and_goes_to_every_partition() {
        let mut bench = Bench::of(crate::id::PartitionId(0), 3, Limits::default());
        let Reply::Lane { lane, deliveries } = bench.set_lane_mode("l", LaneMode::Paused) else { panic!() };
        assert_eq!((lane.revision, lane.mode, &*lane.actor), (1, LaneMode::Paused, "op"));
        assert_eq!(deliveries.len(), 2);
        let event = bench.store.events.last().unwrap();
        assert_eq!((event.fact.word(), event.lane.as_deref()), ("lane_changed", Some("l")));
        let messages = bench.messages();
        assert_eq!(messages.last().unwrap().message, Some(Arc::new(Message::Lane((*lane).clone()))));
    }

    #[test]
    fn what_is_not_said_stays_and_the_same_again_is_no_news() {
        let mut bench = Bench::new();
        bench.ok(SetLane { step_ms: Some(7), retention_ms: Some(9), ..set_lane("l") });
        bench.set_lane_mode("l", LaneMode::Draining);
        let events = bench.store.events.len();
        let Reply::Lane { lane, deliveries } = bench.set_lane_mode("l", LaneMode::Draining) else { panic!() };
        assert_eq!((lane.step_ms, lane.retention_ms, lane.revision), (7, Some(9), 2));
        assert_eq!((deliveries.len(), bench.store.events.len()), (0, events));
    }

    #[test]
    fn a_changed_step_applies_to_entries_made_after_it() {
        let mut bench = Bench::new();
        let old = bench.create_with(|it| it.priority = 1);
        let rank = bench.get(old).place();
        bench.ok(SetLane { step_ms: Some(0), ..set_lane("default") });
        assert_eq!(bench.get(old).place(), rank);
        let new = bench.create_with(|it| it.priority = 100);
        assert_eq!(bench.order(bench.poll()), [old, new]);
    }

    #[test]
    fn settings_out_of_range_are_refused_at_the_edge() {
        for bad in [
            SetLane { step_ms: Some(-1), ..set_lane("l") },
            SetLane { step_ms: Some(STRICT_STEP_MS + 1), ..set_lane("l") },
            SetLane { retention_ms: Some(-1), ..set_lane("l") },
            SetLane { cause: "a\0".into(), ..set_lane("l") },
        ] {
            assert!(bad.validate(&Limits::default()).is_err(), "{bad:?}");
        }
    }
}
