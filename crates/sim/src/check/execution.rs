//! What must hold of one execution after every commit that touched it, and of the step that led there.

use ff_core::change::Changes;
use ff_core::event::{Event, Fact};
use ff_core::execution::{Execution, State};
use ff_core::fold::Folded;
use ff_core::payload::{PayloadKey, Slot};
use ff_core::rejection::Lost;
use ff_core::state::Reason;

use super::Check;
use super::history::Life;
use super::mirror::Mirror;

/// The record by itself, beside its timer, attempts, payloads and events.
pub fn check_record(mirror: &Mirror, it: &Execution, life: &Life) -> Check {
    let (id, live) = (it.id, &it.live);
    let ended = it.end().is_some();
    ensure!(ended == it.public_state().is_terminal(), "{id} is {} and {:?}", it.public_state(), live.state);
    let earliest = it.guards().map(|(at, _)| at).min();
    let timed = match (live.timer, earliest) {
        (None, None) => true,
        (Some(timer), Some(due)) => timer <= due,
        _ => false,
    };
    ensure!(timed, "{id}: the timer at {:?} does not fit the earliest guard at {earliest:?}", live.timer);
    if let State::Delayed { .. } = live.state {
        ensure!(live.timer.is_some(), "{id} is delayed and nothing will wake it");
    }
    let (spent, max) = (live.series.spent, it.spec.policy.max_attempts);
    ensure!(spent <= max, "{id} has spent {spent} attempts of {max}");
    let epochs: Vec<u64> = live.endings.iter().map(|ending| ending.epoch).collect();
    ensure!(epochs.is_sorted_by(|a, b| a < b), "{id}: a lease ended twice: {epochs:?}");
    let newest = epochs.last().copied().unwrap_or(0) + u64::from(it.lease().is_some());
    ensure!(newest == live.epoch, "{id}: epoch {} but leases ended {epochs:?}", live.epoch);
    let endings = life.endings + u32::from(!ended);
    ensure!(
        endings == live.series.number,
        "{id}: {} ending events in series {}",
        life.endings,
        live.series.number
    );
    let folded = Folded::of(it);
    ensure!(
        life.folded.as_ref() == Some(&folded),
        "{id}: events say {:?}, stored is {folded:?}",
        life.folded
    );
    let input = PayloadKey { execution: id, slot: Slot::Input };
    ensure!(mirror.payloads.contains(&input), "{id} has no input");
    if it.end().is_some_and(|end| end.result_bytes.is_some()) {
        let result = PayloadKey { execution: id, slot: Slot::Result };
        ensure!(mirror.payloads.contains(&result), "{id} has no result");
    }
    super::mail::check_mailbox(mirror, it)?;
    check_attempts(mirror, it)
}

fn check_attempts(mirror: &Mirror, it: &Execution) -> Check {
    let id = it.id;
    let mut expected = 1;
    for ((_, number), attempt) in mirror.attempts.range((id, 0)..=(id, u32::MAX)) {
        ensure!(*number == expected, "{id}: attempt {number} is archived where {expected} is next");
        ensure!(attempt.end.is_some(), "{id}: attempt {number} is archived without an outcome");
        expected += 1;
    }
    let Some(attempt) = &it.live.attempt else {
        ensure!(expected == 1 && it.lease().is_none(), "{id} has no newest attempt");
        return Ok(());
    };
    ensure!(attempt.number == expected, "{id}: attempt {} where {expected} is next", attempt.number);
    let open = match &it.live.state {
        State::Active(lease) => {
            ensure!(lease.instance == attempt.instance, "{id}: the lease is not the attempt's");
            true
        }
        State::Ended(_) | State::Blocked { .. } => false,
        State::Suspended(_) => true,
        State::Delayed { reason, .. } => *reason == Reason::ResumeDelay,
        // Open exactly if its newest lease was put off, not ended.
        State::Ready { .. } | State::Held { .. } => {
            let newest = it.live.endings.last().map(|ending| ending.how.word());
            matches!(newest, Some("delayed" | "suspended")) && attempt.series == it.live.series.number
        }
    };
    ensure!(
        attempt.end.is_none() == open,
        "{id}: an attempt has its outcome exactly when it is over: {it:?}"
    );
    Ok(())
}

/// How one record may follow another, whatever happened in one commit.
pub fn check_step(before: &Execution, after: &Execution, changes: &Changes) -> Check {
    let id = after.id;
    let own = || changes.events.iter().filter(|event| event.execution == Some(id));
    if own().any(|event| matches!(event.fact, Fact::Removed { .. })) {
        // The id was used again after it had been removed.
        return Ok(());
    }
    let (old, new) = (before.live.epoch, after.live.epoch);
    ensure!(old <= new, "{id}: the epoch goes back from {old} to {new}");
    ensure!(before.attempt_number() <= after.attempt_number(), "{id}: the attempt number goes back");
    let replayed = own().any(|event| matches!(event.fact, Fact::Replayed { .. }));
    if before.end().is_some() && !replayed {
        let same = before.live.state == after.live.state;
        ensure!(same, "{id}: an ending changed: {:?} to {:?}", before.live.state, after.live.state);
    }
    let was = (before.public_state(), before.reason());
    let changed = was != (after.public_state(), after.reason());
    ensure!(!changed || own().next().is_some(), "{id} went from {was:?} without an event");
    own().try_for_each(|event| check_due(before, after, event))
}

/// What time does, it does at or after its time.
fn check_due(before: &Execution, after: &Execution, event: &Event) -> Check {
    let due = match (&event.fact, &before.live.state) {
        (Fact::Woken, State::Delayed { until, .. }) => Some(*until),
        (Fact::LeaseExpired { holder }, State::Active(lease)) if holder.epoch == before.live.epoch => {
            let how = after.live.endings.iter().find(|it| it.epoch == holder.epoch).map(|it| it.how);
            let by_time = how == Some(ff_core::execution::How::Lost(Lost::Expired));
            by_time.then_some(lease.expires_at + after.spec.policy.lease_grace_ms)
        }
        (Fact::Expired { reason: Reason::ScheduleToStartPassed, .. }, State::Ready { since, .. }) => {
            after.spec.policy.schedule_to_start_ms.map(|ms| since + ms)
        }
        // A replay in the same commit would have moved it.
        (Fact::Expired { reason: Reason::DeadlinePassed, .. }, _) => before.live.deadline_at,
        _ => None,
    };
    let Some(due) = due else { return Ok(()) };
    ensure!(event.at >= due, "{}: {} at {} was due at {due}", after.id, event.fact.word(), event.at);
    Ok(())
}
