//! Back to what is stored, and on to what others have stored since.

use std::cell::OnceCell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::derived::{derive, derive_worker};
use super::graph::{derive_edge, derive_flow, derive_member};
use super::mail::derive_stream;
use super::table::Known;
use super::{Lists, Marks, Missed, Workspace};
use crate::agenda::Subject;
use crate::execution::Execution;
use crate::id::{ExecutionId, FlowId, InstanceId};

impl Workspace {
    /// Takes back every batch after `settled`, the newest one that is stored, newest first. Refills that are
    /// under way are forgotten: what they bring may count on those batches.
    pub fn undo(&mut self, settled: u64) {
        self.take_batch(self.header.now);
        self.agenda.cancel_refill();
        self.ready.windows_mut().for_each(|(_, _, window)| window.cancel_refill());
        while let Some(before) = self.recent.pop_unsettled(settled) {
            let Workspace { ready, agenda, leases, graph, .. } = self;
            for (key, was) in before.edges.into_iter().rev() {
                let is = self.edges.settle(key, was.clone());
                derive_edge(graph, is.as_deref(), was.as_deref());
            }
            for (id, was) in before.flows.into_iter().rev() {
                let is = self.flows.settle(id, was.clone());
                derive_flow(agenda, is.as_deref(), was.as_deref());
            }
            for (id, was) in before.executions.into_iter().rev() {
                let is = self.executions.settle(id, was.clone());
                derive(ready, agenda, leases, is.as_deref(), was.as_deref());
                derive_member(graph, is.as_deref(), was.as_deref());
            }
            for (id, was) in before.streams.into_iter().rev() {
                let is = self.streams.settle(id, was.clone());
                derive_stream(agenda, is.as_deref(), was.as_deref());
            }
            for (id, was) in before.signing_keys {
                self.signing_keys.settle(id, was);
            }
            for (id, was) in before.workers.into_iter().rev() {
                let is = self.workers.settle(id, was.clone());
                derive_worker(agenda, is.as_deref(), was.as_deref());
            }
            for (key, was) in before.dedup {
                self.dedup.settle(key, was);
            }
            for (name, was) in before.lanes {
                self.lanes.settle(name, was);
            }
            for (peer, was) in before.links {
                self.links.settle(peer, was);
            }
            before.sent.iter().for_each(|key| agenda.remove(key));
            for (key, entry) in before.struck {
                match entry {
                    Some(entry) => agenda.add(key, entry.message),
                    // It was beyond the mark, so its content is not known; if the mark has passed it since,
                    // the agenda has a gap.
                    None if key.due <= agenda.mark() => agenda.reset(),
                    None => {}
                }
            }
            self.set_sweep(before.header.sweep_at);
            self.header = before.header;
            self.header_at_batch = before.header;
        }
        self.letters.clear();
        self.forget_registry();
        self.lists = Lists::default();
        self.marks = Marks::default();
        self.batch_sweep_by = None;
        self.sweep_page = None;
    }

    /// Who should look at which lease, because of what others have stored: it is gone, another's, or to be cancelled.
    /// One that was only renewed is no news; telling of it would have those who renew disturb each other. Nor is one that
    /// its holder has ended through another server, as far as that is known.
    pub fn disturbed_by(&self, missed: &Missed) -> Vec<(InstanceId, ExecutionId)> {
        let changed = missed.executions.iter().map(|(id, is)| (*id, is.as_deref()));
        let changed = changed.chain(missed.ended.iter().map(|id| (*id, None)));
        let holders = OnceCell::new();
        let listed = |id: &ExecutionId| {
            let by_lease = || self.leaseholders().into_iter().map(|(instance, id)| (id, instance)).collect();
            let holders: &FxHashMap<ExecutionId, InstanceId> = holders.get_or_init(by_lease);
            holders.get(id).copied()
        };
        changed.filter_map(|(id, is)| Some((self.disturbed(id, is, listed)?, id))).collect()
    }

