//! Lanes.

use ff_core::commands::SetLane;
use ff_core::lane::{Lane, LaneMode};
use ff_core::name::LaneName;
use ff_core::rejection::Invalid;

use crate::fields::word;
use crate::time::{Span, Time};

request! {
    /// Changes to a lane; what is left out stays as it is.
    pub struct LaneChange {
        /// `open`, `paused` or `draining`.
        pub mode: Option<String>,
        /// How much sooner one point of priority is.
        pub step_ms: Option<Span>,
        /// How long ended executions are kept.
        pub retention_ms: Option<Span>,
        /// Whether each renewal of a lease is an event.
        pub renewed_events: Option<bool>,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

impl LaneChange {
    pub fn command(self, lane: &str, actor: &str) -> Result<SetLane, Invalid> {
        let mode = self.mode.as_deref().map(|it| word("mode", it, LaneMode::ALL, LaneMode::word));
        Ok(SetLane {
            lane: LaneName::parse(lane)?,
            mode: mode.transpose()?,
            step_ms: self.step_ms.map(|it| it.0),
            retention_ms: self.retention_ms.map(|it| it.0),
            renewed_events: self.renewed_events,
            actor: actor.into(),
            cause: self.cause.unwrap_or_default().into(),
        })
    }
}

impl From<SetLane> for LaneChange {
    fn from(it: SetLane) -> LaneChange {
        LaneChange {
            mode: it.mode.map(|mode| mode.word().to_owned()),
            step_ms: it.step_ms.map(Span),
            retention_ms: it.retention_ms.map(Span),
            renewed_events: it.renewed_events,
            actor: Some(it.actor.into()),
            cause: Some(it.cause.into()),
        }
    }
}

answer! {
    /// A lane.
    pub struct LaneDoc {
        pub name: String,
        pub mode: String,
        pub step_ms: i64,
        pub retention_ms: Option<i64>,
        pub renewed_events: bool,
        pub changed_at: Option<Time>,
        pub actor: String,
        pub cause: String,
    }
}

impl From<&Lane> for LaneDoc {
    fn from(it: &Lane) -> LaneDoc {
        LaneDoc {
            name: it.name.to_string(),
            mode: it.mode.word().to_owned(),
            step_ms: it.step_ms,
            retention_ms: it.retention_ms,
            renewed_events: it.renewed_events,
            changed_at: (it.changed_at > 0).then_some(Time(it.changed_at)),
            actor: it.actor.to_string(),
            cause: it.cause.to_string(),
        }
    }
}

answer! {
    /// The lanes that differ from the defaults.
    pub struct LanesDoc {
        pub lanes: Vec<LaneDoc>,
    }
}
