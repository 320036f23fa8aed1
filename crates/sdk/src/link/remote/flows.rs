//! Questions about flows.

use std::sync::Arc;

use ff_api::record::{EdgeRecord, Edges, FlowGraph, FlowMembers, FlowRecord, Flows, PayloadRecord};
use ff_core::flow::{Edge, EdgeKey};
use ff_core::query::{FlowPage, FlowPageAsk};
use ff_core::{ExecutionId, Flow, FlowId, Payload};
use ff_engine::Failure;
use ff_engine::flows::{Direction, EdgePage, FlowDescription, Graph};

use super::http::Call;
use super::query::{Query, flow_filter};
use super::{Remote, WAIT};

/// How many members one answer has at most.
const PAGE: usize = 1_000;

impl Remote {
    pub async fn flow(&self, id: FlowId) -> Result<Option<Arc<Flow>>, Failure> {
        let found: Option<FlowRecord> = self.find(Call::get(format!("/v1/flows/{id}"))).await?;
        Ok(found.map(|it| it.flow))
    }

    pub async fn flows(&self, ask: FlowPageAsk) -> Result<FlowPage, Failure> {
        let query = flow_filter(Query::new("/v1/flows"), &ask.filter)
            .order(ask.order)
            .maybe("cursor", ask.after)
            .set("limit", ask.limit)
            .set("scan", ask.scan_max);
        let Flows { flows, next } = self.question(Call::get(query.path())).await?;
        Ok(FlowPage { flows, next })
    }

    pub async fn describe_flow(
        &self,
        id: FlowId,
        after: u64,
        limit: usize,
    ) -> Result<FlowDescription, Failure> {
        let (mut members, mut after) = (Vec::new(), after);
        loop {
            let left = (limit - members.len()).clamp(1, PAGE);
            let path = format!("/v1/flows/{id}/members");
            let query = Query::new(path).set("after", after).set("limit", left);
            let page: FlowMembers = self.question(Call::get(query.path())).await?;
            members.extend(page.members);
            match page.next {
                Some(next) if members.len() < limit => after = next,
                next => return Ok(FlowDescription { flow: page.flow, members, next }),
            }
        }
    }

    pub async fn graph(&self, id: FlowId, members_max: usize) -> Result<Graph, Failure> {
        let query = Query::new(format!("/v1/flows/{id}/graph")).set("limit", members_max);
        let FlowGraph { flow, members, edges, more } = self.question(Call::get(query.path())).await?;
        Ok(Graph { flow, members, edges, more })
    }

    /// Asks for the end until it is there.
    pub async fn wait_flow(&self, id: FlowId) -> Result<Arc<Flow>, Failure> {
        let query = Query::new(format!("/v1/flows/{id}")).set("wait", format!("{}s", WAIT.as_secs()));
        let call = Call::get(query.path()).waiting(WAIT);
        self.await_answer(call, |FlowRecord { flow, ended }| ended.then_some(flow)).await
    }

    pub async fn flow_result(&self, id: FlowId) -> Result<Payload, Failure> {
        let found: PayloadRecord = self.question(Call::get(format!("/v1/flows/{id}/result"))).await?;
        Ok(found.payload.unwrap_or_else(|| Payload::json("null")))
    }

    pub async fn edge(
        &self,
        EdgeKey { upstream, downstream }: EdgeKey,
    ) -> Result<Option<Arc<Edge>>, Failure> {
        let path = format!("/v1/executions/{upstream}/edges/{downstream}");
        let found: Option<EdgeRecord> = self.find(Call::get(path)).await?;
        Ok(found.and_then(|it| it.edge))
    }

    pub async fn edges(
        &self,
        node: ExecutionId,
        direction: Direction,
        after: u64,
        limit: usize,
    ) -> Result<EdgePage, Failure> {
        let direction = match direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let query = Query::new(format!("/v1/executions/{node}/edges"))
            .set("direction", direction)
            .set("after", after)
            .set("limit", limit);
        let Edges { edges, next } = self.question(Call::get(query.path())).await?;
        Ok(EdgePage { edges, next })
    }
}
