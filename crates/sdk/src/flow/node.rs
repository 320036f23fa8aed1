//! Handles on nodes: what a node waits for, how it runs, and how others wait for it.

use std::time::Duration;

use ff_core::flow::On;
use ff_core::policy::Backoff;
use ff_core::{ExecutionId, FlowId, Policy};

use super::drawing::Drawing;
use super::sketch::{Line, Wait};
use crate::time::ms;
use crate::{Error, Submission};

/// A handle on a node of a flow. Cheap to clone.
///
/// A node starts when what it waits for is there: nothing, unless it is said. It waits either for **all** its
/// upstreams ([`after`](Self::after) and its kin, as often as needed), for **one** of them
/// ([`any_of`](Self::any_of)), or for **some** ([`quorum`](Self::quorum)).
///
/// What does not fit is told, with the name of the node, when the flow is submitted; nothing is sent then. After that a
/// handle names its node: for its execution ([`FlowRun::node`](crate::FlowRun::node)), and as an end of edges that are
/// added with [`FlowRun::grow`](crate::FlowRun::grow). Two nodes that are both submitted cannot be joined by their
/// handles alone: the next look at the flow, wait for it or submission of it tells so.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), flowfabric::Error> {
/// # let fabric = flowfabric::connect("memory:").await?;
/// let flow = fabric.flow("trip");
/// let hotel = flow.node("book", &"hotel");
/// let flights = ["north", "south", "west"].map(|line| flow.node("ask", line).attempts(1));
/// let flight = flow.node("pick", &()).any_of(&flights);         // the others are cancelled
/// flow.node("pay", &()).input("hotel", &hotel).input("flight", &flight);
/// flow.node("apologise", &()).on_failure(&flight);
/// flow.submit().await?;
///
/// let flow = fabric.flow("trip");
/// let asked = flow.node("ask", "north");
/// flow.node("pick", &()).name("first").quorum(2, &asked);
/// let error = flow.submit().await.unwrap_err();
/// assert_eq!(error.to_string(), "nodes.first.quorum is 2, and it has 1 upstreams; allowed are 1 to 1");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    drawing: Drawing,
    id: ExecutionId,
}

/// An upstream, and how it is waited for: a handle waits for its success; see [`Node::failed`],
/// [`Node::ended`] and [`Node::result_as`].
#[derive(Clone, Debug)]
pub struct Upstream {
    pub(super) drawing: Drawing,
    pub(super) line: Line,
}

/// One upstream or several: `&a`, `[&a, &b]`, `&nodes`, `[a.ended(), b.result_as("rows")]`.
pub trait Upstreams {
    fn into_upstreams(self) -> Vec<Upstream>;
}

impl From<&Node> for Upstream {
    fn from(node: &Node) -> Upstream {
        node.upstream(On::Success, None)
    }
}

impl Upstreams for &Node {
    fn into_upstreams(self) -> Vec<Upstream> {
        vec![self.into()]
    }
}

impl Upstreams for Upstream {
    fn into_upstreams(self) -> Vec<Upstream> {
        vec![self]
    }
}

impl<T: Into<Upstream>, const N: usize> Upstreams for [T; N] {
    fn into_upstreams(self) -> Vec<Upstream> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<Upstream>> Upstreams for Vec<T> {
    fn into_upstreams(self) -> Vec<Upstream> {
        self.into_iter().map(Into::into).collect()
    }
}

impl Upstreams for &[Node] {
    fn into_upstreams(self) -> Vec<Upstream> {
        self.iter().map(Into::into).collect()
    }
}

impl Upstreams for &Vec<Node> {
    fn into_upstreams(self) -> Vec<Upstream> {
        self.as_slice().into_upstreams()
    }
}

impl<const N: usize> Upstreams for &[Node; N] {
    fn into_upstreams(self) -> Vec<Upstream> {
        self.as_slice().into_upstreams()
    }
}

impl Node {
    pub(super) fn new(drawing: Drawing, id: ExecutionId) -> Node {
        Node { drawing, id }
    }

    /// The execution that the node is; it is known before the flow is submitted.
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    pub(super) fn flow(&self) -> FlowId {
        self.drawing.flow()
    }

    // ---- as an upstream ------------------------------------------------------------------------------

    fn upstream(&self, on: On, field: Option<&str>) -> Upstream {
        let line = Line { upstream: self.id, on, field: field.map(str::to_owned) };
        Upstream { drawing: self.drawing.clone(), line }
    }

    /// Waits for this node to fail, expire, or be cancelled by somebody.
    pub fn failed(&self) -> Upstream {
        self.upstream(On::Failure, None)
    }

    /// Waits for this node to end, however that may be.
    pub fn ended(&self) -> Upstream {
        self.upstream(On::Always, None)
    }

    /// Waits for this node's success, and puts its result into the input under `inputs.<field>`.
    pub fn result_as(&self, field: &str) -> Upstream {
        self.upstream(On::Success, Some(field))
    }

    // ---- what it waits for ---------------------------------------------------------------------------

    /// Waits for the success of all of these, and of what else it comes after.
    pub fn after(self, upstreams: impl Upstreams) -> Node {
        self.wait(Wait::All, upstreams)
    }

    /// Comes after another node and gets its result under `inputs.<field>`.
    pub fn input(self, field: &str, upstream: &Node) -> Node {
        self.after(upstream.result_as(field))
    }

