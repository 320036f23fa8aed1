//! Callers that wait for the end of a flow: it ends with its last member.

use std::sync::Arc;

use ff_core::key::{Ask, Key};
use ff_core::workspace::Answer;
use ff_core::{Flow, FlowId, Rejection};
use ff_store::StoreError;

use super::{Answered, Done, Driver};
use crate::failure::Failure;

impl Driver {
    pub(super) fn add_flow_wait(&mut self, flow: FlowId, answer: Answered<Arc<Flow>>) {
        let waits = self.flow_waits.entry(flow).or_default();
        waits.retain(|answer| !answer.is_closed());
        waits.push(answer);
        // An end that comes after this is told by the commit that brings it.
        let partition = flow.route().partition(self.store.info().partitions);
        let known = self.machine.workspace(partition).flow(flow);
        let lives = matches!(known, Ok(Some(it)) if it.live.end.is_none());
        if !lives || self.machine.is_behind(partition) {
            self.look_at_flow(flow);
        }
    }

    pub(super) fn look_at_flow(&mut self, flow: FlowId) {
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let partition = flow.route().partition(store.info().partitions);
            let loaded = store.load(partition, vec![Ask::Record(Key::Flow(flow))]).await;
            let found = loaded.map(|loaded| match loaded.answers.into_iter().next() {
                Some(Answer::Flow(_, found)) => found,
                _ => None,
            });
            Done::LookedAtFlow { flow, found }
        }));
    }

    pub(super) fn looked_at_flow(&mut self, flow: FlowId, found: Result<Option<Arc<Flow>>, StoreError>) {
        let answer = match found {
            Ok(Some(found)) if found.live.end.is_none() => return,
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(Rejection::NotFound { what: "flow".into(), id: flow.to_string() }.into()),
            Err(error) => Err(Failure::Unavailable(error.to_string())),
        };
        self.answer_flow_waits(flow, &answer);
    }

    pub(super) fn answer_flow_waits(&mut self, flow: FlowId, answer: &Result<Arc<Flow>, Failure>) {
        for wait in self.flow_waits.remove(&flow).unwrap_or_default() {
            let _ = wait.send(answer.clone());
        }
    }
}
