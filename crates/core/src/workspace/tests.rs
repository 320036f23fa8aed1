//! How the workspace follows the store: refills, rollbacks, batches.

use super::*;
use crate::agenda::{AgendaKey, Subject};
use crate::commands::testing::*;
use crate::payload::{Payload, PayloadKey};

#[test]
fn an_entry_that_was_struck_is_back_after_a_rollback_with_its_message() {
    let mut bench = Bench::of(PartitionId(0), 3, Limits::default());
    let before: Vec<_> = bench.ws.agenda().iter().map(|(key, it)| (*key, it.clone())).collect();
    let entry = bench.messages().remove(0);
    bench.ws.begin_command();
    bench.ws.strike(entry.key);
    bench.ws.roll_back();
    let after: Vec<_> = bench.ws.agenda().iter().map(|(key, it)| (*key, it.clone())).collect();
    assert_eq!(before, after);
    assert!(bench.ws.agenda().is_whole());
    bench.commit();
}

/// A bench whose store has three ready executions, of which a new server has read one.
fn half_read() -> (Bench, Vec<ExecutionId>) {
    let mut bench = Bench::new();
    let ids: Vec<_> = (0..3).map(|n| bench.create_with(|it| it.priority = -n)).collect();
    bench.reopen();
    let poll = bench.poll();
    let class = bench.get(ids[0]).spec.class();
    let window = bench.ws.ready_mut().window_mut(&poll.lanes[0], &class).unwrap();
    let after = window.start_refill().unwrap();
    let ask = Ask::Ready { lane: poll.lanes[0].clone(), class, after, limit: 1 };
    bench.ws.learn(bench.store.answer(&ask));
    bench.batch_size = 0;
    (bench, ids)
}

#[test]
fn a_refill_does_not_bring_back_what_was_taken_in_a_batch_that_is_not_stored() {
    for in_flight in [false, true] {
        let (mut bench, ids) = half_read();
        bench.ok(cancel(ids[1], None));
        let changes = in_flight.then(|| bench.ws.take_batch(bench.now));
        assert_eq!(bench.order(bench.poll()), [ids[0]]);
        assert_eq!(bench.order(bench.poll()), [ids[2]], "in flight: {in_flight}");
        changes.into_iter().for_each(|changes| bench.store.apply(changes));
        bench.commit();
        assert_eq!(bench.state(ids[1]).0, "cancelled");
    }
}

#[test]
fn a_refill_does_not_miss_what_was_added_in_a_batch_that_is_not_stored() {
    for in_flight in [false, true] {
        let (mut bench, ids) = half_read();
        let new = bench.create_with(|it| it.priority = -9);
        let changes = in_flight.then(|| bench.ws.take_batch(bench.now));
        assert_eq!(bench.order(bench.poll()), [ids[0]]);
        assert_eq!(bench.order(bench.poll()), [ids[1], ids[2], new], "in flight: {in_flight}");
        changes.into_iter().for_each(|changes| bench.store.apply(changes));
        bench.commit();
    }
}

#[test]
fn an_agenda_refill_sees_timers_of_batches_that_are_not_stored() {
    for in_flight in [false, true] {
        let mut bench = Bench::of(PartitionId(0), 2, Limits::default());
        let fence = bench.active();
        bench.ok(bury(bench.worker));
        bench.ws.agenda_mut().reset();
        bench.batch_size = 0;
        let acknowledged = bench.messages().remove(0).key;
        let late = bench.create_with(|it| it.deadline = Some(crate::commands::When::In(99)));
        bench.ok(complete(fence));
        bench.ok(set_lane("default"));
        let changes = in_flight.then(|| bench.ws.take_batch(bench.now));
        let after = bench.ws.agenda_mut().start_refill().unwrap();
        bench.ws.learn(bench.store.answer(&Ask::Agenda { after, limit: 100 }));
        assert!(
            bench.ws.agenda().contains(&AgendaKey { due: bench.now + 99, subject: Subject::Timer(late) })
        );
        bench.ok(crate::commands::Acknowledge { entry: acknowledged });
        changes.into_iter().for_each(|changes| bench.store.apply(changes));
        // The commit compares the agenda in memory with the stored one.
        bench.commit();
    }
}

#[test]
fn what_is_created_and_removed_in_one_batch_leaves_nothing_but_events() {
    let mut bench = Bench::new();
    let tables = bench.store.clone();
    bench.batch_size = 0;
    let fence = bench.active_with(|it| it.deadline = Some(crate::commands::When::In(5_000)));
    bench.ok(complete(fence));
    bench.ok(remove(fence.execution));
    bench.commit();
    let mut after = bench.store.clone();
    assert_eq!(bench.facts(fence.execution).last(), Some(&"removed"));
    after.events.truncate(tables.events.len());
    // A sweep that finds nothing is harmless.
    after.agenda.retain(|key, _| key.subject != Subject::Sweep);
    after.log.truncate(tables.log.len());
    assert_eq!(Model { header: tables.header, ..after }, tables);
}