    /// Everybody with every lease.
    pub fn leaseholders(&self) -> Vec<(InstanceId, ExecutionId)> {
        let held = self.leases.iter().flat_map(|(instance, held)| held.iter().map(|id| (*instance, *id)));
        held.collect()
    }

    /// `listed` says who holds a lease as this view knows it, also where the record is not in memory.
    fn disturbed(
        &self,
        id: ExecutionId,
        is: Option<&Execution>,
        listed: impl Fn(&ExecutionId) -> Option<InstanceId>,
    ) -> Option<InstanceId> {
        let was = match self.executions.get(&id) {
            Known::Present(it) => Some(it.as_ref()),
            Known::Absent | Known::Unknown => None,
        };
        let (before, now) = (was.and_then(Execution::lease), is.and_then(Execution::lease));
        // A record that is in memory says itself that nobody holds it.
        let holder = match was {
            Some(_) => before.map(|it| it.instance),
            None => listed(&id),
        };
        let Some(holder) = holder else {
            // Claimed since this view was made, and to be cancelled, or lost again: the attempt still says by whom.
            let lost = is.filter(|it| now.is_none() && !it.was_given_up(it.fence()));
            let attempt = lost.and_then(|it| it.live.attempt.as_ref());
            return now
                .filter(|it| it.cancel.is_some())
                .map(|it| it.instance)
                .or(attempt.map(|it| it.instance));
        };
        let same = match (was, is) {
            (Some(was), Some(is)) if is.was_given_up(was.fence()) => return None,
            (Some(was), Some(is)) => was.fence() == is.fence(),
            _ => true,
        };
        let kept = now.filter(|it| it.instance == holder && same);
        let asked_before = before.is_some_and(|it| it.cancel.is_some());
        kept.is_none_or(|it| it.cancel.is_some() && !asked_before).then_some(holder)
    }

    /// Brings the view from the version it stands for to the one that others have made of it. Everything
    /// decided here must be stored or [taken back](Self::undo).
    pub fn catch_up(&mut self, missed: Missed) {
        self.forget_entries_of_unknown(&missed);
        let Workspace { ready, agenda, leases, graph, .. } = self;
        for (key, is) in missed.edges {
            let was = match self.edges.get(&key) {
                Known::Present(it) => Some(it.clone()),
                Known::Absent | Known::Unknown => None,
            };
            derive_edge(graph, was.as_deref(), is.as_deref());
            if !matches!(self.edges.get(&key), Known::Unknown) {
                self.edges.settle(key, is);
            }
        }
        for (id, is) in missed.flows {
            let was = self.flows.settle(id, is.clone());
            derive_flow(agenda, was.as_deref(), is.as_deref());
        }
        for (id, is) in missed.executions {
            self.newest.note(id);
            let was = self.executions.settle(id, is.clone());
            derive(ready, agenda, leases, was.as_deref(), is.as_deref());
            derive_member(graph, was.as_deref(), is.as_deref());
        }
        for (id, is) in missed.streams {
            let was = self.streams.settle(id, is.clone());
            derive_stream(agenda, was.as_deref(), is.as_deref());
        }
        for (id, is) in missed.signing_keys {
            self.signing_keys.settle(id, is);
        }
        for id in missed.ended {
            self.newest.note(id);
            let was = self.executions.settle(id, None);
            derive(ready, agenda, leases, was.as_deref(), None);
            self.executions.forget(&id);
        }
        for (id, is) in missed.workers {
            let was = self.workers.settle(id, is.clone());
            derive_worker(agenda, was.as_deref(), is.as_deref());
        }
        for (key, is) in missed.dedup {
            if !matches!(self.dedup.get(&key), Known::Unknown) {
                self.dedup.settle(key, is);
            }
        }
        for (name, is) in missed.lanes {
            self.lanes.settle(name, is);
        }
        for link in missed.links {
            self.links.settle(link.peer, Some(link));
        }
        for (key, is) in missed.messages {
            agenda.remove(&key);
            is.into_iter().for_each(|message| agenda.add(key, Some(message)));
        }
        ready.set_totals(missed.ready_counts);
        self.letters.clear();
        self.forget_registry();
        self.recent.clear();
        self.sweep_page = None;
        self.set_sweep(missed.header.sweep_at);
        self.header = missed.header;
        self.header_at_batch = missed.header;
    }

