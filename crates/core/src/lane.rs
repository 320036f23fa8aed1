//! A lane: a named queue and how it is worked off. A lane without a record has the default settings.

use serde::{Deserialize, Serialize};

use crate::Ms;
use crate::name::LaneName;
use crate::state::words;

words!(
    /// Whether a lane's work starts, and whether it takes more.
    LaneMode {
        Open = "open",
        Paused = "paused",
        Draining = "draining",
    }
);

/// How much of a head start one point of priority is worth by default.
pub const STEP_MS: Ms = 60_000;
/// A step no waiting time catches up with: a century for each point.
pub const STRICT_STEP_MS: Ms = 100 * 366 * 24 * 3_600_000;

/// The settings of a lane, and who changed them last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub name: LaneName,
    pub mode: LaneMode,
    /// Milliseconds of head start for one point of priority.
    pub step_ms: Ms,
    /// How long ended executions are kept; the limit's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<Ms>,
    /// Whether renewals of leases are events.
    #[serde(default)]
    pub renewed_events: bool,
    /// Grows with each change, so that copies in other partitions can be compared.
    pub revision: u64,
    pub changed_at: Ms,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Lane {
    /// The settings of a lane nobody has changed.
    pub fn default_of(name: LaneName) -> Lane {
        Lane {
            name,
            mode: LaneMode::Open,
            step_ms: STEP_MS,
            retention_ms: None,
            renewed_events: false,
            revision: 0,
            changed_at: 0,
            actor: "".into(),
            cause: "".into(),
        }
    }

    pub fn rank(&self, eligible_at: Ms, priority: i8) -> i64 {
        eligible_at.saturating_sub(i64::from(priority).saturating_mul(self.step_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_a_head_start_and_strict_cannot_be_caught_up() {
        let mut lane = Lane::default_of(LaneName::default());
        let now = 1_800_000_000_000;
        assert!(lane.rank(now + 30_000, 1) < lane.rank(now, 0));
        assert!(lane.rank(now + 90_000, 1) > lane.rank(now, 0));
        lane.step_ms = STRICT_STEP_MS;
        assert!(lane.rank(now + 10 * 366 * 24 * 3_600_000, 1) < lane.rank(now, 0));
        assert!(lane.rank(now, 100) < lane.rank(now, 99));
    }
}
