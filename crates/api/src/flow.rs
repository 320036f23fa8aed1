//! Flows: graphs of executions that are handed in, and flows as people and programs read them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use ff_core::commands::{AddEdges, AddNodes, CancelFlow, CreateFlow, Expand, NewChild, NewEdge, NewNode};
use ff_core::execution::Execution;
use ff_core::flow::{CancelPolicy, Edge, Flow, Join, On, OnSatisfied};
use ff_core::limits::Limits;
use ff_core::name::{FieldName, Kind, Namespace, NodeName};
use ff_core::rejection::Invalid;
use ff_core::{ExecutionId, FlowId};

use crate::execution::{ByDoc, ExecutionDoc};
use crate::fields::{self, word};
use crate::payload::{self, Encoded, Json};
use crate::submit::Submission;
use crate::task::Lease;
use crate::time::{Span, Time};

request! {
    /// A flow to be created, with its first nodes and edges.
    pub struct FlowRequest {
        /// What kind of flow it is, for people; `flow` if it is left out.
        pub kind: Option<String>,
        pub namespace: Option<String>,
        #[serde(default)]
        pub tags: BTreeMap<String, String>,
        #[serde(default)]
        pub nodes: Vec<NodeRequest>,
        #[serde(default)]
        pub edges: Vec<EdgeRequest>,
        /// Whether nothing will be added any more; true if it is left out.
        pub sealed: Option<bool>,
        pub actor: Option<String>,
        /// An id made by the caller, so that a lost answer can be asked for again. The server makes one otherwise.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub id: Option<FlowId>,
    }
}

request! {
    /// A node to be added.
    pub struct NodeRequest {
        /// What it is called within its flow; edges refer to it by this name or by its id.
        pub name: Option<String>,
        /// The execution it is.
        pub run: Submission,
        pub join: Option<JoinDoc>,
        /// Inbound edges may be added later; until it or its flow is sealed nothing is decided about it.
        #[serde(default)]
        pub open: bool,
        /// Upstreams that start one after another, each so long after the one before it.
        #[serde(default)]
        pub hedge: Vec<HedgeDoc>,
        /// It is a whole flow: its members run instead of a worker when its turn comes.
        #[cfg_attr(feature = "openapi", schema(no_recursion))]
        pub child: Option<Box<ChildRequest>>,
    }
}

request! {
    /// The flow that a node stands for.
    pub struct ChildRequest {
        pub kind: Option<String>,
        #[serde(default)]
        pub tags: BTreeMap<String, String>,
        #[serde(default)]
        pub nodes: Vec<NodeRequest>,
        #[serde(default)]
        pub edges: Vec<EdgeRequest>,
        pub sealed: Option<bool>,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub id: Option<FlowId>,
    }
}

request! {
    /// How many of a node's upstreams it needs.
    pub struct JoinDoc {
        /// `all_of`, `any_of` or `quorum`.
        pub policy: String,
        /// How many a quorum needs.
        pub k: Option<u32>,
        /// `cancel_remaining` (default) or `let_run`: what happens to the others.
        pub on_satisfied: Option<String>,
    }
}

request! {
    /// An upstream that starts a while after the one before it.
    pub struct HedgeDoc {
        /// The name or id of the upstream.
        pub node: String,
        pub delay_ms: Span,
    }
}

request! {
    /// A dependency to be added.
    pub struct EdgeRequest {
        /// The name or id of the node that is waited for.
        pub from: String,
        /// The name or id of the node that waits.
        pub to: String,
        /// `success` (default), `failure` or `always`.
        pub on: Option<String>,
        /// Under which name the input of the node that waits gets the result.
        pub field: Option<String>,
    }
}

request! {
    /// Nodes and edges to be added to a flow.
    pub struct NodesRequest {
        #[serde(default)]
        pub nodes: Vec<NodeRequest>,
        #[serde(default)]
        pub edges: Vec<EdgeRequest>,
        /// Refused if the flow has been changed since this revision.
        pub expected_revision: Option<u64>,
        pub actor: Option<String>,
    }
}

