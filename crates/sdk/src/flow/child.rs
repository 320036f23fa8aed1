//! A node that is a flow of its own.

use std::ops::Deref;

use ff_core::FlowId;

use super::drawing::Drawing;
use super::node::Node;

/// A flow that is one node of the flow around it: made by [`Drawing::child`].
///
/// Its nodes are drawn as in any flow, and join each other only. Nothing of it starts before the turn of its node
/// has come; the node ends as its flow ends, and what comes after gets the result of the flow. Cancelling the node
/// cancels the flow. Flows may be nested up to eight deep.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// use flowfabric::{Context, Worker};
///
/// let fabric = flowfabric::connect("memory:").await?;
/// let flow = fabric.flow("release");
/// let build = flow.node("step", &"build");
/// let checks = flow.child("checks");
/// let lint = checks.node("step", &"lint");
/// checks.node("step", &"test").after(&lint);
/// let checked = checks.as_node().after(&build);
/// flow.node("step", &"publish").after(&checked);
/// let run = flow.submit().await?;
///
/// let worker = Worker::new(&fabric).on("step", |_: Context, name: String| async move { Ok(name) });
/// worker
///     .run_until(async {
///         assert_eq!(run.result::<String>().await.unwrap(), "publish");
///         assert_eq!(fabric.flow_run(checks.id()).result::<String>().await.unwrap(), "test");
///     })
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ChildFlow {
    inner: Drawing,
    node: Node,
}

impl Deref for ChildFlow {
    type Target = Drawing;

    fn deref(&self) -> &Drawing {
        &self.inner
    }
}

impl ChildFlow {
    pub(super) fn new(inner: Drawing, node: Node) -> ChildFlow {
        ChildFlow { inner, node }
    }

    /// The id of the flow.
    pub fn id(&self) -> FlowId {
        self.inner.flow()
    }

    /// The node that it is in the flow around it.
    pub fn as_node(&self) -> Node {
        self.node.clone()
    }
}
