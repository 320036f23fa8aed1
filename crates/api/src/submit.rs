//! Work that is handed in.

use std::collections::BTreeMap;

use ff_core::ExecutionId;
use ff_core::commands::Create;
use ff_core::limits::Limits;
use ff_core::name::{Kind, LaneName, Namespace};
use ff_core::policy::Policy;
use ff_core::rejection::Invalid;

use crate::payload::{self, Encoded, Json};
use crate::time::{self, Span, Time, when};
use crate::{fields, fields::texts};

request! {
    /// One execution to be created.
    pub struct Submission {
        /// The name of the task.
        #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 128, example = "charge"))]
        pub kind: String,
        /// What the worker gets; null if it is left out.
        pub input: Option<Json>,
        /// The same, for what is not JSON.
        pub input_encoded: Option<Encoded>,
        /// Whose work it is; `default` if it is left out.
        pub namespace: Option<String>,
        /// The queue it waits in; `default` if it is left out.
        pub lane: Option<String>,
        /// Higher is sooner; a point is a head start of a minute unless the lane says otherwise.
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(minimum = -100, maximum = 100))]
        pub priority: i32,
        /// Not before this time.
        pub start_at: Option<Time>,
        /// Not before so long from now.
        pub delay_ms: Option<Span>,
        /// It expires if it has not ended by then.
        pub deadline_at: Option<Time>,
        pub deadline_ms: Option<Span>,
        /// Words that a worker must have.
        #[serde(default)]
        pub capabilities: Vec<String>,
        #[serde(default)]
        pub tags: BTreeMap<String, String>,
        /// The same key in the same namespace within a day gives the first execution instead of a second one.
        pub idempotency_key: Option<String>,
        /// Retries and timeouts; what is left out has its default.
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<PolicySchema>))]
        pub policy: Policy,
        /// An id made by the caller, so that a lost answer can be asked for again. The server makes one otherwise.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub id: Option<ExecutionId>,
    }
}

/// Retries, leases and timeouts of an execution.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Policy)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct PolicySchema {
    /// How often it is tried at most.
    #[schema(minimum = 1, maximum = 1000, default = 3)]
    max_attempts: Option<u32>,
    backoff: Option<BackoffSchema>,
    /// No more attempts after so long.
    #[schema(minimum = 1)]
    max_elapsed_ms: Option<i64>,
    /// Error codes after which it is not tried again.
    non_retryable: Option<Vec<String>>,
    #[schema(minimum = 100, maximum = 86_400_000, default = 30_000)]
    lease_ms: Option<i64>,
    #[schema(minimum = 0, maximum = 3_600_000, default = 0)]
    lease_grace_ms: Option<i64>,
    /// `uncounted` or `counts`: whether a lost lease costs an attempt.
    #[schema(value_type = Option<String>)]
    lease_loss: Option<String>,
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    losses_max: Option<u32>,
    #[schema(minimum = 1)]
    attempt_timeout_ms: Option<i64>,
    #[schema(minimum = 1)]
    schedule_to_start_ms: Option<i64>,
    #[schema(minimum = 0, maximum = 1000, default = 10)]
    replays_max: Option<u32>,
}

#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Backoff)]
#[allow(dead_code, reason = "only its schema is used")]
pub struct BackoffSchema {
    #[schema(minimum = 0, default = 1000)]
    initial_ms: Option<i64>,
    #[schema(minimum = 1, maximum = 100, default = 2)]
    factor: Option<f64>,
    #[schema(minimum = 0, default = 60_000)]
    max_ms: Option<i64>,
    /// `full` or `none`.
    jitter: Option<String>,
}

request! {
    /// Many executions to be created; each is answered for itself, in order.
    pub struct Submissions {
        pub executions: Vec<Submission>,
    }
}

answer! {
    /// An execution that was created, now or before.
    pub struct Submitted {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub id: ExecutionId,
        /// It was there before, under the same id or idempotency key.
        pub existing: bool,
    }
}

