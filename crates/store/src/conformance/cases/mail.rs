//! What arrives for executions and what they leave behind: signing keys, signals, steps, and what goes with an
//! execution.

use ff_core::change::{Changes, ExecutionChange};
use ff_core::key::{Ask, Key};
use ff_core::payload::Payload;
use ff_core::query::{FramePageAsk, Order};
use ff_core::step::StepKind;
use ff_core::suspension::SigningKey;
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, PartitionId};

use super::super::samples::{self, ODD};
use super::super::stand::START;
use super::super::{Check, Stand, ensure, ensure_eq, mail_samples};

async fn read_key(stand: &Stand, partition: PartitionId, id: u32) -> Result<Option<SigningKey>, String> {
    match stand.ask(partition, Ask::Record(Key::SigningKey(id))).await? {
        Answer::SigningKey(told, key) if told == id => Ok(key.map(|it| (*it).clone())),
        other => Err(format!("key {id} was asked for, the answer was {other:?}")),
    }
}

pub async fn signing_keys_read_back_and_go(stand: &mut Stand) -> Check {
    for partition in stand.each() {
        for key in [mail_samples::signing_key(1, None), mail_samples::signing_key(2, Some(START))] {
            stand.desk(partition).put_signing_key(key.clone());
            stand.flush(partition).await?;
            // Not compared by their text, which does not show the secret.
            let read = read_key(stand, partition, key.id).await?;
            ensure!(read == Some(key), "a key that was written reads back as {read:?}");
        }
        let retired = SigningKey { revision: 99, ..mail_samples::signing_key(1, Some(START + 5)) };
        stand.desk(partition).put_signing_key(retired.clone());
        stand.flush(partition).await?;
        let mut keys = stand.opening(partition).await?.signing_keys;
        keys.sort_by_key(|key| key.id);
        let want = [retired, mail_samples::signing_key(2, Some(START))];
        ensure!(keys.iter().map(|key| &**key).eq(&want), "an opening has the keys {keys:?}, not {want:?}");
    }
    let partition = stand.last();
    stand.desk(partition).drop_signing_key(1);
    stand.flush(partition).await?;
    ensure_eq!(read_key(stand, partition, 1).await?, None, "a key that was removed");
    ensure_eq!(read_key(stand, partition, 3).await?, None, "a key that never was");
    stand.same().await
}

pub async fn signals_read_back(stand: &mut Stand) -> Check {
    let mut keys = Vec::new();
    for partition in stand.each() {
        for n in 1..=2 {
            let id = samples::id(stand.partitions, partition, n);
            let desk = stand.desk(partition);
            desk.put_execution(samples::ready(id, START, n), START);
            (1..=4).for_each(|number| desk.put_signal(mail_samples::signal(id, number)));
            keys.extend((1..=4).map(|number| (id, number)));
        }
        stand.flush(partition).await?;
    }
    let missing = [(keys[0].0, 5), (samples::id(stand.partitions, stand.last(), 99), 1)];
    let mut asked: Vec<(ExecutionId, u32)> = keys.iter().rev().copied().collect();
    asked.splice(1..1, missing);
    let want: Vec<_> = asked
        .iter()
        .map(|key| (!missing.contains(key)).then(|| mail_samples::signal(key.0, key.1)))
        .collect();
    ensure_eq!(stand.store.signals(asked).await, Ok(want), "signals in the order asked for");
    ensure_eq!(stand.store.signals(vec![]).await, Ok(vec![]), "no signals");
    stand.same().await
}

