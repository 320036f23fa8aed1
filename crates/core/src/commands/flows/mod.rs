//! Flows: graphs are built, walked and settled here. Each command has its file; what they share has its own.

mod add_edges;
mod add_nodes;
mod cancel_flow;
mod child;
mod create_flow;
mod expand;
mod extend;
mod group;
mod names;
mod order;
mod seal;
mod set_group_policy;
mod settle;
mod tag_flow;
mod tasks;
#[cfg(test)]
mod tests;
mod walk;

pub use add_edges::AddEdges;
pub use add_nodes::AddNodes;
pub use cancel_flow::CancelFlow;
pub use child::NewChild;
pub use create_flow::CreateFlow;
pub use expand::Expand;
pub use extend::{NewEdge, NewNode};
pub use seal::Seal;
pub use set_group_policy::SetGroupPolicy;
pub use tag_flow::TagFlow;

pub(super) use child::{check_not_cancelled, start_again};
pub(super) use group::{admit, withdraw, withdraw_loser};
pub(super) use settle::settle;
pub(super) use walk::{remove_members, walk_step, withdrawn};

use std::sync::Arc;

use crate::execution::Execution;
use crate::flow::Flow;
use crate::id::ExecutionId;
use crate::rejection::Rejection;
use crate::workspace::{Stop, Workspace};

/// A member of a flow. What is in another namespace is not there for it: whoever may change a flow learns nothing of the
/// executions of others.
fn member<'w>(
    ws: &'w Workspace,
    flow: &Flow,
    what: &'static str,
    id: ExecutionId,
) -> Result<&'w Arc<Execution>, Stop> {
    match ws.execution(id)? {
        Some(it) if it.flow() == Some(flow.id) => Ok(it),
        Some(it) if it.spec.namespace == flow.spec.namespace => {
            Err(Rejection::OtherFlow { execution: id, flow: flow.id }.into())
        }
        _ => Err(Rejection::NotFound { what: what.into(), id: id.to_string() }.into()),
    }
}

/// Whether a flow takes nodes and edges from outside.
fn check_takes(flow: &Flow) -> Result<(), Rejection> {
    check_lives(flow)?;
    match flow.live.sealed {
        true => Err(Rejection::FlowClosed { flow: flow.id, state: flow.state() }),
        false => Ok(()),
    }
}

/// Whether a flow has neither ended nor been cancelled.
fn check_lives(flow: &Flow) -> Result<(), Rejection> {
    if flow.live.cancel.is_some() {
        return Err(Rejection::FlowCancelled { flow: flow.id, verb: "changing its graph".into() });
    }
    match &flow.live.end {
        Some(end) => Err(Rejection::FlowEnded { flow: flow.id, state: end.state }),
        None => Ok(()),
    }
}

/// A change may ask that nobody else has changed the graph since it was looked at.
fn check_revision(flow: &Flow, expected: Option<u64>) -> Result<(), Rejection> {
    match expected {
        Some(expected) if expected != flow.live.revision => {
            Err(Rejection::RevisionMismatch { flow: flow.id, revision: flow.live.revision, expected })
        }
        _ => Ok(()),
    }
}
