//! What a handler adds to its flow, stored with its completion or not at all.

use std::ops::Deref;

use ff_core::commands::Expand;
use ff_core::execution::Fence;
use ff_core::{Execution, ExecutionId, FlowId};
use ff_engine::flows::Direction;

use super::drawing::Drawing;
use super::node::Node;
use super::parts::Part;
use crate::{Error, Fabric, Payload, TaskFailure};

/// How many edges are read at once when a downstream is looked for by its name.
const PAGE: usize = 1_000;

/// Nodes and edges that come after the node a handler runs: made by [`Context::expand`](crate::Context::expand).
///
/// They are stored in the same commit as the handler's completion. If the handler fails, or its lease is lost,
/// nothing of it is. A new node without upstreams comes after this one, and one without a name is called after this
/// one and its kind, such as `split/scale-2`; what waits for this node may be made to
/// wait for new nodes, too, with [`before`](Node::before).
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Context, Worker};
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let flow = fabric.flow("thumbnails");
/// let split = flow.node("split", &3);
/// flow.node("merge", &()).after(&split);
/// let run = flow.submit().await?;
///
/// let worker = Worker::new(&fabric)
///     .on("split", |ctx: Context, count: u64| async move {
///         let more = ctx.expand()?;
///         let merge = more.downstream("merge").await?;
///         for n in 0..count {
///             more.node("scale", &n).before(&merge);
///         }
///         Ok(count)
///     })
///     .on("scale", |_: Context, _: u64| async { Ok(()) })
///     .on("merge", |_: Context, (): ()| async { Ok("merged") });
/// worker.run_until(async { assert_eq!(run.result::<String>().await.unwrap(), "merged") }).await?;
/// assert_eq!(run.get().await?.live.nodes, 5);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Expansion {
    drawing: Drawing,
    this: ExecutionId,
}

impl Deref for Expansion {
    type Target = Drawing;

    fn deref(&self) -> &Drawing {
        &self.drawing
    }
}

impl Expansion {
    pub(crate) fn new(fabric: &Fabric, flow: FlowId, this: &Execution) -> Expansion {
        let drawing = Drawing::new(fabric, flow);
        // Several nodes of a flow may add nodes of the same kind.
        let name = this.node_name().map_or_else(|| this.id.to_string(), |name| name.to_string());
        // One that is replayed may add nodes once more.
        let prefix = match this.live.series.number {
            0 | 1 => format!("{name}/"),
            series => format!("{name}#{series}/"),
        };
        drawing.sketch().set_prefix(prefix);
        Expansion { drawing, this: this.id }
    }

    /// The node that the handler runs.
    pub fn this(&self) -> Node {
        self.drawing.member(self.this)
    }

    /// A node that waits for this one, by its name.
    ///
    /// # Errors
    /// A failure that is tried again if the store is out of reach; a fatal one with the code `not_found` if
    /// nothing of this name waits for this node.
    pub async fn downstream(&self, name: &str) -> Result<Node, TaskFailure> {
        let fabric = self.drawing.fabric();
        let mut after = 0;
        loop {
            let page = fabric.retried(|| fabric.link().edges(self.this, Direction::Out, after, PAGE)).await?;
            for edge in page.edges {
                let found = fabric.get(edge.key.downstream).await?;
                if found.node_name().is_some_and(|it| &**it == name) {
                    return Ok(self.drawing.member(found.id));
                }
            }
            let Some(next) = page.next else { break };
            after = next;
        }
        let problem = format!("no node {name:?} waits for this one");
        Err(TaskFailure::fatal(problem).code("not_found"))
    }

    /// The command that completes the handler's work and adds what was drawn; `None` if nothing was.
    pub(crate) fn finish(&self, fence: Fence, result: Option<Payload>) -> Result<Option<Expand>, Error> {
        let fabric = self.drawing.fabric();
        let mut plan = {
            let sketch = self.drawing.sketch();
            if sketch.is_empty() {
                return Ok(None);
            }
            sketch.plan(fabric)?
        };
        for it in &mut plan.nodes {
            if it.edges.is_empty() {
                it.edges.push(ff_core::commands::NewEdge::new(self.this, it.node.create.id));
            }
        }
        let items_max = fabric.limits().flow_items_max;
        let mut parts = plan.parts(items_max)?;
        match (parts.pop(), parts.is_empty()) {
            (Some(Part::Nodes { nodes, edges }), true) => Ok(Some(Expand { fence, result, nodes, edges })),
            (Some(Part::Edges(edges)), true) => Ok(Some(Expand { fence, result, nodes: Vec::new(), edges })),
            _ => {
                let problem = format!(
                    "is too large: one completion adds at most {items_max} nodes and {items_max} edges; add a \
                     node that adds the rest"
                );
                Err(Error::invalid("expansion", problem))
            }
        }
    }
}
