//! What is done to a flow that exists: sealed, cancelled, tagged.

use std::sync::Arc;

use ff_core::commands::{CancelFlow, Seal, SetGroupPolicy, TagFlow};
use ff_core::flow::{CancelPolicy, Join};
use ff_core::{ExecutionId, Flow, FlowId, Reply};

use crate::fabric::odd_reply;
use crate::operation::{Asked, Operation};
use crate::{Error, Fabric};

/// A flow that was cancelled, and some of its members.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowCancelled {
    pub flow: Arc<Flow>,
    /// Up to 1,000, in the order in which they were added.
    pub members: Vec<ExecutionId>,
    /// Where the next members start: repeat the call with
    /// [`members_after`](Operation::members_after). Absent when there are no more.
    pub next: Option<u64>,
}

fn flow_of(reply: Reply) -> Result<Arc<Flow>, Error> {
    match reply {
        Reply::Flow { flow, .. } => Ok(flow),
        reply => Err(odd_reply(&reply)),
    }
}

fn cancelled(reply: Reply) -> Result<FlowCancelled, Error> {
    match reply {
        Reply::FlowCancelled { flow, members, next } => Ok(FlowCancelled { flow, members, next }),
        reply => Err(odd_reply(&reply)),
    }
}

fn policy_set(reply: Reply) -> Result<bool, Error> {
    match reply {
        Reply::PolicySet { already } => Ok(already),
        reply => Err(odd_reply(&reply)),
    }
}

impl Fabric {
    /// Cancels a flow: it takes nothing more, and of its members those that the policy names are cancelled.
    /// Large flows are cancelled in parts; [`FlowRun::wait`](crate::FlowRun::wait) waits for the last member.
    pub fn cancel_flow(&self, flow: FlowId, policy: CancelPolicy) -> Operation<FlowCancelled> {
        Operation::new(self, cancelled, move |Asked { actor, cause, members_after, .. }| {
            Ok(CancelFlow { flow, policy, members_after, actor, cause }.into())
        })
    }

    /// Ends additions from outside.
    pub fn seal_flow(&self, flow: FlowId) -> Operation<Arc<Flow>> {
        self.seal(flow, None)
    }

    /// Ends the addition of upstreams to an open node.
    pub fn seal_node(&self, flow: FlowId, node: ExecutionId) -> Operation<Arc<Flow>> {
        self.seal(flow, Some(node))
    }

    fn seal(&self, flow: FlowId, node: Option<ExecutionId>) -> Operation<Arc<Flow>> {
        Operation::new(self, flow_of, move |Asked { actor, cause, expected_revision, .. }| {
            Ok(Seal { flow, node, expected_revision, actor, cause }.into())
        })
    }

    /// Says how many upstreams an open node needs, before it has its first. Answers whether that was said before.
    pub fn set_join(&self, flow: FlowId, node: ExecutionId, join: Join) -> Operation<bool> {
        Operation::new(self, policy_set, move |Asked { actor, cause, expected_revision, .. }| {
            Ok(SetGroupPolicy { flow, node, join, expected_revision, actor, cause }.into())
        })
    }

    /// Sets tags of a flow (`Some`) and removes tags (`None`).
    pub fn tag_flow<'a>(
        &self,
        flow: FlowId,
        tags: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Operation<Arc<Flow>> {
        let (mut set, mut remove) = (Vec::new(), Vec::new());
        for (key, value) in tags {
            match value {
                Some(value) => set.push((key.into(), value.into())),
                None => remove.push(key.into()),
            }
        }
        Operation::new(self, flow_of, move |Asked { actor, cause, .. }| {
            Ok(TagFlow { flow, set, remove, actor, cause }.into())
        })
    }
}

impl Operation<FlowCancelled> {
    /// Cancels it and waits until its last member has ended.
    ///
    /// # Errors
    /// As those of the cancel, and of [`FlowRun::wait`](crate::FlowRun::wait).
    pub async fn until_ended(self) -> Result<Arc<Flow>, Error> {
        let fabric = self.fabric().clone();
        let flow = self.await?.flow;
        fabric.retried(|| fabric.link().wait_flow(flow.id)).await
    }

    /// The members after a number, for the next page of ids.
    pub fn members_after(mut self, number: u64) -> Self {
        self.asked_mut().members_after = number;
        self
    }
}

impl Operation<Arc<Flow>> {
    /// Refuses if the graph has another revision.
    pub fn expected_revision(mut self, revision: u64) -> Self {
        self.asked_mut().expected_revision = Some(revision);
        self
    }
}

impl Operation<bool> {
    /// Refuses if the graph has another revision.
    pub fn expected_revision(mut self, revision: u64) -> Self {
        self.asked_mut().expected_revision = Some(revision);
        self
    }
}
