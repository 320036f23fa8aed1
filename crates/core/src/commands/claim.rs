//! Claim: a worker takes what may start now, best rank first, over every class it satisfies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::Decision;
use super::flows::{withdraw, withdraw_loser, withdrawn};
use super::lifecycle::holder;
use crate::Ms;
use crate::attempt::Attempt;
use crate::class::{Capabilities, Class};
use crate::event::Fact;
use crate::execution::{Execution, Lease, State};
use crate::id::{ExecutionId, InstanceId};
use crate::key::Ask;
use crate::lane::LaneMode;
use crate::name::{Kind, LaneName, Namespace, WorkerName};
use crate::ready::Place;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::state::{AttemptOutcome, Reason};
use crate::worker::{WorkerInstance, WorkerMode};
use crate::workspace::{Stop, Workspace};

/// How many bytes a worker is sent for one claim at most (at least one execution, whatever its size). How much input there
/// is is known here; what comes with it from flows, steps and signals is added up when it is read.
pub const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// How many ready entries a refill asks for when a claim runs into the end of a window.
const REFILL: usize = 1_024;

/// What a worker is willing and able to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Poll {
    pub worker: WorkerName,
    pub instance: InstanceId,
    pub lanes: Vec<LaneName>,
    /// The kinds it handles; all if empty.
    pub kinds: Vec<Kind>,
    /// The namespaces it may see; all if empty.
    pub namespaces: Vec<Namespace>,
    pub capabilities: Capabilities,
}

impl Poll {
    /// Whether the worker wants and can run work of this class.
    pub fn accepts(&self, class: &Class) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&class.kind))
            && (self.namespaces.is_empty() || self.namespaces.contains(&class.namespace))
            && self.capabilities.contains_all(&class.capabilities)
    }

    /// Whether this partition has something for the poll, in memory or not.
    pub fn finds_work(&self, ws: &Workspace) -> bool {
        self.lanes.iter().any(|lane| {
            ws.lane(lane).mode != LaneMode::Paused
                && ws.ready().lane(lane).any(|(class, window)| window.total() > 0 && self.accepts(class))
        })
    }
}

/// Whether a worker, as it is known, gets work.
pub fn may_claim(instance: InstanceId, known: Option<&WorkerInstance>) -> Result<(), Rejection> {
    let instance = instance.to_string();
    match known {
        None => Err(Rejection::WorkerUnknown { instance }),
        Some(worker) => match worker.mode {
            WorkerMode::Active => Ok(()),
            WorkerMode::Draining => Err(Rejection::WorkerDraining { instance }),
            WorkerMode::Dead => Err(Rejection::WorkerDead { instance, at: worker.died_at.unwrap_or(0) }),
        },
    }
}

/// Asks for up to `max` executions that the poll accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub poll: Arc<Poll>,
    pub max: usize,
}

