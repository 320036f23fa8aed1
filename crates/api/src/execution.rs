//! Executions as people and programs read them.

use std::collections::BTreeMap;

use ff_core::attempt::{Attempt, Progress};
use ff_core::commands::{Cancel, SetPriority, Tag};
use ff_core::execution::{Cancellation, Execution, State};
use ff_core::suspension::WaitpointId;
use ff_core::{ExecutionId, FlowId, InstanceId, Ms};

use crate::fields::{self, texts};
use crate::task::ErrorDoc;
use crate::time::{Span, Time};
use crate::{Encoded, Json};

answer! {
    /// An execution.
    pub struct ExecutionDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub id: ExecutionId,
        pub namespace: String,
        pub lane: String,
        pub kind: String,
        /// `waiting`, `delayed`, `waiting_children`, `active`, `suspended`, `completed`, `failed`, `cancelled`, `expired`
        /// or `skipped`.
        pub state: String,
        pub reason: String,
        pub priority: i8,
        pub capabilities: Vec<String>,
        pub tags: BTreeMap<String, String>,
        pub created_at: Time,
        pub changed_at: Time,
        pub not_before: Option<Time>,
        pub deadline_at: Option<Time>,
        /// The number of the newest attempt; 0 before the first.
        pub attempt: u32,
        pub attempts_spent: u32,
        pub attempts_max: u32,
        /// One more with each replay.
        pub series: u32,
        pub worker: Option<String>,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub instance: Option<InstanceId>,
        pub lease_expires_at: Option<Time>,
        pub progress: Option<ProgressDoc>,
        pub held: Option<ByDoc>,
        pub suspension: Option<SuspensionDoc>,
        pub waitpoints: Vec<OpenWaitpointDoc>,
        pub stepped: bool,
        pub streamed: bool,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub parent: Option<ExecutionId>,
        pub cancelled: Option<ByDoc>,
        pub error: Option<ErrorDoc>,
        pub ended_at: Option<Time>,
        pub input_bytes: u64,
        pub result_bytes: Option<u64>,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub flow: Option<FlowId>,
        pub node: Option<String>,
        pub idempotency_key: Option<String>,
    }
}

answer! {
    /// How far a worker says it is.
    pub struct ProgressDoc {
        pub percent: Option<u8>,
        pub message: Option<String>,
        pub status: Option<String>,
    }
}

answer! {
    /// Who did something, why and when.
    pub struct ByDoc {
        pub actor: String,
        pub cause: String,
        pub at: Time,
    }
}

answer! {
    /// What an execution waits for.
    pub struct SuspensionDoc {
        pub condition: Json,
        pub since: Time,
        pub timeout_at: Option<Time>,
        pub on_timeout: String,
    }
}

answer! {
    /// A waitpoint that takes signals. Its token is nowhere.
    pub struct OpenWaitpointDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub waitpoint: WaitpointId,
        pub name: Option<String>,
        pub opened_at: Time,
        pub expires_at: Option<Time>,
    }
}

impl From<&Progress> for ProgressDoc {
    fn from(it: &Progress) -> ProgressDoc {
        ProgressDoc {
            percent: it.percent,
            message: it.message.as_deref().map(str::to_owned),
            status: it.status.as_deref().map(str::to_owned),
        }
    }
}

fn by(actor: &str, cause: &str, at: Ms) -> ByDoc {
    ByDoc { actor: actor.to_owned(), cause: cause.to_owned(), at: Time(at) }
}

impl From<&Cancellation> for ByDoc {
    fn from(it: &Cancellation) -> ByDoc {
        by(&it.actor, &it.cause, it.at)
    }
}

