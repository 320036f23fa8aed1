//! Which route each command takes, and the document it travels as.

use ff_api::execution::{Cancelling, Prioritising, Tagging};
use ff_api::fields::Why;
use ff_api::flow::{Expanding, FlowCancelling, FlowRequest, NodesRequest, PolicyRequest, Sealing};
use ff_api::lane::LaneChange;
use ff_api::mail::SignalRequest;
use ff_api::submit::Submission;
use ff_api::task::{
    Completion, Delaying, Failing, Frames, Progressing, Releasing, StartingChild, StepsDone, Suspending,
};
use ff_api::time::Span;
use ff_api::worker::Registration;
use ff_core::commands::{SendSignal, Tag, TagFlow, To};
use ff_core::suspension::WaitpointId;
use ff_core::{Command, InstanceId};
use ff_engine::Failure;
use hyper::Method;
use serde::Serialize;

use super::http::Call;
use super::query::escape;
use super::{document, letters, post};

/// Commands of which one request carries many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batch {
    Create,
    Complete,
    Fail,
    Delay,
    Release,
    Progress,
    Suspend,
    Steps,
    Frames,
}

impl Batch {
    pub const ALL: [Batch; 9] = [
        Batch::Create,
        Batch::Complete,
        Batch::Fail,
        Batch::Delay,
        Batch::Release,
        Batch::Progress,
        Batch::Suspend,
        Batch::Steps,
        Batch::Frames,
    ];

    pub fn of(command: &Command) -> Option<Batch> {
        Some(match command {
            Command::Create(_) => Batch::Create,
            Command::Complete(_) => Batch::Complete,
            Command::Fail(_) => Batch::Fail,
            Command::Delay(_) => Batch::Delay,
            Command::Release(_) => Batch::Release,
            Command::Report(_) => Batch::Progress,
            Command::Suspend(_) => Batch::Suspend,
            Command::RecordSteps(_) => Batch::Steps,
            Command::Append(_) => Batch::Frames,
            _ => return None,
        })
    }

    pub fn path(self) -> &'static str {
        match self {
            Batch::Create => "/v1/executions",
            Batch::Complete => "/v1/tasks/complete",
            Batch::Fail => "/v1/tasks/fail",
            Batch::Delay => "/v1/tasks/delay",
            Batch::Release => "/v1/tasks/release",
            Batch::Progress => "/v1/tasks/progress",
            Batch::Suspend => "/v1/tasks/suspend",
            Batch::Steps => "/v1/tasks/steps",
            Batch::Frames => "/v1/tasks/frames",
        }
    }

    /// The field of the request that holds the documents.
    pub fn field(self) -> &'static str {
        match self {
            Batch::Create => "executions",
            _ => "tasks",
        }
    }
}

/// How a command travels.
pub(super) enum Route {
    Alone(Box<Call>),
    /// With others of its kind.
    Together(Batch, Vec<u8>),
    /// It is a part of every heartbeat.
    Beat(InstanceId),
}

