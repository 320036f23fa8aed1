//! Workers that suspend, record steps, start children and append output; clients that send signals.

use ff_core::commands::{
    Append, Create, Drift, NewFrame, NewStep, NewWaitpoint, OpenWaitpoint, RecordSteps, Resume, RotateKey,
    SendSignal, StartChild, Suspend, To, When,
};
use ff_core::execution::Fence;
use ff_core::name::{FrameKind, SignalName, StepName};
use ff_core::state::Reason;
use ff_core::step::{StepKey, StepKind, StepPlace};
use ff_core::stream::FrameMode;
use ff_core::suspension::token::{Claims, Secret};
use ff_core::suspension::{Condition, Digest, Distinct, Match, OnTimeout, Token, WaitpointId};
use ff_core::{Command, ExecutionId, Payload};

use super::World;
use super::submission::kind;
use crate::profile::PARTITIONS;

const NAMES: [&str; 3] = ["go", "yes", "no"];
const SOURCES: [&str; 2] = ["ann", "bob"];

fn name(text: &str) -> SignalName {
    SignalName::parse(text).expect("the names of the simulation are valid")
}

impl World {
    /// Something a worker does about what it waits for, what it has done or what it says, if this seed is about that.
    pub(super) fn maybe_mail(&mut self, fence: Fence) -> Option<Command> {
        if self.profile.mail == 0 || !self.rng.chance(self.profile.mail) {
            return None;
        }
        let step = self.rng.maybe(6_000, |rng| step_at(NAMES[rng.below(3)], rng.below(3) as u32));
        Some(match self.rng.below(12) {
            0..=3 => self.suspension(fence, step).into(),
            4 | 5 => {
                let waitpoint = self.new_waitpoint();
                OpenWaitpoint { fence, waitpoint, step }.into()
            }
            6 | 7 => {
                let count = self.rng.range(1, 3) as u32;
                let steps = (0..count).map(|n| NewStep {
                    place: step_at("work", n),
                    kind: StepKind::Run,
                    took_ms: 1,
                    result: Payload::json(n.to_string()),
                });
                RecordSteps { fence, steps: steps.collect(), drift: Drift::default() }.into()
            }
            8 => {
                let id = ExecutionId::from_parts(self.now, fence.execution.route(), self.rng.draw());
                self.known.push(id);
                let create = Create::new(id, kind("send"), Payload::json("{}"));
                StartChild { fence, create, step }.into()
            }
            _ => self.frames(fence).into(),
        })
    }

    fn new_waitpoint(&mut self) -> NewWaitpoint {
        let rng = &mut self.rng;
        let mut waitpoint = NewWaitpoint {
            name: rng.maybe(7_000, |rng| name(NAMES[rng.below(3)])),
            expires_in_ms: rng.maybe(4_000, |rng| rng.range(100, 4_000)),
            distinct_sources: rng.chance(3_000),
            known_sources: rng.chance(1_000),
            approvers: rng.maybe(3_000, |rng| approvers(rng.below(2))).unwrap_or_default(),
            requester: rng.maybe(2_000, |rng| SOURCES[rng.below(2)].into()),
            digest: rng.maybe(2_000, |rng| digest(rng.below(2))),
        };
        // A waitpoint at which nobody may say anything is refused.
        if waitpoint.approvers.iter().all(|it| Some(it) == waitpoint.requester.as_ref()) {
            waitpoint.approvers.clear();
        }
        waitpoint
    }

    fn suspension(&mut self, fence: Fence, step: Option<StepPlace>) -> Suspend {
        let mirror = &self.store.mirrors[fence.execution.route().partition(PARTITIONS).index()];
        let mailbox = mirror.executions.get(&fence.execution).and_then(|it| it.mailbox());
        let child = mailbox.and_then(|it| it.children.first().copied());
        let opened = mailbox.map_or(0, |it| it.opened);
        let waitpoint = self.rng.maybe(5_000, |_| ()).map(|()| self.new_waitpoint());
        let rng = &mut self.rng;
        let named = |text: &str| Condition::Signal(Match::named(name(text)));
        let at = |number| Condition::Signal(Match::waitpoint(number));
        let any = [Distinct::Signals, Distinct::Sources, Distinct::Waitpoints];
        let condition = match (child, rng.below(11)) {
            (Some(child), 0..=3) => Condition::Child(child),
            (_, 0 | 1) => named(NAMES[rng.below(3)]),
            (_, 2) => Condition::AnyOf(vec![named("go"), named("yes")]),
            (_, 3) => Condition::AllOf(vec![named("yes"), named("no")]),
            (_, 4) => Condition::Count { n: 2, distinct: *rng.pick(&any), of: Vec::new() },
            (_, 5) if opened > 0 => at(opened),
            (_, 6) => Condition::Operator,
            (_, 7) => {
                let of = (1..=opened + 1).map(Match::waitpoint).collect();
                Condition::Count { n: 1 + rng.below(2) as u32, distinct: *rng.pick(&any), of }
            }
            (Some(child), 8) => Condition::AnyOf(vec![named("go"), Condition::Child(child)]),
            // Four deep, as deep as they may be.
            (_, 8 | 9) => {
                let both = Condition::AllOf(vec![named("yes"), at(opened + 1)]);
                let either = Condition::AnyOf(vec![both, named("no")]);
                Condition::AllOf(vec![either, named("go")])
            }
            _ => Condition::Time,
        };
        let timed = condition == Condition::Time || rng.chance(7_000);
        Suspend {
            reason: *rng.pick(&[Reason::WaitingForSignal, Reason::WaitingForApproval]),
            timeout: timed.then(|| When::In(rng.range(0, 5_000))),
            on_timeout: *rng.pick(OnTimeout::ALL),
            waitpoints: waitpoint.into_iter().collect(),
            step,
            ..Suspend::new(fence, condition)
        }
    }

