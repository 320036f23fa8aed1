//! What a worker says about the tasks it holds. Every call names its lease by execution, attempt and epoch.

use ff_core::attempt::{ErrorClass, Progress, TaskError};
use ff_core::commands::{
    Append, Complete, Delay, Drift, Fail, NewFrame, NewStep, NewWaitpoint, OpenWaitpoint, RecordSteps,
    Release, Report, StartChild, Suspend,
};
use ff_core::execution::{Execution, Fence};
use ff_core::id::derived;
use ff_core::limits::Limits;
use ff_core::name::{FrameKind, Namespace, SignalName, StepName};
use ff_core::rejection::Invalid;
use ff_core::state::Reason;
use ff_core::step::{StepKey, StepKind, StepPlace};
use ff_core::stream::FrameMode;
use ff_core::suspension::{Condition, OnTimeout};
use ff_core::{ExecutionId, Payload};

use crate::fields::word;
use crate::payload::{self, Encoded, Json};
use crate::submit::Submission;
use crate::time::{self, Span, Time, when};
use crate::{fields, fields::texts};

request! {
    /// The lease a worker speaks for.
    pub struct Lease {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub execution: ExecutionId,
        pub attempt: u32,
        pub epoch: u64,
    }
}

impl From<Lease> for Fence {
    fn from(Lease { execution, attempt, epoch }: Lease) -> Fence {
        Fence { execution, attempt, epoch }
    }
}

impl From<Fence> for Lease {
    fn from(Fence { execution, attempt, epoch }: Fence) -> Lease {
        Lease { execution, attempt, epoch }
    }
}

request! {
    /// A task that is done.
    pub struct Completion {
        pub lease: Lease,
        /// Null is a result like any other; without one there is none.
        #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
        pub result: Option<Json>,
        pub result_encoded: Option<Encoded>,
    }
}

impl Completion {
    pub fn command(self) -> Result<Complete, Invalid> {
        let given = self.result.is_some() || self.result_encoded.is_some();
        let result = payload::join("result", self.result, self.result_encoded)?;
        Ok(Complete { fence: self.lease.into(), result: given.then_some(result) })
    }
}

impl From<Complete> for Completion {
    fn from(Complete { fence, result }: Complete) -> Completion {
        let (result, result_encoded) = result.as_ref().map_or((None, None), payload::split);
        Completion { lease: fence.into(), result, result_encoded }
    }
}

request! {
    /// A task that went wrong.
    pub struct Failing {
        pub lease: Lease,
        pub error: ErrorDoc,
        /// Wins over the policy's backoff.
        pub retry_after_ms: Option<Span>,
    }
}

request! {
    /// What went wrong.
    pub struct ErrorDoc {
        pub message: String,
        /// A word that policies and people can look for.
        pub code: Option<String>,
        /// `fatal` errors are not tried again.
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<ErrorClassSchema>))]
        pub class: ErrorClass,
    }
}

#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ErrorClass)]
#[allow(dead_code, non_camel_case_types, reason = "only its schema is used")]
pub enum ErrorClassSchema {
    retryable,
    fatal,
}

impl From<&TaskError> for ErrorDoc {
    fn from(error: &TaskError) -> ErrorDoc {
        ErrorDoc {
            message: error.message.to_string(),
            code: error.code.as_deref().map(str::to_owned),
            class: error.class,
        }
    }
}

impl Failing {
    /// The command; `seed` decides the jitter.
    pub fn command(self, seed: u64) -> Fail {
        let ErrorDoc { message, code, class } = self.error;
        Fail {
            fence: self.lease.into(),
            error: TaskError { code: code.map(Into::into), message: message.into(), class },
            retry_after_ms: self.retry_after_ms.map(|it| it.0),
            seed,
        }
    }
}

impl From<Fail> for Failing {
    fn from(fail: Fail) -> Failing {
        Failing {
            lease: fail.fence.into(),
            error: ErrorDoc::from(&fail.error),
            retry_after_ms: fail.retry_after_ms.map(Span),
        }
    }
}

request! {
    /// A task to be tried again later without spending an attempt: after some time, or at a time of the server's clock.
    /// One of the two is given.
    pub struct Delaying {
        pub lease: Lease,
        pub delay_ms: Option<Span>,
        pub until: Option<Time>,
        /// A step to record the time under at which it goes on: its result is `{"until": …}`, in milliseconds.
        pub step: Option<StepDoc>,
    }
}

