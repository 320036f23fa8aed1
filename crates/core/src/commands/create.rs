//! Create an execution.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::lifecycle::make_ready;
use super::{Decision, check_text};
use crate::Ms;
use crate::class::Capabilities;
use crate::event::Fact;
use crate::execution::{ContentDigest, Execution, Live, Series, Spec, State};
use crate::id::{ExecutionId, Route};
use crate::key::{Dedup, DedupKey};
use crate::lane::LaneMode;
use crate::limits::Limits;
use crate::name::{Kind, LaneName, Namespace};
use crate::payload::{Payload, PayloadKey, Slot};
use crate::policy::{Policy, range};
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::state::Reason;
use crate::tags::Tags;
use crate::workspace::Workspace;

/// A time given as a length from now or as a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    In(Ms),
    At(Ms),
}

impl When {
    pub(super) fn resolve(self, from: Ms) -> Ms {
        match self {
            When::In(ms) => from.saturating_add(ms),
            When::At(at) => at,
        }
    }
}

/// A submission: one execution to be made, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// Made by the caller, so that a lost answer can be asked for again.
    pub id: ExecutionId,
    /// The id was made for this very call and was never sent before, so nothing needs to be read to know
    /// that it is free. What is known of it all the same counts, and a store refuses an id that exists.
    pub fresh: bool,
    pub namespace: Namespace,
    pub kind: Kind,
    pub lane: LaneName,
    pub priority: i8,
    pub start: Option<When>,
    pub deadline: Option<When>,
    pub capabilities: Capabilities,
    pub tags: Tags,
    pub idempotency_key: Option<Box<str>>,
    pub policy: Policy,
    pub input: Payload,
}

impl Create {
    /// A submission with defaults for everything but what it is.
    pub fn new(id: ExecutionId, kind: Kind, input: Payload) -> Create {
        Create {
            id,
            fresh: false,
            namespace: Namespace::default(),
            kind,
            lane: LaneName::default(),
            priority: 0,
            start: None,
            deadline: None,
            capabilities: Capabilities::default(),
            tags: Tags::default(),
            idempotency_key: None,
            policy: Policy::default(),
            input,
        }
    }

