//! What a decision needs to see: the asks on their way to the load function, and its rows back into answers.

use std::collections::HashMap;
use std::sync::Arc;

use ff_core::agenda::{AgendaEntry, AgendaKey};
use ff_core::change::{EndedEntry, Header};
use ff_core::class::Class;
use ff_core::execution::Execution;
use ff_core::flow::EdgeKey;
use ff_core::inbox::{DeadLetter, Posted};
use ff_core::key::{Ask, Dedup, DedupKey, Key};
use ff_core::message::{Link, Message};
use ff_core::payload::Payload;
use ff_core::ready::Place;
use ff_core::registry::Record;
use ff_core::workspace::{Answer, Missed, Opening, SweepPage};
use ff_core::{CommitId, ExecutionId, FlowId, InstanceId, LaneName, Ms, Namespace, PartitionId};
use ff_store::{COMMITS_TOLD, KEYS_TOLD, Loaded, Version};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::columns::{int, subject_id};
use crate::graph;
use crate::records::{Read, ReadError, class, column, count, execution, json as parse, lane, subject};

/// A sweep looks at no more packs of events than this at once, however much is old enough.
const EVENT_PACKS_PER_SWEEP: usize = 1_000;

pub(crate) const LOAD: &str = "SELECT * FROM flowfabric.load_1($1, $2, $3)";
/// What is asked for now and then, too. One statement sees one state of the database, so that all of it is answered at one
/// version.
pub(crate) const LOAD_WITH_REST: &str = concat!(
    "SELECT * FROM flowfabric.load_1($1, $2, $3)",
    " UNION ALL SELECT * FROM flowfabric.load_registry_1($1, coalesce($4, '[]'))",
    " UNION ALL SELECT 'newest', $5, flowfabric.newest_execution_1(), NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    " WHERE $5 IS NOT NULL",
);

/// What is asked, on its way.
pub(crate) struct Encoded {
    pub(crate) executions: Vec<Uuid>,
    /// Everything else, as JSON.
    pub(crate) others: Option<String>,
    pub(crate) registry: Option<String>,
    /// The place of the opening among what is asked.
    pub(crate) opening: Option<i32>,
}

impl Encoded {
    /// Whether the load function alone has all the answers.
    pub(crate) fn is_plain(&self) -> bool {
        self.registry.is_none() && self.opening.is_none()
    }
}

/// The arguments of the load functions.
pub(crate) fn encode(asks: &[Ask]) -> Encoded {
    let mut executions = Vec::new();
    let mut registry: Vec<Value> = Vec::new();
    let mut others: Vec<Value> = Vec::new();
    for (place, ask) in asks.iter().enumerate() {
        others.push(match ask {
            Ask::Record(Key::Execution(id)) => {
                executions.push(id.0);
                continue;
            }
            Ask::Registry { kind, id } => {
                registry.push(json!({ "ask": place, "kind": kind, "id": id }));
                continue;
            }
            Ask::Record(Key::Dedup(DedupKey { namespace, key })) => {
                json!({ "ask": place, "is": "dedup", "namespace": namespace, "key": key })
            }
            Ask::Record(Key::Lane(name)) => json!({ "ask": place, "is": "lane", "name": name }),
            Ask::Record(Key::Worker(id)) => json!({ "ask": place, "is": "worker", "id": id }),
            Ask::Record(Key::Flow(id)) => json!({ "ask": place, "is": "flow", "id": id }),
            Ask::Record(Key::Edge(EdgeKey { upstream, downstream })) => json!({
                "ask": place, "is": "edge", "upstream": upstream, "downstream": downstream,
            }),
            Ask::Record(Key::Stream(id)) => json!({ "ask": place, "is": "stream", "id": id }),
            Ask::Record(Key::SigningKey(id)) => json!({ "ask": place, "is": "signing_key", "id": id }),
            Ask::List { list, after, limit } => graph::ask(place, *list, *after, *limit),
            Ask::Opening => json!({ "ask": place, "is": "opening" }),
            Ask::Ready { lane, class, after, limit } => json!({
                "ask": place, "is": "ready", "lane": lane, "class": class.to_string(), "rank": after.rank,
                "number": int(after.number), "limit": most(*limit),
            }),
            Ask::Agenda { after, limit } => {
                json!({ "ask": place, "is": "agenda", "after": after, "limit": most(*limit) })
            }
            Ask::Record(Key::Message(AgendaKey { due, subject })) => json!({
                "ask": place, "is": "message", "due": due, "id": subject_id(subject),
            }),
            Ask::Inbox { limit, bytes } => {
                json!({ "ask": place, "is": "inbox", "limit": most(*limit), "bytes": most(*bytes) })
            }
            Ask::DeadLetters { after, limit } => {
                json!({ "ask": place, "is": "dead_letters", "after": int(*after), "limit": most(*limit) })
            }
            Ask::Changes { since } => json!({
                "ask": place, "is": "changes", "since": int(*since), "commits": COMMITS_TOLD, "keys": KEYS_TOLD,
            }),
            Ask::Sweep { now, events_before, limit } => json!({
                "ask": place, "is": "sweep", "now": now, "events_before": events_before,
                "limit": most(*limit),
                "packs": EVENT_PACKS_PER_SWEEP,
            }),
        });
    }
    let text = |list: Vec<Value>| (!list.is_empty()).then(|| Value::Array(list).to_string());
    let opening = asks.iter().position(|ask| matches!(ask, Ask::Opening));
    let opening = opening.and_then(|place| i32::try_from(place).ok());
    Encoded { executions, others: text(others), registry: text(registry), opening }
}

