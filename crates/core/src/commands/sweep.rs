//! The sweep: ended executions, idempotency keys, dead workers and events that are old enough are removed,
//! some hundred at a time. One entry per partition walks ordered lists; nothing is scanned.

use super::Decision;
use crate::Ms;
use crate::event::Fact;
use crate::id::InstanceId;
use crate::key::Ask;
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

const PER_STEP: usize = 500;
/// Two sweeps are at least so far apart unless the first found more than it could take.
const PAUSE_MS: Ms = 1_000;
/// How long a dead worker instance is still listed.
const DEAD_WORKER_MS: Ms = 24 * 3_600_000;

pub(super) fn sweep(ws: &mut Workspace, now: Ms) -> Decision {
    let events_before = now - ws.limits.event_retention_ms;
    let page = ws.take_sweep_page(Ask::Sweep { now, events_before, limit: PER_STEP })?;
    let mut unknown = Vec::new();
    for entry in &page.ended {
        if let Err(Stop::Need(asks)) = ws.execution(entry.execution) {
            unknown.extend(asks);
        }
    }
    for (key, _) in &page.dedup {
        if let Err(Stop::Need(asks)) = ws.dedup(key) {
            unknown.extend(asks);
        }
    }
    if !unknown.is_empty() {
        unknown.push(Ask::Sweep { now, events_before, limit: PER_STEP });
        return Err(Stop::Need(unknown));
    }
    for entry in &page.ended {
        // It may have been replayed or removed since the page was read.
        if let Some(execution) = ws.execution(entry.execution)?.cloned()
            && execution.end().is_some_and(|end| end.remove_at <= now)
        {
            ws.emit(&execution, now, Fact::Removed);
            ws.purge_execution(entry.execution);
        }
    }
    for (key, _) in &page.dedup {
        if ws.dedup(key)?.is_some_and(|dedup| dedup.expires_at <= now) {
            ws.put_dedup(key.clone(), None);
        }
    }
    let old: Vec<InstanceId> = ws
        .workers()
        .filter(|it| it.releasing_since.is_none() && it.died_at.is_some_and(|at| at + DEAD_WORKER_MS <= now))
        .map(|it| it.instance)
        .collect();
    old.into_iter().for_each(|instance| ws.purge_worker(instance));
    if let Some(below) = page.events_below {
        ws.trim_events_below(below);
    }
    let full = page.ended.len() >= PER_STEP || page.dedup.len() >= PER_STEP;
    let wished = [page.next, ws.take_sweep_wish()].into_iter().flatten().min();
    let next = if full { Some(now + 1) } else { wished.map(|at| at.max(now + PAUSE_MS)) };
    ws.set_sweep(next);
    Ok(Reply::Fired { effect: true })
}