impl Delaying {
    pub fn command(self) -> Result<Delay, Invalid> {
        let Some(until) = when(("until", self.until), ("delay_ms", self.delay_ms))? else {
            return Err(Invalid::new("delay_ms", "is missing; give a length, or a time as until"));
        };
        let step = self.step.as_ref().map(StepDoc::place).transpose()?;
        Ok(Delay { fence: self.lease.into(), until, step })
    }
}

impl From<Delay> for Delaying {
    fn from(it: Delay) -> Delaying {
        let (until, delay_ms) = time::split(Some(it.until));
        Delaying { lease: it.fence.into(), delay_ms, until, step: it.step.map(Into::into) }
    }
}

request! {
    /// A task given back; it costs no attempt.
    pub struct Releasing {
        pub lease: Lease,
    }
}

impl From<Releasing> for Release {
    fn from(it: Releasing) -> Release {
        Release::new(it.lease.into())
    }
}

request! {
    /// How far a task is.
    pub struct Progressing {
        pub lease: Lease,
        #[cfg_attr(feature = "openapi", schema(maximum = 100))]
        pub percent: Option<u8>,
        pub message: Option<String>,
        /// A word for what it is doing.
        pub status: Option<String>,
    }
}

impl From<Progressing> for Report {
    fn from(it: Progressing) -> Report {
        let progress = Progress {
            percent: it.percent,
            message: it.message.map(Into::into),
            status: it.status.map(Into::into),
        };
        Report { fence: it.lease.into(), progress }
    }
}

impl From<Report> for Progressing {
    fn from(Report { fence, progress }: Report) -> Progressing {
        Progressing {
            lease: fence.into(),
            percent: progress.percent,
            message: progress.message.map(String::from),
            status: progress.status.map(String::from),
        }
    }
}

/// People count from one, so the last number that they are shown must be a number as well.
pub const STEP_OCCURRENCE_MAX: u32 = u32::MAX - 1;

request! {
    /// A step's name and place.
    pub struct StepDoc {
        pub name: String,
        /// How many steps of this name came before it.
        #[serde(default)]
        pub occurrence: u32,
        /// Its place in the order of recording, from 1.
        pub number: u32,
    }
}

impl StepDoc {
    pub fn place(&self) -> Result<StepPlace, Invalid> {
        if self.occurrence > STEP_OCCURRENCE_MAX {
            let problem = format!("is {}; allowed are 0 to {STEP_OCCURRENCE_MAX}", self.occurrence);
            return Err(Invalid::new("step.occurrence", problem));
        }
        let key = StepKey { name: StepName::parse(&self.name)?, occurrence: self.occurrence };
        Ok(StepPlace { key, number: self.number })
    }
}

impl From<StepPlace> for StepDoc {
    fn from(StepPlace { key, number }: StepPlace) -> StepDoc {
        StepDoc { name: key.name.to_string(), occurrence: key.occurrence, number }
    }
}

request! {
    /// A waitpoint to be opened.
    pub struct WaitpointRequest {
        pub name: Option<String>,
        pub expires_in_ms: Option<Span>,
        /// SHA-256 of the proposed action, in hexadecimal digits.
        pub digest: Option<String>,
        /// Only these sources count; all if empty.
        #[serde(default)]
        pub approvers: Vec<String>,
        /// Who asks; this source does not count.
        pub requester: Option<String>,
        /// One source counts once.
        #[serde(default)]
        pub distinct_sources: bool,
        /// The token of the waitpoint alone is not enough: the sender must show an access token, too.
        #[serde(default)]
        pub known_sources: bool,
    }
}

impl WaitpointRequest {
    fn new_waitpoint(self) -> Result<NewWaitpoint, Invalid> {
        Ok(NewWaitpoint {
            name: self.name.as_deref().map(SignalName::parse).transpose()?,
            expires_in_ms: self.expires_in_ms.map(|it| it.0),
            digest: self.digest.map(TryInto::try_into).transpose()?,
            approvers: self.approvers.into_iter().map(Into::into).collect(),
            requester: self.requester.map(Into::into),
            distinct_sources: self.distinct_sources,
            known_sources: self.known_sources,
        })
    }
}

impl From<NewWaitpoint> for WaitpointRequest {
    fn from(it: NewWaitpoint) -> WaitpointRequest {
        WaitpointRequest {
            name: it.name.map(|name| name.to_string()),
            expires_in_ms: it.expires_in_ms.map(Span),
            digest: it.digest.map(|digest| digest.to_string()),
            approvers: texts(&it.approvers),
            requester: it.requester.map(String::from),
            distinct_sources: it.distinct_sources,
            known_sources: it.known_sources,
        }
    }
}

