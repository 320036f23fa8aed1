//! The answers to what a decision needs to see.

use std::sync::Arc;

use ff_core::agenda::{AgendaEntry, AgendaKey};
use ff_core::change::{EndedEntry, Header};
use ff_core::class::Class;
use ff_core::key::{Ask, Dedup, DedupKey, Key};
use ff_core::message::{Link, Message};
use ff_core::ready::Place;
use ff_core::workspace::{Answer, Missed, Opening, SweepPage};
use ff_core::{ExecutionId, FlowId, InstanceId, LaneName, Ms, Namespace, PartitionId};
use ff_store::Version;
use rusqlite::params;

use crate::apply::{SubjectColumn, int};
use crate::reader::Reads;
use crate::records::{Read, ReadError, class, count, execution, id, json, lane, subject, text, version};

/// A sweep looks at no more packs of events than this at once, however much is old enough.
pub(crate) const EVENT_PACKS_PER_SWEEP: usize = 1_000;

impl Reads<'_> {
    /// The version of a partition, and what its newest commit says of it.
    pub(crate) fn head(&mut self, partition: i64) -> Read<(Version, Header)> {
        let mut rows = self.sql.newest_commit.query([partition])?;
        let Some(row) = rows.next()? else { return Ok((Version::NONE, Header::default())) };
        let header = Header { next_event: count(row, 2)?, sweep_at: row.get(3)?, now: row.get(4)? };
        Ok((version(row)?, header))
    }

    pub(crate) fn answer(&mut self, partition: i64, ask: Ask) -> Read<Answer> {
        match ask {
            Ask::Record(key) => self.record(partition, key),
            Ask::Opening => self.opening(partition),
            Ask::Ready { lane, class, after, limit } => self.ready(partition, lane, class, after, limit),
            Ask::List { list, after, limit } => self.list(partition, list, after, limit),
            Ask::Agenda { after, limit } => self.agenda(partition, after, limit),
            Ask::Changes { since } => self.missed(partition, since),
            Ask::Sweep { now, events_before, limit } => self.sweep(partition, now, events_before, limit),
            Ask::Inbox { limit, bytes } => self.inbox(partition, limit, bytes),
            Ask::DeadLetters { after, limit } => self.dead_letters(partition, after, limit),
            Ask::Registry { kind, id } => self.registry(partition, kind, id),
        }
    }

    fn record(&mut self, partition: i64, key: Key) -> Read<Answer> {
        match key {
            Key::Execution(id) => {
                let mut rows = self.sql.execution.query([id.0.as_bytes()])?;
                let found = match rows.next()? {
                    Some(row) if row.get::<_, i64>(0)? == partition => Some(Arc::new(execution(id, row, 1)?)),
                    _ => None,
                };
                Ok(Answer::Execution(id, found))
            }
            Key::Dedup(key) => {
                let mut rows = self.sql.dedup.query(params![partition, key.namespace.as_str(), &*key.key])?;
                let found = match rows.next()? {
                    Some(row) => Some(Dedup { execution: ExecutionId(id(row, 0)?), expires_at: row.get(1)? }),
                    None => None,
                };
                drop(rows);
                Ok(Answer::Dedup(key, found))
            }
            Key::Lane(name) => {
                let mut rows = self.sql.lane.query(params![partition, name.as_str()])?;
                let found = match rows.next()? {
                    Some(row) => Some(Arc::new(json("lane", row, 0)?)),
                    None => None,
                };
                drop(rows);
                Ok(Answer::Lane(name, found))
            }
            Key::Worker(instance) => {
                let mut rows = self.sql.worker.query(params![partition, instance.0.as_bytes()])?;
                let found = match rows.next()? {
                    Some(row) => Some(Arc::new(json("worker", row, 0)?)),
                    None => None,
                };
                Ok(Answer::Worker(instance, found))
            }
            Key::Flow(id) => self.flow(partition, id),
            Key::Edge(key) => self.edge(partition, key),
            Key::Stream(id) => self.stream(partition, id),
            Key::SigningKey(id) => self.signing_key(partition, id),
            Key::Message(key) => {
                let AgendaKey { due, subject } = &key;
                let ask = params![partition, due, subject.kind(), SubjectColumn(subject)];
                let mut rows = self.sql.message.query(ask)?;
                let found: Option<Message> = match rows.next()? {
                    Some(row) => Some(json("message", row, 0)?),
                    None => None,
                };
                Ok(Answer::Message(key, found.map(Arc::new)))
            }
        }
    }

    fn missed(&mut self, partition: i64, since: u64) -> Read<Answer> {
        let Some(keys) = self.changed_keys(partition, since)? else { return Ok(Answer::Changes(None)) };
        let header = self.head(partition)?.1;
        let (links, ready_counts) = (self.links(partition)?, self.ready_counts(partition)?);
        let mut missed = Missed { header, links, ready_counts, ..Missed::default() };
        for key in keys {
            missed.add(self.record(partition, key)?);
        }
        Ok(Answer::Changes(Some(Box::new(missed))))
    }

    fn links(&mut self, partition: i64) -> Read<Vec<Link>> {
        let mut links = Vec::new();
        let mut rows = self.sql.links.query([partition])?;
        while let Some(row) = rows.next()? {
            let peer = PartitionId(row.get(0)?);
            links.push(Link { peer, sent: count(row, 1)?, received: count(row, 2)? });
        }
        Ok(links)
    }

    fn opening(&mut self, partition: i64) -> Read<Answer> {
        let header = self.head(partition)?.1;
        let ready_counts = self.ready_counts(partition)?;
        let links = self.links(partition)?;
        let signing_keys = self.signing_keys(partition)?;
        let mut opening = Opening { header, links, ready_counts, signing_keys, ..Opening::default() };
        let mut rows = self.sql.lanes.query([partition])?;
        while let Some(row) = rows.next()? {
            opening.lanes.push(Arc::new(json("lane", row, 0)?));
        }
        let mut rows = self.sql.workers.query([partition])?;
        while let Some(row) = rows.next()? {
            opening.workers.push(Arc::new(json("worker", row, 0)?));
        }
        let mut rows = self.sql.leases.query([partition])?;
        while let Some(row) = rows.next()? {
            opening.leases.push((InstanceId(id(row, 0)?), ExecutionId(id(row, 1)?)));
        }
        let mut rows = self.sql.newest_execution.query([])?;
        opening.newest = rows.next()?.map(|row| id(row, 0).map(ExecutionId)).transpose()?;
        Ok(Answer::Opening(Box::new(opening)))
    }

    pub(crate) fn ready_counts(&mut self, partition: i64) -> Read<Vec<(LaneName, Class, u64)>> {
        let mut counts = Vec::new();
        let mut rows = self.sql.ready_counts.query([partition])?;
        while let Some(row) = rows.next()? {
            counts.push((lane(row, 0)?, class(row, 1)?, count(row, 2)?));
        }
        Ok(counts)
    }

    fn ready(
        &mut self,
        partition: i64,
        lane: LaneName,
        class: Class,
        after: Place,
        limit: usize,
    ) -> Read<Answer> {
        let (mut entries, mut executions) = (Vec::new(), Vec::new());
        let class_text = class.to_string();
        let ask =
            params![partition, lane.as_str(), class_text, after.rank, int(after.number), int(limit as u64)];
        let mut rows = self.sql.ready.query(ask)?;
        while let Some(row) = rows.next()? {
            let id = ExecutionId(id(row, 2)?);
            entries.push((Place { rank: row.get(0)?, number: count(row, 1)? }, id));
            if row.get_ref(3)? != rusqlite::types::ValueRef::Null {
                executions.push(Arc::new(execution(id, row, 3)?));
            }
        }
        drop(rows);
        Ok(Answer::Ready { lane, class, limit, entries, executions })
    }

    fn agenda(&mut self, partition: i64, after: Ms, limit: usize) -> Read<Answer> {
        let mut entries: Vec<AgendaEntry> = Vec::new();
        let mut reached = Ms::MAX;
        let mut rows = self.sql.agenda.query(params![partition, after])?;
        while let Some(row) = rows.next()? {
            let due: Ms = row.get(0)?;
            if let Some(last) = entries.last().filter(|_| entries.len() >= limit)
                && last.key.due != due
            {
                reached = last.key.due;
                break;
            }
            let message = match row.get_ref(3)? {
                rusqlite::types::ValueRef::Null => None,
                _ => Some(Arc::new(json::<Message>("message", row, 3)?)),
            };
            entries.push(AgendaEntry { key: AgendaKey { due, subject: subject(row, 1, 2)? }, message });
        }
        Ok(Answer::Agenda { entries, reached })
    }

    fn sweep(&mut self, partition: i64, now: Ms, events_before: Ms, limit: usize) -> Read<Answer> {
        let mut page = SweepPage::default();
        let limit = int(limit as u64);
        let mut rows = self.sql.ended.query(params![partition, now, limit])?;
        while let Some(row) = rows.next()? {
            page.ended.push(EndedEntry { remove_at: row.get(0)?, execution: ExecutionId(id(row, 1)?) });
        }
        drop(rows);
        let mut rows = self.sql.dedup_expired.query(params![partition, now, limit])?;
        while let Some(row) = rows.next()? {
            let dedup = Dedup { execution: ExecutionId(id(row, 2)?), expires_at: row.get(3)? };
            page.dedup.push((dedup_key(text(row, 0)?, text(row, 1)?)?, dedup));
        }
        drop(rows);
        let mut rows = self.sql.flows_ended.query(params![partition, now, limit])?;
        while let Some(row) = rows.next()? {
            page.flows.push((row.get(0)?, FlowId(id(row, 1)?)));
        }
        drop(rows);
        let (below, first_kept) = self.events_older_than(partition, events_before)?;
        page.events_below = below;
        let events_next = first_kept.map(|at| at.saturating_add(now.saturating_sub(events_before)));
        let next: Option<Ms> = self.sql.next_removal.query_row(params![partition, now], |row| row.get(0))?;
        page.next = next.into_iter().chain(events_next).min();
        Ok(Answer::Sweep(page))
    }
}

fn dedup_key(namespace: &str, key: &str) -> Read<DedupKey> {
    let namespace =
        Namespace::parse(namespace).map_err(|error| ReadError::Unreadable("namespace", error.to_string()))?;
    Ok(DedupKey { namespace, key: key.into() })
}