request! {
    /// The end of a task that adds nodes to its flow in the same step.
    pub struct Expanding {
        pub lease: Lease,
        #[serde(default, deserialize_with = "payload::present", skip_serializing_if = "Option::is_none")]
        pub result: Option<Json>,
        pub result_encoded: Option<Encoded>,
        #[serde(default)]
        pub nodes: Vec<NodeRequest>,
        #[serde(default)]
        pub edges: Vec<EdgeRequest>,
    }
}

request! {
    /// A wish to seal a flow or one of its nodes.
    pub struct Sealing {
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub node: Option<ExecutionId>,
        pub expected_revision: Option<u64>,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

request! {
    /// How many of its upstreams a node shall need.
    pub struct PolicyRequest {
        pub join: JoinDoc,
        pub expected_revision: Option<u64>,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

request! {
    /// A wish to cancel a flow.
    pub struct FlowCancelling {
        /// `cancel_all` (default), `cancel_pending` or `flow_only`.
        pub policy: Option<String>,
        /// Members after this number are told.
        #[serde(default)]
        pub members_after: u64,
        pub actor: Option<String>,
        pub cause: Option<String>,
    }
}

impl FlowCancelling {
    pub fn command(self, flow: FlowId, actor: &str) -> Result<CancelFlow, Invalid> {
        let policy = self.policy.as_deref().unwrap_or("cancel_all");
        Ok(CancelFlow {
            flow,
            policy: word("policy", policy, CancelPolicy::ALL, CancelPolicy::word)?,
            members_after: self.members_after,
            actor: actor.into(),
            cause: self.cause.unwrap_or_default().into(),
        })
    }
}

// ---- into commands ---------------------------------------------------------------------------------------

impl JoinDoc {
    pub fn join(&self) -> Result<Join, Invalid> {
        let on_satisfied = self.on_satisfied.as_deref().unwrap_or("cancel_remaining");
        let on_satisfied = word("join.on_satisfied", on_satisfied, OnSatisfied::ALL, OnSatisfied::word)?;
        match (&*self.policy, self.k) {
            ("all_of", None) => Ok(Join::AllOf),
            ("any_of", None) => Ok(Join::AnyOf { on_satisfied }),
            ("quorum", Some(k)) => Ok(Join::Quorum { k, on_satisfied }),
            ("quorum", None) => Err(Invalid::new("join.k", "is missing; say how many the quorum needs")),
            ("all_of" | "any_of", Some(_)) => Err(Invalid::new("join.k", "is given without a quorum")),
            (other, _) => {
                let shown: String = other.chars().take(40).collect();
                let problem = format!("is {shown:?}; allowed are all_of, any_of and quorum");
                Err(Invalid::new("join.policy", problem))
            }
        }
    }
}

impl From<Join> for JoinDoc {
    fn from(join: Join) -> JoinDoc {
        let (policy, k, on_satisfied) = match join {
            Join::AllOf => ("all_of", None, None),
            Join::AnyOf { on_satisfied } => ("any_of", None, Some(on_satisfied)),
            Join::Quorum { k, on_satisfied } => ("quorum", Some(k), Some(on_satisfied)),
        };
        JoinDoc { policy: policy.to_owned(), k, on_satisfied: on_satisfied.map(|it| it.word().to_owned()) }
    }
}

/// Where new ids come from, and what is allowed.
pub trait Making: Sync {
    fn limits(&self) -> &Limits;
    fn member(&self, flow: FlowId) -> ExecutionId;
    fn child(&self, flow: FlowId) -> FlowId;
}

/// The ids of a flow whose own id the caller has given: the same request again has the same, and finds the first.
struct Again<'a> {
    making: &'a dyn Making,
    flow: FlowId,
    made: AtomicU64,
}

impl Again<'_> {
    fn next(&self) -> u64 {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        ff_core::id::derived(&[b"node", self.flow.0.as_bytes(), &number.to_be_bytes()])
    }
}

impl Making for Again<'_> {
    fn limits(&self) -> &Limits {
        self.making.limits()
    }

    fn member(&self, flow: FlowId) -> ExecutionId {
        ExecutionId::from_parts(self.flow.created_at(), flow.route(), self.next())
    }

    fn child(&self, flow: FlowId) -> FlowId {
        FlowId::from_parts(self.flow.created_at(), flow.route(), self.next())
    }
}

/// The nodes and edges of one flow, with names turned into ids.
pub struct Drawing<'a> {
    pub making: &'a dyn Making,
    pub flow: FlowId,
    pub namespace: Namespace,
    /// Whether ids that are made here are nobody else's.
    pub fresh: bool,
}

