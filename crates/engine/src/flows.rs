//! What people ask about flows: the record, its members with their groups, its edges, lists, and the wait for
//! its end.

use std::sync::Arc;

use ff_core::flow::{Edge, EdgeKey, ListKey};
use ff_core::key::{Ask, Key};
use ff_core::query::{FlowPage, FlowPageAsk};
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, Flow, FlowId, Ms, Payload, Rejection};
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use crate::driver::Request;
use crate::engine::{Engine, unavailable};
use crate::failure::Failure;
use crate::inputs::flow_result;

/// How many lists are read with one question to the store.
const LISTS: usize = 64;

/// A flow and some of its members, in the order in which they were added, as they are in one commit.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowDescription {
    pub flow: Arc<Flow>,
    /// Each has its node, and the node its group.
    pub members: Vec<Arc<Execution>>,
    /// The number after which the next page of members starts; absent when there are no more.
    pub next: Option<u64>,
}

/// Which edges of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From what it depends on.
    In,
    /// To what depends on it.
    Out,
}

/// Some edges of a node, in the order in which they were added.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgePage {
    pub edges: Vec<Arc<Edge>>,
    /// The number after which the next page starts; absent when there are no more.
    pub next: Option<u64>,
}

/// A flow with its members and its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub flow: Arc<Flow>,
    pub members: Vec<Arc<Execution>>,
    pub edges: Vec<Arc<Edge>>,
    /// There are more members than were asked for; their edges are left out.
    pub more: bool,
}

impl Engine {
    pub fn new_flow_id(&self, now: Ms) -> FlowId {
        FlowId::from_parts(now, self.free_route(), self.random())
    }

    /// A new id for a member: it lives where its flow does.
    pub fn new_member_id(&self, now: Ms, flow: FlowId) -> ExecutionId {
        ExecutionId::from_parts(now, flow.route(), self.random())
    }

    /// A new id for a child flow: it lives where the flow around it does.
    pub fn new_child_id(&self, now: Ms, flow: FlowId) -> FlowId {
        FlowId::from_parts(now, flow.route(), self.random())
    }

    /// The result of a flow as JSON: that of the member at its end, or, if it has several ends, those by their
    /// names. An end has completed, and no completed member comes after it.
    pub async fn flow_result(&self, flow: FlowId) -> Result<Payload, Failure> {
        let result = flow_result(&**self.store(), flow).await.map_err(unavailable)?;
        Ok(Payload::json(Box::<str>::from(result).into_string()))
    }

    /// A flow as it is committed.
    pub async fn flow(&self, id: FlowId) -> Result<Option<Arc<Flow>>, Failure> {
        let answers = self.ask_of_flow(id, vec![Ask::Record(Key::Flow(id))]).await?;
        Ok(answers.into_iter().find_map(flow_of))
    }

    /// A flow with up to `limit` of its members after a number.
    pub async fn describe_flow(
        &self,
        id: FlowId,
        after: u64,
        limit: usize,
    ) -> Result<FlowDescription, Failure> {
        let list = Ask::List { list: ListKey::Members(id), after, limit: limit.saturating_add(1) };
        let (mut flow, mut members, mut next) = (None, Vec::new(), None);
        for answer in self.ask_of_flow(id, vec![Ask::Record(Key::Flow(id)), list]).await? {
            match answer {
                Answer::List { entries, executions, .. } => {
                    let last = limit.checked_sub(1).and_then(|at| entries.get(at));
                    next = (entries.len() > limit).then(|| last.map_or(after, |(number, _)| *number));
                    members = executions;
                }
                answer => flow = flow.or(flow_of(answer)),
            }
        }
        members.truncate(limit);
        Ok(FlowDescription { flow: flow.ok_or_else(|| no_flow(id))?, members, next })
    }

    /// Up to `limit` edges of a node after a number.
    pub async fn edges(
        &self,
        node: ExecutionId,
        direction: Direction,
        after: u64,
        limit: usize,
    ) -> Result<EdgePage, Failure> {
        let list = match direction {
            Direction::In => ListKey::Upstream(node),
            Direction::Out => ListKey::Downstream(node),
        };
        let list = Ask::List { list, after, limit: limit.saturating_add(1) };
        let asks = vec![Ask::Record(Key::Execution(node)), list];
        let (mut known, mut edges) = (false, Vec::new());
        for answer in self.ask_of_flow(FlowId(node.0), asks).await? {
            match answer {
                Answer::Execution(_, execution) => known = execution.is_some_and(|it| it.flow().is_some()),
                Answer::List { edges: found, .. } => edges = found,
                _ => {}
            }
        }
        if !known {
            return Err(Rejection::NotFound { what: "node".into(), id: node.to_string() }.into());
        }
        let more = edges.len() > limit;
        edges.truncate(limit);
        Ok(EdgePage { next: edges.last().map(|it| it.number).filter(|_| more), edges })
    }

    /// The edge between two nodes.
    pub async fn edge(&self, key: EdgeKey) -> Result<Option<Arc<Edge>>, Failure> {
        let asks = vec![Ask::Record(Key::Edge(key))];
        let answers = self.ask_of_flow(FlowId(key.upstream.0), asks).await?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            Answer::Edge(_, edge) => edge,
            _ => None,
        }))
    }

    pub async fn flows(&self, ask: FlowPageAsk) -> Result<FlowPage, Failure> {
        self.store().flows(ask).await.map_err(unavailable)
    }

    /// A flow with its first members, up to `members_max`, and all edges among them.
    pub async fn graph(&self, id: FlowId, members_max: usize) -> Result<Graph, Failure> {
        let FlowDescription { flow, members, next } = self.describe_flow(id, 0, members_max).await?;
        let joins = members.iter().filter(|it| it.node().is_some_and(|node| node.group.total > 0));
        let lists: Vec<Ask> = joins
            .map(|it| Ask::List { list: ListKey::Upstream(it.id), after: 0, limit: members_max })
            .collect();
        let known: FxHashSet<ExecutionId> = members.iter().map(|it| it.id).collect();
        let mut edges = Vec::new();
        for asks in lists.chunks(LISTS) {
            for answer in self.ask_of_flow(id, asks.to_vec()).await? {
                if let Answer::List { edges: found, .. } = answer {
                    edges.extend(found.into_iter().filter(|edge| known.contains(&edge.key.upstream)));
                }
            }
        }
        edges.sort_by_key(|edge: &Arc<Edge>| edge.number);
        Ok(Graph { flow, members, edges, more: next.is_some() })
    }

    /// Waits until a flow has ended, which it does with its last member.
    pub async fn wait_flow(&self, flow: FlowId) -> Result<Arc<Flow>, Failure> {
        let (answer, ended) = oneshot::channel();
        self.send(Request::WaitFlow { flow, answer })?;
        ended.await.unwrap_or(Err(Failure::ShuttingDown))
    }

    /// Everything about a flow is in one partition, and is answered at one version.
    async fn ask_of_flow(&self, id: FlowId, asks: Vec<Ask>) -> Result<Vec<Answer>, Failure> {
        let partition = id.route().partition(self.store().info().partitions);
        Ok(self.store().load(partition, asks).await.map_err(unavailable)?.answers)
    }
}

fn flow_of(answer: Answer) -> Option<Arc<Flow>> {
    match answer {
        Answer::Flow(_, flow) => flow,
        _ => None,
    }
}

fn no_flow(id: FlowId) -> Failure {
    Rejection::NotFound { what: "flow".into(), id: id.to_string() }.into()
}