    /// Of a record that is not cached it is not known which entries it had: they are looked for by its id.
    fn forget_entries_of_unknown(&mut self, missed: &Missed) {
        let unknown = |id: &ExecutionId| matches!(self.executions.get(id), Known::Unknown);
        let changed = missed.executions.iter().map(|(id, _)| *id).chain(missed.ended.iter().copied());
        let changed: FxHashSet<ExecutionId> = changed.filter(unknown).collect();
        let flows = missed.flows.iter().map(|(id, _)| *id);
        let flows: FxHashSet<FlowId> =
            flows.filter(|id| matches!(self.flows.get(id), Known::Unknown)).collect();
        if !flows.is_empty() {
            let own = |subject| matches!(subject, Subject::Members(id) if flows.contains(&id));
            self.agenda.forget(|key| own(key.subject));
        }
        let streams = missed.streams.iter().map(|(id, _)| *id);
        let streams: FxHashSet<ExecutionId> =
            streams.filter(|id| matches!(self.streams.get(id), Known::Unknown)).collect();
        if !streams.is_empty() {
            let own = |subject| matches!(subject, Subject::Frames(id) if streams.contains(&id));
            self.agenda.forget(|key| own(key.subject));
        }
        if changed.is_empty() {
            return;
        }
        self.ready.windows_mut().for_each(|(_, _, window)| window.forget(|id| changed.contains(id)));
        let own = |subject| match subject {
            Subject::Timer(id) | Subject::Cascade(id) | Subject::Children(id) => changed.contains(&id),
            _ => false,
        };
        self.agenda.forget(|key| own(key.subject));
        let held: FxHashMap<_, _> = std::mem::take(&mut self.leases);
        self.leases = held
            .into_iter()
            .filter_map(|(instance, mut ids)| {
                ids.retain(|id| !changed.contains(id));
                (!ids.is_empty()).then_some((instance, ids))
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::testing::{Bench, delay, fail};
    use crate::commands::{Cancel, Complete, Renew, Revoke};
    use crate::payload::Payload;

    #[test]
    fn a_lease_that_another_server_renews_disturbs_nobody_and_one_that_it_ends_does() {
        let mut bench = Bench::new();
        let (kept, asked, ended) = (bench.active(), bench.active(), bench.active());
        let holder = bench.get(kept.execution).lease().unwrap().instance;
        bench.switch();
        bench.ok(Renew { fences: vec![kept, asked, ended] });
        bench.commit();
        bench.switch();
        assert_eq!(bench.disturbed, []);
        bench.switch();
        let (actor, cause) = ("ada".into(), "".into());
        bench.ok(Cancel { execution: asked.execution, actor, cause, grace_ms: Some(60_000) });
        bench.ok(Complete { fence: ended, result: Some(Payload::json("1")) });
        bench.ok(Renew { fences: vec![kept] });
        bench.commit();
        bench.switch();
        let mut wanted = [(holder, asked.execution), (holder, ended.execution)];
        wanted.sort();
        bench.disturbed.sort();
        assert_eq!(bench.disturbed, wanted);
    }

    #[test]
    fn a_lease_that_its_holder_ends_through_another_server_disturbs_it_only_if_it_was_taken_away() {
        let mut bench = Bench::new();
        let (delayed, revoked, failed) = (bench.active(), bench.active(), bench.active());
        let holder = bench.get(delayed.execution).lease().unwrap().instance;
        bench.commit();
        bench.switch();
        bench.ok(delay(delayed, 60_000));
        bench.ok(fail(failed));
        // The first server has never heard of this one.
        let unknown = bench.active();
        bench.ok(delay(unknown, 60_000));
        let (actor, cause) = ("ada".into(), "".into());
        bench.ok(Revoke { execution: revoked.execution, actor, cause });
        bench.commit();
        bench.switch();
        assert_eq!(bench.disturbed, [(holder, revoked.execution)]);
    }
}
