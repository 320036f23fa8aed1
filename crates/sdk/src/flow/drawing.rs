//! Where nodes and edges are drawn: shared by a builder and the handles it has given out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ff_core::{ExecutionId, FlowId};
use serde::Serialize;

use super::child::ChildFlow;
use super::node::{Node, Upstreams};
use super::sketch::Sketch;
use crate::{Fabric, Submission};

/// Nodes and edges that are being drawn. [`FlowBuilder`](crate::FlowBuilder), [`Growth`](crate::Growth) and
/// [`Expansion`](crate::Expansion) all draw in the same way.
#[derive(Clone, Debug)]
pub struct Drawing {
    fabric: Fabric,
    flow: FlowId,
    // A std mutex: it is held for a few instructions and never across an await.
    sketch: Arc<Mutex<Sketch>>,
    ids: Ids,
}

/// Where the ids of new nodes come from.
#[derive(Clone, Debug)]
enum Ids {
    Random,
    /// The caller has given the id of the flow: the same graph drawn again has the same ids, by how many were made before.
    Derived(Arc<AtomicU64>),
}

impl Ids {
    /// The random bits of the next id of a flow, if they are not to be random.
    fn next(&self, flow: FlowId) -> Option<u64> {
        let Ids::Derived(made) = self else { return None };
        let number = made.fetch_add(1, Ordering::Relaxed);
        Some(ff_core::id::derived(&[b"node", flow.0.as_bytes(), &number.to_be_bytes()]))
    }
}

impl Drawing {
    pub(super) fn new(fabric: &Fabric, flow: FlowId) -> Drawing {
        Drawing { fabric: fabric.clone(), flow, sketch: Arc::default(), ids: Ids::Random }
    }

    /// The same nodes drawn in the same order get the same ids.
    pub(super) fn repeatable(self) -> Drawing {
        Drawing { ids: Ids::Derived(Arc::default()), ..self }
    }

    /// Whether somebody else may have drawn nodes with these ids.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self.ids, Ids::Derived(_))
    }

    pub(super) fn sketch(&self) -> MutexGuard<'_, Sketch> {
        self.sketch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn flow(&self) -> FlowId {
        self.flow
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Whether this is where a handle was made.
    pub(super) fn is(&self, other: &Drawing) -> bool {
        Arc::ptr_eq(&self.sketch, &other.sketch)
    }

    /// Adds a node: `kind` is the name of the task, `input` becomes JSON. The handle says what it waits for and
    /// how it runs, and what waits for it.
    pub fn node<In: Serialize + ?Sized>(&self, kind: &str, input: &In) -> Node {
        self.draw(kind, Submission::new(kind, input))
    }

    /// Adds a node that runs a submission made by itself, such as one whose input is not JSON.
    pub fn add(&self, work: Submission) -> Node {
        let kind = work.kind().unwrap_or("?").to_owned();
        self.draw(&kind, work)
    }

    fn draw(&self, kind: &str, work: Submission) -> Node {
        let id = match self.ids.next(self.flow) {
            Some(bits) => ExecutionId::from_parts(self.flow.created_at(), self.flow.route(), bits),
            None => self.fabric.link().new_member_id(self.fabric.wall(), self.flow),
        };
        self.sketch().add(id, kind, work);
        Node::new(self.clone(), id)
    }

    /// Adds a node that is a flow of its own; `kind` is what sort of flow.
    pub fn child(&self, kind: &str) -> ChildFlow {
        let inner = match self.ids.next(self.flow) {
            Some(bits) => {
                let id = FlowId::from_parts(self.flow.created_at(), self.flow.route(), bits);
                Drawing::new(&self.fabric, id).repeatable()
            }
            None => {
                let id = self.fabric.link().new_child_id(self.fabric.wall(), self.flow);
                Drawing::new(&self.fabric, id)
            }
        };
        let node = self.draw(kind, Submission::new(kind, &()));
        self.sketch().edit(node.id(), |draft| draft.child = Some(inner.clone()));
        ChildFlow::new(inner, node)
    }

    /// A handle on a node that is in the flow already.
    pub fn member(&self, id: ExecutionId) -> Node {
        Node::new(self.clone(), id)
    }

    /// Adds edges to a node, which is new or was added [open](Node::open).
    pub fn edge(&self, upstreams: impl Upstreams, downstream: &Node) {
        for upstream in upstreams.into_upstreams() {
            self.connect(upstream, downstream);
        }
    }
}