    pub(super) fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        range("priority", self.priority.into(), -100, 100)?;
        let size = self.input.len();
        if size > limits.input_bytes_max {
            let max = limits.input_bytes_max;
            return Err(Invalid::new("input", format!("has {size} bytes; allowed are at most {max}")).into());
        }
        check_text("content_type", &self.input.content_type, 256)?;
        for (field, when) in [("run_at", self.start), ("deadline", self.deadline)] {
            match when {
                Some(When::In(ms)) => range(field, ms, 0, limits.horizon_ms_max)?,
                Some(When::At(at)) => range(field, at, 0, Ms::MAX / 4)?,
                None => {}
            }
        }
        let words = self.capabilities.as_slice().len();
        if words > limits.capabilities_max {
            let problem = format!("are {words} in number; allowed are at most {}", limits.capabilities_max);
            return Err(Invalid::new("capabilities", problem).into());
        }
        if let Some(key) = &self.idempotency_key {
            if key.is_empty() {
                return Err(
                    Invalid::new("idempotency_key", "is empty; leave it out or give it a value").into()
                );
            }
            check_text("idempotency_key", key, limits.idempotency_key_bytes_max)?;
            if key.starts_with('\u{1}') {
                let problem = "begins with a U+0001 character; remove it";
                return Err(Invalid::new("idempotency_key", problem).into());
            }
            if self.id.route() != Route::of_key(&self.namespace, key) {
                let problem = "does not carry the route of its idempotency key; leave the id to the SDK";
                return Err(Invalid::new("id", problem).into());
            }
        }
        Tags::default().edited(self.tags.iter(), [], limits)?;
        self.policy.validate(limits)?;
        Ok(())
    }

    /// What makes two submissions the same. The id and times given as points or lengths count as written.
    pub fn digest(&self) -> ContentDigest {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(self.namespace.as_bytes());
        part(self.kind.as_bytes());
        part(self.lane.as_bytes());
        part(&[self.priority as u8]);
        part(format!("{:?} {:?}", self.start, self.deadline).as_bytes());
        // The number of words keeps them apart from the tags that follow.
        part(&self.capabilities.as_slice().len().to_be_bytes());
        for word in self.capabilities.as_slice() {
            part(word.as_bytes());
        }
        for (key, value) in self.tags.iter() {
            part(key.as_bytes());
            part(value.as_bytes());
        }
        part(&serde_json::to_vec(&self.policy).unwrap_or_default());
        part(self.input.content_type.as_bytes());
        part(&self.input.bytes);
        let digest = hash.finalize();
        let mut first = [0u8; 8];
        first.copy_from_slice(&digest[..8]);
        ContentDigest(u64::from_be_bytes(first) >> 1)
    }

    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        self.decide_from(ws, now, now)
    }

    /// Decides it as a child that another execution waits for.
    pub(super) fn decide_as_child(&self, ws: &mut Workspace, now: Ms, parent: ExecutionId) -> Decision {
        self.decide_with(ws, now, now, Some(parent))
    }

    /// Decides it with lengths of time that count from `from`.
    pub(super) fn decide_from(&self, ws: &mut Workspace, now: Ms, from: Ms) -> Decision {
        self.decide_with(ws, now, from, None)
    }

    fn decide_with(&self, ws: &mut Workspace, now: Ms, from: Ms, parent: Option<ExecutionId>) -> Decision {
        let digest = self.digest();
        if let Some(existing) = self.existing(ws, now, digest)? {
            return Ok(Reply::Created { execution: existing, existing: true });
        }
        let lane = ws.lane(&self.lane);
        if lane.mode == LaneMode::Draining {
            return Err(Rejection::LaneDraining { lane: self.lane.clone() }.into());
        }
        let (deadline_at, until) = self.times(now, from)?;
        let idempotency_until =
            self.idempotency_key.as_ref().map(|_| now.saturating_add(ws.limits.idempotency_window_ms));
        let mut execution = self.build(now, digest, deadline_at, idempotency_until);
        if let Some(spec) = Arc::get_mut(&mut execution.spec) {
            spec.parent = parent;
        }
        let kind = self.kind.clone();
        let fact = Fact::Created { kind, priority: self.priority, until, blocked: None };
        let number = ws.emit(&execution, now, fact);
        match until {
            Some(until) => {
                execution.live.state = State::Delayed { until, reason: Reason::WaitingForDelay };
            }
            None => make_ready(ws, &mut execution, now, now, number),
        }
        if let (Some(key), Some(expires_at)) = (self.dedup_key(), idempotency_until) {
            ws.put_dedup(key, Some(Dedup { execution: self.id, expires_at }));
        }
        ws.put_payload(PayloadKey { execution: self.id, slot: Slot::Input }, self.input.clone());
        ws.put_execution(execution, now);
        Ok(Reply::Created { execution: self.id, existing: false })
    }

    /// When it must have ended, and until when it does not start.
    pub(super) fn times(&self, now: Ms, from: Ms) -> Result<(Option<Ms>, Option<Ms>), Invalid> {
        let deadline_at = self.deadline.map(|when| when.resolve(from));
        if let Some(at) = deadline_at.filter(|at| *at <= now) {
            return Err(Invalid::new("deadline", format!("is {at}, which has passed; it is {now} now")));
        }
        let until = self.start.map(|when| when.resolve(from)).filter(|at| *at > now);
        if let (Some(until), Some(deadline)) = (until, deadline_at)
            && until >= deadline
        {
            let problem = format!("is {deadline}, before the start at {until}; it would never run");
            return Err(Invalid::new("deadline", problem));
        }
        Ok((deadline_at, until))
    }

    fn dedup_key(&self) -> Option<DedupKey> {
        let key = self.idempotency_key.clone()?;
        Some(DedupKey { namespace: self.namespace.clone(), key })
    }

    /// The execution that this submission has already made, under its key or its id.
    fn existing(
        &self,
        ws: &Workspace,
        now: Ms,
        digest: ContentDigest,
    ) -> Result<Option<ExecutionId>, crate::workspace::Stop> {
        let same = |execution: &Arc<Execution>, field: &'static str| {
            if execution.spec.digest == digest {
                return Ok(Some(execution.id));
            }
            Err(Rejection::IdempotencyMismatch { field: field.into(), existing: execution.id }.into())
        };
        if let Some(key) = self.dedup_key()
            && let Some(dedup) = ws.dedup(&key)?.filter(|dedup| dedup.expires_at > now)
            && let Some(execution) = ws.execution(dedup.execution)?
        {
            return same(execution, "idempotency_key");
        }
        let known = if self.fresh { ws.known_execution(self.id) } else { ws.execution(self.id)? };
        known.map_or(Ok(None), |execution| same(execution, "id"))
    }

    pub(super) fn build(
        &self,
        now: Ms,
        digest: ContentDigest,
        deadline_at: Option<Ms>,
        idempotency_until: Option<Ms>,
    ) -> Execution {
        let spec = Spec {
            namespace: self.namespace.clone(),
            kind: self.kind.clone(),
            lane: self.lane.clone(),
            capabilities: self.capabilities.clone(),
            policy: self.policy.clone(),
            created_at: now,
            deadline_ms: deadline_at.map(|at| at - now),
            idempotency_key: self.idempotency_key.clone(),
            idempotency_until,
            digest,
            input_bytes: self.input.len() as u64,
            member: None,
            parent: None,
        };
        let live = Live {
            priority: self.priority,
            tags: self.tags.clone(),
            state: State::Ready { rank: 0, number: 0, since: now },
            epoch: 0,
            series: Series { number: 1, spent: 0, losses: 0, since: now },
            attempt: None,
            deadline_at,
            timer: None,
            endings: Vec::new(),
            node: None,
            mailbox: None,
            stepped: false,
            streamed: false,
            changed_at: now,
        };
        Execution { id: self.id, spec: Arc::new(spec), live }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_digest_tells_apart_everything_that_makes_a_submission() {
        let base = Bench::new().submission();
        let tags = Tags::default().edited([("eu", "gpu")], [], &Limits::default()).unwrap();
        let policy = Policy { max_attempts: 9, ..base.policy.clone() };
        let input = Payload { content_type: "text/plain".into(), ..base.input.clone() };
        let all = [
            base.clone(),
            Create { namespace: namespace("acme"), ..base.clone() },
            Create { kind: kind("other"), ..base.clone() },
            Create { lane: lane("other"), ..base.clone() },
            Create { priority: 1, ..base.clone() },
            Create { start: Some(When::In(5)), ..base.clone() },
            Create { start: Some(When::At(5)), ..base.clone() },
            Create { deadline: Some(When::In(5)), ..base.clone() },
            Create { capabilities: capabilities(&["eu", "gpu"]), ..base.clone() },
            Create { tags, ..base.clone() },
            Create { policy, ..base.clone() },
            Create { input, ..base.clone() },
            Create { input: Payload::json("[]"), ..base.clone() },
        ];
        for (n, a) in all.iter().enumerate() {
            assert_eq!(a.digest(), a.clone().digest());
            for b in &all[n + 1..] {
                assert_ne!(a.digest(), b.digest(), "{a:?} {b:?}");
            }
        }
        let other_id = Create { id: ExecutionId::from_parts(1, Route(2), 3), ..base.clone() };
        assert_eq!(base.digest(), other_id.digest());
    }

    #[test]
    fn an_id_above_all_others_is_free_without_a_look_and_any_other_is_looked_for() {
        let mut bench = Bench::new();
        let first = Create { fresh: false, ..bench.submission() };
        let existing = |bench: &mut Bench, create: &Create| match bench.ok(create.clone()) {
            Reply::Created { existing, .. } => existing,
            other => panic!("{other:?}"),
        };
        let reads = bench.reads;
        assert!(!existing(&mut bench, &first));
        assert_eq!(bench.reads, reads);
        // One server opens the partition when the first is there, the other has to learn of the second.
        bench.switch();
        assert!(existing(&mut bench, &first));
        let second = Create { fresh: false, ..bench.submission() };
        let reads = bench.reads;
        assert!(!existing(&mut bench, &second));
        assert_eq!(bench.reads, reads);
        bench.switch();
        assert!(existing(&mut bench, &second));
        bench.reopen();
        let reads = bench.reads;
        let below = Create { id: ExecutionId::from_parts(1, Route(0), 5), ..first };
        assert!(!existing(&mut bench, &below));
        assert_eq!(bench.reads, reads + 1);
    }

    fn keyed(bench: &mut Bench, key: &str) -> Create {
        let create = bench.submission();
        let random = create.id.0.as_u64_pair().1;
        let id = ExecutionId::from_parts(bench.now, Route::of_key("default", key), random);
        Create { id, idempotency_key: Some(key.into()), ..create }
    }

    #[test]
    fn the_same_submission_again_finds_the_first_execution() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let create = bench.submission();
            assert_eq!(bench.ok(create.clone()), Reply::Created { execution: create.id, existing: false });
            bench.claim();
            assert_eq!(bench.ok(create.clone()), Reply::Created { execution: create.id, existing: true });
            assert_eq!(bench.store.executions.len(), 1);
        }
    }

    #[test]
    fn other_content_under_the_same_id_is_refused_with_the_existing_id() {
        let mut bench = Bench::new();
        let create = bench.submission();
        bench.ok(create.clone());
        let other = Create { priority: 5, ..create.clone() };
        let refusal = Rejection::IdempotencyMismatch { field: "id".into(), existing: create.id };
        assert_eq!(bench.refused(other), refusal);
    }

    #[test]
    fn the_same_key_finds_the_first_execution_under_any_id() {
        let mut bench = Bench::new();
        let first = keyed(&mut bench, "order-1");
        let again = Create { id: keyed(&mut bench, "order-1").id, ..first.clone() };
        assert_ne!(first.id, again.id);
        bench.ok(first.clone());
        assert_eq!(bench.ok(again.clone()), Reply::Created { execution: first.id, existing: true });
        let other = Create { input: Payload::json("[]"), ..again };
        let refusal = Rejection::IdempotencyMismatch { field: "idempotency_key".into(), existing: first.id };
        assert_eq!(bench.refused(other), refusal);
    }

    #[test]
    fn a_key_means_something_else_in_another_namespace() {
        let mut bench = Bench::new();
        let first = keyed(&mut bench, "k");
        let id = bench.next_id();
        bench.ok(first.clone());
        let other = Create { id, namespace: namespace("acme"), ..first };
        assert_eq!(bench.ok(other), Reply::Created { execution: id, existing: false });
    }

    #[test]
    fn a_key_is_free_again_when_its_window_is_over() {
        for swept in [false, true] {
            let mut bench = Bench::new();
            let first = keyed(&mut bench, "k");
            let second = Create { input: Payload::json("[]"), ..keyed(&mut bench, "k") };
            bench.ok(first.clone());
            let day_ms = bench.ws.limits.idempotency_window_ms;
            bench.jump(day_ms - 1);
            assert_eq!(bench.refused(second.clone()).code(), "idempotency_mismatch");
            if swept {
                bench.pass(2_000)
            } else {
                bench.jump(1)
            }
            assert_eq!(bench.ok(second.clone()), Reply::Created { execution: second.id, existing: false });
            assert_eq!(bench.ok(second.clone()), Reply::Created { execution: second.id, existing: true });
            assert_eq!(code(&bench.run(first)), "idempotency_mismatch", "the key now stands for the second");
        }
    }

    #[test]
    fn a_start_in_the_future_delays_and_one_in_the_past_does_not() {
        let cases = [
            (None, "waiting"),
            (Some(When::In(0)), "waiting"),
            (Some(When::At(START)), "waiting"),
            (Some(When::At(5)), "waiting"),
            (Some(When::In(1)), "delayed"),
            (Some(When::At(START + 1)), "delayed"),
        ];
        for (start, state) in cases {
            let mut bench = Bench::new();
            let id = bench.create_with(|it| it.start = start);
            assert_eq!(bench.state(id).0, state, "{start:?}");
            bench.pass(1);
            assert_eq!(bench.state(id), ("waiting", "waiting_for_worker"));
        }
    }

    #[test]
    fn a_deadline_that_has_passed_or_comes_before_the_start_is_refused() {
        let cases = [
            (None, When::At(START), false),
            (None, When::At(START - 1), false),
            (None, When::At(START + 1), true),
            (Some(When::In(10)), When::In(10), false),
            (Some(When::In(10)), When::In(11), true),
        ];
        for (start, deadline, fits) in cases {
            let mut bench = Bench::new();
            let create = Create { start, deadline: Some(deadline), ..bench.submission() };
            assert_eq!(
                code(&bench.run(create)),
                if fits { "ok" } else { "invalid" },
                "{start:?} {deadline:?}"
            );
        }
    }

    #[test]
    fn a_draining_lane_takes_no_new_work_and_a_paused_one_does() {
        let mut bench = Bench::new();
        let known = bench.submission();
        bench.ok(known.clone());
        bench.set_lane_mode("default", LaneMode::Draining);
        let new = bench.submission();
        assert_eq!(bench.refused(new.clone()).code(), "lane_draining");
        assert_eq!(bench.ok(known.clone()), Reply::Created { execution: known.id, existing: true });
        bench.set_lane_mode("default", LaneMode::Paused);
        bench.ok(new);
    }

    #[test]
    fn what_cannot_be_right_is_refused_at_the_edge_with_the_field_named() {
        type Edit = fn(&mut Create);
        let cases: [(&str, Edit); 12] = [
            ("priority", |it| it.priority = 101),
            ("input", |it| it.input = Payload::json(vec![0; (4 << 20) + 1])),
            ("content_type", |it| it.input.content_type = "a\0b".into()),
            ("run_at", |it| it.start = Some(When::In(-1))),
            ("run_at", |it| it.start = Some(When::At(Ms::MAX))),
            ("deadline", |it| it.deadline = Some(When::In(Ms::MAX))),
            ("idempotency_key", |it| it.idempotency_key = Some("".into())),
            ("idempotency_key", |it| it.idempotency_key = Some("x".repeat(257).into())),
            ("id", |it| it.idempotency_key = Some("routed elsewhere".into())),
            ("policy.max_attempts", |it| it.policy.max_attempts = 0),
            ("policy.backoff.factor", |it| it.policy.backoff.factor = f64::NAN),
            ("capabilities", |it| {
                let words: Vec<String> = (0..33).map(|n| format!("c{n}")).collect();
                it.capabilities = capabilities(&words.iter().map(|it| &**it).collect::<Vec<_>>());
            }),
        ];
        for (field, edit) in cases {
            let mut create = Bench::new().submission();
            create.validate(&Limits::default()).unwrap();
            edit(&mut create);
            match create.validate(&Limits::default()) {
                Err(Rejection::Invalid(invalid)) => assert_eq!(invalid.field, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn times_at_the_end_of_the_calendar_do_not_overflow() {
        let mut bench = Bench::new();
        let far = Ms::MAX / 4;
        let id = bench.create_with(|it| {
            it.start = Some(When::At(far - 1));
            it.deadline = Some(When::At(far));
            it.priority = 100;
        });
        bench.ok(hold(id));
        bench.ok(unhold(id));
        bench.ok(cancel(id, None));
        bench.ok(replay(id));
        assert_eq!(bench.get(id).live.deadline_at, Some(far));
    }
}
