//! Payloads and attempts: bytes and text as they were given.

use bytes::Bytes;
use ff_core::key::{Dedup, DedupKey};
use ff_core::payload::{Payload, PayloadKey, Slot};
use ff_core::{ExecutionId, Namespace};

use super::super::samples::{self, ODD};
use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq};

pub async fn odd_text_reads_back(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    // Each kind of trouble alone, so that a failure names it.
    let texts =
        ["'", "\"", "\\", "\n", "\r\n", "\t", " a ", "ä", "漢", "😀", "e\u{301}", "\u{7f}", "", "%s", ODD];
    for (n, text) in texts.into_iter().enumerate() {
        let id = samples::id(stand.partitions, partition, n as u64);
        let mut it = samples::ready(id, START, n as u64);
        it.live.tags = samples::tags(&[("text", text)]);
        let mut attempt = samples::attempt(1, instance);
        attempt.progress =
            attempt.progress.map(|it| ff_core::attempt::Progress { message: Some(text.into()), ..it });
        it.live.attempt = Some(attempt);
        let desk = stand.desk(partition);
        desk.put_execution(it.clone(), START);
        let by = ff_core::event::By::new(text, text);
        desk.emit(&it, START, ff_core::event::Fact::Held { by });
        let key = DedupKey { namespace: Namespace::default(), key: text.into() };
        desk.put_dedup(key, Some(Dedup { execution: id, expires_at: START }));
        let payload = Payload { content_type: text.into(), bytes: Bytes::copy_from_slice(text.as_bytes()) };
        desk.put_payload(PayloadKey { execution: id, slot: Slot::Input }, payload);
        stand.flush(partition).await?;
        stand.same().await.map_err(|problem| format!("with the text {text:?}: {problem}"))?;
    }
    Ok(())
}

async fn payload(stand: &Stand, execution: ExecutionId, slot: Slot) -> Result<Option<Payload>, String> {
    let key = PayloadKey { execution, slot };
    let payloads = stand.store.payloads(vec![key]).await.map_err(|error| error.to_string())?;
    super::super::stand::ensure_one(payloads)
}

pub async fn large_payloads_read_back(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let sizes = [0, 1, 255, 65_536, 4 << 20];
    // Every byte value, in no order that compresses away.
    let bytes = |len: usize| (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8);
    for (n, size) in sizes.into_iter().enumerate() {
        let id = samples::id(stand.partitions, partition, n as u64);
        let octets = Payload { content_type: "x/y; z=\"ä\"".into(), bytes: bytes(size).collect() };
        stand.desk(partition).put_execution(samples::ready(id, START, n as u64), START);
        stand.desk(partition).put_payload(PayloadKey { execution: id, slot: Slot::Result }, octets.clone());
        stand.flush(partition).await?;
        let got = payload(stand, id, Slot::Result).await?;
        ensure!(got.as_ref() == Some(&octets), "a payload of {size} bytes does not read back");
        ensure_eq!(payload(stand, id, Slot::Input).await?, None, "the other payload");
    }
    Ok(())
}

pub async fn payloads_are_replaced(stand: &mut Stand) -> Check {
    let mut keys = Vec::new();
    for partition in stand.each() {
        let id = samples::id(stand.partitions, partition, 1);
        stand.desk(partition).put_execution(samples::execution(id), START);
        for text in ["\"first and longer\"", "2", "3.0"] {
            for slot in Slot::ALL {
                let payload = Payload::json(format!("[{text},\"{}\"]", slot.word()));
                stand.desk(partition).put_payload(PayloadKey { execution: id, slot }, payload);
            }
            stand.flush(partition).await?;
        }
        keys.extend(Slot::ALL.map(|slot| PayloadKey { execution: id, slot }));
    }
    // Asked for all at once, backwards, one of them twice.
    keys.reverse();
    keys.push(keys[0]);
    let want: Vec<_> =
        keys.iter().map(|key| Some(Payload::json(format!("[3.0,\"{}\"]", key.slot.word())))).collect();
    ensure_eq!(stand.store.payloads(keys).await, Ok(want), "payloads of all partitions");
    stand.same().await
}

pub async fn attempts_read_back_in_order(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let instance = samples::instance(stand.partitions, partition, 1);
    let (id, other) =
        (samples::id(stand.partitions, partition, 1), samples::id(stand.partitions, partition, 2));
    stand.desk(partition).put_execution(samples::ready(id, START, 1), START);
    stand.desk(partition).put_execution(samples::ready(other, START, 2), START);
    let mut want = Vec::new();
    for number in 1..=12 {
        let mut attempt = samples::attempt(number, instance);
        if number % 2 == 0 {
            (attempt.progress, attempt.leased_ms) = (None, 0);
        }
        stand.desk(partition).archive_attempt(id, attempt.clone());
        want.push(attempt);
        if number % 3 == 0 {
            stand.flush(partition).await?;
        }
    }
    ensure_eq!(stand.store.attempts(id).await, Ok(want), "attempts");
    ensure_eq!(stand.store.attempts(other).await, Ok(vec![]), "attempts of another execution");
    Ok(())
}
