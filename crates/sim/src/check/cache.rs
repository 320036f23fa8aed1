//! What a machine holds in memory is the part of the store it claims to be.

use ff_core::registry::RecordKind;
use ff_core::workspace::Workspace;
use ff_engine::machine::Machine;
use ff_store::memory::MemoryState;

use super::Check;
use super::mirror::Mirror;

/// Compares every partition whose newest version the machine believes to have.
pub fn check_machine(machine: &Machine, store: &MemoryState, mirrors: &[Mirror]) -> Check {
    for (partition, stored) in store.partitions() {
        if machine.settled_version(partition) == Some(stored.version()) {
            check_workspace(machine.workspace(partition), &mirrors[partition.index()])
                .map_err(|text| format!("partition {partition} in memory: {text}"))?;
        }
    }
    Ok(())
}

fn check_workspace(ws: &Workspace, stored: &Mirror) -> Check {
    for (id, it) in &stored.executions {
        if let Ok(cached) = ws.execution(*id) {
            ensure!(cached == Some(it), "{id} is\n  {cached:?}\n  and not {it:?}");
        }
    }
    for (key, it) in &stored.dedup {
        if let Ok(cached) = ws.dedup(key) {
            ensure!(cached == Some(*it), "{key:?} stands for {cached:?} and not {it:?}");
        }
    }
    for (id, it) in &stored.streams {
        if let Ok(cached) = ws.stream(*id) {
            ensure!(cached == Some(it), "the stream of {id} is\n  {cached:?}\n  and not {it:?}");
        }
    }
    for (id, key) in &stored.signing_keys {
        ensure!(ws.signing_key(*id) == Some(key), "key {id} is {:?} and not {key:?}", ws.signing_key(*id));
    }
    for kind in RecordKind::ALL {
        if let Ok(cached) = ws.records(*kind) {
            let known = stored.registry.keys().filter(|key| key.kind == *kind).count();
            ensure!(cached.count() == known, "not all records of kind {kind} are known, or more");
        }
    }
    for (key, record) in &stored.registry {
        if let Ok(cached) = ws.record(key) {
            ensure!(cached == Some(record), "{key:?} is\n  {cached:?}\n  and not {record:?}");
        }
    }
    for (name, lane) in &stored.lanes {
        ensure!(ws.lane(name) == *lane, "lane {name} is {:?} and not {lane:?}", ws.lane(name));
    }
    for (id, worker) in &stored.workers {
        ensure!(ws.worker(*id) == Some(worker), "worker {id} is {:?}", ws.worker(*id));
    }
    check_ready(ws, stored)?;
    check_graphs(ws, stored)?;
    let mark = ws.agenda().mark();
    let held: Vec<_> = ws.agenda().iter().map(|(key, _)| key).collect();
    let due: Vec<_> = stored.agenda.iter().take_while(|key| key.due <= mark).collect();
    ensure!(held == due, "the agenda up to {mark} has\n  {held:?}\n  and not {due:?}");
    let (mine, theirs) = (ws.header(), &stored.header);
    let same = (mine.next_event, mine.sweep_at) == (theirs.next_event, theirs.sweep_at);
    ensure!(same, "the header is {mine:?} and not {theirs:?}");
    Ok(())
}

fn check_graphs(ws: &Workspace, stored: &Mirror) -> Check {
    for (id, flow) in &stored.flows {
        if let Ok(cached) = ws.flow(*id) {
            ensure!(cached == Some(flow), "flow {id} is\n  {cached:?}\n  and not {flow:?}");
        }
    }
    for (key, edge) in &stored.edges {
        if let Ok(cached) = ws.edge(*key) {
            ensure!(cached == Some(edge), "an edge is\n  {cached:?}\n  and not {edge:?}");
        }
    }
    for (list, entries) in &stored.lists {
        if let Ok((cached, _)) = ws.list(*list, 0, usize::MAX) {
            let same = cached.iter().map(|(number, id)| (number, id)).eq(entries.iter());
            ensure!(same, "{list:?} is\n  {cached:?}\n  and not {entries:?}");
        }
    }
    Ok(())
}

fn check_ready(ws: &Workspace, stored: &Mirror) -> Check {
    for ((lane, class), places) in &stored.ready {
        let Some(window) = ws.ready().window(lane, class) else {
            return Err(format!("nothing is known of {lane} {class}, which has {} entries", places.len()));
        };
        let front = places.iter().take_while(|(place, _)| **place <= window.mark());
        let front: Vec<_> = front.map(|(place, id)| (*place, *id)).collect();
        let held: Vec<_> = window.iter_from(None).collect();
        ensure!(held == front, "the window of {lane} {class} has\n  {held:?}\n  and not {front:?}");
        ensure!(window.total() == places.len() as u64, "{lane} {class} counts {}", window.total());
    }
    for (lane, classes) in ws.ready().lanes() {
        for (class, window) in classes {
            let none = !stored.ready.contains_key(&(lane.clone(), class.clone()));
            ensure!(!none || window.total() == 0, "{lane} {class} counts {} of none", window.total());
        }
    }
    Ok(())
}
