//! Remove one ended execution with its payloads and attempts, before retention would.

use super::Decision;
use super::start_child::cancel_children;
use crate::Ms;
use crate::event::{By, Fact};
use crate::id::ExecutionId;
use crate::key::DedupKey;
use crate::rejection::Rejection;
use crate::reply::Reply;
use crate::workspace::Workspace;

/// Removes an ended execution with every trace but its events.
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
            return Err(
                Rejection::NotTerminal { execution: self.execution, state, verb: "removed".into() }.into()
            );
        }
        if let Some(flow) = current.flow() {
            return Err(Rejection::InFlow { execution: self.execution, flow }.into());
        }
        if let Some(key) = current.spec.idempotency_key.clone() {
            let key = DedupKey { namespace: current.spec.namespace.clone(), key };
            if ws.dedup(&key)?.is_some_and(|dedup| dedup.execution == self.execution) {
                ws.put_dedup(key, None);
            }
        }
        while cancel_children(ws, now, self.execution)? {}
        ws.know_stream(self.execution)?;
        let by = Some(By::new(&self.actor, &self.cause));
        ws.emit(&current, now, Fact::Removed { by });
        ws.purge_execution(self.execution);
        Ok(Reply::Removed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Create;
    use super::super::testing::*;
    use super::*;
    use crate::id::Route;

    #[test]
    fn only_what_has_ended_is_removed_and_then_nothing_of_it_is_left() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let fence = bench.active();
            let id = fence.execution;
            assert_eq!(bench.refused(remove(id)).code(), "not_terminal");
            bench.ok(fail(fence));
            bench.pass(1_000);
            let fence = bench.claim();
            bench.ok(complete(fence));
            assert_eq!(bench.ok(remove(id)), Reply::Removed);
            assert!(bench.find(id).is_none());
            let by = Some(By::new("op", "test"));
            assert_eq!(bench.store.events.last().unwrap().fact, Fact::Removed { by });
            assert!(bench.store.attempts.is_empty() && bench.store.payloads.is_empty());
            assert_eq!(bench.refused(remove(id)).code(), "not_found");
            assert_eq!(bench.refused(complete(fence)).code(), "not_found");
        }
    }

    #[test]
    fn its_idempotency_key_is_free_at_once() {
        for memory in [Memory::Everything, Memory::Nothing] {
            let mut bench = Bench::new();
            bench.memory = memory;
            let route = Route::of_key("default", "k");
            let mut create = Create { idempotency_key: Some("k".into()), ..bench.submission() };
            create.id = ExecutionId::from_parts(bench.now, route, 1);
            bench.ok(create.clone());
            bench.ok(cancel(create.id, None));
            bench.ok(remove(create.id));
            create.id = ExecutionId::from_parts(bench.now, route, 2);
            assert_eq!(bench.ok(create.clone()), Reply::Created { execution: create.id, existing: false });
        }
    }

    #[test]
    fn an_id_removed_and_used_again_in_one_batch_starts_anew() {
        let mut bench = Bench::new();
        let first = bench.active();
        bench.ok(super::super::Release::new(first));
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
