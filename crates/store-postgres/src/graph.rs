//! Flows, edges and the lists of a graph, as columns on the way in and as rows on the way out.

use std::sync::Arc;

use ff_core::FlowId;
use ff_core::change::Changes;
use ff_core::flow::{Edge, Flow, FlowLive, FlowSpec, ListKey};
use serde_json::{Value, json};

use crate::columns::{Columns, Encoded, int, text};
use crate::records::{Read, json as parse};

impl<'a> Columns<'a> {
    /// The flows and edges that a commit changes.
    pub(crate) fn graph(&mut self, partition: i32, changes: &'a Changes) -> Encoded {
        for (id, flow) in &changes.flows {
            let Some(flow) = flow else {
                self.fd.partition.push(partition);
                self.fd.id.push(id.0);
                continue;
            };
            self.fp.partition.push(partition);
            self.fp.id.push(id.0);
            self.fp.created_at.push(flow.spec.created_at);
            self.fp.namespace.push(flow.spec.namespace.as_str());
            self.fp.kind.push(flow.spec.kind.as_str());
            self.fp.spec.push(text(&*flow.spec, 256)?);
            self.fp.state.push(flow.state().word());
            self.fp.revision.push(int(flow.live.revision));
            self.fp.changed_at.push(flow.live.changed_at);
            self.fp.remove_at.push(flow.live.end.as_ref().and_then(|end| end.remove_at));
            self.fp.live.push(text(&flow.live, 512)?);
        }
        for (key, edge) in &changes.edges {
            let Some(edge) = edge else {
                self.gd.partition.push(partition);
                self.gd.upstream.push(key.upstream.0);
                self.gd.downstream.push(key.downstream.0);
                continue;
            };
            self.gp.partition.push(partition);
            self.gp.upstream.push(key.upstream.0);
            self.gp.downstream.push(key.downstream.0);
            self.gp.flow.push(edge.flow.0);
            self.gp.number.push(int(edge.number));
            self.gp.condition.push(edge.on.word());
            self.gp.field.push(edge.field.as_ref().map(|field| field.as_str()));
            self.gp.counted.push(edge.counted.map(|ending| ending.word()));
            self.gp.needed.push(edge.needed);
            self.gp.passes.push(edge.passes);
            self.gp.created_at.push(edge.created_at);
            self.gp.created_by.push(&edge.created_by);
        }
        Ok(())
    }
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