impl std::fmt::Debug for Drawing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Drawing({})", self.flow)
    }
}

type Graph = (Vec<NewNode>, Vec<NewEdge>);

impl Drawing<'_> {
    pub fn graph(&self, nodes: Vec<NodeRequest>, edges: Vec<EdgeRequest>) -> Result<Graph, Invalid> {
        let mut ids = Vec::with_capacity(nodes.len());
        let mut names = HashMap::new();
        for node in &nodes {
            let id = node.run.id.unwrap_or_else(|| self.making.member(self.flow));
            if let Some(name) = &node.name
                && names.insert(name.clone(), id).is_some()
            {
                let shown: String = name.chars().take(80).collect();
                return Err(Invalid::new("nodes", format!("have the name {shown:?} twice")));
            }
            ids.push(id);
        }
        let find = |field: &'static str, text: &str| -> Result<ExecutionId, Invalid> {
            if let Some(id) = names.get(text) {
                return Ok(*id);
            }
            let unknown = || {
                let shown: String = text.chars().take(80).collect();
                Invalid::new(
                    field,
                    format!("is {shown:?}, which is neither the name of a node here nor an id"),
                )
            };
            text.parse().map_err(|_| unknown())
        };
        let nodes = nodes.into_iter().zip(ids).map(|(node, id)| self.node(node, id, &find));
        let nodes = nodes.collect::<Result<Vec<_>, Invalid>>()?;
        let edge = |edge: EdgeRequest| -> Result<NewEdge, Invalid> {
            let on = edge.on.as_deref().unwrap_or("success");
            Ok(NewEdge {
                upstream: find("edges.from", &edge.from)?,
                downstream: find("edges.to", &edge.to)?,
                on: word("edges.on", on, On::ALL, On::word)?,
                field: edge.field.as_deref().map(FieldName::parse).transpose()?,
            })
        };
        let edges = edges.into_iter().map(edge).collect::<Result<Vec<_>, Invalid>>()?;
        Ok((nodes, edges))
    }

    fn node(
        &self,
        node: NodeRequest,
        id: ExecutionId,
        find: &dyn Fn(&'static str, &str) -> Result<ExecutionId, Invalid>,
    ) -> Result<NewNode, Invalid> {
        let mut run = node.run;
        // Whoever gives an id may give one that is there.
        let fresh =
            self.fresh && run.id.is_none() && node.child.as_ref().is_none_or(|child| child.id.is_none());
        if run.namespace.as_deref().is_some_and(|it| it != self.namespace.as_str()) {
            return Err(Invalid::new("nodes.run.namespace", "is not that of the flow; leave it out"));
        }
        run.namespace = Some(self.namespace.to_string());
        let mut create = run.create(self.making.limits(), |_, _| id)?;
        (create.id, create.fresh) = (id, fresh);
        let hedge = node.hedge.into_iter().map(|it| Ok((find("nodes.hedge.node", &it.node)?, it.delay_ms.0)));
        Ok(NewNode {
            create,
            name: node.name.as_deref().map(NodeName::parse).transpose()?,
            join: node.join.as_ref().map(JoinDoc::join).transpose()?.unwrap_or_default(),
            open: node.open,
            hedge: hedge.collect::<Result<_, Invalid>>()?,
            child: node.child.map(|child| self.child(*child)).transpose()?.map(Box::new),
        })
    }

    fn child(&self, child: ChildRequest) -> Result<NewChild, Invalid> {
        let id = child.id.unwrap_or_else(|| self.making.child(self.flow));
        let (making, namespace, fresh) = (self.making, self.namespace.clone(), self.fresh);
        let inside = Drawing { making, flow: id, namespace, fresh };
        let (nodes, edges) = inside.graph(child.nodes, child.edges)?;
        Ok(NewChild {
            id,
            kind: Kind::parse(child.kind.as_deref().unwrap_or("flow"))?,
            tags: fields::tags(&child.tags, self.making.limits())?,
            nodes,
            edges,
            sealed: child.sealed.unwrap_or(true),
        })
    }
}