    /// From where its stream is, or a little before, as a worker that has not heard of its last call.
    fn frames(&mut self, fence: Fence) -> Append {
        let mirror = &self.store.mirrors[fence.execution.route().partition(PARTITIONS).index()];
        let stream = mirror.streams.get(&fence.execution).filter(|it| it.attempt == fence.attempt);
        let next = stream.map_or(1, |it| it.next);
        let rng = &mut self.rng;
        let first = next.saturating_sub(rng.below(3) as u64).max(1);
        let modes = [FrameMode::Durable, FrameMode::Durable, FrameMode::Summary, FrameMode::BestEffort];
        let frames = (0..rng.range(1, 4)).map(|n| NewFrame {
            kind: FrameKind::parse("text").expect("the kind is valid"),
            mode: *rng.pick(&modes),
            bytes: format!("{{\"n\":{n}}}").into_bytes().into(),
        });
        Append { fence, first, frames: frames.collect() }
    }

    /// The token of a waitpoint that is open, under any key that is known there; now and then one that somebody has
    /// changed.
    fn token(&mut self, execution: ExecutionId) -> Option<Token> {
        let mirror = &self.store.mirrors[execution.route().partition(PARTITIONS).index()];
        let record = mirror.executions.get(&execution)?;
        let open = &record.mailbox()?.waitpoints;
        let keys: Vec<_> = mirror.signing_keys.values().collect();
        if open.is_empty() || keys.is_empty() {
            return None;
        }
        let (open, key) = (self.rng.pick(open), self.rng.pick(&keys));
        let waitpoint = WaitpointId { execution, number: open.number };
        let (namespace, expires_at, digest) = (&*record.spec.namespace, open.expires_at, open.digest);
        let text = Claims { namespace, waitpoint, expires_at, digest }.sign(key);
        let mut token: Token = text.reveal().parse().expect("what is signed is a token");
        match self.rng.below(8) {
            0 => token.waitpoint.number += 1,
            1 => token.key += 1,
            _ => {}
        }
        Some(token)
    }

    /// Something a client or an operator says, if this seed is about that.
    pub(super) fn maybe_signal(&mut self, execution: ExecutionId) -> Option<Command> {
        if self.profile.mail == 0 || !self.rng.chance(self.profile.mail) {
            return None;
        }
        let rng = &mut self.rng;
        let (actor, cause): (Box<str>, Box<str>) = ("somebody".into(), "a whim".into());
        let to = match rng.below(12) {
            0 => return Some(Resume { execution, actor, cause }.into()),
            1 => {
                let secret = Secret([rng.below(200) as u8; 32]);
                let grace_ms = rng.range(0, 5_000);
                return Some(RotateKey { secret, grace_ms, if_none: false, actor, cause }.into());
            }
            2 | 3 => To::Waitpoint(WaitpointId { execution, number: rng.range(1, 3) as u32 }),
            4..=6 => To::Token(self.token(execution)?),
            _ => To::Execution(execution),
        };
        let (rng, named) = (&mut self.rng, matches!(to, To::Execution(_)));
        let signal = SendSignal {
            digest: rng.maybe(2_000, |rng| digest(rng.below(2))),
            name: (named || rng.chance(3_000)).then(|| name(NAMES[rng.below(3)])),
            source: rng.maybe(6_000, |rng| SOURCES[rng.below(2)].into()),
            key: rng.maybe(4_000, |rng| format!("s{}", rng.below(4)).into_boxed_str()),
            ..SendSignal::new(to)
        };
        Some(signal.into())
    }
}

fn approvers(which: usize) -> Vec<Box<str>> {
    SOURCES[which..].iter().map(|it| Box::from(*it)).collect()
}

fn digest(which: usize) -> Digest {
    Digest([which as u8; 32])
}

fn step_at(text: &str, number: u32) -> StepPlace {
    let name = StepName::parse(text).expect("the steps of the simulation are valid");
    StepPlace { key: StepKey { name, occurrence: number }, number }
}