impl Submission {
    /// The command, under the given id if the document has none.
    pub fn create(
        self,
        limits: &Limits,
        new_id: impl FnOnce(&Namespace, Option<&str>) -> ExecutionId,
    ) -> Result<Create, Invalid> {
        let namespace = self.namespace.as_deref().map_or(Ok(Namespace::default()), Namespace::parse)?;
        let key = self.idempotency_key.map(String::into_boxed_str);
        let priority = i8::try_from(self.priority).map_err(|_| {
            Invalid::new("priority", format!("is {}; allowed are -100 to 100", self.priority))
        })?;
        Ok(Create {
            fresh: self.id.is_none(),
            id: self.id.unwrap_or_else(|| new_id(&namespace, key.as_deref())),
            namespace,
            kind: Kind::parse(&self.kind)?,
            lane: self.lane.as_deref().map_or(Ok(LaneName::default()), LaneName::parse)?,
            priority,
            start: when(("start_at", self.start_at), ("delay_ms", self.delay_ms))?,
            deadline: when(("deadline_at", self.deadline_at), ("deadline_ms", self.deadline_ms))?,
            capabilities: fields::capabilities(&self.capabilities)?,
            tags: fields::tags(&self.tags, limits)?,
            idempotency_key: key,
            policy: self.policy,
            input: payload::join("input", self.input, self.input_encoded)?,
        })
    }

    /// The namespace it asks for.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

impl From<Create> for Submission {
    fn from(create: Create) -> Submission {
        let (start_at, delay_ms) = time::split(create.start);
        let (deadline_at, deadline_ms) = time::split(create.deadline);
        let (input, input_encoded) = payload::split(&create.input);
        Submission {
            kind: create.kind.to_string(),
            input,
            input_encoded,
            namespace: Some(create.namespace.to_string()),
            lane: Some(create.lane.to_string()),
            priority: create.priority.into(),
            start_at,
            delay_ms,
            deadline_at,
            deadline_ms,
            capabilities: texts(create.capabilities.as_slice().iter().map(|it| it.as_str())),
            tags: fields::tags_map(&create.tags),
            idempotency_key: create.idempotency_key.map(String::from),
            policy: create.policy,
            id: Some(create.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(text: &str) -> Result<Create, Invalid> {
        let document: Submission = serde_json::from_str(text).unwrap();
        document.create(&Limits::default(), |_, _| ExecutionId(uuid::Uuid::from_u128(7)))
    }

    #[test]
    fn a_submission_goes_to_a_command_and_back() {
        let text = r#"{"kind":"charge","input":{"order": 7},"lane":"billing","priority":5,"delay_ms":"1m",
            "deadline_at":"2026-01-01T00:00:00Z","capabilities":["eu"],"tags":{"team":"pay"},
            "idempotency_key":"k","policy":{"max_attempts":5}}"#;
        let command = create(text).unwrap();
        assert!(command.fresh);
        assert_eq!(&*command.input.bytes, br#"{"order": 7}"#);
        let again = serde_json::to_string(&Submission::from(command.clone())).unwrap();
        // An id that comes from elsewhere is looked up.
        assert_eq!(create(&again).unwrap(), Create { fresh: false, ..command });
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (text, problem) in [
            (r#"{"kind":"a b"}"#, "kind contains ' '"),
            (r#"{"kind":"a","priority":1000}"#, "priority is 1000"),
            (r#"{"kind":"a","namespace":"A"}"#, "namespace contains 'A'"),
            (r#"{"kind":"a","delay_ms":5,"start_at":5}"#, "start_at is given together with delay_ms"),
            (r#"{"kind":"a","input":1,"input_encoded":{"content_type":"x","base64":""}}"#, "input is given"),
            (r#"{"kind":"a","tags":{"A b":"x"}}"#, "tags has the key"),
        ] {
            assert!(create(text).unwrap_err().to_string().contains(problem), "{text}");
        }
        assert!(serde_json::from_str::<Submission>(r#"{"kind":"a","prio":1}"#).is_err());
    }
}
