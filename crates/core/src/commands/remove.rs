//! Remove one ended execution with its payloads and attempts, before retention would.

use super::Decision;
use crate::Ms;
use crate::event::Fact;
use crate::id::ExecutionId;
use crate::key::DedupKey;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

#[derive(Clone, Debug, PartialEq)]
pub struct Remove {
    pub execution: ExecutionId,
    pub actor: Box<str>,
    pub cause: Box<str>,
}

impl Remove {
    pub(super) fn decide(&self, ws: &mut Workspace, now: Ms) -> Decision {
        let current = ws.require(self.execution)?.clone();
        if current.end().is_none() {
            let state = current.public_state();
            return Err(Rejection::NotTerminal { execution: self.execution, state, verb: "removed" }.into());
        }
        if let Some(key) = current.spec.idempotency_key.clone() {
            let key = DedupKey { namespace: current.spec.namespace.clone(), key };
            if ws.dedup(&key)?.is_some_and(|dedup| dedup.execution == self.execution) {
                ws.put_dedup(key, None);
            }
        }
        ws.emit(&current, now, Fact::Removed);
        ws.purge_execution(self.execution);
        Ok(Reply::Removed)
    }
}
