//! Callers that wait for the end of an execution.

use ff_core::key::{Ask, Key};
use ff_core::payload::{PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, InstanceId, PartitionId};
use ff_store::{Store, StoreError};

use super::{Answered, Done, Driver, Ended, Looked};

impl Driver {
    pub(super) fn add_wait(&mut self, execution: ExecutionId, answer: Answered<Ended>) {
        // Of a partition that others have changed since, what is remembered may not be true any more.
        let partition = execution.route().partition(self.store.info().partitions);
        let behind = self.machine.is_behind(partition);
        if let Some(ended) = self.recent.get(&execution).filter(|_| !behind) {
            let _ = answer.send(Ok(ended.clone()));
            return;
        }
        let waits = self.waits.entry(execution).or_default();
        waits.retain(|answer| !answer.is_closed());
        waits.push(answer);
        // The end of what is known to live is told by the commit that brings it.
        let known = || self.machine.workspace(partition).execution(execution);
        let lives = || matches!(known(), Ok(Some(it)) if it.end().is_none());
        if behind || !(self.live.contains(&execution) || lives()) {
            self.look(execution);
        }
    }

    /// Tells the machine in which partitions somebody here waits for what other servers do.
    pub(super) fn watch_partitions(&mut self) {
        let count = self.store.info().partitions;
        let mut waited = vec![false; usize::from(count)];
        let behind: Vec<PartitionId> =
            (0..count).map(PartitionId).filter(|it| self.machine.is_behind(*it)).collect();
        if !behind.is_empty() {
            let routes = self.waits.keys().map(|id| id.route());
            let routes = routes.chain(self.flow_waits.keys().map(|id| id.route()));
            routes.for_each(|route| waited[route.partition(count).index()] = true);
        }
        for partition in (0..count).map(PartitionId) {
            let workspace = self.machine.workspace(partition);
            let holds = |instance: &InstanceId| workspace.leases_of(*instance).next().is_some();
            let watched =
                behind.contains(&partition) && (waited[partition.index()] || self.watchers.keys().any(holds));
            self.machine.watch(partition, watched);
        }
    }

    pub(super) fn look(&mut self, execution: ExecutionId) {
        let store = self.store.clone();
        self.ops.push(Box::pin(async move {
            let ended = look(&*store, execution).await;
            Done::Looked { execution, ended }
        }));
    }
}

/// Reads where an execution stands, and its result if it has ended.
async fn look(store: &dyn Store, execution: ExecutionId) -> Result<Looked, StoreError> {
    let partition = execution.route().partition(store.info().partitions);
    let loaded = store.load(partition, vec![Ask::Record(Key::Execution(execution))]).await?;
    let Some(Answer::Execution(_, Some(record))) = loaded.answers.into_iter().next() else {
        return Ok(Looked::Missing);
    };
    let Some(end) = record.end() else { return Ok(Looked::Alive) };
    let result = match end.result_bytes {
        Some(_) => store.payloads(vec![PayloadKey { execution, slot: Slot::Result }]).await?.pop().flatten(),
        None => None,
    };
    Ok(Looked::Ended(Ended { execution: record, result }))
}
