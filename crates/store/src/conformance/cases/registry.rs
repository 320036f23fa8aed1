//! Records of the registry: alike to a store, whatever they are.

use std::sync::Arc;

use ff_core::PartitionId;
use ff_core::key::Ask;
use ff_core::registry::{Record, RecordKey, RecordKind};
use ff_core::workspace::Answer;

use super::super::{Check, Stand, ensure, registry_samples as samples};

async fn read(
    stand: &Stand,
    partition: PartitionId,
    kind: RecordKind,
    id: Option<&str>,
) -> Result<Vec<Arc<Record>>, String> {
    let asked: Option<Box<str>> = id.map(Into::into);
    match stand.ask(partition, Ask::Registry { kind, id: asked.clone() }).await? {
        Answer::Registry { kind: told, id, records } if told == kind && id == asked => Ok(records),
        other => Err(format!("records of kind {kind} were asked for, the answer was {other:?}")),
    }
}

/// Not compared by their text, which does not show what is secret.
fn same(what: &str, got: &[Arc<Record>], want: &[Record]) -> Check {
    ensure!(got.iter().map(|it| &**it).eq(want), "{what}: got {got:?}, want {want:?}");
    Ok(())
}

async fn expect(
    stand: &Stand,
    partition: PartitionId,
    (kind, id): (RecordKind, Option<&str>),
    want: &[Record],
) -> Check {
    let got = read(stand, partition, kind, id).await?;
    same(&format!("{kind} {id:?} of partition {partition}"), &got, want)
}

pub async fn records_of_the_registry_read_back_and_go(stand: &mut Stand) -> Check {
    let (token, webhook, bulk) = (RecordKind::Token, RecordKind::Webhook, RecordKind::Bulk);
    for partition in stand.each() {
        // Each partition has its own under the same ids.
        let n = partition.0 as u8 * 10;
        let written = [
            samples::token("a", n),
            samples::token("b", n + 1),
            samples::webhook("a", n + 2),
            samples::bulk("a", 0),
            samples::bulk("b", 1),
        ];
        let desk = stand.desk(partition);
        written.iter().for_each(|record| desk.put_record(record.clone()));
        stand.flush(partition).await?;
    }
    for partition in stand.each() {
        let n = partition.0 as u8 * 10;
        let [a, b, hook] = [samples::token("a", n), samples::token("b", n + 1), samples::webhook("a", n + 2)];
        expect(stand, partition, (token, Some("a")), &[a]).await?;
        expect(stand, partition, (token, Some("b")), std::slice::from_ref(&b)).await?;
        expect(stand, partition, (webhook, Some("a")), std::slice::from_ref(&hook)).await?;
        expect(stand, partition, (webhook, Some("b")), &[]).await?;
        expect(stand, partition, (bulk, None), &[samples::bulk("a", 0), samples::bulk("b", 1)]).await?;
        let revoked = samples::revoked_token("a", n + 3);
        stand.desk(partition).put_record(revoked.clone());
        stand.flush(partition).await?;
        expect(stand, partition, (token, None), &[revoked, b.clone()]).await?;
        stand.desk(partition).drop_record(RecordKey::token("a"));
        stand.flush(partition).await?;
        expect(stand, partition, (token, Some("a")), &[]).await?;
        expect(stand, partition, (token, None), &[b]).await?;
        expect(stand, partition, (webhook, None), &[hook]).await?;
    }
    stand.same().await
}

pub async fn records_of_a_kind_come_in_the_order_of_their_ids(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let mut ids = ["z", "a", "a-b", "a_b", "a0", "10", "9", "ab", "b"];
    for (number, id) in ids.iter().enumerate() {
        stand.desk(partition).put_record(samples::token(id, number as u8));
    }
    stand.flush(partition).await?;
    ids.sort_unstable();
    let found = read(stand, partition, RecordKind::Token, None).await?;
    let order: Vec<Box<str>> = found.iter().map(|record| record.key().id).collect();
    ensure!(order.iter().map(|id| &**id).eq(ids), "the order is {order:?}, not {ids:?}");
    stand.same().await
}
