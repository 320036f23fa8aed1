//! Questions people ask about executions and flows: pages, counts, payloads, attempts.

use std::sync::Arc;

use ff_core::attempt::Attempt;
use ff_core::flow::{Flow, FlowLive, FlowSpec};
use ff_core::payload::{Payload, PayloadKey};
use ff_core::query::{CountKey, Filter, FlowFilter, FlowPage, FlowPageAsk, Order, Page, PageAsk};
use ff_core::state::PublicState;
use ff_core::{ExecutionId, FlowId, Kind, Namespace};
use rusqlite::{Row, params};

use crate::reader::Reads;
use crate::records::{Read, ReadError, count, execution, id, json, lane, text};

/// Before and after every id.
const LOWEST: &[u8] = &[];
const HIGHEST: &[u8] = &[0xff; 17];

impl Reads<'_> {
    pub(crate) fn page(&mut self, ask: &PageAsk) -> Read<Page> {
        let after = ask.after.as_ref().map(|id| &id.0.as_bytes()[..]);
        let flow = ask.filter.flow.as_ref().map(|id| &id.0.as_bytes()[..]);
        let sql = &mut self.sql;
        let (all, members, start) = match ask.order {
            Order::NewestFirst => {
                (&mut sql.executions_newest_first, &mut sql.members_newest_first, after.unwrap_or(HIGHEST))
            }
            Order::OldestFirst => {
                (&mut sql.executions_oldest_first, &mut sql.members_oldest_first, after.unwrap_or(LOWEST))
            }
        };
        let mut rows = match flow {
            None => all.query([start])?,
            Some(flow) => members.query([start, flow])?,
        };
        let mut page = Page { executions: Vec::new(), next: None };
        let mut looked = 0;
        let mut last = None;
        while let Some(row) = rows.next()? {
            if last.is_some() && (page.executions.len() >= ask.limit.max(1) || looked >= ask.scan_max) {
                page.next = last;
                break;
            }
            let id = ExecutionId(id(row, 0)?);
            (looked, last) = (looked + 1, Some(id));
            // The columns rule out most records before anything is parsed.
            if may_match(&ask.filter, row)? {
                let execution = execution(id, row, 7)?;
                if ask.filter.matches(&execution) {
                    page.executions.push(execution);
                }
            }
        }
        Ok(page)
    }

    pub(crate) fn flow_page(&mut self, ask: &FlowPageAsk) -> Read<FlowPage> {
        let after = ask.after.as_ref().map(|id| &id.0.as_bytes()[..]);
        let mut rows = match ask.order {
            Order::NewestFirst => self.sql.flows_newest_first.query([after.unwrap_or(HIGHEST)])?,
            Order::OldestFirst => self.sql.flows_oldest_first.query([after.unwrap_or(LOWEST)])?,
        };
        let mut page = FlowPage { flows: Vec::new(), next: None };
        let mut looked = 0;
        let mut last = None;
        while let Some(row) = rows.next()? {
            if last.is_some() && (page.flows.len() >= ask.limit.max(1) || looked >= ask.scan_max) {
                page.next = last;
                break;
            }
            let id = FlowId(id(row, 0)?);
            (looked, last) = (looked + 1, Some(id));
            if flow_may_match(&ask.filter, row)? {
                let (spec, live): (FlowSpec, FlowLive) = (json("spec", row, 5)?, json("live", row, 6)?);
                let flow = Flow { id, spec: Arc::new(spec), live };
                if ask.filter.matches(&flow) {
                    page.flows.push(flow);
                }
            }
        }
        Ok(page)
    }

    pub(crate) fn counts(&mut self) -> Read<Vec<(CountKey, u64)>> {
        let mut counts = Vec::new();
        let mut rows = self.sql.counts.query([])?;
        while let Some(row) = rows.next()? {
            let key = CountKey {
                namespace: Namespace::parse(text(row, 0)?).map_err(|e| unreadable("namespace", e))?,
                lane: lane(row, 1)?,
                kind: Kind::parse(text(row, 2)?).map_err(|e| unreadable("kind", e))?,
                state: PublicState::from_word(text(row, 3)?).ok_or_else(|| unreadable("state", "counts"))?,
            };
            counts.push((key, count(row, 4)?));
        }
        Ok(counts)
    }

    pub(crate) fn payloads(&mut self, keys: &[PayloadKey]) -> Read<Vec<Option<Payload>>> {
        let mut payloads = Vec::with_capacity(keys.len());
        // Most payloads have the content type of the one before.
        let mut content_type: std::sync::Arc<str> = ff_core::payload::JSON.into();
        for key in keys {
            let mut rows = self.sql.payload.query(params![key.execution.0.as_bytes(), key.slot.word()])?;
            let Some(row) = rows.next()? else {
                payloads.push(None);
                continue;
            };
            let found = text(row, 0)?;
            if found != &*content_type {
                content_type = found.into();
            }
            let bytes: Vec<u8> = row.get(1)?;
            payloads.push(Some(Payload { content_type: content_type.clone(), bytes: bytes.into() }));
        }
        Ok(payloads)
    }

    pub(crate) fn attempts(&mut self, execution: ExecutionId) -> Read<Vec<Attempt>> {
        let mut attempts = Vec::new();
        let mut rows = self.sql.attempts.query([execution.0.as_bytes()])?;
        while let Some(row) = rows.next()? {
            attempts.push(json("attempt", row, 0)?);
        }
        Ok(attempts)
    }
}

/// Whether the columns of a row rule it out already; the filter itself has the last word.
fn may_match(filter: &Filter, row: &Row<'_>) -> Read<bool> {
    let created_at: i64 = row.get(6)?;
    let state = text(row, 4)?;
    Ok(filter.namespace.as_ref().map_or(Ok(true), |it| text(row, 1).map(|found| found == it.as_str()))?
        && filter.lane.as_ref().map_or(Ok(true), |it| text(row, 2).map(|found| found == it.as_str()))?
        && filter.kind.as_ref().map_or(Ok(true), |it| text(row, 3).map(|found| found == it.as_str()))?
        && (filter.states.is_empty() || filter.states.iter().any(|it| it.word() == state))
        && filter.reason.map_or(Ok(true), |it| text(row, 5).map(|found| found == it.word()))?
        && filter.created_from.is_none_or(|it| created_at >= it)
        && filter.created_before.is_none_or(|it| created_at < it))
}

/// The same for a flow.
fn flow_may_match(filter: &FlowFilter, row: &Row<'_>) -> Read<bool> {
    let created_at: i64 = row.get(4)?;
    let state = text(row, 3)?;
    Ok(filter.namespace.as_ref().map_or(Ok(true), |it| text(row, 1).map(|found| found == it.as_str()))?
        && filter.kind.as_ref().map_or(Ok(true), |it| text(row, 2).map(|found| found == it.as_str()))?
        && (filter.states.is_empty() || filter.states.iter().any(|it| it.word() == state))
        && filter.created_from.is_none_or(|it| created_at >= it)
        && filter.created_before.is_none_or(|it| created_at < it))
}

fn unreadable(what: &'static str, why: impl ToString) -> ReadError {
    ReadError::Unreadable(what, why.to_string())
}
