//! One part of a bulk operation: some executions are read, each gets its command, and the operation moves on.

use std::sync::Arc;

use ff_core::commands::{AdvanceBulk, Reached};
use ff_core::registry::{BulkCounts, BulkOperation, Selection};
use ff_core::{Execution, ExecutionId};

use super::bulk;
use crate::engine::Engine;
use crate::failure::Failure;

/// The executions that a part looks at, in their order; those that are not there have no record.
#[derive(Debug)]
pub(super) struct Found {
    pub items: Vec<(ExecutionId, Option<Arc<Execution>>)>,
    /// Where the operation stands when all of them are done.
    pub reached: Reached,
}

impl Found {
    /// Moves a selection that nobody stores on; whether there is more.
    pub fn go_on(&self, selection: &mut Selection) -> bool {
        match (selection, self.reached) {
            (Selection::Ids(left), Reached::Ids(count)) => {
                left.drain(..count.min(left.len()));
                !left.is_empty()
            }
            (Selection::Filter { after, up_to, .. }, Reached::After(id)) => {
                *after = Some(id);
                id < *up_to
            }
            _ => false,
        }
    }
}

impl Engine {
    /// Carries out the next part of an operation that is this server's.
    ///
    /// # Errors
    /// Why nothing could be done; what was done before that counts.
    pub(super) async fn next_part(&self, operation: &BulkOperation) -> Result<Arc<BulkOperation>, Failure> {
        let found = self.next_of_bulk(operation).await?;
        let (counts, sent, whole) = self.carry_out(operation, &found.items).await?;
        let reached = match whole {
            true => found.reached,
            false => shortened(operation, &found.items, counts.seen),
        };
        let command = AdvanceBulk {
            bulk: operation.id.clone(),
            server: self.server().into(),
            part: operation.parts + 1,
            reached,
            counts,
            sent,
        };
        bulk(self.execute(command).await?)
    }

    /// Finds the executions of the next part.
    pub(super) async fn next_of_bulk(&self, operation: &BulkOperation) -> Result<Found, Failure> {
        if let Some(ids) = operation.next_ids() {
            let records = self.get_many(ids).await?;
            let items = ids.iter().map(|id| (*id, records.get(id).cloned()));
            return Ok(Found { items: items.collect(), reached: Reached::Ids(ids.len()) });
        }
        let Some(ask) = operation.next_page() else {
            return Ok(Found { items: Vec::new(), reached: Reached::End });
        };
        let page = self.list(ask).await?;
        let count = page.executions.len();
        let items = page.executions.into_iter().filter(|it| operation.holds(it.id));
        let items: Vec<_> = items.map(|it| (it.id, Some(Arc::new(it)))).collect();
        let reached = match page.next {
            Some(next) if items.len() == count => Reached::After(next),
            _ => Reached::End,
        };
        Ok(Found { items, reached })
    }

    /// Does what is asked to each, as far as the engine takes it: what became of them, how many commands were sent, and
    /// whether that was all.
    async fn carry_out(
        &self,
        operation: &BulkOperation,
        items: &[(ExecutionId, Option<Arc<Execution>>)],
    ) -> Result<(BulkCounts, u64, bool), Failure> {
        let asked = items.iter().map(|(id, execution)| match execution {
            Some(execution) => operation.command(execution),
            None => Err(operation.missing(*id)),
        });
        let asked: Vec<_> = asked.collect();
        let commands = asked.iter().filter_map(|it| it.as_ref().ok()).cloned().collect();
        let mut replies = self.execute_all(commands).await.into_iter();
        let (mut counts, mut sent) = (BulkCounts::default(), 0);
        for ((id, _), asked) in items.iter().zip(asked) {
            let reply = match asked {
                Ok(_) => replies.next().unwrap_or(Err(Failure::ShuttingDown)),
                Err(skip) => {
                    counts.seen += 1;
                    counts.skip(*id, skip.code, skip.detail);
                    continue;
                }
            };
            match reply {
                Ok(_) => counts.done += 1,
                Err(Failure::Rejected(rejection)) => {
                    counts.skip(*id, rejection.code(), rejection.to_string());
                }
                Err(failure @ Failure::Internal(_)) => counts.fail(*id, failure.code(), failure.to_string()),
                // It may go better later, from here on.
                Err(failure) if counts.seen == 0 => return Err(failure),
                Err(_) => return Ok((counts, sent, false)),
            }
            counts.seen += 1;
            sent += 1;
        }
        Ok((counts, sent, true))
    }
}

/// Where an operation stands after the first few executions of a part.
fn shortened(
    operation: &BulkOperation,
    items: &[(ExecutionId, Option<Arc<Execution>>)],
    seen: u64,
) -> Reached {
    let count = usize::try_from(seen).unwrap_or(usize::MAX).min(items.len());
    match (&operation.selection, items[..count].last()) {
        (Selection::Filter { .. }, Some((id, _))) => Reached::After(*id),
        _ => Reached::Ids(count),
    }
}
