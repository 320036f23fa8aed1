//! The same for flows: what a subscriber knows of a flow from its events. How its members stand is told by theirs.

use crate::event::{Event, Fact};
use crate::flow::{CancelPolicy, Flow, FlowState};
use crate::tags::Tags;

#[derive(Clone, Debug, PartialEq)]
pub struct FoldedFlow {
    pub nodes: u64,
    pub edges: u64,
    pub revision: u64,
    pub sealed: bool,
    pub cancelled: Option<CancelPolicy>,
    pub ended: Option<FlowState>,
    pub tags: Tags,
}

impl FoldedFlow {
    /// What the stored record says, in the same form.
    pub fn of(flow: &Flow) -> FoldedFlow {
        let live = &flow.live;
        FoldedFlow {
            nodes: live.nodes,
            edges: live.edges,
            revision: live.revision,
            sealed: live.sealed,
            cancelled: live.cancel.as_ref().map(|cancel| cancel.policy),
            ended: live.end.as_ref().map(|end| end.state),
            tags: live.tags.clone(),
        }
    }

    /// Applies one event that names the flow; `None` before it is created and after it is removed.
    pub fn apply(folded: Option<FoldedFlow>, event: &Event) -> Option<FoldedFlow> {
        if let Fact::FlowCreated { nodes, edges, sealed, .. } = event.fact {
            let (revision, tags) = (1, event.tags.clone());
            return Some(FoldedFlow { nodes, edges, revision, sealed, cancelled: None, ended: None, tags });
        }
        let mut it = folded?;
        match &event.fact {
            Fact::FlowGrown { nodes, edges, revision, .. } => {
                it.nodes += nodes;
                it.edges += edges;
                it.revision = *revision;
            }
            Fact::FlowSealed { revision, .. } => {
                it.sealed = true;
                it.revision = *revision;
            }
            Fact::NodeSealed { revision, .. } | Fact::PolicySet { revision, .. } => it.revision = *revision,
            Fact::FlowCancelRequested { policy, .. } => {
                it.sealed = true;
                it.cancelled = Some(*policy);
            }
            Fact::FlowEnded { state } => it.ended = Some(*state),
            // Only a child flow runs again after it was cancelled, and then as if it had not been.
            Fact::FlowReopened => (it.ended, it.cancelled) = (None, None),
            Fact::FlowTagged { tags, .. } => it.tags = tags.clone(),
            Fact::FlowRemoved => return None,
            _ => {}
        }
        Some(it)
    }
}
