//! Everything that follows from the records, compared with what is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use ff_core::Ms;
use ff_core::agenda::{AgendaKey, Subject};
use ff_core::change::EndedEntry;
use ff_core::key::DedupKey;
use ff_core::query::CountKey;
use ff_store::memory::Partition;

use super::Check;
use super::mirror::Mirror;

/// How late a sweep may come after the first record it is for: two sweeps are that far apart.
const SWEEP_SLACK_MS: Ms = 1_000;

pub fn check_tables(mirror: &Mirror) -> Check {
    let mut ready = BTreeMap::<_, BTreeMap<_, _>>::new();
    let mut counts = BTreeMap::<_, i64>::new();
    let (mut ended, mut agenda) = (BTreeSet::new(), BTreeSet::new());
    for it in mirror.executions.values() {
        *counts.entry(CountKey::of(it)).or_default() += 1;
        if let Some(entry) = it.ready_entry() {
            let place = entry.place();
            ready.entry((entry.lane, entry.class)).or_default().insert(place, it.id);
        }
        // A member leaves with its flow.
        let end = it.end().filter(|_| it.flow().is_none());
        ended.extend(end.map(|end| EndedEntry { remove_at: end.remove_at, execution: it.id }));
        let passing = it.node().and_then(|node| node.passing);
        let cascade = passing.map(|at| AgendaKey { due: at.since, subject: Subject::Cascade(it.id) });
        agenda.extend(cascade);
        let left = it.end().filter(|_| it.has_children());
        agenda.extend(left.map(|end| AgendaKey { due: end.at, subject: Subject::Children(it.id) }));
        agenda.extend(it.live.timer.map(|due| AgendaKey { due, subject: Subject::Timer(it.id) }));
    }
    let ready_counts: BTreeMap<_, _> = ready.iter().map(|(key, it)| (key.clone(), it.len() as i64)).collect();
    agenda.extend(mirror.workers.values().flat_map(|worker| worker.agenda()));
    let trims = mirror.streams.values().filter_map(|it| Some((it.trim_at?, it.execution)));
    agenda.extend(trims.map(|(due, id)| AgendaKey { due, subject: Subject::Frames(id) }));
    let walks = mirror.flows.values().filter_map(|flow| Some((flow.live.walk?.since, flow.id)));
    agenda.extend(walks.map(|(due, flow)| AgendaKey { due, subject: Subject::Members(flow) }));
    agenda.extend(mirror.header.sweep_at.map(|due| AgendaKey { due, subject: Subject::Sweep }));
    let is_message = |key: &&AgendaKey| matches!(key.subject, Subject::Deliver { .. });
    let stored: BTreeSet<AgendaKey> = mirror.agenda.iter().filter(|key| !is_message(key)).copied().collect();
    same("the ready queue", &mirror.ready, &ready)?;
    same("the ready counters", &mirror.ready_counts, &ready_counts)?;
    same("the counters", &mirror.counts, &counts)?;
    same("the list of ended executions", &mirror.ended, &ended)?;
    same("the agenda", &stored, &agenda)?;
    for key in mirror.agenda.iter().filter(is_message) {
        let Subject::Deliver { to, number } = key.subject else { continue };
        let sent = mirror.links.get(&to).map_or(0, |link| link.sent);
        ensure!(number <= sent, "message {number} to {to} was never sent");
    }
    check_orphans(mirror)?;
    super::mail::check_mail_tables(mirror)?;
    check_dedup(mirror)?;
    check_sweep(mirror)
}

fn same<T: PartialEq + Debug>(what: &str, stored: &T, derived: &T) -> Check {
    ensure!(
        stored == derived,
        "{what} does not follow from the records:\n  stored  {stored:?}\n  derived {derived:?}"
    );
    Ok(())
}

fn check_orphans(mirror: &Mirror) -> Check {
    for key in &mirror.payloads {
        ensure!(mirror.executions.contains_key(&key.execution), "{key:?} belongs to nobody");
    }
    for it in mirror.executions.values().filter_map(|it| it.flow()) {
        ensure!(mirror.flows.contains_key(&it), "flow {it} is gone and members of it are not");
    }
    for (key, edge) in &mirror.edges {
        ensure!(mirror.executions.contains_key(&key.upstream), "edge {} outlives its upstream", edge.number);
    }
    for (id, number) in mirror.attempts.keys() {
        ensure!(mirror.executions.contains_key(id), "attempt {number} of {id} belongs to nobody");
    }
    Ok(())
}

