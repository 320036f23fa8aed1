//! Replies of the engine as public documents.

use ff_api::Json;
use ff_api::execution::{CancelledDoc, ExecutionDoc};
use ff_api::flow::{FlowCancelledDoc, FlowDoc, PolicySetDoc};
use ff_api::lane::LaneDoc;
use ff_api::mail::{KeyDoc, SignalledDoc};
use ff_api::submit::Submitted;
use ff_api::time::Time;
use ff_api::worker::CancelDoc;
use ff_core::Reply;
use ff_core::execution::How;
use serde::Serialize;

/// How a task ended.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TaskEnded {
    /// `completed`, `failed`, `delayed`, `released`, `suspended`, `cancelled` or `lost`.
    pub outcome: String,
    /// When it is tried again.
    pub retry_at: Option<Time>,
}

/// A remark of a worker that was noted.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Noted {
    /// A cancel that was asked for: end the task soon.
    pub cancel: Option<CancelDoc>,
}

/// Output that is kept.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Appended {
    /// The number that the next frame gets.
    pub next: u64,
    pub cancel: Option<CancelDoc>,
}

/// Something that was done.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Done {
    pub done: bool,
}

/// The document for a reply; `None` for replies that are never given out.
pub fn document(reply: &Reply) -> Option<Json> {
    Some(match reply {
        Reply::Created { execution, existing } => {
            Json::of(&Submitted { id: *execution, existing: *existing })
        }
        Reply::LeaseEnded(how) => Json::of(&task_ended(*how)),
        Reply::Noted { cancel } => Json::of(&Noted { cancel: cancel.as_ref().map(Into::into) }),
        Reply::Appended { next, cancel } => {
            Json::of(&Appended { next: *next, cancel: cancel.as_ref().map(Into::into) })
        }
        Reply::Cancelled { state, cut_at } => {
            Json::of(&CancelledDoc { state: state.word().to_owned(), cut_at: cut_at.map(Time) })
        }
        Reply::Changed(execution) => Json::of(&ExecutionDoc::from(&**execution)),
        Reply::Removed => Json::of(&Done { done: true }),
        Reply::Lane { lane, .. } => Json::of(&LaneDoc::from(&**lane)),
        Reply::Flow { flow, .. } => Json::of(&FlowDoc::from(&**flow)),
        Reply::FlowCancelled { flow, members, next } => Json::of(&FlowCancelledDoc {
            flow: FlowDoc::from(&**flow),
            members: members.clone(),
            next_after: *next,
        }),
        Reply::PolicySet { already } => Json::of(&PolicySetDoc { already: *already }),
        Reply::Signalled { execution, effect, number } => {
            Json::of(&SignalledDoc::of(*execution, *effect, *number))
        }
        Reply::Key { key, .. } => Json::of(&KeyDoc::from(&**key)),
        _ => return None,
    })
}

fn task_ended(how: How) -> TaskEnded {
    let retry_at = match how {
        How::Failed { retry_at } => retry_at,
        How::Delayed { until } => Some(until),
        _ => None,
    };
    TaskEnded { outcome: how.word().to_owned(), retry_at: retry_at.map(Time) }
}
