//! Output streams: the record, and frames in both orders, in pages, and trimmed.

use ff_core::key::{Ask, Key};
use ff_core::query::{FramePageAsk, Order};
use ff_core::stream::{Frame, FrameMode, Stream, Trim};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, PartitionId};

use super::super::stand::START;
use super::super::{Check, Stand, ensure_eq, mail_samples, samples};

const MANY: usize = 1_000;
const ALL_BYTES: usize = usize::MAX >> 1;

async fn read_stream(
    stand: &Stand,
    partition: PartitionId,
    id: ExecutionId,
) -> Result<Option<Stream>, String> {
    match stand.ask(partition, Ask::Record(Key::Stream(id))).await? {
        Answer::Stream(told, stream) if told == id => Ok(stream.map(|it| (*it).clone())),
        other => Err(format!("the stream of {id} was asked for, the answer was {other:?}")),
    }
}

async fn read(stand: &Stand, ask: FramePageAsk) -> Result<Vec<Frame>, String> {
    stand.store.frames(ask).await.map_err(|error| error.to_string())
}

pub async fn streams_read_back_and_go(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        let id = samples::id(stand.partitions, partition, 1);
        for stream in mail_samples::streams(id) {
            stand.desk(partition).put_stream(stream.clone());
            stand.flush(partition).await?;
            let read = read_stream(stand, partition, id).await?;
            ensure_eq!(read, Some(stream), "a stream that was written");
            stand.same().await?;
        }
        let nobody = samples::id(stand.partitions, partition, 2);
        ensure_eq!(read_stream(stand, partition, nobody).await?, None, "a stream that never was");
    }
    let partition = stand.last();
    let id = samples::id(stand.partitions, partition, 1);
    let now = stand.now();
    let mut changes = stand.desk(partition).take_batch(now);
    changes.streams.push((id, None));
    stand.write(partition, changes).await?;
    ensure_eq!(read_stream(stand, partition, id).await?, None, "a stream that was removed");
    Ok(())
}

pub async fn frames_come_in_both_orders_and_in_pages(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let [id, other] = [1, 2].map(|n| samples::id(stand.partitions, partition, n));
    for number in 1..=20 {
        for (execution, attempt) in [(id, 1), (id, 2), (id, 3), (other, 2)] {
            stand.desk(partition).put_frame(mail_samples::frame(execution, attempt, number));
        }
    }
    stand.flush(partition).await?;
    let ask =
        |order, after, limit, bytes| FramePageAsk { execution: id, attempt: 2, order, after, limit, bytes };
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let mut want: Vec<Frame> = (1..=20).map(|number| mail_samples::frame(id, 2, number)).collect();
        if order == Order::NewestFirst {
            want.reverse();
        }
        for limit in [1, 3, 20, 21, MANY] {
            let (mut all, mut after) = (Vec::new(), 0);
            for _ in 0..MANY {
                let page = read(stand, ask(order, after, limit, ALL_BYTES)).await?;
                ensure_eq!(page.len() <= limit, true, "{} frames where at most {limit} may", page.len());
                let Some(last) = page.last() else { break };
                after = last.number;
                all.extend(page);
                if after == 1 && order == Order::NewestFirst {
                    break;
                }
            }
            ensure_eq!(all, want, "frames in pages of {limit}, {order:?}");
        }
        // A page ends with the frame that fills it, and is never empty for want of room.
        for bytes in [0, 1, 7, 60, ALL_BYTES] {
            let mut total = 0;
            let fits = |(at, frame): &(usize, Frame)| {
                let fits = *at == 0 || total < bytes;
                total += frame.bytes.len();
                fits
            };
            let want: Vec<Frame> =
                want.iter().cloned().enumerate().take_while(fits).map(|(_, it)| it).collect();
            ensure_eq!(read(stand, ask(order, 0, MANY, bytes)).await?, want, "a page of {bytes} bytes");
        }
        ensure_eq!(read(stand, ask(order, 0, 0, ALL_BYTES)).await?, [], "a page of no frames");
    }
    let none = FramePageAsk { attempt: 4, ..ask(Order::OldestFirst, 0, MANY, ALL_BYTES) };
    ensure_eq!(read(stand, none).await?, [], "frames of an attempt that never was");
    ensure_eq!(read(stand, ask(Order::OldestFirst, 20, MANY, ALL_BYTES)).await?, [], "frames after the last");
    Ok(())
}

pub async fn frames_are_trimmed_before_others_come(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let [id, other] = [1, 2].map(|n| samples::id(stand.partitions, partition, n));
    let mut kept: Vec<Frame> = Vec::new();
    for number in 1..=12 {
        for (execution, attempt) in [(id, 1), (id, 2), (other, 1)] {
            let frame = mail_samples::frame(execution, attempt, number);
            stand.desk(partition).put_frame(frame.clone());
            kept.push(frame);
        }
    }
    stand.flush(partition).await?;
    check_kept(stand, &kept).await?;
    let trims = [
        vec![Trim::Below { execution: id, attempt: 2, number: 5 }],
        vec![Trim::Older { execution: id, mode: FrameMode::BestEffort, before: START + 9 }],
        vec![
            Trim::Older { execution: id, mode: FrameMode::Durable, before: START + 4 },
            Trim::Below { execution: id, attempt: 1, number: 7 },
        ],
        vec![Trim::Below { execution: id, attempt: 2, number: 1_000 }],
    ];
    for (round, trims) in trims.into_iter().enumerate() {
        for trim in trims {
            stand.desk(partition).trim_frames(trim);
            kept.retain(|frame| !trim.takes(frame));
        }
        // What comes with a trim was decided with it in mind.
        let next = mail_samples::frame(id, 1, 13 + round as u64);
        let now = stand.now();
        let mut changes = stand.desk(partition).take_batch(now);
        changes.frames.push(next.clone());
        stand.write(partition, changes).await?;
        kept.push(next);
        check_kept(stand, &kept).await?;
    }
    // A frame may come back under a number that was trimmed.
    let now = stand.now();
    let mut changes = stand.desk(partition).take_batch(now);
    changes.frames_trimmed.push(Trim::Below { execution: id, attempt: 1, number: 1_000 });
    changes.frames.push(mail_samples::frame(id, 1, 14));
    stand.write(partition, changes).await?;
    kept.retain(|frame| frame.execution != id || frame.attempt != 1);
    kept.push(mail_samples::frame(id, 1, 14));
    check_kept(stand, &kept).await
}

async fn check_kept(stand: &Stand, kept: &[Frame]) -> Check {
    for n in [1, 2] {
        let execution = samples::id(stand.partitions, stand.last(), n);
        for attempt in [1, 2] {
            let (order, after, limit, bytes) = (Order::OldestFirst, 0, MANY, ALL_BYTES);
            let ask = FramePageAsk { execution, attempt, order, after, limit, bytes };
            let mine = kept.iter().filter(|it| it.execution == execution && it.attempt == attempt);
            let mut want: Vec<Frame> = mine.cloned().collect();
            want.sort_by_key(|frame| frame.number);
            ensure_eq!(read(stand, ask).await?, want, "frames of attempt {attempt} of {execution}");
        }
    }
    Ok(())
}