/// A limit as the database can count.
fn most(limit: usize) -> i64 {
    int(limit as u64)
}

/// A row of the load function.
struct Line<'r>(&'r Row);

impl<'r> Line<'r> {
    fn tag(&self) -> Read<&'r str> {
        column(self.0, 0)
    }
    fn ask(&self) -> Read<usize> {
        Ok(usize::try_from(column::<i32>(self.0, 1)?).unwrap_or(usize::MAX))
    }
    fn a(&self) -> Read<Uuid> {
        column(self.0, 2)
    }
    fn b(&self) -> Read<Uuid> {
        column(self.0, 3)
    }
    fn i(&self) -> Read<i64> {
        column(self.0, 4)
    }
    fn s(&self) -> Read<&'r str> {
        column(self.0, 7)
    }
    fn t(&self) -> Read<&'r str> {
        column(self.0, 8)
    }
}

/// Turns the rows of the load function into the answers to the asks, in order.
pub(crate) fn decode(asks: Vec<Ask>, rows: &[Row]) -> Read<Loaded> {
    let mut head = None;
    let mut executions: HashMap<Uuid, Arc<Execution>> = HashMap::new();
    let mut lines: Vec<Vec<Line<'_>>> = asks.iter().map(|_| Vec::new()).collect();
    for row in rows {
        let line = Line(row);
        match line.tag()? {
            "head" => head = Some(decode_head(row)?),
            "execution" => {
                let id = line.a()?;
                executions.insert(id, execution(id, line.s()?, line.t()?)?);
            }
            _ => match lines.get_mut(line.ask()?) {
                Some(lines) => lines.push(line),
                None => return Err(ReadError::Unreadable("load", "an answer nobody asked for".to_owned())),
            },
        }
    }
    let Some((version, header, now)) = head else {
        return Err(ReadError::Unreadable("load", "an answer without a head".to_owned()));
    };
    let answers = asks.into_iter().zip(lines).map(|(ask, lines)| match ask {
        Ask::Record(Key::Execution(id)) => Ok(Answer::Execution(id, executions.get(&id.0).cloned())),
        ask => decode_one(ask, &lines, header),
    });
    let answers = answers.collect::<Read<Vec<_>>>()?;
    Ok(Loaded { version, now, answers })
}

/// The version, what the newest commit says of the partition, and the time.
fn decode_head(row: &Row) -> Read<(Version, Header, Ms)> {
    let line = Line(row);
    let now = number("clock", line.t()?)?;
    let id: Option<Uuid> = column(row, 2)?;
    let Some(id) = id else { return Ok((Version::NONE, Header::default(), now)) };
    let sweep_at: Option<&str> = column(row, 7)?;
    let sweep_at = sweep_at.map(|text| number("sweep_at", text)).transpose()?;
    let header = Header { next_event: count(row, 5)?, sweep_at, now: column(row, 6)? };
    Ok((Version { number: count(row, 4)?, id: CommitId(id) }, header, now))
}

fn number(what: &'static str, text: &str) -> Read<i64> {
    text.parse().map_err(|_| ReadError::Unreadable(what, format!("{text:?} is no number")))
}