request! {
    /// A task that waits for something outside. Its worker is free; the task is handed out again when it is there.
    pub struct Suspending {
        pub lease: Lease,
        /// What must have arrived, such as `{"signal": {"name": "approved"}}`; see docs/suspension.md.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::Json))]
        pub condition: Condition,
        /// What people see while it waits; `waiting_for_signal` if it is left out.
        pub reason: Option<String>,
        pub timeout_at: Option<Time>,
        pub timeout_ms: Option<Span>,
        /// `fail` (default), `cancel`, `expire`, `resume` or `escalate`.
        pub on_timeout: Option<String>,
        #[serde(default)]
        pub waitpoints: Vec<WaitpointRequest>,
        /// The step under which the end of the suspension is recorded.
        pub step: Option<StepDoc>,
    }
}

impl Suspending {
    pub fn command(self) -> Result<Suspend, Invalid> {
        let reason = self.reason.as_deref().map(|it| word("reason", it, Reason::ALL, Reason::word));
        let on_timeout =
            self.on_timeout.as_deref().map(|it| word("on_timeout", it, OnTimeout::ALL, OnTimeout::word));
        let waitpoints: Result<_, Invalid> =
            self.waitpoints.into_iter().map(WaitpointRequest::new_waitpoint).collect();
        Ok(Suspend {
            fence: self.lease.into(),
            condition: self.condition,
            reason: reason.transpose()?.unwrap_or(Reason::WaitingForSignal),
            timeout: when(("timeout_at", self.timeout_at), ("timeout_ms", self.timeout_ms))?,
            on_timeout: on_timeout.transpose()?.unwrap_or(OnTimeout::Fail),
            waitpoints: waitpoints?,
            step: self.step.as_ref().map(StepDoc::place).transpose()?,
        })
    }
}

impl From<Suspend> for Suspending {
    fn from(it: Suspend) -> Suspending {
        let (timeout_at, timeout_ms) = time::split(it.timeout);
        Suspending {
            lease: it.fence.into(),
            condition: it.condition,
            reason: Some(it.reason.word().to_owned()),
            timeout_at,
            timeout_ms,
            on_timeout: Some(it.on_timeout.word().to_owned()),
            waitpoints: it.waitpoints.into_iter().map(Into::into).collect(),
            step: it.step.map(Into::into),
        }
    }
}

request! {
    /// A waitpoint opened by a running task, before it suspends.
    pub struct OpeningWaitpoint {
        pub lease: Lease,
        pub waitpoint: WaitpointRequest,
        pub step: Option<StepDoc>,
    }
}

impl OpeningWaitpoint {
    pub fn command(self) -> Result<OpenWaitpoint, Invalid> {
        Ok(OpenWaitpoint {
            fence: self.lease.into(),
            waitpoint: self.waitpoint.new_waitpoint()?,
            step: self.step.as_ref().map(StepDoc::place).transpose()?,
        })
    }
}

impl From<OpenWaitpoint> for OpeningWaitpoint {
    fn from(it: OpenWaitpoint) -> OpeningWaitpoint {
        OpeningWaitpoint {
            lease: it.fence.into(),
            waitpoint: it.waitpoint.into(),
            step: it.step.map(Into::into),
        }
    }
}

request! {
    /// An execution that a running task starts as its child.
    pub struct StartingChild {
        pub lease: Lease,
        /// The child.
        pub run: Submission,
        /// Under a step the child is started once, however often it is asked for.
        pub step: Option<StepDoc>,
    }
}

impl StartingChild {
    pub fn command(
        self,
        limits: &Limits,
        new_id: impl FnOnce(&Namespace, Option<&str>) -> ExecutionId,
    ) -> Result<StartChild, Invalid> {
        let (fence, given) = (Fence::from(self.lease), self.run.id.is_some());
        let step = self.step.as_ref().map(StepDoc::place).transpose()?;
        let mut create = self.run.create(limits, new_id)?;
        // Under a step the child is the same however often it is asked for.
        if let (Some(step), false) = (&step, given) {
            let (parent, key) = (fence.execution, step.key.to_string());
            let bits =
                derived(&[b"child", parent.0.as_bytes(), &fence.attempt.to_be_bytes(), key.as_bytes()]);
            create.id = ExecutionId::from_parts(parent.created_at(), parent.route(), bits);
            create.fresh = false;
        }
        Ok(StartChild { fence, create, step })
    }
}