impl FlowRequest {
    pub fn command(
        self,
        making: &dyn Making,
        actor: &str,
        new_id: impl FnOnce() -> FlowId,
    ) -> Result<CreateFlow, Invalid> {
        let namespace = self.namespace.as_deref().map_or(Ok(Namespace::default()), Namespace::parse)?;
        let fresh = self.id.is_none();
        let id = self.id.unwrap_or_else(new_id);
        let again = Again { making, flow: id, made: AtomicU64::new(0) };
        let making: &dyn Making = if fresh { making } else { &again };
        let drawing = Drawing { making, flow: id, namespace: namespace.clone(), fresh };
        let (nodes, edges) = drawing.graph(self.nodes, self.edges)?;
        Ok(CreateFlow {
            id,
            fresh,
            namespace,
            kind: Kind::parse(self.kind.as_deref().unwrap_or("flow"))?,
            tags: fields::tags(&self.tags, making.limits())?,
            nodes,
            edges,
            sealed: self.sealed.unwrap_or(true),
            actor: actor.into(),
        })
    }
}

impl NodesRequest {
    pub fn command(self, drawing: &Drawing<'_>, actor: &str) -> Result<AddNodes, Invalid> {
        let (nodes, edges) = drawing.graph(self.nodes, self.edges)?;
        let (flow, expected_revision) = (drawing.flow, self.expected_revision);
        Ok(AddNodes { flow, expected_revision, nodes, edges, actor: actor.into() })
    }

    pub fn edges_command(self, drawing: &Drawing<'_>, actor: &str) -> Result<AddEdges, Invalid> {
        if !self.nodes.is_empty() {
            return Err(Invalid::new(
                "nodes",
                "cannot be added here; use …/nodes, which takes edges as well",
            ));
        }
        let (_, edges) = drawing.graph(Vec::new(), self.edges)?;
        let (flow, expected_revision) = (drawing.flow, self.expected_revision);
        Ok(AddEdges { flow, expected_revision, edges, actor: actor.into() })
    }
}

impl Expanding {
    pub fn command(self, drawing: &Drawing<'_>) -> Result<Expand, Invalid> {
        let given = self.result.is_some() || self.result_encoded.is_some();
        let result = payload::join("result", self.result, self.result_encoded)?;
        let (nodes, edges) = drawing.graph(self.nodes, self.edges)?;
        Ok(Expand { fence: self.lease.into(), result: given.then_some(result), nodes, edges })
    }
}

// ---- from commands ---------------------------------------------------------------------------------------

impl From<NewNode> for NodeRequest {
    fn from(it: NewNode) -> NodeRequest {
        let child = it.child.map(|child| {
            Box::new(ChildRequest {
                kind: Some(child.kind.to_string()),
                tags: fields::tags_map(&child.tags),
                nodes: child.nodes.into_iter().map(Into::into).collect(),
                edges: child.edges.into_iter().map(Into::into).collect(),
                sealed: Some(child.sealed),
                id: Some(child.id),
            })
        });
        let hedge = it
            .hedge
            .into_iter()
            .map(|(node, delay)| HedgeDoc { node: node.to_string(), delay_ms: Span(delay) });
        NodeRequest {
            name: it.name.map(|name| name.to_string()),
            run: it.create.into(),
            join: Some(it.join.into()),
            open: it.open,
            hedge: hedge.collect(),
            child,
        }
    }
}

