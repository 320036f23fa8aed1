//! What a worker is told of what came before: recorded steps, and the signals that ended suspensions.

use ff_core::Execution;
use ff_core::step::{Step, StepKind};
use ff_core::suspension::{Resumption, Signal};
use ff_store::{Store, StoreError};
use rustc_hash::FxHashMap;

use crate::driver::Task;

/// Whether there is something to tell.
pub(crate) fn has_history(execution: &Execution) -> bool {
    execution.live.stepped || resumption(execution).is_some_and(|it| !it.signals.is_empty())
}

fn resumption(execution: &Execution) -> Option<&Resumption> {
    execution.mailbox().and_then(|mailbox| mailbox.resumption.as_ref())
}

/// The signals that a recorded wait has ended with.
fn signals_of(step: &Step) -> Vec<u32> {
    if step.kind != StepKind::Wait {
        return Vec::new();
    }
    serde_json::from_slice::<Resumption>(&step.result.bytes).map(|it| it.signals).unwrap_or_default()
}

/// Reads the steps of all tasks at once, then the signals they speak of.
pub(crate) async fn add_history(store: &dyn Store, tasks: &mut [Task]) -> Result<(), StoreError> {
    let stepped: Vec<_> =
        tasks.iter().filter(|it| it.execution.live.stepped).map(|it| it.execution.id).collect();
    let places: FxHashMap<_, _> = tasks.iter().enumerate().map(|(at, it)| (it.execution.id, at)).collect();
    if !stepped.is_empty() {
        for step in store.steps(stepped).await? {
            if let Some(at) = places.get(&step.execution) {
                tasks[*at].steps.push(step);
            }
        }
    }
    let mut keys = Vec::new();
    for task in tasks.iter() {
        let newest = resumption(&task.execution).map(|it| it.signals.clone()).unwrap_or_default();
        let mut numbers: Vec<u32> = task.steps.iter().flat_map(signals_of).chain(newest).collect();
        numbers.sort_unstable();
        numbers.dedup();
        keys.extend(numbers.into_iter().map(|number| (task.execution.id, number)));
    }
    if !keys.is_empty() {
        let found: Vec<Signal> = store.signals(keys).await?.into_iter().flatten().collect();
        for signal in found {
            if let Some(at) = places.get(&signal.execution) {
                tasks[*at].signals.push(signal);
            }
        }
    }
    Ok(())
}
