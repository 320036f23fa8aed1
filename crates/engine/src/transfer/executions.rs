//! Executions and flows, with everything that belongs to them.

use ff_core::event::Event;
use ff_core::flow::ListKey;
use ff_core::key::{Ask, Key};
use ff_core::payload::{PayloadKey, Slot};
use ff_core::query::{Filter, FlowFilter, FlowPageAsk, FramePageAsk, Order, PageAsk};
use ff_core::stream::Stream;
use ff_core::workspace::Answer;
use ff_core::{Execution, ExecutionId, Ms, PartitionId};

use super::source::{PAGE, RECORD_BYTES, Source};
use super::target::Target;
use super::{Progress, Stage, TransferError, Transferred};

/// About how many bytes are read at once.
const READ_BYTES: usize = 4 << 20;
/// A signal has at most 64 KiB, so this many fit.
const SIGNALS: usize = 64;
/// More than there can be.
const ALL: usize = 1 << 40;

pub(super) async fn flows(
    source: &Source<'_>,
    target: &mut Target<'_>,
    done: &mut Transferred,
) -> Result<(), TransferError> {
    let filter = FlowFilter::default();
    let mut ask = FlowPageAsk { filter, order: Order::OldestFirst, after: None, limit: PAGE, scan_max: PAGE };
    loop {
        let page = source.store.flows(ask.clone()).await.map_err(TransferError::Source)?;
        for flow in page.flows {
            done.flows += 1;
            target.put(flow.id.route(), RECORD_BYTES, |desk| desk.restore_flow(flow));
        }
        target.make_room().await?;
        match page.next {
            Some(next) => ask.after = Some(next),
            None => return Ok(()),
        }
    }
}

