//! What follows from the record of an execution or a worker: its place in the ready queue, its entries in the agenda,
//! who holds its lease, when it may be removed.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::agenda::{Agenda, AgendaKey, Subject};
use crate::change::EndedEntry;
use crate::execution::Execution;
use crate::id::{ExecutionId, InstanceId};
use crate::ready::ReadyQueues;
use crate::worker::WorkerInstance;

/// The agenda entries of an execution: its timer, the news of a member that is still being passed on, and the
/// children it has left behind.
pub(super) fn agenda_keys(execution: &Execution) -> [Option<AgendaKey>; 3] {
    let timer = execution.live.timer.map(|due| AgendaKey { due, subject: Subject::Timer(execution.id) });
    let passing = execution.node().and_then(|node| node.passing);
    let subject = Subject::Cascade(execution.id);
    let left = execution.end().filter(|_| execution.has_children());
    let children = left.map(|end| AgendaKey { due: end.at, subject: Subject::Children(execution.id) });
    [timer, passing.map(|passing| AgendaKey { due: passing.since, subject }), children]
}

/// The agenda entries that go and come when an execution goes from one record to another.
pub(super) fn agenda_change(
    before: Option<&Execution>,
    after: Option<&Execution>,
) -> impl Iterator<Item = (Option<AgendaKey>, Option<AgendaKey>)> {
    let keys = |it: Option<&Execution>| it.map_or([None; 3], agenda_keys);
    keys(before).into_iter().zip(keys(after)).filter(|(old, new)| old != new)
}

/// Its place among what retention removes; a member leaves with its flow.
pub(super) fn ended_entry(execution: &Execution) -> Option<EndedEntry> {
    let end = execution.end().filter(|_| execution.spec.member.is_none());
    end.map(|end| EndedEntry { remove_at: end.remove_at, execution: execution.id })
}

/// Keeps the in-memory views right when an execution goes from one record to another.
pub(super) fn derive(
    ready: &mut ReadyQueues,
    agenda: &mut Agenda,
    leases: &mut FxHashMap<InstanceId, FxHashSet<ExecutionId>>,
    before: Option<&Execution>,
    after: Option<&Execution>,
) {
    let entry = |it: Option<&Execution>| it.and_then(Execution::ready_entry);
    let (old, new) = (entry(before), entry(after));
    if old != new {
        old.iter().for_each(|entry| ready.remove(entry));
        new.iter().for_each(|entry| ready.add(entry));
    }
    for (old, new) in agenda_change(before, after) {
        old.iter().for_each(|key| agenda.remove(key));
        new.iter().for_each(|key| agenda.add(*key, None));
    }
    let holder = |it: Option<&Execution>| it.and_then(|it| it.lease().map(|lease| (lease.instance, it.id)));
    let (old, new) = (holder(before), holder(after));
    if old != new {
        if let Some((instance, id)) = old
            && let Some(held) = leases.get_mut(&instance)
        {
            held.remove(&id);
            if held.is_empty() {
                leases.remove(&instance);
            }
        }
        if let Some((instance, id)) = new {
            leases.entry(instance).or_default().insert(id);
        }
    }
}

pub(super) fn derive_worker(
    agenda: &mut Agenda,
    before: Option<&WorkerInstance>,
    after: Option<&WorkerInstance>,
) {
    before.iter().flat_map(|it| it.agenda()).for_each(|key| agenda.remove(&key));
    after.iter().flat_map(|it| it.agenda()).for_each(|key| agenda.add(key, None));
}
