//! Suspend: the worker gives its lease back until something happens outside; the same attempt goes on then, under a
//! new epoch.

use super::lifecycle::{Ending, end_attempt, finish_cancelled, holder};
use super::mail::{open, park};
use super::open_waitpoint::NewWaitpoint;
use super::{Decision, When};
use crate::Ms;
use crate::event::Fact;
use crate::execution::{Execution, Fence, How};
use crate::limits::Limits;
use crate::policy::range;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::step::StepPlace;
use crate::suspension::{Arrived, Condition, Mailbox, OnTimeout, Suspension};
use crate::workspace::{Stop, Workspace};

/// The worker parks its execution and spends no attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspend {
    pub fence: Fence,
    pub condition: Condition,
    /// What people see while it waits.
    pub reason: Reason,
    pub timeout: Option<When>,
    pub on_timeout: OnTimeout,
    /// Opened in the same commit; conditions refer to them by name.
    pub waitpoints: Vec<NewWaitpoint>,
    /// The step under which the end of the suspension is recorded.
    pub step: Option<StepPlace>,
}

impl Suspend {
    pub fn new(fence: Fence, condition: Condition) -> Suspend {
        Suspend {
            fence,
            condition,
            reason: Reason::WaitingForSignal,
            timeout: None,
            on_timeout: OnTimeout::Fail,
            waitpoints: Vec::new(),
            step: None,
        }
    }

    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        self.condition.validate()?;
        let reasons = [
            Reason::WaitingForSignal,
            Reason::WaitingForApproval,
            Reason::WaitingForCallback,
            Reason::WaitingForToolResult,
            Reason::WaitingForChild,
            Reason::OperatorReview,
        ];
        if !reasons.contains(&self.reason) {
            let words: Vec<_> = reasons.iter().map(|it| it.word()).collect();
            let problem = format!("is {}; allowed are {}", self.reason, words.join(", "));
            return Err(Invalid::new("reason", problem).into());
        }
        match self.timeout {
            Some(When::In(ms)) => range("timeout", ms, 0, limits.horizon_ms_max)?,
            Some(When::At(at)) => range("timeout", at, 0, Ms::MAX / 4)?,
            None if self.condition == Condition::Time => {
                let problem = "is missing; a suspension that waits for time alone needs one";
                return Err(Invalid::new("timeout", problem).into());
            }
            None => {}
        }
        if self.waitpoints.len() > limits.waitpoints_max {
            let (all, max) = (self.waitpoints.len(), limits.waitpoints_max);
            let problem = format!("are {all} in number; allowed are at most {max}");
            return Err(Invalid::new("waitpoints", problem).into());
        }
        self.waitpoints.iter().try_for_each(|it| it.validate(limits))?;
        check_step(self.step.as_ref(), limits)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.fence.execution)?;
        if let Some(how @ (How::Suspended | How::Cancelled)) = current.ending_of(self.fence) {
            return Ok(Reply::LeaseEnded(how));
        }
        let lease = current.check_fence(self.fence)?.clone();
        let mut execution = (**current).clone();
        let holder = holder(&execution, &lease);
        if let Some(cancel) = lease.cancel {
            let outcome = AttemptOutcome::Cancelled;
            end_attempt(&mut execution, now, Ending { how: How::Cancelled, outcome, error: None });
            ws.emit(&execution, now, Fact::LeaseReleased { holder, cause: outcome });
            finish_cancelled(ws, &mut execution, now, cancel.cancellation);
            ws.put_execution(execution, now);
            return Ok(Reply::LeaseEnded(How::Cancelled));
        }
        let timeout_at = self.timeout.map(|when| when.resolve(now));
        for new in &self.waitpoints {
            open(ws, &mut execution, now, new, None)?;
        }
        self.know_children(ws, &mut execution)?;
        self.check_waitpoints(execution.mailbox_mut())?;
        execution.remember_ending(How::Suspended);
        if let Some(attempt) = &mut execution.live.attempt {
            attempt.leased_ms += now - lease.acquired_at;
        }
        execution.live.series.losses = 0;
        execution.mailbox_mut().resumption = None;
        ws.emit(&execution, now, Fact::LeasePaused { holder });
        let suspension = Suspension {
            condition: self.condition.clone(),
            reason: self.reason,
            since: now,
            timeout_at,
            on_timeout: self.on_timeout,
            step: self.step.clone(),
        };
        park(ws, &mut execution, now, Box::new(suspension));
        ws.put_execution(execution, now);
        Ok(Reply::LeaseEnded(How::Suspended))
    }

    /// A child that ended before anybody waited for it counts at once, however long ago that was.
    fn know_children(&self, ws: &Workspace, execution: &mut Execution) -> Result<(), Stop> {
        for child in self.condition.children() {
            let mailbox = execution.mailbox_mut();
            let told = mailbox.signals.iter().any(|it| it.child == Some(child));
            if told || mailbox.children.contains(&child) {
                continue;
            }
            let Some(record) = ws.execution(child)? else { continue };
            if record.end().is_some() && record.spec.parent == Some(execution.id) {
                execution.mailbox_mut().signals.push(Arrived::child(child));
            }
        }
        Ok(())
    }

    /// A suspension that nothing can ever end is a mistake of whoever asks for it.
    fn check_waitpoints(&self, mailbox: &Mailbox) -> Result<(), Invalid> {
        if self.condition.can_be_met(mailbox) {
            return Ok(());
        }
        let problem = "can never be met: it asks for a waitpoint that is closed or was never opened, for a child \
                       that was never started, or for more approvals than there are approvers";
        Err(Invalid::new("condition", problem))
    }
}

