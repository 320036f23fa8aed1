//! Questions people ask: pages of executions and flows, counts, payloads, attempts, events.

use ff_core::attempt::Attempt;
use ff_core::event::Event;
use ff_core::payload::{Payload, PayloadKey};
use ff_core::query::{CountKey, FlowPage, FlowPageAsk, Order, Page, PageAsk};
use ff_core::state::PublicState;
use ff_core::{CommitId, ExecutionId, FlowId, Kind, Ms, Namespace};
use ff_store::{EventPage, Written};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::columns::{Param, int};
use crate::graph::flow;
use crate::records::{Read, ReadError, column, count, execution, json, lane};

/// How many records are looked at with one statement.
const STRETCH: usize = 1_000;

pub(crate) async fn written(client: &Client, partition: i32, number: u64) -> Read<Written> {
    let number = int(number);
    let params: [Param<'_>; 2] = [(&partition, Type::INT4), (&number, Type::INT8)];
    let row = client.query_typed_one("SELECT id, newest FROM flowfabric.written_1($1, $2)", &params).await?;
    let (id, newest): (Option<Uuid>, Option<i64>) = (column(&row, 0)?, column(&row, 1)?);
    Ok(match id {
        Some(id) => Written::By(CommitId(id)),
        None if newest.unwrap_or(0) >= number => Written::Forgotten,
        None => Written::Not,
    })
}

pub(crate) async fn payloads(client: &Client, keys: &[PayloadKey]) -> Read<Vec<Option<Payload>>> {
    let executions: Vec<Uuid> = keys.iter().map(|key| key.execution.0).collect();
    let slots: Vec<&str> = keys.iter().map(|key| key.slot.word()).collect();
    let params: [Param<'_>; 2] = [(&executions, Type::UUID_ARRAY), (&slots, Type::TEXT_ARRAY)];
    let rows = client.query_typed("SELECT * FROM flowfabric.payloads_1($1, $2)", &params).await?;
    let mut payloads = vec![None; keys.len()];
    // Most payloads have the content type of the one before.
    let mut content_type: std::sync::Arc<str> = ff_core::payload::JSON.into();
    for row in &rows {
        let found: &str = column(row, 1)?;
        if found != &*content_type {
            content_type = found.into();
        }
        let bytes: &[u8] = column(row, 2)?;
        let place = usize::try_from(count(row, 0)?).unwrap_or(0);
        if let Some(slot) = place.checked_sub(1).and_then(|place| payloads.get_mut(place)) {
            let bytes = bytes::Bytes::copy_from_slice(bytes);
            *slot = Some(Payload { content_type: content_type.clone(), bytes });
        }
    }
    Ok(payloads)
}

pub(crate) async fn attempts(client: &Client, id: ExecutionId) -> Read<Vec<Attempt>> {
    let rows =
        client.query_typed("SELECT record FROM flowfabric.attempts_1($1)", &[(&id.0, Type::UUID)]).await?;
    rows.iter().map(|row| json("attempt", column(row, 0)?)).collect()
}

/// Reads stretches of executions until enough were found or looked at.
pub(crate) async fn page(client: &Client, ask: &PageAsk) -> Read<Page> {
    const QUERY: &str = "SELECT * FROM flowfabric.executions_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    const MEMBERS: &str = "SELECT * FROM flowfabric.members_1($4, $1, $2, $3)";
    let filter = &ask.filter;
    let namespace = filter.namespace.as_ref().map(|it| it.as_str());
    let lane = filter.lane.as_ref().map(|it| it.as_str());
    let kind = filter.kind.as_ref().map(|it| it.as_str());
    let states: Vec<&str> = filter.states.iter().map(|it| it.word()).collect();
    let states = Some(states).filter(|it| !it.is_empty());
    let reason = filter.reason.map(|it| it.word());
    let newest_first = ask.order == Order::NewestFirst;
    let (limit, scan_max) = (ask.limit.max(1), ask.scan_max.max(1));
    let mut page = Page { executions: Vec::new(), next: None };
    let (mut after, mut looked) = (ask.after.map(|id| id.0), 0);
    loop {
        let stretch = STRETCH.min(scan_max - looked).min(limit.max(16));
        // One more than is looked at, to know whether there is more.
        let rows_max = int(stretch as u64 + 1);
        let params: [Param<'_>; 10] = [
            (&after, Type::UUID),
            (&newest_first, Type::BOOL),
            (&rows_max, Type::INT8),
            (&namespace, Type::TEXT),
            (&lane, Type::TEXT),
            (&kind, Type::TEXT),
            (&states, Type::TEXT_ARRAY),
            (&reason, Type::TEXT),
            (&filter.created_from, Type::INT8),
            (&filter.created_before, Type::INT8),
        ];
        let rows = match filter.flow.map(|flow| flow.0) {
            None => client.query_typed(QUERY, &params).await?,
            Some(flow) => {
                let [after, order, most, ..] = params;
                client.query_typed(MEMBERS, &[after, order, most, (&flow, Type::UUID)]).await?
            }
        };
        for row in rows.iter().take(stretch) {
            if page.executions.len() >= limit {
                page.next = after.map(ExecutionId);
                return Ok(page);
            }
            let id: Uuid = column(row, 0)?;
            (after, looked) = (Some(id), looked + 1);
            // The columns rule out most records before anything is parsed.
            let (spec, live): (Option<&str>, Option<&str>) = (column(row, 1)?, column(row, 2)?);
            if let (Some(spec), Some(live)) = (spec, live) {
                let execution = execution(id, spec, live)?;
                if filter.matches(&execution) {
                    page.executions.push(std::sync::Arc::unwrap_or_clone(execution));
                }
            }
        }
        if rows.len() <= stretch {
            return Ok(page);
        }
        if page.executions.len() >= limit || looked >= scan_max {
            page.next = after.map(ExecutionId);
            return Ok(page);
        }
    }
}

/// Reads stretches of flows until enough were found or looked at.
pub(crate) async fn flow_page(client: &Client, ask: &FlowPageAsk) -> Read<FlowPage> {
    const QUERY: &str = "SELECT * FROM flowfabric.flows_1($1, $2, $3, $4, $5, $6, $7, $8)";
    let filter = &ask.filter;
    let namespace = filter.namespace.as_ref().map(|it| it.as_str());
    let kind = filter.kind.as_ref().map(|it| it.as_str());
    let states: Vec<&str> = filter.states.iter().map(|it| it.word()).collect();
    let states = Some(states).filter(|it| !it.is_empty());
    let newest_first = ask.order == Order::NewestFirst;
    let (limit, scan_max) = (ask.limit.max(1), ask.scan_max.max(1));
    let mut page = FlowPage { flows: Vec::new(), next: None };
    let (mut after, mut looked) = (ask.after.map(|id| id.0), 0);
    loop {
        let stretch = STRETCH.min(scan_max - looked).min(limit.max(16));
        // One more than is looked at, to know whether there is more.
        let rows_max = int(stretch as u64 + 1);
        let params: [Param<'_>; 8] = [
            (&after, Type::UUID),
            (&newest_first, Type::BOOL),
            (&rows_max, Type::INT8),
            (&namespace, Type::TEXT),
            (&kind, Type::TEXT),
            (&states, Type::TEXT_ARRAY),
            (&filter.created_from, Type::INT8),
            (&filter.created_before, Type::INT8),
        ];
        let rows = client.query_typed(QUERY, &params).await?;
        for row in rows.iter().take(stretch) {
            if page.flows.len() >= limit {
                page.next = after.map(FlowId);
                return Ok(page);
            }
            let id: Uuid = column(row, 0)?;
            (after, looked) = (Some(id), looked + 1);
            let (spec, live): (Option<&str>, Option<&str>) = (column(row, 1)?, column(row, 2)?);
            if let (Some(spec), Some(live)) = (spec, live) {
                let flow = flow(FlowId(id), spec, live)?;
                if filter.matches(&flow) {
                    page.flows.push(std::sync::Arc::unwrap_or_clone(flow));
                }
            }
        }
        if rows.len() <= stretch {
            return Ok(page);
        }
        if page.flows.len() >= limit || looked >= scan_max {
            page.next = after.map(FlowId);
            return Ok(page);
        }
    }
}

pub(crate) async fn counts(client: &Client, partitions: u16) -> Read<Vec<(CountKey, u64)>> {
    let partitions = i32::from(partitions);
    let rows =
        client.query_typed("SELECT * FROM flowfabric.all_counts_1($1)", &[(&partitions, Type::INT4)]).await?;
    let unreadable = |what, why: String| ReadError::Unreadable(what, why);
    let mut counts = Vec::with_capacity(rows.len());
    for row in &rows {
        let state: &str = column(row, 3)?;
        let key = CountKey {
            namespace: Namespace::parse(column(row, 0)?)
                .map_err(|e| unreadable("namespace", e.to_string()))?,
            lane: lane(column(row, 1)?)?,
            kind: Kind::parse(column(row, 2)?).map_err(|e| unreadable("kind", e.to_string()))?,
            state: PublicState::from_word(state).ok_or_else(|| unreadable("state", state.to_owned()))?,
        };
        counts.push((key, count(row, 4)?));
    }
    Ok(counts)
}

pub(crate) async fn events(client: &Client, partition: i32, from: u64, limit: usize) -> Read<EventPage> {
    let (start, most) = (int(from), int(limit as u64));
    let params: [Param<'_>; 3] = [(&partition, Type::INT4), (&start, Type::INT8), (&most, Type::INT8)];
    let rows = client.query_typed("SELECT * FROM flowfabric.events_1($1, $2, $3)", &params).await?;
    let mut page = EventPage { events: Vec::new(), oldest: 1, next: 1 };
    for row in &rows {
        if column::<&str>(row, 0)? == "ends" {
            page.next = count(row, 2)?.max(1);
            let oldest: Option<i64> = column(row, 1)?;
            page.oldest = oldest.and_then(|it| u64::try_from(it).ok()).unwrap_or(page.next);
            continue;
        }
        let pack: Vec<Event> = json("events", column(row, 3)?)?;
        let room = limit - page.events.len();
        page.events.extend(pack.into_iter().filter(|event| event.number >= from).take(room));
    }
    Ok(page)
}

pub(crate) async fn first_event_since(client: &Client, partition: i32, at: Ms) -> Read<u64> {
    const QUERY: &str = "SELECT coalesce((SELECT number FROM flowfabric.first_event_since_1($1, $2)), \
                         (SELECT last FROM flowfabric.events_1($1, 1, 0) WHERE tag = 'ends'))";
    let params: [Param<'_>; 2] = [(&partition, Type::INT4), (&at, Type::INT8)];
    let row = client.query_typed_one(QUERY, &params).await?;
    Ok(count(&row, 0)?.max(1))
}
