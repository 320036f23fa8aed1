//! Flows, edges and the lists of a graph, as JSON on the way in and as rows on the way out.

use std::sync::Arc;

use ff_core::FlowId;
use ff_core::change::Changes;
use ff_core::flow::{Edge, Flow, FlowLive, FlowSpec, ListKey};
use serde_json::{Value, json};

use crate::columns::int;
use crate::records::{Read, json as parse};

/// The flows that a commit changes; one without a record is removed.
pub(crate) fn flow_rows(
    partition: i32,
    changes: &Changes,
) -> impl Iterator<Item = Result<Value, serde_json::Error>> + '_ {
    changes.flows.iter().map(move |(id, flow)| {
        let Some(flow) = flow else { return Ok(json!({ "partition": partition, "id": id })) };
        let (spec, live) = (serde_json::to_string(&*flow.spec)?, serde_json::to_string(&flow.live)?);
        Ok(json!({
            "partition": partition, "id": id, "created_at": flow.spec.created_at, "namespace": flow.spec.namespace,
            "kind": flow.spec.kind, "spec": spec, "state": flow.state().word(), "revision": flow.live.revision,
            "changed_at": flow.live.changed_at, "remove_at": flow.live.end.as_ref().and_then(|end| end.remove_at),
            "live": live,
        }))
    })
}

/// The edges that a commit changes; one without a flow is removed.
pub(crate) fn edge_rows(partition: i32, changes: &Changes) -> impl Iterator<Item = Value> + '_ {
    changes.edges.iter().map(move |(key, edge)| {
        let (upstream, downstream) = (key.upstream, key.downstream);
        let Some(edge) = edge else {
            return json!({ "partition": partition, "upstream": upstream, "downstream": downstream });
        };
        json!({
            "partition": partition, "upstream": upstream, "downstream": downstream, "flow": edge.flow,
            "number": edge.number, "condition": edge.on.word(), "field": edge.field,
            "counted": edge.counted.map(|it| it.word()), "needed": edge.needed, "passes": edge.passes,
            "created_at": edge.created_at, "created_by": edge.created_by,
        })
    })
}

/// An ask for a list.
pub(crate) fn ask(place: usize, list: ListKey, after: u64, limit: usize) -> Value {
    let (is, id) = match list {
        ListKey::Members(flow) => ("members", flow.0),
        ListKey::Downstream(id) => ("downstream", id.0),
        ListKey::Upstream(id) => ("upstream", id.0),
    };
    json!({ "ask": place, "is": is, "id": id, "after": int(after), "limit": int(limit as u64) })
}

pub(crate) fn flow(id: FlowId, spec: &str, live: &str) -> Read<Arc<Flow>> {
    let (spec, live): (FlowSpec, FlowLive) = (parse("flow", spec)?, parse("flow", live)?);
    Ok(Arc::new(Flow { id, spec: Arc::new(spec), live }))
}

/// A flow as the function `changes_1` tells it.
pub(crate) fn whole_flow(id: FlowId, text: &str) -> Read<Arc<Flow>> {
    #[derive(serde::Deserialize)]
    struct Whole {
        spec: FlowSpec,
        live: FlowLive,
    }
    let Whole { spec, live } = parse("flow", text)?;
    Ok(Arc::new(Flow { id, spec: Arc::new(spec), live }))
}

pub(crate) fn edge(text: &str) -> Read<Arc<Edge>> {
    Ok(Arc::new(parse("edge", text)?))
}