impl From<NewEdge> for EdgeRequest {
    fn from(it: NewEdge) -> EdgeRequest {
        EdgeRequest {
            from: it.upstream.to_string(),
            to: it.downstream.to_string(),
            on: Some(it.on.word().to_owned()),
            field: it.field.map(|field| field.to_string()),
        }
    }
}

impl From<CreateFlow> for FlowRequest {
    fn from(it: CreateFlow) -> FlowRequest {
        FlowRequest {
            kind: Some(it.kind.to_string()),
            namespace: Some(it.namespace.to_string()),
            tags: fields::tags_map(&it.tags),
            nodes: it.nodes.into_iter().map(Into::into).collect(),
            edges: it.edges.into_iter().map(Into::into).collect(),
            sealed: Some(it.sealed),
            actor: Some(it.actor.into()),
            id: Some(it.id),
        }
    }
}

impl From<AddNodes> for NodesRequest {
    fn from(it: AddNodes) -> NodesRequest {
        NodesRequest {
            nodes: it.nodes.into_iter().map(Into::into).collect(),
            edges: it.edges.into_iter().map(Into::into).collect(),
            expected_revision: it.expected_revision,
            actor: Some(it.actor.into()),
        }
    }
}

impl From<AddEdges> for NodesRequest {
    fn from(it: AddEdges) -> NodesRequest {
        NodesRequest {
            nodes: Vec::new(),
            edges: it.edges.into_iter().map(Into::into).collect(),
            expected_revision: it.expected_revision,
            actor: Some(it.actor.into()),
        }
    }
}

impl From<Expand> for Expanding {
    fn from(it: Expand) -> Expanding {
        let (result, result_encoded) = it.result.as_ref().map_or((None, None), payload::split);
        Expanding {
            lease: it.fence.into(),
            result,
            result_encoded,
            nodes: it.nodes.into_iter().map(Into::into).collect(),
            edges: it.edges.into_iter().map(Into::into).collect(),
        }
    }
}

// ---- answers ---------------------------------------------------------------------------------------------

answer! {
    /// A flow.
    pub struct FlowDoc {
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub id: FlowId,
        pub kind: String,
        pub namespace: String,
        /// `open`, `running`, `blocked`, `completed`, `failed` or `cancelled`.
        pub state: String,
        pub sealed: bool,
        pub revision: u64,
        pub node_count: u64,
        pub edge_count: u64,
        /// How many members stand where.
        pub summary: BTreeMap<String, u64>,
        pub tags: BTreeMap<String, String>,
        pub created_at: Time,
        pub created_by: String,
        pub changed_at: Time,
        pub ended_at: Option<Time>,
        pub cancelled: Option<FlowCancelDoc>,
    }
}

answer! {
    /// Who cancelled a flow, and how.
    pub struct FlowCancelDoc {
        pub policy: String,
        pub by: ByDoc,
    }
}

impl From<&Flow> for FlowDoc {
    fn from(flow: &Flow) -> FlowDoc {
        let (spec, live) = (&flow.spec, &flow.live);
        FlowDoc {
            id: flow.id,
            kind: spec.kind.to_string(),
            namespace: spec.namespace.to_string(),
            state: flow.state().word().to_owned(),
            sealed: live.sealed,
            revision: live.revision,
            node_count: live.nodes,
            edge_count: live.edges,
            summary: live.summary.iter().map(|(state, count)| (state.word().to_owned(), count)).collect(),
            tags: fields::tags_map(&live.tags),
            created_at: Time(spec.created_at),
            created_by: spec.created_by.to_string(),
            changed_at: Time(live.changed_at),
            ended_at: live.end.as_ref().map(|end| Time(end.at)),
            cancelled: live
                .cancel
                .as_ref()
                .map(|it| FlowCancelDoc { policy: it.policy.word().to_owned(), by: (&it.by).into() }),
        }
    }
}

answer! {
    /// A flow that was created or changed.
    pub struct FlowChanged {
        pub flow: FlowDoc,
        /// The change had been made before.
        pub existing: bool,
        /// The ids of the nodes of this request, by their names.
        #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, uuid::Uuid>))]
        pub nodes: BTreeMap<String, ExecutionId>,
    }
}