impl From<&Execution> for ExecutionDoc {
    fn from(execution: &Execution) -> ExecutionDoc {
        let (spec, live) = (&execution.spec, &execution.live);
        let (lease, end) = (execution.lease(), execution.end());
        let not_before = match &live.state {
            State::Delayed { until, .. } => Some(*until),
            State::Held { until, .. } => *until,
            _ => None,
        };
        let held = match &live.state {
            State::Held { actor, cause, at, .. } => Some(by(actor, cause, *at)),
            _ => None,
        };
        let last_error =
            live.attempt.as_ref().and_then(|it| it.end.as_ref()).and_then(|it| it.error.as_ref());
        let requested = lease.and_then(|it| it.cancel.as_ref()).map(|it| &it.cancellation);
        let cancelled = end.and_then(|it| it.cancelled.as_ref()).or(requested);
        let suspension = execution.suspension().map(|it| SuspensionDoc {
            condition: Json::of(&it.condition),
            since: Time(it.since),
            timeout_at: it.timeout_at.map(Time),
            on_timeout: it.on_timeout.word().to_owned(),
        });
        let open = execution.mailbox().into_iter().flat_map(|mailbox| &mailbox.waitpoints);
        let waitpoints = open.map(|it| OpenWaitpointDoc {
            waitpoint: WaitpointId { execution: execution.id, number: it.number },
            name: it.name.as_ref().map(|name| name.to_string()),
            opened_at: Time(it.opened_at),
            expires_at: it.expires_at.map(Time),
        });
        ExecutionDoc {
            id: execution.id,
            namespace: spec.namespace.to_string(),
            lane: spec.lane.to_string(),
            kind: spec.kind.to_string(),
            state: execution.public_state().word().to_owned(),
            reason: execution.reason().word().to_owned(),
            priority: live.priority,
            capabilities: texts(spec.capabilities.as_slice().iter().map(|it| it.as_str())),
            tags: fields::tags_map(&live.tags),
            created_at: Time(spec.created_at),
            changed_at: Time(live.changed_at),
            not_before: not_before.map(Time),
            deadline_at: live.deadline_at.map(Time),
            attempt: execution.attempt_number(),
            attempts_spent: live.series.spent,
            attempts_max: spec.policy.max_attempts,
            series: live.series.number,
            worker: lease.map(|it| it.worker.to_string()),
            instance: lease.map(|it| it.instance),
            lease_expires_at: lease.map(|it| Time(it.expires_at)),
            progress: live.attempt.as_ref().and_then(|it| it.progress.as_ref()).map(Into::into),
            held,
            suspension,
            waitpoints: waitpoints.collect(),
            stepped: live.stepped,
            streamed: live.streamed,
            parent: spec.parent,
            cancelled: cancelled.map(Into::into),
            error: end.and_then(|it| it.error.as_ref()).or(last_error).map(Into::into),
            ended_at: end.map(|it| Time(it.at)),
            input_bytes: spec.input_bytes,
            result_bytes: end.and_then(|it| it.result_bytes),
            flow: execution.flow(),
            node: execution.node_name().map(|name| name.to_string()),
            idempotency_key: spec.idempotency_key.as_deref().map(str::to_owned),
        }
    }
}

answer! {
    /// A page of executions.
    pub struct ExecutionPage {
        pub executions: Vec<ExecutionDoc>,
        /// Where the next page starts; null on the last.
        pub next_cursor: Option<String>,
    }
}

answer! {
    /// The input of an execution, as it was submitted.
    pub struct InputDoc {
        pub input: Option<Json>,
        pub input_encoded: Option<Encoded>,
    }
}

answer! {
    /// An execution and, if it has ended, what it came to.
    pub struct ResultDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub id: ExecutionId,
        pub state: String,
        pub reason: String,
        /// Whether it has ended; if not, ask again.
        pub ended: bool,
        pub result: Option<Json>,
        pub result_encoded: Option<Encoded>,
        pub error: Option<ErrorDoc>,
    }
}