impl Route {
    pub fn of(command: Command) -> Result<Route, Failure> {
        if let Some(batch) = Batch::of(&command) {
            return Ok(Route::Together(batch, batched(command)?));
        }
        let call = match command {
            Command::Heartbeat(it) => return Ok(Route::Beat(it.instance)),

            Command::Cancel(it) => {
                let Why { actor, cause } = why(it.actor, it.cause);
                post(
                    of_execution(it.execution, "cancel"),
                    &Cancelling { actor, cause, grace_ms: it.grace_ms.map(Span) },
                )
            }
            Command::Hold(it) => post(of_execution(it.execution, "hold"), &why(it.actor, it.cause)),
            Command::Unhold(it) => post(of_execution(it.execution, "release"), &why(it.actor, it.cause)),
            Command::Revoke(it) => post(of_execution(it.execution, "revoke"), &why(it.actor, it.cause)),
            Command::Replay(it) => post(of_execution(it.execution, "replay"), &why(it.actor, it.cause)),
            Command::Resume(it) => post(of_execution(it.execution, "resume"), &why(it.actor, it.cause)),
            Command::Remove(it) => {
                send(Method::DELETE, format!("/v1/executions/{}", it.execution), &why(it.actor, it.cause))
            }
            Command::SetPriority(it) => {
                let Why { actor, cause } = why(it.actor, it.cause);
                let priority = it.priority;
                post(of_execution(it.execution, "priority"), &Prioritising { priority, actor, cause })
            }
            Command::Tag(Tag { execution, set, remove, actor, cause }) => {
                post(of_execution(execution, "tags"), &tagging(set, remove, actor, cause))
            }

            Command::RegisterWorker(it) => post("/v1/workers", &Registration::from(it)),
            Command::DrainWorker(it) => post(of_worker(it.instance, "drain"), &why(it.actor, it.cause)),
            Command::BuryWorker(it) => {
                send(Method::DELETE, format!("/v1/workers/{}", it.instance), &why(it.actor, it.cause))
            }
            Command::SetLane(it) => {
                let mut path = "/v1/lanes/".to_owned();
                escape(&mut path, &it.lane);
                send(Method::PATCH, path, &LaneChange::from(it))
            }

            Command::CreateFlow(it) => post("/v1/flows", &FlowRequest::from(it)),
            Command::AddNodes(it) => post(of_flow(it.flow, "nodes"), &NodesRequest::from(it)),
            Command::AddEdges(it) => post(of_flow(it.flow, "edges"), &NodesRequest::from(it)),
            Command::Seal(it) => {
                let Why { actor, cause } = why(it.actor, it.cause);
                let (node, expected_revision) = (it.node, it.expected_revision);
                post(of_flow(it.flow, "seal"), &Sealing { node, expected_revision, actor, cause })
            }
            Command::SetGroupPolicy(it) => {
                let Why { actor, cause } = why(it.actor, it.cause);
                let (join, expected_revision) = (it.join.into(), it.expected_revision);
                let path = format!("/v1/flows/{}/nodes/{}/policy", it.flow, it.node);
                send(Method::PUT, path, &PolicyRequest { join, expected_revision, actor, cause })
            }
            Command::CancelFlow(it) => {
                let Why { actor, cause } = why(it.actor, it.cause);
                let (policy, members_after) = (Some(it.policy.word().to_owned()), it.members_after);
                post(of_flow(it.flow, "cancel"), &FlowCancelling { policy, members_after, actor, cause })
            }
            Command::TagFlow(TagFlow { flow, set, remove, actor, cause }) => {
                post(of_flow(flow, "tags"), &tagging(set, remove, actor, cause))
            }

            Command::RepostLetter(it) => post(letters::of(it.number, "/repost"), &why(it.actor, it.cause)),
            Command::DropLetter(it) => {
                send(Method::DELETE, letters::of(it.number, ""), &why(it.actor, it.cause))
            }

            Command::Expand(it) => post("/v1/tasks/expand", &Expanding::from(it)),
            Command::StartChild(it) => post("/v1/tasks/child", &StartingChild::from(it)),
            Command::SendSignal(it) => signal(it),

            command => Err(Failure::Internal(format!("{} is no command of a client", command.name()))),
        };
        Ok(Route::Alone(Box::new(call?)))
    }
}

fn batched(command: Command) -> Result<Vec<u8>, Failure> {
    match command {
        Command::Create(it) => document(&Submission::from(it)),
        Command::Complete(it) => document(&Completion::from(it)),
        Command::Fail(it) => document(&Failing::from(it)),
        Command::Delay(it) => document(&Delaying::from(it)),
        Command::Release(it) => document(&Releasing { lease: it.fence.into() }),
        Command::Report(it) => document(&Progressing::from(it)),
        Command::Suspend(it) => document(&Suspending::from(it)),
        Command::RecordSteps(it) => document(&StepsDone::from(it)),
        Command::Append(it) => document(&Frames::from(it)),
        command => Err(Failure::Internal(format!("{} does not travel with others", command.name()))),
    }
}

/// A token speaks for itself; other signals are sent in the name of the caller.
fn signal(signal: SendSignal) -> Result<Call, Failure> {
    let (to, document) = (signal.to.clone(), SignalRequest::from(signal));
    match to {
        To::Execution(id) => post(of_execution(id, "signal"), &document),
        To::Waitpoint(id) => post(of_waitpoint(id, "signal"), &document),
        To::Token(token) => {
            let text = token.text();
            let document = SignalRequest { token: Some(text.reveal().to_owned()), ..document };
            post(of_waitpoint(token.waitpoint, "signal"), &document)
        }
    }
}

fn send<T: Serialize>(method: Method, path: String, body: &T) -> Result<Call, Failure> {
    Ok(Call::send(method, path, document(body)?))
}

fn of_execution(id: ff_core::ExecutionId, what: &str) -> String {
    format!("/v1/executions/{id}/{what}")
}

fn of_flow(id: ff_core::FlowId, what: &str) -> String {
    format!("/v1/flows/{id}/{what}")
}

fn of_worker(id: InstanceId, what: &str) -> String {
    format!("/v1/workers/{id}/{what}")
}

pub(super) fn of_waitpoint(id: WaitpointId, what: &str) -> String {
    format!("/v1/waitpoints/{id}/{what}")
}

fn why(actor: Box<str>, cause: Box<str>) -> Why {
    Why { actor: Some(actor.into()), cause: Some(cause.into()) }
}

fn tagging(
    set: Vec<(Box<str>, Box<str>)>,
    remove: Vec<Box<str>>,
    actor: Box<str>,
    cause: Box<str>,
) -> Tagging {
    let Why { actor, cause } = why(actor, cause);
    let set = set.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    Tagging { set, remove: remove.into_iter().map(Into::into).collect(), actor, cause }
}
