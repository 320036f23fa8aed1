//! A flow to be submitted.

use std::ops::Deref;

use ff_core::commands::CreateFlow;
use ff_core::tags::Tags;
use ff_core::{FlowId, Kind, Namespace, Reply};

use super::drawing::Drawing;
use super::growth::{Try, send};
use super::parts::Part;
use super::run::FlowRun;
use crate::fabric::odd_reply;
use crate::{Error, Fabric};

/// A flow that is being drawn: made by [`Fabric::flow`].
///
/// Nodes are added with [`node`](Drawing::node), and their handles say what waits for what. Everything is
/// checked before anything is sent, and what is wrong is told with the name of the node. One call carries 1,000
/// nodes and edges and is stored whole or not at all; a larger graph goes in parts, upstreams first, and runs
/// as soon as its first part is there.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Context, Worker};
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let flow = fabric.flow("etl");
/// let rows = flow.node("extract", &"orders.csv");
/// let checks = ["totals", "dates"].map(|check| flow.node("check", check).after(&rows));
/// flow.node("load", &"warehouse").after(&checks);
/// let run = flow.submit().await?;
///
/// let worker = Worker::new(&fabric)
///     .on("extract", |_: Context, _file: String| async { Ok(()) })
///     .on("check", |_: Context, _what: String| async { Ok(()) })
///     .on("load", |_: Context, table: String| async move { Ok(format!("{table} is loaded")) });
/// worker
///     .run_until(async { assert_eq!(run.result::<String>().await.unwrap(), "warehouse is loaded") })
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FlowBuilder {
    drawing: Drawing,
    kind: String,
    namespace: Option<String>,
    tags: Vec<(String, String)>,
    open: bool,
    actor: Box<str>,
}

impl Fabric {
    /// Starts to draw a flow; `kind` is what sort of flow it is. Nothing is sent before
    /// [`submit`](FlowBuilder::submit).
    pub fn flow(&self, kind: &str) -> FlowBuilder {
        FlowBuilder::new(Drawing::new(self, self.link().new_flow_id(self.wall())), kind)
    }

    /// As [`flow`](Fabric::flow), under an id made elsewhere. The same nodes drawn in the same order have the same ids
    /// then, so that the flow can be submitted again by another process that does not know whether it is there.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
    /// # let fabric = flowfabric::connect("memory:").await?;
    /// let id = fabric.flow("etl").id();
    /// for existing in [false, true] {
    ///     let flow = fabric.flow_with_id(id, "etl");
    ///     flow.node("extract", &"orders.csv");
    ///     assert_eq!(flow.submit().await?.existing(), existing);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn flow_with_id(&self, id: FlowId, kind: &str) -> FlowBuilder {
        FlowBuilder::new(Drawing::new(self, id).repeatable(), kind)
    }
}

impl Deref for FlowBuilder {
    type Target = Drawing;

    fn deref(&self) -> &Drawing {
        &self.drawing
    }
}

impl FlowBuilder {
    fn new(drawing: Drawing, kind: &str) -> FlowBuilder {
        let (kind, actor) = (kind.to_owned(), "sdk".into());
        FlowBuilder { drawing, kind, namespace: None, tags: Vec::new(), open: false, actor }
    }

    /// The id it will have.
    pub fn id(&self) -> FlowId {
        self.drawing.flow()
    }

    /// Whose work it and all its members are; `default` otherwise.
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespace = Some(name.to_owned());
        self
    }

    /// A word to find the flow by.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.tags.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Who submits it; `sdk` otherwise.
    pub fn actor(mut self, actor: &str) -> Self {
        self.actor = actor.into();
        self
    }

    /// Nodes and edges may be [added](FlowRun::grow) from outside until the flow is [sealed](FlowRun::seal),
    /// and it does not end before. Otherwise it is sealed with its submission.
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Sends the flow. The answer comes when it is durable. Submitting it again gives the same flow.
    ///
    /// # Errors
    /// Anything that is wrong with the graph, named; a graph of one call is not stored then at all.
    pub async fn submit(&self) -> Result<FlowRun, Error> {
        let fabric = self.drawing.fabric();
        let (parts, attempt) = {
            let mut sketch = self.drawing.sketch();
            if sketch.has_open_nodes() && !self.open {
                let problem =
                    "has open nodes and is sealed when it is submitted; say open() of the flow, too";
                return Err(Error::invalid("flow", problem));
            }
            let parts = sketch.plan(fabric)?.parts(fabric.limits().flow_items_max)?;
            let attempt = sketch.send();
            (parts, if self.drawing.is_repeatable() { Try::Again } else { attempt })
        };
        let mut parts = parts.into_iter();
        let (nodes, edges) = match parts.next() {
            Some(Part::Nodes { nodes, edges }) => (nodes, edges),
            _ => (Vec::new(), Vec::new()),
        };
        let rest: Vec<Part> = parts.collect();
        let sealed = !self.open && rest.is_empty();
        let tags = self.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let create = CreateFlow {
            id: self.id(),
            fresh: true,
            namespace: self
                .namespace
                .as_deref()
                .map_or_else(|| Ok(Namespace::default()), Namespace::parse)?,
            kind: Kind::parse(&self.kind)?,
            tags: Tags::default().edited(tags, [], fabric.limits())?,
            nodes,
            edges,
            sealed,
            actor: self.actor.clone(),
        };
        let command = ff_core::Command::from(create);
        let command = if attempt == Try::Again { command.repeated() } else { command };
        let (flow, existing) = match fabric.command(command).await? {
            Reply::Flow { flow, existing } => (flow, existing),
            reply => return Err(odd_reply(&reply)),
        };
        let run = FlowRun::new(fabric.clone(), self.id(), existing).drawn(&self.drawing);
        // Once it is sealed, all of it is there.
        if !rest.is_empty() && !flow.live.sealed {
            send(fabric, self.id(), rest, attempt, None, &self.actor).await?;
            if !self.open {
                run.seal().actor(&self.actor).await?;
            }
        }
        Ok(run)
    }
}