impl Claim {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        self.check_worker(ws)?;
        let picked = self.pick(ws)?;
        let mut claimed = Vec::with_capacity(picked.len());
        for id in picked {
            let execution = (**ws.require(id)?).clone();
            if let Some(reason) = withdrawn(ws, &execution)? {
                withdraw_late(ws, &execution, now, reason)?;
                continue;
            }
            self.start(ws, execution, now);
            claimed.push(ws.require(id)?.clone());
        }
        Ok(Reply::Claimed(claimed))
    }

    fn check_worker(&self, ws: &Workspace) -> Result<(), Rejection> {
        may_claim(self.poll.instance, ws.worker(self.poll.instance).map(|it| &**it))
    }

    /// The best entries over all windows of classes that the poll accepts.
    fn pick(&self, ws: &Workspace) -> Result<Vec<ExecutionId>, Stop> {
        let mut fronts = BinaryHeap::new();
        let mut windows = Vec::new();
        let mut missing = Vec::new();
        for (n, lane) in self.poll.lanes.iter().enumerate() {
            // A lane named twice must not hand out the same execution twice.
            if self.poll.lanes[..n].contains(lane) || ws.lane(lane).mode == LaneMode::Paused {
                continue;
            }
            for (class, window) in ws.ready().lane(lane).filter(|(class, _)| self.poll.accepts(class)) {
                let mut entries = window.iter_from(None);
                match entries.next() {
                    Some((place, id)) => {
                        fronts.push(Reverse((place, id, windows.len())));
                        windows.push((entries, lane, class, window));
                    }
                    None if !window.is_whole() => missing.push(refill(lane, class, window.mark())),
                    None => {}
                }
            }
        }
        // An unread window may hide something better than all that is in memory.
        if !missing.is_empty() {
            return Err(Stop::Need(missing));
        }
        let (mut picked, mut unknown) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while picked.len() + unknown.len() < self.max
            && let Some(Reverse((place, id, at))) = fronts.pop()
        {
            match ws.execution(id) {
                Err(Stop::Need(asks)) => unknown.extend(asks),
                Err(stop) => return Err(stop),
                Ok(Some(execution)) if execution.place() == Some(place) => {
                    bytes += execution.spec.input_bytes;
                    if bytes > ANSWER_BYTES_MAX && !picked.is_empty() {
                        break;
                    }
                    picked.push(id);
                }
                // Only a damaged store has an entry that its execution does not call for; it must neither
                // start anything nor stop the queue.
                Ok(_) => {}
            }
            let (entries, _, _, window) = &mut windows[at];
            match entries.next() {
                Some((place, id)) => fronts.push(Reverse((place, id, at))),
                // What was picked so far is right; the rest needs the window's next part.
                None if !window.is_whole() => break,
                None => {}
            }
        }
        if unknown.is_empty() { Ok(picked) } else { Err(Stop::Need(unknown)) }
    }

    /// Starts an attempt, or goes on with one that was put off.
    fn start(&self, ws: &mut Workspace, mut execution: Execution, now: Ms) {
        let poll = &self.poll;
        let live = &mut execution.live;
        let previous = live.attempt.take();
        let after_loss = previous
            .as_ref()
            .and_then(|attempt| attempt.end.as_ref())
            .is_some_and(|end| end.outcome == AttemptOutcome::LeaseLost);
        let attempt = match previous {
            Some(attempt) if attempt.end.is_none() => {
                Attempt { worker: poll.worker.clone(), instance: poll.instance, ..attempt }
            }
            previous => {
                let number = previous.as_ref().map_or(0, |attempt| attempt.number) + 1;
                if let Some(previous) = previous {
                    ws.archive_attempt(execution.id, previous);
                }
                Attempt {
                    number,
                    series: live.series.number,
                    worker: poll.worker.clone(),
                    instance: poll.instance,
                    started_at: now,
                    leased_ms: 0,
                    progress: None,
                    end: None,
                }
            }
        };
        live.epoch += 1;
        let started =
            Fact::Started { attempt: attempt.number, epoch: live.epoch, series: live.series.number };
        live.attempt = Some(attempt);
        let lease = Lease {
            worker: poll.worker.clone(),
            instance: poll.instance,
            acquired_at: now,
            expires_at: now.saturating_add(execution.spec.policy.lease_ms),
            cancel: None,
        };
        let holder = holder(&execution, &lease);
        execution.live.state = State::Active(lease);
        let acquired =
            if after_loss { Fact::LeaseReclaimed { holder } } else { Fact::LeaseAcquired { holder } };
        ws.emit(&execution, now, acquired);
        ws.emit(&execution, now, started);
        ws.put_execution(execution, now);
    }
}

fn refill(lane: &LaneName, class: &Class, after: Place) -> Ask {
    Ask::Ready { lane: lane.clone(), class: class.clone(), after, limit: REFILL }
}

