//! Callers that wait for the end of an execution.

use ff_core::ExecutionId;
use ff_core::key::{Ask, Key};
use ff_core::payload::{PayloadKey, Slot};
use ff_core::workspace::Answer;
use ff_store::{Store, StoreError};

use super::{Answered, Done, Driver, Ended, Looked};

impl Driver {
    pub(super) fn add_wait(&mut self, execution: ExecutionId, answer: Answered<Ended>) {
        if let Some(ended) = self.recent.get(&execution) {
            let _ = answer.send(Ok(ended.clone()));
            return;
        }
        let waits = self.waits.entry(execution).or_default();
        waits.retain(|answer| !answer.is_closed());
        waits.push(answer);
        if !self.live.contains(&execution) {
            self.look(execution);
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
