//! Records made by hand: every state, every optional field, and text that is hard to keep.

use std::sync::Arc;

use ff_core::attempt::{Attempt, AttemptEnd, ErrorClass, Progress, TaskError};
use ff_core::class::Capabilities;
use ff_core::execution::{
    CancelRequest, Cancellation, ContentDigest, End, Execution, How, Lease, LeaseEnding, Live, Series, Spec,
    State,
};
use ff_core::inbox::Posted;
use ff_core::lane::{Lane, LaneMode};
use ff_core::limits::Limits;
use ff_core::payload::Payload;
use ff_core::policy::{Backoff, Jitter, LeaseLoss, Policy};
use ff_core::rejection::Lost;
use ff_core::state::{AttemptOutcome, PublicState, Reason};
use ff_core::tags::Tags;
use ff_core::worker::{WorkerInstance, WorkerMode};
use ff_core::{
    Capability, ExecutionId, InstanceId, Kind, LaneName, Ms, Namespace, PartitionId, Route, WorkerName,
};

use super::mail_samples;
use super::stand::START;

/// Quotes of every kind, line ends, blanks at both ends, other scripts, a character outside the basic plane
/// and one made of two code points.
pub const ODD: &str = " it's \"odd\" `text`\\n\\\n\r\n\tÄ ß Ωმ 漢字 😀 e\u{301} %_$1 ; -- {} ";

pub fn odd() -> Box<str> {
    ODD.into()
}

pub fn kind(text: &str) -> Kind {
    Kind::parse(text).expect("samples have good names")
}

pub fn lane_name(text: &str) -> LaneName {
    LaneName::parse(text).expect("samples have good names")
}

pub fn namespace(text: &str) -> Namespace {
    Namespace::parse(text).expect("samples have good names")
}

pub fn worker_name(text: &str) -> WorkerName {
    WorkerName::parse(text).expect("samples have good names")
}

pub fn capabilities(words: &[&str]) -> Capabilities {
    Capabilities::new(words.iter().map(|word| Capability::parse(word).expect("samples have good names")))
}

pub fn tags(pairs: &[(&str, &str)]) -> Tags {
    let tags = Tags::default().edited(pairs.iter().copied(), [], &Limits::default());
    tags.expect("samples have good tags")
}

/// An id in a partition, sorted by `n`, with one of several routes that lead there.
pub fn id(partitions: u16, partition: PartitionId, n: u64) -> ExecutionId {
    ExecutionId::from_parts(START + n as Ms, route(partitions, partition, n), n)
}

pub fn instance(partitions: u16, partition: PartitionId, n: u64) -> InstanceId {
    InstanceId::from_parts(START, route(partitions, partition, n), n)
}

fn route(partitions: u16, partition: PartitionId, n: u64) -> Route {
    Route(partition.0 + partitions * (n % 5) as u16)
}

/// A plain execution that is ready, at the end of its queue.
pub fn execution(id: ExecutionId) -> Execution {
    let spec = Spec {
        namespace: Namespace::default(),
        kind: kind("task"),
        lane: LaneName::default(),
        capabilities: Capabilities::default(),
        policy: Policy::default(),
        created_at: START,
        deadline_ms: None,
        idempotency_key: None,
        idempotency_until: None,
        digest: ContentDigest(7),
        input_bytes: 0,
        member: None,
        parent: None,
    };
    let live = Live {
        priority: 0,
        tags: Tags::default(),
        state: State::Ready { rank: START, number: 1, since: START },
        epoch: 0,
        series: Series { number: 1, spent: 0, losses: 0, since: START },
        attempt: None,
        deadline_at: None,
        timer: None,
        endings: Vec::new(),
        node: None,
        mailbox: None,
        stepped: false,
        streamed: false,
        changed_at: START,
    };
    Execution { id, spec: Arc::new(spec), live }
}

/// A ready execution at a place in its queue.
pub fn ready(id: ExecutionId, rank: i64, number: u64) -> Execution {
    with_state(execution(id), State::Ready { rank, number, since: START })
}