answer! {
    /// One try at running an execution.
    pub struct AttemptDoc {
        pub number: u32,
        pub series: u32,
        pub worker: String,
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub instance: InstanceId,
        pub started_at: Time,
        pub ended_at: Option<Time>,
        /// `completed`, `failed`, `timed_out`, `lease_lost`, `revoked`, `released` or `cancelled`; null while it runs.
        pub outcome: Option<String>,
        pub error: Option<ErrorDoc>,
        pub progress: Option<ProgressDoc>,
    }
}

impl From<&Attempt> for AttemptDoc {
    fn from(it: &Attempt) -> AttemptDoc {
        let end = it.end.as_ref();
        AttemptDoc {
            number: it.number,
            series: it.series,
            worker: it.worker.to_string(),
            instance: it.instance,
            started_at: Time(it.started_at),
            ended_at: end.map(|end| Time(end.at)),
            outcome: end.map(|end| end.outcome.word().to_owned()),
            error: end.and_then(|end| end.error.as_ref()).map(Into::into),
            progress: it.progress.as_ref().map(Into::into),
        }
    }
}

answer! {
    /// All tries at running an execution.
    pub struct AttemptsDoc {
        pub attempts: Vec<AttemptDoc>,
    }
}

answer! {
    /// Why an execution does or does not run.
    pub struct ExplanationDoc {
        pub state: String,
        pub reason: String,
        pub gates: Vec<GateDoc>,
    }
}

answer! {
    /// Something an execution must pass before it runs.
    pub struct GateDoc {
        pub gate: String,
        pub blocking: bool,
        pub detail: String,
    }
}

answer! {
    /// How many executions match.
    pub struct CountDoc {
        pub count: u64,
        /// There are more; counting has stopped.
        pub more: bool,
    }
}

answer! {
    /// How many executions there are, by namespace, lane, kind and state.
    pub struct CountsDoc {
        pub counts: Vec<CountRow>,
    }
}

answer! {
    /// One row of the counts.
    pub struct CountRow {
        pub namespace: String,
        pub lane: String,
        pub kind: String,
        pub state: String,
        pub count: u64,
    }
}

request! {
    /// A wish to cancel.
    pub struct Cancelling {
        pub actor: Option<String>,
        pub cause: Option<String>,
        /// How long a running worker may take to end by itself.
        pub grace_ms: Option<Span>,
    }
}

impl Cancelling {
    pub fn command(self, execution: ExecutionId, actor: &str) -> Cancel {
        Cancel {
            execution,
            actor: actor.into(),
            cause: self.cause.unwrap_or_default().into(),
            grace_ms: self.grace_ms.map(|it| it.0),
        }
    }
}

answer! {
    /// What cancelling came to.
    pub struct CancelledDoc {
        pub state: String,
        /// When a running worker is cut off, if one was asked to end.
        pub cut_at: Option<Time>,
    }
}

request! {
    /// A new priority.
    pub struct Prioritising {
        #[cfg_attr(feature = "openapi", schema(minimum = -100, maximum = 100))]
        pub priority: i8,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

impl Prioritising {
    pub fn command(self, execution: ExecutionId, actor: &str) -> SetPriority {
        let cause = self.cause.unwrap_or_default().into();
        SetPriority { execution, priority: self.priority, actor: actor.into(), cause }
    }
}

request! {
    /// Tags to be set and removed.
    pub struct Tagging {
        #[serde(default)]
        pub set: BTreeMap<String, String>,
        #[serde(default)]
        pub remove: Vec<String>,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

impl Tagging {
    #[allow(clippy::type_complexity, reason = "the two fields of a command")]
    pub fn parts(self) -> (Vec<(Box<str>, Box<str>)>, Vec<Box<str>>) {
        let set = self.set.into_iter().map(|(key, value)| (key.into(), value.into()));
        (set.collect(), self.remove.into_iter().map(Into::into).collect())
    }

    pub fn command(self, execution: ExecutionId, actor: &str) -> Tag {
        let cause = self.cause.clone().unwrap_or_default().into();
        let (set, remove) = self.parts();
        Tag { execution, set, remove, actor: actor.into(), cause }
    }
}