pub(super) fn check_step(step: Option<&StepPlace>, limits: &Limits) -> Result<(), Rejection> {
    match step {
        Some(step) => Ok(range("step number", step.number.into(), 0, limits.steps_max as i64)?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{SendSignal, To};
    use super::*;
    use crate::execution::State;
    use crate::id::ExecutionId;
    use crate::step::StepKind;
    use crate::suspension::{Distinct, Match, ResumedBy, WaitpointId};

    #[test]
    fn the_same_attempt_goes_on_under_a_new_epoch_with_the_signals_that_satisfied_it() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let first = bench.active();
            for _ in 0..2 {
                assert_eq!(bench.ok(suspend(first)), Reply::LeaseEnded(How::Suspended));
            }
            assert_eq!(bench.state(first.execution), ("suspended", "waiting_for_signal"));
            assert_eq!(bench.order(bench.poll()), [], "nothing suspended is claimed");
            bench.ok(signal(first.execution, "other"));
            bench.ok(signal(first.execution, "go"));
            assert_eq!(bench.state(first.execution), ("waiting", "waiting_for_worker"));
            let second = bench.claim();
            assert_eq!((second.attempt, second.epoch), (1, 2));
            let mailbox = bench.get(first.execution).mailbox().unwrap().clone();
            let resumption = mailbox.resumption.unwrap();
            assert_eq!((resumption.by, resumption.signals), (ResumedBy::Signals, vec![2]));
            assert_eq!(mailbox.signals.iter().map(|it| it.number).collect::<Vec<_>>(), [1], "kept for later");
            assert_eq!(bench.refused(complete(first)).code(), "already_ended");
            bench.ok(complete(second));
            assert_eq!(bench.get(first.execution).live.series.spent, 1);
        }
    }

    #[test]
    fn signals_that_came_before_count_in_whatever_order() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(signal(fence.execution, "go"));
        bench.ok(suspend(fence));
        assert_eq!(bench.state(fence.execution).0, "waiting");
        let facts = bench.facts(fence.execution);
        let tail = ["signal_received", "waitpoint_opened", "lease_paused", "suspended"];
        assert_eq!(facts[3..7], tail);
        assert_eq!(facts[7..], ["waitpoint_closed", "resumed"]);
    }

    #[test]
    fn a_signal_is_used_once_and_the_next_wait_gets_the_next_one() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(signal(fence.execution, "go"));
        bench.ok(signal(fence.execution, "go"));
        for number in [1, 2] {
            let fence = Fence { epoch: u64::from(number), ..fence };
            bench.ok(Suspend::new(fence, named("go")));
            bench.claim();
            let mailbox = bench.get(fence.execution).mailbox().unwrap();
            assert_eq!(mailbox.resumption.as_ref().unwrap().signals, [number]);
        }
        bench.ok(Suspend::new(Fence { epoch: 3, ..fence }, named("go")));
        assert_eq!(bench.state(fence.execution).0, "suspended");
    }

    #[test]
    fn every_timeout_does_what_was_asked() {
        let cases = [
            (OnTimeout::Fail, ("failed", "suspension_timed_out")),
            (OnTimeout::Cancel, ("cancelled", "suspension_timed_out")),
            (OnTimeout::Expire, ("expired", "suspension_timed_out")),
            (OnTimeout::Resume, ("waiting", "waiting_for_worker")),
            (OnTimeout::Escalate, ("suspended", "operator_review")),
        ];
        for (on_timeout, after) in cases {
            let mut bench = Bench::new();
            let fence = bench.active();
            bench.ok(Suspend { on_timeout, ..suspend(fence) });
            bench.pass(19_999);
            assert_eq!(bench.state(fence.execution), ("suspended", "waiting_for_signal"), "{on_timeout}");
            bench.pass(1);
            assert_eq!(bench.state(fence.execution), after, "{on_timeout}");
            let closed = bench.get(fence.execution).mailbox().unwrap().waitpoints.is_empty();
            assert_eq!(closed, on_timeout != OnTimeout::Escalate, "{on_timeout}");
            if on_timeout == OnTimeout::Resume {
                let mailbox = bench.get(fence.execution).mailbox().unwrap();
                assert_eq!(mailbox.resumption.as_ref().unwrap().by, ResumedBy::Timeout);
                assert_eq!(bench.claim().attempt, 1);
            }
            if on_timeout == OnTimeout::Escalate {
                assert_eq!(bench.get(fence.execution).live.timer, None, "the timer is gone");
                let told = bench.facts(fence.execution).iter().filter(|it| **it == "escalated").count();
                bench.pass(3_600_000);
                assert_eq!((told, bench.state(fence.execution).1), (1, "operator_review"), "told once");
                bench.ok(signal(fence.execution, "go"));
                assert_eq!(bench.claim().attempt, 1, "a signal still ends it");
            }
        }
    }

    #[test]
    fn the_timer_of_a_suspension_that_is_over_cannot_fire() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(suspend(fence));
        let entry = bench.timer(fence.execution).unwrap();
        bench.ok(signal(fence.execution, "go"));
        let second = bench.claim();
        bench.ok(complete(second));
        bench.jump(60_000);
        assert_eq!(bench.fire(entry), Reply::Fired { effect: false });
        assert_eq!(bench.state(fence.execution).0, "completed");
    }

    #[test]
    fn what_is_suspended_costs_its_own_timer_and_nothing_else() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let own = |bench: &Bench| bench.store.agenda.len();
        bench.ok(Suspend { timeout: None, ..suspend(fence) });
        let without = own(&bench);
        bench.ok(signal(fence.execution, "go"));
        let fence = bench.claim();
        bench.ok(suspend(fence));
        assert_eq!(own(&bench), without + 1);
        assert_eq!(bench.ws.leases_of(bench.worker).count(), 0);
    }

    #[test]
    fn a_suspension_that_nothing_can_end_is_refused_and_nothing_is_kept() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let mut open = open_waitpoint(fence, "board");
        open.waitpoint.approvers = vec!["ann".into(), "bob".into()];
        open.waitpoint.requester = Some("bob".into());
        bench.ok(open);
        let at = |number| Condition::Signal(Match::waitpoint(number));
        let sources = |n| Condition::Count { n, distinct: Distinct::Sources, of: vec![Match::waitpoint(1)] };
        let stranger = bench.next_id();
        let never = [at(2), sources(2), Condition::Child(stranger), Condition::AllOf(vec![at(1), at(9)])];
        for condition in never {
            let refused = bench.refused(Suspend { waitpoints: vec![], ..Suspend::new(fence, condition) });
            assert!(refused.to_string().starts_with("condition can never be met"), "{refused}");
        }
        bench.ok(Suspend::new(fence, sources(1)));
    }

    #[test]
    fn a_waitpoint_that_expires_ends_what_waits_for_it_alone() {
        for (on_timeout, after) in [(OnTimeout::Fail, "failed"), (OnTimeout::Escalate, "suspended")] {
            let mut bench = Bench::new();
            let fence = bench.active();
            let mut open = open_waitpoint(fence, "board");
            open.waitpoint.expires_in_ms = Some(5_000);
            bench.ok(open);
            let condition = Condition::Signal(Match::waitpoint(1));
            bench.ok(Suspend { on_timeout, ..Suspend::new(fence, condition) });
            bench.pass(4_999);
            assert_eq!(bench.state(fence.execution).0, "suspended");
            bench.pass(1);
            assert_eq!(bench.state(fence.execution).0, after);
            assert!(bench.store.waitpoints.is_empty());
        }
    }

    #[test]
    fn signals_while_it_is_held_count_when_it_is_unheld() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(suspend(fence));
        bench.ok(hold(fence.execution));
        assert_eq!(bench.state(fence.execution), ("waiting", "paused_by_operator"));
        bench.ok(signal(fence.execution, "go"));
        assert_eq!(bench.state(fence.execution), ("waiting", "paused_by_operator"));
        assert_eq!(bench.order(bench.poll()), []);
        bench.ok(unhold(fence.execution));
        assert_eq!(bench.claim().attempt, 1);
    }

    #[test]
    fn a_hold_does_not_end_a_suspension_and_a_timeout_that_passed_meanwhile_acts_after_it() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(suspend(fence));
        bench.ok(hold(fence.execution));
        bench.pass(30_000);
        assert_eq!(bench.state(fence.execution).1, "paused_by_operator");
        bench.ok(unhold(fence.execution));
        assert_eq!(bench.state(fence.execution), ("suspended", "waiting_for_signal"));
        bench.pass(0);
        assert_eq!(bench.state(fence.execution), ("failed", "suspension_timed_out"));
    }

    #[test]
    fn a_cancel_closes_what_it_waited_for() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(suspend(fence));
        assert_eq!(bench.store.waitpoints.len(), 1);
        bench.ok(cancel(fence.execution, Some(60_000)));
        assert_eq!(bench.state(fence.execution), ("cancelled", "cancelled_by_request"));
        assert!(bench.store.waitpoints.is_empty());
        let at = To::Waitpoint(WaitpointId { execution: fence.execution, number: 1 });
        assert_eq!(bench.refused(SendSignal::new(at)).code(), "terminal");
    }

    #[test]
    fn suspending_in_the_grace_of_a_cancel_cancels() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(cancel(fence.execution, Some(5_000)));
        for _ in 0..2 {
            assert_eq!(bench.ok(suspend(fence)), Reply::LeaseEnded(How::Cancelled));
        }
        assert!(bench.store.waitpoints.is_empty());
    }

    #[test]
    fn two_days_of_waiting_do_not_count_as_running() {
        let mut bench = Bench::new();
        let fence = bench.active_with(|it| it.policy.attempt_timeout_ms = Some(10_000));
        bench.pass(6_000);
        bench.ok(Suspend { timeout: None, ..suspend(fence) });
        bench.pass(2 * 24 * 3_600_000);
        bench.ok(signal(fence.execution, "go"));
        let fence = bench.claim();
        bench.pass(3_999);
        assert_eq!(bench.state(fence.execution).0, "active");
        bench.pass(1);
        assert_eq!(bench.state(fence.execution), ("delayed", "retry_backoff"));
    }

    #[test]
    fn the_end_of_a_suspension_is_recorded_under_its_step_in_the_same_commit() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(Suspend { step: Some(step_place("approval", 4)), ..suspend(fence) });
        assert!(bench.store.steps.is_empty());
        bench.pass(3_000);
        bench.ok(signal(fence.execution, "go"));
        let step = bench.store.steps.values().next().unwrap();
        assert_eq!((step.kind, step.number, step.attempt), (StepKind::Wait, 4, 1));
        assert_eq!(step.ended_at - step.started_at, 3_000);
        let told = serde_json::from_slice::<serde_json::Value>(&step.result.bytes).unwrap();
        assert_eq!(told["signals"], serde_json::json!([1]));
        // The worker that was to go on dies; a new attempt still finds what was waited for.
        bench.claim();
        bench.pass(40_000);
        assert_eq!(bench.claim().attempt, 2);
        assert!(bench.get(fence.execution).live.stepped);
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_it_costs_anything() {
        let fence =
            Fence { execution: ExecutionId::from_parts(1, crate::id::Route(0), 1), attempt: 1, epoch: 1 };
        let limits = Limits::default();
        let problem = |suspend: Suspend| suspend.validate(&limits).unwrap_err().to_string();
        let time = Suspend::new(fence, Condition::Time);
        assert_eq!(
            problem(time.clone()),
            "timeout is missing; a suspension that waits for time alone needs one"
        );
        assert!(Suspend { timeout: Some(When::In(1)), ..time }.validate(&limits).is_ok());
        let odd = Suspend { reason: Reason::Running, ..suspend(fence) };
        assert!(problem(odd).starts_with("reason is running; allowed are waiting_for_signal, "));
        let late = Suspend { timeout: Some(When::In(-1)), ..suspend(fence) };
        assert!(problem(late).starts_with("timeout is -1; allowed are 0 to "));
    }

    /// Everything that can happen to a suspension, by a letter.
    fn happen(bench: &mut Bench, id: ExecutionId, what: char) {
        match what {
            's' => {
                let fence = bench.get(id).fence();
                let _ = bench.run(suspend(fence));
            }
            'g' => {
                let _ = bench.run(signal(id, "go"));
            }
            // Time passes up to its next limit: the lease, the suspension's own, or the deadline.
            't' => {
                let due = bench.get(id).live.timer.unwrap_or(bench.now);
                bench.pass((due - bench.now).clamp(0, 25_000));
            }
            'c' => {
                let _ = bench.run(cancel(id, None));
            }
            'e' => bench.pass(30_000),
            'r' => drop(bench.order(bench.poll())),
            _ => unreachable!(),
        }
    }

    /// What must hold whatever happened: the bench checks every invariant after every commit; here, that no signal
    /// that was taken has got lost.
    fn nothing_is_lost(bench: &Bench, id: ExecutionId, story: &str) {
        let it = bench.get(id);
        let Some(mailbox) = it.mailbox().filter(|_| it.end().is_none()) else { return };
        let used = bench.store.events.iter().filter(|event| event.execution == Some(id));
        let used = used.filter_map(|event| match &event.fact {
            Fact::Resumed { signals, .. } => Some(signals.clone()),
            _ => None,
        });
        let mut known: Vec<u32> = used.flatten().chain(mailbox.signals.iter().map(|it| it.number)).collect();
        known.sort_unstable();
        assert!(known.into_iter().eq(1..=mailbox.received), "{story}: {it:?}");
        if matches!(it.live.state, State::Suspended(_)) {
            assert!(mailbox.signals.iter().all(|it| it.name.as_deref() != Some("go")), "{story}");
        }
    }

    fn stories(letters: &[char], length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        for _ in 0..length {
            all =
                all.iter().flat_map(|it| letters.iter().map(move |letter| format!("{it}{letter}"))).collect();
        }
        all
    }

    #[test]
    fn every_order_of_suspend_signal_timeout_cancel_and_expiry_is_survived() {
        for story in stories(&['s', 'g', 't', 'c', 'e', 'r'], 5) {
            let mut bench = Bench::new();
            let fence = bench.active_with(|it| it.deadline = Some(When::In(55_000)));
            story.chars().for_each(|what| happen(&mut bench, fence.execution, what));
            nothing_is_lost(&bench, fence.execution, &story);
        }
    }

    /// Every order of these, each once.
    fn orders(letters: &[char]) -> Vec<String> {
        if letters.is_empty() {
            return vec![String::new()];
        }
        let first = |at: usize| {
            let rest: Vec<char> =
                letters.iter().enumerate().filter(|it| it.0 != at).map(|it| *it.1).collect();
            orders(&rest).into_iter().map(move |rest| format!("{}{rest}", letters[at]))
        };
        (0..letters.len()).flat_map(first).collect()
    }

    /// Upper case is for the second execution; time passes for both.
    fn tell_of_two(story: &str) {
        let mut bench = Bench::new();
        bench.checks = Checks::Last;
        let ids = [(); 2].map(|()| bench.active_with(|it| it.deadline = Some(When::In(55_000))).execution);
        for what in story.chars() {
            let id = ids[usize::from(what.is_uppercase())];
            happen(&mut bench, id, what.to_ascii_lowercase());
        }
        ids.iter().for_each(|id| nothing_is_lost(&bench, *id, story));
    }

    #[test]
    fn every_order_of_what_happens_to_two_executions_is_survived() {
        // Which of the two is suspended first makes no difference.
        let all = orders(&['s', 'g', 't', 'c', 'S', 'G', 'T', 'C', 'e']);
        let stories = all.iter().filter(|it| it.find('s') < it.find('S'));
        assert_eq!(stories.map(|story| tell_of_two(story)).count(), 181_440);
    }

    #[test]
    fn what_happens_again_and_again_to_two_executions_is_survived() {
        stories(&['s', 'g', 't', 'c', 'S', 'G', 'T', 'C', 'e', 'r'], 4).iter().for_each(|it| tell_of_two(it));
    }
}