impl From<StartChild> for StartingChild {
    fn from(it: StartChild) -> StartingChild {
        StartingChild { lease: it.fence.into(), run: it.create.into(), step: it.step.map(Into::into) }
    }
}

request! {
    /// A step that is done.
    pub struct StepResult {
        pub step: StepDoc,
        /// `run` (default), `wait`, `sleep`, `waitpoint` or `child`.
        pub kind: Option<String>,
        #[serde(default = "no_time")]
        pub took_ms: Span,
        pub result: Option<Json>,
        pub result_encoded: Option<Encoded>,
    }
}

fn no_time() -> Span {
    Span(0)
}

request! {
    /// Steps of one task that are done.
    pub struct StepsDone {
        pub lease: Lease,
        #[serde(default)]
        pub steps: Vec<StepResult>,
        /// Recorded steps that this attempt did not come by.
        #[serde(default)]
        pub missing: Vec<String>,
        /// Steps that it came by before recorded ones and that are not among them.
        #[serde(default)]
        pub extra: Vec<String>,
        /// Recorded steps that it came by in another order.
        #[serde(default)]
        pub reordered: Vec<String>,
    }
}

impl StepsDone {
    pub fn command(self) -> Result<RecordSteps, Invalid> {
        let names = |names: &[String]| -> Result<Vec<StepName>, Invalid> {
            names.iter().map(|name| StepName::parse(name)).collect()
        };
        let step = |it: StepResult| -> Result<NewStep, Invalid> {
            let kind = it.kind.as_deref().map(|kind| word("kind", kind, StepKind::ALL, StepKind::word));
            Ok(NewStep {
                place: it.step.place()?,
                kind: kind.transpose()?.unwrap_or(StepKind::Run),
                took_ms: it.took_ms.0,
                result: payload::join("result", it.result, it.result_encoded)?,
            })
        };
        let drift = Drift {
            missing: names(&self.missing)?,
            extra: names(&self.extra)?,
            reordered: names(&self.reordered)?,
        };
        let steps = self.steps.into_iter().map(step).collect::<Result<_, _>>()?;
        Ok(RecordSteps { fence: self.lease.into(), steps, drift })
    }
}

impl From<RecordSteps> for StepsDone {
    fn from(it: RecordSteps) -> StepsDone {
        let step = |it: NewStep| {
            let (result, result_encoded) = payload::split(&it.result);
            StepResult {
                step: it.place.into(),
                kind: Some(it.kind.word().to_owned()),
                took_ms: Span(it.took_ms),
                result,
                result_encoded,
            }
        };
        StepsDone {
            lease: it.fence.into(),
            steps: it.steps.into_iter().map(step).collect(),
            missing: texts(it.drift.missing.iter().map(|name| name.as_str())),
            extra: texts(it.drift.extra.iter().map(|name| name.as_str())),
            reordered: texts(it.drift.reordered.iter().map(|name| name.as_str())),
        }
    }
}

request! {
    /// One piece of output.
    pub struct FrameRequest {
        #[cfg_attr(feature = "openapi", schema(example = "text"))]
        pub kind: String,
        /// `durable` (default), `summary` or `best_effort`.
        pub mode: Option<String>,
        /// Text as it is.
        pub text: Option<String>,
        /// A JSON value; the patch of a summary is one.
        pub json: Option<Json>,
        /// Bytes that are neither.
        pub base64: Option<String>,
    }
}

request! {
    /// Output of a running task.
    pub struct Frames {
        pub lease: Lease,
        /// The number of the first of these frames, from 1 within the attempt.
        pub first: u64,
        pub frames: Vec<FrameRequest>,
    }
}

impl FrameRequest {
    fn frame(self) -> Result<NewFrame, Invalid> {
        let mode = self.mode.as_deref().map(|it| word("mode", it, FrameMode::ALL, FrameMode::word));
        let bytes = match (self.text, self.json, self.base64) {
            (Some(text), None, None) => text.into_bytes(),
            (None, Some(json), None) => String::from(Box::<str>::from(json.0)).into_bytes(),
            (None, None, Some(base64)) => payload::decode(&base64)
                .ok_or_else(|| Invalid::new("base64", "cannot be read; use the standard alphabet"))?,
            _ => return Err(Invalid::new("frames", "need exactly one of text, json and base64 each")),
        };
        Ok(NewFrame {
            kind: FrameKind::parse(&self.kind)?,
            mode: mode.transpose()?.unwrap_or(FrameMode::Durable),
            bytes: bytes.into(),
        })
    }
}

