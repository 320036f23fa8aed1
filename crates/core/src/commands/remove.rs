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

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn an_id_removed_and_used_again_in_one_batch_starts_anew() {
        let mut bench = Bench::new();
        let first = bench.active();
        bench.ok(super::super::Release { fence: first });
        let second = bench.claim();
        bench.ok(complete(second));
        bench.batch_size = 0;
        let remove = Remove { execution: first.execution, actor: "a".into(), cause: "c".into() };
        bench.ok(remove);
        let again = bench.submission();
        bench.ok(super::super::Create { id: first.execution, priority: 7, ..again });
        bench.commit();
        let it = bench.get(first.execution);
        assert_eq!((it.attempt_number(), it.live.epoch, it.live.priority), (0, 0, 7));
        let left = bench.store.attempts.keys().filter(|(id, _)| *id == first.execution).count();
        assert_eq!(left, 0, "nothing of the first bearer of the id stays");
    }
}
