//! What random programs do with suspensions, signals, steps, output and child executions.

use ff_core::commands::{
    self, Command, Create, NewFrame, NewStep, NewWaitpoint, SendSignal, Suspend, To, When,
};
use ff_core::state::Reason;
use ff_core::step::{StepKey, StepKind, StepPlace};
use ff_core::stream::FrameMode;
use ff_core::suspension::token::Secret;
use ff_core::suspension::{Condition, Digest, Distinct, Match, OnTimeout, WaitpointId};
use ff_core::{ExecutionId, Ms, PartitionId, Payload, Reply, Route};

use super::{Program, by};
use crate::conformance::engine::Answered;
use crate::conformance::samples;
use crate::conformance::stand::START;

const NAMES: [&str; 3] = ["go", "approve/ä", "no"];
const SOURCES: [&str; 3] = ["ann", "bob", "ä 'c'"];

impl Program {
    pub(super) fn about_mail(&mut self, partition: PartitionId) -> Option<Command> {
        Some(match self.dice.below(24) {
            0..=4 => self.suspend(partition)?,
            5..=10 => self.signal(partition)?,
            11 | 12 => {
                let (fence, waitpoint, step) = (self.fence(partition)?, self.waitpoint(), self.maybe_step());
                commands::OpenWaitpoint { fence, waitpoint, step }.into()
            }
            13 | 14 => self.record_steps(partition)?,
            15..=19 => self.append(partition)?,
            20 => self.start_child(partition)?,
            21 => {
                let (actor, cause) = by();
                commands::Resume { execution: self.recent_execution(partition)?, actor, cause }.into()
            }
            22 => {
                let execution = self.recent_execution(partition)?;
                let number = 1 + self.dice.below(3) as u32;
                let (actor, cause) = by();
                commands::IssueToken { waitpoint: WaitpointId { execution, number }, actor, cause }.into()
            }
            _ => self.rotate_key(partition)?,
        })
    }

    /// Notes the tokens that a batch has answered with.
    pub(super) fn follow_tokens(&mut self, replies: &[Answered]) {
        for reply in replies {
            if let Ok(Reply::WaitpointOpened { token: Some(token), .. }) = reply {
                self.tokens.extend(token.reveal().parse().ok());
            }
        }
        let old = self.tokens.len().saturating_sub(20);
        self.tokens.drain(..old);
    }

    fn suspend(&mut self, partition: PartitionId) -> Option<Command> {
        let fence = self.fence(partition)?;
        let reasons = [Reason::WaitingForApproval, Reason::WaitingForSignal, Reason::WaitingForToolResult];
        let waitpoints = (0..self.dice.below(3)).map(|_| self.waitpoint()).collect();
        let suspend = Suspend {
            condition: self.condition(2),
            reason: reasons[self.dice.below(3)],
            timeout: (self.dice.below(3) > 0).then(|| When::In(1 + self.ms(6_000))),
            on_timeout: OnTimeout::ALL[self.dice.below(OnTimeout::ALL.len())],
            waitpoints,
            step: self.maybe_step(),
            ..Suspend::new(fence, Condition::Time)
        };
        Some(suspend.into())
    }

    fn condition(&mut self, depth: usize) -> Condition {
        let of = self.matches();
        let distinct = [Distinct::Signals, Distinct::Sources, Distinct::Waitpoints][self.dice.below(3)];
        match self.dice.below(if depth > 0 { 8 } else { 5 }) {
            0..=2 => Condition::Signal(of),
            3 => Condition::Count { n: 1 + self.dice.below(2) as u32, distinct, of: vec![of] },
            4 => self.dice.pick(&self.children).copied().map_or(Condition::Signal(of), Condition::Child),
            5 => Condition::AllOf(vec![self.condition(depth - 1), self.condition(depth - 1)]),
            6 => Condition::AnyOf(vec![self.condition(depth - 1), self.condition(depth - 1)]),
            _ if depth == 2 => [Condition::Operator, Condition::Time][self.dice.below(2)].clone(),
            _ => Condition::Signal(of),
        }
    }

    fn matches(&mut self) -> Match {
        match self.dice.below(4) {
            0 => Match::waitpoint(1 + self.dice.below(2) as u32),
            1 => Match::default(),
            _ => Match { name: self.name(), waitpoint: None },
        }
    }

    fn waitpoint(&mut self) -> NewWaitpoint {
        NewWaitpoint {
            name: self.name().filter(|_| self.dice.below(4) > 0),
            expires_in_ms: (self.dice.below(3) == 0).then(|| 1 + self.ms(8_000)),
            digest: (self.dice.below(4) == 0).then_some(Digest([9; 32])),
            approvers: if self.dice.below(4) == 0 { vec![SOURCES[0].into()] } else { Vec::new() },
            requester: (self.dice.below(4) == 0).then(|| SOURCES[1].into()),
            distinct_sources: self.dice.below(3) == 0,
            known_sources: self.dice.below(5) == 0,
        }
    }