answer! {
    /// A page of flows.
    pub struct FlowPage {
        pub flows: Vec<FlowDoc>,
        pub next_cursor: Option<String>,
    }
}

answer! {
    /// A member of a flow: its execution, and the group of its upstreams.
    pub struct MemberDoc {
        pub execution: ExecutionDoc,
        /// Its number within the flow.
        pub number: u64,
        pub level: u32,
        #[cfg_attr(feature = "openapi", schema(value_type = Option<uuid::Uuid>))]
        pub child_flow: Option<FlowId>,
        pub open: bool,
        pub group: Option<GroupDoc>,
    }
}

answer! {
    /// What a node waits for.
    pub struct GroupDoc {
        pub join: JoinDoc,
        /// `waiting`, `satisfied` or `impossible`.
        pub state: String,
        pub total: u32,
        pub needed: u32,
        pub satisfied: u32,
        pub succeeded: u32,
        pub failed: u32,
        pub skipped: u32,
        pub running: u32,
    }
}

impl From<&Execution> for MemberDoc {
    fn from(execution: &Execution) -> MemberDoc {
        let node = execution.node();
        let group = node.map(|node| &node.group).map(|it| GroupDoc {
            join: it.join.into(),
            state: it.state.word().to_owned(),
            total: it.total,
            needed: it.join.need(it.total),
            satisfied: it.satisfied,
            succeeded: it.succeeded,
            failed: it.failed,
            skipped: it.skipped,
            running: it.pending(),
        });
        MemberDoc {
            execution: execution.into(),
            number: execution.spec.member.as_ref().map_or(0, |member| member.number),
            level: node.map_or(0, |node| node.level),
            child_flow: execution.child_flow(),
            open: node.is_some_and(|node| node.open),
            group,
        }
    }
}

answer! {
    /// A flow with some of its members.
    pub struct FlowDescriptionDoc {
        pub flow: FlowDoc,
        pub members: Vec<MemberDoc>,
        /// Ask for the members after this number; null on the last page.
        pub next_after: Option<u64>,
    }
}

answer! {
    /// A dependency.
    pub struct EdgeDoc {
        pub number: u64,
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub upstream: ExecutionId,
        #[cfg_attr(feature = "openapi", schema(value_type = uuid::Uuid))]
        pub downstream: ExecutionId,
        pub on: String,
        pub field: Option<String>,
        /// `pending`, `satisfied` or `lost`.
        pub state: String,
        pub created_at: Time,
        pub created_by: String,
    }
}

impl From<&Edge> for EdgeDoc {
    fn from(it: &Edge) -> EdgeDoc {
        EdgeDoc {
            number: it.number,
            upstream: it.key.upstream,
            downstream: it.key.downstream,
            on: it.on.word().to_owned(),
            field: it.field.as_ref().map(|field| field.to_string()),
            state: it.state().word().to_owned(),
            created_at: Time(it.created_at),
            created_by: it.created_by.to_string(),
        }
    }
}

answer! {
    /// Dependencies of a node.
    pub struct EdgePageDoc {
        pub edges: Vec<EdgeDoc>,
        pub next_after: Option<u64>,
    }
}

answer! {
    /// A flow with all its nodes and edges.
    pub struct GraphDoc {
        pub flow: FlowDoc,
        pub members: Vec<MemberDoc>,
        pub edges: Vec<EdgeDoc>,
        /// There are more members than were asked for; their edges are left out.
        pub more: bool,
    }
}

answer! {
    /// What cancelling a flow came to.
    pub struct FlowCancelledDoc {
        pub flow: FlowDoc,
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<uuid::Uuid>))]
        pub members: Vec<ExecutionId>,
        pub next_after: Option<u64>,
    }
}

answer! {
    /// The result of a flow: that of its last member, or of its last members by their names.
    pub struct FlowResultDoc {
        pub flow: FlowDoc,
        pub ended: bool,
        pub result: Option<Json>,
    }
}

answer! {
    /// Whether the policy of a node was what was asked for before.
    pub struct PolicySetDoc {
        pub already: bool,
    }
}
