//! A handle on one flow.

use std::sync::Arc;

use ff_core::flow::{CancelPolicy, Edge, EdgeKey, FlowState, Join};
use ff_core::{ExecutionId, Flow, FlowId, Rejection};
use ff_engine::flows::{Direction, EdgePage, FlowDescription, Graph};
use ff_engine::{EventFilter, Start};
use serde::de::DeserializeOwned;

use super::drawing::Drawing;
use super::growth::Growth;
use super::node::Node;
use super::operations::FlowCancelled;
use super::result;
use crate::operation::Operation;
use crate::{Error, Events, Fabric, Run};

/// How many members are read at once when one is looked for by its name.
const PAGE: usize = 1_000;

/// A flow that was submitted, or that is known by its id.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{CancelPolicy, FlowState};
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let flow = fabric.flow("etl").tag("team.name", "data");
/// let extract = flow.node("extract", &"orders.csv");
/// flow.node("load", &()).after(&extract);
/// let run = flow.submit().await?;
///
/// assert_eq!(run.state().await?, FlowState::Running);
/// assert_eq!(run.tag("team.name").await?.as_deref(), Some("data"));
/// assert_eq!(run.named("load").await?.get().await?.reason().word(), "waiting_for_dependencies");
/// assert_eq!(run.node(&extract).get().await?.public_state().word(), "waiting");
///
/// let cancelled = run.cancel(CancelPolicy::CancelAll).cause("wrong file").await?;
/// assert_eq!(cancelled.members.len(), 2);
/// assert_eq!(run.wait().await?.state(), FlowState::Cancelled);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FlowRun {
    fabric: Fabric,
    id: FlowId,
    existing: bool,
    /// Where it was drawn, if it was submitted here.
    drawing: Option<Drawing>,
}

impl Fabric {
    /// A handle on a flow by its id, whether or not there is one.
    pub fn flow_run(&self, id: FlowId) -> FlowRun {
        FlowRun::new(self.clone(), id, true)
    }
}

impl FlowRun {
    pub(super) fn new(fabric: Fabric, id: FlowId, existing: bool) -> FlowRun {
        FlowRun { fabric, id, existing, drawing: None }
    }

    /// As it was drawn: what is wrongly drawn later is told here.
    pub(super) fn drawn(self, drawing: &Drawing) -> FlowRun {
        FlowRun { drawing: Some(drawing.clone()), ..self }
    }

    fn check_drawing(&self) -> Result<(), Error> {
        self.drawing.as_ref().map_or(Ok(()), |drawing| drawing.sketch().check())
    }

    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Whether it was there before: submitted earlier, or looked up.
    pub fn existing(&self) -> bool {
        self.existing
    }

    // ---- looking -------------------------------------------------------------------------------------

    /// The flow as it is stored now: its state, its revision, and how many members stand where.
    ///
    /// # Errors
    /// `not_found` if there is no such flow; what was drawn into it after it was submitted.
    pub async fn get(&self) -> Result<Arc<Flow>, Error> {
        self.check_drawing()?;
        let found = self.fabric.retried(|| self.fabric.link().flow(self.id)).await?;
        found.ok_or_else(|| self.not_found("flow", self.id.to_string()))
    }

    /// Where it stands.
    ///
    /// # Errors
    /// `not_found` if there is no such flow.
    pub async fn state(&self) -> Result<FlowState, Error> {
        Ok(self.get().await?.state())
    }

    /// Waits until it has ended, which it does with its last member.
    ///
    /// # Errors
    /// `not_found` if there is no such flow; what was drawn into it after it was submitted.
    pub async fn wait(&self) -> Result<Arc<Flow>, Error> {
        self.check_drawing()?;
        self.fabric.retried(|| self.fabric.link().wait_flow(self.id)).await
    }

