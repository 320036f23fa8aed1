//! What a flow came to: the results of the nodes at its ends, or why there are none.

use ff_core::attempt::TaskError;
use ff_core::flow::FlowState;
use ff_core::query::{Filter, Order, PageAsk};
use ff_core::state::Reason;
use ff_core::{Execution, ExecutionId, Flow, FlowId, PublicState};
use serde::de::DeserializeOwned;

use crate::error::described;
use crate::{Error, Fabric};

/// How many members are looked at for the message.
const PAGE: usize = 1_000;

/// How a flow ended that did not complete.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("flow {flow} {state}{}", told(.culprit))]
pub struct FlowNotCompleted {
    pub flow: FlowId,
    pub state: FlowState,
    /// The first of its members that failed, expired, or was cancelled.
    pub culprit: Option<Culprit>,
}

/// A member because of which a flow did not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    pub execution: ExecutionId,
    pub name: Option<String>,
    pub state: PublicState,
    pub reason: Reason,
    pub error: Option<TaskError>,
}

fn told(culprit: &Option<Culprit>) -> String {
    let Some(it) = culprit else { return String::new() };
    let name = it.name.clone().unwrap_or_else(|| it.execution.to_string());
    format!(": node {name} {} ({}){}", it.state, it.reason, described(&it.error))
}

/// Reads the result of a flow that has ended.
pub(super) async fn of<T: DeserializeOwned>(fabric: &Fabric, flow: &Flow) -> Result<T, Error> {
    if flow.state() != FlowState::Completed {
        let culprit = culprit(fabric, flow).await?;
        let ending = FlowNotCompleted { flow: flow.id, state: flow.state(), culprit };
        return Err(Error::FlowNotCompleted(Box::new(ending)));
    }
    let result = fabric.retried(|| fabric.link().flow_result(flow.id)).await?;
    serde_json::from_slice(&result.bytes).map_err(|error| Error::UnexpectedFlowResult {
        flow: flow.id,
        wanted: std::any::type_name::<T>(),
        problem: error.to_string(),
    })
}

/// The first member that did not do what it should, for the message.
async fn culprit(fabric: &Fabric, flow: &Flow) -> Result<Option<Culprit>, Error> {
    let states = vec![PublicState::Failed, PublicState::Expired, PublicState::Cancelled];
    let filter = Filter { flow: Some(flow.id), states, ..Filter::default() };
    let ask = PageAsk { filter, order: Order::OldestFirst, after: None, limit: PAGE, scan_max: 10 * PAGE };
    let page = fabric.retried(|| fabric.link().list(ask.clone())).await?;
    let ended = |it: &Execution| it.end().map(|end| (!it.node().is_some_and(|node| node.failure), end.at));
    let first = page.executions.into_iter().min_by_key(ended);
    Ok(first.map(|it| Culprit {
        execution: it.id,
        name: it.node_name().map(|name| name.to_string()),
        state: it.public_state(),
        reason: it.reason(),
        error: it.end().and_then(|end| end.error.clone()),
    }))
}