pub fn delayed(id: ExecutionId, until: Ms) -> Execution {
    with_state(execution(id), State::Delayed { until, reason: Reason::WaitingForDelay })
}

pub fn completed(id: ExecutionId, remove_at: Ms) -> Execution {
    let (state, reason) = (PublicState::Completed, Reason::Succeeded);
    let (error, result_bytes, cancelled, upstream) = (None, None, None, None);
    let end = End { state, reason, at: START, error, result_bytes, cancelled, upstream, remove_at };
    with_state(execution(id), State::Ended(end))
}

pub fn with_state(mut execution: Execution, state: State) -> Execution {
    execution.live.state = state;
    execution
}

/// An execution in which every field that can be there is there.
pub fn full(id: ExecutionId, instance: InstanceId, state: State) -> Execution {
    let mut it = execution(id);
    it.spec = Arc::new(Spec {
        namespace: namespace("acme.eu-1"),
        kind: kind("orders/charge:v2'\"ß漢"),
        lane: lane_name(" EU 'billing', \"urgent\" 漢 "),
        capabilities: capabilities(&["gpu", "eu", "ö'\""]),
        policy: policy(),
        created_at: START - 5,
        deadline_ms: Some(86_400_000),
        idempotency_key: Some(odd()),
        idempotency_until: Some(START + 9),
        digest: ContentDigest(u64::MAX >> 1),
        input_bytes: 1 << 40,
        member: None,
        parent: Some(ExecutionId::from_parts(START, Route(3), 9)),
    });
    it.live = Live {
        priority: -100,
        tags: tags(&[("team.name", ODD), ("empty", "")]),
        state,
        epoch: 1 << 40,
        series: Series { number: 4, spent: 2, losses: 1, since: START - 1 },
        attempt: Some(attempt(3, instance)),
        deadline_at: Some(START + 86_400_000),
        timer: None,
        endings: endings(),
        node: None,
        mailbox: Some(Box::new(mail_samples::mailbox())),
        stepped: true,
        streamed: true,
        changed_at: START,
    };
    it
}

/// Every state an execution can be in, with every optional part present once and absent once.
pub fn states(instance: InstanceId) -> Vec<State> {
    let cancel = CancelRequest { cancellation: cancellation(), cut_at: START + 3 };
    let lease = |cancel| Lease {
        worker: worker_name("w/ö'1"),
        instance,
        acquired_at: START,
        expires_at: START + 30_000,
        cancel,
    };
    let end = |state, reason| End {
        state,
        reason,
        at: START,
        error: Some(error()),
        result_bytes: Some(12),
        cancelled: Some(cancellation()),
        upstream: Some(ExecutionId::from_parts(START, Route(9), 9)),
        remove_at: START + 604_800_000,
    };
    let held = |until, reason| State::Held {
        actor: odd(),
        cause: odd(),
        at: START,
        until,
        reason,
        suspension: None,
    };
    let mut states = vec![
        State::Ready { rank: -5, number: 1 << 40, since: START - 5 },
        State::Delayed { until: START + 5, reason: Reason::RetryBackoff },
        State::Active(lease(None)),
        State::Active(lease(Some(cancel))),
        held(None, None),
        held(Some(START + 5), Some(Reason::ResumeDelay)),
        State::Blocked { reason: Reason::WaitingForDependencies },
    ];
    let suspensions = mail_samples::suspensions();
    states.push(State::Held {
        actor: odd(),
        cause: odd(),
        at: START,
        until: None,
        reason: None,
        suspension: suspensions.first().cloned().map(Box::new),
    });
    states.extend(suspensions.into_iter().map(|it| State::Suspended(Box::new(it))));
    let terminal = PublicState::ALL.iter().filter(|state| state.is_terminal());
    let reasons = Reason::ALL.iter().rev();
    states.extend(terminal.zip(reasons).map(|(state, reason)| State::Ended(end(*state, *reason))));
    states
}