fn decode_one(ask: Ask, lines: &[Line<'_>], header: Header) -> Read<Answer> {
    let first = lines.first();
    Ok(match ask {
        Ask::Record(Key::Execution(id)) => Answer::Execution(id, None),
        Ask::Record(Key::Dedup(key)) => Answer::Dedup(key, first.map(dedup).transpose()?),
        Ask::Record(Key::Lane(name)) => Answer::Lane(name, first.map(|it| record("lane", it)).transpose()?),
        Ask::Record(Key::Worker(id)) => Answer::Worker(id, first.map(|it| record("worker", it)).transpose()?),
        Ask::Record(Key::Flow(id)) => {
            let flow = first.map(|line| graph::flow(id, line.s()?, line.t()?));
            Answer::Flow(id, flow.transpose()?)
        }
        Ask::Record(Key::Edge(key)) => {
            Answer::Edge(key, first.map(|line| graph::edge(line.s()?)).transpose()?)
        }
        Ask::Record(Key::Stream(id)) => Answer::Stream(id, first.map(|it| record("stream", it)).transpose()?),
        Ask::Record(Key::SigningKey(id)) => {
            Answer::SigningKey(id, first.map(|it| record("signing key", it)).transpose()?)
        }
        Ask::List { list, after, limit } => {
            let (mut entries, mut edges, mut executions) = (Vec::new(), Vec::new(), Vec::new());
            for line in lines {
                let id = line.a()?;
                entries.push((count(line.0, 4)?, ExecutionId(id)));
                if let Some(bytes) = column::<Option<&[u8]>>(line.0, 9)? {
                    edges.push(graph::edge(&String::from_utf8_lossy(bytes))?);
                }
                if column::<Option<&str>>(line.0, 7)?.is_some() {
                    executions.push(execution(id, line.s()?, line.t()?)?);
                }
            }
            Answer::List { list, after, limit, entries, edges, executions }
        }
        Ask::Opening => Answer::Opening(Box::new(opening(lines, header)?)),
        Ask::Ready { lane, class, limit, .. } => {
            let (mut entries, mut executions) = (Vec::new(), Vec::new());
            for line in lines {
                let id = line.a()?;
                entries.push((Place { rank: line.i()?, number: count(line.0, 5)? }, ExecutionId(id)));
                if column::<Option<&str>>(line.0, 7)?.is_some() {
                    executions.push(execution(id, line.s()?, line.t()?)?);
                }
            }
            Answer::Ready { lane, class, limit, entries, executions }
        }
        Ask::Agenda { .. } => {
            let mut reached = Ms::MAX;
            let mut entries = Vec::new();
            for line in lines {
                if line.tag()? == "reached" {
                    reached = line.i()?;
                    continue;
                }
                let key = AgendaKey { due: line.i()?, subject: subject(line.s()?, line.a()?)? };
                let message: Option<&str> = column(line.0, 8)?;
                let message = message.map(|text| parse::<Message>("message", text)).transpose()?;
                entries.push(AgendaEntry { key, message: message.map(Arc::new) });
            }
            Answer::Agenda { entries, reached }
        }
        Ask::Record(Key::Message(key)) => {
            Answer::Message(key, first.map(|it| record("message", it)).transpose()?)
        }
        Ask::Inbox { .. } => {
            let posted = lines.iter().map(|line| Ok(posted(line)?.0));
            Answer::Inbox(posted.collect::<Read<_>>()?)
        }
        Ask::DeadLetters { after, .. } => {
            let letters = lines.iter().map(|line| {
                let (posted, reason) = posted(line)?;
                Ok(DeadLetter { posted, reason: reason.unwrap_or_default(), at: column(line.0, 6)? })
            });
            Answer::DeadLetters { after, letters: letters.collect::<Read<_>>()? }
        }
        Ask::Changes { .. } => Answer::Changes(missed(lines, header)?.map(Box::new)),
        Ask::Registry { kind, id } => {
            let record = |line: &Line<'_>| {
                let record = Record::read(kind, line.s()?);
                record.map(Arc::new).map_err(|error| ReadError::Unreadable("record", error.to_string()))
            };
            Answer::Registry { kind, id, records: lines.iter().map(record).collect::<Read<_>>()? }
        }
        Ask::Sweep { .. } => Answer::Sweep(sweep(lines)?),
    })
}

fn record<T: serde::de::DeserializeOwned>(what: &'static str, line: &Line<'_>) -> Read<Arc<T>> {
    Ok(Arc::new(parse(what, line.s()?)?))
}

fn dedup(line: &Line<'_>) -> Read<Dedup> {
    Ok(Dedup { execution: ExecutionId(line.a()?), expires_at: line.i()? })
}

