//! What may stand under which word. `place` is the name of a document, or the path of the route for its parameters.

use ff_api::task::STEP_OCCURRENCE_MAX;
use ff_core::PublicState;
use ff_core::event::{Fact, Family};
use ff_core::flow::{CancelPolicy, FlowState, On, OnSatisfied};
use ff_core::lane::{LaneMode, STRICT_STEP_MS};
use ff_core::limits::Limits;
use ff_core::registry::Role;
use ff_core::state::Reason;
use ff_core::step::StepKind;
use ff_core::stream::FrameMode;
use ff_core::suspension::OnTimeout;
use serde_json::{Value, json};

/// What is said of a field, and of the list if it is one.
pub(super) struct Said {
    pub(super) value: Value,
    pub(super) list: Vec<(&'static str, Value)>,
}

impl From<Value> for Said {
    fn from(value: Value) -> Said {
        Said { value, list: Vec::new() }
    }
}

/// Characters that nobody can see.
const CONTROL: &str = r"\x00-\x1f\x7f-\x9f";

/// A length of time in words. Longer ones than the rules allow cannot be written.
pub(super) const SPAN: &str = "^([0-9]{1,9}(ms)?|[0-9]{1,8}s|[0-9]{1,6}m|[0-9]{1,4}h|[0-9]{1,3}d)$";

const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
const URL: &str = r"^https?://[A-Za-z0-9.-]+(:[1-9][0-9]{0,3})?([/?#][!-\[\]-~]*)?$";
const TAG_KEY: &str = r"^[a-z0-9_]+(\.[a-z0-9_]+)*$";
const WAITPOINT: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-[1-9][0-9]{0,8}$";

/// A time, as it is given out and as it is taken.
pub(super) fn time() -> Value {
    json!({
        "description": "A time: given out as RFC 3339 in UTC, taken as that or as milliseconds since 1970",
        "anyOf": [
            { "type": "string", "format": "date-time" },
            { "type": "string", "pattern": "^[0-9]{1,15}$" },
            { "type": "integer", "minimum": 0, "maximum": 253_402_300_799_999_i64 },
        ],
    })
}

fn time_in_query(others: &[&str]) -> Value {
    let time = [
        json!({ "type": "string", "format": "date-time" }),
        json!({ "type": "string", "pattern": "^[0-9]{1,14}$" }),
    ];
    let words = (!others.is_empty()).then(|| json!({ "type": "string", "enum": others }));
    json!({ "anyOf": words.into_iter().chain(time).collect::<Vec<_>>() })
}

fn matching(pattern: &str) -> Value {
    json!({ "pattern": pattern })
}

fn name(max: usize, without: &str) -> Value {
    json!({ "minLength": 1, "maxLength": max, "pattern": format!("^[^{without}{CONTROL}]+$") })
}

fn words<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Value {
    json!({ "enum": all.iter().map(|it| word(*it)).collect::<Vec<_>>() })
}

/// One word, or several with commas between.
fn list<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Value {
    let any = all.iter().map(|it| word(*it)).collect::<Vec<_>>().join("|");
    matching(&format!("^({any})(,({any}))*$"))
}

fn up_to(min: u64, max: usize) -> Value {
    json!({ "minLength": min, "maxLength": max })
}

/// Between which lengths of time, in milliseconds.
pub(super) fn span_range(place: &str, word: &str) -> (i64, i64) {
    let horizon = Limits::default().horizon_ms_max;
    match (place, word) {
        (_, "step_ms") => (0, STRICT_STEP_MS),
        (_, "ttl_ms") => (1_000, 3_600_000),
        (_, "expires_in_ms" | "deadline_ms") => (1, horizon),
        _ => (0, horizon),
    }
}

/// Documents whose schema stands beside the type that is read.
pub(super) fn is_closed(place: &str) -> bool {
    matches!(place, "Policy" | "Backoff")
}

/// Fields that may be left out and cannot be null.
pub(super) fn is_never_null(place: &str, word: &str) -> bool {
    match (place, word) {
        ("Submission", "policy") | ("ErrorDoc", "class") => true,
        ("Policy", word) => !matches!(word, "max_elapsed_ms" | "attempt_timeout_ms" | "schedule_to_start_ms"),
        (place, _) => place == "Backoff",
    }
}

/// Parameters of a shared list that a route does not take.
pub(super) fn is_unsaid(path: &str, word: &str) -> bool {
    matches!(
        (path, word),
        ("/v1/executions/{id}/events", "execution")
            | ("/v1/executions/count", "order" | "limit" | "scan" | "cursor")
    )
}

pub(super) fn said(place: &str, word: &str) -> Option<Said> {
    let limits = Limits::default();
    let uuid = || json!({ "format": "uuid" });
    let id = || json!({ "minLength": 1, "maxLength": 64, "pattern": "^[a-z0-9_-]+$" });
    let value = match (place, word) {
        (_, "namespace" | "namespaces") => {
            json!({ "minLength": 1, "maxLength": 64, "pattern": "^[a-z0-9._-]+$" })
        }
        (_, "lane" | "lanes") => name(64, ""),
        ("StepResult", "kind") => words(StepKind::ALL, StepKind::word),
        ("FrameRequest", "kind") => name(64, r"\s,"),
        (_, "kind" | "kinds") => name(128, r"\s,"),
        (_, "capabilities") => {
            let max =
                if place == "Submission" { limits.capabilities_max } else { limits.capabilities_max * 8 };
            let list = vec![("maxItems", json!(max))];
            return Some(Said { value: name(256, r"\s,"), list });
        }
        ("Claiming" | "Registration", "name") | (_, "worker") => name(128, r"\s"),
        ("StepDoc", "name") => name(128, ""),
        ("StepDoc", "number") => json!({ "maximum": limits.steps_max }),
        ("StepDoc", "occurrence") => json!({ "maximum": STEP_OCCURRENCE_MAX }),
        ("JoinDoc", "k") => json!({ "minimum": 1 }),
        ("BulkRequest", "id") => id(),
        ("BulkRequest", "ids") => json!({ "minItems": 1, "maxItems": limits.batch_items_max }),
        ("TokenRequest", "name") => {
            let pattern = format!(r"^[^/{CONTROL}]*[^/\s{CONTROL}][^/{CONTROL}]*$");
            json!({ "minLength": 1, "maxLength": 128, "pattern": pattern })
        }
        ("SignalRequest" | "WaitpointRequest" | "NodeRequest" | "/v1/waitpoints", "name") => {
            name(128, r"\s,")
        }
        ("EdgeRequest", "field") => json!({ "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9_]+$" }),
        ("/v1/webhooks/{id}" | "/v1/tokens/{id}", "id") => id(),
        (path, "id") if path.starts_with("/v1/waitpoints/") => matching(WAITPOINT),

        // Filters and pages.
        (path, "flow" | "execution" | "instance") if path.starts_with('/') => uuid(),
        ("/v1/executions" | "/v1/executions/count" | "/v1/flows", "cursor") => uuid(),
        ("/v1/waitpoints", "cursor") => matching(WAITPOINT),
        // An empty one is none.
        ("/v1/executions/{id}/stream", "Last-Event-ID") => matching("^([1-9][0-9]{0,8}:[0-9]{1,18})?$"),
        (_, "Last-Event-ID") => matching("^[!-~]*$"),
        ("/v1/executions/{id}/stream", "after") => matching("^[0-9]{1,18}$"),
        ("/v1/flows/{id}/graph", "limit") => return None,
        ("/v1/events" | "/v1/executions/{id}/events" | "/v1/executions/{id}/stream", "limit") => {
            json!({ "maximum": 10_000 })
        }
        ("/v1/executions/{id}/signals", "limit") => json!({ "minimum": 1, "maximum": 1_000 }),
        (_, "limit") => json!({ "minimum": 1, "maximum": 10_000 }),
        (_, "order") => json!({ "enum": ["newest_first", "oldest_first"] }),
        (_, "direction") => json!({ "enum": ["in", "out"] }),
        (_, "tag") => matching("="),
        (_, "wait") => matching(SPAN),
        ("/v1/flows", "state") => list(FlowState::ALL, FlowState::word),
        (_, "state") => list(PublicState::ALL, PublicState::word),
        ("Suspending", "reason") => json!({ "enum": [
            Reason::WaitingForSignal, Reason::WaitingForApproval, Reason::WaitingForCallback,
            Reason::WaitingForToolResult, Reason::WaitingForChild, Reason::OperatorReview,
        ] }),
        (_, "reason") => words(Reason::ALL, Reason::word),
        (_, "family") => list(Family::ALL, Family::word),
        (path, "created_from" | "created_before") if path.starts_with('/') => time_in_query(&[]),
        ("FilterDoc", "states") => words(PublicState::ALL, PublicState::word),
        (_, "start") => time_in_query(&["now", "beginning"]),
        (path, "error_code" | "error_text") if path.starts_with('/') => json!({ "minLength": 1 }),

        // What is sent in.
        (_, "Idempotency-Key") => json!({
            "minLength": 1, "maxLength": limits.idempotency_key_bytes_max, "pattern": "^[!-~]([ -~]*[!-~])?$",
        }),
        (_, "idempotency_key") | ("SignalRequest", "key") => up_to(1, limits.idempotency_key_bytes_max),
        (_, "tags" | "set") => json!({
            "maxProperties": limits.tags_max,
            "propertyNames": { "pattern": TAG_KEY, "maxLength": 64 },
            "additionalProperties": { "type": "string", "maxLength": limits.tag_value_bytes_max },
        }),
        (_, "digest") => matching("^[0-9a-f]{64}$"),
        (_, "correlation") => up_to(0, 256),
        (_, "content_type") => up_to(0, 256),
        (_, "build") => up_to(0, 256),
        (_, "approvers" | "requester") => up_to(1, 256),
        (_, "base64") => matching(BASE64),
        (_, "url") => matching(URL),
        (_, "families") => words(Family::ALL, Family::word),
        (_, "facts") => json!({ "enum": Fact::WORDS }),
        (_, "role") => words(Role::ALL, Role::word),
        ("LaneChange", "mode") => words(LaneMode::ALL, LaneMode::word),
        ("FrameRequest", "mode") => words(FrameMode::ALL, FrameMode::word),
        ("FlowCancelling", "policy") => words(CancelPolicy::ALL, CancelPolicy::word),
        ("JoinDoc", "policy") => json!({ "enum": ["all_of", "any_of", "quorum"] }),
        (_, "on_satisfied") => words(OnSatisfied::ALL, OnSatisfied::word),
        ("EdgeRequest", "on") => words(On::ALL, On::word),
        (_, "on_timeout") => words(OnTimeout::ALL, OnTimeout::word),
        ("Policy", "lease_loss") => json!({ "enum": ["uncounted", "counts"] }),
        ("Backoff", "jitter") => json!({ "enum": ["none", "full"] }),
        ("Policy", "max_elapsed_ms" | "attempt_timeout_ms" | "schedule_to_start_ms")
        | ("Backoff", "initial_ms" | "max_ms") => json!({ "maximum": limits.horizon_ms_max }),
        ("Policy", "non_retryable") => {
            return Some(Said { value: up_to(0, 128), list: vec![("maxItems", json!(64))] });
        }
        _ => return None,
    };
    Some(value.into())
}