/// Ends a member that was ready but must not start any more; the agenda would have come to it later.
fn withdraw_late(ws: &mut Workspace, member: &Execution, now: Ms, reason: Reason) -> Result<(), Stop> {
    let cancel = match member.flow() {
        Some(flow) if reason == Reason::FlowCancelled => ws.require_flow(flow)?.live.cancel.clone(),
        _ => None,
    };
    match cancel {
        Some(cancel) => withdraw(ws, member.id, now, &cancel.by, reason),
        None => withdraw_loser(ws, member.id, now, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::limits::Limits;
    use crate::payload::Payload;

    #[test]
    fn a_lane_named_twice_hands_out_each_execution_once() {
        let mut bench = Bench::new();
        let id = bench.create();
        let twice = Poll { lanes: vec![LaneName::default(); 2], ..bench.poll() };
        assert_eq!(bench.order(twice), [id]);
        assert_eq!(bench.get(id).live.epoch, 1);
    }

    #[test]
    fn work_starts_in_the_order_of_rank_then_number_over_classes_and_lanes() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let a = bench.create();
            let b = bench.create_with(|it| it.kind = kind("other"));
            let c = bench.create_with(|it| it.lane = lane("second"));
            let d = bench.create_with(|it| it.namespace = namespace("acme"));
            bench.jump(30_000);
            let late = bench.create();
            let urgent = bench.create_with(|it| it.priority = 1);
            let poll = Poll { lanes: vec![LaneName::default(), lane("second")], ..bench.poll() };
            let mut order = Vec::new();
            while let [next] = bench.claim_with(poll.clone(), 1)[..] {
                order.push(next.execution);
            }
            assert_eq!(order, [urgent, a, b, c, d, late]);
        }
    }

    #[test]
    fn a_poll_gets_only_what_it_asked_for_and_can_run() {
        let mut bench = Bench::new();
        let plain = bench.create();
        let gpu = bench.create_with(|it| it.capabilities = capabilities(&["gpu"]));
        let other = bench.create_with(|it| it.kind = kind("other"));
        let acme = bench.create_with(|it| it.namespace = namespace("acme"));
        let second = bench.create_with(|it| it.lane = lane("second"));
        let base = Poll { kinds: vec![kind("work")], namespaces: vec![namespace("default")], ..bench.poll() };
        let cases = [
            (base.clone(), vec![plain]),
            (Poll { capabilities: capabilities(&["eu", "gpu"]), ..base.clone() }, vec![plain, gpu]),
            (Poll { kinds: vec![kind("other")], ..base.clone() }, vec![other]),
            (Poll { kinds: vec![], ..base.clone() }, vec![plain, other]),
            (Poll { namespaces: vec![namespace("acme")], ..base.clone() }, vec![acme]),
            (Poll { namespaces: vec![], ..base.clone() }, vec![plain, acme]),
            (Poll { lanes: vec![lane("second")], ..base.clone() }, vec![second]),
            (Poll { lanes: vec![lane("none")], ..base.clone() }, vec![]),
        ];
        for (poll, expected) in cases {
            assert_eq!(poll.finds_work(&bench.ws), !expected.is_empty());
            let fences = bench.claim_with(poll, 100);
            let mut claimed: Vec<_> = fences.iter().map(|it| it.execution).collect();
            claimed.sort();
            assert_eq!(claimed, expected);
            for fence in fences {
                bench.ok(release(fence));
            }
        }
    }

    #[test]
    fn nothing_of_a_paused_lane_starts_and_a_draining_one_is_worked_off() {
        let mut bench = Bench::new();
        let id = bench.create();
        bench.set_lane_mode("default", LaneMode::Paused);
        assert_eq!(bench.order(bench.poll()), []);
        assert!(!bench.poll().finds_work(&bench.ws));
        bench.set_lane_mode("default", LaneMode::Draining);
        assert_eq!(bench.order(bench.poll()), [id]);
    }

    #[test]
    fn a_claim_hands_out_at_most_what_was_asked_for() {
        let mut bench = Bench::new();
        for _ in 0..5 {
            bench.create();
        }
        let poll = bench.poll();
        let counts: Vec<_> = [0, 2, 9, 9].map(|max| bench.claim_with(poll.clone(), max).len()).into();
        assert_eq!(counts, [0, 2, 3, 0]);
    }

    #[test]
    fn an_answer_is_bounded_in_bytes_but_never_empty() {
        let limits = Limits { input_bytes_max: 64 << 20, ..Limits::default() };
        let mut bench = Bench::of(crate::id::PartitionId(0), 1, limits);
        for mib in [20, 9, 7, 1] {
            bench.create_with(|it| it.input = Payload::json(vec![b'1'; mib << 20]));
        }
        let poll = bench.poll();
        let counts: Vec<_> = (0..3).map(|_| bench.claim_with(poll.clone(), 9).len()).collect();
        assert_eq!(counts, [1, 2, 1]);
    }

    #[test]
    fn an_unread_window_is_read_before_anything_is_picked() {
        let mut bench = Bench::new();
        let urgent = bench.create_with(|it| it.priority = 9);
        bench.reopen();
        let id = bench.create_with(|it| it.kind = kind("other"));
        let command = Claim { poll: Arc::new(bench.poll()), max: 1 }.into();
        let stop = super::super::decide(&mut bench.ws, bench.now, &command).unwrap_err();
        assert!(matches!(stop, Stop::Need(asks) if matches!(asks[..], [Ask::Ready { .. }])));
        assert_eq!(bench.order(bench.poll()), [urgent, id]);
    }

    #[test]
    fn only_a_registered_living_worker_that_does_not_drain_gets_work() {
        let mut bench = Bench::new();
        bench.create();
        let claim = Claim { poll: Arc::new(bench.poll()), max: 1 };
        let stranger = Poll { instance: bench.new_instance(), ..bench.poll() };
        let refusal = bench.refused(Claim { poll: Arc::new(stranger), max: 1 });
        assert_eq!(refusal.code(), "worker_unknown");
        bench.ok(drain(bench.worker));
        assert_eq!(bench.refused(claim.clone()).code(), "worker_draining");
        bench.ok(bury(bench.worker));
        assert_eq!(bench.refused(claim).code(), "worker_dead");
    }

    #[test]
    fn the_event_of_a_claim_says_who_holds_the_lease_and_whether_it_was_lost_before() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.pass(31_000);
        assert_eq!(bench.claim().execution, fence.execution);
        let facts = bench.facts(fence.execution);
        let leases: Vec<_> = facts.into_iter().filter(|word| word.starts_with("lease_")).collect();
        assert_eq!(leases, ["lease_acquired", "lease_expired", "lease_reclaimed"]);
        let reclaimed = bench.store.events.iter().rev().nth(1).unwrap();
        let Fact::LeaseReclaimed { holder } = &reclaimed.fact else { panic!("{reclaimed:?}") };
        assert_eq!((holder.instance, holder.attempt, holder.epoch), (bench.worker, 2, 2));
    }

    #[test]
    fn a_claim_stops_at_the_end_of_a_window_rather_than_skip_what_is_behind_it() {
        let mut bench = Bench::new();
        let [a, b, c] = [9, 8, 7].map(|priority| bench.create_with(|it| it.priority = priority));
        let last = bench.create_with(|it| it.kind = kind("other"));
        bench.reopen();
        bench.memory = Memory::Nothing;
        assert_eq!(bench.order(bench.poll()), [a, b], "pages have two entries");
        assert_eq!(bench.order(bench.poll()), [c, last]);
    }
}
