//! Purging: every trace of an execution goes, and nothing else.

use ff_core::ExecutionId;
use ff_core::key::{Ask, Key};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::workspace::Answer;

use super::super::stand::START;
use super::super::{Check, Stand, ensure_eq, samples};

/// Executions of every state, with payloads and attempts, written to the last partition.
async fn populate(stand: &mut Stand) -> Result<Vec<ExecutionId>, String> {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    let mut ids = Vec::new();
    for (n, state) in samples::states(instance).into_iter().enumerate() {
        let id = samples::id(stand.partitions, partition, n as u64);
        let desk = stand.desk(partition);
        desk.put_execution(samples::full(id, instance, state), START);
        for slot in Slot::ALL {
            desk.put_payload(PayloadKey { execution: id, slot }, Payload::json(format!("{n}")));
        }
        (1..=3).for_each(|number| desk.archive_attempt(id, samples::attempt(number, instance)));
        ids.push(id);
    }
    stand.flush(partition).await?;
    Ok(ids)
}

async fn is_gone(stand: &Stand, id: ExecutionId) -> Check {
    let got = stand.ask(stand.last(), Ask::Record(Key::Execution(id))).await?;
    ensure_eq!(got, Answer::Execution(id, None), "a purged execution");
    let keys = Slot::ALL.map(|slot| PayloadKey { execution: id, slot }).to_vec();
    ensure_eq!(stand.store.payloads(keys).await, Ok(vec![None, None]), "payloads of a purged execution");
    ensure_eq!(stand.store.attempts(id).await, Ok(vec![]), "attempts of a purged execution");
    Ok(())
}

pub async fn a_purge_leaves_nothing(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let ids = populate(stand).await?;
    for id in &ids {
        stand.desk(partition).purge_execution(*id);
    }
    stand.flush(partition).await?;
    for id in &ids {
        is_gone(stand, *id).await?;
    }
    ensure_eq!(stand.store.counts().await, Ok(vec![]), "counts after everything was purged");
    stand.same().await?;
    // The ids can be used again and bring nothing back.
    for (n, id) in ids.iter().enumerate() {
        stand.desk(partition).put_execution(samples::ready(*id, START, n as u64), START);
    }
    stand.flush(partition).await?;
    stand.same().await
}

pub async fn a_purge_spares_the_neighbours(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let ids = populate(stand).await?;
    for id in ids.into_iter().step_by(2) {
        stand.desk(partition).purge_execution(id);
        stand.flush(partition).await?;
        is_gone(stand, id).await?;
        stand.same().await?;
    }
    Ok(())
}