pub fn attempt(number: u32, instance: InstanceId) -> Attempt {
    let end = AttemptEnd { at: START, outcome: AttemptOutcome::TimedOut, error: Some(error()) };
    let progress = Progress { percent: Some(100), message: Some(odd()), status: Some(odd()) };
    Attempt {
        number,
        series: 4,
        worker: worker_name("w/ö'1"),
        instance,
        started_at: START - 3,
        leased_ms: 17,
        progress: Some(progress),
        end: Some(end),
    }
}

pub fn error() -> TaskError {
    TaskError { code: Some(odd()), message: odd(), class: ErrorClass::Fatal }
}

pub fn cancellation() -> Cancellation {
    Cancellation { actor: odd(), cause: odd(), at: START - 2 }
}

fn endings() -> Vec<LeaseEnding> {
    let hows = [
        How::Completed,
        How::Failed { retry_at: None },
        How::Failed { retry_at: Some(START) },
        How::Delayed { until: START + 1 },
        How::Released,
        How::Suspended,
        How::Cancelled,
        How::Lost(Lost::Expired),
    ];
    let endings = hows.into_iter().enumerate();
    endings.map(|(n, how)| LeaseEnding { attempt: n as u32, epoch: n as u64 + 5, how }).collect()
}

fn policy() -> Policy {
    Policy {
        max_attempts: 17,
        backoff: Backoff { initial_ms: 0, factor: 1.1, max_ms: 9, jitter: Jitter::None },
        max_elapsed_ms: Some(5),
        non_retryable: vec![odd(), "b".into()],
        lease_ms: 60_000,
        lease_grace_ms: 3,
        lease_loss: LeaseLoss::Counts,
        losses_max: 6,
        attempt_timeout_ms: Some(7),
        schedule_to_start_ms: Some(8),
        replays_max: 0,
    }
}

/// A row of the inbox with an id of the partition and nothing else that can be left out.
pub fn posted(partitions: u16, partition: PartitionId, number: u64) -> Posted {
    Posted {
        number,
        id: Some(id(partitions, partition, number)),
        posted_at: START,
        kind: "task".to_owned(),
        input: Payload::json(format!("[{number}]")),
        namespace: None,
        lane: None,
        key: None,
        options: None,
    }
}

/// A row in which everything is said, in text that is hard to keep.
pub fn posted_fully(partitions: u16, partition: PartitionId, number: u64) -> Posted {
    Posted {
        posted_at: START - 5,
        kind: ODD.to_owned(),
        input: Payload { content_type: ODD.into(), bytes: (0..=255).collect() },
        namespace: Some(ODD.to_owned()),
        lane: Some(ODD.to_owned()),
        key: Some(ODD.to_owned()),
        options: Some(r#"{"priority": 5, "tags": {"team.name": "Ä 😀"}}"#.to_owned()),
        ..posted(partitions, partition, number)
    }
}

pub fn lane(name: &str, revision: u64) -> Lane {
    Lane {
        mode: LaneMode::Paused,
        step_ms: 0,
        retention_ms: Some(1),
        renewed_events: true,
        revision,
        changed_at: START,
        actor: odd(),
        cause: odd(),
        ..Lane::default_of(lane_name(name))
    }
}

pub fn worker(instance: InstanceId, revision: u64) -> WorkerInstance {
    WorkerInstance {
        instance,
        name: worker_name("w/ö'1"),
        lanes: vec![LaneName::default(), lane_name(" EU 'billing', \"urgent\" 漢 ")],
        capabilities: capabilities(&["gpu", "eu"]),
        build: Some(odd()),
        server: Some(odd()),
        owner: Some("a-token".into()),
        mode: WorkerMode::Draining,
        registered_at: START,
        ttl_ms: 10_000,
        expires_at: Some(START + 10_000),
        timer: Some(START + 10_000),
        died_at: Some(START + 1),
        releasing_since: Some(START + 2),
        revision,
        actor: odd(),
        cause: odd(),
    }
}