#[test]
fn an_id_removed_and_used_again_in_one_batch_is_another_execution() {
    for batch_size in [1, 100] {
        let mut bench = Bench::new();
        let create = bench.submission();
        bench.ok(create.clone());
        let fence = bench.claim();
        bench.ok(fail(fence));
        bench.pass(1_000);
        let fence = bench.claim();
        bench.ok(complete(fence));
        bench.batch_size = batch_size;
        bench.ok(replay(create.id));
        bench.claim();
        bench.ok(cancel(create.id, None));
        bench.ok(remove(create.id));
        let other = crate::commands::Create { input: Payload::json("[]"), ..create.clone() };
        bench.ok(other);
        bench.commit();
        assert_eq!(bench.store.attempts.len(), 0);
        let payloads: Vec<_> = bench.store.payloads.values().map(|it| &*it.bytes).collect();
        assert_eq!(payloads, [b"[]"]);
        assert_eq!(bench.get(create.id).spec.input_bytes, 2);
        assert_eq!(bench.get(create.id).live.epoch, 0);
    }
}

#[test]
fn the_newer_of_two_results_in_one_batch_is_written() {
    let mut bench = Bench::new();
    bench.batch_size = 0;
    let fence = bench.active();
    bench.ok(complete(fence));
    bench.ok(replay(fence.execution));
    let fence = bench.claim();
    bench.ok(crate::commands::Complete { result: Some(Payload::json("2")), ..complete(fence) });
    bench.commit();
    let key = PayloadKey { execution: fence.execution, slot: crate::payload::Slot::Result };
    assert_eq!(&*bench.store.payloads[&key].bytes, b"2");
}

#[test]
fn a_command_that_does_not_stand_leaves_everything_as_it_was() {
    let (mut bench, ids) = half_read();
    let image = |bench: &Bench| {
        let windows: Vec<_> = bench.ws.ready().lanes().map(|(_, it)| format!("{it:?}")).collect();
        (windows, format!("{:?}", bench.ws.agenda()), *bench.ws.header(), format!("{:?}", bench.ws.leases))
    };
    let before = image(&bench);
    let claim = crate::commands::Claim { poll: Arc::new(bench.poll()), max: 1 };
    let commands: [crate::Command; 4] =
        [claim.into(), cancel(ids[0], None).into(), bury(bench.worker).into(), set_lane("l").into()];
    for command in commands {
        assert!(crate::decide(&mut bench.ws, bench.now, &command).is_ok(), "{command:?}");
        bench.ws.roll_back();
        assert_eq!(image(&bench), before, "{command:?}");
    }
    let needs_more: crate::Command = cancel(ids[2], None).into();
    assert!(matches!(crate::decide(&mut bench.ws, bench.now, &needs_more), Err(Stop::Need(_))));
    let refused: crate::Command = replay(ids[0]).into();
    assert!(matches!(crate::decide(&mut bench.ws, bench.now, &refused), Err(Stop::Reject(_))));
    assert_eq!(image(&bench), before);
    assert!(bench.ws.take_batch(bench.now).is_empty());
}

#[test]
fn executions_that_rest_leave_memory_and_are_read_when_their_time_comes() {
    let mut bench = Bench::new();
    let mut fences = Vec::new();
    for n in 0..300 {
        let fence = bench.active();
        match n % 2 {
            0 => bench.ok(suspend(fence)),
            _ => bench.ok(delay(fence, 5_000)),
        };
        fences.push(fence);
    }
    let settled = bench.ws.batch();
    bench.ws.evict(settled, usize::MAX, 20, usize::MAX / 4);
    assert!(bench.ws.cached_executions() <= 20, "{} are in memory", bench.ws.cached_executions());
    assert!(fences.iter().rev().take(20).all(|it| bench.ws.is_cached(it.execution)), "the newest stay");
    for fence in fences.iter().step_by(2) {
        bench.ok(signal(fence.execution, "go"));
    }
    bench.pass(5_000);
    let mut awake = Vec::new();
    while awake.len() < fences.len() {
        awake.push(bench.claim());
    }
    assert!(awake.iter().all(|it| (it.attempt, it.epoch) == (1, 2)));
}

#[test]
fn an_execution_that_rests_and_is_not_stored_stays_in_memory() {
    let mut bench = Bench::new();
    bench.batch_size = 0;
    let before = bench.ws.batch() - 1;
    let fence = bench.active();
    bench.ok(suspend(fence));
    bench.ws.evict(before, usize::MAX, 0, usize::MAX / 4);
    assert!(bench.ws.is_cached(fence.execution));
    bench.commit();
    assert_eq!(bench.state(fence.execution).0, "suspended");
}
