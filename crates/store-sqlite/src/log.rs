//! What the commit log and the event log tell: who wrote a version, what has changed since, what happened.

use ff_core::event::Event;
use ff_core::key::Key;
use ff_core::{CommitId, Ms};
use ff_store::{COMMITS_TOLD, EventPage, KEYS_TOLD, Written};
use rusqlite::params;

use crate::apply::int;
use crate::keys;
use crate::load::EVENT_PACKS_PER_SWEEP;
use crate::reader::Reads;
use crate::records::{Read, ReadError, count, id, json};

/// A row of events without its content.
struct Pack {
    first: u64,
    last: u64,
    /// When its newest event happened.
    at: Ms,
}

impl Reads<'_> {
    pub(crate) fn written(&mut self, partition: i64, number: u64) -> Read<Written> {
        let mut rows = self.sql.commit_id.query(params![partition, int(number)])?;
        if let Some(row) = rows.next()? {
            return Ok(Written::By(CommitId(id(row, 0)?)));
        }
        drop(rows);
        let newest = self.head(partition)?.0.number;
        Ok(if newest >= number { Written::Forgotten } else { Written::Not })
    }

    /// The records that the commits after a version have changed, unless they cannot be told apart.
    pub(crate) fn changed_keys(&mut self, partition: i64, since: u64) -> Read<Option<Vec<Key>>> {
        // A version from the future is one of another history; nothing known of it can be trusted.
        if since > self.head(partition)?.0.number {
            return Ok(None);
        }
        let mut found = Vec::new();
        let mut expected = since;
        let limit = int(COMMITS_TOLD as u64 + 1);
        let mut rows = self.sql.commits_after.query(params![partition, int(since), limit])?;
        while let Some(row) = rows.next()? {
            expected += 1;
            let forgotten = count(row, 0)? != expected;
            if forgotten || expected - since > COMMITS_TOLD as u64 {
                return Ok(None);
            }
            let executions = row.get_ref(1)?.as_blob_or_null()?;
            let others = row.get_ref(2)?.as_str_or_null()?;
            keys::unpack(executions, others, &mut found)
                .map_err(|error| ReadError::Unreadable("keys", error))?;
        }
        drop(rows);
        found.sort_unstable();
        found.dedup();
        Ok((found.len() <= KEYS_TOLD).then_some(found))
    }

    pub(crate) fn events(&mut self, partition: i64, from: u64, limit: usize) -> Read<EventPage> {
        let next = self.head(partition)?.1.next_event;
        let oldest = self.oldest_event(partition)?.unwrap_or(next);
        let mut events: Vec<Event> = Vec::new();
        let mut rows = self.sql.events_from.query(params![partition, int(from)])?;
        while events.len() < limit
            && let Some(row) = rows.next()?
        {
            if count(row, 1)? >= from {
                let pack: Vec<Event> = json("events", row, 2)?;
                let room = limit - events.len();
                events.extend(pack.into_iter().filter(|event| event.number >= from).take(room));
            }
        }
        Ok(EventPage { events, oldest, next })
    }

    pub(crate) fn first_event_since(&mut self, partition: i64, at: Ms) -> Read<u64> {
        let next = self.head(partition)?.1.next_event;
        Ok(self.first_since(partition, at)?.map_or(next, |(number, _)| number))
    }

    /// The number below which events are old enough to go, and when the first that stays happened.
    pub(crate) fn events_older_than(&mut self, partition: i64, at: Ms) -> Read<(Option<u64>, Option<Ms>)> {
        let Some(oldest) = self.oldest_event(partition)? else { return Ok((None, None)) };
        let mut kept = self.first_since(partition, at)?;
        let mut below = kept.map_or(self.head(partition)?.1.next_event, |(number, _)| number);
        // In steps: a store that was asleep for a month must not remove a month in one commit.
        let mut rows = self.sql.events_from.query(params![partition, int(oldest)])?;
        for _ in 0..EVENT_PACKS_PER_SWEEP {
            match rows.next()? {
                Some(row) if count(row, 0)? < below => {}
                _ => return Ok(((below > oldest).then_some(below), kept.map(|(_, at)| at))),
            }
        }
        if let Some(row) = rows.next()?
            && count(row, 0)? < below
        {
            below = count(row, 0)?;
            let pack: Vec<Event> = json("events", row, 2)?;
            kept = pack.first().map(|event| (event.number, event.at));
        }
        Ok((Some(below), kept.map(|(_, at)| at)))
    }

    fn oldest_event(&mut self, partition: i64) -> Read<Option<u64>> {
        let oldest: Option<i64> = self.sql.oldest_event.query_row([partition], |row| row.get(0))?;
        Ok(oldest.and_then(|oldest| u64::try_from(oldest).ok()))
    }

    /// Number and time of the first event at or after a time. A partition's time never goes back, so the packs
    /// are in the order of their times and a search by halves needs no index.
    fn first_since(&mut self, partition: i64, at: Ms) -> Read<Option<(u64, Ms)>> {
        let Some(oldest) = self.oldest_event(partition)? else { return Ok(None) };
        let next = self.head(partition)?.1.next_event;
        // The answer lies in the first pack that starts at `low` or later and is young enough.
        let (mut low, mut high) = (oldest, next);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.pack_from(partition, middle)? {
                Some(pack) if pack.at < at => low = pack.last + 1,
                _ => high = middle,
            }
        }
        let mut rows = self.sql.events_at_or_after.query(params![partition, int(low)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let pack: Vec<Event> = json("events", row, 3)?;
        Ok(pack.iter().find(|event| event.at >= at).map(|event| (event.number, event.at)))
    }

    /// The first pack that starts at a number or later.
    fn pack_from(&mut self, partition: i64, number: u64) -> Read<Option<Pack>> {
        let mut rows = self.sql.events_at_or_after.query(params![partition, int(number)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(Pack { first: count(row, 0)?, last: count(row, 1)?, at: row.get(2)? })
            .filter(|it| it.first >= number))
    }
}
