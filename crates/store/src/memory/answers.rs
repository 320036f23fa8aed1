//! What a partition answers to the asks of a load.

use std::ops::Bound::{Excluded, Unbounded};

use ff_core::agenda::{AgendaEntry, AgendaKey, Subject};
use ff_core::change::EndedEntry;
use ff_core::class::Class;
use ff_core::inbox::Posted;
use ff_core::key::{Ask, Key};
use ff_core::ready::Place;
use ff_core::workspace::{Answer, Missed, Opening, SweepPage};
use ff_core::{ExecutionId, LaneName, Ms};

use super::partition::Partition;

impl Partition {
    pub(super) fn answer(&self, ask: &Ask) -> Answer {
        match ask {
            Ask::Record(key) => self.record(key),
            Ask::Opening => Answer::Opening(Box::new(self.opening())),
            Ask::Ready { lane, class, after, limit } => self.ready_after(lane, class, *after, *limit),
            Ask::List { list, after, limit } => self.list(*list, *after, *limit),
            Ask::Agenda { after, limit } => self.agenda_after(*after, *limit),
            Ask::Changes { since } => Answer::Changes(self.missed(*since).map(Box::new)),
            Ask::Sweep { now, events_before, limit } => {
                Answer::Sweep(self.sweep_page(*now, *events_before, *limit))
            }
            Ask::Inbox { limit, bytes } => Answer::Inbox(self.inbox_page(*limit, *bytes)),
            Ask::DeadLetters { after, limit } => {
                let letters = self.dead_letters.range((Excluded(*after), Unbounded));
                let letters = letters.take(*limit).map(|(_, letter)| letter.clone()).collect();
                Answer::DeadLetters { after: *after, letters }
            }
            Ask::Registry { kind, id } => {
                let of_kind = self.registry.iter().filter(|(key, _)| key.kind == *kind);
                let asked = of_kind.filter(|(key, _)| id.as_ref().is_none_or(|id| *id == key.id));
                let records = asked.map(|(_, record)| record.clone()).collect();
                Answer::Registry { kind: *kind, id: id.clone(), records }
            }
        }
    }

    fn record(&self, key: &Key) -> Answer {
        match key {
            Key::Execution(id) => Answer::Execution(*id, self.executions.get(id).cloned()),
            Key::Dedup(key) => Answer::Dedup(key.clone(), self.dedup.get(key).copied()),
            Key::Lane(name) => Answer::Lane(name.clone(), self.lanes.get(name).cloned()),
            Key::Worker(id) => Answer::Worker(*id, self.workers.get(id).cloned()),
            Key::Flow(id) => Answer::Flow(*id, self.graphs.flow(*id).cloned()),
            Key::Edge(key) => Answer::Edge(*key, self.graphs.edge(key).cloned()),
            Key::Stream(id) => Answer::Stream(*id, self.mail.streams.get(id).cloned()),
            Key::SigningKey(id) => Answer::SigningKey(*id, self.mail.keys.get(id).cloned()),
            Key::Message(key) => Answer::Message(*key, self.agenda.get(key).cloned().flatten()),
        }
    }

    fn missed(&self, since: u64) -> Option<Missed> {
        let mut missed = Missed {
            header: self.header,
            links: self.links.values().copied().collect(),
            ready_counts: self.ready_totals(),
            ..Missed::default()
        };
        self.log.missed(since)?.into_iter().for_each(|key| missed.add(self.record(key)));
        Some(missed)
    }

    fn opening(&self) -> Opening {
        Opening {
            header: self.header,
            links: self.links.values().copied().collect(),
            lanes: self.lanes.values().cloned().collect(),
            workers: self.workers.values().cloned().collect(),
            signing_keys: self.mail.keys.values().cloned().collect(),
            ready_counts: self.ready_totals(),
            leases: self.leases.iter().copied().collect(),
            newest: self.executions.keys().max().copied(),
        }
    }

    /// The ready counters as others see them: none with zero or less.
    pub(super) fn ready_totals(&self) -> Vec<(LaneName, Class, u64)> {
        let counts = self.ready_counts.iter();
        let positive = counts.filter_map(|(key, count)| Some((key, u64::try_from(*count).ok()?)));
        positive.map(|((lane, class), count)| (lane.clone(), class.clone(), count)).collect()
    }

    fn ready_after(&self, lane: &LaneName, class: &Class, after: Place, limit: usize) -> Answer {
        let key = (lane.clone(), class.clone());
        let places = self.ready.get(&key).into_iter();
        let entries: Vec<_> = places
            .flat_map(|places| places.range((Excluded(after), Unbounded)))
            .take(limit)
            .map(|(place, id)| (*place, *id))
            .collect();
        let executions = entries.iter().filter_map(|(_, id)| self.executions.get(id).cloned()).collect();
        let (lane, class) = key;
        Answer::Ready { lane, class, limit, entries, executions }
    }

    fn agenda_after(&self, after: Ms, limit: usize) -> Answer {
        let mut entries: Vec<AgendaEntry> = Vec::new();
        let mut reached = Ms::MAX;
        // The lowest subject of the first millisecond after.
        let first = Subject::Timer(ExecutionId(uuid::Uuid::nil()));
        let from = after.checked_add(1).map(|due| AgendaKey { due, subject: first });
        for (key, message) in from.into_iter().flat_map(|from| self.agenda.range(from..)) {
            if let Some(last) = entries.last().filter(|_| entries.len() >= limit)
                && last.key.due != key.due
            {
                reached = last.key.due;
                break;
            }
            entries.push(AgendaEntry { key: *key, message: message.clone() });
        }
        Answer::Agenda { entries, reached }
    }

    fn sweep_page(&self, now: Ms, events_before: Ms, limit: usize) -> SweepPage {
        let ended = self.ended.iter().take_while(|entry| entry.remove_at <= now).take(limit);
        let expired = self.dedup_expiry.iter().take_while(|(at, _)| *at <= now).take(limit);
        let dedup = expired.filter_map(|(_, key)| Some((key.clone(), *self.dedup.get(key)?)));
        let old = self.events.partition_point(|event| event.at < events_before);
        let oldest_kept = self.events.get(old);
        let events_below =
            (old > 0).then(|| oldest_kept.map_or(self.header.next_event, |event| event.number));
        let keep_ms = now.saturating_sub(events_before);
        let next = [
            self.ended_after(now).map(|entry| entry.remove_at),
            self.dedup_expiry.iter().find(|(at, _)| *at > now).map(|(at, _)| *at),
            self.graphs.ended().find(|(at, _)| *at > now).map(|(at, _)| *at),
            oldest_kept.map(|event| event.at.saturating_add(keep_ms)),
        ];
        let flows = self.graphs.ended().take_while(|(at, _)| *at <= now).take(limit);
        SweepPage {
            flows: flows.copied().collect(),
            ended: ended.copied().collect(),
            dedup: dedup.collect(),
            events_below,
            next: next.into_iter().flatten().min(),
        }
    }

    fn inbox_page(&self, limit: usize, bytes: usize) -> Vec<Posted> {
        let mut total = 0;
        let rows = self.inbox.values().take(limit).take_while(|row| {
            let fits = total < bytes;
            total += row.input.len();
            fits
        });
        rows.cloned().collect()
    }

    fn ended_after(&self, now: Ms) -> Option<&EndedEntry> {
        let last = EndedEntry { remove_at: now, execution: ExecutionId(uuid::Uuid::max()) };
        self.ended.range((Excluded(last), Unbounded)).next()
    }
}
