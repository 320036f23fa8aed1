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
    fn resolve(self, now: Ms) -> Ms {
        match self {
            When::In(ms) => now.saturating_add(ms),
            When::At(at) => at,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// Made by the caller, so that a lost answer can be asked for again.
    pub id: ExecutionId,
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
        let digest = self.digest();
        if let Some(existing) = self.existing(ws, now, digest)? {
            return Ok(Reply::Created { execution: existing, existing: true });
        }
        let lane = ws.lane(&self.lane);
        if lane.mode == LaneMode::Draining {
            return Err(Rejection::LaneDraining { lane: self.lane.clone() }.into());
        }
        let deadline_at = self.deadline.map(|when| when.resolve(now));
        if let Some(at) = deadline_at.filter(|at| *at <= now) {
            return Err(
                Invalid::new("deadline", format!("is {at}, which has passed; it is {now} now")).into()
            );
        }
        let until = self.start.map(|when| when.resolve(now)).filter(|at| *at > now);
        if let (Some(until), Some(deadline)) = (until, deadline_at)
            && until >= deadline
        {
            let problem = format!("is {deadline}, before the start at {until}; it would never run");
            return Err(Invalid::new("deadline", problem).into());
        }
        let idempotency_until = self.idempotency_key.as_ref().map(|_| now + ws.limits.idempotency_window_ms);
        let mut execution = self.build(now, digest, deadline_at, idempotency_until);
        let number = ws.emit(
            &execution,
            now,
            Fact::Created { kind: self.kind.clone(), priority: self.priority, until },
        );
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
        let same = |execution: &Arc<Execution>, field| {
            if execution.spec.digest == digest {
                return Ok(Some(execution.id));
            }
            Err(Rejection::IdempotencyMismatch { field, existing: execution.id }.into())
        };
        if let Some(key) = self.dedup_key()
            && let Some(dedup) = ws.dedup(&key)?.filter(|dedup| dedup.expires_at > now)
            && let Some(execution) = ws.execution(dedup.execution)?
        {
            return same(execution, "idempotency_key");
        }
        match ws.execution(self.id)? {
            Some(execution) => same(execution, "id"),
            None => Ok(None),
        }
    }

    fn build(
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
}
