//! Waitpoints, signals, steps and output: what executions say of them, against what is kept.

use ff_core::agenda::{AgendaKey, Subject};
use ff_core::execution::State;
use ff_core::key::{Ask, Key};
use ff_core::query::{Order, WaitpointFilter, WaitpointPageAsk};
use ff_core::state::Reason;
use ff_core::suspension::{Condition, Mailbox, WaitpointEntry};
use ff_core::workspace::{Answer, waitpoint_entries};
use ff_core::{Execution, ExecutionId, PartitionId};
use ff_store::{Store, StoreError};
use rustc_hash::FxHashSet;

use super::{PAGE, Side, Sum};

/// How many executions are looked at at once where each may have a lot.
const FEW: usize = 20;

/// Looks at a page of executions: derives their waitpoints and agenda entries, and reads what they say is there.
pub(super) async fn look_at(
    store: &dyn Store,
    executions: &[Execution],
    derived: &mut [Side],
    waitpoints: &mut Sum,
    problems: &mut Vec<String>,
) -> Result<(), StoreError> {
    for execution in executions {
        waitpoint_entries(execution).for_each(|entry| add(waitpoints, &entry));
        problems.extend(stuck(execution));
    }
    let stepped = stepped(store, executions).await?;
    for it in executions.iter().filter(|it| it.live.stepped != stepped.contains(&it.id)) {
        let id = it.id;
        problems.push(format!("execution {id} says that steps are recorded or not, and it is not so"));
    }
    let received = |it: &Execution| it.mailbox().map_or(0, |mailbox| mailbox.received);
    let keys = executions.iter().flat_map(|it| (1..=received(it)).map(|number| (it.id, number)));
    for part in keys.collect::<Vec<_>>().chunks(PAGE) {
        let found = store.signals(part.to_vec()).await?;
        let missing = part.iter().zip(found).filter(|(_, signal)| signal.is_none());
        problems.extend(missing.map(|((id, number), _)| format!("signal {number} of {id} is not kept")));
    }
    streams(store, executions, derived, problems).await
}

/// Those of which steps are recorded. Results may be large and many, so that only some executions are looked at at once.
async fn stepped(store: &dyn Store, executions: &[Execution]) -> Result<FxHashSet<ExecutionId>, StoreError> {
    let ids = |has_steps: bool| -> Vec<ExecutionId> {
        executions.iter().filter(|it| it.live.stepped == has_steps).map(|it| it.id).collect()
    };
    let (with, without) = (ids(true), ids(false));
    let mut found = FxHashSet::default();
    for part in with.chunks(FEW).chain([&without[..]]) {
        found.extend(store.steps(part.to_vec()).await?.iter().map(|step| step.execution));
    }
    Ok(found)
}

/// An execution that nothing will ever move, or that should have moved.
fn stuck(execution: &Execution) -> Option<String> {
    let State::Suspended(suspension) = &execution.live.state else { return None };
    let id = execution.id;
    if suspension.condition == Condition::Time && suspension.timeout_at.is_none() {
        return Some(format!("execution {id} is suspended until a time that it does not have"));
    }
    let none = Mailbox::default();
    let mailbox = execution.mailbox().unwrap_or(&none);
    if suspension.condition.met_by(&mailbox.signals).is_some() {
        return Some(format!("execution {id} is suspended although what it waits for is there"));
    }
    // What was escalated waits for an operator, whatever else it waited for.
    if suspension.reason != Reason::OperatorReview && !suspension.condition.can_be_met(mailbox) {
        let problem =
            "waits for what cannot come any more: a waitpoint that is closed or missing, or a child";
        return Some(format!("execution {id} {problem} that it does not have"));
    }
    None
}

async fn streams(
    store: &dyn Store,
    executions: &[Execution],
    derived: &mut [Side],
    problems: &mut Vec<String>,
) -> Result<(), StoreError> {
    let partitions = store.info().partitions;
    for partition in (0..partitions).map(PartitionId) {
        let streamed = executions.iter().filter(|it| it.live.streamed);
        let here = streamed.filter(|it| it.id.route().partition(partitions) == partition);
        let asks: Vec<Ask> = here.map(|it| Ask::Record(Key::Stream(it.id))).collect();
        for asks in asks.chunks(FEW) {
            for answer in store.load(partition, asks.to_vec()).await?.answers {
                match answer {
                    Answer::Stream(id, Some(stream)) => {
                        let due = stream.trim_at.map(|due| AgendaKey { due, subject: Subject::Frames(id) });
                        due.into_iter().for_each(|key| derived[partition.index()].timers.add(key));
                    }
                    Answer::Stream(id, None) => {
                        problems.push(format!("the output stream of {id} is not kept"));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// What is kept of executions that are not there.
pub(super) async fn of_nobody(store: &dyn Store) -> Result<Vec<String>, StoreError> {
    let orphans = store.orphans(PAGE).await?;
    let told = orphans.iter().map(|(what, id)| format!("{} of {id}, which is not there", what.word()));
    Ok(told.collect())
}

/// All open waitpoints as the store lists them.
pub(super) async fn listed(store: &dyn Store) -> Result<Sum, StoreError> {
    let mut sum = Sum::default();
    let (filter, order) = (WaitpointFilter::default(), Order::OldestFirst);
    let mut ask = WaitpointPageAsk { filter, order, after: None, limit: PAGE, scan_max: PAGE };
    loop {
        let page = store.waitpoints(ask.clone()).await?;
        page.waitpoints.iter().for_each(|entry| add(&mut sum, entry));
        match page.next {
            Some(next) => ask.after = Some(next),
            None => return Ok(sum),
        }
    }
}

fn add(sum: &mut Sum, entry: &WaitpointEntry) {
    let WaitpointEntry { id, namespace, lane, kind, name, reason, opened_at, expires_at, digest } = entry;
    let reason = reason.map(|reason| reason.word());
    let digest = digest.as_ref().map(|digest| digest.0);
    sum.add((id, namespace, lane, kind, name, reason, opened_at, expires_at, digest));
}