    /// Runs if another node fails, expires, or is cancelled by somebody; otherwise it is skipped.
    pub fn on_failure(self, upstream: &Node) -> Node {
        self.after(upstream.failed())
    }

    /// Runs when another node has ended, however that may be.
    pub fn always(self, upstream: &Node) -> Node {
        self.after(upstream.ended())
    }

    /// Waits for one of these. When it is there, the others are cancelled unless something else needs them or
    /// [`let_run`](Self::let_run) is said.
    pub fn any_of(self, upstreams: impl Upstreams) -> Node {
        self.wait(Wait::Any, upstreams)
    }

    /// Waits for `k` of these; what becomes of the others is as with [`any_of`](Self::any_of).
    pub fn quorum(self, k: u32, upstreams: impl Upstreams) -> Node {
        self.wait(Wait::Quorum(k), upstreams)
    }

    fn wait(self, wait: Wait, upstreams: impl Upstreams) -> Node {
        let is_new = !self.drawing.sketch().is_sent();
        if is_new {
            self.drawing.sketch().join(self.id, wait);
        }
        for upstream in upstreams.into_upstreams() {
            // What is added to a node that is stored goes with the upstream that is new.
            let drawing = if is_new { self.drawing.clone() } else { upstream.drawing.clone() };
            if !is_new {
                drawing.sketch().join(self.id, wait);
            }
            drawing.connect(upstream, &self);
        }
        self
    }

    /// The upstreams that `any_of` or `quorum` did not need run on.
    pub fn let_run(self) -> Node {
        self.edit(|draft| draft.let_run = true)
    }

    /// The upstreams of `any_of` or `quorum` start one after the other, in the order in which they are listed:
    /// each when the one before it has run for so long, or has failed.
    pub fn hedge(self, delay: Duration) -> Node {
        self.edit(|draft| draft.hedge = Some(vec![ms(delay)]))
    }

    /// As [`hedge`](Self::hedge), with a delay of its own for the second upstream and each that follows.
    pub fn hedge_each(self, delays: impl IntoIterator<Item = Duration>) -> Node {
        self.edit(|draft| draft.hedge = Some(delays.into_iter().map(ms).collect()))
    }

    /// More upstreams may be added later: nothing is decided about it before it or its flow is sealed.
    pub fn open(self) -> Node {
        self.edit(|draft| draft.open = true)
    }

    /// Another node comes after this one.
    pub fn before(self, downstream: &Node) -> Node {
        self.drawing.edge(&self, downstream);
        self
    }

    // ---- how it runs ---------------------------------------------------------------------------------

    /// What it is called in its flow. Otherwise it has the name of its kind, with a number if that is taken.
    pub fn name(self, name: &str) -> Node {
        self.edit(|draft| draft.name = Some(name.to_owned()))
    }

    /// Everything a [`Submission`] can say about how it runs.
    pub fn configure(self, change: impl FnOnce(Submission) -> Submission) -> Node {
        self.edit(|draft| draft.work = change(std::mem::replace(&mut draft.work, Submission::new("-", &()))))
    }

    pub fn lane(self, name: &str) -> Node {
        self.configure(|work| work.lane(name))
    }

    pub fn priority(self, priority: i32) -> Node {
        self.configure(|work| work.priority(priority))
    }

    pub fn capability(self, word: &str) -> Node {
        self.configure(|work| work.capability(word))
    }

    pub fn tag(self, key: &str, value: &str) -> Node {
        self.configure(|work| work.tag(key, value))
    }

    /// How often it is tried at most; 1 means never again.
    pub fn attempts(self, count: u32) -> Node {
        self.configure(|work| work.attempts(count))
    }

    pub fn backoff(self, backoff: Backoff) -> Node {
        self.configure(|work| work.backoff(backoff))
    }

    pub fn attempt_timeout(self, time: Duration) -> Node {
        self.configure(|work| work.attempt_timeout(time))
    }

    /// Not before so long after the flow was submitted.
    pub fn delay(self, delay: Duration) -> Node {
        self.configure(|work| work.delay(delay))
    }

    /// It ends `expired` if it has not ended so long after the flow was submitted.
    pub fn deadline(self, deadline: Duration) -> Node {
        self.configure(|work| work.deadline(deadline))
    }

    pub fn policy(self, policy: Policy) -> Node {
        self.configure(|work| work.policy(policy))
    }

    fn edit(self, change: impl FnOnce(&mut super::sketch::Draft)) -> Node {
        self.drawing.sketch().edit(self.id, change);
        self
    }
}

impl Drawing {
    /// Adds one edge. Handles of other flows have nothing to do here.
    pub(super) fn connect(&self, upstream: Upstream, downstream: &Node) {
        for end in [upstream.drawing.flow(), downstream.flow()] {
            if end != self.flow() {
                let problem = "has an end in another flow; join nodes of one flow";
                return self.sketch().refuse(Error::invalid("edge", problem));
            }
        }
        let here = self.sketch().knows(upstream.line.upstream);
        if !here && !upstream.drawing.is(self) && !upstream.drawing.sketch().is_sent() {
            let problem =
                "comes from a node that was drawn elsewhere and is not submitted; submit that first";
            return self.sketch().refuse(Error::invalid("edge", problem));
        }
        self.sketch().connect(downstream.id, upstream.line);
    }
}
