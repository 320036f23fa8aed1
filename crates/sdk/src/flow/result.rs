//! What a flow came to: the results of the nodes at its ends, or why there are none.

use ff_core::attempt::TaskError;
use ff_core::flow::FlowState;
use ff_core::payload::{PayloadKey, Slot};
use ff_core::query::{Filter, Order, PageAsk};
use ff_core::state::Reason;
use ff_core::{Execution, ExecutionId, Flow, FlowId, Payload, PublicState};
use ff_engine::flows::Direction;
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::described;
use crate::{Error, Fabric};

/// How many members or edges are read at once.
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
    let ends = ends(fabric, flow).await?;
    let keys: Vec<_> = ends.iter().map(|it| PayloadKey { execution: it.id, slot: Slot::Result }).collect();
    let results = fabric.retried(|| fabric.engine().payloads(keys.clone())).await?;
    let text = match (ends.as_slice(), results.as_slice()) {
        ([], _) => "null".to_owned(),
        ([one], [result]) => json(one, result.as_ref())?.get().to_owned(),
        _ => {
            let mut object = Vec::with_capacity(ends.len());
            for (end, result) in ends.iter().zip(&results) {
                let name = end.node_name().map_or_else(|| end.id.to_string(), |name| name.to_string());
                let name = serde_json::Value::String(name);
                object.push(format!("{name}:{}", json(end, result.as_ref())?.get()));
            }
            format!("{{{}}}", object.join(","))
        }
    };
    serde_json::from_str(&text).map_err(|error| Error::UnexpectedResult {
        execution: ends.first().map_or(ExecutionId(flow.id.0), |it| it.id),
        wanted: std::any::type_name::<T>(),
        problem: error.to_string(),
    })
}

/// A result as JSON; `null` where there is none.
fn json(end: &Execution, result: Option<&Payload>) -> Result<Box<RawValue>, Error> {
    let bytes = result.map_or(&b"null"[..], |result| &result.bytes);
    serde_json::from_slice(bytes).map_err(|error| Error::UnexpectedResult {
        execution: end.id,
        wanted: "JSON value",
        problem: error.to_string(),
    })
}

/// The completed members that no completed member comes after, in the order in which they were added.
async fn ends(fabric: &Fabric, flow: &Flow) -> Result<Vec<Execution>, Error> {
    let mut candidates = Vec::new();
    // Of completed members with dependents, only those next to one that did not complete can be ends.
    let mut others = Vec::new();
    let mut inner = FxHashMap::default();
    let mut after = 0;
    loop {
        let page = fabric.retried(|| fabric.engine().describe_flow(flow.id, after, PAGE)).await?;
        for member in page.members {
            let dependents = member.node().map_or(0, |node| node.dependents);
            match (member.public_state(), dependents) {
                (PublicState::Completed, 0) => candidates.push((*member).clone()),
                (PublicState::Completed, _) => _ = inner.insert(member.id, (dependents, member)),
                _ => others.push(member.id),
            }
        }
        let Some(next) = page.next else { break };
        after = next;
    }
    for other in others {
        let mut after = 0;
        loop {
            let page = fabric.retried(|| fabric.engine().edges(other, Direction::In, after, PAGE)).await?;
            for edge in page.edges {
                if let Some((left, member)) = inner.get_mut(&edge.key.upstream) {
                    *left -= 1;
                    if *left == 0 {
                        candidates.push((**member).clone());
                    }
                }
            }
            let Some(next) = page.next else { break };
            after = next;
        }
    }
    candidates.sort_by_key(|it: &Execution| it.spec.member.as_ref().map(|member| member.number));
    Ok(candidates)
}

/// The first member that did not do what it should, for the message.
async fn culprit(fabric: &Fabric, flow: &Flow) -> Result<Option<Culprit>, Error> {
    let states = vec![PublicState::Failed, PublicState::Expired, PublicState::Cancelled];
    let filter = Filter { flow: Some(flow.id), states, ..Filter::default() };
    let ask = PageAsk { filter, order: Order::OldestFirst, after: None, limit: PAGE, scan_max: 10 * PAGE };
    let page = fabric.retried(|| fabric.engine().list(ask.clone())).await?;
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
