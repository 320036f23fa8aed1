//! Receive: a posted row becomes an execution, or a dead letter.

use std::sync::Arc;

use super::Decision;
use crate::Ms;
use crate::event::Fact;
use crate::inbox::{Fate, Posted};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

/// A row of this partition's inbox. It leaves the inbox in the commit that decides it.
#[derive(Clone, Debug, PartialEq)]
pub struct Receive {
    pub posted: Arc<Posted>,
    /// Makes the id of a row that has none.
    pub seed: u64,
    /// Why it could not be decided or stored before. Such a row is given up: it must not stand in the way of
    /// those behind it for ever.
    pub defect: Option<Box<str>>,
}

impl Receive {
    /// Nothing is refused here, because nobody would hear it: what a caller would be told becomes the reason
    /// of the dead letter. A lane that takes no new work and a key that stands for other content are such
    /// reasons, too: the row would wait at the head of the inbox for something that may never come.
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let fate = match self.create(ws, now) {
            Ok(()) => Fate::Taken,
            Err(Stop::Reject(rejection)) => Fate::rejected(&rejection),
            Err(stop) => return Err(stop),
        };
        let head = self.posted.head();
        if let Fate::Dead { reason } = &fate {
            let (id, kind, reason) = (head.id, head.kind.clone(), reason.as_str().into());
            ws.emit_global(None, now, Fact::DeadLettered { posted: self.posted.number, id, kind, reason });
        }
        ws.settle_posted(self.posted.number, head, fate.clone());
        Ok(Reply::Received(fate))
    }

    fn create(&self, ws: &mut Workspace, now: Ms) -> Result<(), Stop> {
        // Only rows with an id of their own can have become an execution before.
        if let Some(id) = self.posted.id
            && self.check_place(ws, id).is_ok()
            && ws.execution(id)?.is_some()
        {
            return Ok(());
        }
        if let Some(defect) = &self.defect {
            return Err(Rejection::from(Invalid::new("posted row", defect.to_string())).into());
        }
        let create = self.posted.submission(&ws.limits, self.seed)?;
        create.validate(&ws.limits)?;
        self.check_place(ws, create.id)?;
        // A row from a clock that is ahead has waited for no time.
        create.decide_from(ws, now, self.posted.posted_at.min(now)).map(drop)
    }

    fn check_place(&self, ws: &Workspace, id: crate::ExecutionId) -> Result<(), Invalid> {
        let partition = id.route().partition(ws.partitions);
        if partition == ws.partition {
            return Ok(());
        }
        let problem = format!(
            "leads to partition {partition}, and the row waits in partition {}; post it there, with an id",
            ws.partition
        );
        Err(Invalid::new("id", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::id::{ExecutionId, PartitionId, Route};
    use crate::lane::LaneMode;
    use crate::limits::Limits;
    use crate::payload::{Payload, PayloadKey, Slot};

    fn receive(bench: &mut Bench, edit: impl FnOnce(&mut Posted)) -> Fate {
        let command = bench.posted(edit);
        match bench.ok(command) {
            Reply::Received(fate) => fate,
            other => panic!("{other:?}"),
        }
    }

    fn reason(fate: Fate) -> String {
        match fate {
            Fate::Dead { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_posted_row_becomes_what_a_submission_becomes() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let submitted = bench.create_with(|it| it.policy = Default::default());
            let id = bench.next_id();
            assert_eq!(receive(&mut bench, |it| it.id = Some(id)), Fate::Taken);
            assert_eq!(bench.facts(id), bench.facts(submitted));
            let spec = |bench: &Bench, id| bench.get(id).spec.clone();
            assert_eq!(spec(&bench, id), spec(&bench, submitted));
            let input = PayloadKey { execution: id, slot: Slot::Input };
            assert_eq!(bench.store.payloads[&input], Payload::json("{}"));
            assert!(bench.store.inbox.is_empty());
            assert_eq!(bench.order(bench.poll()), [submitted, id]);
        }
    }

    #[test]
    fn a_row_without_an_id_gets_one() {
        let mut bench = Bench::new();
        assert_eq!(receive(&mut bench, |it| it.id = None), Fate::Taken);
        assert_eq!(receive(&mut bench, |it| (it.id, it.key) = (None, Some("k".into()))), Fate::Taken);
        assert_eq!(bench.store.executions.len(), 2);
    }

    #[test]
    fn a_row_that_has_become_an_execution_is_only_taken() {
        let mut bench = Bench::new();
        let fence = bench.active();
        let before = bench.get(fence.execution).clone();
        for defect in [None, Some("spoilt".into())] {
            let mut again = bench.posted(|it| (it.id, it.kind) = (Some(fence.execution), "other".into()));
            again.defect = defect;
            assert_eq!(bench.ok(again), Reply::Received(Fate::Taken));
        }
        assert_eq!(bench.get(fence.execution), &before);
        assert!(bench.store.inbox.is_empty());
    }

    #[test]
    fn a_key_gives_the_first_execution_and_other_content_under_it_is_a_dead_letter() {
        let mut bench = Bench::new();
        let id = |bench: &mut Bench| {
            let random = bench.next_id().0.as_u64_pair().1;
            Some(ExecutionId::from_parts(bench.now, Route::of_key("default", "k"), random))
        };
        let keyed = |it: &mut Posted, id, input: &'static str| {
            (it.id, it.key, it.input) = (id, Some("k".into()), Payload::json(input));
        };
        let (first, second, third) = (id(&mut bench), id(&mut bench), id(&mut bench));
        assert_eq!(receive(&mut bench, |it| keyed(it, first, "1")), Fate::Taken);
        assert_eq!(receive(&mut bench, |it| keyed(it, second, "1")), Fate::Taken);
        assert_eq!(bench.store.executions.keys().copied().collect::<Vec<_>>(), [first.unwrap()]);
        let reason = reason(receive(&mut bench, |it| keyed(it, third, "2")));
        assert!(reason.starts_with("idempotency_mismatch: the same idempotency_key"), "{reason}");
        assert!(reason.contains(&first.unwrap().to_string()), "{reason}");
    }

    #[test]
    fn a_row_that_does_not_fit_is_a_dead_letter_with_the_field_named() {
        type Edit = fn(&mut Posted);
        let cases: [(&str, Edit); 8] = [
            ("invalid: kind has 0 bytes; allowed are 1 to 128", |it| it.kind.clear()),
            ("invalid: input has 4194305 bytes", |it| it.input = Payload::json(vec![0; (4 << 20) + 1])),
            ("invalid: options has the name \"prio\"", |it| it.options = Some(r#"{"prio":1}"#.into())),
            ("invalid: policy.max_attempts is 0; allowed are 1 to 1000", |it| {
                it.options = Some(r#"{"policy":{"max_attempts":0}}"#.into());
            }),
            ("invalid: idempotency_key is empty", |it| (it.id, it.key) = (None, Some(String::new()))),
            ("invalid: id does not carry the route", |it| it.key = Some("k".into())),
            ("invalid: run_at is -5; allowed are 0 to", |it| it.options = Some(r#"{"delay":-5}"#.into())),
            ("invalid: deadline is ", |it| it.options = Some(r#"{"deadline_at":5}"#.into())),
        ];
        for (want, edit) in cases {
            let mut bench = Bench::new();
            let reason = reason(receive(&mut bench, edit));
            assert!(reason.starts_with(want), "{reason}");
            assert!(bench.store.executions.is_empty() && bench.store.inbox.is_empty());
            let letters = bench.store.dead_letters.values().map(|letter| &letter.reason);
            assert_eq!(letters.collect::<Vec<_>>(), [&reason]);
            let fact = &bench.store.events.last().unwrap().fact;
            assert!(matches!(fact, Fact::DeadLettered { reason: told, .. } if **told == *reason));
        }
    }

    #[test]
    fn a_draining_lane_takes_no_posted_rows() {
        let mut bench = Bench::new();
        bench.set_lane_mode("default", LaneMode::Draining);
        let reason = reason(receive(&mut bench, |_| {}));
        assert!(reason.starts_with("lane_draining: lane default is draining"), "{reason}");
    }

    #[test]
    fn lengths_count_from_when_the_row_was_posted() {
        let mut bench = Bench::new();
        let wait = |it: &mut Posted| it.options = Some(r#"{"delay":"60s","deadline":"2m"}"#.into());
        let mut early = bench.posted(wait);
        let id = early.posted.id.unwrap();
        Arc::make_mut(&mut early.posted).posted_at += 1_000_000;
        let (late, too_late) = (bench.posted(wait), bench.posted(wait));
        bench.jump(50_000);
        bench.ok(early);
        assert_eq!(bench.get(id).live.deadline_at, Some(bench.now + 120_000), "a clock that is ahead");
        bench.ok(late.clone());
        let late = bench.get(late.posted.id.unwrap());
        assert_eq!(late.live.deadline_at, Some(START + 120_000));
        assert_eq!(crate::fold::Folded::of(late).until, Some(START + 60_000));
        bench.jump(70_000);
        match bench.ok(too_late) {
            Reply::Received(fate) => assert!(reason(fate).contains("which has passed")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_in_the_wrong_partition_is_a_dead_letter() {
        let mut bench = Bench::of(PartitionId(1), 3, Limits::default());
        for id in [None, Some(ExecutionId::from_parts(1, Route(5), 1))] {
            let reason = reason(receive(&mut bench, |it| it.id = id));
            assert!(reason.contains("and the row waits in partition 1"), "{reason}");
        }
    }

    #[test]
    fn a_row_with_a_defect_is_given_up() {
        let mut bench = Bench::new();
        let mut command = bench.posted(|_| {});
        command.defect = Some("was refused by the store".into());
        match bench.ok(command) {
            Reply::Received(fate) => assert_eq!(reason(fate), "invalid: posted row was refused by the store"),
            other => panic!("{other:?}"),
        }
    }
}