pub(super) async fn executions(
    source: &Source<'_>,
    target: &mut Target<'_>,
    done: &mut Transferred,
    tell: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), TransferError> {
    let of = source.counts().await?.iter().map(|(_, count)| count).sum();
    let filter = Filter::default();
    let mut ask = PageAsk { filter, order: Order::OldestFirst, after: None, limit: PAGE, scan_max: PAGE };
    loop {
        let page = source.store.executions(ask.clone()).await.map_err(TransferError::Source)?;
        related(source, target, &page.executions).await?;
        payloads(source, target, &page.executions).await?;
        for execution in page.executions {
            traces(source, target, &execution).await?;
            let from = source.origin(source.home(execution.id.route()), target.partitions());
            let route = execution.id.route();
            target.put(route, RECORD_BYTES, |desk| desk.restore_execution(execution, from));
            target.make_room().await?;
            done.executions += 1;
        }
        tell(Progress { stage: Stage::Executions, done: done.executions, of });
        match page.next {
            Some(next) => ask.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Records that executions lead to: their edges and their output.
async fn related(
    source: &Source<'_>,
    target: &mut Target<'_>,
    executions: &[Execution],
) -> Result<(), TransferError> {
    let mut asks = vec![Vec::new(); usize::from(source.partitions)];
    for execution in executions {
        asks[source.home(execution.id.route()).index()].extend(asks_of(execution));
    }
    for (partition, mut asks) in source.each().zip(asks) {
        while !asks.is_empty() {
            let some = few(&mut asks);
            for answer in source.load(partition, some).await? {
                asks.extend(take_over(source, target, answer).await?.map(|ask| (ask, PAGE)));
            }
        }
    }
    Ok(())
}

/// As many asks as are answered with about so many records.
fn few(asks: &mut Vec<(Ask, usize)>) -> Vec<Ask> {
    let mut records = 0;
    let count = asks.iter().take_while(|(_, weight)| {
        let fits = records < 2 * PAGE;
        records += weight;
        fits
    });
    let count = count.count();
    asks.drain(..count).map(|(ask, _)| ask).collect()
}

/// What is asked for because of an execution, with how many records the answer weighs about as much as.
fn asks_of(execution: &Execution) -> impl Iterator<Item = (Ask, usize)> {
    let id = execution.id;
    let dependents = execution.node().map_or(0, |node| node.dependents as usize);
    let edges = Ask::List { list: ListKey::Downstream(id), after: 0, limit: PAGE };
    let edges = (dependents > 0).then_some((edges, dependents.min(PAGE)));
    // Its summary may have hundreds of kilobytes.
    let stream = execution.live.streamed.then_some((Ask::Record(Key::Stream(id)), 100));
    edges.into_iter().chain(stream)
}

/// Returns what has to be asked for next: long lists come in pages.
async fn take_over(
    source: &Source<'_>,
    target: &mut Target<'_>,
    answer: Answer,
) -> Result<Option<Ask>, TransferError> {
    match answer {
        Answer::List { list, limit, entries, edges, .. } => {
            for edge in edges {
                target.put(edge.flow.route(), RECORD_BYTES, |desk| desk.put_edge((*edge).clone()));
            }
            target.make_room().await?;
            let last = entries.last().filter(|_| entries.len() >= limit);
            return Ok(last.map(|(after, _)| Ask::List { list, after: *after, limit }));
        }
        Answer::Stream(_, Some(stream)) => {
            frames(source, target, &stream).await?;
            let bytes = stream.summary.as_ref().map_or(0, |it| it.document.get().len());
            let route = stream.execution.route();
            target.put(route, RECORD_BYTES + bytes, |desk| desk.put_stream((*stream).clone()));
        }
        _ => {}
    }
    target.make_room().await?;
    Ok(None)
}

/// The output of all attempts.
async fn frames(source: &Source<'_>, target: &mut Target<'_>, stream: &Stream) -> Result<(), TransferError> {
    let execution = stream.execution;
    for attempt in 1..=stream.attempt {
        let mut after = 0;
        loop {
            let order = Order::OldestFirst;
            let ask = FramePageAsk { execution, attempt, order, after, limit: PAGE, bytes: READ_BYTES };
            let frames = source.store.frames(ask).await.map_err(TransferError::Source)?;
            let Some(last) = frames.last() else { break };
            after = last.number;
            for frame in frames {
                target.put(execution.route(), 256 + frame.bytes.len(), |desk| desk.put_frame(frame));
            }
            target.make_room().await?;
        }
    }
    Ok(())
}

/// Inputs and results, as many at once as fit.
async fn payloads(
    source: &Source<'_>,
    target: &mut Target<'_>,
    executions: &[Execution],
) -> Result<(), TransferError> {
    let mut keys = Vec::new();
    let mut bytes = 0;
    for (at, execution) in executions.iter().enumerate() {
        keys.extend(Slot::ALL.map(|slot| PayloadKey { execution: execution.id, slot }));
        bytes += payload_bytes(execution);
        if bytes < READ_BYTES && at + 1 < executions.len() {
            continue;
        }
        bytes = 0;
        let asked = std::mem::take(&mut keys);
        let found = source.store.payloads(asked.clone()).await.map_err(TransferError::Source)?;
        for (key, payload) in asked.into_iter().zip(found) {
            if let Some(payload) = payload {
                let route = key.execution.route();
                target.put(route, 128 + payload.len(), |desk| desk.put_payload(key, payload));
            }
        }
        target.make_room().await?;
    }
    Ok(())
}

/// How large the payloads of an execution are. Nothing tells of the result that one which runs again had before.
fn payload_bytes(execution: &Execution) -> usize {
    let result = match execution.end() {
        Some(end) => end.result_bytes.unwrap_or(0),
        None if execution.live.series.number > 1 => READ_BYTES as u64,
        None => 0,
    };
    usize::try_from(execution.spec.input_bytes.saturating_add(result)).unwrap_or(usize::MAX)
}

/// Earlier attempts, steps and signals.
async fn traces(
    source: &Source<'_>,
    target: &mut Target<'_>,
    execution: &Execution,
) -> Result<(), TransferError> {
    let (id, route) = (execution.id, execution.id.route());
    if execution.attempt_number() > 1 {
        for attempt in source.store.attempts(id).await.map_err(TransferError::Source)? {
            target.put(route, RECORD_BYTES, |desk| desk.archive_attempt(id, attempt));
        }
    }
    if execution.live.stepped {
        for step in source.store.steps(vec![id]).await.map_err(TransferError::Source)? {
            target.put(route, 256 + step.result.len(), |desk| desk.put_step(step));
            target.make_room().await?;
        }
    }
    let received = execution.mailbox().map_or(0, |mailbox| mailbox.received);
    let numbers: Vec<(ExecutionId, u32)> = (1..=received).map(|number| (id, number)).collect();
    for numbers in numbers.chunks(SIGNALS) {
        let signals = source.store.signals(numbers.to_vec()).await.map_err(TransferError::Source)?;
        for signal in signals.into_iter().flatten() {
            target.put(route, 256 + signal.payload.len(), |desk| desk.put_signal(signal));
        }
        target.make_room().await?;
    }
    Ok(())
}

/// Idempotency keys of submissions and signals, and names of nodes. A partition lists them all at once, at some hundred
/// bytes each.
pub(super) async fn keys(source: &Source<'_>, target: &mut Target<'_>) -> Result<(), TransferError> {
    for partition in source.each() {
        let ask = Ask::Sweep { now: Ms::MAX, events_before: Ms::MAX, limit: ALL };
        for answer in source.load(partition, vec![ask]).await? {
            let Answer::Sweep(page) = answer else { continue };
            for (key, dedup) in page.dedup {
                let route = dedup.execution.route();
                target.put(route, RECORD_BYTES, |desk| desk.put_dedup(key, Some(dedup)));
                target.make_room().await?;
            }
        }
    }
    Ok(())
}

/// Where an event goes: with what it is about, or to what its partition has become.
pub(super) fn place_of(event: &Event, from: PartitionId, target: &Target<'_>) -> PartitionId {
    let route = event.execution.map(ExecutionId::route).or(event.flow.map(|flow| flow.route()));
    target.home(route.unwrap_or(ff_core::Route(from.0)))
}