fn opening(lines: &[Line<'_>], header: Header) -> Read<Opening> {
    let mut opening = Opening { header, ..Opening::default() };
    for line in lines {
        match line.tag()? {
            "link" => opening.links.push(link(line)?),
            "lane" => opening.lanes.push(record("lane", line)?),
            "worker" => opening.workers.push(record("worker", line)?),
            "signing_key" => opening.signing_keys.push(record("signing key", line)?),
            "newest" => opening.newest = column::<Option<Uuid>>(line.0, 2)?.map(ExecutionId),
            "lease" => opening.leases.push((InstanceId(line.a()?), ExecutionId(line.b()?))),
            _ => opening.ready_counts.push(ready_count(line)?),
        }
    }
    opening.leases.sort_unstable();
    Ok(opening)
}

/// What commits have changed, or nothing if the store cannot tell it apart.
fn missed(lines: &[Line<'_>], header: Header) -> Read<Option<Missed>> {
    let mut missed = Missed { header, ..Missed::default() };
    for line in lines {
        match line.tag()? {
            "unknown" => return Ok(None),
            "changed" => {
                let id = line.a()?;
                let there = column::<Option<&str>>(line.0, 7)?.is_some();
                let found = there.then(|| execution(id, line.s()?, line.t()?)).transpose()?;
                missed.executions.push((ExecutionId(id), found));
            }
            "ended" => missed.ended.push(ExecutionId(line.a()?)),
            "other" => missed.add(other(parse("key", line.s()?)?, line)?),
            "link" => missed.links.push(link(line)?),
            _ => missed.ready_counts.push(ready_count(line)?),
        }
    }
    missed.executions.sort_unstable_by_key(|(id, _)| *id);
    missed.ended.sort_unstable();
    let graph = missed.flows.len() + missed.edges.len();
    let settings = missed.lanes.len() + missed.workers.len();
    let mail = missed.streams.len() + missed.signing_keys.len();
    let others = missed.dedup.len() + settings + graph + mail + missed.messages.len();
    let executions = missed.executions.len() + missed.ended.len();
    Ok((executions + others <= KEYS_TOLD).then_some(missed))
}

/// A changed record that is no execution.
fn other(key: Key, line: &Line<'_>) -> Read<Answer> {
    let there: Option<&str> = column(line.0, 8)?;
    Ok(match key {
        Key::Execution(id) => Answer::Execution(id, None),
        Key::Dedup(key) => {
            let there: Option<Uuid> = column(line.0, 2)?;
            Answer::Dedup(key, there.map(|_| dedup(line)).transpose()?)
        }
        Key::Lane(name) => Answer::Lane(name, there.map(|it| parse("lane", it)).transpose()?.map(Arc::new)),
        Key::Worker(id) => Answer::Worker(id, there.map(|it| parse("worker", it)).transpose()?.map(Arc::new)),
        Key::Flow(id) => Answer::Flow(id, there.map(|it| graph::whole_flow(id, it)).transpose()?),
        Key::Edge(key) => Answer::Edge(key, there.map(graph::edge).transpose()?),
        Key::Stream(id) => Answer::Stream(id, there.map(|it| parse("stream", it)).transpose()?.map(Arc::new)),
        Key::SigningKey(id) => {
            Answer::SigningKey(id, there.map(|it| parse("signing key", it)).transpose()?.map(Arc::new))
        }
        Key::Message(key) => {
            Answer::Message(key, there.map(|it| parse("message", it)).transpose()?.map(Arc::new))
        }
    })
}

/// The texts of a posted row, and why it is dead if it is.
#[derive(Deserialize)]
struct Texts {
    kind: String,
    namespace: Option<String>,
    lane: Option<String>,
    key: Option<String>,
    options: Option<String>,
    reason: Option<String>,
}

fn posted(line: &Line<'_>) -> Read<(Posted, Option<String>)> {
    let texts: Texts = parse("inbox", line.s()?)?;
    let bytes: &[u8] = column(line.0, 9)?;
    let posted = Posted {
        number: count(line.0, 4)?,
        id: Some(ExecutionId(line.a()?)),
        posted_at: column(line.0, 5)?,
        kind: texts.kind,
        input: Payload { content_type: line.t()?.into(), bytes: bytes::Bytes::copy_from_slice(bytes) },
        namespace: texts.namespace,
        lane: texts.lane,
        key: texts.key,
        options: texts.options,
    };
    Ok((posted, texts.reason))
}

fn link(line: &Line<'_>) -> Read<Link> {
    let peer = PartitionId(u16::try_from(line.i()?).unwrap_or(u16::MAX));
    Ok(Link { peer, sent: count(line.0, 5)?, received: count(line.0, 6)? })
}

fn ready_count(line: &Line<'_>) -> Read<(LaneName, Class, u64)> {
    Ok((lane(line.s()?)?, class(line.t()?)?, count(line.0, 4)?))
}

fn sweep(lines: &[Line<'_>]) -> Read<SweepPage> {
    let mut page = SweepPage::default();
    for line in lines {
        match line.tag()? {
            "ended" => {
                page.ended.push(EndedEntry { remove_at: line.i()?, execution: ExecutionId(line.a()?) });
            }
            "ended_flow" => page.flows.push((line.i()?, FlowId(line.a()?))),
            "expired" => {
                let namespace = Namespace::parse(line.s()?)
                    .map_err(|error| ReadError::Unreadable("namespace", error.to_string()))?;
                page.dedup.push((DedupKey { namespace, key: line.t()?.into() }, dedup(line)?));
            }
            _ => {
                let below: Option<i64> = column(line.0, 4)?;
                page.events_below = below.and_then(|it| u64::try_from(it).ok());
                page.next = column(line.0, 5)?;
            }
        }
    }
    Ok(page)
}