    fn signal(&mut self, partition: PartitionId) -> Option<Command> {
        let execution = self.recent_execution(partition)?;
        let to = match self.dice.below(4) {
            0 => To::Waitpoint(WaitpointId { execution, number: 1 + self.dice.below(3) as u32 }),
            1 => {
                let home = |id: ExecutionId| id.route().partition(self.partitions) == partition;
                let here = self.tokens.iter().filter(|it| home(it.waitpoint.execution)).cloned();
                To::Token(self.dice.pick(&here.collect::<Vec<_>>())?.clone())
            }
            _ => To::Execution(execution),
        };
        let signal = SendSignal {
            name: self.name(),
            payload: Payload::json(format!("[{}]", self.dice.below(1_000))),
            source: (self.dice.below(4) > 0).then(|| SOURCES[self.dice.below(3)].into()),
            correlation: (self.dice.below(2) == 0).then(samples::odd),
            key: (self.dice.below(4) == 0).then(|| format!("s{}", self.dice.below(8)).into()),
            digest: (self.dice.below(6) == 0).then_some(Digest([9; 32])),
            ..SendSignal::new(to)
        };
        Some(signal.into())
    }

    fn record_steps(&mut self, partition: PartitionId) -> Option<Command> {
        let fence = self.fence(partition)?;
        let count = 1 + self.dice.below(3);
        let steps = (0..count).map(|_| NewStep {
            place: self.place(),
            kind: StepKind::Run,
            took_ms: self.ms(100),
            result: Payload::json(format!("{{\"s\":{}}}", self.dice.below(1_000))),
        });
        Some(commands::RecordSteps { fence, steps: steps.collect(), drift: Default::default() }.into())
    }

    /// Often some of what was appended before, and sometimes with a gap.
    fn append(&mut self, partition: PartitionId) -> Option<Command> {
        let fence = self.fence(partition)?;
        let count = 1 + self.dice.below(5);
        let frames = (0..count).map(|_| {
            let mode = FrameMode::ALL[self.dice.below(FrameMode::ALL.len())];
            let bytes = match mode {
                FrameMode::Summary => {
                    format!("{{\"k{}\":{}}}", self.dice.below(3), self.dice.below(9)).into_bytes()
                }
                _ => vec![self.dice.below(256) as u8; self.dice.below(40)],
            };
            let kind = "log/ä".parse().expect("programs have good names");
            NewFrame { kind, mode, bytes: bytes.into() }
        });
        let frames = frames.collect();
        let first = [1, 1, 1, 2, 4, 6][self.dice.below(6)];
        Some(commands::Append { fence, first, frames }.into())
    }

    fn start_child(&mut self, partition: PartitionId) -> Option<Command> {
        let fence = self.fence(partition)?;
        self.made += 1;
        let (at, route) = (START + self.made as Ms, fence.execution.route());
        let id = ExecutionId::from_parts(at, route, self.dice.roll());
        self.executions.push(id);
        self.children.push(id);
        let old = self.children.len().saturating_sub(6);
        self.children.drain(..old);
        let mut create = Create::new(id, samples::kind("child"), Payload::json("[]"));
        create.policy.lease_ms = 2_000;
        Some(commands::StartChild { fence, create, step: self.maybe_step() }.into())
    }

    fn rotate_key(&mut self, partition: PartitionId) -> Option<Command> {
        if Route(0).partition(self.partitions) != partition {
            return None;
        }
        let secret = Secret([self.dice.below(4) as u8; 32]);
        let (actor, cause) = by();
        let (grace_ms, if_none) = (self.ms(20_000), self.dice.below(3) == 0);
        Some(commands::RotateKey { secret, grace_ms, if_none, actor, cause }.into())
    }

    fn recent_execution(&mut self, partition: PartitionId) -> Option<ExecutionId> {
        let here = |id: &&ExecutionId| id.route().partition(self.partitions) == partition;
        let leased = self.fences.iter().rev().map(|fence| &fence.execution).filter(here).take(6);
        let leased: Vec<ExecutionId> = leased.copied().collect();
        self.dice.pick(&leased).copied()
    }

    fn name(&mut self) -> Option<ff_core::name::SignalName> {
        NAMES[self.dice.below(3)].parse().ok()
    }

    fn maybe_step(&mut self) -> Option<StepPlace> {
        (self.dice.below(2) == 0).then(|| self.place())
    }

    fn place(&mut self) -> StepPlace {
        let name = ["charge", "mail 'ä'"][self.dice.below(2)].parse().expect("programs have good names");
        let key = StepKey { name, occurrence: self.dice.below(3) as u32 };
        StepPlace { key, number: self.dice.below(6) as u32 }
    }
}
