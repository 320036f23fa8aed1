//! Mailboxes, signals, steps, streams, frames and keys made by hand, with every optional part present and absent.

use ff_core::payload::Payload;
use ff_core::state::Reason;
use ff_core::step::{Step, StepKey, StepKind, StepPlace};
use ff_core::stream::{Frame, FrameMode, Stream, Summary};
use ff_core::suspension::token::Secret;
use ff_core::suspension::{
    Arrived, ClosedWaitpoint, Condition, Digest, Distinct, Mailbox, Match, OnTimeout, ResumedBy, Resumption,
    Signal, SigningKey, Suspension, Waitpoint,
};
use ff_core::{Execution, ExecutionId, Ms, Route};
use serde_json::value::RawValue;

use super::samples::{self, odd};
use super::stand::START;

fn other(n: u64) -> ExecutionId {
    ExecutionId::from_parts(START, Route(9), n)
}

fn step_key(name: &str, occurrence: u32) -> StepKey {
    StepKey { name: name.parse().expect("samples have good names"), occurrence }
}

/// Suspensions for every condition, timeout and reason there is.
pub fn suspensions() -> Vec<Suspension> {
    let named = || Match::named("go/ä'\"".parse().expect("samples have good names"));
    let conditions = [
        Condition::Signal(Match::default()),
        Condition::AllOf(vec![Condition::Signal(named()), Condition::Child(other(1))]),
        Condition::AnyOf(vec![Condition::Signal(Match::waitpoint(3)), Condition::Signal(named())]),
        Condition::Count { n: 2, distinct: Distinct::Sources, of: vec![named(), Match::waitpoint(1)] },
        Condition::Operator,
        Condition::Time,
    ];
    let ends = OnTimeout::ALL.iter().cycle();
    let all = conditions.into_iter().zip(ends).enumerate();
    let suspension = |(n, (condition, on_timeout)): (usize, (Condition, &OnTimeout))| Suspension {
        condition,
        reason: [Reason::WaitingForApproval, Reason::WaitingForSignal][n % 2],
        since: START - 1,
        timeout_at: n.is_multiple_of(2).then_some(START + 60_000),
        on_timeout: *on_timeout,
        step: n.is_multiple_of(3).then(|| StepPlace { key: step_key("ask ß", 4), number: 9 }),
    };
    all.map(suspension).collect()
}

/// A mailbox in which everything that can be there is there.
pub fn mailbox() -> Mailbox {
    let arrived = |number| Arrived { number, child: None, ..Arrived::child(other(1)) };
    Mailbox {
        waitpoints: vec![
            waitpoint(2, None),
            Waitpoint {
                expires_at: Some(START + 9_000),
                digest: Some(Digest([7; 32])),
                approvers: vec![odd(), "b".into()],
                requester: Some(odd()),
                distinct_sources: true,
                known_sources: true,
                step: Some(step_key("open", 1)),
                token_signals: 7,
                ..waitpoint(3, Some("approve/漢'\""))
            },
        ],
        closed: vec![
            ClosedWaitpoint { number: 1, expires_at: Some(START), digest: Some(Digest([255; 32])) },
            ClosedWaitpoint { number: 4, expires_at: None, digest: None },
        ],
        opened: 4,
        signals: vec![
            Arrived {
                name: Some("go".parse().expect("samples have good names")),
                waitpoint: Some(3),
                source: Some(odd()),
                principal: Some(odd()),
                ..arrived(2)
            },
            Arrived { child: Some(other(2)), ..arrived(0) },
        ],
        received: 2,
        resumption: Some(Resumption {
            by: ResumedBy::Signals,
            at: START - 9,
            signals: vec![1],
            children: vec![other(3)],
        }),
        children: vec![other(4), other(5)],
    }
}

pub fn waitpoint(number: u32, name: Option<&str>) -> Waitpoint {
    Waitpoint {
        number,
        name: name.map(|name| name.parse().expect("samples have good names")),
        opened_at: START - 3,
        expires_at: None,
        digest: None,
        approvers: Vec::new(),
        requester: None,
        distinct_sources: false,
        known_sources: false,
        step: None,
        token_signals: 0,
    }
}

/// An execution with these waitpoints open.
pub fn waiting(mut execution: Execution, waitpoints: Vec<Waitpoint>) -> Execution {
    let mailbox = execution.mailbox_mut();
    mailbox.opened = waitpoints.iter().map(|it| it.number).max().unwrap_or(0);
    mailbox.waitpoints = waitpoints;
    execution
}

/// Odd numbers have everything, even ones nothing that can be left out.
pub fn signal(execution: ExecutionId, number: u32) -> Signal {
    let plain = Signal {
        execution,
        number,
        at: START + Ms::from(number),
        name: None,
        waitpoint: None,
        source: None,
        correlation: None,
        payload: Payload::json(format!("[{number}]")),
    };
    if number.is_multiple_of(2) {
        return plain;
    }
    Signal {
        name: Some("go/ä'\"".parse().expect("samples have good names")),
        waitpoint: Some(u32::MAX),
        source: Some(odd()),
        correlation: Some(odd()),
        payload: Payload { content_type: samples::ODD.into(), bytes: (0..=255).collect() },
        ..plain
    }
}

pub fn step(execution: ExecutionId, name: &str, occurrence: u32, number: u32) -> Step {
    Step {
        execution,
        key: step_key(name, occurrence),
        kind: StepKind::ALL[number as usize % StepKind::ALL.len()],
        number,
        attempt: 1,
        started_at: START,
        ended_at: START + Ms::from(number),
        result: Payload::json(format!("{{\"{name}\":{occurrence}}}")),
    }
}

pub fn frame(execution: ExecutionId, attempt: u32, number: u64) -> Frame {
    Frame {
        execution,
        attempt,
        number,
        at: START + number as Ms,
        kind: ["token", "log/ä'"][number as usize % 2].parse().expect("samples have good names"),
        mode: FrameMode::ALL[number as usize % FrameMode::ALL.len()],
        bytes: (0..number as u8).collect::<Vec<u8>>().into(),
    }
}

/// Streams with and without everything that can be left out; the texts of documents are kept as they are.
pub fn streams(execution: ExecutionId) -> Vec<Stream> {
    let document = |text: &str| RawValue::from_string(text.to_owned()).expect("samples are JSON");
    let plain = Stream::new(execution, 1);
    let full = Stream {
        next: 1 << 40,
        first: 1 << 30,
        summary: Some(Summary {
            version: 3, document: document("{ \"b\": 1.50,\"a\":[\"ä 😀\\u0000\" ] }")
        }),
        durable_at: Some(START),
        best_effort_at: Some(START + 1),
        trim_at: Some(START + 7_000),
        ..Stream::new(execution, 2)
    };
    let next = Stream { trim_at: Some(START + 9_000), summary: None, ..full.clone() };
    vec![plain, full, next, Stream::new(execution, u32::MAX)]
}

pub fn signing_key(id: u32, retires_at: Option<Ms>) -> SigningKey {
    let secret = Secret(std::array::from_fn(|at| (at as u32 * 37 + id) as u8));
    SigningKey { id, secret, created_at: START - 5, retires_at, revision: u64::from(id) + 7 }
}