pub async fn steps_read_back_in_order_and_are_replaced(stand: &mut Stand) -> Check {
    let mut all = Vec::new();
    for partition in stand.each() {
        let id = samples::id(stand.partitions, partition, 1);
        // The order of the names is not the order in which they were recorded.
        let steps = [
            mail_samples::step(id, "charge 漢'\"", 0, 1),
            mail_samples::step(id, "b", 1, 2),
            mail_samples::step(id, "a", 0, 3),
            mail_samples::step(id, "b", 0, 4),
            mail_samples::step(id, "b", 10, 5),
        ];
        let desk = stand.desk(partition);
        desk.put_execution(samples::ready(id, START, 1), START);
        steps.iter().rev().for_each(|step| desk.put_step(step.clone()));
        stand.flush(partition).await?;
        all.push((id, steps));
    }
    let nobody = samples::id(stand.partitions, stand.last(), 99);
    let ids: Vec<ExecutionId> = all.iter().rev().map(|(id, _)| *id).chain([nobody]).collect();
    let want: Vec<_> = all.iter().rev().flat_map(|(_, steps)| steps.clone()).collect();
    ensure_eq!(stand.store.steps(ids).await, Ok(want), "steps of several executions");
    // A step that is recorded again is there once, as it is now.
    let (id, mut steps) = all.swap_remove(0);
    let partition = id.route().partition(stand.partitions);
    for round in 0..2 {
        let step = &mut steps[1];
        (step.attempt, step.started_at, step.ended_at) = (7 + round, START + 70, START + 80);
        step.kind = [StepKind::Child, StepKind::Wait][round as usize];
        step.result = Payload { content_type: ODD.into(), bytes: vec![round as u8; 100_000].into() };
        stand.desk(partition).put_step(step.clone());
        stand.flush(partition).await?;
        ensure_eq!(stand.store.steps(vec![id]).await, Ok(steps.to_vec()), "a step replaced by itself");
    }
    stand.same().await
}

pub async fn changes_of_streams_and_keys_are_told(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let since = stand.version(partition).await?.number;
    let [kept, gone] = [1, 2].map(|n| samples::id(stand.partitions, partition, n));
    let stream = mail_samples::streams(kept).swap_remove(1);
    stand.desk(partition).put_stream(stream.clone());
    stand.desk(partition).put_stream(mail_samples::streams(gone).swap_remove(2));
    stand.desk(partition).put_signing_key(mail_samples::signing_key(1, None));
    stand.desk(partition).put_signing_key(mail_samples::signing_key(2, None));
    stand.flush(partition).await?;
    stand.desk(partition).drop_signing_key(1);
    let now = stand.now();
    let mut changes = stand.desk(partition).take_batch(now);
    changes.streams.push((gone, None));
    stand.write(partition, changes).await?;
    let Answer::Changes(Some(mut missed)) = stand.ask(partition, Ask::Changes { since }).await? else {
        return Err("two commits can be told apart".to_owned());
    };
    missed.streams.sort_by_key(|(id, _)| *id);
    let streams: Vec<_> = missed.streams.iter().map(|(id, it)| (*id, it.as_deref().cloned())).collect();
    ensure_eq!(streams, [(kept, Some(stream)), (gone, None)], "the streams that changed");
    missed.signing_keys.sort_by_key(|(id, _)| *id);
    let keys: Vec<_> = missed.signing_keys.iter().map(|(id, it)| (*id, it.as_deref().cloned())).collect();
    let want = [(1, None), (2, Some(mail_samples::signing_key(2, None)))];
    ensure!(keys == want, "the keys that changed: got {keys:?}, want {want:?}");
    Ok(())
}

/// An execution with a waitpoint, signals, steps, a stream and frames.
fn populate(stand: &mut Stand, partition: PartitionId, id: ExecutionId, place: u64) {
    let desk = stand.desk(partition);
    let waitpoints = vec![mail_samples::waitpoint(1, Some("go")), mail_samples::waitpoint(2, None)];
    let mut execution = mail_samples::waiting(samples::ready(id, START, place), waitpoints);
    (execution.live.stepped, execution.live.streamed) = (true, true);
    desk.put_execution(execution, START);
    (1..=3).for_each(|number| desk.put_signal(mail_samples::signal(id, number)));
    (1..=3).for_each(|number| desk.put_step(mail_samples::step(id, "a", number, number)));
    desk.put_stream(mail_samples::streams(id).swap_remove(1));
    for attempt in 1..=2 {
        (1..=3).for_each(|number| desk.put_frame(mail_samples::frame(id, attempt, number)));
    }
}

fn frames_of(execution: ExecutionId, attempt: u32) -> FramePageAsk {
    let (order, after, limit, bytes) = (Order::OldestFirst, 0, 1_000, usize::MAX >> 1);
    FramePageAsk { execution, attempt, order, after, limit, bytes }
}