    /// Waits until it has completed and reads its result: that of the node at its end, or, if it has several
    /// ends, an object of their results by their names. An end is a node that has completed and that no
    /// completed node comes after.
    ///
    /// # Errors
    /// [`Error::FlowNotCompleted`] if it ended in any other way; [`Error::UnexpectedFlowResult`] if the result
    /// is not a `T`.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let flow = self.wait().await?;
        result::of(&self.fabric, &flow).await
    }

    /// The execution of a node, by the handle it was drawn with.
    pub fn node(&self, node: &Node) -> Run {
        self.fabric.run(node.id())
    }

    /// The execution of a node, by its name.
    ///
    /// # Errors
    /// `not_found` if no node of the flow has this name.
    pub async fn named(&self, name: &str) -> Result<Run, Error> {
        let mut after = 0;
        loop {
            let page = self.describe(after, PAGE).await?;
            let found = page.members.iter().find(|it| it.node_name().is_some_and(|it| &**it == name));
            match (found, page.next) {
                (Some(found), _) => return Ok(self.fabric.run(found.id)),
                (None, Some(next)) => after = next,
                (None, None) => return Err(self.not_found("node", name.to_owned())),
            }
        }
    }

    /// The flow with some of its members, in the order in which they were added: each has its node, and the node
    /// its group of upstreams.
    ///
    /// # Errors
    /// `not_found` if there is no such flow.
    pub async fn describe(&self, after: u64, limit: usize) -> Result<FlowDescription, Error> {
        self.fabric.retried(|| self.fabric.link().describe_flow(self.id, after, limit)).await
    }

    /// The flow with up to so many members and the edges among them, for drawing it.
    ///
    /// # Errors
    /// `not_found` if there is no such flow.
    pub async fn graph(&self, members_max: usize) -> Result<Graph, Error> {
        self.fabric.retried(|| self.fabric.link().graph(self.id, members_max)).await
    }

    /// Some edges in or out of a node, after a number.
    ///
    /// # Errors
    /// `not_found` if there is no such node.
    pub async fn edges(
        &self,
        node: ExecutionId,
        direction: Direction,
        after: u64,
        limit: usize,
    ) -> Result<EdgePage, Error> {
        self.fabric.retried(|| self.fabric.link().edges(node, direction, after, limit)).await
    }

    /// The edge between two nodes.
    ///
    /// # Errors
    /// `not_found` if there is none.
    pub async fn edge(&self, upstream: ExecutionId, downstream: ExecutionId) -> Result<Arc<Edge>, Error> {
        let found = self.fabric.retried(|| self.fabric.link().edge(EdgeKey { upstream, downstream })).await?;
        found.ok_or_else(|| self.not_found("edge", format!("{upstream} → {downstream}")))
    }

    /// One tag of the flow; `None` if it has no such tag.
    ///
    /// # Errors
    /// `not_found` if there is no such flow.
    pub async fn tag(&self, key: &str) -> Result<Option<String>, Error> {
        Ok(self.get().await?.live.tags.get(key).map(|value| value.to_string()))
    }

    /// Events of the flow and of all its members, from a place in the log on.
    ///
    /// # Errors
    /// A cursor of another store, or one older than the oldest event that is kept.
    pub async fn events(&self, start: Start) -> Result<Events, Error> {
        self.fabric.events(EventFilter { flow: Some(self.id), ..EventFilter::default() }, start).await
    }

    // ---- changing ------------------------------------------------------------------------------------

    /// Starts to draw what is to be added.
    pub fn grow(&self) -> Growth {
        Growth::new(&self.fabric, self.id)
    }

    /// Ends additions from outside; open nodes take what upstreams they have.
    pub fn seal(&self) -> Operation<Arc<Flow>> {
        self.fabric.seal_flow(self.id)
    }

    /// Ends the addition of upstreams to an open node.
    pub fn seal_node(&self, node: ExecutionId) -> Operation<Arc<Flow>> {
        self.fabric.seal_node(self.id, node)
    }

    /// Says how many upstreams an open node needs, before it has its first; see [`Fabric::set_join`].
    pub fn set_join(&self, node: ExecutionId, join: Join) -> Operation<bool> {
        self.fabric.set_join(self.id, node, join)
    }

    /// Cancels it; see [`Fabric::cancel_flow`].
    pub fn cancel(&self, policy: CancelPolicy) -> Operation<FlowCancelled> {
        self.fabric.cancel_flow(self.id, policy)
    }

    /// Sets tags (`Some`) and removes tags (`None`).
    pub fn set_tags<'a>(
        &self,
        tags: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Operation<Arc<Flow>> {
        self.fabric.tag_flow(self.id, tags)
    }

    fn not_found(&self, what: &'static str, id: String) -> Error {
        Error::Rejected(Rejection::NotFound { what: what.into(), id })
    }
}