fn check_dedup(mirror: &Mirror) -> Check {
    let now = mirror.header.now;
    for (key, dedup) in &mirror.dedup {
        let lives = mirror.executions.contains_key(&dedup.execution);
        ensure!(
            lives || key.is_of_signal() || dedup.expires_at <= now,
            "{key:?} outlives its execution {}",
            dedup.execution
        );
    }
    for it in mirror.executions.values() {
        let Some(key) = &it.spec.idempotency_key else { continue };
        if it.spec.idempotency_until.is_none_or(|until| until <= now) {
            continue;
        }
        let key = DedupKey { namespace: it.spec.namespace.clone(), key: key.clone() };
        let found = mirror.dedup.get(&key).map(|dedup| dedup.execution);
        ensure!(found == Some(it.id), "{key:?} of {} stands for {found:?}", it.id);
    }
    Ok(())
}

/// Whatever may be removed one day has a sweep that comes in time.
fn check_sweep(mirror: &Mirror) -> Check {
    let ended = mirror.ended.first().map(|entry| entry.remove_at);
    let keys = mirror.dedup.values().map(|dedup| dedup.expires_at).filter(|at| *at < Ms::MAX).min();
    // The newest key that a partition knows stays until it has heard of a newer one.
    let newest = mirror.signing_keys.values().map(|key| key.id).max();
    let passing = mirror.signing_keys.values().filter(|key| Some(key.id) != newest);
    let retired = passing.filter_map(|key| key.retires_at).min();
    let flows = mirror.flows.values().filter_map(|flow| flow.live.end.as_ref()?.remove_at).min();
    let firsts = ended.into_iter().chain(keys).chain(flows).chain(retired);
    let Some(first) = firsts.min() else { return Ok(()) };
    let limit = first.max(mirror.header.now + SWEEP_SLACK_MS);
    let sweep_at = mirror.header.sweep_at;
    ensure!(sweep_at.is_some_and(|at| at <= limit), "the sweep at {sweep_at:?} comes too late for {first}");
    Ok(())
}

/// The store keeps what the commits said.
pub fn check_store(mirror: &Mirror, stored: &Partition) -> Check {
    ensure!(mirror.header == *stored.header(), "the stored header is another");
    ensure!(mirror.executions.values().eq(stored.executions()), "the stored executions are others");
    ensure!(mirror.agenda.iter().eq(stored.agenda().map(|(key, _)| key)), "the stored agenda is another");
    ensure!(mirror.ended.iter().eq(stored.ended()), "the stored list of ended executions is another");
    ensure!(
        mirror.payloads.iter().eq(stored.payloads().map(|(key, _)| key)),
        "the stored payloads are others"
    );
    ensure!(mirror.dedup.iter().eq(stored.dedup()), "the stored idempotency keys are others");
    ensure!(mirror.attempts.len() == stored.attempts().count(), "the stored attempts are others");
    ensure!(mirror.flows.values().eq(stored.flows()), "the stored flows are others");
    ensure!(mirror.edges.values().eq(stored.edges()), "the stored edges are others");
    ensure!(
        mirror.waitpoints.values().eq(stored.waitpoints().map(|it| &**it)),
        "the stored inbox is another"
    );
    ensure!(mirror.frames.values().eq(stored.frames()), "the stored frames are others");
    ensure!(mirror.streams.values().eq(stored.streams()), "the stored streams are others");
    ensure!(mirror.signals.len() == stored.signals().count(), "the stored signals are others");
    ensure!(mirror.steps.len() == stored.steps().count(), "the stored steps are others");
    ensure!(mirror.signing_keys.values().eq(stored.signing_keys()), "the stored signing keys are others");
    ensure!(mirror.registry.values().eq(stored.registry()), "the stored registry is another");
    ensure!(mirror.lanes.values().eq(stored.lanes()), "the stored lanes are others");
    ensure!(mirror.workers.values().eq(stored.workers()), "the stored workers are others");
    ensure!(mirror.counts.iter().map(|(k, n)| (k, *n)).eq(stored.counts()), "the stored counters are others");
    let ready = mirror.ready.values().flat_map(|places| places.values().copied());
    ensure!(ready.eq(stored.ready().map(|entry| entry.execution)), "the stored ready queue is another");
    Ok(())
}
