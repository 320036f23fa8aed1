//! Nodes and edges to be added to a flow that exists.

use std::ops::Deref;
use std::sync::Arc;

use ff_core::commands::{AddEdges, AddNodes, NewEdge, Seal};
use ff_core::flow::EdgeKey;
use ff_core::{Command, Flow, FlowId, Rejection, Reply};

use super::drawing::Drawing;
use super::parts::Part;
use crate::fabric::odd_reply;
use crate::{Error, Fabric};

/// What is to be added to an open flow: made by [`FlowRun::grow`](crate::FlowRun::grow), drawn like a flow, and
/// stored whole or not at all by [`submit`](Growth::submit).
///
/// New nodes may come after nodes of the flow, by the handles they were drawn with or by
/// [`member`](Drawing::member); nodes that were added [open](crate::Node::open) may get more upstreams with
/// [`before`](crate::Node::before) or [`edge`](Drawing::edge).
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # let fabric = flowfabric::connect("memory:").await?;
/// let flow = fabric.flow("report").open();
/// let head = flow.node("head", &());
/// let bind = flow.node("bind", &()).after(&head).open();
/// let run = flow.submit().await?;
///
/// let revision = run.get().await?.live.revision;
/// let more = run.grow().expected_revision(revision);
/// for page in 1..=3 {
///     more.node("page", &page).after(&head).before(&bind);
/// }
/// assert_eq!(more.submit().await?.live.nodes, 5);
/// run.seal().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Growth {
    drawing: Drawing,
    expected_revision: Option<u64>,
    actor: Box<str>,
}

impl Deref for Growth {
    type Target = Drawing;

    fn deref(&self) -> &Drawing {
        &self.drawing
    }
}

impl Growth {
    pub(super) fn new(fabric: &Fabric, flow: FlowId) -> Growth {
        let drawing = Drawing::new(fabric, flow);
        drawing.sketch().set_grows();
        Growth { drawing, expected_revision: None, actor: "sdk".into() }
    }

    /// Refuses if the graph has another revision: somebody else has changed it meanwhile.
    pub fn expected_revision(mut self, revision: u64) -> Self {
        self.expected_revision = Some(revision);
        self
    }

    /// Who adds; `sdk` otherwise.
    pub fn actor(mut self, actor: &str) -> Self {
        self.actor = actor.into();
        self
    }

    /// Sends it, and gives the flow as it is then.
    ///
    /// # Errors
    /// Anything that is wrong with the graph, named; a flow that takes no more; another revision.
    pub async fn submit(&self) -> Result<Arc<Flow>, Error> {
        let (fabric, flow) = (self.drawing.fabric(), self.drawing.flow());
        let (parts, attempt) = {
            let mut sketch = self.drawing.sketch();
            (sketch.plan(fabric)?.parts(fabric.limits().flow_items_max)?, sketch.send())
        };
        let grown = send(fabric, flow, parts, attempt, self.expected_revision, &self.actor).await?;
        match grown {
            Some(flow) => Ok(flow),
            None => fabric.flow_run(flow).get().await,
        }
    }
}

/// Whether an earlier try may have stored a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    First,
    Again,
}

/// Sends parts one after the other, and gives the flow as the last one left it.
pub(super) async fn send(
    fabric: &Fabric,
    flow: FlowId,
    parts: Vec<Part>,
    attempt: Try,
    mut expected_revision: Option<u64>,
    actor: &str,
) -> Result<Option<Arc<Flow>>, Error> {
    let mut last = None;
    for part in parts {
        let expected_revision = expected_revision.take();
        let actor = actor.into();
        let edges = if let Part::Edges(edges) = &part { edges.clone() } else { Vec::new() };
        let command: Command = match part {
            Part::Nodes { nodes, edges } => AddNodes { flow, expected_revision, nodes, edges, actor }.into(),
            Part::Edges(edges) => AddEdges { flow, expected_revision, edges, actor }.into(),
            Part::SealNode(node) => {
                let cause = "all its edges are there".into();
                Seal { flow, node: Some(node), expected_revision, actor, cause }.into()
            }
        };
        let command = if attempt == Try::Again { command.repeated() } else { command };
        let (grown, lost) = fabric.carry_out(command).await;
        let again = lost || attempt == Try::Again;
        last = Some(match grown {
            Ok(Reply::Flow { flow, .. }) => flow,
            Ok(reply) => return Err(odd_reply(&reply)),
            // The answer to the first try was lost: edges have no ids of their own by which it is told.
            Err(Error::Rejected(Rejection::DuplicateEdge { .. })) if are_there(fabric, &edges).await? => {
                continue;
            }
            // That try has made the revision another one.
            Err(Error::Rejected(Rejection::RevisionMismatch { .. }))
                if again && are_there(fabric, &edges).await? =>
            {
                continue;
            }
            Err(error) => return Err(error),
        });
    }
    Ok(last)
}

/// Whether all of these edges are stored as they are here.
async fn are_there(fabric: &Fabric, edges: &[NewEdge]) -> Result<bool, Error> {
    for edge in edges {
        let key = EdgeKey { upstream: edge.upstream, downstream: edge.downstream };
        let found = fabric.retried(|| fabric.link().edge(key)).await?;
        if !found.is_some_and(|it| it.on == edge.on && it.field == edge.field) {
            return Ok(false);
        }
    }
    Ok(!edges.is_empty())
}