impl Frames {
    pub fn command(self) -> Result<Append, Invalid> {
        let frames = self.frames.into_iter().map(FrameRequest::frame).collect::<Result<_, _>>()?;
        Ok(Append { fence: self.lease.into(), first: self.first, frames })
    }
}

impl From<Append> for Frames {
    fn from(it: Append) -> Frames {
        let frame = |it: NewFrame| {
            let text = std::str::from_utf8(&it.bytes).ok().map(str::to_owned);
            let base64 = text.is_none().then(|| payload::encode(&it.bytes));
            let mode = Some(it.mode.word().to_owned());
            FrameRequest { kind: it.kind.to_string(), mode, text, json: None, base64 }
        };
        Frames { lease: it.fence.into(), first: it.first, frames: it.frames.into_iter().map(frame).collect() }
    }
}

/// One task or many; a batch is answered in order, each for itself.
macro_rules! batch {
    ($($(#[$meta:meta])* $name:ident of $item:ident;)+) => { $(
        request! {
            $(#[$meta])*
            pub struct $name {
                pub tasks: Vec<$item>,
            }
        }
    )+ };
}

batch! {
    /// Tasks that are done.
    Completions of Completion;
    /// Tasks that went wrong.
    Failings of Failing;
    /// Tasks to be tried again later.
    Delayings of Delaying;
    /// Tasks given back.
    Releasings of Releasing;
    /// How far tasks are.
    Progressings of Progressing;
    /// Tasks that wait for something outside.
    Suspendings of Suspending;
    /// Steps that are done.
    StepsDones of StepsDone;
    /// Output of running tasks.
    FramesBatch of Frames;
}

answer! {
    /// A task that a worker has claimed, with everything it needs.
    pub struct Task {
        pub lease: Lease,
        pub kind: String,
        pub namespace: String,
        pub lane: String,
        pub input: Option<Json>,
        pub input_encoded: Option<Encoded>,
        /// When it was claimed, on the clock that recorded sleeps are told by.
        pub claimed_at: Option<Time>,
        /// How long the lease lasts unless it is renewed, from when the claim was sent.
        pub lease_ms: i64,
        /// How long this attempt may run.
        pub attempt_timeout_ms: Option<i64>,
        pub attempts_max: u32,
        #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
        pub tags: std::collections::BTreeMap<String, String>,
        /// What ended the suspension it comes from: `signals`, `timeout` or `operator`.
        pub resumed_by: Option<String>,
        pub signals: Vec<crate::mail::SignalDoc>,
        pub steps: Vec<crate::mail::RecordedStep>,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub flow: Option<ff_core::FlowId>,
        pub node: Option<String>,
    }
}

impl Task {
    pub fn of(
        execution: &Execution,
        input: &Payload,
        steps: &[ff_core::step::Step],
        signals: &[ff_core::suspension::Signal],
    ) -> Task {
        let (spec, live) = (&execution.spec, &execution.live);
        let (input, input_encoded) = payload::split(input);
        let resumption = execution.mailbox().and_then(|it| it.resumption.as_ref());
        Task {
            lease: execution.fence().into(),
            kind: spec.kind.to_string(),
            namespace: spec.namespace.to_string(),
            lane: spec.lane.to_string(),
            input,
            input_encoded,
            claimed_at: execution.lease().map(|lease| Time(lease.acquired_at)),
            lease_ms: spec.policy.lease_ms,
            attempt_timeout_ms: spec.policy.attempt_timeout_ms,
            attempts_max: spec.policy.max_attempts,
            tags: fields::tags_map(&live.tags),
            resumed_by: resumption.map(|it| it.by.word().to_owned()),
            signals: signals.iter().map(Into::into).collect(),
            steps: steps.iter().map(Into::into).collect(),
            flow: execution.flow(),
            node: execution.node_name().map(|name| name.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_step_can_be_shown() {
        let step = |occurrence| StepDoc { name: "s".to_owned(), occurrence, number: 1 }.place();
        let key = step(STEP_OCCURRENCE_MAX).unwrap().key;
        assert_eq!(key.to_string(), format!("s #{}", u32::MAX));
        assert_eq!(step(u32::MAX).unwrap_err().field, "step.occurrence");
    }
}
