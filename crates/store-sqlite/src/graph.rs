//! Flows, edges and the lists of a graph: how they are written and read.

use std::sync::Arc;

use ff_core::flow::{Edge, EdgeKey, Ending, Flow, FlowLive, FlowSpec, ListKey, On};
use ff_core::workspace::Answer;
use ff_core::{ExecutionId, FlowId};
use rusqlite::{Row, params};

use crate::apply::int;
use crate::reader::Reads;
use crate::records::{Read, ReadError, count, execution, id, json, text};

impl Reads<'_> {
    pub(crate) fn flow(&mut self, partition: i64, key: FlowId) -> Read<Answer> {
        let mut rows = self.sql.flow.query([key.0.as_bytes()])?;
        let found = match rows.next()? {
            Some(row) if row.get::<_, i64>(0)? == partition => {
                let (spec, live): (FlowSpec, FlowLive) = (json("spec", row, 1)?, json("live", row, 2)?);
                Some(Arc::new(Flow { id: key, spec: Arc::new(spec), live }))
            }
            _ => None,
        };
        Ok(Answer::Flow(key, found))
    }

    pub(crate) fn edge(&mut self, partition: i64, key: EdgeKey) -> Read<Answer> {
        let ask = params![key.upstream.0.as_bytes(), key.downstream.0.as_bytes(), partition];
        let mut rows = self.sql.edge.query(ask)?;
        let found = match rows.next()? {
            Some(row) => Some(Arc::new(edge(row)?)),
            None => None,
        };
        Ok(Answer::Edge(key, found))
    }

    pub(crate) fn list(&mut self, partition: i64, list: ListKey, after: u64, limit: usize) -> Read<Answer> {
        let (mut entries, mut edges, mut executions) = (Vec::new(), Vec::new(), Vec::new());
        let (statement, key) = match list {
            ListKey::Members(flow) => (&mut self.sql.members, flow.0),
            ListKey::Downstream(id) => (&mut self.sql.edges_to_downstreams, id.0),
            ListKey::Upstream(id) => (&mut self.sql.edges_from_upstreams, id.0),
        };
        let ask = params![key.as_bytes(), int(after), int(limit as u64), partition];
        let mut rows = statement.query(ask)?;
        while let Some(row) = rows.next()? {
            let (number, other, spec) = match list {
                ListKey::Members(_) => (count(row, 0)?, ExecutionId(id(row, 1)?), 2),
                ListKey::Downstream(_) | ListKey::Upstream(_) => {
                    let edge = edge(row)?;
                    let EdgeKey { upstream, downstream } = edge.key;
                    let far = if let ListKey::Downstream(_) = list { downstream } else { upstream };
                    let number = edge.number;
                    edges.push(Arc::new(edge));
                    (number, far, 11)
                }
            };
            entries.push((number, other));
            if row.get_ref(spec)? != rusqlite::types::ValueRef::Null {
                executions.push(Arc::new(execution(other, row, spec)?));
            }
        }
        Ok(Answer::List { list, after, limit, entries, edges, executions })
    }
}

fn edge(row: &Row<'_>) -> Read<Edge> {
    let unreadable = |what: &str| ReadError::Unreadable("edge", format!("a {what} nobody knows"));
    let counted: Option<String> = row.get(6)?;
    let field: Option<String> = row.get(5)?;
    Ok(Edge {
        key: EdgeKey { upstream: ExecutionId(id(row, 0)?), downstream: ExecutionId(id(row, 1)?) },
        flow: FlowId(id(row, 2)?),
        number: count(row, 3)?,
        on: On::from_word(text(row, 4)?).ok_or_else(|| unreadable("condition"))?,
        field: field.map(|it| it.parse()).transpose().map_err(|_| unreadable("field"))?,
        counted: match counted {
            Some(word) => Some(Ending::from_word(&word).ok_or_else(|| unreadable("ending"))?),
            None => None,
        },
        needed: row.get(7)?,
        passes: row.get(8)?,
        created_at: row.get(9)?,
        created_by: text(row, 10)?.into(),
    })
}
