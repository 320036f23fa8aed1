//! Why does it not run? Every gate an execution stands before, with its values.

use std::borrow::Cow;
use std::sync::Arc;

use ff_core::execution::State;
use ff_core::lane::LaneMode;
use ff_core::suspension::Suspension;
use ff_core::worker::WorkerMode;
use ff_core::workspace::Opening;
use ff_core::{Execution, Ms, duration};
use serde::{Deserialize, Serialize};

/// One thing that could keep an execution from running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub gate: Cow<'static, str>,
    /// Whether this is what it waits for.
    pub blocking: bool,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub state: Cow<'static, str>,
    /// The reason, looking also at lanes and workers, which the stored one does not know.
    pub reason: String,
    pub gates: Vec<Gate>,
}

/// Some of what a member of a flow waits for.
#[derive(Clone, Debug, Default)]
pub struct Upstreams {
    pub executions: Vec<Arc<Execution>>,
    pub more: bool,
}

impl Upstreams {
    /// Those that have not ended, by name and state.
    fn open(&self) -> String {
        let open = self.executions.iter().filter(|it| it.end().is_none());
        let named: Vec<String> = open
            .map(|it| {
                let name = it.node_name().map_or_else(|| it.id.to_string(), |name| name.to_string());
                format!("{name} ({})", it.public_state())
            })
            .collect();
        match (named.is_empty(), self.more) {
            (true, _) => String::new(),
            (false, false) => format!(": {}", named.join(", ")),
            (false, true) => format!(": {}, …", named.join(", ")),
        }
    }
}

/// What a suspended execution waits for, and what has come of it.
fn waits_for(execution: &Execution, suspension: &Suspension) -> String {
    let Suspension { condition, since, timeout_at, on_timeout, .. } = suspension;
    let condition = serde_json::to_string(condition).unwrap_or_default();
    let unused = execution.mailbox().map_or(0, |mailbox| mailbox.signals.len());
    let arrived = if unused == 0 { String::new() } else { format!("; {unused} signals wait to be used") };
    let end = match timeout_at {
        Some(at) => format!("until {at}, then {on_timeout}"),
        None => "for ever".to_owned(),
    };
    format!("waits for {condition} since {since}, {end}{arrived}")
}

/// Explains where an execution stands at `now`.
pub fn explain(execution: &Execution, opening: &Opening, upstreams: &Upstreams, now: Ms) -> Explanation {
    let mut gates = Vec::new();
    let lane = opening.lanes.iter().find(|lane| lane.name == execution.spec.lane);
    let ready = matches!(execution.live.state, State::Ready { .. });
    let mut reason = execution.reason().word().to_owned();
    let mut gate = |gate: &'static str, blocking, detail: String| {
        gates.push(Gate { gate: gate.into(), blocking, detail });
    };

    match &execution.live.state {
        State::Delayed { until, .. } => {
            let left = duration::show((until - now).max(0));
            gate("delay", true, format!("not before {until}, in {left} ({})", execution.reason()));
        }
        State::Blocked { .. } => {
            let group = execution.node().map(|node| &node.group);
            let (satisfied, need) =
                group.map_or((0, 0), |group| (group.satisfied, group.join.need(group.total)));
            let pending = group.map_or(0, |group| group.pending());
            let open = execution.node().is_some_and(|node| node.open);
            let more = if open { "; it is open and may get more, so seal it or its flow" } else { "" };
            let which = upstreams.open();
            gate(
                "dependencies",
                true,
                format!("{satisfied} of {need} needed are satisfied, {pending} have not ended{which}{more}"),
            );
        }
        State::Suspended(suspension) => gate("suspension", true, waits_for(execution, suspension)),
        State::Held { actor, cause, at, .. } => {
            gate("hold", true, format!("held since {at} by {actor:?}: {cause:?}; unhold it to go on"));
        }
        State::Active(lease) => {
            let left = duration::show((lease.expires_at - now).max(0));
            let detail = format!(
                "attempt {} runs on {} (instance {}), lease for another {left}",
                execution.attempt_number(),
                lease.worker,
                lease.instance
            );
            gate("lease", false, detail);
            if let Some(cancel) = &lease.cancel {
                let by = &cancel.cancellation;
                let detail =
                    format!("asked for by {:?}: {:?}; cut off at {}", by.actor, by.cause, cancel.cut_at);
                gate("cancel", false, detail);
            }
        }
        State::Ended(end) => {
            gate(
                "ended",
                true,
                format!("{} at {} ({}); replay it to run it again", end.state, end.at, end.reason),
            );
        }
        State::Ready { .. } => {}
    }

    if let Some(lane) = lane.filter(|lane| lane.mode != LaneMode::Open) {
        let paused = lane.mode == LaneMode::Paused;
        if ready && paused {
            reason = "lane_paused".to_owned();
        }
        let detail = format!(
            "{} is {} since {} by {:?}: {:?}",
            lane.name, lane.mode, lane.changed_at, lane.actor, lane.cause
        );
        gate("lane", ready && paused, detail);
    }

    let workers = opening.workers.iter().filter(|it| it.mode == WorkerMode::Active);
    let on_lane: Vec<_> = workers.filter(|it| it.lanes.contains(&execution.spec.lane)).collect();
    let capable =
        on_lane.iter().filter(|it| it.capabilities.contains_all(&execution.spec.capabilities)).count();
    let needs: Vec<&str> = execution.spec.capabilities.as_slice().iter().map(|word| word.as_str()).collect();
    if execution.end().is_none() {
        let detail = match (on_lane.len(), capable) {
            (0, _) => format!("no worker serves the lane {}", execution.spec.lane),
            (some, 0) => format!("none of {some} workers on the lane has {}", needs.join(", ")),
            (_, capable) => format!("{capable} workers on the lane {} can take it", execution.spec.lane),
        };
        if ready && capable == 0 && reason != "lane_paused" {
            reason = "no_capable_worker".to_owned();
        }
        gate("workers", ready && capable == 0, detail);
    }
    if ready {
        let class = execution.spec.class();
        let counts = opening.ready_counts.iter();
        let ahead = counts.filter(|(lane, it, _)| *lane == execution.spec.lane && *it == class);
        let waiting: u64 = ahead.map(|(_, _, count)| count).sum();
        gate(
            "queue",
            capable > 0,
            format!("{waiting} of its kind are ready in the lane, this one among them"),
        );
    }
    let policy = &execution.spec.policy;
    let series = &execution.live.series;
    let left = policy.max_attempts.saturating_sub(series.spent);
    gate(
        "attempts",
        false,
        format!(
            "{} spent of {}, {left} left; {} leases lost in a row (at most {})",
            series.spent, policy.max_attempts, series.losses, policy.losses_max
        ),
    );
    for (due, guard) in execution.guards() {
        gate("timer", false, format!("{guard:?} at {due}, in {}", duration::show((due - now).max(0))));
    }
    Explanation { state: execution.public_state().word().into(), reason, gates }
}