/// How many signals, steps, streams and frames of an execution can be read.
async fn traces(stand: &Stand, id: ExecutionId) -> Result<[usize; 4], String> {
    let partition = id.route().partition(stand.partitions);
    let said = |error: crate::StoreError| error.to_string();
    let signals = stand.store.signals((1..=5).map(|number| (id, number)).collect()).await.map_err(said)?;
    let steps = stand.store.steps(vec![id]).await.map_err(said)?.len();
    let Answer::Stream(_, stream) = stand.ask(partition, Ask::Record(Key::Stream(id))).await? else {
        return Err("a stream was asked for".to_owned());
    };
    let mut frames = 0;
    for attempt in 1..=3 {
        frames += stand.store.frames(frames_of(id, attempt)).await.map_err(said)?.len();
    }
    Ok([signals.iter().flatten().count(), steps, usize::from(stream.is_some()), frames])
}

pub async fn a_purge_takes_signals_steps_and_output_along(stand: &mut Stand) -> Check {
    let partition = stand.last();
    let ids = [1, 2, 3].map(|n| samples::id(stand.partitions, partition, n));
    for (n, id) in ids.into_iter().enumerate() {
        populate(stand, partition, id, n as u64);
    }
    stand.flush(partition).await?;
    ensure_eq!(traces(stand, ids[1]).await?, [3, 3, 1, 6], "what an execution has");
    stand.desk(partition).purge_execution(ids[1]);
    let now = stand.now();
    let mut changes = stand.desk(partition).take_batch(now);
    ensure_eq!(changes.executions, [ExecutionChange::Purge(ids[1])], "what the core asks for");
    // The stream goes with its execution, also if nobody says so.
    changes.streams.clear();
    stand.write(partition, changes).await?;
    ensure_eq!(traces(stand, ids[1]).await?, [0; 4], "what a removed execution leaves");
    for id in [ids[0], ids[2]] {
        ensure_eq!(traces(stand, id).await?, [3, 3, 1, 6], "what its neighbours have");
    }
    stand.same().await?;
    // Removed and made anew in one commit: nothing old stays, what is new does.
    let anew = Changes {
        executions: vec![
            ExecutionChange::Purge(ids[0]),
            ExecutionChange::Insert(samples::delayed(ids[0], START + 5).into()),
        ],
        waitpoints_removed: vec![1, 2].into_iter().map(|number| waitpoint_id(ids[0], number)).collect(),
        signals: vec![mail_samples::signal(ids[0], 1)],
        steps: vec![mail_samples::step(ids[0], "a", 1, 1), mail_samples::step(ids[0], "new", 0, 2)],
        streams: vec![(ids[0], Some(mail_samples::streams(ids[0]).swap_remove(2).into()))],
        frames: vec![mail_samples::frame(ids[0], 1, 1)],
        ..Changes::default()
    };
    stand.write(partition, anew).await?;
    ensure_eq!(traces(stand, ids[0]).await?, [1, 2, 1, 1], "what is new under an id that was used");
    stand.same().await
}

fn waitpoint_id(execution: ExecutionId, number: u32) -> ff_core::suspension::WaitpointId {
    ff_core::suspension::WaitpointId { execution, number }
}

pub async fn what_belongs_to_nobody_is_found(stand: &mut Stand) -> Check {
    let mut want = Vec::new();
    for partition in stand.each() {
        let (owner, nobody) =
            (samples::id(stand.partitions, partition, 1), samples::id(stand.partitions, partition, 2));
        let desk = stand.desk(partition);
        desk.put_execution(samples::ready(owner, START, 1), START);
        for id in [owner, nobody] {
            (1..=2).for_each(|number| desk.put_signal(mail_samples::signal(id, number)));
            desk.put_step(mail_samples::step(id, "a", 1, 1));
            desk.put_stream(ff_core::stream::Stream::new(id, 1));
            (1..=2).for_each(|number| desk.put_frame(mail_samples::frame(id, 1, number)));
        }
        want.extend(crate::Trace::ALL.map(|what| (what, nobody)));
        stand.flush(partition).await?;
    }
    want.sort();
    let told = |error: crate::StoreError| error.to_string();
    let found = stand.store.orphans(1_000).await.map_err(told)?;
    ensure_eq!(found, want, "what is kept of executions that are not there");
    let some = stand.store.orphans(3).await.map_err(told)?;
    ensure_eq!(some, want[..3], "three of them");
    Ok(())
}
