//! The sweep: ended executions and flows, idempotency keys, dead workers, retired signing keys and events that are old
//! enough are removed, some hundred at a time. One entry per partition walks ordered lists; nothing is scanned.

use super::Decision;
use super::flows::remove_members;
use crate::Ms;
use crate::event::Fact;
use crate::id::InstanceId;
use crate::key::Ask;
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

const PER_STEP: usize = 500;
/// Two sweeps are at least so far apart unless the first found more than it could take.
const PAUSE_MS: Ms = 1_000;

pub(super) fn sweep(ws: &mut Workspace, now: Ms) -> Decision {
    let events_before = now.saturating_sub(ws.limits.event_retention_ms);
    let page = ws.take_sweep_page(Ask::Sweep { now, events_before, limit: PER_STEP })?;
    let mut unknown = Vec::new();
    for entry in &page.ended {
        if let Err(Stop::Need(asks)) = ws.know_stream(entry.execution) {
            unknown.extend(asks);
        }
    }
    for (key, _) in &page.dedup {
        if let Err(Stop::Need(asks)) = ws.dedup(key) {
            unknown.extend(asks);
        }
    }
    if !unknown.is_empty() {
        unknown.push(Ask::Sweep { now, events_before, limit: PER_STEP });
        return Err(Stop::Need(unknown));
    }
    for entry in &page.ended {
        // It may have been replayed or removed since the page was read.
        if let Some(execution) = ws.execution(entry.execution)?.cloned()
            && execution.end().is_some_and(|end| end.remove_at <= now)
        {
            // Its children go before it.
            if execution.has_children() {
                ws.sweep_by(now + PAUSE_MS);
                continue;
            }
            ws.emit(&execution, now, Fact::Removed { by: None });
            ws.purge_execution(entry.execution);
            // The last events of all would otherwise be nobody's business.
            ws.sweep_by(now.saturating_add(ws.limits.event_retention_ms));
        }
    }
    for (key, _) in &page.dedup {
        if ws.dedup(key)?.is_some_and(|dedup| dedup.expires_at <= now) {
            ws.put_dedup(key.clone(), None);
        }
    }
    let mut left = PER_STEP;
    for (_, flow) in &page.flows {
        if left > 0 {
            let removed = remove_members(ws, now, *flow, left).map_err(|stop| match stop {
                // The page was used up, so it is read again with what is missing.
                Stop::Need(mut asks) => {
                    asks.push(Ask::Sweep { now, events_before, limit: PER_STEP });
                    Stop::Need(asks)
                }
                stop => stop,
            })?;
            left = left.saturating_sub(removed);
        }
    }
    let old: Vec<InstanceId> = ws
        .workers()
        .filter(|it| it.releasing_since.is_none() && it.remove_at().is_some_and(|at| at <= now))
        .map(|it| it.instance)
        .collect();
    old.into_iter().for_each(|instance| ws.purge_worker(instance));
    // Tokens of a retired key are refused, and whoever still waits for one gets it under the newest key.
    let retired: Vec<u32> = ws.passing_keys().filter(|it| it.is_retired(now)).map(|it| it.id).collect();
    retired.into_iter().take(PER_STEP).for_each(|id| ws.drop_signing_key(id));
    if let Some(below) = page.events_below {
        ws.trim_events_below(below);
    }
    let full = left == 0 || page.ended.len() >= PER_STEP || page.dedup.len() >= PER_STEP;
    if full {
        ws.set_sweep(Some(now + 1));
    } else {
        ws.plan_sweep(page.next, now + PAUSE_MS);
    }
    Ok(Reply::Fired { effect: true })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Create, Fire, SetLane};
    use super::*;
    use crate::agenda::{AgendaKey, Subject};
    use crate::id::Route;
    use crate::reply::Reply;

    const DAY_MS: Ms = 24 * 3_600_000;

    #[test]
    fn ended_work_goes_with_every_trace_when_its_retention_is_over() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let fence = bench.active();
            bench.ok(fail(fence));
            bench.pass(1_000);
            let fence = bench.claim();
            bench.ok(complete(fence));
            let lives = bench.active().execution;
            bench.pass(7 * DAY_MS - 1);
            assert!(bench.find(fence.execution).is_some());
            bench.pass(1);
            assert!(bench.find(fence.execution).is_none() && bench.find(lives).is_some());
            assert_eq!(*bench.facts(fence.execution).last().unwrap(), "removed");
            assert!(bench.store.attempts.keys().all(|(id, _)| *id != fence.execution));
            assert!(bench.store.payloads.keys().all(|key| key.execution != fence.execution));
        }
    }

    #[test]
    fn a_lane_may_keep_its_ended_work_longer_or_shorter() {
        let mut bench = Bench::new();
        bench.ok(SetLane { retention_ms: Some(5_000), ..set_lane("default") });
        let fence = bench.active();
        bench.ok(complete(fence));
        bench.pass(4_999);
        assert!(bench.find(fence.execution).is_some());
        bench.pass(1);
        assert!(bench.find(fence.execution).is_none());
    }

    #[test]
    fn an_execution_outlives_its_idempotency_window() {
        let mut bench = Bench::new();
        bench.ok(SetLane { retention_ms: Some(0), ..set_lane("default") });
        let key = "k";
        let mut create = bench.submission();
        create.id = crate::id::ExecutionId::from_parts(bench.now, Route::of_key("default", key), 77);
        let create = Create { idempotency_key: Some(key.into()), ..create };
        bench.ok(create.clone());
        let fence = bench.claim();
        bench.ok(complete(fence));
        bench.pass(DAY_MS - 1);
        assert_eq!(bench.ok(create.clone()), Reply::Created { execution: create.id, existing: true });
        bench.pass(2_000);
        assert!(bench.find(create.id).is_none() && bench.store.dedup.is_empty());
    }

    #[test]
    fn a_replay_cancels_retention() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(complete(fence));
        bench.pass(7 * DAY_MS - 1);
        bench.ok(replay(fence.execution));
        bench.pass(7 * DAY_MS);
        assert_eq!(bench.state(fence.execution).0, "waiting");
        assert_eq!(bench.store.payloads.len(), 2, "the old result stays");
    }

    #[test]
    fn more_than_one_step_of_old_work_goes_step_by_step() {
        let mut bench = Bench::new();
        bench.batch_size = 0;
        for _ in 0..PER_STEP + 3 {
            let id = bench.create();
            bench.ok(cancel(id, None));
        }
        bench.commit();
        bench.jump(8 * DAY_MS);
        let sweep =
            |bench: &Bench| AgendaKey { due: bench.store.header.sweep_at.unwrap(), subject: Subject::Sweep };
        bench.batch_size = 1;
        bench.fire(sweep(&bench));
        assert_eq!(bench.store.executions.len(), 3);
        bench.jump(1);
        bench.fire(sweep(&bench));
        assert_eq!(bench.store.executions.len(), 0);
    }

    #[test]
    fn work_that_ends_in_the_batch_of_a_sweep_is_swept_in_its_time() {
        let mut bench = Bench::new();
        let first = bench.active();
        bench.ok(complete(first));
        let second = bench.active();
        bench.jump(7 * DAY_MS);
        bench.batch_size = 2;
        let entry = AgendaKey { due: bench.store.header.sweep_at.unwrap(), subject: Subject::Sweep };
        bench.ok(complete(second));
        bench.ok(Fire { entry, seed: 0, after_outage: false });
        assert!(bench.find(first.execution).is_none());
        bench.pass(7 * DAY_MS);
        assert!(bench.find(second.execution).is_none());
    }

    #[test]
    fn what_was_replayed_after_the_page_was_read_is_not_swept() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(complete(fence));
        bench.jump(7 * DAY_MS);
        let entry = AgendaKey { due: bench.store.header.sweep_at.unwrap(), subject: Subject::Sweep };
        let sweep = Fire { entry, seed: 0, after_outage: false };
        let stop = super::super::decide(&mut bench.ws, bench.now, &sweep.clone().into()).unwrap_err();
        let Stop::Need(asks) = stop else { panic!("{stop:?}") };
        let answer = bench.store.answer(&asks[0]);
        bench.batch_size = 2;
        bench.ok(replay(fence.execution));
        bench.ws.learn(answer);
        bench.ok(sweep);
        assert_eq!(bench.state(fence.execution).0, "waiting");
    }

    #[test]
    fn events_are_trimmed_by_age_even_when_nothing_else_is_left() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(complete(fence));
        bench.pass(40 * DAY_MS);
        assert_eq!(bench.store.trimmed_below, bench.store.header.next_event);
    }

    #[test]
    fn a_dead_worker_is_forgotten_after_a_day_even_when_nothing_else_happens() {
        let mut bench = Bench::new();
        bench.ok(bury(bench.worker));
        bench.pass(DAY_MS - 1);
        assert_eq!(bench.store.workers.len(), 1);
        bench.pass(1);
        assert_eq!(bench.store.workers.len(), 0);
    }

    #[test]
    fn a_retired_signing_key_goes_when_its_grace_is_over_and_the_newest_stays() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            bench.ok(rotate_key(1, 0));
            bench.ok(rotate_key(2, 5_000));
            bench.ok(rotate_key(3, 60_000));
            let kept = |bench: &Bench| bench.store.signing_keys.keys().copied().collect::<Vec<_>>();
            bench.pass(4_999);
            assert_eq!(kept(&bench), [1, 2, 3]);
            bench.pass(1);
            assert_eq!(kept(&bench), [2, 3]);
            bench.pass(60_000);
            assert_eq!(kept(&bench), [3]);
            let Reply::Key { key, .. } = bench.ok(rotate_key(4, 0)) else { panic!() };
            assert_eq!(key.id, 4, "a number is not used again");
        }
    }

    #[test]
    fn the_copy_of_a_key_that_had_retired_when_it_arrived_goes_too() {
        use crate::id::PartitionId;
        let mut home = Bench::of(PartitionId(0), 2, crate::limits::Limits::default());
        home.ok(rotate_key(1, 0));
        home.ok(rotate_key(2, 5_000));
        let sent: Vec<_> = home.messages().into_iter().filter_map(|it| it.message).collect();
        let mut bench = Bench::of(PartitionId(1), 2, crate::limits::Limits::default());
        bench.jump(60_000);
        for (number, message) in (1..).zip(sent) {
            bench.ok(super::super::Apply { from: PartitionId(0), number, message });
        }
        assert_eq!(bench.store.signing_keys.len(), 2);
        bench.pass(1_000);
        assert_eq!(bench.store.signing_keys.keys().copied().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_retired_key_stays_until_a_newer_one_has_arrived() {
        use crate::id::PartitionId;
        let mut home = Bench::of(PartitionId(0), 2, crate::limits::Limits::default());
        home.ok(rotate_key(1, 0));
        home.ok(rotate_key(2, 5_000));
        let sent = home.messages().into_iter().filter_map(|it| it.message);
        let apply = |(number, message)| super::super::Apply { from: PartitionId(0), number, message };
        let sent: Vec<_> = (1..).zip(sent).map(apply).collect();
        let (newest, earlier) = sent.split_last().unwrap();
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::of(PartitionId(1), 2, crate::limits::Limits::default());
            bench.memory = memory;
            earlier.iter().cloned().for_each(|it| drop(bench.ok(it)));
            bench.pass(60_000);
            assert_eq!(bench.store.signing_keys.keys().copied().collect::<Vec<_>>(), [1]);
            bench.ok(newest.clone());
            bench.pass(1_000);
            assert_eq!(bench.store.signing_keys.keys().copied().collect::<Vec<_>>(), [2]);
        }
    }

    #[test]
    fn a_sweep_entry_that_is_not_the_planned_one_does_nothing() {
        let mut bench = Bench::new();
        let fence = bench.active();
        bench.ok(complete(fence));
        let stray = AgendaKey { due: bench.now, subject: Subject::Sweep };
        assert_eq!(bench.fire(stray), Reply::Fired { effect: false });
    }
}
